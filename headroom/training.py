"""One training loop for every model of the course.

    seed_everything(1)
    model = ViT()
    history = train(model, embedded_digits(), VIT_DIGITS)

`train` teaches a classifier images, `distill` lets it learn from another one beside, `train_transformer` teaches an
encoder-decoder dates. Each is a few lines around `fit`.

Only the loss and the schedules are imported from the reference with this module, the models not before they are needed:
graded notebooks train, and the reference models are not there for them.
"""

import math
import random
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from headroom.data import BOS, EOS, PAD, TARGET, Dates, Digits
from headroom.modes import looking_at
from headroom.recipes import Distillation, Recipe
from headroom.reference.loss import cross_entropy
from headroom.reference.schedule import cosine_schedule, inverse_square_root_schedule
from headroom.scale import EPOCHS, scaled

if TYPE_CHECKING:
    from headroom.reference import Transformer

BUCKET = 50  # batches among whose examples those of similar length are brought together
PARTS = 2  # of a batch, computed side by side; a number of its own, so that no result depends on the number of cores


@dataclass
class History:
    """What happened during a training run.

    Attributes:
        losses: the cross-entropy of each step's batch, in nats.
        learning_rates: of each step.
        val_accuracy: on the validation examples after each epoch, 0 … 1: the share of images with the right label,
            or of dates right to the last character, decoded freely.
        seconds: how long the run took.
        interrupted: whether it was stopped before its last epoch.
    """

    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


def pick_device(device: torch.device | str | None = None) -> torch.device:
    """The device to compute on: the one given, or the fastest there is of cuda, mps and cpu.

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
    name = str(device or available[0])
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
    """Train a classifier on images, and validate it after every epoch.

    Args:
        model: takes images `(batch, channels, height, width)` and returns logits `(batch, classes)`.
        digits: training and validation images and labels.
        recipe: how to train; its augmentation is applied to the training images.
        device: where; by default the fastest there is (see `pick_device`).

    What becomes of the model, and errors: as of `fit`.
    """

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(model(images), labels, recipe.smoothing)

    return _fit_to_images(model, digits, loss, recipe, pick_device(device))


def distill(
    student: nn.Module,
    teacher: nn.Module,
    digits: Digits,
    recipe: Recipe,
    distillation: Distillation,
    device: torch.device | str | None = None,
) -> History:
    """Train a classifier on the labels and on what a teacher says of the same images, as they were augmented.

    Args:
        student: a `DeiT`, whose distillation token learns from the teacher and whose [class] token from the labels; or
            any other classifier, whose one head learns from both.
        teacher: a trained classifier; moved to `device` and left in eval mode, and not trained.
        digits: training and validation images and labels.
        recipe: how to train; labels are not smoothed.
        distillation: what the student learns from the teacher.
        device: where; by default the fastest there is (see `pick_device`).

    What becomes of the student, and errors: as of `fit`.
    """
    from headroom.reference.deit import DeiT, hard_distillation_loss, soft_distillation_loss

    device = pick_device(device)
    teacher.to(device).eval()

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            taught = teacher(images)
        if isinstance(student, DeiT):
            logits, distilled = student.both(images)
        else:
            logits = distilled = student(images)
        if distillation.hard:
            return hard_distillation_loss(logits, distilled, taught, labels, distillation.alpha)
        return soft_distillation_loss(logits, distilled, taught, labels, distillation.temperature, distillation.alpha)

    return _fit_to_images(student, digits, loss, recipe, device)


def _fit_to_images(
    model: nn.Module,
    digits: Digits,
    loss: Callable[[Tensor, Tensor], Tensor],
    recipe: Recipe,
    device: torch.device,
) -> History:
    """`fit` on augmented images and their labels, `loss(images, labels)`."""
    images, labels = digits.train_images.to(device), digits.train_labels.to(device)
    val_images, val_labels = digits.val_images.to(device), digits.val_labels.to(device)
    return fit(
        model,
        examples=len(images),
        batch=lambda rows, progress: (augment(images[rows], recipe, progress), labels[rows]),
        loss=loss,
        validate=lambda: accuracy(model, val_images, val_labels),
        recipe=recipe,
        device=device,
        divisible=True,
    )


def train_transformer(
    model: "Transformer", train: Dates, val: Dates, recipe: Recipe, device: torch.device | str | None = None
) -> History:
    """Train an encoder-decoder to write dates as ISO 8601, each character from the right ones before it.

    Args:
        model: with the vocabularies' sizes, as from `Transformer(len(SOURCE), len(TARGET))`.
        train: what it learns from.
        val: what it is validated on after every epoch, by free-running greedy decoding.
        recipe: how to train.
        device: where; by default the fastest there is (see `pick_device`).

    What becomes of the model, and errors: as of `fit`.
    """
    from headroom.reference.attention import padding_mask

    device = pick_device(device)
    source, lengths, target = train.source.to(device), train.source_lengths.to(device), train.target.to(device)

    def batch(rows: Tensor, progress: float) -> tuple[Tensor, Tensor, Tensor]:
        longest = int(lengths[rows].max())
        return source[rows, :longest], padding_mask(lengths[rows], longest), target[rows]

    def loss(source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        logits = model(source, target[:, :-1], source_mask)  # each position sees the target up to itself …
        return cross_entropy(logits, target[:, 1:], recipe.smoothing, ignore=PAD)  # … and is asked for the next one

    return fit(
        model,
        examples=len(source),
        batch=batch,
        loss=loss,
        validate=lambda: exact_match(model, val),
        recipe=recipe,
        device=device,
        lengths=train.source_lengths,
        divisible=True,  # ISO dates are all equally long: a mean over characters is one over dates
    )


def fit(
    model: nn.Module,
    examples: int,
    batch: Callable[[Tensor, float], tuple[Tensor, ...]],
    loss: Callable[..., Tensor],
    validate: Callable[[], float],
    recipe: Recipe,
    device: torch.device,
    lengths: Tensor | None = None,
    divisible: bool = False,
) -> History:
    """Train a model with AdamW, and validate it after every epoch.

    Interrupting it (■ in JupyterLab, Ctrl-C in a terminal) ends the training, not the program: the model keeps what it
    has learned so far.

    Args:
        model: trained in place, moved to `device`, and left in eval mode.
        examples: how many there are to train on.
        batch: makes the batch of the examples with these numbers, `(batch,)`, with this share of the training done.
        loss: of the model on such a batch; the mean over it.
        validate: the accuracy reached so far, 0 … 1.
        recipe: how to train; at small scale (see `headroom.scale`) for fewer epochs.
        device: where.
        lengths: of the examples, `(examples,)`: batches are made of similar ones, so that little of them is padding.
        divisible: whether the loss is a mean over examples, so that the parts of a batch can be computed side by side.

    Raises:
        ValueError: the device is not available.
        FloatingPointError: the loss became infinite or NaN.
    """
    model.to(device)
    optimizer = adamw(model, recipe)
    epochs = scaled(recipe.epochs, EPOCHS)
    steps = epochs * math.ceil(examples / recipe.batch_size)
    history = History()
    apart = False  # whether the parts of a batch go side by side
    start, epoch = time.perf_counter(), 1
    try:
        with _side_by_side(device) as pool, tqdm(total=steps, unit="step", desc="training") as bar:
            for epoch in range(1, epochs + 1):
                model.train()
                bar.set_description(f"epoch {epoch}/{epochs}")
                for rows in shuffled_batches(examples, recipe.batch_size, lengths):
                    step = len(history.losses)
                    lr = learning_rate(step, steps, recipe)
                    made, before = batch(rows.to(device), step / steps), _side_effects(model)
                    value = take_step(model, optimizer, loss, made, lr, recipe.clip, pool if apart else None)
                    if step == 0:  # is taken whole, and shows whether the next ones have to be
                        apart = divisible and _side_effects(model) == before
                    if not math.isfinite(value):
                        raise FloatingPointError(
                            f"the loss is {value} at step {step + 1} of {steps}: lr={recipe.lr} may be "
                            "too high for this model, or the examples or the model's weights hold NaN or infinity"
                        )
                    history.losses.append(value)
                    history.learning_rates.append(lr)
                    bar.set_postfix(_progress(history), refresh=False)
                    bar.update()
                history.val_accuracy.append(validate())
                bar.set_postfix(_progress(history))
    except KeyboardInterrupt:
        history.interrupted = True
        print(
            f"Stopped after {len(history.losses)} of {steps} steps, in epoch {epoch} of {epochs}. "
            "The model keeps what it has learned."
        )
    finally:
        model.eval()
        history.seconds = time.perf_counter() - start
    return history


def shuffled_batches(examples: int, batch_size: int, lengths: Tensor | None = None) -> list[Tensor]:
    """The numbers 0 … examples − 1 in random batches; given the examples' lengths, of similar ones.

    Returns:
        int64 `(batch,)` each; the last one drawn may be smaller.
    """
    order = torch.randperm(examples)
    if lengths is None:
        return list(order.split(batch_size))
    # Sorted in large random chunks, so that neighbours are of similar length and yet never the same ones twice.
    chunks = [chunk[lengths[chunk].argsort()] for chunk in order.split(BUCKET * batch_size)]
    batches = [batch for chunk in chunks for batch in chunk.split(batch_size)]
    return [batches[number] for number in torch.randperm(len(batches))]


def take_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[..., Tensor],
    batch: tuple[Tensor, ...],
    lr: float,
    clip: float,
    pool: Executor | None = None,
) -> float:
    """One step down the gradient of `loss(*batch)`. Returns the loss; unless it is finite, nothing changes.

    Given a pool of threads, they compute the parts of the batch side by side, and meet once, to add up their gradients.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def compute(*part: Tensor) -> tuple[float, tuple[Tensor | None, ...]]:
        share = loss(*part) * (len(part[0]) / len(batch[0]))
        return share.item(), torch.autograd.grad(share, parameters, allow_unused=True)

    results = list(pool.map(compute, *(tensor.chunk(PARTS) for tensor in batch))) if pool else [compute(*batch)]
    value = sum(share for share, _ in results)
    if math.isfinite(value):
        for group in optimizer.param_groups:
            group["lr"] = lr
        for parameter, *gradients in zip(parameters, *(gradients for _, gradients in results), strict=True):
            parameter.grad = None if gradients[0] is None else sum(gradients[1:], start=gradients[0])
        nn.utils.clip_grad_norm_(parameters, clip)
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
    """The learning rate of step 0 … steps − 1: a straight line up to `recipe.lr`, then down as the recipe says."""
    warmup = max(1, round(recipe.warmup * steps))
    if recipe.schedule == "inverse_square_root":
        return recipe.lr * inverse_square_root_schedule(step, warmup)
    return recipe.lr * cosine_schedule(step, steps, warmup)


def augment(images: Tensor, recipe: Recipe, progress: float = 0.0) -> Tensor:
    """Shift, turn, scale and shear each image by its own random amounts, up to the recipe's, in one pass.

    Args:
        images: `(batch, channels, height, width)`; what comes in from outside is 0.
        recipe: says how much of each.
        progress: the share of the training that is done, 0 … 1; `recipe.augmentation_fade` says over which last part of
            it the amounts shrink.

    Returns:
        The same shape, on the same device; the random numbers come from the CPU, the same for every device.
    """
    if not (recipe.shift or recipe.rotation or recipe.scale or recipe.shear):
        return images
    batch, _, height, width = images.shape
    strength = min(1.0, (1 - progress) / recipe.augmentation_fade) if recipe.augmentation_fade else 1.0
    angle, lean, size, right, down = (strength * (2 * torch.rand(5, batch) - 1)).unbind()  # each in −1 … 1
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
    x, y = ((2 * torch.arange(n) + 1) / n - 1 for n in (width, height))  # the pixels' centres
    pixels = torch.stack([x.repeat(height), y.repeat_interleave(width), torch.ones(height * width)])
    grid = affine @ pixels.to(images)  # (batch, 2, height · width); as F.affine_grid, in a third of its time
    grid = grid.unflatten(-1, (height, width)).permute(0, 2, 3, 1)  # (batch, height, width, 2)
    return F.grid_sample(images, grid, align_corners=False)


def predict(model: nn.Module, images: Tensor, batch_size: int = 500) -> Tensor:
    """The model's logits `(n, classes)` for images `(n, channels, height, width)`, in eval mode, batch by batch.

    The images may be on another device than the model; the logits are where the images are. The model keeps its mode.
    """
    with looking_at(model) as device:
        return torch.cat([model(batch.to(device)).to(images.device) for batch in images.split(batch_size)])


def accuracy(model: nn.Module, images: Tensor, labels: Tensor, top_k: int = 1) -> float:
    """The share of images, 0 … 1, whose label is among the model's `top_k` largest logits.

    Raises:
        ValueError: there are no images, or not as many labels as images.
    """
    if len(images) != len(labels) or not len(images):
        raise ValueError(f"images and labels must be as many, and at least one: got {len(images)} and {len(labels)}")
    guesses = predict(model, images).topk(top_k, dim=-1).indices  # (n, top_k)
    return (guesses == labels.to(guesses.device)[:, None]).any(dim=-1).float().mean().item()


def exact_match(model: "Transformer", dates: Dates, batch_size: int = 500) -> float:
    """The share of dates, 0 … 1, that the model writes right to the last character, decoding greedily and freely."""
    written = translate(model, dates, batch_size)
    return sum(got == right for got, right in zip(written, dates.iso, strict=True)) / len(dates.iso)


def translate(model: "Transformer", dates: Dates, batch_size: int = 500) -> list[str]:
    """What the model writes for each date, decoding greedily, in eval mode. The model keeps its mode."""
    from headroom.reference.attention import padding_mask
    from headroom.reference.decoding import greedy_decode

    written = []
    with looking_at(model) as device:
        for rows in torch.arange(len(dates.source)).split(batch_size):
            source, lengths = dates.source[rows].to(device), dates.source_lengths[rows].to(device)
            mask = padding_mask(lengths, source.size(1))
            tokens = greedy_decode(model, source, BOS, EOS, dates.target.size(1), mask)
            written += TARGET.decode(tokens.cpu())
    return written


@contextmanager
def _side_by_side(device: torch.device) -> Generator[Executor | None]:
    """Threads to compute the parts of a batch on a CPU; on other devices None. Torch itself gets one core fewer.

    Torch's own threads wait for each other after every operation, and a small model's operations take microseconds: as
    soon as another program (a browser, say) wants one of their cores, all of them wait for it, far longer than they
    compute. The threads of this pool wait for each other once a step.
    """
    if device.type != "cpu":
        yield None
        return
    threads = torch.get_num_threads()
    each = max(1, (threads - 1) // PARTS)  # a thread of the pool has torch's own threads at its side
    torch.set_num_threads(max(1, threads - 1))
    try:
        with ThreadPoolExecutor(PARTS, initializer=torch.set_num_threads, initargs=(each,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def _side_effects(model: nn.Module) -> tuple[bytes, list[int]]:
    """What a forward pass leaves behind if it draws random numbers (dropout) or updates averages (batch norm).

    Parts of a batch then cannot go side by side: their order would be left to chance, and the result with it.
    """
    return torch.get_rng_state().numpy().tobytes(), [buffer._version for buffer in model.buffers()]


def _progress(history: History) -> dict[str, str]:
    """What the progress bar says: the latest loss and validation accuracy."""
    shown = {"loss": f"{history.losses[-1]:.3f}"}
    if history.val_accuracy:
        shown["validation"] = f"{100 * history.val_accuracy[-1]:.1f} %"
    return shown
