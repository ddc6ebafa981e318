"""A student's parameters put together, or taken apart, so that each may be a role or have several in it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autograder.exercise import Parameter, Roles
from autograder.reading.names import Parameters
from autograder.reading.places import VECTORS, places, stem, stems


@dataclass(frozen=True)
class Grouping:
    """Which of the student's parameters are put together, or taken apart, before one asks what each is.

    Attributes:
        joins: of names without their numbers, the number through which those of one role are counted.
        stacks: the names, without numbers, of tensors that hold tensors of their own, and along how many first axes;
            -1: along the last.
    """

    joins: frozenset[tuple[str, int]]
    stacks: frozenset[tuple[str, int]]

    def of(self, parameters: Parameters) -> dict[str, tuple[Parameter, Tensor]]:
        return unstacked(joined(parameters, dict(self.joins)), dict(self.stacks))


def groupings(parameters: Parameters, roles: Roles) -> list[Grouping]:
    """The ways to group parameters, the likeliest first: as they are, then siblings together.

    First where these are more than there are roles for each; and first where together they may be a role as they are.
    """
    every = places(roles, {tensor.numel() for _, tensor in parameters.values()})
    found = [Grouping(frozenset(), stacked(parameters, roles))]
    for simple, crowded in ((True, True), (False, True), (True, False)):
        joins = dict[str, int]()
        for name, names in stems(parameters).items():
            own = [place for n in names for place in every[parameters[n][1].numel()]]
            enough = len(names) <= len({(place.kinds, place.layer, place.head) for place in own})
            at = None if enough and crowded else _sibling_number(parameters, names)
            if at is not None:
                size = next(iter(joined({n: parameters[n] for n in names}, {name: at}).values()))[1].numel()
                if not simple or places(roles, {size})[size]:
                    joins[name] = at
        stacks = stacked(joined(parameters, joins), roles, with_bias=True)
        found.append(Grouping(frozenset(joins.items()), stacks))
    found.append(Grouping(frozenset(), stacked(parameters, roles, small=True)))
    return list(dict.fromkeys(found))


def _sibling_number(parameters: Parameters, names: Sequence[str]) -> int | None:
    """Through which of the numbers in these names tensors of one shape are counted; the innermost that there is."""
    for at in reversed(range(stem(names[0]).count("#"))):
        siblings: dict[str, list[tuple[int, ...]]] = {}
        for name in names:
            siblings.setdefault(_without(name, at)[0], []).append(tuple(parameters[name][1].shape))
        if all(len(shapes) > 1 and len(set(shapes)) == 1 for shapes in siblings.values()):
            return at
    return None


def _without(name: str, at: int) -> tuple[str, int]:
    """A name without one of its numbers, and this number."""
    pieces = re.split(r"(\d+)", name)
    number, pieces[2 * at + 1] = int(pieces[2 * at + 1]), ""
    return "".join(pieces) + ".0", number


def joined(parameters: Parameters, joins: Mapping[str, int]) -> dict[str, tuple[Parameter, Tensor]]:
    """The parameters, with siblings stacked along a new first axis, in the order of their numbers."""
    found: dict[str, tuple[Parameter, Tensor]] = {}
    siblings: dict[str, dict[int, tuple[Parameter, Tensor]]] = {}
    for name, pair in parameters.items():
        if (at := joins.get(stem(name))) is None:
            found[name] = pair
            continue
        rest, number = _without(name, at)
        found[rest] = pair  # its place among the others
        siblings.setdefault(rest, {})[number] = pair
    for name, numbered in siblings.items():
        own = [numbered[number] for number in sorted(numbered)]
        starts = {parameter.constant for parameter, _ in own}
        tensor = torch.stack([tensor for _, tensor in own])
        constant = starts.pop() if len(starts) == 1 else None
        found[name] = replace(own[0][0], name=name, shape=tuple(tensor.shape), constant=constant), tensor
    return found


def stacked(
    parameters: Parameters, roles: Roles, with_bias: bool = False, small: bool = False
) -> frozenset[tuple[str, int]]:
    """The names, without their numbers, of tensors that are no role, but hold some, and along which axes.

    with_bias: or a map and its bias in one; small: what is too small to hold a matrix holds vectors, even if these do
    not start from 0 or 1.
    """
    vectors, matrices = (
        {math.prod(role.shape) for role in roles.values() if role.kind.endswith(VECTORS) is kind}
        for kind in (True, False)
    )
    biases = {name.removesuffix("bias"): math.prod(role.shape) for name, role in roles.items() if name.endswith("bias")}
    full = {
        math.prod(role.shape) + biases[name.removesuffix("weight")]
        for name, role in roles.items()
        if with_bias and name.removesuffix("weight") in biases and name.endswith("weight")
    }
    found = dict[str, int]()
    for name, (parameter, tensor) in parameters.items():
        if not tensor.numel() or tensor.numel() in vectors | matrices | full:
            continue
        no_matrix = parameter.constant in (0, 1) or (small and tensor.numel() < min(matrices, default=0))
        own, axes = (vectors, 1) if no_matrix else (matrices | full, 2)
        depths = range(1, tensor.dim() - axes + 1)
        if depth := next((depth for depth in depths if math.prod(tensor.shape[depth:]) in own), 0):
            found[stem(name)] = depth
        elif depths and math.prod(tensor.shape[:-1]) in own:
            found[stem(name)] = -1
    return frozenset(found.items())


def unstacked(parameters: Parameters, stacks: Mapping[str, int]) -> dict[str, tuple[Parameter, Tensor]]:
    """The parameters, with what stacks hold in place of these."""
    found = {}
    for name, (parameter, tensor) in parameters.items():
        if depth := stacks.get(stem(name)):
            stack = tensor.flatten(0, depth - 1) if depth > 0 else tensor.movedim(-1, 0)
            rows = (
                (replace(parameter, name=f"{name}.{i}", shape=tuple(row.shape)), row) for i, row in enumerate(stack)
            )
            found |= {row[0].name: row for row in rows}
        else:
            found[name] = parameter, tensor
    return found
