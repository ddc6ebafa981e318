"""Look at positional encodings: sin-cos, learned and rotary on one position. The front end is view.js."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
import traitlets as t

from headroom.figures import ArrayLike
from headroom.widgets.base import Widget, choice, index
from headroom.widgets.checks import check_finite
from headroom.widgets.picture import Panel
from headroom.widgets.shared import (
    Change,
    as_array,
    front_end,
)

PAPER_BASE = 10_000.0  # Vaswani et al. 2017, section 3.5
MIN_BASE, MAX_BASE = 10.0, 1_000_000.0
# Within these the browser computes a table and all its similarities while a slider moves.
MAX_POSITIONS = 200
MAX_D_MODEL = 256
MAX_TABLE_WIDTH = 2048  # of a table that is given: it is sent once, and saved in the notebook
POSITIONS, D_MODEL = 50, 64  # shown where nothing that is given says otherwise

KINDS = ("sin-cos", "learned", "rotary", "yours")
MEASURES = ("dot", "cosine")

Table: TypeAlias = "ArrayLike | torch.nn.Module"
Encoding: TypeAlias = "ArrayLike | Callable[[int, int], ArrayLike]"


class PositionExplorer(Widget):
    """A positional encoding in four linked views: the table, the similarity of its positions, one dimension as a wave
    over the positions, and a shift as the rotation of a pair. For mouse, keyboard and screen reader.

    Sin-cos, learned and rotary stand side by side on the same position; one of them is shown large. Sin-cos and rotary
    are computed in the browser, for the base, width and number of positions that the reader sets; a learned table is
    sent once, as float32. So the widget answers without Python and goes on working in a saved notebook. What the reader
    chooses comes back: each choice can be read, observed and set, and `selection` has them all. What is hovered
    arrives once the pointer has rested on it for 0.3 s or has left, never while it moves.

    Unlike the other widgets, this one counts from 0 on the screen too: position, pair and dimension are the p, i and 2i
    of the formula sin(p · base^(−2i / d_model)).

    Rotary positions have no table of their own. What is shown is one query, turned as if it stood at each position, and
    the scores q · k / √d_head of that query with one key at each position.

    Args:
        learned: a table `(positions, d_model)`, such as a model's: a tensor, parameter or array, also with a batch of 1
            in front, or a module with one such parameter (`nn.Embedding`). On any device, with gradients or without.
        encoding: a table of your own to compare with sin-cos, `(positions, d_model)`, or a function that makes it,
            called as `encoding(n_positions, d_model)`, in Python, each time the reader changes one of the two.
        q, k: rotary: the query and the key, `(d_head,)` each, `d_head` even. Without them both are all ones, in the
            width of sin-cos.
        kind: what to show large; by default "yours" with an encoding, else "learned" with such a table, else "sin-cos".
        position, dimension, shift: what to choose first; negative indices count from the end.
        base, d_model, n_positions: of sin-cos and rotary. By default 10000, and the size of the table that is given, as
            far as that is even and within 256 × 200; else 64 and 50.
        measure: how alike two positions are: "dot", their dot product, or "cosine".

    Raises:
        ValueError: an argument has the wrong shape or values; the message says which, what it got, and what is right.
    """

    _esm, _css = front_end("position_explorer")

    # float32, little-endian, row by row; empty where there is none. Only `_yours` may change, and its facts with it.
    _learned = t.Bytes().tag(sync=True)
    _yours = t.Bytes().tag(sync=True)
    _q = t.Bytes().tag(sync=True)
    _k = t.Bytes().tag(sync=True)
    _facts = t.Dict().tag(sync=True)  # shape of the learned table, limits
    _yours_facts = t.Dict().tag(sync=True)  # shape, whether it is a function, and what went wrong in it

    # What the reader chooses; either side may change it.
    kind = choice(t.Enum(KINDS, default_value="sin-cos"), lambda self, name, value: self._check_kind(value))
    position = index(lambda self: self.n_positions)
    dimension = index(lambda self: self._width(self.kind, self.d_model))  # column of the table
    # From the position to the one that it is compared with.
    shift = choice(t.Int(1), lambda self, name, value: _size(name, value, 1 - self.n_positions, self.n_positions - 1))
    base = choice(t.Float(PAPER_BASE), lambda self, name, value: _base(value))
    # Width of sin-cos, and of rotary without q and k.
    d_model = choice(t.Int(D_MODEL), lambda self, name, value: _size(name, value, 2, MAX_D_MODEL, even=True))
    n_positions = choice(t.Int(POSITIONS), lambda self, name, value: _size(name, value, 2, MAX_POSITIONS))
    measure = choice(t.Enum(MEASURES, default_value="dot"))
    locked = choice(t.Bool(False))  # True: the pointer no longer moves position, dimension and shift

    def __init__(
        self,
        learned: Table | None = None,
        *,
        encoding: Encoding | None = None,
        q: ArrayLike | None = None,
        k: ArrayLike | None = None,
        kind: str | None = None,
        position: int = 0,
        dimension: int = 0,
        shift: int = 1,
        base: float = PAPER_BASE,
        d_model: int | None = None,
        n_positions: int | None = None,
        measure: str = "dot",
    ) -> None:
        function = None
        self._tables: dict[str, np.ndarray] = {}  # as they were given, or made by the reader's function
        if learned is not None:
            self._tables["learned"] = _table("learned", learned)
        if isinstance(encoding, torch.nn.Module) or not (encoding is None or callable(encoding)):
            self._tables["yours"] = _table("encoding", encoding)
        else:
            function = encoding
        self._turned = _query_and_key(q, k)
        rows, width = self._tables.get("yours", self._tables.get("learned", np.empty((POSITIONS, D_MODEL)))).shape
        n_positions = _size("n_positions", n_positions, 2, MAX_POSITIONS, default=min(max(rows, 2), MAX_POSITIONS))
        fits = width % 2 == 0 and 2 <= width <= MAX_D_MODEL
        d_model = _size("d_model", d_model, 2, MAX_D_MODEL, default=width if fits else D_MODEL, even=True)
        if function is not None:
            self._tables["yours"] = _made_by(function, n_positions, d_model)
        if kind is None:
            kind = next((name for name in ("yours", "learned") if name in self._tables), "sin-cos")
        self._check_kind(kind)
        if measure not in MEASURES:
            raise ValueError(f'measure={measure!r} must be "dot" or "cosine"')
        query, key = self._turned or (None, None)
        limits = {"max_positions": MAX_POSITIONS, "max_d_model": MAX_D_MODEL, "bases": [MIN_BASE, MAX_BASE]}
        self._function = None  # not while the traits get their first values: the table is made already

        super().__init__(
            _learned=_bytes(self._tables.get("learned")),
            _q=b"" if query is None else query.astype("<f4").tobytes(),
            _k=b"" if key is None else key.astype("<f4").tobytes(),
            _facts={"learned": self._shapes("learned"), **limits},
            **self._sent_of_yours(function is not None),
            kind=kind,
            base=_base(base),
            d_model=d_model,
            n_positions=n_positions,
            measure=measure,
        )
        self._choose(position=position, dimension=dimension, shift=shift)
        self._function = function

    def _derived(self) -> dict[str, Any]:
        return {"pair": self.dimension // 2}  # of dimensions (2i, 2i + 1)

    @property
    def table(self) -> np.ndarray:
        """The table that is shown now, `(positions, width)`: of the chosen kind, a copy.

        Sin-cos and rotary are float64; a table that was given is float32, cut to `n_positions` rows where it has more.
        Rotary: the query, turned as if it stood at each position.
        """
        if self.kind in self._tables:
            return self._tables[self.kind][: self.n_positions].copy()
        width = self._width(self.kind, self.d_model)
        angles = np.arange(self.n_positions)[:, None] * self.base ** (-np.arange(0, width, 2) / width)
        sin, cos = np.sin(angles), np.cos(angles)  # (positions, pairs) each
        table = np.empty((self.n_positions, width))
        if self.kind == "sin-cos":
            table[:, 0::2], table[:, 1::2] = sin, cos
        else:
            query = self._turned[0].astype(float) if self._turned else np.ones(width)
            first, second = query[0::2], query[1::2]
            table[:, 0::2], table[:, 1::2] = first * cos - second * sin, first * sin + second * cos
        return table

    def _panels(self) -> list[Panel]:
        table = self.table
        return [
            Panel(f"Encoding “{self.kind}”", table, first=0, signed=True),
            Panel("Dot products of its positions", table @ table.T, first=0),
        ]

    def _says(self) -> str:
        positions, width = self.table.shape
        return (
            f"The encoding “{self.kind}” of {positions} positions in {width} dimensions: its table, positions "
            "down and dimensions across, and beside it the dot products of all positions with each other."
        )

    def __repr__(self) -> str:
        given = [f"{name} {' × '.join(map(str, table.shape))}" for name, table in self._tables.items()]
        own = f"sin-cos and rotary {self.n_positions} × {self.d_model}, base {self.base:g}"
        return f"PositionExplorer({', '.join([own, *given])})"

    def _width(self, kind: str, d_model: int) -> int:
        if kind in self._tables:
            return self._tables[kind].shape[1]
        return len(self._turned[0]) if kind == "rotary" and self._turned else d_model

    def _check_kind(self, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f'kind={kind!r} must be "sin-cos", "learned", "rotary" or "yours"')
        if kind in ("learned", "yours") and kind not in self._tables:
            argument = "encoding" if kind == "yours" else "learned"
            raise ValueError(f'kind="{kind}" needs a table, which this widget was not given: {argument}=…')
        return kind

    def _sent_of_yours(self, is_function: bool, trouble: str = "") -> dict[str, Any]:
        if "yours" not in self._tables:
            return {}
        facts = self._shapes("yours") | {"function": is_function, "trouble": trouble}
        return {"_yours": _bytes(self._tables["yours"]), "_yours_facts": facts}

    def _shapes(self, kind: str) -> dict[str, Any]:
        """What of a table is sent, and how many rows it has: more than can be shown stay here."""
        if kind not in self._tables:
            return {}
        rows, width = self._tables[kind].shape
        return {"shape": [min(rows, MAX_POSITIONS), width], "rows": rows}

    @t.observe("kind", "d_model", "n_positions")
    def _keep_up(self, change: Change) -> None:
        """What was chosen exists in the table that is shown now; the browser does the same."""
        if self._function is not None and change["name"] != "kind":
            self._make_yours_again(self._function)
        last = self.n_positions - 1
        self.position = min(self.position, last)
        self.shift = max(-last, min(last, self.shift))
        self.dimension = min(self.dimension, self._width(self.kind, self.d_model) - 1)

    def _make_yours_again(self, function: Callable[[int, int], ArrayLike]) -> None:
        trouble = ""
        try:
            self._tables["yours"] = _made_by(function, self.n_positions, self.d_model)
        except ValueError as error:  # the last table stays, and the reader is told
            trouble = str(error)
        with self.hold_sync():  # the numbers and their shape arrive together
            for name, value in self._sent_of_yours(True, trouble).items():
                setattr(self, name, value)


def _bytes(array: np.ndarray | None) -> bytes:
    """As many rows as can be shown."""
    return b"" if array is None else array[:MAX_POSITIONS].astype("<f4").tobytes()


def _table(name: str, value: Table) -> np.ndarray:
    """A table `(positions, d_model)` as float32, finite."""
    if isinstance(value, torch.nn.Module):
        parameters = list(value.parameters())
        if len(parameters) != 1:
            raise ValueError(
                f"{name} is a {type(value).__name__} with {len(parameters)} parameters; give the table itself, such as "
                "model.positions.table, or a module that holds nothing else"
            )
        value = parameters[0]
    array = as_array(name, value)
    shape = array.shape
    if array.ndim == 3 and shape[0] == 1:
        array = array[0]
    if array.ndim != 2 or 0 in array.shape:
        hint = "; of a batch, take one: the table is the same for all" if len(shape) == 3 else ""
        raise ValueError(f"{name} has shape {tuple(shape)}; it must be (positions, d_model){hint}")
    if array.shape[1] > MAX_TABLE_WIDTH:
        raise ValueError(
            f"{name} is {array.shape[1]} wide; at most {MAX_TABLE_WIDTH} are shown: give some columns of it"
        )
    array = array.astype(np.float32)
    check_finite(name, array)
    return array


def _made_by(function: Callable[[int, int], ArrayLike], n_positions: int, d_model: int) -> np.ndarray:
    """The table that the reader's function makes; ValueError if it fails or has another shape."""
    call = f"encoding({n_positions}, {d_model})"
    try:
        made = function(n_positions, d_model)
    except Exception as error:  # the reader's own code: anything may go wrong in it
        raise ValueError(f"{call} raised {type(error).__name__}: {error}") from error
    table = _table(call, made)
    if table.shape != (n_positions, d_model):
        raise ValueError(
            f"{call} returned shape {table.shape}; it must be (n_positions, d_model) = {(n_positions, d_model)}"
        )
    return table


def _query_and_key(q: ArrayLike | None, k: ArrayLike | None) -> tuple[np.ndarray, np.ndarray] | None:
    if (q is None) != (k is None):
        raise ValueError(f"{'k' if k is None else 'q'} is missing: q and k go together")
    if q is None or k is None:
        return None
    vectors = []
    for name, value in (("q", q), ("k", k)):
        vector = as_array(name, value)
        if vector.ndim != 1 or vector.size < 2 or vector.size % 2:
            raise ValueError(
                f"{name} has shape {vector.shape}; it must be one vector (d_head,), d_head even: "
                "rotary positions turn pairs"
            )
        if vector.size > MAX_D_MODEL:
            raise ValueError(f"{name} has {vector.size} numbers; at most {MAX_D_MODEL} are shown")
        vector = vector.astype(np.float32)
        check_finite(name, vector)
        vectors.append(vector)
    if vectors[0].size != vectors[1].size:
        raise ValueError(
            f"q has {vectors[0].size} numbers and k {vectors[1].size}; a dot product needs as many of both"
        )
    return vectors[0], vectors[1]


def _size(name: str, value: int | None, low: int, high: int, *, default: int = 0, even: bool = False) -> int:
    """A whole number in [low, high], even where it must be."""
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ValueError(f"{name}={value!r} must be a whole number from {low} to {high}")
    if even and value % 2:
        raise ValueError(f"{name}={value} must be even: a sine and a cosine for each frequency")
    return int(value)


def _base(value: float) -> float:
    if not isinstance(value, int | float | np.number) or not MIN_BASE <= value <= MAX_BASE:
        raise ValueError(f"base={value!r} must be a number from {MIN_BASE:g} to {MAX_BASE:,.0f}")
    return float(value)
