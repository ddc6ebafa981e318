"""What a right answer's tensors are, and in which ways a student's tensors may be parts of them."""

import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from autograder.exercise import Build, Inputs, Parameter, Role, Roles, Weights
from autograder.reading.names import Parameters, numbers, role_of


@functools.cache
def empty(kind: type[nn.Module], build: Build) -> nn.Module:
    """A module of headroom.reference without numbers of its own: they come from the student."""
    with torch.device("meta"):
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
    return functional_call(module, full, inputs, options)


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
        sides = [side for side in sides if math.prod(side) > 1]
        family = f"{owner.rpartition('.')[0]} {leaf}" if map_ in IN_FAMILIES else owner if leaf != "weight" else name
        optional = leaf == "bias" and map_ not in demanded
        layer = int(numbered[2]) if numbered else -1
        found[name] = Role(kind, tuple(parameter.shape), tuple(sides), layer, family, optional)
    return found


Key = tuple[tuple[str, ...], bool, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Place:
    """A way for a student's tensor to be part of the right answer: for each of its entries, which entry it is there.

    Attributes:
        key: what is the same in models of all sizes: the kinds of role, whether it is one head's, the order of axes.
        layer, head: whose.
        entries: numbers of entries, counted through all roles; empty for a tensor that is not used at all.
    """

    key: Key
    layer: int
    head: int
    entries: np.ndarray


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


def places(roles: Roles, sizes: set[int]) -> dict[int, list[Place]]:
    """All places for tensors of so many entries, by that number, the simplest first."""
    numbers_, found = entry_numbers(roles), {size: list[Place]() for size in sizes}
    for kinds, layer, names in _groups(roles):
        first, several = roles[names[0]], len(names) > 1
        same = all(roles[name].sides == first.sides for name in names)
        sides = first.sides if same else tuple((n,) for n in first.shape)
        total = len(names) * math.prod(first.shape)
        cut = next((at for at, side in enumerate(sides) if len(side) > 1), None)
        if total in found:
            whole = np.stack([numbers_[name] for name in names]).reshape(len(names), *itertools.chain(*sides))
            lengths = ((1,) if several else ()) + tuple(map(len, sides))
            for order in _axis_orders(lengths):
                axes = whole if several else whole[0]
                found[total].append(Place((kinds, False, order), layer, 0, axes.transpose(order).ravel()))
        if cut is None or total // sides[cut][0] not in found:
            continue
        for head in range(sides[cut][0]):
            whole = np.stack([numbers_[name] for name in names]).reshape(len(names), *itertools.chain(*sides))
            axes = whole.take(head, 1 + cut)
            lengths = ((1,) if several else ()) + (1,) * len(sides)
            for order in _axis_orders(lengths):
                part = (axes if several else axes[0]).transpose(order).ravel()
                found[total // sides[cut][0]].append(Place((kinds, True, order), layer, head, part))
    return found


def unsaid(parameters: Parameters, roles: Roles) -> set[str]:
    """The maps of attentions that no name speaks of, where these are several: which is which is a guess then."""
    said = {letter for name in parameters for letter in said_role(name) or ""}
    found = {name for name, role in roles.items() if (letter := attention_map(role.kind)) and letter not in said}
    return found if len({attention_map(roles[name].kind) for name in found}) > 1 else set()


def said_role(name: str) -> str | None:
    """The role in an attention that a name speaks of, the innermost word first."""
    return next(filter(None, map(role_of, reversed(name.split(".")))), None)


def attention_map(kind: str) -> str | None:
    """Which of the four maps of an attention this is."""
    found = re.search(r"\bw_([qkvo])\.weight", kind)
    return found[1] if found else None


VECTORS = ("bias", "gamma", "beta", "class_token")
GAIN, SHIFT = {"gamma", "weight", "scale", "gain"}, {"beta", "bias", "shift", "offset"}


def last_word(parameter: Parameter) -> str:
    return re.sub(r"(\.\d+)+$", "", parameter.name).rpartition(".")[2].lower()


def stacked(parameters: Parameters, roles: Roles) -> frozenset[str]:
    """The names, without their numbers, of tensors that are no role, but each of whose rows may be one."""
    vectors, matrices = (
        {math.prod(role.shape) for role in roles.values() if role.kind.endswith(VECTORS) is kind}
        for kind in (True, False)
    )
    return frozenset(
        stem(name)
        for name, (parameter, tensor) in parameters.items()
        if tensor.dim() > 1
        and tensor.numel()
        and tensor.numel() not in vectors | matrices
        and tensor[0].numel() in (vectors if parameter.constant in (0, 1) else matrices if tensor.dim() > 2 else ())
    )


def unstacked(parameters: Parameters, stacks: frozenset[str]) -> dict[str, tuple[Parameter, Tensor]]:
    """The parameters, with the rows of stacks in place of these."""
    found = {}
    for name, (parameter, tensor) in parameters.items():
        if stem(name) in stacks:
            rows = (
                (replace(parameter, name=f"{name}.{i}", shape=tuple(row.shape)), row) for i, row in enumerate(tensor)
            )
            found |= {row[0].name: row for row in rows}
        else:
            found[name] = parameter, tensor
    return found


def may_be(parameter: Parameter, place: Place, gains: set[str] | None) -> bool:
    """Whether a parameter's name, and the values that it starts from, allow a place. Words for roles are believed.

    gains: the parameters that are known to be gains of norms; None: there are none.
    """
    (*others, kind), leaf = place.key[0], last_word(parameter)
    if gains is not None and (parameter.name in gains) != kind.endswith("gamma"):
        return False
    if parameter.name.endswith(".weight") and len(parameter.shape) > 1 and place.key[2][-1] != max(place.key[2]):
        return False  # the weight of a layer has its inputs last
    if others:
        return True
    if kind.endswith("gamma"):
        return leaf not in SHIFT and parameter.constant != 0
    if kind.endswith("beta"):
        return leaf not in GAIN and parameter.constant != 1
    letter = attention_map(kind.replace("bias", "weight"))
    return letter is None or said_role(parameter.name) in (None, "qkv", "kv", letter)


@dataclass(frozen=True)
class Recipe:
    """A reading found in one model, for models of other sizes.

    Attributes:
        keys: for every name, its numbers left out: the places that tensors of this name take, each once.
        sequence: for every such name, which of layer, place and head the declared order counts through first.
        stacks: the names of those whose rows are tensors of their own.
    """

    keys: dict[str, list[Key]]
    sequence: dict[str, tuple[tuple[int, ...], bool]]
    stacks: frozenset[str]

    def read(self, parameters: Parameters, roles: Roles) -> Weights:
        """The roles, made of the parameters. KeyError: they cannot be."""
        parameters = unstacked(parameters, self.stacks)
        sizes = {tensor.numel() for _, tensor in parameters.values()}
        every, chosen = places(roles, sizes), dict[str, Place]()
        for stem, names in stems(parameters).items():
            keys = self.keys[stem]
            if not keys:
                continue
            fits = {
                name: {
                    (p.layer, keys.index(p.key), p.head): p for p in every[parameters[name][1].numel()] if p.key in keys
                }
                for name in names
            }
            order, last = self.sequence[stem]
            slots = sorted({slot for own in fits.values() for slot in own}, key=lambda s: _counted(s, order, last))
            for name, slot in zip(names, slots, strict=True):
                chosen[name] = fits[name][slot]
        return assembled(parameters, roles, chosen)


def stems(parameters: Parameters) -> dict[str, list[str]]:
    """Names by what they are without their numbers, in declared order."""
    stems: dict[str, list[str]] = {}
    for name in parameters:
        stems.setdefault(stem(name), []).append(name)
    return stems


def stem(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _counted(slot: tuple[int, int, int], order: tuple[int, ...], last: bool) -> tuple[int, ...]:
    layer, key, head = slot
    parts = (1_000_000 if layer < 0 and last else layer, key, head)
    return tuple(parts[at] for at in order)


def recipe_of(parameters: Parameters, chosen: Mapping[str, Place], stacks: frozenset[str]) -> Recipe | None:
    """What the places have in common; None where layers or heads do not stand in the order of their declaration."""
    keys, sequence = {}, {}
    for stem, names in stems(parameters).items():
        taken = [chosen[name] for name in names if len(chosen[name].entries)]
        keys[stem] = list(dict.fromkeys(place.key for place in taken))
        if taken and len(taken) < len(names):
            return None
        slots = [(place.layer, keys[stem].index(place.key), place.head) for place in taken]
        ways = itertools.product(itertools.permutations(range(3)), (True, False))
        fits = (way for way in ways if slots == sorted(slots, key=lambda slot: _counted(slot, *way)))
        if (way := next(fits, None)) is None:
            return None
        sequence[stem] = way
    return Recipe(keys, sequence, stacks)


def assembled(parameters: Parameters, roles: Roles, chosen: Mapping[str, Place]) -> Weights:
    """The roles' tensors made of the student's, so that gradients flow back. KeyError: one is not whole."""
    entries = np.concatenate([np.zeros(0, dtype=int), *(place.entries for place in chosen.values())])
    values = [parameters[name][1].flatten() for name, place in chosen.items() if len(place.entries)]
    numbered = entry_numbers(roles)
    count = sum(map(len, numbered.values()))
    filled = np.bincount(entries, minlength=count)
    flat = torch.zeros(count, dtype=torch.float64).index_put((torch.from_numpy(entries),), torch.cat(values))
    weights = {}
    for name, role in roles.items():
        there = filled[numbered[name]]
        if (there == 1).all():
            weights[name] = flat[numbered[name][0] : numbered[name][-1] + 1].view(role.shape)
        elif there.any():
            raise KeyError(name)
        elif role.kind.endswith("bias") and not role.optional:
            weights[name] = numbers(name, role.shape)  # no zeros: then the answer differs, and a mistake can be found
    return weights
