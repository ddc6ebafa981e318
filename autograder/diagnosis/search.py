"""Diagnosis by search: which small change makes the right answer do exactly what the student's code did?

Bounded by tries, never by time, so that load changes no verdict. What agrees in all cases, gradients included, is an
explanation; what is long or far-fetched stays unsaid.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.diagnosis.dataflow import RESULT, App, Lines, Machine, Program, Var, at, names_in, places
from autograder.diagnosis.edits import Edit, Place, cuts, everywhere, forks
from autograder.diagnosis.rules import RELATED, edits
from autograder.diagnosis.wording import Speaker, formula, number

KEY = "searched"  # of a mistake that was found by search and is on no list
Parts = tuple[Tensor, ...]
MAX_STEPS = 30_000  # operations computed, and programs run on a case, in all
MAX_FIRSTS = 40  # changes that may be the first of a pair
MAX_COST = 2.7  # of a pair: what is less likely than that stays unsaid
MAX_SECOND = 1.65
USUAL = 1.3  # single changes up to that are tried before all others
MAX_WORDS = 170  # characters of an explanation: a longer one helps nobody


@dataclass(frozen=True)
class Observed:
    """What the student's code did with one case.

    Attributes:
        values: the arguments of the steps, by name.
        outputs: the student's results; None where the code raised, or returned something else.
        near: whether a tensor equals the student's result of that number.
        gradients_agree: whether the gradients of an answer equal the student's, where they were asked for.
    """

    values: dict[str, Any]
    outputs: tuple[np.ndarray, ...] | None
    near: Callable[[int, Tensor], bool]
    gradients_agree: Callable[[Parts], bool]


@dataclass(frozen=True)
class Change:
    """One or two edits that do what the student's code does.

    Attributes:
        edits: the edits.
        answers: what the changed program gives, per case; None where it raises, as the student's code does.
        where: the line to look at, in words.
    """

    edits: tuple[Edit, ...]
    answers: list[Parts | None]
    where: str

    @property
    def name(self) -> str:
        return ", and ".join(edit.words for edit in self.edits)


class _Spent(Exception):
    """All tries are used up."""


def explain(program: Program, observed: Sequence[Observed]) -> Change | None:
    """The likeliest small change that explains all that was observed; None if there is none."""
    with torch.no_grad():
        return _Search(program, observed).run()


class _Search:
    def __init__(self, program: Program, observed: Sequence[Observed]):
        self.program, self.observed, self.spent = program, observed, 0
        self.machines = [Machine(program, seen.values) for seen in observed]
        self.known: dict[tuple[int, Any], tuple[bool, ...]] = {}  # which parts agree, by case and key
        self.base = [self._parts(i, program.lines) for i in range(len(observed))]
        # What is returned wrongly says most, so that comes first.
        results = [i for i, seen in enumerate(observed) if seen.outputs is not None]
        self.order = sorted(results, key=lambda i: (all(self.base[i]), sum(o.size for o in observed[i].outputs or ())))
        self.raised = [i for i, seen in enumerate(observed) if seen.outputs is None]
        self.order += self.raised

    def run(self) -> Change | None:
        if len(self.raised) > len(self.observed) / 2:
            return None
        try:
            if all(map(all, self.base)):  # only the way back differs: where is it cut?
                return self._best([(edit,) for edit in cuts(self.program)])
            if not self._tells():
                return None
            first = self.observed[self.order[0]].outputs
            yes_or_no = first is not None and all(part.dtype == bool for part in first)  # hides how large numbers were
            hidden = {"scaled", "besides"} if yes_or_no else set[str]()
            singles = [edit for edit in edits(self.program) if edit.key[0] not in hidden]
            usual = [edit for edit in singles if edit.cost <= USUAL]
            return (
                self._best(self._explaining(usual))
                or self._best(self._explaining(sorted([*self._forked(), *singles[len(usual) :]], key=lambda e: e.cost)))
                or self._best([(edit,) for edit in self._solved()])
                or self._best(self._explaining(list(self._mixed(singles))))
                or (None if self.raised else self._best(self._pairs(singles)))
            )
        except _Spent:
            return None

    # --- Comparing -----------------------------------------------------------------------------------------------

    def _ran(self, i: int, lines: Lines) -> tuple[Any, Any]:
        """The key and the result of a program in case i; all that is computed counts."""
        if self.spent > MAX_STEPS:
            raise _Spent
        machine = self.machines[i]
        before = machine.steps
        try:
            return machine.run(lines)
        finally:
            self.spent += 1 + machine.steps - before

    def _parts(self, i: int, lines: Lines) -> tuple[bool, ...]:
        """Which parts of the student's result in case i a program gives. Where both raise, they agree."""
        seen = self.observed[i]
        try:
            key, result = self._ran(i, lines)
            if (i, key) not in self.known:
                answer = _as_parts(result)
                if seen.outputs is None or len(answer) != len(seen.outputs):
                    self.known[i, key] = (False,)
                else:
                    self.known[i, key] = tuple(seen.near(n, part) for n, part in enumerate(answer))
            return self.known[i, key]
        except _Spent:
            raise
        except Exception:  # most edits do not fit
            return (seen.outputs is None,)

    def _explaining(self, some: list[Edit]) -> list[tuple[Edit, ...]]:
        """Those that explain, of edits of which the likelier come first; what is found counts if tries run out."""
        found: list[tuple[Edit, ...]] = []
        try:
            for edit in some:
                if self._explains(edit.of(self.program.lines)):
                    found.append((edit,))
        except _Spent:
            if not found:
                raise
        return found

    def _explains(self, lines: Lines) -> bool:
        return all(all(self._parts(i, lines)) for i in self.order)

    def _tells(self) -> bool:
        """Whether there is something to explain: finite numbers, not all alike and not near 0, where they are wrong.

        Results of one number each tell something together.
        """
        single: list[float] = []
        for i, right in enumerate(self.base):
            outputs = self.observed[i].outputs
            if all(right) or outputs is None:
                continue
            try:
                expected = _as_parts(self.machines[i].run(self.program.lines)[1])
            except Exception:
                continue
            for got, part in zip(outputs, expected, strict=False):
                want = part.detach().numpy()
                if got.dtype == bool:
                    return True
                values = (
                    got[np.isfinite(got)]
                    if got.shape != want.shape
                    else got[np.isfinite(got) & ~np.isclose(got, want, 1e-5)]
                )
                if values.size > 1 and np.ptp(values.astype(float)) > 1e-6:
                    return True
                single += values.tolist() if got.ndim == 0 else []
        return len(single) > 1 and bool(np.ptp(single) > 1e-6)

    def _best(self, groups: list[tuple[Edit, ...]]) -> Change | None:
        """Of changes that explain the results, the likeliest whose gradients agree too; of equal ones, the shortest."""

        def applied(group: tuple[Edit, ...]) -> Lines:
            lines = self.program.lines
            for edit in group:
                lines = edit.of(lines)
            return lines

        at = {line: n for n, line in enumerate(self.program.lines)}

        def rank(group: tuple[Edit, ...]) -> tuple[float, int, int]:
            # A sign that is turned early is turned in what follows from it, too: that holds wherever the code turns it.
            late = sum(at.get(edit.line, 0) for edit in group if edit.key[0] == "scaled" and edit.key[-1] == -1.0)
            return round(sum(edit.cost for edit in group), 1), _live(applied(group)), -late

        for group in sorted(groups, key=rank):
            short = sum(len(edit.words) for edit in group) <= MAX_WORDS
            if not short or any(map(self._levels, group)):
                continue
            if (answers := self._with_gradients(applied(group))) is not None:
                say = Speaker(self.program)
                lines = list(dict.fromkeys(say.name(edit.line) for edit in group))
                return Change(group, answers, " and ".join(lines))
        return None

    def _levels(self, edit: Edit) -> bool:
        """Whether a function that is put in gives one and the same number, whatever it gets: a softmax over one value.

        Many ways lead to a constant; what is said of this one would be no more than a guess.
        """
        if edit.key[0] != "besides":
            return False
        _, _, added = edit.changes[0]
        given = list[Any]()
        for machine in self.machines:
            try:
                given.append(machine.run({**(edit.inside or self.program.lines), RESULT: added})[1])
            except Exception:
                continue
        constant = [isinstance(value, Tensor) and not bool((value != value.flatten()[:1]).any()) for value in given]
        if not given or not all(constant):
            return False
        # A single number is always constant: it tells nothing only where it is the same in all cases, as no count is.
        return any(value.numel() > 1 for value in given) or len({float(value) for value in given}) == 1

    @torch.enable_grad()
    def _with_gradients(self, lines: Lines) -> list[Parts | None] | None:
        """The answers of a program in all cases, if their gradients equal the student's wherever those were asked."""
        answers: list[Parts | None] = []
        for machine, seen in zip(self.machines, self.observed, strict=True):
            try:
                answer = _as_parts(machine.run_again(lines))
                if seen.outputs is not None and not seen.gradients_agree(answer):
                    return None
            except Exception:
                if seen.outputs is not None:
                    return None
                answer = None
            answers.append(answer)
        return answers

    # --- Less simple changes ---------------------------------------------------------------------------------------

    def _forked(self) -> Iterator[Edit]:
        """Changes on the way to one use of a line alone."""
        for name, program in forks(self.program):
            (user,) = [line for line, whole in program.lines.items() if name in names_in(whole)][:1] or [RESULT]
            itself = name.removesuffix("'")
            for edit in edits(program, name):
                if edit.key[0] in ("uses", "bypass") and itself in edit.key:
                    continue  # the line itself once more, which is no change of it
                if edit.cost <= 1.6 and all(line == name for line, _, _ in edit.changes):
                    words = f"on the way to {Speaker(program).name(user)}, {edit.words}"
                    yield replace(edit, words=words, cost=edit.cost + 0.2, inside=program.lines)

    def _solved(self) -> Iterator[Edit]:
        """Unknown factors: solved for in one case, named by sizes that give them, held against all other cases."""
        i = self.order[0]
        outputs = self.observed[i].outputs
        if outputs is None or all(part.dtype == bool for part in outputs):  # which many factors give
            return
        say = Speaker(self.program)
        for here in everywhere(self.program):
            if not here.is_tensor or (isinstance(here.term, Var) and here.line != RESULT):
                continue
            factor = self._factor(i, here)
            if factor is None or abs(factor - 1) < 1e-4:
                continue
            named = here.term.name if isinstance(here.term, Var) else here.line
            subject = say.name(named)
            subject = (
                "every value"
                if subject == RESULT
                else f"every value of {subject}"
                if named == here.line or here.line == RESULT
                else subject
            )
            for term, words in self._names(here, i, factor):
                # A factor on the way to the result may as well be one of a later line that does the same.
                whole = subject == "every value"
                fact = f"{subject} is" if whole else f"as if {subject} were"
                edit = here.edit(
                    App("multiply", (here.term, term)), f"{fact} {words} times the expected one", 1.5, "factor"
                )
                if self._explains(edit.of(self.program.lines)):
                    yield edit
                    break

    def _factor(self, i: int, here: Place) -> float | None:
        """By what a term must be multiplied for the student's result of case i, if any number does it."""
        outputs = self.observed[i].outputs
        assert outputs is not None
        got = np.concatenate([np.ravel(o) for o in outputs]).astype(float)
        if not np.isfinite(got).any():
            return None

        def error(factor: float) -> float:
            edit = here.edit(App("multiply", (here.term, factor)), "", 0.0)
            try:
                answer = _as_parts(self._ran(i, edit.of(self.program.lines))[1])
            except _Spent:
                raise
            except Exception:
                return math.inf
            if [part.shape for part in answer] != [o.shape for o in outputs]:
                return math.inf
            candidate = np.concatenate([np.ravel(part.numpy()) for part in answer]).astype(float)
            with np.errstate(invalid="ignore"):
                return float(np.nan_to_num(np.abs(candidate - got)[np.isfinite(got)], nan=1e9).mean())

        if error(1.1) == math.inf:
            return None
        grid = np.geomspace(1 / 512, 512, 37)
        errors = [error(factor) for factor in grid]
        best = int(np.argmin(errors))
        if not 0 < best < len(grid) - 1:
            return None
        low, high = np.log(grid[best - 1]), np.log(grid[best + 1])
        for _ in range(45):  # golden section
            a, b = high - 0.618034 * (high - low), low + 0.618034 * (high - low)
            low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
            if high - low < 1e-9:
                break
        factor = math.exp((low + high) / 2)
        scale = float(np.abs(got[np.isfinite(got)]).mean())
        return factor if error(factor) < 1e-5 * max(scale, 1e-3) else None

    def _mixed(self, singles: list[Edit]) -> Iterator[Edit]:
        """A function of which a share is its relative, as label smoothing makes it: solved for in one case."""
        first, lines = self.order[0], self.program.lines
        outputs = self.observed[first].outputs
        if outputs is None:
            return
        for edit in singles:
            if edit.key not in RELATED:
                continue
            try:
                right, other = (_as_parts(self._ran(first, some)[1]) for some in (lines, edit.of(lines)))
                share = _share(outputs, right, other)
            except _Spent:
                raise
            except Exception:  # most edits do not fit
                continue
            if share:
                mixtures = tuple(
                    (line, path, App("mixed", (at(lines[line], path), new, share))) for line, path, new in edit.changes
                )
                yield replace(edit, changes=mixtures, words=f"to a share of {share:g}, {edit.words}", cost=1.5)

    def _names(self, here: Place, i: int, factor: float) -> Iterator[tuple[Any, str]]:
        """Terms of sizes that give a factor in case i, the simplest first, and the number itself at last."""
        sizes: dict[str, float] = {}
        for name in here.of_sort("Size"):
            try:
                sizes[name] = float(self.machines[i].run({**self.program.lines, RESULT: Var(name)})[1])
            except Exception:
                continue
        products: list[tuple[float, Any]] = [(n, n) for n in (1.0, 2.0, 3.0)]
        products += [(value, Var(name)) for name, value in sizes.items()]
        products += [(value * 2, App("multiply", (2, Var(name)))) for name, value in sizes.items()]
        products += [(value - 1, App("subtract", (Var(name), 1))) for name, value in sizes.items()]
        products += [(value + 1, App("add", (Var(name), 1))) for name, value in sizes.items()]
        products += [
            (sizes[a] * sizes[b], App("multiply", (Var(a), Var(b)))) for a, b in itertools.combinations(sizes, 2)
        ]
        for (a, over), (b, under) in itertools.product(products, products):
            for exponent in (1.0, 0.5):
                if b and over != under and abs((a / b) ** exponent - factor) < 2e-5 * factor:
                    ratio = over if under == 1.0 else App("divide", (over, under))
                    term = ratio if exponent == 1.0 else App("power", (ratio, 0.5))
                    yield term, formula(term)
        yield float(f"{factor:.6g}"), number(float(f"{factor:.4g}"))

    def _pairs(self, singles: list[Edit]) -> list[tuple[Edit, ...]]:
        """Two changes, of which one explains by itself a part of a result, or a case, that was unexplained."""
        lines = self.program.lines
        singles = [edit for edit in singles if not edit.vague]  # two of them had better be plain
        telling = self.order[:4]

        def explained(edit: Edit) -> int:
            changed = edit.of(lines)
            return sum(
                sum(self._parts(i, changed)) > sum(self.base[i]) and len(self._parts(i, changed)) == len(self.base[i])
                for i in telling
            )

        ranked = [(explained(edit), edit) for edit in singles if edit.cost < MAX_SECOND]
        firsts = [edit for gain, edit in sorted(ranked, key=lambda pair: -pair[0]) if gain][:MAX_FIRSTS]
        found: list[tuple[Edit, ...]] = []
        for first in firsts:
            changed = first.of(lines)
            for second in singles:
                if first.cost + second.cost > MAX_COST:
                    break
                if first.apart_from(second) and self._explains(second.of(changed)):
                    found.append((first, second))
            if found:
                break
        return found


def _as_parts(answer: Any) -> Parts:
    parts = answer if isinstance(answer, tuple) else (answer,)
    if not all(isinstance(part, Tensor) for part in parts):
        raise TypeError("a result that is no tensor")
    return parts


def _share(outputs: Sequence[np.ndarray], right: Parts, other: Parts) -> float | None:
    """The share of another result that makes the student's of the right one; None where there is none."""
    if not [o.shape for o in outputs] == [tuple(p.shape) for p in right] == [tuple(p.shape) for p in other]:
        return None
    flat = (np.concatenate([np.ravel(part).astype(float) for part in some]) for some in (outputs, right, other))
    got, begin, end = flat
    way = end - begin
    share = float(way @ (got - begin) / (way @ way)) if np.isfinite([*got, *way]).all() and way.any() else 0.0
    near = np.abs(begin + share * way - got).max(initial=0.0) <= 1e-6 * max(1e-3, np.abs(got).max(initial=0.0))
    return float(f"{share:.5g}") if near and 0.001 < share < 0.999 else None


def _live(lines: Lines) -> int:
    """How many operations the result depends on: of equal explanations, the shorter code is the likelier."""
    count, done, todo = 0, set[str](), [lines[RESULT]]
    while todo:
        for _, term, _ in places(todo.pop()):
            count += isinstance(term, App)
            if isinstance(term, Var) and term.name in lines and term.name not in done:
                done.add(term.name)
                todo.append(lines[term.name])
    return count
