"""Edits: small changes of a right answer, that any exercise shares. None knows of an exercise.

An edit replaces terms at places of a program. Most are made by `rules` from what stands at a place.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autograder.diagnosis.dataflow import RESULT, App, Lines, Path, Program, Term, Var, places, put
from autograder.diagnosis.wording import Speaker


@dataclass(frozen=True)
class Edit:
    """Terms to put at places.

    Attributes:
        changes: line, place in it, and what to put there.
        words: what the student's code does, a clause without a full stop.
        cost: how unlikely it is: 1 for an everyday slip.
        key: what is done, wherever it is done; edits of one key can be done everywhere at once.
        vague: whether its words speak of a value that has no name, as a part of a line.
        inside: the lines to change, where they are not those that were searched.
    """

    changes: tuple[tuple[str, Path, Term], ...]
    words: str
    cost: float
    key: tuple[object, ...]
    vague: bool = False
    inside: Lines | None = None

    @property
    def line(self) -> str:
        """Where to look first."""
        return self.changes[-1][0]

    def of(self, lines: Lines) -> Lines:
        """The lines with the change made."""
        changed = dict(self.inside or lines)
        for line, path, new in sorted(self.changes, key=lambda change: -len(change[1])):
            changed[line] = put(changed[line], path, new)
        return changed

    def apart_from(self, other: "Edit") -> bool:
        """Whether two edits touch different places, so that both can be made."""
        return not any(
            a == b and (p[: len(q)] == q or q[: len(p)] == p)
            for (a, p, _), (b, q, _) in itertools.product(self.changes, other.changes)
        )


@dataclass(frozen=True)
class Place:
    """One place of a program, and what rules need to know about it."""

    program: Program
    say: Speaker
    line: str
    path: Path
    term: Term
    kind: str
    earlier: tuple[str, ...]  # names that are known before this line

    @property
    def subject(self) -> str:
        return self.say.name(self.line)

    @property
    def made(self) -> str:
        return f"{self.subject} {self.say.verb(self.line)} made"

    @property
    def whole(self) -> Term:
        return self.program.lines[self.line]

    @property
    def outer(self) -> Term:
        """The term that this one is an argument of; itself, where it is the line."""
        outer = self.whole
        for i in self.path[:-1]:
            outer = outer.arguments[i]
        return outer

    def edit(self, new: Term, words: str, cost: float, *key: object, vague: bool = False) -> Edit:
        return Edit(((self.line, self.path, new),), words, cost, key, vague)

    def scaled(self, new: Term, words: str, cost: float, *key: object, vague: bool = False) -> Edit:
        """An edit within a scale is said as the scale that comes of it."""
        scale = self.say.scaling(self.line, self.path, put(self.whole, self.path, new))
        return self.edit(new, scale or words, cost, *key, vague=vague and not scale)

    def of_sort(self, *sorts: str) -> list[str]:
        return [name for name in self.earlier if self.program.sorts.get(name) in sorts]

    def like(self, name: str) -> list[str]:
        """The names of the same sort; a weight is like no value, which its shape would not fit."""
        sort, weights = self.program.sorts.get(name, "Tensor"), self.program.weights
        return [other for other in self.of_sort(sort) if (other in weights) == (name in weights)]

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor stands here that has a name, or is a whole line."""
        if self.kind != "Tensor" or not isinstance(self.term, Var | App) or self.say.is_size(self.term):
            return False
        return isinstance(self.term, Var) or (not self.path and self.term.function != "results")


def everywhere(program: Program) -> list[Place]:
    """The places of a program that rules are tried at: sizes are lines of their own and stay what they are."""
    say, found, known = Speaker(program), list[Place](), list(program.inputs)
    known += [name for name in program.lines if program.sorts.get(name) == "Size"]
    for line, whole in program.lines.items():
        if program.sorts.get(line) == "Size":
            continue
        earlier = tuple(known)
        found += [Place(program, say, line, path, term, kind, earlier) for path, term, kind in places(whole)]
        known.append(line)
    return found


def cuts(program: Program) -> list[Edit]:
    """Gradients cut: at all uses of a name, then on the way to one use, then on the way to two."""
    say = Speaker(program)
    uses: dict[str, list[tuple[str, Path, Term]]] = {}
    for line, whole in program.lines.items():
        for path, term, kind in places(whole):
            flows = kind in ("Tensor", "Weight", "Bias") and program.sorts.get(line) != "Size"
            if flows and isinstance(term, Var) and program.sorts.get(term.name) in ("Tensor", "Bias"):
                uses.setdefault(term.name, []).append((line, path, App("detach", (term,))))
    result = program.lines[RESULT]
    ends = (
        [((i,), part) for i, part in enumerate(result.arguments)]
        if getattr(result, "function", "") == "results"
        else [((), result)]
    )
    returned = {(RESULT, path) for path, _ in ends}
    none = tuple((RESULT, path, App("detach", (part,))) for path, part in ends)
    found = [Edit(none, "no gradient flows back at all", 0.9, ("cut",))]
    for name, changes in uses.items():
        words = "no gradient reaches " if name in program.inputs else "no gradient flows back through "
        if name.endswith("weight") and f"{name.removesuffix('weight')}bias" in program.inputs:
            words += "the weight of "  # that of its bias is another
        found.append(Edit(tuple(changes), words + say.name(name), 1.0, ("cut", name)))
    for (name, changes), pair in itertools.product(uses.items(), (1, 2)):
        for some in itertools.combinations(changes, pair) if len(changes) > pair else ():
            ways = " or ".join(dict.fromkeys(say.name(line) for line, _, _ in some))
            cut, all_uses = (Counter(line for line, _, _ in part) for part in (some, changes))
            is_all = all(cut[line] == all_uses[line] for line in cut)
            words = f"only a part of the gradient flows back from {ways} to {say.name(name)}"
            if is_all:
                words = f"no gradient flows back directly from {ways} to {say.name(name)}"
            if len(ends) > 1 and all((line, path) in returned for line, path, _ in some):
                words = f"no gradient flows back through {say.name(name)} as returned"
            found.append(Edit(some, words, 1.1 * pair, ("cut", name, pair)))
    return found


def forks(program: Program) -> Iterator[tuple[str, Program]]:
    """Programs in which one use of a line that has several reads a copy of it, so that it can be changed alone."""
    for name, term in program.lines.items():
        if program.sorts.get(name) == "Size" or name == RESULT:
            continue
        uses = [
            (line, path)
            for line, whole in program.lines.items()
            for path, part, _ in places(whole)
            if part == Var(name)
        ]
        for line, path in uses if len(uses) > 1 else ():
            lines: Lines = {}
            for other, whole in program.lines.items():
                if other == line:
                    lines[name + "'"] = term
                    whole = put(whole, path, Var(name + "'"))
                lines[other] = whole
            sorts = program.sorts | {name + "'": program.sorts.get(name, "Tensor")}
            yield name + "'", replace(program, lines=lines, sorts=sorts)
