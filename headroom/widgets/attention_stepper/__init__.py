"""Go through one attention by hand, number by number. The front end is view.js."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
import traitlets as t

from headroom.figures import ArrayLike
from headroom.reference import RotarySelfAttention, rotate
from headroom.widgets.attention_stepper.inputs import check_mask, check_matrix, check_sizes, check_words, listen
from headroom.widgets.base import Widget, choice, index, index_or_none
from headroom.widgets.checks import check_temperature
from headroom.widgets.picture import Panel
from headroom.widgets.shared import (
    as_array,
    as_index,
    front_end,
    softmax,
)

Step = Literal["compare", "scale", "mask", "softmax", "mix"]
STEPS: tuple[Step, ...] = get_args(Step)
SPOTS = ("q", "k", "v", "dots", "scores", "masked", "powers", "weights", "output")
STAGES = ("scores", "weights", "output")  # what a student's own tensors are compared in, in the order of computing
TOLERANCE = 1e-4  # float32 arithmetic in another order stays far below, and no mistake does
HIDDEN_SCORE = -1e4  # a hidden score may be −∞, -1e9, the type's smallest number or, in half precision, -1e4

Cells = Sequence[Sequence[Any]]  # [query, key] each, or [query, key, value]


@dataclass(frozen=True, eq=False)
class Stages:
    """Every step of an attention: float64, `(n_queries, n_keys)`, the output `(n_queries, d_v)`."""

    dots: np.ndarray
    scores: np.ndarray  # scaled, not masked
    masked: np.ndarray  # −∞ where the mask hides
    weights: np.ndarray  # NaN in the row of a query that may attend to nothing
    output: np.ndarray

    def row(self, query: int) -> Stages:
        """The same for one query: `(n_keys,)`, the output `(d_v,)`."""
        return Stages(*(getattr(self, name)[query].copy() for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Difference:
    """Where a student's numbers first differ from the right ones in one stage, in the order of reading."""

    stage: Literal["scores", "weights", "output"]
    index: tuple[int, int]  # from 0: (query, key), of the output (query, entry)
    yours: float
    right: float
    says: str  # the same in words, with what else the numbers tell


class AttentionStepper(Widget):
    """One query through q · k → ÷ √d_k → mask → softmax → · V, with the numbers, step by step, forward and back.

    Every number is tied to its place: pointing at one lights up the rows of Q, K and V, the score and the entries of
    the output that it comes from or goes into, and the other way round. A click or Enter holds on, Esc lets go. The
    reader may change things (temperature, division by √d_k, cells of the mask, scores) and see what comes of it; the
    widget then says that these are no longer the model's numbers.

    The browser does the arithmetic, in double precision, on numbers that are sent once, so all of it works in a saved
    notebook. What the reader chooses comes back: each choice can be read, observed and set, and `selection` has them
    all; its `edited` says whether some numbers are the reader's own. `flipped` holds cells `[query, key]` of the mask
    that are turned round, `edited` scores `[query, key, value]` in place of the computed ones.

    Larger inputs are refused and not cut: a softmax over some of the keys, or a dot product over some of the features,
    is another number than the model's. Only queries and entries of the values may be left out without changing the
    rest, and the message says so.

    Args:
        q: queries `(n_queries, d_k)`.
        k: keys `(n_keys, d_k)`.
        v: values `(n_keys, d_v)`.
        mask: bool, broadcastable to `(n_queries, n_keys)`, True = may attend; None: nothing is hidden.
        tokens: the words of the queries, and of the keys unless `source_tokens` are given; None: they are numbered.
        source_tokens: the words of the keys where they are others (cross-attention).
        scores: your own, `(n_queries, n_keys)`, divided by √d_k, masked or not; compared with the right ones.
        weights: your own, `(n_queries, n_keys)`; compared.
        output: your own, `(n_queries, d_v)`; compared.
        query: whom to follow first; negative indices count from the end.
        step: where to start: "compare", "scale", "mask", "softmax" or "mix".
        editing: whether the controls that change the numbers are open.

    Raises:
        ValueError: an argument has the wrong shape, size or values; the message says which, what it got, what is right.
    """

    _esm, _css = front_end("attention_stepper")

    # Sent once.
    _numbers = t.Bytes().tag(sync=True)  # float64, little-endian: q, k, v
    _mask = t.Bytes().tag(sync=True)  # u8: (n_queries, n_keys), 1 = may attend
    _yours = t.Bytes().tag(sync=True)  # float64: the student's scores, weights, output, as far as given
    _facts = t.Dict().tag(sync=True)  # sizes, words, what is given, the comparison

    # What the reader chooses; either side may change it.
    query = index(lambda self: self._may.shape[0])
    step = choice(t.Enum(STEPS, default_value="compare"))
    spot = choice(t.Enum(SPOTS, default_value=None, allow_none=True))  # what kind of number the reader points at, …
    key = index_or_none(lambda self: self._may.shape[1])  # … which key it belongs to, where it belongs to one, …
    entry = index_or_none(lambda self: self._width)  # … and which entry of a query, key, value or output it is
    locked = choice(t.Bool(False))  # True: the pointer no longer moves the spot
    editing = choice(t.Bool(False))
    temperature = choice(t.Float(1.0), lambda self, name, value: check_temperature(value, "1 leaves the scores alone"))
    scaled = choice(t.Bool(True))
    flipped = choice(t.List(), lambda self, name, value: [self._cell(name, cell) for cell in value])
    edited = choice(t.List(), lambda self, name, value: [self._cell(name, cell) for cell in value])

    def __init__(
        self,
        q: ArrayLike,
        k: ArrayLike,
        v: ArrayLike,
        mask: ArrayLike | None = None,
        *,
        tokens: Sequence[str] | None = None,
        source_tokens: Sequence[str] | None = None,
        scores: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        output: ArrayLike | None = None,
        query: int = 0,
        step: Step = "compare",
        editing: bool = False,
    ) -> None:
        self._q, self._k, self._v = (check_matrix(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
        n_queries, n_keys, d_k, d_v = check_sizes(self._q, self._k, self._v)
        self._width = max(d_k, d_v)
        self._may = check_mask(mask, n_queries, n_keys)
        queries, keys = check_words(tokens, source_tokens, n_queries, n_keys)
        right = self._compute()
        given = {"scores": scores, "weights": weights, "output": output}
        yours = {name: _check_yours(name, array, right) for name, array in given.items() if array is not None}
        checks = list(_compare(yours, right, self._v, self._may, d_k, queries, keys))
        self._differences = tuple(difference for difference, _ in checks if difference)

        super().__init__(
            _numbers=b"".join(array.astype("<f8").tobytes() for array in (self._q, self._k, self._v)),
            _mask=self._may.astype(np.uint8).tobytes(),
            _yours=b"".join(array.astype("<f8").tobytes() for array in yours.values()),
            _facts={
                "n_queries": n_queries,
                "n_keys": n_keys,
                "d_k": d_k,
                "d_v": d_v,
                "queries": queries,
                "keys": keys,
                "crossed": source_tokens is not None,
                "given": list(yours),
                "check": [entry for _, entry in checks],
            },
            editing=editing,
        )
        if step not in STEPS:
            raise ValueError(f"step={step!r} must be one of {', '.join(map(repr, STEPS))}")
        self._choose(step=step, query=query)

    @classmethod
    def from_model(
        cls,
        model: torch.nn.Module,
        *inputs: torch.Tensor,
        attention: torch.nn.Module | None = None,
        head: int = 0,
        sample: int = 0,
        n_heads: int | None = None,
        **start: Any,
    ) -> AttentionStepper:
        """Run a model (evaluation mode, no gradients) and step through one head of an attention in it.

        The queries, keys and values are what the attention's own maps `w_q`, `w_k` and `w_v` give; the mask is the one
        that it is called with. What it computes from them, as far as it can be heard (the weights if it returns them,
        the heads' outputs as they enter `w_o`), is compared with the right numbers.

        Args:
            model: called as `model(*inputs)`. Its mode (train or eval) is left as it was.
            inputs: what the model takes: for an attention `x`, `(batch, tokens, d_model)`, perhaps a memory and a mask.
            attention: which attention within the model; None: the model is one. As
                `headroom.reference.MultiHeadSelfAttention`: with linear maps `w_q`, `w_k`, `w_v`, `w_o`.
            head: which head; negative indices count from the end.
            sample: which of the batch.
            n_heads: how many heads it has; None: it says so itself, as `attention.n_heads`.
            start: `tokens`, `source_tokens`, `query`, `step`, `editing`, as in the class.

        Raises:
            TypeError: the attention lacks one of the four maps, or does not say how many heads it has.
            ValueError: as the class; or the attention does not use its maps in this call.
        """
        attention = model if attention is None else attention
        for name in ("w_q", "w_k", "w_v", "w_o"):
            if not isinstance(getattr(attention, name, None), torch.nn.Module):
                raise TypeError(
                    f"{type(attention).__name__} has no map {name}; from_model listens to w_q, w_k, w_v and w_o. "
                    "Of another attention, hand its q, k and v to AttentionStepper(q, k, v)"
                )
        n_heads = getattr(attention, "n_heads", None) if n_heads is None else n_heads
        if not isinstance(n_heads, int):
            raise TypeError(f"{type(attention).__name__} has no n_heads; say how many heads it has: n_heads=…")
        heard = listen(model, attention, inputs)
        d_model = heard["w_q"].size(-1)
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide the queries' width {d_model} into equal heads")
        head = as_index("head", head, n_heads)
        sample = as_index("sample", sample, len(heard["w_q"]))
        q, k, v = (heard[name][sample].unflatten(-1, (n_heads, -1))[:, head] for name in ("w_q", "w_k", "w_v"))
        if isinstance(attention, RotarySelfAttention):
            q, k = rotate(q), rotate(k)
        own: dict[str, torch.Tensor] = {}
        if heard["w_o"].shape == heard["w_q"].shape[:-1] + heard["w_v"].shape[-1:]:
            own["output"] = heard["w_o"][sample].unflatten(-1, (n_heads, -1))[:, head]
        if isinstance(weights := heard.get("weights"), torch.Tensor) and weights.dim() == 4:
            own["weights"] = weights[sample, head]
        mask = heard.get("mask")
        if mask is not None:
            mask = mask.expand(len(heard["w_q"]), n_heads, len(q), len(k))[sample, head]
        return cls(q, k, v, mask, **own, **start)

    @property
    def row(self) -> Stages:
        """All steps of the selected query as the screen has them now, the reader's changes included: `(n_keys,)`."""
        return self._compute(self.temperature, self.scaled, self.flipped, self.edited).row(self.query)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Where your tensors differ from the right ones: the first place in each wrong stage; empty: nowhere."""
        return self._differences

    def _panels(self) -> list[Panel]:
        shown = self._compute(self.temperature, self.scaled, self.flipped, self.edited)
        queries, keys = self._facts["queries"], self._facts["keys"]
        return [
            Panel("Scores" if np.isfinite(shown.masked).all() else "Scores, masked", shown.masked, queries, keys),
            Panel("Weights: the softmax of each row", shown.weights, queries, keys),
        ]

    def _says(self) -> str:
        n_queries, n_keys = self._may.shape
        return (
            f"Attention step by step: the scores of {n_queries} queries (rows) with {n_keys} keys (columns), grey "
            "where the mask hides, and the weights that the softmax makes of each row."
        )

    def _derived(self) -> dict[str, Any]:
        edited = not self.scaled or self.temperature != 1 or bool(self.flipped) or bool(self.edited)
        return {"edited": edited}

    def __repr__(self) -> str:
        (n_queries, d_k), (n_keys, d_v) = self._q.shape, self._v.shape
        return f"AttentionStepper({n_queries} queries × {n_keys} keys, d_k={d_k}, d_v={d_v})"

    def _compute(
        self, temperature: float = 1.0, scaled: bool = True, flipped: Cells = (), edited: Cells = ()
    ) -> Stages:
        """Every step, as the browser computes it."""
        dots = self._q @ self._k.T
        scores = dots / math.sqrt(self._q.shape[1]) if scaled else dots.copy()
        for query, key, value in edited:
            scores[query, key] = value
        may = self._may.copy()
        for query, key in flipped:
            may[query, key] ^= True
        masked = np.where(may, scores, -np.inf)
        weights = softmax(masked / temperature)
        return Stages(dots, scores, masked, weights, weights @ self._v)

    def _cell(self, name: str, cell: Sequence[Any]) -> list[Any]:
        size = 2 if name == "flipped" else 3
        if not isinstance(cell, Sequence) or len(cell) != size:
            form = "[query, key]" if name == "flipped" else "[query, key, value]"
            raise ValueError(f"{name} holds {cell!r}; it must be a list of {form}")
        place = [
            as_index(f"{name}: {side}", value, size)
            for side, value, size in zip(("query", "key"), cell[:2], self._may.shape, strict=True)
        ]
        if size == 3 and not (isinstance(cell[2], int | float) and math.isfinite(cell[2])):
            raise ValueError(f"{name} sets a score to {cell[2]!r}; it must be a finite number (the mask hides a key)")
        return [*place, *map(float, cell[2:])]


def _check_yours(name: str, value: ArrayLike, right: Stages) -> np.ndarray:
    """A student's own tensor, float64: any numbers, NaN too, but in the right shape."""
    array, shape = as_array(name, value), getattr(right, name).shape
    if array.shape != shape:
        form = "(n_queries, d_v)" if name == "output" else "(n_queries, n_keys)"
        turned = "; transposed, it would fit: queries are rows" if array.shape == shape[::-1] else ""
        raise ValueError(f"{name} has shape {array.shape}; it must be {form} = {shape}{turned}")
    return array.astype(np.float64)


def _close(numbers: np.ndarray, expected: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return (np.abs(numbers - expected) <= TOLERANCE * np.maximum(1, np.abs(expected))) | (numbers == expected)


def _compare(
    yours: dict[str, np.ndarray],
    right: Stages,
    v: np.ndarray,
    may: np.ndarray,
    d_k: int,
    queries: list[str] | None,
    keys: list[str] | None,
):
    """For each given stage, in order: its first difference or None, and what the screen says of it."""
    wrong: dict[str, bool] = {}
    for stage in STAGES:
        if stage not in yours:
            continue
        ours, its = getattr(right, stage), yours[stage]
        close = _close(its, ours)
        if stage == "scores":
            close |= ~may & (its <= HIDDEN_SCORE)
        wrong[stage] = not close.all()
        verb, noun = ("agrees", "one") if stage == "output" else ("agree", "ones")
        if not wrong[stage]:
            says = f"Your {stage} {verb} with the right {noun}, all {ours.size} numbers."
            yield None, {"stage": stage, "ok": True, "says": says}
            continue
        query, column = (int(i) for i in np.argwhere(~close)[0])
        row = _named("query", query, queries)
        place = f"{row}, entry {column + 1}" if stage == "output" else f"{row}, {_named('key', column, keys)}"
        differs = "differs" if stage == "output" else "differ"
        says = " ".join(
            [
                f"Your {stage} first {differs} from the right {noun} at {place}",
                f"({stage}[{query}, {column}] in Python):",
                f"yours {_number(its[query, column])}, right {_number(ours[query, column])}; "
                f"{int((~close).sum())} of {ours.size} numbers differ.",
                *_tell(stage, yours, right, may, d_k),
                *_where_to_look(stage, yours, wrong, v, may),
            ]
        )
        difference = Difference(stage, (query, column), float(its[query, column]), float(ours[query, column]), says)
        yield difference, {"stage": stage, "ok": False, "says": says, "query": query, "column": column}


def _tell(stage: str, yours: dict[str, np.ndarray], right: Stages, may: np.ndarray, d_k: int):
    """What the numbers themselves say about how they came to be."""
    its, ours = yours[stage], getattr(right, stage)
    if np.isnan(its).any():
        yield f"{int(np.isnan(its).sum())} of yours are NaN: a softmax over nothing, or ∞ − ∞."
        return
    if its.shape[0] == its.shape[1] and _close(its.T, ours).all():
        yield "Yours are the right ones transposed: queries are rows, keys columns."
        return
    of = np.isfinite(its) & (np.abs(ours) > 10 * TOLERANCE)
    ratios = its[of] / ours[of]
    if len(ratios) > 1 and np.ptp(ratios) <= 1e-3 * abs(ratios[0]):
        root = math.sqrt(d_k)
        why = ""
        if math.isclose(ratios[0], root, rel_tol=1e-3):
            why = f", and √d_k = {root:.3g}: the dot products are not divided by it"
        elif math.isclose(ratios[0], 1 / root, rel_tol=1e-3):
            once = {"scores": "twice"}.get(stage, "after the softmax")
            why = f", and 1 / √d_k = {1 / root:.3g}: they are divided by √d_k {once}"
        yield f"Each of yours is {_number(ratios[0])} times the right one{why}."
    if stage != "weights":
        return
    sums = its.sum(axis=-1)
    if np.abs(sums - 1).max() > TOLERANCE * 10:
        row = int(np.abs(sums - 1).argmax())
        columns = np.abs(its.sum(axis=0) - 1).max() <= TOLERANCE * 10
        also = "; your columns do: the softmax must go over the last dimension" if columns else ""
        yield f"Row {row + 1} of yours sums to {_number(sums[row])}; every row must sum to 1{also}."
    leaked = np.where(may, 0, its).sum(axis=-1)
    if leaked.max() > TOLERANCE:
        row = int(leaked.argmax())
        yield f"Query {row + 1} gives {_number(leaked[row])} of its weight to keys that the mask hides."


def _where_to_look(stage: str, yours: dict[str, np.ndarray], wrong: dict[str, bool], v: np.ndarray, may: np.ndarray):
    """Whether a stage follows from the student's own stage before it: then the slip came earlier."""
    if stage == "weights" and "scores" in yours:
        if not wrong["scores"]:
            yield "Your scores agree, so look between them and the weights: at the mask and the softmax."
        elif _close(yours["weights"], softmax(np.where(may, yours["scores"], -np.inf))).all():
            yield "They are the softmax of your masked scores: this step is right, and inherits what came before."
    if stage == "output" and "weights" in yours:
        if not wrong["weights"]:
            yield "Your weights agree, so look at the last step, their product with V."
        elif _close(yours["output"], yours["weights"] @ v).all():
            yield "It is your weights times V: this step is right, and inherits what came before."


def _named(kind: str, index: int, words: list[str] | None) -> str:
    return f"{kind} {index + 1}" + ("" if words is None else f" “{words[index]}”")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−").replace("inf", "∞").replace("nan", "NaN")
