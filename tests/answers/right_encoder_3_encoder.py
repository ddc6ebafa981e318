"""Right encoders in the styles that people write: each class earns full marks."""

from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import (
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MultiHeadSelfAttention,
    NumberedBackwards,
    OwnFusedAttention,
    PyTorchsNorm,
    Wrapped,
)


@answers("Encoder")
class Encoder(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder")
class NormFirstDeclared(nn.Module):
    """The last norm declared first, a while loop, blocks of another style."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.final_norm = nn.LayerNorm(d_model)
        self.layers = nn.ModuleList([])
        while len(self.layers) < n_layers:
            self.layers.append(NumberedBackwards(d_model, n_heads, d_ff))

    def forward(self, x, mask=None):
        i = 0
        while i < len(self.layers):
            x = self.layers[i].forward(x, mask)
            i += 1
        return self.final_norm(x)


@answers("Encoder")
class NamedLayers(nn.Module):
    """add_module and getattr in place of a ModuleList."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.n_layers = n_layers
        for i in range(n_layers):
            self.add_module(f"layer{i}", Wrapped(d_model, n_heads, d_ff))
        self.ln_f = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for i in range(self.n_layers):
            x = getattr(self, f"layer{i}")(x, mask)
        return self.ln_f(x)


@answers("Encoder")
class ListsOfParts(nn.Module):
    """No block: a list for each kind of layer."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.attentions = nn.ModuleList(MultiHeadSelfAttention(d_model, n_heads) for _ in range(n_layers))
        self.norms1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.norms2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.feed_forwards = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        for attend, n1, n2, think in zip(self.attentions, self.norms1, self.norms2, self.feed_forwards, strict=True):
            x = x + attend(n1(x), mask)
            x = x + think(n2(x))
        return self.norm(x)


@answers("Encoder")
class FlatList(nn.Module):
    """Halves of blocks in one list, taken in turns."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.halves = nn.ModuleList()
        for _ in range(n_layers):
            self.halves.append(Wrapped.Residual(d_model, MultiHeadSelfAttention(d_model, n_heads)))
            self.halves.append(Wrapped.Residual(d_model, FeedForward(d_model, d_ff)))
        self.halves.append(LayerNorm(d_model))

    def forward(self, x, mask=None):
        for place, half in enumerate(self.halves[:-1]):
            x = half(x) if place % 2 else half(x, mask)
        return self.halves[-1](x)


@answers("Encoder")
class Recursive(nn.Module):
    """A block, and the rest of the encoder."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.stack = nn.ModuleDict({str(i): EncoderBlock(d_model, n_heads, d_ff) for i in range(n_layers)})
        self.top = LayerNorm(d_model)

    def run(self, x, mask, i):
        if str(i) not in self.stack:
            return self.top(x)
        return self.run(self.stack[str(i)](x, mask), mask, i + 1)

    def forward(self, x, mask=None):
        return self.run(x, mask, 0)


@answers("Encoder")
class FusedBlocks(nn.Module):
    """Blocks whose attention has one map for q, k and v; the mask as a keyword; an outer wrapper."""

    class Body(nn.Module):
        def __init__(self, n, d, h, f):
            super().__init__()
            self.h = nn.ModuleList(OwnFusedAttention(d, h, f) for _ in range(n))
            self.ln = nn.LayerNorm(d)

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.transformer = self.Body(n_layers, d_model, n_heads, d_ff)

    def forward(self, x, mask=None):
        for block in self.transformer.h:
            x = block(x, mask=mask)
        return self.transformer.ln(x)


@answers("Encoder")
class Written(nn.Module):
    """The last norm written out, the feed-forward network written into the block, all states kept."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.enc_layers = nn.ModuleList([PyTorchsNorm(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        states = [x]
        for layer in self.enc_layers:
            states.append(layer(states[-1], mask))
        last = states[-1]
        centred = last - last.mean(-1, keepdim=True)
        spread = (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / spread * self.norm.gamma + self.norm.beta


@answers("Encoder")
class Reduced(Encoder):
    """functools.reduce over the blocks."""

    def forward(self, x, mask=None):
        from functools import reduce

        return self.norm(reduce(lambda stream, block: block(stream, mask), self.blocks, x))
