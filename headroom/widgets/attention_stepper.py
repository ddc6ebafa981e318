"""Go through one attention by hand, number by number. The front end is attention_stepper.js."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anywidget
import numpy as np
import torch
import traitlets as t

from headroom.reference import rotate
from headroom.widgets.shared import (
    CHOSEN,
    ArrayLike,
    Proposal,
    as_array,
    as_index,
    check_finite,
    front_end,
    looking_at,
    trait_errors,
)

Step = Literal["compare", "scale", "mask", "softmax", "mix"]
STEPS = ("compare", "scale", "mask", "softmax", "mix")
SPOTS = ("q", "k", "v", "dots", "scores", "masked", "powers", "weights", "output")
STAGES = ("scores", "weights", "output")  # what a student's own tensors are compared in, in the order of computing
MAX_TOKENS = 20  # rows of numbers that fit on a screen; a Vision Transformer's 16 patches and [class] are 17
MAX_WIDTH = 16  # numbers in a row
TOLERANCE = 1e-4  # float32 arithmetic in another order stays far below, and no mistake does
HIDDEN_SCORE = -1e4  # a hidden score may be −∞, -1e9, the type's smallest number or, in half precision, -1e4

Cells = Sequence[Sequence[Any]]  # [query, key] each, or [query, key, value]


@dataclass(frozen=True)
class Selection:
    """What an `AttentionStepper` shows right now. Every index counts from 0 (the screen counts from 1)."""

    query: int
    step: Step
    spot: str | None  # the kind of number that the reader points at, one of `SPOTS`; None: none
    key: int | None  # which key it belongs to, where it belongs to one
    entry: int | None  # which entry of a query, key, value or output it is
    locked: bool  # True: the pointer no longer moves the spot
    edited: bool  # True: some numbers are the reader's own, no longer the model's


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
    """Where a student's numbers first part from the right ones in one stage, in the order of reading."""

    stage: Literal["scores", "weights", "output"]
    index: tuple[int, int]  # from 0: (query, key), of the output (query, entry)
    yours: float
    right: float
    says: str  # the same in words, with what else the numbers tell


class AttentionStepper(anywidget.AnyWidget):
    """One query through q · k → ÷ √d_k → mask → softmax → · V, with the numbers, step by step, forward and back.

    Every number is tied to its place: pointing at one lights up the rows of Q, K and V, the score and the entries of
    the output that it comes from or goes into, and the other way round. A click or Enter holds on, Esc lets go. The
    reader may change things (temperature, division by √d_k, cells of the mask, scores) and see what comes of it; the
    widget then says that these are no longer the model's numbers.

    The browser does the arithmetic, in double precision, on numbers that are sent once, so all of it works in a saved
    notebook. What the reader chooses comes back: the traits named in `Selection` can be read, observed and set, and so
    can `editing`, `temperature`, `scaled`, `flipped` (cells `[query, key]` of the mask that are turned round) and
    `edited` (scores `[query, key, value]` in place of the computed ones).

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
    query = t.Int(0).tag(**CHOSEN)
    step = t.Enum(STEPS, default_value="compare").tag(**CHOSEN)
    spot = t.Enum(SPOTS, default_value=None, allow_none=True).tag(**CHOSEN)
    key = t.Int(None, allow_none=True).tag(**CHOSEN)
    entry = t.Int(None, allow_none=True).tag(**CHOSEN)
    locked = t.Bool(False).tag(**CHOSEN)
    editing = t.Bool(False).tag(**CHOSEN)
    temperature = t.Float(1.0).tag(**CHOSEN)
    scaled = t.Bool(True).tag(**CHOSEN)
    flipped = t.List().tag(**CHOSEN)
    edited = t.List().tag(**CHOSEN)

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
        self._q, self._k, self._v = (_matrix(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
        n_queries, n_keys, d_k, d_v = _check_sizes(self._q, self._k, self._v)
        self._sizes = {"query": n_queries, "key": n_keys, "entry": max(d_k, d_v)}
        self._may = _check_mask(mask, n_queries, n_keys)
        queries, keys = _check_words(tokens, source_tokens, n_queries, n_keys)
        right = self._compute()
        given = {"scores": scores, "weights": weights, "output": output}
        yours = {name: _check_yours(name, one, right) for name, one in given.items() if one is not None}
        checks = list(_compare(yours, right, self._v, self._may, d_k, queries, keys))
        self._differences = tuple(difference for difference, _ in checks if difference)

        super().__init__(
            _numbers=b"".join(one.astype("<f8").tobytes() for one in (self._q, self._k, self._v)),
            _mask=self._may.astype(np.uint8).tobytes(),
            _yours=b"".join(one.astype("<f8").tobytes() for one in yours.values()),
            _facts={
                "n_queries": n_queries,
                "n_keys": n_keys,
                "d_k": d_k,
                "d_v": d_v,
                "queries": queries,
                "keys": keys,
                "crossed": source_tokens is not None,
                "given": list(yours),
                "check": [said for _, said in checks],
            },
            editing=editing,
        )
        if step not in STEPS:
            raise ValueError(f"step={step!r} must be one of {', '.join(map(repr, STEPS))}")
        self.step = step
        self.query = as_index("query", query, n_queries)

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
                `headroom.reference.MultiHeadAttention`: with linear maps `w_q`, `w_k`, `w_v`, `w_o`.
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
        heard = _listen(model, attention, inputs)
        d_model = heard["w_q"].size(-1)
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide the queries' width {d_model} into equal heads")
        head = as_index("head", head, n_heads)
        sample = as_index("sample", sample, len(heard["w_q"]))
        q, k, v = (heard[name][sample].unflatten(-1, (n_heads, -1))[:, head] for name in ("w_q", "w_k", "w_v"))
        if getattr(attention, "rotary", False):
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
    def selection(self) -> Selection:
        """What is selected now, as the reader sees it (read-only)."""
        edited = not self.scaled or self.temperature != 1 or bool(self.flipped) or bool(self.edited)
        step: Any = self.step  # traitlets does not say of which type the values of an Enum are
        spot: Any = self.spot
        return Selection(self.query, step, spot, self.key, self.entry, self.locked, edited)

    @property
    def row(self) -> Stages:
        """All steps of the selected query as the screen has them now, the reader's changes included: `(n_keys,)`."""
        return self._compute(self.temperature, self.scaled, self.flipped, self.edited).row(self.query)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Where your tensors part from the right ones: the first place in each stage that is wrong; empty: nowhere."""
        return self._differences

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
        weights = _softmax(masked / temperature)
        return Stages(dots, scores, masked, weights, weights @ self._v)

    # A selection is checked whoever makes it. traitlets rolls a change back on TraitError only.
    @t.validate("query", "key", "entry")
    def _valid_index(self, proposal: Proposal) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        with trait_errors():
            return None if value is None else as_index(name, value, self._sizes[name])

    @t.validate("temperature")
    def _valid_temperature(self, proposal: Proposal) -> float:
        if not (math.isfinite(proposal["value"]) and proposal["value"] > 0):
            raise t.TraitError(f"temperature={proposal['value']} must be a number above 0; 1 leaves the scores alone")
        return proposal["value"]

    @t.validate("flipped", "edited")
    def _valid_cells(self, proposal: Proposal) -> list[list[Any]]:
        name = proposal["trait"].name
        with trait_errors():
            return [self._cell(name, cell) for cell in proposal["value"]]

    def _cell(self, name: str, cell: Sequence[Any]) -> list[Any]:
        size = 2 if name == "flipped" else 3
        if not isinstance(cell, Sequence) or len(cell) != size:
            form = "[query, key]" if name == "flipped" else "[query, key, value]"
            raise ValueError(f"{name} holds {cell!r}; it must be a list of {form}")
        place = [
            as_index(f"{name}: {side}", one, self._sizes[side])
            for side, one in zip(("query", "key"), cell[:2], strict=True)
        ]
        if size == 3 and not (isinstance(cell[2], int | float) and math.isfinite(cell[2])):
            raise ValueError(f"{name} sets a score to {cell[2]!r}; it must be a finite number (the mask hides a key)")
        return [*place, *map(float, cell[2:])]


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN where a row has no finite score, and no warning about it."""
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)


def _listen(model: torch.nn.Module, attention: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """What an attention's maps give (`w_q`, `w_k`, `w_v`), what enters `w_o`, its mask, and weights that it returns."""
    heard: dict[str, torch.Tensor] = {}
    signature = inspect.signature(attention.forward)

    def maps_to(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: heard.__setitem__(name, output)

    def called(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        mask = signature.bind(*args, **kwargs).arguments.get("mask")
        if mask is not None:
            heard["mask"] = mask
        if isinstance(output, tuple) and len(output) > 1:
            heard["weights"] = output[1]

    hooks = [getattr(attention, name).register_forward_hook(maps_to(name)) for name in ("w_q", "w_k", "w_v")]
    w_o = attention.get_submodule("w_o")
    hooks.append(w_o.register_forward_pre_hook(lambda _module, args: heard.__setitem__("w_o", args[0])))
    hooks.append(attention.register_forward_hook(called, with_kwargs=True))
    asked = {"return_weights": True} if model is attention and "return_weights" in signature.parameters else {}
    try:
        with looking_at(model) as device:
            model(*(one.to(device) if isinstance(one, torch.Tensor) else one for one in inputs), **asked)
    finally:
        for hook in hooks:
            hook.remove()
    for name in ("w_q", "w_k", "w_v", "w_o"):
        if name not in heard:
            raise ValueError(
                f"{type(attention).__name__} does not use its {name} in this call; its numbers are unknown"
            )
        if heard[name].dim() != 3:
            raise ValueError(
                f"{name} works on a tensor of shape {tuple(heard[name].shape)}; it must be (batch, tokens, width)"
            )
    return heard


def _matrix(name: str, value: ArrayLike) -> np.ndarray:
    """Two axes, float64, finite."""
    array = as_array(name, value)
    if array.ndim != 2 or 0 in array.shape:
        form = {"q": "(n_queries, d_k)", "k": "(n_keys, d_k)", "v": "(n_keys, d_v)"}[name]
        pick = {1: f"; of one token: {name}[None]", 3: f"; pick one sample: {name}[0]"}
        hint = pick.get(array.ndim, f"; pick one sample and one head: {name}[0, 0]" if array.ndim == 4 else "")
        raise ValueError(f"{name} has shape {array.shape}; it must be {form}{hint}")
    check_finite(name, array)
    return array.astype(np.float64)


def _check_sizes(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[int, int, int, int]:
    """n_queries, n_keys, d_k, d_v."""
    (n_queries, d_k), (n_keys, d_v) = q.shape, v.shape
    if k.shape[1] != d_k:
        raise ValueError(
            f"q has shape {q.shape} and k {k.shape}: queries of {d_k} numbers and keys of {k.shape[1]}; "
            "a dot product needs as many of both"
        )
    if len(k) != n_keys:
        raise ValueError(f"k has shape {k.shape} and v {v.shape}; every one of the {len(k)} keys needs its value")
    for what, size, most, hint in (
        ("q has {} queries", n_queries, MAX_TOKENS, f"Each is computed on its own, so show some: q[:{MAX_TOKENS}]"),
        ("k has {} keys", n_keys, MAX_TOKENS, "A softmax over some of them is another softmax: take a shorter text"),
        (
            "q and k have rows of d_k={}",
            d_k,
            MAX_WIDTH,
            "A part of a dot product is another number: take a narrower head",
        ),
        (
            "v has rows of d_v={}",
            d_v,
            MAX_WIDTH,
            f"Each entry is computed on its own, so show some: v[:, :{MAX_WIDTH}]",
        ),
    ):
        if size > most:
            raise ValueError(f"{what.format(size)}; at most {most} can be followed on a screen. {hint}")
    return n_queries, n_keys, d_k, d_v


def _check_mask(mask: ArrayLike | None, n_queries: int, n_keys: int) -> np.ndarray:
    """Bool `(n_queries, n_keys)`."""
    if mask is None:
        return np.ones((n_queries, n_keys), dtype=bool)
    may = as_array("mask", mask)
    if may.dtype != bool:
        raise ValueError(f"mask holds {may.dtype} values; it must be bool, True = may attend")
    shape = may.shape
    while may.ndim > 2 and may.shape[0] == 1:
        may = may[0]
    try:
        may = np.broadcast_to(may, (n_queries, n_keys)).copy()
    except ValueError:
        raise ValueError(
            f"mask has shape {shape}; it must broadcast to {(n_queries, n_keys)}, (n_queries, n_keys)"
        ) from None
    if not may.any(axis=-1).all():
        query = int(np.argwhere(~may.any(axis=-1))[0][0])
        raise ValueError(f"mask leaves query {query} no key to attend to; its weights have no meaning")
    return may


def _check_words(
    tokens: Sequence[str] | None, source_tokens: Sequence[str] | None, n_queries: int, n_keys: int
) -> tuple[list[str] | None, list[str] | None]:
    """The words of the queries and of the keys; None: numbered."""
    if source_tokens is None and tokens is not None and n_queries != n_keys:
        raise ValueError(
            f"there are {n_queries} queries but {n_keys} keys; the keys need words of their own: give source_tokens"
        )
    lists = []
    for name, words, size, what in (
        ("tokens", tokens, n_queries, "queries"),
        ("source_tokens", tokens if source_tokens is None else source_tokens, n_keys, "keys"),
    ):
        if isinstance(words, str):
            raise ValueError(f"{name} is one string, {words!r}; it must be a list of words, such as {words.split()!r}")
        if words is not None and not all(isinstance(word, str) for word in words):
            raise ValueError(f"{name} holds something else than strings: {list(words)!r}")
        if words is not None and len(words) != size:
            raise ValueError(f"{name} has {len(words)} words, but there are {size} {what}; name each")
        lists.append(None if words is None else list(words))
    return lists[0], lists[1]


def _check_yours(name: str, value: ArrayLike, right: Stages) -> np.ndarray:
    """A student's own tensor, float64: any numbers, NaN too, but in the right shape."""
    array, shape = as_array(name, value), getattr(right, name).shape
    if array.shape != shape:
        form = "(n_queries, d_v)" if name == "output" else "(n_queries, n_keys)"
        turned = "; transposed, it would fit: queries are rows" if array.shape == shape[::-1] else ""
        raise ValueError(f"{name} has shape {array.shape}; it must be {form} = {shape}{turned}")
    return array.astype(np.float64)


def _close(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return (np.abs(one - other) <= TOLERANCE * np.maximum(1, np.abs(other))) | (one == other)


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
        verb, one = ("agrees", "one") if stage == "output" else ("agree", "ones")
        if not wrong[stage]:
            says = f"Your {stage} {verb} with the right {one}, all {ours.size} numbers."
            yield None, {"stage": stage, "ok": True, "says": says}
            continue
        query, column = (int(i) for i in np.argwhere(~close)[0])
        row = _named("query", query, queries)
        place = f"{row}, entry {column + 1}" if stage == "output" else f"{row}, {_named('key', column, keys)}"
        parts = "parts" if stage == "output" else "part"
        says = " ".join(
            [
                f"Your {stage} {parts} from the right {one} first at {place} ({stage}[{query}, {column}] in Python): "
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
        elif _close(yours["weights"], _softmax(np.where(may, yours["scores"], -np.inf))).all():
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
