"""Right patches and vision transformers in the styles that people write. Everything here earns full marks."""

import copy
import functools
import math

import torch
import torch.nn.functional as F
from einops import rearrange
from einops.layers.torch import Rearrange
from torch import nn

from tests.answers import answers

# --- patchify ---


@answers("patchify")
def reshape_permute(images, patch_size):
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (h // patch_size) * (w // patch_size), c * patch_size**2)


@answers("patchify")
def sliding_window(images, patch_size):
    return F.unfold(images, patch_size, stride=patch_size).mT


@answers("patchify")
def tensor_unfold(images, patch_size):
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)  # (b, c, rows, columns, p, p)
    return x.movedim(1, 3).flatten(3).flatten(1, 2)


@answers("patchify")
def loops_over_the_grid(images, patch_size):
    patches = []
    for top in range(0, images.shape[2], patch_size):
        for left in range(0, images.shape[3], patch_size):
            patches.append(images[:, :, top : top + patch_size, left : left + patch_size].flatten(1))
    return torch.stack(patches, dim=1)


@answers("patchify")
def with_einops(images, patch_size):
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (c p1 p2)", p1=patch_size, p2=patch_size)


@answers("patchify")
def convolution_that_copies(images, patch_size):
    """A kernel for every number of a patch, 1 at its place and 0 elsewhere."""
    channels = images.shape[1]
    size = channels * patch_size**2
    kernels = torch.eye(size, dtype=images.dtype).view(size, channels, patch_size, patch_size)
    return F.conv2d(images, kernels, stride=patch_size).flatten(2).transpose(1, 2)


@answers("patchify")
def split_and_stack(images, patch_size):
    rows = images.split(patch_size, dim=-2)
    patches = [patch for row in rows for patch in row.split(patch_size, dim=-1)]
    return torch.stack([p.contiguous().view(p.shape[0], -1) for p in patches]).transpose(0, 1)


@answers("patchify")
def two_transposes(images, patch_size):
    b, c, h, w = images.size()
    x = images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))  # (b, c, rows, p, columns, p)
    x = x.transpose(3, 4).transpose(1, 2).transpose(2, 3)
    assert x.shape == (b, h // patch_size, w // patch_size, c, patch_size, patch_size)
    return x.contiguous().view(b, -1, c * patch_size * patch_size)


@answers("patchify")
def written_into_place(images, patch_size):
    b, c, h, w = images.shape
    rows, columns = h // patch_size, w // patch_size
    out = images.new_zeros(b, rows * columns, c * patch_size**2)
    for i in range(rows * columns):
        y, x = i // columns * patch_size, i % columns * patch_size
        out[:, i] = images[:, :, y : y + patch_size, x : x + patch_size].reshape(b, -1)
    return out


@answers("patchify")
def by_index(images, patch_size):
    """The number of every pixel, cut once, then looked up for the whole batch."""
    numbers = torch.arange(images[0].numel()).reshape(1, *images.shape[1:])
    return images.flatten(1)[:, reshape_permute(numbers, patch_size)[0]]


@answers("patchify")
def one_image_at_a_time(images, patch_size):
    print("patchify", tuple(images.shape))

    def of_one(image):
        strips = torch.chunk(image, image.shape[1] // patch_size, dim=1)
        cells = [cell for strip in strips for cell in torch.chunk(strip, image.shape[2] // patch_size, dim=2)]
        return torch.stack([torch.cat([channel.ravel() for channel in cell]) for cell in cells])

    return torch.stack(list(map(of_one, images)))


# --- PatchEmbedding ---


@answers("PatchEmbedding")
class LinearOfPatches(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, d_model)

    def forward(self, images):
        return self.projection(reshape_permute(images, self.patch_size))


@answers("PatchEmbedding")
class Convolution(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.proj = nn.Conv2d(channels, d_model, kernel_size=patch_size, stride=patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


@answers("PatchEmbedding")
class EinopsSequence(nn.Sequential):
    def __init__(self, patch_size, channels, d_model):
        super().__init__(
            Rearrange("b c (h p1) (w p2) -> b (h w) (c p1 p2)", p1=patch_size, p2=patch_size),
            nn.Linear(channels * patch_size * patch_size, d_model),
        )


@answers("PatchEmbedding")
class RawMatrix(nn.Module):
    """E as in the paper: it multiplies from the right."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.E = nn.Parameter(torch.randn(channels * patch_size**2, d_model) / patch_size)
        self.b = nn.Parameter(torch.zeros(d_model))

    def forward(self, images):
        return F.unfold(images, self.p, stride=self.p).transpose(1, 2) @ self.E + self.b


@answers("PatchEmbedding")
class RawMatrixCalledWeight(nn.Module):
    """A parameter of its own, with the name that nn.Linear uses for the other orientation."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.size = patch_size
        self.weight = nn.Parameter(torch.randn(channels * patch_size**2, d_model) / patch_size)
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, images):
        return reshape_permute(images, self.size) @ self.weight + self.bias


@answers("PatchEmbedding")
class EinsumKernels(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.kernels = nn.Parameter(torch.randn(d_model, channels, patch_size, patch_size))
        self.offset = nn.Parameter(torch.zeros(1, 1, d_model))

    def forward(self, images):
        windows = images.unfold(2, self.p, self.p).unfold(3, self.p, self.p)
        tokens = torch.einsum("bcyxij,dcij->byxd", windows, self.kernels)
        return tokens.flatten(1, 2) + self.offset


@answers("PatchEmbedding")
class PatchByPatch(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.size = patch_size
        self.map = nn.Linear(channels * patch_size**2, d_model)

    def forward(self, images):
        tokens = []
        for row in images.split(self.size, 2):
            for patch in row.split(self.size, 3):
                tokens.append(self.map(patch.flatten(1)))
        return torch.stack(tokens, 1)


@answers("PatchEmbedding")
class ConvolutionByEinops(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        conv = nn.Conv2d(channels, d_model, patch_size, patch_size)
        self.layers = nn.Sequential(conv, Rearrange("b d h w -> b (h w) d"))

    def forward(self, images):
        return self.layers(images)


@answers("PatchEmbedding")
class FunctionalLinear(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size = patch_size
        self.weight = nn.Parameter(torch.empty(d_model, channels * patch_size**2))
        self.bias = nn.Parameter(torch.empty(d_model))
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, images):
        return F.linear(loops_over_the_grid(images, self.patch_size), self.weight, self.bias)


# --- ViT: the given blocks, as they stand in the lab ---


def attention(q, k, v):
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(dim=-1)
    return weights @ v, weights


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        heads, self.weights = attention(q, k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return self.gamma * (centred * torch.rsqrt(variance + self.eps)) + self.beta


class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attention = SelfAttention(d_model, n_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


@answers("ViT")
class Plain(nn.Module):
    def __init__(
        self,
        image_size=28,
        patch_size=7,
        channels=1,
        n_classes=10,
        d_model=64,
        n_layers=2,
        n_heads=4,
        d_ff=128,
    ):
        super().__init__()
        n_patches = (image_size // patch_size) ** 2
        self.embed = LinearOfPatches(patch_size, channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.positions = nn.Parameter(0.02 * torch.randn(n_patches + 1, d_model))
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, images):
        x = self.embed(images)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


@answers("ViT")
class TorchLayers(nn.Module):
    """Everything that torch has: a convolution, its encoder layers, its norm."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.conv_proj = nn.Conv2d(channels, d_model, patch_size, stride=patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, d_model))
        self.pos_embedding = nn.Parameter(
            torch.empty(1, (image_size // patch_size) ** 2 + 1, d_model).normal_(std=0.02)
        )
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.heads = nn.Linear(d_model, n_classes)

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).mT
        x = torch.cat([self.cls.repeat(x.shape[0], 1, 1), x], 1) + self.pos_embedding
        return self.heads(self.encoder(x)[:, 0, :])


@answers("ViT")
class SequentialBlocks(nn.Module):
    """Blocks in a Sequential, norm and head in another, positions in an nn.Embedding."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.patches = EinopsSequence(patch_size, channels, d_model)
        n_tokens = 1 + (image_size // patch_size) ** 2
        self.cls_token = nn.Parameter(torch.zeros(d_model))
        self.places = nn.Embedding(n_tokens, d_model)
        self.transformer = nn.Sequential(*(EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)))
        self.mlp_head = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, n_classes))

    def forward(self, images):
        x = self.patches(images)
        x = torch.cat([self.cls_token.expand(x.size(0), 1, -1), x], dim=1)
        x = x + self.places(torch.arange(x.size(1)))
        return self.mlp_head(self.transformer(x)[:, 0])


@answers("ViT")
class PositionsInTwoParts(Plain):
    """[class] gets its row apart, the patches theirs, before they are put together: the same sum."""

    def forward(self, images):
        patches = self.embed(images) + self.positions[1:]
        first = (self.class_token + self.positions[0]).expand(len(patches), 1, -1)
        x = torch.hstack([first, patches])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


@answers("ViT")
class WrittenIntoPlace(Plain):
    """The tokens written into a tensor of zeros, read with select."""

    def forward(self, images):
        patches = self.embed(images)
        batch, n_patches, d_model = patches.shape
        x = patches.new_zeros(batch, n_patches + 1, d_model)
        x[:, 0] = self.class_token[0]
        x[:, 1:] = patches
        x += self.positions
        for i in range(len(self.blocks)):
            x = self.blocks[i](x)
        x = self.norm(x)
        return self.head(x.select(1, 0))


@answers("ViT")
class ConvolutionAndOwnBlocks(nn.Module):
    """Fused queries, keys and values, bare tensors, einsum, no bias in the attention."""

    class Block(nn.Module):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__()
            self.heads = n_heads
            self.ln1 = nn.LayerNorm(d_model)
            self.to_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
            self.to_out = nn.Linear(d_model, d_model)
            self.ln2 = nn.LayerNorm(d_model)
            self.fc1 = nn.Linear(d_model, d_ff)
            self.fc2 = nn.Linear(d_ff, d_model)

        def forward(self, x):
            q, k, v = (
                rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in self.to_qkv(self.ln1(x)).chunk(3, -1)
            )
            weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5, -1)
            x = x + self.to_out(rearrange(weights @ v, "b h n d -> b n (h d)"))
            return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.patch_embed = nn.Conv2d(channels, d_model, patch_size, patch_size)
        self.pos_embed = nn.Parameter(torch.zeros(1, (image_size // patch_size) ** 2 + 1, d_model))
        self.token = nn.Parameter(torch.zeros(1, d_model))
        self.layers = nn.ModuleList(self.Block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.final_norm = nn.LayerNorm(d_model)
        self.classifier = nn.Linear(d_model, n_classes)

    def forward(self, x):
        x = rearrange(self.patch_embed(x), "b d h w -> b (h w) d")
        x = torch.cat((self.token.unsqueeze(0).repeat(len(x), 1, 1), x), 1) + self.pos_embed[:, : x.shape[1] + 1]
        x = functools.reduce(lambda tokens, layer: layer(tokens), self.layers, x)
        return self.classifier(self.final_norm(x[:, 0]))


@answers("ViT")
class Nested(nn.Module):
    """Embedding and encoder as modules of their own, the norm inside the encoder."""

    class Embeddings(nn.Module):
        def __init__(self, n_patches, patch_size, channels, d_model):
            super().__init__()
            self.patch_embeddings = Convolution(patch_size, channels, d_model)
            self.cls_token = nn.Parameter(torch.randn(1, 1, d_model))
            self.position_embeddings = nn.Parameter(torch.randn(1, n_patches + 1, d_model))

        def forward(self, images):
            x = self.patch_embeddings(images)
            return torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1) + self.position_embeddings

    class Encoder(nn.Module):
        def __init__(self, n_layers, *sizes):
            super().__init__()
            self.norm = LayerNorm(sizes[0])
            self.layers = nn.ModuleList()
            for _ in range(n_layers):
                self.layers.append(EncoderBlock(*sizes))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.norm(x)

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.embeddings = self.Embeddings((image_size // patch_size) ** 2, patch_size, channels, d_model)
        self.encoder = self.Encoder(n_layers, d_model, n_heads, d_ff)
        self.classifier = nn.Linear(d_model, n_classes)

    def forward(self, pixel_values):
        tokens = self.encoder(self.embeddings(pixel_values))
        return self.classifier(tokens[:, :1].squeeze(1))


@answers("ViT")
class CopiedBlocks(Plain):
    """Blocks copied from one that was made; dropout and an identity that do nothing."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.blocks = nn.ModuleList(copy.deepcopy(self.blocks[0]) for _ in self.blocks)
        self.dropout = nn.Dropout(0.0)
        self.to_latent = nn.Identity()

    def forward(self, images):
        x = self.embed(images)
        x = self.dropout(torch.cat([self.class_token.tile(len(x), 1, 1), x], 1) + self.positions.unsqueeze(0))
        for block in self.blocks:
            x = block(x)
        return self.head(self.to_latent(self.norm(x)[:, 0]))


@answers("ViT")
class ListsForEachKind(nn.Module):
    """No block at all: a list of attentions, a list of norms, a list of feed-forward networks."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.embedding = RawMatrix(patch_size, channels, d_model)
        self.class_embedding = nn.Parameter(torch.randn(d_model))
        self.position_table = nn.Parameter(torch.randn((image_size // patch_size) ** 2 + 1, d_model))
        self.attentions = nn.ModuleList(SelfAttention(d_model, n_heads) for _ in range(n_layers))
        self.norms_1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.norms_2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)) for _ in range(n_layers)
        )
        self.last_norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, n_classes)

    def forward(self, images):
        x = F.pad(self.embedding(images), (0, 0, 1, 0))
        first = torch.zeros_like(x)
        first[:, 0] = self.class_embedding
        x = x + first + self.position_table
        for attend, norm_1, norm_2, mlp in zip(self.attentions, self.norms_1, self.norms_2, self.mlps, strict=True):
            x = x + attend(norm_1(x))
            x = x + mlp(norm_2(x))
        return self.out(self.last_norm(x)[:, 0])
