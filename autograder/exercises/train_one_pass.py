"""A training loop: the second of five broken programs to mend (lab 8)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Choice, Only, Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.broken_programs import KEPT, OVERWRITTEN
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Batches of one, where a mean is a sum; one batch, where nothing can pile up; a last batch that is short."""
    visible = np.random.default_rng(82)

    def case(tag: str, label: str, source: np.random.Generator, images: int, batch_size: int, **kwargs: Any) -> Case:
        features, classes = (int(n) for n in source.choice([3, 4, 5, 6], 2, replace=False))
        inputs = _inputs(source, features, classes, images, batch_size, kwargs.pop("size", 1.0))
        about = f"{label}, {images} images of {features} features, {classes} classes"
        return Case(tag, about, inputs, single=False, **kwargs)

    return [
        case("alone", "batches of 1", visible, 4, 1, visible=True),
        case("alone", "batches of 1", rng, 6, 1),
        case("alone", "batches of 4, 4 and 1", rng, 9, 4),
        case("length", "a single batch of 4", visible, 4, 4, visible=True),
        case("length", "a single batch of 5, batch_size = 7", rng, 5, 7),
        case("length", "a single batch of 6, bright", rng, 6, 6, size=40.0),
        case("contract", "float32", rng, 5, 2, dtype="float32"),
    ]


def _inputs(
    rng: np.random.Generator, features: int, classes: int, images: int, batch_size: int, size: float = 1.0
) -> Inputs:
    """Weights to start from, images of numbers so large, labels, a learning rate, and how many images make a step."""
    return (
        rng.normal(0.0, 0.5, (features, classes)),
        rng.normal(0.0, size, (images, features)),
        rng.integers(0, classes, images),
        float(np.round(rng.uniform(0.2, 0.6), 2)),
        batch_size,
    )


ALONE = "smaller, and the only one"
AXES = (
    Axis("batches", most=4),
    Axis("batch_size", most=5),
    Axis("features", most=6),
    Axis("classes", least=2, most=6),
    Choice("the last batch", ("full", "smaller", ALONE)),
    Only(lambda sizes: _go_together(sizes["the last batch"], sizes["batches"], sizes["batch_size"])),
)


def _go_together(last: str, batches: int, batch_size: int) -> bool:
    return last == "full" or (batch_size > 1 and (batches == 1) == (last == ALONE))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batches, batch_size, features, classes, last = sizes.values()
    images = (batches - 1) * batch_size + (batch_size if last == "full" else batch_size // 2)
    inputs = _inputs(rng, features, classes, images, batch_size)
    return Case("alone" if batches > 1 else "length", "", inputs, single=False)


def right_answer(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    start, images, labels, learning_rate, batch_size = inputs
    at, losses = start.detach(), []
    with torch.enable_grad():
        for rows in torch.arange(len(images)).split(batch_size):
            at = at.detach().requires_grad_()
            loss = reference.cross_entropy(images[rows] @ at, labels[rows])
            (gradient,) = torch.autograd.grad(loss, at)
            at = at - learning_rate * gradient
            losses.append(loss)
    return at.detach(), torch.stack(losses).detach()


def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> tuple[Tensor, Tensor]:
    """A pass of gradient descent with mistakes switched on."""
    at, images, labels, learning_rate, batch_size = inputs
    at, kept, losses = at.detach(), torch.zeros_like(at), list[Tensor]()
    batches = torch.arange(len(images)).split(batch_size)
    if "drop_last" in slips:
        batches = [rows for rows in batches if len(rows) == batch_size]
    elif "first_only" in slips:
        batches = batches[:1]

    def loss_of(rows: Tensor) -> Tensor:
        logits = images[rows] @ at
        return reference.cross_entropy(logits.softmax(-1) if "softmax_twice" in slips else logits, labels[rows])

    with torch.enable_grad():
        for rows in batches:
            at = at.detach().requires_grad_()
            loss = loss_of(rows)
            (gradient,) = torch.autograd.grad(loss, at)
            factors = {"divided_again": 1 / len(rows), "by_batch_size": 1 / batch_size, "summed": len(rows)}
            factors |= {"divided_recorded": 1 / len(rows), "summed_recorded": len(rows), "by_batches": 1 / len(batches)}
            factor = math.prod(by for key, by in factors.items() if key in slips)
            kept = factor * gradient + (kept if slips & {"piled_up", "one_step"} else 0)
            if not slips & {"one_step", "not_stepped"}:
                at = at - (-learning_rate if "uphill" in slips else learning_rate) * kept
            loss = loss_of(rows) if "recorded_after" in slips else loss
            losses.append(loss * factor if slips & {"divided_recorded", "summed_recorded"} else loss)
    at = at - learning_rate * kept if "one_step" in slips else at
    return at.detach(), torch.stack(losses).detach() if losses else torch.zeros(0).to(at)


MISTAKES = (
    OVERWRITTEN,
    mistake(
        "train_one_pass.piled_up",
        "Print the gradient before each step, and that of the batch alone. What else is in it?",
        "pile",
        costs=("alone",),
    ),
    mistake(
        "train_one_pass.divided_again",
        "Follow one number, the loss, from where it is made to `backward`. How often is it made smaller?",
        "length",
        also=("by_batch_size", "divided_recorded"),
        costs=("length",),
    ),
    mistake(
        "train_one_pass.not_stepped",
        "In which order do you clear, compute and use the gradient?",
        "pile",
    ),
    mistake(
        "train_one_pass.one_step",
        "How many steps should a pass of five batches make? At which weights is the gradient of the second one taken?",
        "pile",
    ),
    mistake(
        "train_one_pass.first_only",
        "After how many batches does your loop end, and which line ends it?",
        "batches",
    ),
    mistake(
        "train_one_pass.drop_last",
        "How many batches do 8 images make, 3 at a time?",
        "batches",
    ),
    mistake(
        "train_one_pass.summed",
        "Four copies of an image: how long should the step be, compared with that of the image alone?",
        "length",
        also=("summed_recorded",),
        costs=("length",),
    ),
    mistake(
        "train_one_pass.by_batches",
        "The learning rate times the gradient: does it say anything about how many batches there are?",
        "length",
        costs=("alone",),
    ),
    mistake(
        "train_one_pass.uphill",
        "In which direction does the gradient point?",
        "sign",
    ),
    mistake(
        "sequence_loss.softmax_twice",
        "What does `cross_entropy` expect: logits or probabilities?",
        "softmax",
    ),
    mistake(
        "train_one_pass.recorded_after",
        "The task asks for the loss of each batch before its step. When do you compute yours?",
        "record",
    ),
)

TRAIN_ONE_PASS = Exercise(
    name="train_one_pass",
    returns="two tensors: the weights, (features, classes), and the losses, (batches,)",
    shape=lambda case: (case.inputs[0].shape, (math.ceil(len(case.inputs[1]) / case.inputs[4]),)),
    parts=("the weights", "the losses"),
    criteria=(
        Criterion("alone", "each step follows the gradient of its own batch alone", 0.5),
        Criterion("length", "a step is the learning rate times the gradient, for any batch size", 0.5),
        KEPT,
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
)
