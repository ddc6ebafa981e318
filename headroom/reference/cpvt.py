"""Positions read off the neighbours: a Vision Transformer that no table of positions ties to one image size.

Chu et al. 2021, "Conditional Positional Encodings for Vision Transformers" (CPVT).
"""

from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.patches import count_patches, to_grid, to_tokens
from headroom.reference.vit import PatchEmbedding


class PositionEncodingGenerator(nn.Module):
    """Adds to each token a weighted sum of its 3×3 neighbourhood on the grid, each feature with its own nine weights.

    Zeros surround the grid, and tell a token at the border that it stands there; the layers above pass that on. So the
    encoding depends on what the patches show ("conditional"), moves with it, and has no largest grid.

    Args:
        d_model: width of the tokens.

    Source: Chu et al. 2021, section 3.2 (PEG).
    """

    def __init__(self, d_model: int):
        super().__init__()
        self.convolution = nn.Conv2d(d_model, d_model, kernel_size=3, padding=1, groups=d_model)  # depthwise

    def forward(self, x: Tensor, rows: int) -> Tensor:
        """x + its encoding. `x`: `(batch, tokens, d_model)`, the tokens of a grid with that many rows."""
        return x + to_tokens(self.convolution(to_grid(x, rows)))


class CPVT(nn.Module):
    """A ViT with conditional positions after its first block, and the mean of all tokens in place of [class].

    Args:
        patch_size: side of a patch.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model, n_layers, n_heads, d_ff: width, depth, heads and feed-forward width of the encoder.
        dropout, drop_path: regularisation inside the blocks, active only while training.

    Raises:
        ValueError: `n_heads` does not divide `d_model`.

    Source: Chu et al. 2021, sections 3.2 and 3.3 (CPVT-GAP).
    """

    def __init__(
        self,
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
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, dropout, drop_path)
        self.positions = PositionEncodingGenerator(d_model)
        self.head = nn.Linear(d_model, n_classes)
        glorot(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(batch, n_classes)` for images `(batch, channels, height, width)` of any size.

        Raises:
            ValueError: the images have another number of channels, or do not divide into patches.
        """
        rows, _ = count_patches(images, self.embed.patch_size)
        first, *others = self.encoder.blocks
        x = first(self.embed(images))  # (batch, patches, d_model)
        x = self.positions(x, rows)  # by now a token has seen the whole image: better here than before, says the paper
        for block in others:
            x = block(x)
        return self.head(self.encoder.norm(x).mean(dim=1))
