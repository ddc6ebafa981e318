"""Switch known mistakes on in a model, and see what each costs. The front end is bug_switches.js."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anywidget
import numpy as np
import torch
import traitlets as t
from torch import Tensor, nn

from headroom.data import BOS, EOS, PAD, SOURCE, TARGET, Vocabulary
from headroom.mistakes import MISTAKES, Switch, broken
from headroom.reference import Transformer, cross_entropy, greedy_decode, padding_mask
from headroom.widgets.shared import (
    CHOSEN,
    ArrayLike,
    Change,
    Proposal,
    as_array,
    as_index,
    check_finite,
    front_end,
    quantise,
    trait_errors,
)

SHOWN = 3  # examples whose attention is sent; the numbers are of all
SECONDS = 2.0  # to compute single mistakes at once; the rest is computed when it is switched on


@dataclass(frozen=True)
class Selection:
    """What a `BugSwitches` shows right now. Every index counts from 0 (the screen counts from 1)."""

    mistakes: tuple[str, ...]  # those switched on
    sample: int  # which of the shown examples
    part: str  # which attention: "encoder", "decoder" or "cross"
    layer: int
    head: int | None  # None: the mean of all heads
    query: int  # the tokens that the reader points at
    key: int


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


@dataclass(frozen=True)
class _Task:
    """What a model is asked: `loss(model)` → loss, predictions, attention by kind `(n, layers, heads, …)`."""

    ask: Callable[[Any], tuple[Tensor, list[Any], dict[str, Tensor]]]
    targets: list[Any]  # the right prediction for each example
    sizes: dict[str, list[tuple[int, int]]]  # queries and keys of each shown example, without padding; by kind
    facts: dict[str, Any]
    pixels: bytes = b""


class BugSwitches(anywidget.AnyWidget):
    """A model beside itself with known mistakes switched on: attention, gradient norms, accuracy.

    Each mistake that can be made in the model is a checkbox, and several may be on. Everything is computed in Python,
    in eval mode, on copies of the model as it is when the widget is made: the model is left alone. Single mistakes are
    computed at once as far as that goes within two seconds, others when they are switched on; what was computed is kept
    in the browser, so a saved notebook shows it again without Python.

    `on`, `sample`, `part`, `layer`, `head`, `query` and `key` can be read, observed and set, and `results` holds the
    numbers.

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
    on = t.List(t.Unicode()).tag(**CHOSEN)
    sample = t.Int(0).tag(**CHOSEN)
    part = t.Unicode("encoder").tag(**CHOSEN)
    layer = t.Int(0).tag(**CHOSEN)
    head = t.Int(None, allow_none=True).tag(**CHOSEN)
    query = t.Int(0).tag(**CHOSEN)
    key = t.Int(0).tag(**CHOSEN)

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
        self._begin(model, _images_task(model, inputs, targets), offered, on, sample, layer, head)

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
        task = _texts_task(model, texts, answers, source, target)
        widget = cls.__new__(cls)
        widget._begin(model, task, offered, **start)
        return widget

    def _begin(
        self,
        model: nn.Module,
        task: _Task,
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
        shape = next((one[0].shape for one in healthy.attention.values()), (1, 1))
        self._n_layers, self._n_heads = shape[:2]
        facts = task.facts | {
            "mistakes": [
                {name: getattr(mistake, name) for name in ("name", "title", "group", "slot")}
                | {"what": mistake.sentence}
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
        self.sample = as_index("sample", sample, len(task.facts["shown"]))
        self.layer = as_index("layer", layer, self._n_layers)
        self.head = None if head is None else as_index("head", head, self._n_heads)
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

    @property
    def selection(self) -> Selection:
        """What is selected now, as the reader sees it (read-only)."""
        return Selection(tuple(self.on), self.sample, self.part, self.layer, self.head, self.query, self.key)

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
            sizes = [one for one in (squares.get(part), size) if one is not None]
            squares[part] = sum(sizes) if sizes else None
        right = sum(said == target for said, target in zip(predictions, self._task.targets, strict=True))
        result = Result(
            accuracy=right / len(predictions),
            loss=loss.item(),
            gradient=math.sqrt(sum(one for one in squares.values() if one is not None)),
            gradients={part: None if one is None else math.sqrt(one) for part, one in squares.items()},
            predictions=tuple(predictions),
            parameters=sum(parameter.numel() for parameter in parameters.values()),
            attention={kind: self._cut(kind, weights, names) for kind, weights in attention.items()},
        )
        self.results[names] = result
        return result

    def _cut(self, kind: str, weights: Tensor, names: tuple[str, ...]) -> list[np.ndarray]:
        """The weights of the shown examples, each without its padding."""
        sizes = self._task.sizes.get(kind)
        cut = []
        for sample in range(min(SHOWN, len(weights))):
            one = as_array("attention", weights[sample])
            if sizes is not None:
                queries, keys = sizes[sample]
                one = one[..., :queries, : queries if kind == "cross" and "own_memory" in names else keys]
            cut.append(one.astype(np.float32))
        return cut

    def _sent(self) -> dict[str, dict[str, Any]]:
        """Results as the browser gets them: numbers as JSON takes them, weights as bytes."""
        healthy = self.results[()]
        results, attention = {}, {}
        for names, result in self.results.items():
            together = list(itertools.chain.from_iterable(result.attention.values()))
            finite = all(np.isfinite(one).all() for one in together)
            results["+".join(names)] = {
                "accuracy": result.accuracy,
                "right": round(result.accuracy * len(result.predictions)),
                "loss": _number(result.loss),
                "gradient": _number(result.gradient),
                # null: no gradient; missing: no parameters of its own
                "gradients": {part: _number(one) for part, one in result.gradients.items()},
                "parameters": result.parameters,
                "predictions": list(result.predictions[:SHOWN]),
                "looks": {
                    kind: _looks(weights, healthy.attention[kind], "class_at_the_end" not in names)
                    for kind, weights in result.attention.items()
                    if finite
                },
                # Where the tokens are others than the healthy model's.
                "no_class": "no_class_token" in names,
                "class_last": "class_at_the_end" in names,
                "own_keys": "own_memory" in names,
            }
            attention["+".join(names)] = b"".join(quantise(one) for one in together) if finite else b""
        return {"_results": results, "_attention": attention}

    # ------------------------------------------------ choices

    def _checked(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names in the order in which they are offered, each once, if they can be on together."""
        for name in names:
            if name not in self._offered:
                raise ValueError(f"{name!r} is not offered here; there are {', '.join(self._offered)}")
        chosen = [mistake for mistake in self._offered.values() if mistake.name in names]
        for one, other in itertools.combinations(chosen, 2):
            if one.slot == other.slot:
                raise ValueError(f"{one.name!r} and {other.name!r} exclude each other: both change the same line")
        return tuple(mistake.name for mistake in chosen)

    @t.validate("on")
    def _valid_on(self, proposal: Proposal) -> list[str]:
        with trait_errors():
            return list(self._checked(proposal["value"]))

    @t.validate("sample", "layer", "head")
    def _valid_index(self, proposal: Proposal) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        size = {"sample": len(self._facts["shown"]), "layer": self._n_layers, "head": self._n_heads}[name]
        with trait_errors():
            return None if value is None else as_index(name, value, size)

    @t.validate("query", "key")
    def _valid_token(self, proposal: Proposal) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        most = max(self._size(name), default=1)  # as many as any mistake leaves
        with trait_errors():
            return as_index(name, value, most)

    def _size(self, name: str) -> list[int]:
        """The numbers of queries or keys of the shown example, with whatever is switched on."""
        axis = -2 if name == "query" else -1
        return [
            result.attention[self.part][self.sample].shape[axis]
            for result in self.results.values()
            if self.part in result.attention
        ]

    @t.validate("part")
    def _valid_part(self, proposal: Proposal) -> str:
        parts = self._facts["parts"]
        if parts and proposal["value"] not in parts:
            raise t.TraitError(f"part={proposal['value']!r} does not exist; there are {', '.join(parts)}")
        return proposal["value"]

    @t.observe("sample", "part")
    def _keep_up(self, _change: Change) -> None:
        """Query and key exist in what is shown; the browser does the same."""
        for name in ("query", "key"):
            setattr(self, name, min(getattr(self, name), max(self._size(name), default=1) - 1))

    @t.observe("on")
    def _switched(self, _change: Change) -> None:
        self.compute(*self.on)


def _images_task(model: nn.Module, inputs: ArrayLike, targets: ArrayLike) -> _Task:
    images = as_array("inputs", inputs)
    if images.ndim != 4 or 0 in images.shape:
        hint = "; put one image in a batch with inputs[None]" if images.ndim == 3 else ""
        raise ValueError(f"inputs has shape {images.shape}; it must be (n, channels, height, width){hint}")
    check_finite("inputs", images)
    labels = as_array("targets", targets)
    if labels.shape != (len(images),):
        raise ValueError(f"targets has shape {labels.shape}; it must be ({len(images)},), one class for each image")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"targets holds {labels.dtype} values; classes are whole numbers")
    device, dtype = _home(model)
    x = torch.as_tensor(images, dtype=dtype, device=device)
    y = torch.as_tensor(labels.astype(np.int64), device=device)
    n_classes = _count_classes(model, x)
    if not 0 <= labels.min() <= labels.max() < n_classes:
        raise ValueError(f"targets holds {labels.min()} … {labels.max()}; the model knows classes 0 … {n_classes - 1}")

    def ask(model: nn.Module) -> tuple[Tensor, list[Any], dict[str, Tensor]]:
        returns_weights = "return_attention" in inspect.signature(model.forward).parameters
        logits, attention = model(x, return_attention=True) if returns_weights else (model(x), None)
        if not (isinstance(attention, Tensor) and attention.dim() == 5):
            attention = None  # in windows, or in stages
        said = [int(row.argmax()) if row.isfinite().all() else None for row in logits.detach()]
        return cross_entropy(logits, y), said, {} if attention is None else {"encoder": attention.detach()}

    height, width = images.shape[2:]
    shown = images[:SHOWN].transpose(0, 2, 3, 1)
    if shown.shape[-1] not in (1, 3):
        shown = shown.mean(axis=-1, keepdims=True)
    low, high = float(images.min()), float(images.max())
    pixels = np.rint(255 * (shown - low) / ((high - low) or 1)).astype(np.uint8)  # normalised images too
    patch = getattr(getattr(model, "embed", None), "patch_size", width + 1)  # 0 columns: tokens are no patches
    facts = {
        "kind": "image",
        "shown": [{"target": int(label)} for label in labels[:SHOWN]],
        "n_classes": n_classes,
        "height": height,
        "width": width,
        "channels": pixels.shape[-1],
        "rows": height // patch,
        "columns": width // patch,
    }
    return _Task(ask, labels.tolist(), {}, facts, pixels.tobytes())


def _texts_task(
    model: Transformer, texts: Sequence[str], answers: Sequence[str], source: Vocabulary, target: Vocabulary
) -> _Task:
    if not isinstance(model, Transformer):
        raise ValueError(f"model is a {type(model).__name__}; from_transformer takes a Transformer")
    for name, given in (("texts", texts), ("answers", answers)):
        if isinstance(given, str):
            raise ValueError(f"{name} is one string, {given!r}; it must be a list of strings")
    if len(texts) != len(answers):
        raise ValueError(f"{len(texts)} texts and {len(answers)} answers; there must be one answer for each text")
    ids, lengths = source.encode(texts)
    wanted, ends = target.encode(answers, ends=True)
    device, _ = _home(model)
    ids, lengths, wanted = ids.to(device), lengths.to(device), wanted.to(device)
    mask = padding_mask(lengths, ids.size(1))
    room = wanted.size(1)  # what is longer than the longest answer is wrong, however it ends

    def ask(model: Transformer) -> tuple[Tensor, list[Any], dict[str, Tensor]]:
        logits, attention = model(ids, wanted[:, :-1], mask, return_attention=True)
        loss = cross_entropy(logits, wanted[:, 1:], ignore=PAD)
        finite = logits.detach().isfinite().flatten(1).all(dim=1).tolist()
        written = target.decode(greedy_decode(model, ids, BOS, EOS, room, mask).cpu())
        said = [text if good else None for text, good in zip(written, finite, strict=True)]
        return loss, said, {kind: weights.detach() for kind, weights in attention.items()}

    read = [[source.tokens[i] for i in row[:n]] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True)][:SHOWN]
    steps = [[target.tokens[i] for i in row[:n]] for row, n in zip(wanted.tolist(), ends.tolist(), strict=True)][:SHOWN]
    facts = {
        "kind": "text",
        "shown": [
            {"text": text, "target": answer, "read": tokens, "given": step[:-1], "next": step[1:]}
            for text, answer, tokens, step in zip(texts, answers, read, steps, strict=False)
        ],
        "n_classes": len(target),
    }
    sizes = {
        "encoder": [(len(tokens), len(tokens)) for tokens in read],
        "decoder": [(len(step) - 1, len(step) - 1) for step in steps],
        "cross": [(len(step) - 1, len(tokens)) for step, tokens in zip(steps, read, strict=True)],
    }
    return _Task(ask, list(answers), sizes, facts)


def _count_classes(model: nn.Module, images: Tensor) -> int:
    """The number of logits for an image; a ValueError in a sentence where the model is no classifier of images."""
    kind = type(model).__name__
    if list(inspect.signature(model.forward).parameters)[:1] != ["images"]:
        hint = "; use BugSwitches.from_transformer" if isinstance(model, Transformer) else ""
        raise ValueError(f"model is a {kind}, which does not classify images{hint}")
    with torch.no_grad():
        return copy.deepcopy(model).eval()(images[:1]).size(-1)


def _home(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where the model's numbers are, and what they are."""
    parameter = next(model.parameters())
    return parameter.device, parameter.dtype


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
    sums = [one.sum(axis=-1) for one in weights]
    same = same_order and all(one.shape == other.shape for one, other in zip(weights, healthy, strict=True))
    moved = [np.abs(one - other).sum(axis=-1).mean() / 2 for one, other in zip(weights, healthy, strict=True) if same]
    return {
        "sizes": [list(one.shape[-2:]) for one in weights],
        "largest": float(np.mean([one.max(axis=-1).mean() for one in weights])),
        "lowest_sum": float(min(one.min() for one in sums)),
        "highest_sum": float(max(one.max() for one in sums)),
        "moved": float(np.mean(moved)) if same else None,
    }


def _number(value: float | None) -> float | str | None:
    """As JSON takes it, which knows neither NaN nor infinity."""
    return value if value is None or math.isfinite(value) else "NaN"
