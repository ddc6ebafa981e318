"""The Vision Transformer: an image is a short sequence of patches.

Dosovitskiy et al. 2021, "An Image Is Worth 16x16 Words", section 3.1.
"""

import torch
from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.positional import LearnedPositionalEncoding


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, row by row, each flattened.

    Args:
        images: `(batch, channels, height, width)`.
        patch_size: side of a patch in pixels; divides height and width.

    Returns:
        `(batch, patches, channels · patch_size²)`, with `patches = height/patch_size · width/patch_size`.

    Raises:
        ValueError: the image does not divide into patches.
    """
    batch, channels, height, width = images.shape
    if height % patch_size or width % patch_size:
        raise ValueError(f"an image of {height}×{width} does not divide into patches of patch_size={patch_size}")
    rows, columns = height // patch_size, width // patch_size
    x = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (batch, rows, columns, channels, patch_size, patch_size)
    return x.reshape(batch, rows * columns, channels * patch_size**2)


class PatchEmbedding(nn.Module):
    """One linear map from a patch's pixels to a token: `(batch, channels, h, w)` → `(batch, patches, d_model)`."""

    def __init__(self, patch_size: int, channels: int, d_model: int):
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, d_model)

    def forward(self, images: Tensor) -> Tensor:
        return self.projection(patchify(images, self.patch_size))


class ViT(nn.Module):
    """Patches → tokens, a [class] token in front, positions added, an encoder, and a linear head on [class].

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of a patch; divides `image_size`.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model, n_layers, n_heads, d_ff: width, depth, heads and feed-forward width of the encoder.
        dropout, drop_path: regularisation inside the blocks, active only while training.

    Raises:
        ValueError: `patch_size` does not divide `image_size`, or `n_heads` does not divide `d_model`.

    Source: Dosovitskiy et al. 2021, equations 1–4. Linear maps start from Glorot & Bengio's uniform distribution.
    """

    def __init__(
        self,
        image_size: int = 28,
        patch_size: int = 7,
        channels: int = 1,
        n_classes: int = 10,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        d_ff: int = 128,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ):
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size={image_size} does not divide into patches of patch_size={patch_size}")
        n_patches = (image_size // patch_size) ** 2
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.positions = LearnedPositionalEncoding(d_model, max_tokens=n_patches + 1)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, drop_path, dropout=dropout)
        self.head = nn.Linear(d_model, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Logits for a batch of images.

        Args:
            images: `(batch, channels, image_size, image_size)`.
            return_attention: also return every weight `(batch, layers, heads, tokens, tokens)`; token 0 is [class].

        Returns:
            logits `(batch, n_classes)`, or that and the weights.
        """
        patches = self.embed(images)  # (batch, patches, d_model)
        class_token = self.class_token.expand(patches.size(0), -1, -1)
        x = self.positions(torch.cat([class_token, patches], dim=1))  # (batch, 1 + patches, d_model)
        x, attention = self.encoder(x)
        logits = self.head(x[:, 0])  # what [class] has gathered
        return (logits, attention) if return_attention else logits


def attention_rollout(attention: Tensor) -> Tensor:
    """How much of each input token reaches each output token, if only attention and residuals moved it.

    Args:
        attention: weights `(batch, layers, heads, tokens, tokens)`.

    Returns:
        `(batch, tokens, tokens)`, rows summing to 1: heads averaged, half of each layer the residual path.

    Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
    """
    layers = attention.mean(dim=2)  # (batch, layers, tokens, tokens)
    identity = torch.eye(layers.size(-1), device=attention.device, dtype=attention.dtype)
    rollout = identity.expand_as(layers[:, 0])
    for layer in (0.5 * layers + 0.5 * identity).unbind(dim=1):
        rollout = layer @ rollout
    return rollout
