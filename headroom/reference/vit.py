"""The Vision Transformer: an image is a short sequence of patches.

Dosovitskiy et al. 2021, "An Image Is Worth 16x16 Words", section 3.1.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.patches import PatchEmbedding, check_images
from headroom.reference.positional import LearnedPositionalEncoding


class ViT(nn.Module):
    """Patches → tokens, a [class] token in front, positions added, an encoder, and a linear head on [class].

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of a patch; divides `image_size`.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model, n_layers, n_heads, d_ff: width, depth, heads and feed-forward width of the encoder.
        dropout, drop_path: regularisation inside the blocks, active only while training.
        pooling: what the head reads: `"class"`, a token of its own, or `"mean"`, the mean of all patches; then there is
            no [class] token.

    Raises:
        ValueError: `patch_size` does not divide `image_size`, `n_heads` does not divide `d_model`, or there is no such
            `pooling`.

    Source: Dosovitskiy et al. 2021, equations 1–4; mean pooling: their appendix D.3. Linear maps start as in `glorot`.
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
        pooling: Literal["class", "mean"] = "class",
    ):
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size={image_size} does not divide into patches of patch_size={patch_size}")
        if pooling not in ("class", "mean"):
            raise ValueError(f'pooling={pooling!r} must be "class" or "mean"')
        self.image_size = image_size
        n_tokens = (image_size // patch_size) ** 2 + (pooling == "class")
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model)) if pooling == "class" else None
        self.positions = LearnedPositionalEncoding(d_model, max_tokens=n_tokens)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, drop_path, dropout=dropout)
        self.head = nn.Linear(d_model, n_classes)
        glorot(self)

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Logits for a batch of images.

        Args:
            images: `(batch, channels, image_size, image_size)`.
            return_attention: also return every weight `(batch, layers, heads, tokens, tokens)`; token 0 is [class], if
                there is one.

        Returns:
            logits `(batch, n_classes)`, or that and the weights.

        Raises:
            ValueError: the images have another shape.
        """
        check_images(images, self.embed.channels, self.image_size)
        x = self.embed(images)  # (batch, patches, d_model)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(x.size(0), -1, -1), x], dim=1)  # (batch, 1 + patches, d_model)
        x, attention = self.encoder(self.positions(x))
        pooled = x.mean(dim=1) if self.class_token is None else x[:, 0]  # what [class] has gathered
        logits = self.head(pooled)
        return (logits, attention) if return_attention else logits

    def new_head(self, n_classes: int) -> None:
        """Put a new linear head, all zeros, in the old one's place: what the encoder has learned serves other classes.

        Source: Dosovitskiy et al. 2021, section 3.2.
        """
        self.head = nn.Linear(self.head.in_features, n_classes).to(self.head.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
