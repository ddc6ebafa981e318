"""How every model of the course is trained, in one place: for lectures, benchmarks and tests alike."""

from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        epochs: passes over the training examples. Epochs, not seconds, so that a run can be repeated.
        batch_size: examples in a step.
        lr: the highest learning rate.
        weight_decay: AdamW's, on the weights of linear maps and convolutions; nothing else decays.
        betas: AdamW's memory of the gradient and of its square.
        warmup: the share of the steps in which the learning rate rises to `lr`.
        schedule: how it falls afterwards: `"cosine"`, half a cosine down to 0, or `"inverse_square_root"`, as in the
            2017 paper.
        clip: the longest gradient taken as it is; longer ones are scaled down to this norm.
        smoothing: the share of the target that label smoothing spreads over all classes.
        shift: each training image moves by up to this many pixels, along both axes,
        rotation: turns by up to this many degrees,
        scale: grows or shrinks by up to this share,
        shear: leans by up to this many degrees; all drawn anew for every image and epoch.
        augmentation_fade: the share of the steps, at the end, over which these amounts shrink linearly to zero, so
            that training ends on images as they are.
    """

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: float = 0.1
    schedule: Literal["cosine", "inverse_square_root"] = "cosine"
    clip: float = 1.0
    smoothing: float = 0.0
    shift: float = 0.0
    rotation: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    augmentation_fade: float = 0.0


@dataclass(frozen=True)
class Distillation:
    """What a student learns from a teacher, besides the labels.

    Attributes:
        temperature: T; both distributions are softened by it. Soft distillation only.
        alpha: the teacher's share of the loss; the labels have the rest.
        hard: learn the teacher's decision, as if it were a label, and not its whole distribution.
    """

    temperature: float = 3.0
    alpha: float = 0.5
    hard: bool = False


_DIGITS = Recipe(epochs=24, batch_size=128, lr=6e-3, weight_decay=0.2, shift=2.0, rotation=12.0, scale=0.15, shear=8.0)

VIT_DIGITS = replace(_DIGITS, epochs=36, batch_size=192, lr=7e-3, augmentation_fade=0.3)
# All of MNIST; with six times the digits, less weight decay does.
VIT_MNIST = replace(_DIGITS, epochs=14, batch_size=192, lr=6e-3, weight_decay=0.05, shear=6.0, augmentation_fade=0.3)

TEACHER_DIGITS = replace(_DIGITS, epochs=8, weight_decay=0.05)
CPVT_DIGITS = _DIGITS  # what differs is the model
DEIT_DIGITS = _DIGITS
PVT_DIGITS = replace(_DIGITS, epochs=12, weight_decay=0.1, augmentation_fade=0.3)
SWIN_DIGITS = PVT_DIGITS
PRETRAIN_DIGITS = replace(_DIGITS, epochs=10)  # on some classes; then the others, with few labels
FEW_DIGITS = replace(_DIGITS, epochs=60, batch_size=25, lr=4e-3, weight_decay=0.05)

DATES_TRAIN: dict[str, Any] = {"split": "train", "n": 50_000}  # arguments of `headroom.data.written_dates`
DATES_VAL: dict[str, Any] = {"split": "val", "n": 500}
DATES = Recipe(epochs=4, batch_size=64, lr=3e-3, weight_decay=0.01, betas=(0.9, 0.98))

# A language model of code that learns within a minute on two cores, and the one that comes with the course.
CODE_MINUTE = Recipe(epochs=9, batch_size=16, lr=4e-3, weight_decay=0.5, warmup=0.05)
CODE = Recipe(epochs=30, batch_size=8, lr=2e-3, weight_decay=0.5, betas=(0.9, 0.98), warmup=0.05)

# A model of attention alone, on random sequences that are written twice.
REPEATS = Recipe(epochs=30, batch_size=32, lr=6e-3, weight_decay=0.01)
