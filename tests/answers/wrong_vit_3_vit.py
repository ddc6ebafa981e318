"""Wrong vision transformers, as students write them; `answers` names their mistakes, or none that is on a list.

None of this is made from the exercise's own `variation`.
"""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_vit import EncoderBlock, LayerNorm, LinearOfPatches, Plain
from tests.answers.wrong_vit_1_patchify import (
    as_vit_pytorch,
    channels_in_the_middle,
    columns_outside,
    from_data,
    permute_with_5_before_3,
    reshaped,
    size_before_number,
    unfolded_and_reshaped,
)

# --- ViT: one known mistake each ---


class Steps(Plain):
    """A right ViT in steps, so that each class below changes one of them."""

    def prepend(self, x):
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)

    def tokens(self, images):
        return self.prepend(self.embed(images)) + self.positions

    def encode(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def read(self, x):
        return x[:, 0]

    def forward(self, images):
        return self.head(self.read(self.norm(self.encode(self.tokens(images)))))


@answers("ViT", "unregistered")
class BlocksInAList(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@answers("ViT", "unregistered")
class ClassIsAPlainTensor(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        width = self.class_token.size(-1)
        del self.class_token
        self.class_token = torch.randn(1, 1, width)


@answers("ViT", "no_embedding_bias")
class HeadWithoutBias(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head = nn.Linear(self.head.in_features, self.head.out_features, bias=False)


@answers("ViT", "no_embedding_bias")
class PatchesWithoutBias(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.embed.projection.bias = None


@answers("ViT", "frozen")
class FixedPositions(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = nn.Parameter(torch.randn_like(self.positions), requires_grad=False)


@answers("ViT", "not_expanded")
class OneClassForTheBatch(Steps):
    def prepend(self, x):
        return torch.cat([self.class_token, x], dim=1)


@answers("ViT", "hard_coded")
class SeventeenPositions(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.positions = nn.Parameter(0.02 * torch.randn(17, d_model))


@answers("ViT", "hard_coded")
class TenClasses(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, 10, d_model, n_layers, n_heads, d_ff)


@answers("ViT", "no_class_token")
class PatchesOnly(nn.Module):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.embed = LinearOfPatches(patch_size, channels, d_model)
        self.positions = nn.Parameter(0.02 * torch.randn((image_size // patch_size) ** 2, d_model))
        self.blocks = nn.Sequential(*[EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def read(self, x):
        return x[:, 0]

    def forward(self, images):
        return self.head(self.read(self.norm(self.blocks(self.embed(images) + self.positions))))


@answers("ViT", "class_at_the_end")
class Appended(Steps):
    def prepend(self, x):
        return torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=1)


@answers("ViT", "class_last")
class AppendedAndReadThere(Appended):
    def read(self, x):
        return x[:, -1]


@answers("ViT")
class ClassInABuffer(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        width = self.class_token.size(-1)
        del self.class_token
        self.register_buffer("class_token", torch.zeros(1, 1, width))


@answers("ViT", "class_constant")
class ZerosInFront(Steps):
    def prepend(self, x):
        return F.pad(x, (0, 0, 1, 0))


@answers("ViT", "no_positions")
class PositionsForgotten(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images))


@answers("ViT", "no_positions")
class SumThrownAway(Steps):
    def tokens(self, images):
        x = self.prepend(self.embed(images))
        x + self.positions
        return x


@answers("ViT", "class_without_position")
class AddedBeforePrepended(Steps):
    def __init__(self, image_size, patch_size, *sizes):
        super().__init__(image_size, patch_size, *sizes)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image_size // patch_size) ** 2, sizes[2]))

    def tokens(self, images):
        return self.prepend(self.embed(images) + self.positions)


@answers("ViT", "class_without_position")
class FirstRowUnused(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images) + self.positions[1:])


@answers("ViT", "by_batch")
class PositionOfTheImage(Steps):
    def tokens(self, images):
        x = self.prepend(self.embed(images))
        return x + self.positions[torch.arange(x.size(0))].unsqueeze(1)


@answers("ViT", "one_position")
class OnePositionForAll(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = nn.Parameter(torch.randn(1, 1, self.positions.size(-1)))


@answers("ViT", "one_position")
class FirstRowForAll(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images)) + self.positions[0]


def embedded_by(cut):
    """A ViT whose patches are cut in this way."""

    class Wrong(Steps):
        def tokens(self, images):
            patches = cut(images, self.embed.patch_size)
            return self.prepend(self.embed.projection(patches)) + self.positions

    Wrong.__module__, Wrong.__name__ = __name__, f"Vit_{cut.__name__}"
    return Wrong


Vit_strips = answers("ViT", "plain_reshape")(embedded_by(reshaped))
Vit_strided = answers("ViT", "strided")(embedded_by(size_before_number))
Vit_columns = answers("ViT", "column_major")(embedded_by(columns_outside))
Vit_transposed = answers("ViT", "transposed")(embedded_by(permute_with_5_before_3))
Vit_channels_last = answers("ViT", "channels_last")(embedded_by(as_vit_pytorch))
Vit_channels_between = answers("ViT", "channels_between")(embedded_by(channels_in_the_middle))
Vit_channels_mixed = answers("ViT", "channels_mixed")(embedded_by(unfolded_and_reshaped))
Vit_detached = answers("ViT", "detached")(embedded_by(from_data))


@answers("ViT", "encoder_skipped")
class ResultsThrownAway(Steps):
    def encode(self, x):
        for block in self.blocks:
            block(x)
        return x


@answers("ViT", "repeated_block")
class ListTimesLayers(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)


@answers("ViT", "repeated_block")
class OneBlockInALoop(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.n_layers, self.blocks = n_layers, None
        self.block = EncoderBlock(d_model, n_heads, d_ff)

    def encode(self, x):
        for _ in range(self.n_layers):
            x = self.block(x)
        return x


@answers("ViT", "not_chained")
class EachBlockReadsTheSame(Steps):
    def encode(self, x):
        for block in self.blocks:
            out = block(x)
        return out


@answers("ViT", "first_block_only")
class ReturnsInTheLoop(Steps):
    def encode(self, x):
        for block in self.blocks:
            x = block(x)
            return x


@answers("ViT", "first_block_only")
class OneBlockMade(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, 1, n_heads, d_ff)


@answers("ViT", "no_last_norm")
class HeadReadsTheStream(Steps):
    def forward(self, images):
        return self.head(self.read(self.encode(self.tokens(images))))


@answers("ViT", "no_last_norm")
class NormNeverMade(HeadReadsTheStream):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.norm


@answers("ViT", "over_tokens_and_features")
class NormOfTokensAndFeatures(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.norm = nn.LayerNorm(self.positions.shape)


@answers("ViT", "reads_last")
class ReadsTheEnd(Steps):
    def read(self, x):
        return x[:, -1]


@answers("ViT", "mean_pooled")
class MeanOfAll(Steps):
    def read(self, x):
        return x.mean(dim=1)


@answers("ViT", "mean_of_patches")
class MeanOfPatches(Steps):
    def read(self, x):
        return x[:, 1:].mean(dim=1)


@answers("ViT", "all_tokens")
class LogitsForEveryToken(Steps):
    def read(self, x):
        return x


@answers("ViT", "softmax")
class Probabilities(Steps):
    def forward(self, images):
        return super().forward(images).softmax(dim=-1)


@answers("ViT", "softmax")
class LogProbabilities(Steps):
    def forward(self, images):
        return F.log_softmax(super().forward(images), dim=1)


# --- two at once ---


@answers("ViT", "no_class_token", "mean_pooled")
class GlobalAveragePooling(PatchesOnly):
    """A right model, and not the one that is asked for."""

    def read(self, x):
        return x.mean(1)


@answers("ViT", "class_without_position", "softmax")
class BeforeAndSoftmax(FirstRowUnused):
    def forward(self, images):
        return super().forward(images).softmax(-1)


@answers("ViT", "no_last_norm", "mean_pooled")
class MeanOfTheStream(HeadReadsTheStream):
    def read(self, x):
        return x.mean(1)


@answers("ViT", "transposed", "no_positions")
class TurnedWithoutPositions(Vit_transposed):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.positions
        self.positions = 0


@answers("ViT", "class_at_the_end", "repeated_block")
class AppendedAndRepeated(ListTimesLayers):
    def prepend(self, x):
        return torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=1)


@answers("ViT", "plain_reshape", "softmax")
class StripsAndSoftmax(Vit_strips):
    def forward(self, images):
        return super().forward(images).softmax(-1)


# --- ViT: mistakes on no list ---


@answers("ViT")
class HeadReadsAllTokensFlat(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head = nn.Linear(self.positions.numel(), sizes[3])

    def read(self, x):
        return x.flatten(1)


@answers("ViT")
class NormBeforeTheBlocks(Steps):
    def encode(self, x):
        return super().encode(self.norm(x))

    def forward(self, images):
        return self.head(self.read(self.encode(self.tokens(images))))


@answers("ViT")
class PositionsInEveryBlock(Steps):
    def encode(self, x):
        for block in self.blocks:
            x = block(x + self.positions)
        return x


@answers("ViT")
class PositionsAfterTheEncoder(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images))

    def encode(self, x):
        return super().encode(x) + self.positions


@answers("ViT")
class PositionsMultiplied(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images)) * self.positions


@answers("ViT")
class MaxPooled(Steps):
    def read(self, x):
        return x.amax(1)


@answers("ViT")
class HeadWithGelu(Steps):
    def forward(self, images):
        return F.gelu(super().forward(images))


@answers("ViT")
class ClassTwice(Steps):
    """[class] in front of the patches, and added to each of them."""

    def prepend(self, x):
        return super().prepend(x + self.class_token)


@answers("ViT")
class ResidualAroundTheBlocks(Steps):
    def encode(self, x):
        return x + super().encode(x)


@answers("ViT")
class FirstBlockOnceMore(Steps):
    """The tokens pass through the first block again, after the last."""

    def encode(self, x):
        return self.blocks[0](super().encode(x))


@answers("ViT")
class ClassOfTheFirstImage(Steps):
    """Every image is answered with what the first one's [class] has gathered."""

    def read(self, x):
        return x[:1, 0].expand(len(x), -1)


@answers("ViT")
class RandomAnswers(Steps):
    def forward(self, images):
        return torch.rand_like(super().forward(images))
