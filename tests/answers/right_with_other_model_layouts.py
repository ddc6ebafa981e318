"""Right encoders, decoders and vision transformers in layouts, and by names, that no list foresees."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import FeedForward as GivenFeedForward
from tests.answers.right_encoder import FeedForward, LayerNorm, MultiHeadSelfAttention
from tests.answers.right_vit import EncoderBlock as GivenBlock
from tests.answers.right_vit import reshape_permute
from tests.answers.right_with_other_layouts import (
    FROM_MEMORY,
    SELF,
    BlockAround,
    EverythingBare,
    FusedInTheBlock,
    HeadsInTheBlock,
    as_answer,
    attend,
    cut,
    glue,
    normalized,
    number,
    zeros,
)

# --- Encoders ---


class EncoderAround(nn.Module):
    """A stack of blocks; the last norm written out, with a bare gain and shift."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.steps = nn.ModuleList(self.block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), zeros(d_model)

    def forward(self, x, mask=None):
        for step in self.steps:
            x = step(x, mask)
        return normalized(x, self.gamma, self.beta)


for style in (FusedInTheBlock, EverythingBare, HeadsInTheBlock):
    as_answer(globals(), "Encoder", f"EncoderOf{style.__name__}", EncoderAround, block=style)
for style in SELF:
    block = type(f"Around{style.__name__}", (BlockAround,), {"attention": style})
    as_answer(globals(), "Encoder", f"EncoderAround{style.__name__}", EncoderAround, block=block)


@answers("Encoder")
class StackedOverLayers(nn.Module):
    """One tensor for each kind of parameter, with an axis for the layers."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.n_layers, self.n_heads = n_layers, n_heads
        self.q, self.k, self.v, self.o = (number(n_layers, d_model, d_model) for _ in range(4))
        self.gain, self.shift = nn.Parameter(torch.ones(n_layers, d_model)), zeros(n_layers, d_model)
        self.gain_2, self.shift_2 = nn.Parameter(torch.ones(n_layers, d_model)), zeros(n_layers, d_model)
        self.w1, self.b1 = number(n_layers, d_model, d_ff), zeros(n_layers, d_ff)
        self.w2, self.b2 = number(n_layers, d_ff, d_model), zeros(n_layers, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        for i in range(self.n_layers):
            n = normalized(x, self.gain[i], self.shift[i])
            heads = attend(*(cut(n @ w[i], self.n_heads) for w in (self.q, self.k, self.v)), mask)
            x = x + glue(heads) @ self.o[i]
            n = normalized(x, self.gain_2[i], self.shift_2[i])
            x = x + F.gelu(n @ self.w1[i] + self.b1[i]) @ self.w2[i] + self.b2[i]
        return self.norm(x)


@answers("Encoder")
class ListsOfNumbers(nn.Module):
    """Lists of bare parameters, by kind; the last norm is the last entry of the lists of the norms."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.n_layers = n_layers
        self.attentions = nn.ModuleList(MultiHeadSelfAttention(d_model, n_heads) for _ in range(n_layers))
        self.nets = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_layers))
        self.gains = nn.ParameterList(torch.ones(d_model) for _ in range(2 * n_layers + 1))
        self.shifts = nn.ParameterList(torch.zeros(d_model) for _ in range(2 * n_layers + 1))

    def forward(self, x, mask=None):
        for i in range(self.n_layers):
            x = x + self.attentions[i](normalized(x, self.gains[2 * i], self.shifts[2 * i]), mask)
            x = x + self.nets[i](normalized(x, self.gains[2 * i + 1], self.shifts[2 * i + 1]))
        return normalized(x, self.gains[-1], self.shifts[-1])


@answers("EncoderBlock")
class NormsSideBySide(nn.Module):
    """The scales of both norms are the columns of one parameter, and their shifts those of another."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.net = MultiHeadSelfAttention(d_model, n_heads), FeedForward(d_model, d_ff)
        self.gains, self.shifts = nn.Parameter(torch.ones(d_model, 2)), nn.Parameter(torch.zeros(d_model, 2))

    def forward(self, x, mask=None):
        x = x + self.attention(normalized(x, self.gains[:, 0], self.shifts[:, 0]), mask)
        return x + self.net(normalized(x, self.gains[:, 1], self.shifts[:, 1]))


# --- DecoderBlock ---


class DecoderAround(nn.Module):
    """Two attentions of one style, three norms, a network; none of them is called what it is."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.one, self.two = self.attention(d_model, n_heads), self.attention(d_model, n_heads)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.net = GivenFeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        own = None if mask is None else mask[None, None]
        x = x + self.two(self.norms[0](x), own)
        x = x + self.one(self.norms[1](x), memory_mask, memory)
        return x + self.net(self.norms[2](x))


for style in FROM_MEMORY:
    as_answer(globals(), "DecoderBlock", f"DecoderAround{style.__name__}", DecoderAround, attention=style)


@answers("DecoderBlock")
class FusedDecoder(nn.Module):
    """A fused map for the self-attention, another for keys and values of the memory, all in the block."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.kv, self.ask, self.c_proj = (nn.Linear(d_model, n * d_model) for n in (2, 1, 1))
        self.a, self.b, self.c = (LayerNorm(d_model) for _ in range(3))
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        q, k, v = (cut(t, self.n_heads) for t in self.qkv(self.b(x)).chunk(3, -1))
        x = x + self.proj(glue(attend(q, k, v, mask)))
        k, v = (cut(t, self.n_heads) for t in self.kv(memory).chunk(2, -1))
        x = x + self.c_proj(glue(attend(cut(self.ask(self.a(x)), self.n_heads), k, v, memory_mask)))
        return x + self.down(F.gelu(self.up(self.c(x))))


@answers("DecoderBlock")
class DecoderInOneTensor(nn.Module):
    """The eight maps of both attentions lie in one tensor along two axes, their inputs first."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.maps, self.shifts = number(2, 4, d_model, d_model), zeros(2, 4, d_model)
        self.gains, self.offsets = nn.Parameter(torch.ones(3, d_model)), zeros(3, d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def branch(self, i, x, memory, mask):
        sources = (x, memory, memory)
        heads = (cut(t @ w + b, self.n_heads) for t, w, b in zip(sources, self.maps[i], self.shifts[i], strict=False))
        return glue(attend(*heads, mask)) @ self.maps[i, 3] + self.shifts[i, 3]

    def forward(self, x, memory, mask=None, memory_mask=None):
        norm = lambda i, x: normalized(x, self.gains[i], self.offsets[i])  # noqa: E731
        x = x + self.branch(0, norm(0, x), norm(0, x), mask)
        x = x + self.branch(1, norm(1, x), memory, memory_mask)
        return x + self.down(F.gelu(self.up(norm(2, x))))


# --- CachedSelfAttention ---


@answers("CachedSelfAttention")
class CachedInOneTensor(nn.Module):
    """Four maps in one tensor, four biases in another: where d_model is 4, that is as large as a map."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.maps, self.shifts = number(4, d_model, d_model), zeros(4, d_model)

    def forward(self, x, cache=None):
        q, k, v = (cut(F.linear(x, w, b), self.n_heads) for w, b in zip(self.maps[:3], self.shifts[:3], strict=True))
        if cache is not None:
            k, v = (torch.cat(pair, -2) for pair in zip(cache, (k, v), strict=True))
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
        return F.linear(glue(attend(q, k, v, seen)), self.maps[3], self.shifts[3]), (k, v)


# --- PatchEmbedding and ViT ---


@answers("PatchEmbedding")
class Symbols(nn.Module):
    """E and b, as in the formula."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.b, self.E = zeros(d_model), number(channels * patch_size**2, d_model)

    def forward(self, images):
        return reshape_permute(images, self.p) @ self.E + self.b


@answers("PatchEmbedding")
class BiasBesideTheMap(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.kernel = nn.Conv2d(channels, d_model, patch_size, patch_size, bias=False)
        self.thing = zeros(1, d_model, 1, 1)

    def forward(self, images):
        return (self.kernel(images) + self.thing).flatten(2).transpose(1, 2)


@answers("PatchEmbedding")
class ParametersInAList(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.a = nn.ParameterList([zeros(d_model), number(d_model, channels, patch_size, patch_size)])

    def forward(self, images):
        return F.conv2d(images, self.a[1], self.a[0], stride=self.p).flatten(2).mT


@answers("PatchEmbedding")
class MapForEachColour(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.maps = nn.ModuleList(nn.Linear(patch_size**2, d_model, bias=False) for _ in range(channels))
        self.shift = zeros(d_model)

    def forward(self, images):
        colours = images.split(1, dim=1)
        return self.shift + sum(m(reshape_permute(c, self.p)) for m, c in zip(self.maps, colours, strict=True))


class SymbolViT(nn.Module):
    """E, b, W and c of the formula, and letters for [class] and positions, around blocks of any style."""

    block = GivenBlock

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.p, n_patches = patch_size, (image_size // patch_size) ** 2
        self.E, self.b = number(channels * patch_size**2, d_model), zeros(d_model)
        self.W, self.c = number(d_model, n_classes), zeros(n_classes)
        self.x, self.y = (
            nn.Parameter(0.02 * torch.randn(1 + n_patches, d_model)),
            nn.Parameter(0.02 * torch.randn(d_model)),
        )
        self.blocks = nn.ModuleList(self.block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.thing, self.other = nn.Parameter(torch.ones(d_model)), zeros(d_model)

    def forward(self, images):
        patches = reshape_permute(images, self.p) @ self.E + self.b
        z = torch.cat([self.y.expand(len(images), 1, -1), patches], 1) + self.x
        for block in self.blocks:
            z = block(z)
        return normalized(z[:, 0], self.thing, self.other) @ self.W + self.c


as_answer(globals(), "ViT", "SymbolsAroundTheGiven", SymbolViT)
for style in (FusedInTheBlock, EverythingBare, HeadsInTheBlock):
    as_answer(globals(), "ViT", f"SymbolsAround{style.__name__}", SymbolViT, block=style)


@answers("ViT")
class ListOfParameters(nn.Module):
    """All bare parameters in one list."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.p, n_patches = patch_size, (image_size // patch_size) ** 2
        self.all = nn.ParameterList(
            [number(1, 1, d_model), number(d_model, channels * patch_size**2), zeros(d_model), zeros(n_classes)]
        )
        self.all.append(number(1, n_patches + 1, d_model))
        self.all.append(number(n_classes, d_model))
        self.layers = nn.Sequential(*(GivenBlock(d_model, n_heads, d_ff) for _ in range(n_layers)))
        self.last = nn.LayerNorm(d_model)

    def forward(self, images):
        token, embed, shift, c, places, head = self.all
        x = F.linear(reshape_permute(images, self.p), embed, shift)
        x = torch.cat([token.repeat(len(x), 1, 1), x], 1) + places
        return F.linear(self.last(self.layers(x))[:, 0], head, c)


@answers("ViT")
class ClassPlacedByItself(nn.Module):
    """The table of positions in two: a row for [class], and the rows of the patches."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.p, n_patches = patch_size, (image_size // patch_size) ** 2
        self.embed, self.out = nn.Linear(channels * patch_size**2, d_model), nn.Linear(d_model, n_classes)
        self.class_position, self.class_token = number(1, 1, d_model), number(1, 1, d_model)
        self.patch_positions = number(1, n_patches, d_model)
        self.blocks = nn.Sequential(*(GivenBlock(d_model, n_heads, d_ff) for _ in range(n_layers)))
        self.last = nn.LayerNorm(d_model)

    def forward(self, images):
        patches = self.embed(reshape_permute(images, self.p)) + self.patch_positions
        token = (self.class_token + self.class_position).expand(len(images), -1, -1)
        return self.out(self.last(self.blocks(torch.cat([token, patches], 1)))[:, 0])


@answers("FeedForward")
class MatricesAndBiases(nn.Module):
    """Matrices in one dictionary, biases in another, where as many as d_model look like those of a norm."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.weights = nn.ParameterDict({"W1": number(d_model, d_ff), "W2": number(d_ff, d_model)})
        self.biases = nn.ParameterDict({"b1": torch.zeros(d_ff), "b2": torch.zeros(d_model)})

    def forward(self, x):
        hidden = torch.tensordot(x, self.weights["W1"], dims=1) + self.biases["b1"]
        return torch.tensordot(F.gelu(hidden), self.weights["W2"], dims=1) + self.biases["b2"]
