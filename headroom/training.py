"""One training loop for every classifier of the course.

    seed_everything(1)
    model = ViT()
    history = train(model, embedded_digits(), VIT_DIGITS)

`python -m headroom.training` trains the Vision Transformer that comes with the course again, and replaces its file.
"""

import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from headroom.data import Digits, embedded_digits
from headroom.reference import ViT

CHECKPOINT = Path(__file__).parent / "vit_digits.pt"
CHECKPOINT_SEED = 1


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        epochs: passes over the training images. Epochs, not seconds, so that a run can be repeated.
        batch_size: images in a step.
        lr: the highest learning rate.
        weight_decay: AdamW's, on the weights of linear maps and convolutions; nothing else decays.
        betas: AdamW's memory of the gradient and of its square.
        warmup: the share of the steps in which the learning rate rises to `lr`; then half a cosine takes it to 0.
        clip: the longest gradient taken as it is; longer ones are scaled down to this norm.
        shift: each training image moves by up to this many pixels, along both axes,
        rotation: turns by up to this many degrees,
        scale: grows or shrinks by up to this share,
        shear: leans by up to this many degrees; all drawn anew for every image and epoch.
    """

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: float = 0.1
    clip: float = 1.0
    shift: float = 0.0
    rotation: float = 0.0
    scale: float = 0.0
    shear: float = 0.0


VIT_DIGITS = Recipe(
    epochs=24, batch_size=128, lr=6e-3, weight_decay=0.2, shift=2.0, rotation=12.0, scale=0.15, shear=8.0
)


@dataclass
class History:
    """What happened during a training run.

    Attributes:
        losses: the cross-entropy of each step's batch, in nats.
        learning_rates: of each step.
        val_accuracy: on the validation images after each epoch, 0 … 1.
        seconds: how long the run took.
        interrupted: whether it was stopped before its last epoch.
    """

    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


def pick_device(name: str | None = None) -> torch.device:
    """The device to compute on: the one named, or the fastest there is of cuda, mps and cpu.

    Raises:
        ValueError: there is no such device on this machine.
    """
    available = [
        kind
        for kind, there in (
            ("cuda", torch.cuda.is_available()),
            ("mps", torch.backends.mps.is_available()),
            ("cpu", True),
        )
        if there
    ]
    name = name or available[0]
    if name.split(":")[0] not in available:
        raise ValueError(f"device {name!r} is not available on this machine, which has: {', '.join(available)}")
    return torch.device(name)


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's random numbers, on every device.

    On a CPU, the same seed, model, data and recipe give the same trained model; on a GPU, nearly.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(model: nn.Module, digits: Digits, recipe: Recipe, device: torch.device | str | None = None) -> History:
    """Train a classifier on images, with AdamW, and validate it after every epoch.

    Interrupting it (■ in JupyterLab, Ctrl-C in a terminal) ends the training, not the program: the model keeps what it
    has learned so far.

    Args:
        model: takes images `(batch, channels, height, width)` and returns logits `(batch, classes)`. It is trained in
            place, moved to `device`, and left in eval mode.
        digits: training and validation images and labels.
        recipe: how to train.
        device: where; by default the fastest there is (see `pick_device`).

    Raises:
        ValueError: the device is not available.
        FloatingPointError: the loss became infinite or NaN.
    """
    device = pick_device(str(device) if device else None)
    model.to(device)
    images, labels = digits.train_images.to(device), digits.train_labels.to(device)
    val_images, val_labels = digits.val_images.to(device), digits.val_labels.to(device)
    optimizer = adamw(model, recipe)
    steps = recipe.epochs * math.ceil(len(images) / recipe.batch_size)
    history = History()
    start = time.perf_counter()
    try:
        with _spare_one_core(device), tqdm(total=steps, unit="step", desc="training") as bar:
            for epoch in range(1, recipe.epochs + 1):
                model.train()
                bar.set_description(f"epoch {epoch}/{recipe.epochs}")
                for batch in torch.randperm(len(images)).to(device).split(recipe.batch_size):
                    lr = learning_rate(len(history.losses), steps, recipe)
                    loss = train_step(model, optimizer, augment(images[batch], recipe), labels[batch], lr, recipe.clip)
                    if not math.isfinite(loss):
                        raise FloatingPointError(
                            f"the loss is {loss} at step {len(history.losses) + 1} of {steps}: lr={recipe.lr} may be "
                            "too high for this model, or the images or the model's weights hold NaN or infinity"
                        )
                    history.losses.append(loss)
                    history.learning_rates.append(lr)
                    bar.set_postfix(_progress(history), refresh=False)
                    bar.update()
                history.val_accuracy.append(accuracy(model, val_images, val_labels))
                bar.set_postfix(_progress(history))
    except KeyboardInterrupt:
        history.interrupted = True
        print(
            f"Stopped after {len(history.losses)} of {steps} steps, in epoch {epoch} of {recipe.epochs}. "
            "The model keeps what it has learned."
        )
    finally:
        model.eval()
        history.seconds = time.perf_counter() - start
    return history


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, lr: float, clip: float
) -> float:
    """One step down the gradient of the cross-entropy. Returns that loss; unless it is finite, nothing changes."""
    loss = F.cross_entropy(model(images), labels)
    value = loss.item()
    if math.isfinite(value):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return value


def adamw(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW that decays the weights of linear maps and convolutions, and spares biases, norms, [class] and positions.

    Source: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization".
    """
    decayed = [m.weight for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    ids = {id(weight) for weight in decayed}
    spared = [parameter for parameter in model.parameters() if id(parameter) not in ids]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    # One kernel for all parameters, where torch has it: a fifth of the time, and on small models that shows.
    fused = decayed[0].device.type in ("cuda", "cpu") if decayed else False
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=fused)


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of step 0 … steps − 1: a straight line up to `recipe.lr`, then half a cosine down to 0."""
    warmup = max(1, round(recipe.warmup * steps))
    if step < warmup:
        return recipe.lr * (step + 1) / warmup
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps - warmup)))


def augment(images: Tensor, recipe: Recipe) -> Tensor:
    """Shift, turn, scale and shear each image by its own random amounts, up to the recipe's, in one pass.

    Args:
        images: `(batch, channels, height, width)`; what comes in from outside is 0.

    Returns:
        The same shape, on the same device; the random numbers come from the CPU, the same for every device.
    """
    if not (recipe.shift or recipe.rotation or recipe.scale or recipe.shear):
        return images
    batch, _, height, width = images.shape
    angle, lean, size, right, down = (2 * torch.rand(5, batch) - 1).unbind()  # each in −1 … 1
    angle = math.radians(recipe.rotation) * angle
    lean = (math.radians(recipe.shear) * lean).tan()
    size = 1 + recipe.scale * size
    cos, sin = size * angle.cos(), size * angle.sin()
    # Where each output pixel looks in the input, in coordinates that run from −1 to 1 across the image.
    affine = torch.stack(
        [
            torch.stack([cos, cos * lean - sin, 2 * recipe.shift / width * right], dim=1),
            torch.stack([sin, sin * lean + cos, 2 * recipe.shift / height * down], dim=1),
        ],
        dim=1,
    ).to(images)  # (batch, 2, 3)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)  # (batch, height, width, 2)
    return F.grid_sample(images, grid, align_corners=False)


@torch.no_grad()
def predict(model: nn.Module, images: Tensor, batch_size: int = 500) -> Tensor:
    """The model's logits `(n, classes)` for images `(n, channels, height, width)`, in eval mode, batch by batch.

    The images may be on another device than the model; the logits are where the images are. The model keeps its mode.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        return torch.cat([model(batch.to(device)).to(images.device) for batch in images.split(batch_size)])
    finally:
        model.train(was_training)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor, top_k: int = 1) -> float:
    """The share of images, 0 … 1, whose label is among the model's `top_k` largest logits.

    Raises:
        ValueError: there are no images, or not as many labels as images.
    """
    if len(images) != len(labels) or not len(images):
        raise ValueError(f"images and labels must be as many, and at least one: got {len(images)} and {len(labels)}")
    guesses = predict(model, images).topk(top_k, dim=-1).indices  # (n, top_k)
    return (guesses == labels.to(guesses.device)[:, None]).any(dim=-1).float().mean().item()


def pretrained_vit() -> ViT:
    """A `ViT()` trained on the embedded 9,000 digits with `VIT_DIGITS`, on the CPU and in eval mode."""
    model = ViT()
    model.load_state_dict(torch.load(CHECKPOINT, weights_only=True)["weights"])
    return model.eval()


@contextmanager
def _spare_one_core(device: torch.device) -> Iterator[None]:
    """On a CPU, compute with one thread fewer than usual.

    Threads wait for each other after every operation, and a small model's operations take microseconds: as soon as
    another program (a browser, say) wants one of their cores, all of them wait for it, far longer than they compute.
    """
    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(max(1, threads - 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _progress(history: History) -> dict[str, str]:
    """What the progress bar says: the latest loss and validation accuracy."""
    shown = {"loss": f"{history.losses[-1]:.3f}"}
    if history.val_accuracy:
        shown["validation"] = f"{100 * history.val_accuracy[-1]:.1f} %"
    return shown


def _remake_checkpoint() -> None:
    """Train the shipped model again and save it, with how it came to be."""
    seed_everything(CHECKPOINT_SEED)
    model = ViT()
    history = train(model, embedded_digits(), VIT_DIGITS, device="cpu")
    if history.interrupted:
        print(f"{CHECKPOINT} is left as it was.")
        return
    made = {
        "weights": model.state_dict(),
        "recipe": asdict(VIT_DIGITS),
        "seed": CHECKPOINT_SEED,
        "val_accuracy": history.val_accuracy[-1],
        "torch": str(torch.__version__),
    }
    torch.save(made, CHECKPOINT)
    print(f"{CHECKPOINT}: validation accuracy {100 * history.val_accuracy[-1]:.1f} % after {history.seconds:.0f} s")


if __name__ == "__main__":
    _remake_checkpoint()
