"""Which parameter is what, by what each does: numbers go in, results and gradients come out."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from autograder.exercise import Parameter, Role, Roles, Weights
from autograder.reading.names import Parameters, numbers
from autograder.reading.places import (
    SHIFT,
    VECTORS,
    Place,
    Recipe,
    entry_numbers,
    last_word,
    may_be,
    places,
    recipe_of,
    said_role,
    stacked,
    stem,
    unstacked,
)

Gradients = Mapping[str, np.ndarray | None]
Run = Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, Gradients] | None]
Answers = Callable[[Weights], Tensor]
MAX_RUNS = 30


def by_effect(parameters: Parameters, roles: Roles, run: Run, answers: Sequence[Answers]) -> Recipe | None:
    """Find out which parameter is what by what each does.

    All matrices get one and the same number everywhere, so that it makes no difference how they are laid out. Then
    the gradient by every entry of a parameter is that by the entry that it is in the right answer: a place for a
    tensor is one where all gradients agree. What has one place only gets its own numbers, and others differ now that
    did not before; where several are left, each is tried.

    Args:
        parameters: the student's, with the numbers that they have in the end.
        roles: of the task, for the same sizes.
        run: the student's output and gradients with given numbers in the parameters; None if there are none.
        answers: the right answer, made of its roles; then others to try, where that is not what the student's does.
    """
    for sooner in (True, False):
        search = _Search(parameters, roles, run, sooner)
        if (sooner or search.unsure) and (recipe := search.found(answers)):
            return recipe
    return None


class _Search:
    """One way to begin; sooner: where sizes leave open whether a tensor is a vector, believe what it looks like."""

    def __init__(self, parameters: Parameters, roles: Roles, run: Run, sooner: bool):
        self.stacks = stacked(parameters, roles)
        self.whole, self.roles, self.run, self.runs = parameters, roles, run, 0
        self.parameters = parameters = unstacked(parameters, self.stacks)
        self.numbered = entry_numbers(roles)
        every = places(roles, {tensor.numel() for _, tensor in parameters.values()})
        starts = sum(tensor.numel() for _, tensor in self._gains())
        self.by_start = starts == sum(math.prod(role.shape) for role in roles.values() if role.is_gain)
        gains = {parameter.name for parameter, _ in self._gains()} if self.by_start else None
        self.open: dict[str, list[Place]] = {}
        self.unsure = False
        for name, (parameter, tensor) in parameters.items():
            fits = [place for place in every[tensor.numel()] if may_be(parameter, place, gains)]
            vectors = [place for place in fits if place.key[0][-1].endswith(VECTORS)]
            matrices = [place for place in fits if place not in vectors]
            looks = parameter.constant == 0 or sum(n > 1 for n in parameter.shape) < 2
            self.open[name] = (vectors or matrices) if looks is sooner else (matrices or vectors)
            self.unsure |= bool(vectors and matrices)

    def _gains(self) -> list[tuple[Parameter, Tensor]]:
        """The parameters that start from 1, as the gain of a norm does."""
        return [(p, t) for p, t in self.parameters.values() if p.constant == 1 and last_word(p) not in SHIFT]

    def found(self, answers: Sequence[Answers]) -> Recipe | None:
        base = np.concatenate([self._start(role) for role in self.roles.values()])
        chosen = {name: own[0] for name, own in self.open.items() if len(own) == 1}
        student = {}
        for name, own in self.open.items():
            values = base[own[0].entries] if own else np.zeros(self.parameters[name][1].numel())
            student[name] = values
        begun = self._with_own(student, base, chosen)
        told = self._told(begun[0])
        for answer in answers:
            places = self._from(answer, *begun, chosen, told)
            recipe = None if places is None else recipe_of(self.parameters, places, self.stacks)
            if recipe is not None:
                return recipe
        return None

    def _start(self, role: Role) -> np.ndarray:
        """Numbers for a role to begin with: gains all the same vector, matrices a number, everything else 0."""
        size = math.prod(role.shape)
        if role.is_gain and self.by_start:
            return np.cos(np.arange(1.0, size + 1))
        return np.full(size, 0.0 if role.kind.endswith(VECTORS) else 0.1)

    def _with_own(
        self, student: dict[str, np.ndarray], flat: np.ndarray, chosen: dict[str, Place]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The numbers of the student's parameters, and of all roles, where those that have a place get their own."""
        student, flat = dict(student), flat.copy()
        for name, place in chosen.items():
            student[name] = self.parameters[name][1].detach().numpy().ravel()
            flat[place.entries] = student[name][: len(place.entries)]
        return student, flat

    def _from(
        self,
        answer: Answers,
        student: dict[str, np.ndarray],
        flat: np.ndarray,
        chosen: dict[str, Place],
        told: tuple[np.ndarray, dict[str, np.ndarray]] | None,
    ) -> dict[str, Place] | None:
        """Places for all parameters, of which some are chosen; None: there are none."""
        wanted = self._wanted(answer, flat)
        if told is None or wanted is None or told[0].shape != wanted[0].shape:
            return None
        if not np.abs(told[0] - wanted[0]).max(initial=0.0) <= 1e-6 * max(1e-3, np.abs(wanted[0]).max(initial=0.0)):
            return None
        used = np.concatenate([np.zeros(0, dtype=int), *(place.entries for place in chosen.values())])
        taken = np.zeros(len(flat), dtype=bool)
        taken[used] = True
        fits: dict[str, list[Place]] = {}
        for name in self.open:
            if name in chosen:
                continue
            fits[name] = self._fitting(name, told[1][name], wanted[1], taken)
            if not fits[name]:
                return None
        if not fits:
            return chosen
        idle = all(not np.abs(told[1][name]).max(initial=0.0) > 1e-12 for name in fits)
        sure = dict[str, Place]()
        for name, own in fits.items():  # what does nothing, as a bias of the keys, may have any place
            free = [place for place in own if not taken[place.entries].any()]
            if len(own) == len(free) == 1 or (idle and free):
                sure[name] = free[0]
                taken[free[0].entries] = True
        if sure:
            return self._further(answer, student, flat, chosen | sure)
        # Nothing is sure: try what does something before what does nothing, as it was declared.
        name = min(fits, key=lambda n: not np.abs(told[1][n]).max(initial=0.0) > 1e-12)
        for place in fits[name][:6]:
            if (places := self._further(answer, student, flat, chosen | {name: place})) is not None:
                return places
        return None

    def _further(
        self, answer: Answers, student: dict[str, np.ndarray], flat: np.ndarray, chosen: dict[str, Place]
    ) -> dict[str, Place] | None:
        student, flat = self._with_own(student, flat, chosen)
        return self._from(answer, student, flat, chosen, self._told(student))

    def _fitting(self, name: str, gradient: np.ndarray, wanted: np.ndarray, taken: np.ndarray) -> list[Place]:
        """The places where every entry has the gradient that it should have; different ones only."""
        near = 1e-6 * np.abs(gradient).max(initial=0.0) + 1e-9 * max(1e-3, np.abs(wanted).max(initial=0.0))
        found, seen = [], set[bytes]()
        for place in self.open[name]:
            if taken[place.entries].any() or (key := place.entries.tobytes()) in seen:
                continue
            if (np.abs(wanted[place.entries] - gradient) <= near).all():
                seen.add(key)
                found.append(place)
        if not found and said_role(name) is None and not np.abs(gradient).max(initial=0.0) > near:
            found.append(Place(((), False, ()), -1, 0, np.zeros(0, dtype=int)))  # it is not used at all
        return found

    def _told(self, student: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
        """The student's output with these numbers, and the gradients by them."""
        self.runs += 1
        if self.runs > MAX_RUNS:
            return None
        rows, shapes = iter(student.values()), {name: tuple(t.shape) for name, (_, t) in self.whole.items()}
        counts = {name: shape[0] if stem(name) in self.stacks else 1 for name, shape in shapes.items()}
        told = self.run({n: np.concatenate([next(rows) for _ in range(counts[n])]).reshape(shapes[n]) for n in shapes})
        if told is None:
            return None
        pieces: list[np.ndarray] = []
        for name, count in counts.items():
            if (gradient := told[1].get(name)) is None or gradient.shape != shapes[name]:
                return None
            pieces += np.split(gradient.astype(float).ravel(), count)
        return told[0], dict(zip(student, pieces, strict=True))

    def _wanted(self, answer: Answers, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The same of the right answer."""
        leaf = torch.from_numpy(flat).requires_grad_()
        weights = {n: leaf[ids[0] : ids[-1] + 1].view(self.roles[n].shape) for n, ids in self.numbered.items()}
        try:
            output = answer(weights)
            if not output.requires_grad:
                return None
            (gradient,) = torch.autograd.grad(output, leaf, cotangent(tuple(output.shape)))
        except Exception:  # the student's tensors may have any shape
            return None
        return output.detach().numpy(), gradient.numpy()


def cotangent(shape: tuple[int, ...]) -> Tensor:
    """What outputs are weighed with where their gradients are to tell one parameter from another."""
    return numbers("cotangent", shape)
