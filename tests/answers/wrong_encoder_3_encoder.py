"""Wrong encoders, as students write them; `answers` names their mistakes, or none that is on a list."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import EncoderBlock, LayerNorm
from tests.answers.wrong_encoder_2_encoder_block import (
    MaskTurnedRound,
    OneNormTwice,
    PaperOf2017,
    PlusEquals,
    ReluInside,
    SecondSumForgotten,
    SumsOfNorms,
    SwishInside,
    WideInside,
)


class Stack(nn.Module):
    """The frame: blocks and a norm as the task has them, `forward` or the blocks wrong in each class."""

    block = EncoderBlock

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList(self.block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder", "unregistered")
class BlocksInAList(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(0, d_model, n_heads, d_ff)
        self.layers = [EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)]

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@answers("Encoder", "overwritten")
class BlocksInPlace(Stack):
    block = PlusEquals


@answers("Encoder", "repeated_block")
class ListTimesN(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(0, d_model, n_heads, d_ff)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)


@answers("Encoder", "repeated_block")
class OneBlockInALoop(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.n_layers = n_layers
        self.block = EncoderBlock(d_model, n_heads, d_ff)
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.block(x, mask)
        return self.norm(x)


@answers("Encoder", "repeated_block")
class AlwaysTheFirst(Stack):
    def forward(self, x, mask=None):
        for _ in self.blocks:
            x = self.blocks[0](x, mask)
        return self.norm(x)


@answers("Encoder", "no_last_norm")
class BlocksOnly(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers))

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "no_last_norm")
class NormThrownAway(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        self.norm(x)
        return x


@answers("Encoder", "norm_first")
class NormAtTheStart(Stack):
    def forward(self, x, mask=None):
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "norm_each")
class NormInTheLoop(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = self.norm(block(x, mask))
        return x


@answers("Encoder", "same_input")
class InputToAll(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            out = block(x, mask)
        return self.norm(out)


@answers("Encoder", "first_to_all")
class FirstToAll(Stack):
    def forward(self, x, mask=None):
        out = x = self.blocks[0](x, mask)
        for block in self.blocks[1:]:
            out = block(x, mask)
        return self.norm(out)


@answers("Encoder", "reversed")
class FromTheTop(Stack):
    def forward(self, x, mask=None):
        for block in reversed(self.blocks):
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder", "one_too_few")
class StopsEarly(Stack):
    def forward(self, x, mask=None):
        for i in range(len(self.blocks) - 1):
            x = self.blocks[i](x, mask)
        return self.norm(x)


@answers("Encoder", "one_too_few")
class StartsLate(Stack):
    def forward(self, x, mask=None):
        for i in range(1, len(self.blocks)):
            x = self.blocks[i](x, mask)
        return self.norm(x)


@answers("Encoder", "other_number")
class AlwaysSix(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(6, d_model, n_heads, d_ff)


@answers("Encoder", "outer_residual")
class ResidualAroundAll(Stack):
    def forward(self, x, mask=None):
        start = x
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x + start)


@answers("Encoder", "mask_ignored")
class NobodyIsMasked(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@answers("Encoder", "mask_first_only")
class MaskForTheFirst(Stack):
    def forward(self, x, mask=None):
        for i, block in enumerate(self.blocks):
            x = block(x, mask if i == 0 else None)
        return self.norm(x)


@answers("Encoder", "mask_inverted")
class InvertedForAll(Stack):
    block = MaskTurnedRound


@answers("Encoder", "post_norm")
class StackOfPostNorm(Stack):
    block = PaperOf2017


@answers("Encoder", "residual_of_norm")
class StackOfLostStreams(Stack):
    block = SumsOfNorms


@answers("Encoder", "no_residual_2")
class StackWithHalfTheSums(Stack):
    block = SecondSumForgotten


@answers("Encoder", "shared_norm")
class StackOfSharedNorms(Stack):
    block = OneNormTwice


@answers("Encoder", "relu")
class StackOfRelus(Stack):
    block = ReluInside


@answers("Encoder", "silu")
class StackOfSwish(Stack):
    block = SwishInside


@answers("Encoder", "other_width")
class StackOfWide(Stack):
    block = WideInside


@answers("Encoder", "post_norm", "no_last_norm")
class Original(Stack):
    block = PaperOf2017

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "repeated_block", "no_last_norm")
class OneBlockNoNorm(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "mask_ignored", "residual_of_norm")
class UnmaskedLostStreams(Stack):
    block = SumsOfNorms

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@answers("Encoder", "reversed", "mask_first_only")
class BackwardsAndOneMask(Stack):
    def forward(self, x, mask=None):
        for block in reversed(self.blocks):
            x, mask = block(x, mask), None
        return self.norm(x)


@answers("Encoder")
class PassesThrough(Stack):
    def forward(self, x, mask=None):
        return x


@answers("Encoder")
class OnlyTheNorm(Stack):
    def forward(self, x, mask=None):
        return self.norm(x)


@answers("Encoder")
class SumOfAll(Stack):
    def forward(self, x, mask=None):
        return self.norm(sum(block(x, mask) for block in self.blocks))


@answers("Encoder")
class SharedAttention(Stack):
    """One attention serves all layers."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(n_layers, d_model, n_heads, d_ff)
        for block in self.blocks:
            block.attention = self.blocks[0].attention


@answers("Encoder")
class TwiceThrough(Stack):
    def forward(self, x, mask=None):
        for block in [*self.blocks, *self.blocks]:
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder")
class MeanOfStates(Stack):
    def forward(self, x, mask=None):
        states = []
        for block in self.blocks:
            x = block(x, mask)
            states.append(x)
        return self.norm(torch.stack(states).mean(0))


@answers("Encoder")
class NormWithoutNumbers(Stack):
    """The last norm has no γ and β that are used."""

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return F.layer_norm(x, x.shape[-1:])


@answers("Encoder")
class CutOff(Stack):
    """Right outputs; no gradient gets past the last block."""

    def forward(self, x, mask=None):
        for block in self.blocks[:-1]:
            x = block(x, mask)
        return self.norm(self.blocks[-1](x.detach(), mask))


@answers("Encoder")
class ReturnsStates(Stack):
    def forward(self, x, mask=None):
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], mask))
        return self.norm(states[-1]), states


@answers("Encoder")
class CopiesMadeInForward(Stack):
    """Deep copies of one block: the same numbers in every layer, at every call."""

    def forward(self, x, mask=None):
        for i, _ in enumerate(self.blocks):
            block = copy.deepcopy(self.blocks[0])
            x = block(x, mask) * (i + 1)
        return self.norm(x)


@answers("Encoder")
class KeepsTheFirstMask(Stack):
    """Later masks of the same shape are replaced by it."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(n_layers, d_model, n_heads, d_ff)
        self.masks = {}

    def forward(self, x, mask=None):
        if mask is not None:
            mask = self.masks.setdefault((mask.shape, x.size(1)), mask)
        return super().forward(x, mask)
