"""A Vision Transformer that learns from a teacher, through a token of its own.

Touvron et al. 2021, "Training data-efficient image transformers & distillation through attention" (DeiT).
"""

import math

import torch
from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.loss import cross_entropy
from headroom.reference.patches import check_images, patches_of
from headroom.reference.positional import LearnedPositionalEncoding
from headroom.reference.vit import PatchEmbedding


class DeiT(nn.Module):
    """A ViT with a second token beside [class] and a second head on it: one answers the labels, one the teacher.

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of a patch; divides `image_size`.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model, n_layers, n_heads, d_ff: width, depth, heads and feed-forward width of the encoder.
        dropout, drop_path: regularisation inside the blocks, active only while training.

    Raises:
        ValueError: `patch_size` does not divide `image_size`, or `n_heads` does not divide `d_model`.

    Source: Touvron et al. 2021, section 4.
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
        self.image_size = image_size
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.distillation_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.positions = LearnedPositionalEncoding(d_model, max_tokens=2 + patches_of(image_size, patch_size))
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, dropout, drop_path)
        self.head = nn.Linear(d_model, n_classes)
        self.distillation_head = nn.Linear(d_model, n_classes)
        glorot(self)

    def forward(self, images: Tensor) -> Tensor:
        """What both heads say together, `(batch, n_classes)`: the logarithm of the mean of their two softmaxes.

        The paper adds the softmaxes; its authors' program averages the logits. Arguments and errors as of `both`.
        """
        logits, distilled = self.both(images)
        return torch.logaddexp(logits.log_softmax(dim=-1), distilled.log_softmax(dim=-1)) - math.log(2)

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the [class] token's head and those of the distillation token's, `(batch, n_classes)` each.

        Args:
            images: `(batch, channels, image_size, image_size)`.

        Raises:
            ValueError: the images have another shape.
        """
        check_images(images, self.embed.channels, self.image_size)
        front = torch.cat([self.class_token, self.distillation_token], dim=1)  # (1, 2, d_model)
        x = torch.cat([front.expand(len(images), -1, -1), self.embed(images)], dim=1)  # (batch, 2 + patches, d_model)
        x = self.encoder(self.positions(x))
        return self.head(x[:, 0]), self.distillation_head(x[:, 1])


def soft_distillation_loss(
    logits: Tensor, distilled: Tensor, teacher: Tensor, labels: Tensor, temperature: float = 3.0, alpha: float = 0.5
) -> Tensor:
    """(1 − α) · cross-entropy to the labels + α · T² · KL(teacher ‖ student), both softened: logits divided by T.

    A wrong class that the teacher finds likelier than another says what the image resembles; T > 1 makes that visible.
    The gradient of the softened term shrinks with T²: the factor makes up for it.

    Args:
        logits: the student's, for the labels, `(batch, n_classes)`.
        distilled: the student's, for the teacher, `(batch, n_classes)`; of a student with one head, the same again.
        teacher: the teacher's logits `(batch, n_classes)`.
        labels: int64 `(batch,)`.
        temperature: T, positive.
        alpha: α, the teacher's share of the loss, 0 … 1.

    Returns:
        a scalar, in nats.

    Raises:
        ValueError: `temperature` or `alpha` is out of range, or the logits differ in shape.

    Source: Hinton, Vinyals & Dean 2015, "Distilling the Knowledge in a Neural Network", section 2; Touvron et al. 2021,
    equation 2.
    """
    check_distillation(distilled, teacher, alpha)
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be positive")
    student = (distilled / temperature).log_softmax(dim=-1)
    target = (teacher / temperature).log_softmax(dim=-1)
    divergence = (target.exp() * (target - student)).sum(dim=-1).mean()
    return (1 - alpha) * cross_entropy(logits, labels) + alpha * temperature**2 * divergence


def hard_distillation_loss(
    logits: Tensor, distilled: Tensor, teacher: Tensor, labels: Tensor, alpha: float = 0.5
) -> Tensor:
    """(1 − α) · cross-entropy to the labels + α · cross-entropy to the class that the teacher finds likeliest.

    Arguments `(batch, n_classes)`, result and errors as of `soft_distillation_loss`.

    Source: Touvron et al. 2021, equation 3, with α = ½.
    """
    check_distillation(distilled, teacher, alpha)
    return (1 - alpha) * cross_entropy(logits, labels) + alpha * cross_entropy(distilled, teacher.argmax(dim=-1))


def check_distillation(distilled: Tensor, teacher: Tensor, alpha: float) -> None:
    """Raise ValueError unless student and teacher have the same classes and α lies between 0 and 1."""
    if distilled.shape != teacher.shape:
        raise ValueError(
            f"distilled {tuple(distilled.shape)} and teacher {tuple(teacher.shape)} must have equal shapes"
        )
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha={alpha} must lie between 0 and 1")
