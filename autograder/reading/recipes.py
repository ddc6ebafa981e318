"""What a reading found in one model says of models of other sizes."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from autograder.exercise import Roles, Weights
from autograder.reading.grouping import Grouping
from autograder.reading.names import Parameters, numbers
from autograder.reading.places import Cut, Key, Place, entry_numbers, of_key, places, stems


@dataclass(frozen=True)
class Recipe:
    """A reading found in one model, for models of other sizes.

    Attributes:
        keys: for every name, its numbers left out: the places that tensors of this name take, each once.
        sequence: for every such name, which of layer, place and head the declared order counts through first.
        grouping: of the parameters.
    """

    keys: dict[str, list[Key | Cut]]
    sequence: dict[str, tuple[tuple[int, ...], bool]]
    grouping: Grouping

    def read(self, parameters: Parameters, roles: Roles) -> Weights:
        """The roles, made of the parameters. KeyError: they cannot be."""
        parameters = self.grouping.of(parameters)
        wanted = {key for keys in self.keys.values() for key in keys}
        simple = all(isinstance(key, Key) for key in wanted)
        sizes = {tensor.numel() for _, tensor in parameters.values()} if simple else None
        every, chosen = places(roles, sizes, wanted if simple else None), dict[str, Place]()
        for stem, names in stems(parameters).items():
            keys = self.keys[stem]
            if not keys:
                continue
            fits = {
                name: {
                    (place.layer, at, place.head): place
                    for at, key in enumerate(keys)
                    for place in of_key(key, parameters[name][1].shape, every)
                }
                for name in names
            }
            order, last = self.sequence[stem]
            slots = sorted({slot for own in fits.values() for slot in own}, key=lambda s: _counted(s, order, last))
            for name, slot in zip(names, slots, strict=True):
                chosen[name] = fits[name][slot]
        return assembled(parameters, roles, chosen)


def _counted(slot: tuple[int, int, int], order: tuple[int, ...], last: bool) -> tuple[int, ...]:
    layer, key, head = slot
    parts = (1_000_000 if layer < 0 and last else layer, key, head)
    return tuple(parts[at] for at in order)


def recipe_of(parameters: Parameters, chosen: Mapping[str, Place], grouping: Grouping) -> Recipe | None:
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
    return Recipe(keys, sequence, grouping)


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
