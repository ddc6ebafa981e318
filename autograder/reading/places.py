"""What a right answer's tensors are, and in which ways a student's tensors may be parts of them."""

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from autograder import probe
from autograder.exercise import Build, Inputs, Parameter, Role, Roles, Weights
from autograder.reading.names import GAIN, SHIFT, Parameters, role_of


@functools.cache
def empty(kind: type[nn.Module], build: Build) -> nn.Module:
    """A module of headroom.reference without numbers of its own: they come from the student."""
    with torch.device("meta"), probe.without_compiler():
        return kind(*build).eval()


def call(module: nn.Module, weights: Weights, inputs: Inputs, **options: Any) -> Any:
    """What a module of headroom.reference returns with these weights: what the student's should.

    A bias that the student's layer doesn't have is 0.

    Raises:
        KeyError: a weight is missing. RuntimeError: one has another shape. The judge takes both as: no answer.
    """
    full = {}
    for name, own in module.named_parameters():
        if name in weights:
            full[name] = weights[name]
        elif name.endswith(".bias"):
            full[name] = torch.zeros(own.shape, dtype=next(iter(weights.values())).dtype)
        else:
            raise KeyError(name)
        if full[name].shape != own.shape:
            raise RuntimeError(f"{name} has shape {tuple(full[name].shape)}; it should be {tuple(own.shape)}")
    return functional_call(module, full, inputs, options, tie_weights=False)  # none is tied, and looking takes longer


IN_FAMILIES = ("w_q", "w_k", "w_v", "w_o")


def roles_of(module: nn.Module, n_heads: int = 1, demanded: Sequence[str] = ()) -> Roles:
    """The roles in a module of headroom.reference; demanded: the maps that must have a bias."""
    found = {}
    for name, parameter in module.named_parameters():
        numbered = re.fullmatch(r"(.*)\.(\d+)\.(.*)", name)
        kind = f"{numbered[1]}.{numbered[3]}" if numbered else name
        owner, _, leaf = name.rpartition(".")
        map_ = owner.rpartition(".")[2]
        sides: list[tuple[int, ...]] = [(n,) for n in parameter.shape]
        if map_ in IN_FAMILIES[:3] or (map_ == "w_o" and leaf == "weight"):
            cut = int(map_ == "w_o")
            sides[cut] = (n_heads, sides[cut][0] // n_heads)
        family = f"{owner.rpartition('.')[0]} {leaf}" if map_ in IN_FAMILIES else owner if leaf != "weight" else name
        optional = leaf == "bias" and map_ not in demanded
        layer = int(numbered[2]) if numbered else -1
        found[name] = Role(kind, tuple(parameter.shape), tuple(sides), layer, family, optional)
    return found


class Key(NamedTuple):
    """What is the same, of a place, in models of all sizes: the kinds of role, whether it is one head's, axes."""

    kinds: tuple[str, ...]
    of_head: bool
    order: tuple[int, ...]


class Cut(NamedTuple):
    """The same of a tensor that is cut along an axis: a bias as the last row of its matrix, all roles in a vector."""

    axis: int
    pieces: tuple[Key, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """A way for a student's tensor to be part of the right answer: for each of its entries, which entry it is there.

    Attributes:
        key: what is the same in models of all sizes.
        layer, head: whose.
        entries: numbers of entries, counted through all roles; empty for a tensor that is not used at all.
    """

    key: Key | Cut
    layer: int
    head: int
    entries: np.ndarray

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.key.kinds if isinstance(self.key, Key) else sum((piece.kinds for piece in self.key.pieces), ())


@functools.cache
def _axis_orders(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The orders of axes in which those of one side keep theirs; sides: how many axes each has."""
    ends = list(itertools.accumulate(sides))
    of = [range(end - n, end) for n, end in zip(sides, ends, strict=True)]
    every = itertools.permutations(range(ends[-1]))
    return [order for order in every if all(sorted(side, key=order.index) == [*side] for side in of)]


def entry_numbers(roles: Roles) -> dict[str, np.ndarray]:
    """The numbers of all entries of every role."""
    sizes = [math.prod(role.shape) for role in roles.values()]
    starts = itertools.accumulate(sizes, initial=0)
    return {n: np.arange(at, at + size) for (n, at, size) in zip(roles, starts, sizes, strict=False)}


def _groups(roles: Roles) -> Iterator[tuple[tuple[str, ...], int, list[str]]]:
    """Roles that may lie in one tensor: each alone, and two or three neighbours of one family in any order."""
    families: dict[tuple[str, int], list[str]] = {}
    for name, role in roles.items():
        yield (role.kind,), role.layer, [name]
        families.setdefault((role.family, role.layer), []).append(name)
    for (_, layer), family in families.items():
        for start, stop in ((0, 2), (1, 3), (0, 3)):
            for order in itertools.permutations(family[start:stop]) if stop <= len(family) else ():
                if stop - start == len(order) and len({roles[name].shape for name in order}) == 1:
                    yield tuple(roles[name].kind for name in order), layer, list(order)


def places(roles: Roles, sizes: set[int] | None = None, keys: set[Key | Cut] | None = None) -> dict[int, list[Place]]:
    """All places for tensors of so many entries, by that number, the simplest first.

    Args:
        roles: what is to be read.
        sizes: the numbers of entries; any if None.
        keys: only places of these; of any if None.
    """
    if keys is not None:
        return _found(roles, sizes, keys)
    every = _every_place(tuple(roles.items()))
    return every if sizes is None else {size: every.get(size, []) for size in sizes}


@functools.lru_cache(maxsize=8)  # for one answer they are asked for again and again
def _every_place(roles: tuple[tuple[str, Role], ...]) -> dict[int, list[Place]]:
    return _found(dict(roles))


def _found(roles: Roles, sizes: set[int] | None = None, keys: set[Key | Cut] | None = None) -> dict[int, list[Place]]:
    numbers_, found = entry_numbers(roles), {size: list[Place]() for size in sizes or ()}

    def add(key: Key, layer: int, head: int, axes: np.ndarray) -> None:
        if keys is not None and key not in keys:
            return
        found.setdefault(axes.size, []).append(Place(key, layer, head, axes.transpose(key.order).ravel()))

    for kinds, layer, names in _groups(roles):
        first, several = roles[names[0]], len(names) > 1
        same = all(roles[name].sides == first.sides for name in names)
        sides = first.sides if same else tuple((n,) for n in first.shape)
        total = len(names) * math.prod(first.shape)
        cut = next((at for at, side in enumerate(sides) if len(side) > 1), None)
        whole = np.stack([numbers_[name] for name in names]).reshape(len(names), *itertools.chain(*sides))
        if sizes is None or total in sizes:
            lengths = ((1,) if several else ()) + tuple(map(len, sides))
            for order in _axis_orders(lengths):
                add(Key(kinds, False, order), layer, 0, whole if several else whole[0])
        if cut is None or (sizes is not None and total // sides[cut][0] not in sizes):
            continue
        for head in range(sides[cut][0]):
            axes = whole.take(head, 1 + cut)
            lengths = ((1,) if several else ()) + tuple(len(side) - (at == cut) for at, side in enumerate(sides))
            for order in _axis_orders(lengths):
                add(Key(kinds, True, order), layer, head, axes if several else axes[0])
    return found


def different(found: Iterable[Place]) -> list[Place]:
    """The first of those that are the same, as those are whose axes of size 1 only stand elsewhere."""
    return list({place.entries.tobytes(): place for place in reversed([*found])}.values())[::-1]


def pieced(pieces: Sequence[Place], axis: int, shape: Sequence[int]) -> Place:
    """The place of a tensor of this shape that is cut along an axis into pieces of one layer."""
    moved = shape[axis], *shape[:axis], *shape[axis + 1 :]
    entries = np.moveaxis(np.concatenate([piece.entries for piece in pieces]).reshape(moved), 0, axis).ravel()
    keys = tuple(piece.key for piece in pieces if isinstance(piece.key, Key))
    return Place(Cut(axis, keys), pieces[0].layer, pieces[0].head, entries)


def of_key(key: Key | Cut, shape: Sequence[int], every: dict[int, list[Place]]) -> list[Place]:
    """The places that tensors of this shape may have by a key, one for each layer and head; every: all there are."""
    if isinstance(key, Key):
        return [place for place in every.get(math.prod(shape), ()) if place.key == key]
    pieces = {(p.key, p.layer, p.head): p for own in every.values() for p in own if p.key in key.pieces}
    owners = {(layer, head) for _, layer, head in pieces}
    ways = ([pieces[piece, *owner] for piece in key.pieces if (piece, *owner) in pieces] for owner in sorted(owners))
    size = math.prod(shape)
    return [
        pieced(way, key.axis, shape)
        for way in ways
        if len(way) == len(key.pieces) and sum(len(piece.entries) for piece in way) == size
    ]


def unsaid(parameters: Parameters, roles: Roles) -> set[str]:
    """The maps of attentions that no name speaks of, where these are several: which is which is a guess then."""
    named = {letter for name in parameters for letter in said_role(name) or ""}
    found = {name for name, role in roles.items() if (letter := attention_map(role.kind)) and letter not in named}
    return found if len({attention_map(roles[name].kind) for name in found}) > 1 else set()


def said_role(name: str) -> str | None:
    """The role in an attention that a name speaks of, the innermost word first."""
    return next(filter(None, map(role_of, reversed(name.split(".")))), None)


def attention_map(kind: str) -> str | None:
    """Which of the four maps of an attention this is."""
    found = re.search(r"\bw_([qkvo])\.weight", kind)
    return found[1] if found else None


VECTORS = ("bias", "gamma", "beta", "class_token")


def last_word(parameter: Parameter) -> str:
    return re.sub(r"(\.\d+)+$", "", parameter.name).rpartition(".")[2].lower()


def may_be(parameter: Parameter, place: Place, gains: set[str] | None, of_layers: bool = True) -> bool:
    """Whether a parameter's name, and the values that it starts from, allow a place. Words for roles are believed.

    Args:
        parameter: the student's.
        place: what it may be.
        gains: the parameters that are known to be gains of norms; None: there are none.
        of_layers: believe that what is called `weight` belongs to a layer of PyTorch, which has its inputs last.
    """
    assert isinstance(place.key, Key)
    (*others, kind), leaf = place.kinds, last_word(parameter)
    if gains is not None and (parameter.name in gains) != kind.endswith("gamma"):
        return False
    of_layer = of_layers and parameter.name.endswith(".weight") and len(parameter.shape) > 1
    if of_layer and place.key.order[-1] != max(place.key.order):
        return False
    if others:
        return True
    if kind.endswith("gamma"):
        return leaf not in SHIFT and parameter.constant != 0
    if kind.endswith("beta"):
        return leaf not in GAIN and parameter.constant != 1
    letter = attention_map(kind.replace("bias", "weight"))
    return letter is None or said_role(parameter.name) in (None, "qkv", "kv", letter)


def stems(parameters: Parameters) -> dict[str, list[str]]:
    """Names by what they are without their numbers, in declared order."""
    stems: dict[str, list[str]] = {}
    for name in parameters:
        stems.setdefault(stem(name), []).append(name)
    return stems


def stem(name: str) -> str:
    return re.sub(r"\d+", "#", name)
