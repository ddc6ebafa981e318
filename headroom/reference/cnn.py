"""A small convolutional network: what a Vision Transformer is measured against, and learns from (see `deit.py`)."""

from collections.abc import Sequence

from torch import Tensor, nn

from headroom.reference.patches import check_images


class ConvNet(nn.Module):
    """Convolutions of 3×3, each with batch normalisation and ReLU; where the width grows, the grid halves.

    Args:
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        widths: of each pair of convolutions, the first of which has stride 2.

    Source: in the style of He et al. 2016, "Deep Residual Learning for Image Recognition", without the residuals.
    """

    def __init__(self, channels: int = 1, n_classes: int = 10, widths: Sequence[int] = (16, 32, 64)):
        super().__init__()
        self.channels = channels
        layers = []
        for width in widths:
            layers += [convolve(channels, width, stride=2), convolve(width, width)]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images `(batch, channels, height, width)` → logits `(batch, n_classes)`."""
        check_images(images, self.channels)
        grid = self.layers(images)  # (batch, widths[-1], height / 2^n, width / 2^n)
        return self.head(grid.mean(dim=(2, 3)))


def convolve(channels: int, width: int, stride: int = 1) -> nn.Sequential:
    """A convolution of 3×3, batch normalisation, ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    )
