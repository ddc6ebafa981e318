"""Switch known mistakes on in a model, and see what each costs. The front end is view.js."""

from __future__ import annotations

import copy
import itertools
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import traitlets as t
from torch import Tensor, nn

from headroom.data import SOURCE, TARGET, Vocabulary
from headroom.figures import ArrayLike
from headroom.mistakes import MISTAKES, Switch, broken
from headroom.mistakes.switch import check_exclusive
from headroom.reference import Transformer
from headroom.widgets.base import Widget, choice, index, index_or_none
from headroom.widgets.bug_switches.tasks import SHOWN, Task, images_task, texts_task
from headroom.widgets.picture import MOST_LABELS, Panel
from headroom.widgets.shared import (
    Change,
    as_array,
    front_end,
    quantise,
)

SECONDS = 2.0  # to compute single mistakes at once; the rest is computed when it is switched on


@dataclass(frozen=True)
class Result:
    """What a model computes on the examples, with some mistakes switched on or with none.

    Attributes:
        accuracy: share of the examples that it gets right, 0 … 1.
        loss: mean cross-entropy, in nats.
        gradient: norm of the gradient of that loss by all parameters.
        gradients: the same by part of the model; None: no gradient reaches it; a part that has no parameters of its
            own (they are not registered, or they are another part's) is missing.
        predictions: what it says to each example: a class, or a text; None where it computes no numbers.
        parameters: how many numbers an optimizer would train.
        attention: the weights of the shown examples, by kind: `(n_layers, n_heads, n_queries, n_keys)` each. Empty if
            the model returns no weights of this form.
    """

    accuracy: float
    loss: float
    gradient: float
    gradients: dict[str, float | None]
    predictions: tuple[int | str | None, ...]
    parameters: int
    attention: dict[str, list[np.ndarray]] = field(repr=False)


class BugSwitches(Widget):
    """A model beside itself with known mistakes switched on: attention, gradient norms, accuracy.

    Each mistake that can be made in the model is a checkbox, and several may be on. Everything is computed in Python,
    in eval mode, on copies of the model as it is when the widget is made: the model is left alone. Single mistakes are
    computed at once as far as that goes within two seconds, others when they are switched on; what was computed is kept
    in the browser, so a saved notebook shows it again without Python.

    Each choice can be read, observed and set, `selection` has them all, and `results` holds the numbers.

    Args:
        model: an image classifier of `headroom.reference`, trained or not.
        inputs: images `(n, channels, height, width)`; the attention of the first three is shown.
        targets: int, `(n,)`: the right classes.
        mistakes: names of those to offer, as in `headroom.mistakes.MISTAKES`; None: all that can be made in the model.
        on: those that are on at first.
        sample, layer, head: what to show first; negative indices count from the end. `head` None: the mean of all.

    Raises:
        ValueError: an argument has the wrong shape or values, or a mistake does not exist or cannot be made in this
            model; the message says which, what it got, and what is right.
    """

    _esm, _css = front_end("bug_switches")

    _facts = t.Dict().tag(sync=True)  # the switches, the examples, the names of the model's parts
    _pixels = t.Bytes().tag(sync=True)  # u8: (shown, height, width, channels); empty for text
    _results = t.Dict().tag(sync=True)  # by the names that are on, joined with "+"; "" is the model as it is
    _attention = t.Dict().tag(sync=True)  # the same keys: u16, kind after kind, example after example

    # What the reader chooses; either side may change it.
    on = choice(t.List(t.Unicode()), lambda self, name, value: list(self._checked(value)))
    sample = index(lambda self: len(self._facts["shown"]))
    part = choice(t.Unicode("encoder"), lambda self, name, value: self._check_part(value))  # which attention
    layer = index(lambda self: self._n_layers)
    head = index_or_none(lambda self: self._n_heads)  # None: the mean of all heads
    # The tokens that the reader points at: as many as any mistake leaves.
    query = index(lambda self: self._longest(-2))
    key = index(lambda self: self._longest(-1))

    def __init__(
        self,
        model: nn.Module,
        inputs: ArrayLike,
        targets: ArrayLike,
        mistakes: Sequence[str] | None = None,
        *,
        on: Sequence[str] = (),
        sample: int = 0,
        layer: int = -1,
        head: int | None = None,
    ) -> None:
        offered = _offered(model, mistakes)
        self._begin(model, images_task(model, inputs, targets), offered, on, sample, layer, head)

    @classmethod
    def from_transformer(
        cls,
        model: Transformer,
        texts: Sequence[str],
        answers: Sequence[str],
        mistakes: Sequence[str] | None = None,
        source: Vocabulary = SOURCE,
        target: Vocabulary = TARGET,
        **start: Any,
    ) -> BugSwitches:
        """The same for an encoder-decoder that reads texts, such as dates, and writes answers.

        Right is an answer that it writes greedily, freely and to the last character; loss, gradients and attention are
        of the right answers, given as while training.

        Args:
            model: as `headroom.reference.Transformer`.
            texts: what it reads.
            answers: what it should write, as many.
            mistakes: as in the class.
            source, target: the vocabularies of what it reads and writes.
            start: `on`, `sample`, `layer`, `head`, as in the class.

        Raises:
            ValueError: as the class, and if a text holds a character that its vocabulary does not have.
        """
        offered = _offered(model, mistakes)
        task = texts_task(model, texts, answers, source, target)
        widget = cls.__new__(cls)
        widget._begin(model, task, offered, **start)
        return widget

    def _begin(
        self,
        model: nn.Module,
        task: Task,
        offered: list[Switch],
        on: Sequence[str] = (),
        sample: int = 0,
        layer: int = -1,
        head: int | None = None,
    ) -> None:
        self._model = copy.deepcopy(model).eval()
        self._task = task
        self._offered = {mistake.name: mistake for mistake in offered}
        self.results: dict[tuple[str, ...], Result] = {}
        start = time.process_time()
        healthy = self._compute(())
        for name in self._offered:
            if time.process_time() - start > SECONDS:
                break
            self._compute((name,))
        shape = next((weights[0].shape for weights in healthy.attention.values()), (1, 1))
        self._n_layers, self._n_heads = shape[:2]
        facts = task.facts | {
            "mistakes": [
                {name: getattr(mistake, name) for name in ("name", "title", "sentence", "group", "slot")}
                for mistake in offered
            ],
            "n_layers": self._n_layers,
            "n_heads": self._n_heads,
            "parts": list(healthy.attention),
            "gradients": list(healthy.gradients),
            "n": len(task.targets),
        }
        super().__init__(_facts=facts, _pixels=task.pixels, **self._sent())
        self.part = list(healthy.attention)[-1] if healthy.attention else "encoder"
        self._choose(sample=sample, layer=layer, head=head)
        self.on = list(on)

    def compute(self, *names: str) -> Result:
        """The result with these mistakes switched on; computed once, and kept for the browser as well.

        Raises:
            ValueError: one of them is not offered, or two exclude each other.
        """
        key = self._checked(names)
        if key not in self.results:
            self._compute(key)
            with self.hold_sync():  # numbers and weights in one message
                for name, value in self._sent().items():
                    setattr(self, name, value)
        return self.results[key]

    @property
    def result(self) -> Result:
        """The result with what is switched on now."""
        return self.compute(*self.on)

    def _panels(self) -> list[Panel]:
        names = ["as it is", *(self._offered[switched[0]].title for switched in self.results if len(switched) == 1)]
        right = [result.accuracy for key, result in self.results.items() if len(key) < 2]
        return [
            Panel(
                "Share that it gets right", np.array(right)[:MOST_LABELS, None], names[:MOST_LABELS], [""], values=True
            )
        ]

    def _says(self) -> str:
        healthy, shown = self.results[()], self.result
        on = ", ".join(self._offered[name].title for name in self.on) or "no mistake"
        return (
            f"A model as it is gets {healthy.accuracy:.0%} of {len(self._task.targets)} examples right; with {on}, "
            f"{shown.accuracy:.0%}."
        )

    def __repr__(self) -> str:
        return (
            f"BugSwitches({type(self._model).__name__}, {len(self._task.targets)} examples, "
            f"{len(self._offered)} mistakes, {len(self.results) - 1} combinations computed)"
        )

    # ------------------------------------------------ computing

    def _compute(self, names: tuple[str, ...]) -> Result:
        model = broken(self._model, *names)
        loss, predictions, attention = self._task.ask(model)
        parameters = dict(model.named_parameters())
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        squares: dict[str, float | None] = {}
        decodes = any(name.startswith("decoder.") for name in parameters)
        for name, gradient in zip(parameters, gradients, strict=True):
            part = _part_of(name, decodes)
            unused = gradient is None  # pyright: ignore[reportUnnecessaryComparison]  # torch's stub forgets allow_unused
            size = None if unused else gradient.double().square().sum().item()
            sizes = [square for square in (squares.get(part), size) if square is not None]
            squares[part] = sum(sizes) if sizes else None
        right = sum(prediction == target for prediction, target in zip(predictions, self._task.targets, strict=True))
        result = Result(
            accuracy=right / len(predictions),
            loss=loss.item(),
            gradient=math.sqrt(sum(square for square in squares.values() if square is not None)),
            gradients={part: None if square is None else math.sqrt(square) for part, square in squares.items()},
            predictions=tuple(predictions),
            parameters=sum(parameter.numel() for parameter in parameters.values()),
            attention={kind: self._cut(kind, weights, names) for kind, weights in attention.items()},
        )
        self.results[names] = result
        return result

    def _cut(self, kind: str, weights: Tensor, names: tuple[str, ...]) -> list[np.ndarray]:
        """The weights of the shown examples, each without its padding."""
        sizes = self._task.sizes.get(kind)
        own_keys = kind == "cross" and "own_keys" in self._tokens(names)
        cut = []
        for sample in range(min(SHOWN, len(weights))):
            shown = as_array("attention", weights[sample])
            if sizes is not None:
                queries, keys = sizes[sample]
                shown = shown[..., :queries, : queries if own_keys else keys]
            cut.append(shown.astype(np.float32))
        return cut

    def _tokens(self, names: tuple[str, ...]) -> set[str]:
        """Where, with these mistakes, tokens are others than the healthy model's; as `Switch.tokens` has it."""
        return {self._offered[name].tokens for name in names}

    def _sent(self) -> dict[str, dict[str, Any]]:
        """Results as the browser gets them: numbers as JSON takes them, weights as bytes."""
        healthy = self.results[()]
        results, attention = {}, {}
        for names, result in self.results.items():
            together = list(itertools.chain.from_iterable(result.attention.values()))
            tokens = self._tokens(names)
            finite = all(np.isfinite(values).all() for values in together)
            results["+".join(names)] = {
                "accuracy": result.accuracy,
                "right": round(result.accuracy * len(result.predictions)),
                "loss": _number(result.loss),
                "gradient": _number(result.gradient),
                # null: no gradient; missing: no parameters of its own
                "gradients": {part: _number(values) for part, values in result.gradients.items()},
                "parameters": result.parameters,
                "predictions": list(result.predictions[:SHOWN]),
                "looks": {
                    kind: _looks(weights, healthy.attention[kind], "class_last" not in tokens)
                    for kind, weights in result.attention.items()
                    if finite
                },
                # Where the tokens are others than the healthy model's.
                "no_class": "no_class" in tokens,
                "class_last": "class_last" in tokens,
                "own_keys": "own_keys" in tokens,
            }
            attention["+".join(names)] = b"".join(quantise(values) for values in together) if finite else b""
        return {"_results": results, "_attention": attention}

    # ------------------------------------------------ choices

    def _checked(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names in the order in which they are offered, each once, if they can be on together."""
        for name in names:
            if name not in self._offered:
                raise ValueError(f"{name!r} is not offered here; there are {', '.join(self._offered)}")
        chosen = [mistake for mistake in self._offered.values() if mistake.name in names]
        check_exclusive(chosen)
        return tuple(mistake.name for mistake in chosen)

    def _longest(self, axis: int) -> int:
        """The most queries (axis −2) or keys (−1) of the shown example, with whatever is switched on."""
        sizes = [
            result.attention[self.part][self.sample].shape[axis]
            for result in self.results.values()
            if self.part in result.attention
        ]
        return max(sizes, default=1)

    def _check_part(self, part: str) -> str:
        parts = self._facts["parts"]
        if parts and part not in parts:
            raise ValueError(f"part={part!r} does not exist; there are {', '.join(parts)}")
        return part

    def _derived(self) -> dict[str, Any]:
        return {"mistakes": tuple(self.on)}

    @t.observe("sample", "part")
    def _keep_up(self, _change: Change) -> None:
        """Query and key exist in what is shown; the browser does the same."""
        self.query = min(self.query, self._longest(-2) - 1)
        self.key = min(self.key, self._longest(-1) - 1)

    @t.observe("on")
    def _switched(self, _change: Change) -> None:
        self.compute(*self.on)


def _offered(model: nn.Module, names: Sequence[str] | None) -> list[Switch]:
    """The mistakes to offer, in the order of `MISTAKES`."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model is a {type(model).__name__}; it must be a model of headroom.reference")
    possible = [mistake for mistake in MISTAKES.values() if mistake.applies(model)]
    if not possible:
        kind = type(model).__name__
        raise ValueError(f"no known mistake can be made in a {kind}; give a model of headroom.reference")
    if names is None:
        return possible
    if isinstance(names, str):
        raise ValueError(f"mistakes is one string, {names!r}; it must be a list of names, such as [{names!r}]")
    known = {mistake.name for mistake in possible}
    for name in names:
        if name not in known:
            raise ValueError(
                f"mistakes names {name!r}, which cannot be made in this {type(model).__name__}; "
                f"those that can: {', '.join(mistake.name for mistake in possible)}"
            )
    return [mistake for mistake in possible if mistake.name in names]


TOP = {
    "embed": "patch embedding",
    "embed_source": "source embedding",
    "embed_target": "target embedding",
    "class_token": "[class] token",
    "distillation_token": "distillation token",
    "distillation_head": "distillation head",
}
BLOCK = re.compile(r"\bblocks\.(\d+)\.(norm|feed|attention|self|cross)(?:_(\d))?\w*\.(\w+)")
INNER = {"norm": "LayerNorm {}", "feed": "feed-forward", "attention": "{}", "self": "own {}", "cross": "cross {}"}


def _part_of(parameter: str, decodes: bool) -> str:
    """The part of a model, in words, that a parameter belongs to: "layer 2, W_Q", "decoder layer 1, cross W_O".

    `decodes`: whether there is a decoder as well; then the encoder is named, too.
    """
    top = parameter.split(".")[0]
    side = f"{top} " if decodes and top in ("encoder", "decoder") else ""
    if stage := re.match(r"(?:stages|encoders|merges)\.(\d+)\.", parameter):
        side = f"stage {int(stage[1]) + 1} "
    if block := BLOCK.search(parameter):
        layer, kind, number, inside = block.groups()
        name = INNER[kind].format(number or (inside.upper() if inside.startswith("w_") else inside))
        return f"{side}layer {int(layer) + 1}, {name}"
    if ".norm." in parameter:
        return f"{side}last LayerNorm"
    return f"{side}embedding" if stage else TOP.get(top, top.replace("_", " "))


def _looks(weights: list[np.ndarray], healthy: list[np.ndarray], same_order: bool) -> dict[str, Any]:
    """What is told of the shown examples' weights: sizes, sharpness, sums of rows, and how far they have moved."""
    sums = [values.sum(axis=-1) for values in weights]
    same = same_order and all(values.shape == other.shape for values, other in zip(weights, healthy, strict=True))
    moved = [
        np.abs(values - other).sum(axis=-1).mean() / 2 for values, other in zip(weights, healthy, strict=True) if same
    ]
    return {
        "sizes": [list(values.shape[-2:]) for values in weights],
        "largest": float(np.mean([values.max(axis=-1).mean() for values in weights])),
        "lowest_sum": float(min(values.min() for values in sums)),
        "highest_sum": float(max(values.max() for values in sums)),
        "moved": float(np.mean(moved)) if same else None,
    }


def _number(value: float | None) -> float | str | None:
    """As JSON takes it, which knows neither NaN nor infinity."""
    return value if value is None or math.isfinite(value) else "NaN"
