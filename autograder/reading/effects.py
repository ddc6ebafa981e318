"""Which parameter is what, by what each does: numbers go in, results and gradients come out."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.exercise import Parameter, Role, Roles, Weights
from autograder.reading.grouping import Grouping, groupings
from autograder.reading.names import SHIFT, Parameters, numbers
from autograder.reading.places import (
    VECTORS,
    Cut,
    Key,
    Place,
    different,
    entry_numbers,
    last_word,
    may_be,
    pieced,
    places,
    said_role,
)
from autograder.reading.recipes import Recipe, recipe_of

Gradients = Mapping[str, np.ndarray | None]
Behaviour = Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, Gradients] | None]
Answers = Callable[[Weights], Tensor]
_Given = dict[tuple[Answers, bytes, bool], np.ndarray | None]  # by the numbers, and whether it is the gradient
MAX_RUNS = 30  # of one search
MAX_LATER_RUNS = 10  # of one where any order of axes is tried; right answers have taken 7 at most
MAX_PLACES = 6  # of one parameter that are tried where several are left
MAX_ABSENT = 6  # ways in which biases may be missing that are tried
MAX_PIECES = 1_000  # pieces of one parameter that are compared as a whole
MAX_STEPS = 10_000  # in all; right answers have taken 1,035 at most
AT_ONCE = 500  # places that are compared at once
EXACT, LIKE = 1e-6, 1.0  # how far numbers may be from those of the right answer, of the largest


def by_effect(
    parameters: Parameters,
    roles: Roles,
    run: Behaviour,
    answers: Sequence[Answers],
    *,
    named: bool = False,
    near: float = EXACT,
) -> Recipe | None:
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
        named: every number has a role by its name: only the first answer is tried with parameters cut into pieces.
        near: how far results and gradients may be from those of an answer, of the largest. With more than `EXACT`, what
            is found is only likely.
    """
    for search in _searches(parameters, roles, run, near):
        if recipe := search.found(answers[:1] if named and (search.cuts or not search.of_layers) else answers):
            return recipe
    return None


def _searches(parameters: Parameters, roles: Roles, run: Behaviour, near: float) -> Iterator["_Search"]:
    """The ways to begin: with the parameters as they are, as layers of PyTorch have them and then in any order of their
    axes; then put together or cut, which may cost so many runs."""
    first, *others = groupings(parameters, roles)
    steps, given = itertools.repeat(None, MAX_STEPS), _Given()
    for of_layers, sooner in itertools.product((True, False), (True, False)):
        search = _Search(parameters, roles, run, first, sooner, steps, given, near, of_layers=of_layers)
        if sooner or search.unsure:
            yield search
    if near > EXACT:  # what is cut has too many places that are near
        return
    left = itertools.repeat(None, 2 * MAX_RUNS)

    def counted(values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, Gradients] | None:
        return run(values) if next(left, 0) is None else None

    for grouping in (first, *others):
        sizes = {tensor.numel() for _, tensor in grouping.of(parameters).values()}
        if all(places(roles, sizes).values()):
            ways = [None] if grouping is not first else []
        else:
            ways = _absent(parameters, roles)
        for absent, sooner in itertools.product(ways, (True, False)):
            search = _Search(parameters, roles, counted, grouping, sooner, steps, given, near, absent)
            if sooner or search.unsure:
                yield search


def _absent(parameters: Parameters, roles: Roles) -> list[frozenset[str]]:
    """The kinds of bias that the student's may be without, as the number of all entries has it."""
    sizes: dict[str, int] = {}
    for role in roles.values():
        sizes[role.kind] = sizes.get(role.kind, 0) + math.prod(role.shape)
    missing = sum(sizes.values()) - sum(tensor.numel() for _, tensor in parameters.values())
    kinds = [kind for kind in sizes if kind.endswith("bias")]
    subsets = itertools.chain.from_iterable(itertools.combinations(kinds, n) for n in range(len(kinds) + 1))
    fitting = (frozenset(subset) for subset in subsets if sum(sizes[kind] for kind in subset) == missing)
    return list(itertools.islice(fitting, MAX_ABSENT))


class _Search:
    """One way to begin.

    Args:
        grouping: of the parameters.
        sooner: where sizes leave open whether a tensor is a vector, believe what it looks like.
        steps: one is taken for each piece that is compared, as long as there are any.
        given: what answers have given, in any search.
        near: as `by_effect` has it.
        absent: the kinds of role that the student does not have, where tensors that have no place are cut into pieces
            that have one; None: they are not cut.
        of_layers: as `may_be` has it.
    """

    def __init__(
        self,
        parameters: Parameters,
        roles: Roles,
        run: Behaviour,
        grouping: Grouping,
        sooner: bool,
        steps: Iterator[None],
        given: _Given,
        near: float,
        absent: frozenset[str] | None = None,
        of_layers: bool = True,
    ):
        self.steps, self.given, self.near, self.of_layers = steps, given, near, of_layers
        self.max_runs = MAX_RUNS if of_layers else MAX_LATER_RUNS
        self.whole, self.grouping, self.roles, self.run, self.runs = parameters, grouping, roles, run, 0
        self.parameters = parameters = grouping.of(parameters)
        self.numbered, self.absent = entry_numbers(roles), absent or frozenset()
        every = places(roles, {tensor.numel() for _, tensor in parameters.values()})
        self.cuts = absent is not None
        starts = sum(tensor.numel() for _, tensor in self._gains())
        self.by_start = starts == sum(math.prod(role.shape) for role in roles.values() if role.is_gain)
        self.gains = {parameter.name for parameter, _ in self._gains()} if self.by_start else None
        self.open: dict[str, list[Place]] = {}
        self.unsure = False
        for name, (parameter, tensor) in parameters.items():
            fits = self._allowed(parameter, every[tensor.numel()])
            vectors = [place for place in fits if place.kinds[-1].endswith(VECTORS)]
            matrices = [place for place in fits if place not in vectors]
            looks = parameter.constant == 0 or sum(n > 1 for n in parameter.shape) < 2
            self.open[name] = (vectors or matrices) if looks is sooner else (matrices or vectors)
            self.unsure |= bool(vectors and matrices)
        self.firsts = {name: _firsts(own) for name, own in self.open.items()}
        self.pieces: dict[str, list[Place]] = {}  # that a parameter may be cut into, as far as one has asked
        ends = itertools.accumulate((tensor.numel() for _, tensor in self.whole.values()), initial=0)
        numbers_ = {
            name: (parameter, torch.arange(tensor.numel()).view(tensor.shape) + at)
            for (name, (parameter, tensor)), at in zip(self.whole.items(), ends, strict=False)
        }
        self.entries = {name: tensor.numpy().ravel() for name, (_, tensor) in grouping.of(numbers_).items()}

    def _allowed(self, parameter: Parameter, found: list[Place]) -> list[Place]:
        """Different places that the parameter's name and start allow, of roles that are there."""
        of_key = dict[Key | Cut, bool]()  # which tells all that is asked here

        def fits(place: Place) -> bool:
            if place.key not in of_key:
                there = not self.absent.intersection(place.kinds)
                of_key[place.key] = there and may_be(parameter, place, self.gains, self.of_layers)
            return of_key[place.key]

        return different(filter(fits, found))

    def _gains(self) -> list[tuple[Parameter, Tensor]]:
        """The parameters that start from 1, as the gain of a norm does."""
        return [(p, t) for p, t in self.parameters.values() if p.constant == 1 and last_word(p) not in SHIFT]

    def found(self, answers: Sequence[Answers]) -> Recipe | None:
        base = np.concatenate([self._start(role) for role in self.roles.values()])
        sure = not self.cuts  # else what has a place by its size may have none
        chosen = {name: own[0] for name, own in self.open.items() if len(own) == 1 and sure}
        student = {}
        for name, own in self.open.items():
            values = base[own[0].entries] if own else np.full(len(self.entries[name]), 0.1 * self.cuts)
            student[name] = values
        begun = self._with_own(student, base, chosen)
        response = self._told(begun[0])
        for answer in answers:
            places = self._from(answer, *begun, chosen, response)
            recipe = None if places is None else recipe_of(self.parameters, places, self.grouping)
            if recipe is not None:
                return recipe
        return None

    def _start(self, role: Role) -> np.ndarray:
        """Numbers for a role to begin with: gains all the same vector, matrices a number, everything else 0.

        Where a tensor is to be cut, biases get the number of the matrices: so it makes no difference where.
        """
        size = math.prod(role.shape)
        if role.is_gain and self.by_start:
            return np.cos(np.arange(1.0, size + 1))
        zero = role.kind in self.absent if self.cuts else role.kind.endswith(VECTORS)
        return np.full(size, 0.0 if zero else 0.1)

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
        response: tuple[np.ndarray, dict[str, np.ndarray]] | None,
    ) -> dict[str, Place] | None:
        """Places for all parameters, of which some are chosen; None: there are none."""
        if response is None or not _same(response[0], self._wanted(answer, flat, False), self.near):
            return None
        if (wanted := self._wanted(answer, flat, True)) is None:
            return None
        used = np.concatenate([np.zeros(0, dtype=int), *(place.entries for place in chosen.values())])
        taken = np.zeros(len(flat), dtype=bool)
        taken[used] = True
        fits: dict[str, list[Place]] = {}
        for name in self.open:
            if name in chosen:
                continue
            fits[name] = self._fitting(name, response[1][name], wanted, taken)
            if not fits[name]:
                return None
        if not fits:
            return chosen
        idle = all(not np.abs(response[1][name]).max(initial=0.0) > 1e-12 for name in fits)
        sure = dict[str, Place]()
        for name, own in fits.items():  # what does nothing, as a bias of the keys, may have any place
            free = [place for place in own if not taken[place.entries].any()]
            if len(own) == len(free) == 1 or (idle and free):
                sure[name] = free[0]
                taken[free[0].entries] = True
        if sure:
            return self._further(answer, student, flat, chosen | sure)
        # Nothing is sure: try what does something before what does nothing, as it was declared.
        name = min(fits, key=lambda n: not np.abs(response[1][n]).max(initial=0.0) > 1e-12)
        for place in fits[name][:MAX_PLACES]:
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
        largest = max(1e-3, np.abs(wanted).max(initial=0.0))
        near = self.near * np.abs(gradient).max(initial=0.0) + 1e-3 * self.near * largest
        own, firsts = self.open[name], self.firsts[name]
        likely = np.flatnonzero(~taken[firsts] & (np.abs(wanted[firsts] - gradient[:1]) <= near))
        found = list[Place]()
        for some in np.split(likely, range(AT_ONCE, len(likely), AT_ONCE)):
            entries = np.array([own[n].entries for n in some], int).reshape(len(some), len(gradient))
            fits = ~taken[entries].any(1) & (np.abs(wanted[entries] - gradient) <= near).all(1)
            found += [own[n] for n in some[fits]]
        if not found and self.cuts:
            found = self._pieced(name, gradient, wanted, taken, near)
        if self.near > EXACT:
            found.sort(key=lambda place: np.abs(wanted[place.entries] - gradient).max(initial=0.0))
        if not found and said_role(name) is None and not np.abs(gradient).max(initial=0.0) > near:
            found.append(Place(Key((), False, ()), -1, 0, np.zeros(0, dtype=int)))  # it is not used at all
        return found

    def _pieced(
        self, name: str, gradient: np.ndarray, wanted: np.ndarray, taken: np.ndarray, near: float
    ) -> list[Place]:
        """The same for a tensor that is cut along one of its axes into pieces, each of which has a place."""
        shape = tuple(self.parameters[name][1].shape)
        if name not in self.pieces:
            fitting = (
                place for own in places(self.roles).values() for place in own if len(place.entries) <= len(gradient)
            )
            every = sorted(fitting, key=lambda place: len(place.kinds))
            self.pieces[name] = self._allowed(replace(self.parameters[name][0], shape=()), every)
        own, left = self.pieces[name], MAX_PIECES
        firsts, sizes = _firsts(own), np.array([len(place.entries) for place in own], int)

        def pieces(numbers: np.ndarray, row: int, before: tuple[Place, ...], used: np.ndarray) -> Iterator[list[Place]]:
            nonlocal left
            if not len(numbers):
                yield [*before]
                return
            of_size = (sizes <= len(numbers)) & (sizes % row == 0)
            likely = of_size & ~used[firsts] & (np.abs(wanted[firsts] - numbers[0]) <= near)
            for place in map(own.__getitem__, np.flatnonzero(likely)):
                size = len(place.entries)
                if before and not _together(before[0], place):
                    continue
                if (left := left - 1) < 0 or next(self.steps, 0) is not None:
                    return
                if not used[place.entries].any() and (np.abs(wanted[place.entries] - numbers[:size]) <= near).all():
                    now = used.copy()
                    now[place.entries] = True
                    yield from pieces(numbers[size:], row, (*before, place), now)

        found = list[Place]()
        for axis, length in enumerate(shape):
            flattened = np.moveaxis(gradient.reshape(shape), axis, 0).ravel()
            ways = pieces(flattened, len(flattened) // length, (), taken)
            found += [pieced(way, axis, shape) for way in itertools.islice(ways, 2 * MAX_PLACES)]
        return different(found)

    def _told(self, student: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
        """The student's output with these numbers, and the gradients by them."""
        self.runs += 1
        if self.runs > self.max_runs:
            return None
        shapes = {name: tuple(tensor.shape) for name, (_, tensor) in self.whole.items()}
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        flat = np.zeros(ends[-1])
        for name, values in student.items():
            flat[self.entries[name]] = values
        parts = zip(shapes.items(), np.split(flat, ends[:-1]), strict=True)
        response = self.run({name: part.reshape(shape) for (name, shape), part in parts})
        if response is None:
            return None
        found = ((shape, response[1].get(name)) for name, shape in shapes.items())
        gradients = [np.zeros(shape) if g is None else np.asarray(g, dtype=float) for shape, g in found]
        if [gradient.shape for gradient in gradients] != [*shapes.values()]:
            return None
        gradient = np.concatenate([gradient.ravel() for gradient in gradients])
        return response[0], {name: gradient[self.entries[name]] for name in student}

    def _wanted(self, answer: Answers, flat: np.ndarray, back: bool) -> np.ndarray | None:
        """The output of the right answer with these numbers, or, on the way back, its gradients by them."""
        asked = answer, flat.tobytes(), back
        if asked not in self.given:
            self.given[asked] = None
            leaf = torch.from_numpy(flat.copy()).requires_grad_(back)
            weights = {n: leaf[ids[0] : ids[-1] + 1].view(self.roles[n].shape) for n, ids in self.numbered.items()}
            # The student's tensors may have any shape, and no gradient may flow.
            with torch.set_grad_enabled(back), contextlib.suppress(Exception):
                output = answer(weights)
                if back:
                    (output,) = torch.autograd.grad((output * cotangent(tuple(output.shape))).sum(), leaf)
                self.given[asked] = output.numpy()
        return self.given[asked]


def _firsts(places: Sequence[Place]) -> np.ndarray:
    """The first entry of each place, by which most are told apart, all of them at once."""
    return np.array([place.entries[0] for place in places], int)


def _same(output: np.ndarray, wanted: np.ndarray | None, near: float) -> bool:
    if wanted is None or wanted.shape != output.shape:
        return False
    far = np.abs(output - wanted).max(initial=0.0)
    return bool(far <= near * max(1e-3, np.abs(wanted).max(initial=0.0)))


def _together(first: Place, second: Place) -> bool:
    """Whether both are of the same layer, and of the same head if of one."""
    assert isinstance(first.key, Key) and isinstance(second.key, Key)
    return (first.layer, first.head, first.key.of_head) == (second.layer, second.head, second.key.of_head)


def cotangent(shape: tuple[int, ...]) -> Tensor:
    """What outputs are weighed with where their gradients are to tell one parameter from another."""
    return numbers("cotangent", shape)
