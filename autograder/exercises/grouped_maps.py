"""The four maps of grouped-query attention in a student's parameters, and widths that they should not have (lab 10)."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from autograder import reading
from autograder.exercise import Build, Evidence, Parameter, Weights
from autograder.exercises import multi_head


def rows(build: Build) -> dict[str, int]:
    """How many rows each map has."""
    d_model, n_heads, n_groups = build
    narrow = n_groups * (d_model // n_heads)
    return {"q": d_model, "k": narrow, "v": narrow, "o": d_model}


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """By names that say a role, heads side by side, one map for several cut apart; others as they were declared.

    One map for several has all queries first, or, the other way to read it, those of a group beside its key and value.
    """
    wanted = rows(build)
    tensors = [(reading.role_of(name), _by_rows(name, tensor)) for name, (_, tensor) in parameters.items()]
    for several in ("qkv", "kv"):
        apart = any(role in tuple(several) for role, _ in tensors)
        if not apart and any(_holds(several, role, tensor, wanted) for role, tensor in tensors):
            yield _mapping(tensors, wanted, several, 1)
            yield _mapping(tensors, wanted, several, build[2])
            return
    yield _mapping(tensors, wanted, "", 1)


def _by_rows(name: str, tensor: Tensor) -> Tensor:
    """A matrix with a row for each number that comes out, as nn.Linear has it; a bias as it is."""
    if tensor.dim() == 1 or name.endswith("weight"):
        return tensor
    of_heads = tensor.dim() == 3 and reading.role_of(name) == "o"
    return tensor.flatten(0, -2).T if of_heads else tensor.mT.flatten(0, -2)


def _holds(several: str, role: str | None, tensor: Tensor, wanted: dict[str, int]) -> bool:
    """Whether a tensor may hold these maps in one."""
    return bool(several) and role in (None, several) and len(tensor) == sum(wanted[part] for part in several)


def _mapping(tensors: list[tuple[str | None, Tensor]], wanted: dict[str, int], several: str, n_pieces: int) -> Weights:
    """One way to read them: what is one map for several lies in so many pieces, each of which has a part of all."""
    grouped = dict[str, list[Tensor]]()
    unknown: list[tuple[str, Tensor]] = []
    for role, tensor in tensors:
        kind = "bias" if tensor.dim() == 1 else "weight"
        if _holds(several, role, tensor, wanted):
            pieces = tensor.unflatten(0, (n_pieces, -1)).split([wanted[part] // n_pieces for part in several], 1)
            for part, piece in zip(several, pieces, strict=True):
                grouped.setdefault(f"{part}_{kind}", []).append(piece.flatten(0, 1))
        elif role in wanted:
            grouped.setdefault(f"{role}_{kind}", []).append(tensor)
        else:
            unknown.append((kind, tensor))
    for kind in ("weight", "bias"):
        for tensor in (tensor for other, tensor in unknown if other == kind):
            left = (r for r in "qkvo" if f"{r}_{kind}" not in grouped and len(tensor) == wanted[r])
            if (role := next(left, None)) is not None:
                grouped[f"{role}_{kind}"] = [tensor]
    return {role: torch.cat(pieces) for role, pieces in grouped.items()}


def roles(build: Build) -> reading.Roles:
    """The four maps, as "q_weight" and so on."""
    d_model, n_heads, n_groups = build
    heads = n_heads, d_model // n_heads
    found = {}
    for name, role in multi_head.roles((d_model, n_heads)).items():
        narrow, cut = name[0] in "kv", (n_groups, *heads[1:])
        if not narrow:  # the heads of a group may lie together
            cut = n_groups, n_heads // n_groups, *heads[1:]
        shape = (rows(build)["k"], *role.shape[1:]) if narrow else role.shape
        found[name] = replace(role, shape=shape, sides=tuple(cut if side == heads else side for side in role.sides))
    return found


def _widths(seen: Evidence, d_model: int) -> set[int]:
    """How wide keys and values are, from the shapes of the maps that are named so; a bare matrix may lie either way."""
    named = (p for p in seen.parameters if len(p.shape) == 2 and reading.role_of(p.name) in ("k", "v"))
    return {
        p.shape[0] if p.name.endswith("weight") else next((n for n in p.shape if n != d_model), d_model) for p in named
    }


def as_wide_as_queries(seen: Evidence) -> bool:
    d_model, n_heads, n_groups = seen.cases[0].built_with
    return n_groups < n_heads and _widths(seen, d_model) == {d_model}


def of_another_number(seen: Evidence) -> bool:
    d_model, n_heads, n_groups = seen.cases[0].built_with
    return _widths(seen, d_model) == {d_model // n_groups} != {n_groups * d_model // n_heads}
