"""How edits are said: what the student's code does, in a tutor's words, and never the step that it lacks."""

import math
from dataclasses import dataclass

from autograder.diagnosis.dataflow import RESULT, App, Path, Program, Term, Var, at, names_in, places
from autograder.diagnosis.vocabulary import NOUNS

AXES = {
    -1: "the last axis",
    -2: "the last axis but one",
    -3: "the third axis from the end",
    0: "the first axis",
    1: "the second axis",
    2: "the third axis",
    None: "everything",
    "leading": "all axes but the last",
    "tokens": "the last axis but one, where there is one",
    "sentence": "the last two axes together, where there are two",
    (-2, -1): "the last two axes together",
    (0, 1): "the first two axes together",
    (1, 2): "the second and the third axis together",
}
NUMBERS = {math.inf: "plus infinity", -math.inf: "minus infinity", 2 * math.pi: "2π", math.pi / 180: "π / 180"}


def number(value: float) -> str:
    return NUMBERS.get(value) or f"{value:g}".replace("-", "−")


def formula(term: Term) -> str:
    """A term of sizes and numbers, as one writes it: √d_k, n_heads · d_k, d_k + 1."""
    if isinstance(term, Var):
        return term.name
    if not isinstance(term, App):
        return number(term) if isinstance(term, int | float) else str(term)
    if term.function == "power" and isinstance(term.arguments[0], int | float):
        return number(term.arguments[0] ** term.arguments[1])
    inner = [formula(a) for a in term.arguments]
    closed = [
        f"({text})" if isinstance(a, App) and " " in text else text
        for text, a in zip(inner, term.arguments, strict=True)
    ]
    if term.function == "power" and term.arguments[1] == 0.5:
        return f"√{closed[0]}"
    if term.function == "power" and term.arguments[1] == 1:
        return inner[0]
    if term.function == "power":
        return f"{closed[0]}^{closed[1]}"
    if term.function in ("whole_part", "nearest_whole"):
        return f"{inner[0]} rounded{' down' * (term.function == 'whole_part')} to a whole number"
    if term.function == "logarithm":
        return f"the logarithm of {inner[0]}"
    if term.function == "size":
        return f"the size of {AXES.get(term.arguments[1], 'an axis')} of `{inner[0]}`"
    signs = {"add": "+", "subtract": "−", "multiply": "·", "divide": "/", "floor_divide": "//"}
    if term.function in signs:
        return f" {signs[term.function]} ".join(closed)
    return f"{term.function}({', '.join(inner)})"


@dataclass(frozen=True)
class Speaker:
    """Speaks of the lines and inputs of one program."""

    program: Program

    def name(self, name: str) -> str:
        """`q` for an input, "the scores" for a line."""
        if name == RESULT:
            return RESULT
        if name in self.program.called:
            return self.program.called[name]
        if self.program.sorts.get(name) == "Size" and name not in self.program.inputs:
            return name
        plain = name.rstrip("'")
        as_code = plain in self.program.inputs or len(plain.split("_")[0]) == 1  # an argument, or a symbol of the task
        return f"`{plain}`" if as_code else f"the {plain.replace('_', ' ')}"

    def verb(self, name: str) -> str:
        """ "are" for the scores, "is" for the mean."""
        if self.name(name).startswith("`"):
            return "is"
        last = self.name(name).strip("`").split(" of ")[0].split("_")[-1]
        return "are" if last.endswith("s") and not last.endswith(("ss", "bias")) else "is"

    def done(self, verb: str, name: str) -> str:
        """ "are squared" of several things, in the number of a name."""
        if self.verb(name) == "are":
            return verb
        singular = {"are": "is", "have": "has", "lose": "loses", "change": "changes"}
        first, _, rest = verb.partition(" ")
        return f"{singular.get(first, first)} {rest.replace('their', 'its')}"

    def term(self, term: Term, line: str) -> str:
        """What a part of a line is called: by its name, else by the line that it is part of."""
        if isinstance(term, Var):
            return self.name(term.name)
        if self.is_size(term):
            return formula(term)
        return f"a part of {self.name(line)}" if self.is_nameless(term, line) else self.name(line)

    def is_nameless(self, term: Term, line: str) -> bool:
        """Whether a part of a line can be called a part of it only."""
        return not isinstance(term, Var) and not self.is_size(term) and term != self.program.lines[line]

    def is_size(self, term: Term) -> bool:
        """Whether a term is made of sizes and numbers alone."""
        return all(self.program.sorts.get(n, "Tensor") in ("Size", "Number") for n in names_in(term)) and not any(
            isinstance(part, App) and part.function == "arange" for _, part, _ in places(term)
        )

    def scaling(self, line: str, path: Path, whole: Term) -> str | None:
        """ "the scores are divided by √n_keys", where the place lies within what a line is multiplied or divided by."""
        for depth in range(len(path)):
            outer = at(whole, path[:depth])
            inside = at(whole, path[: depth + 1])
            if (
                isinstance(outer, App)
                and outer.function in ("multiply", "divide")
                and path[depth] == 1
                and self.is_size(inside)
            ):
                how = "divided" if outer.function == "divide" else "multiplied"
                return f"{self.name(line)} {self.verb(line)} {how} by {formula(inside)}"
        return None

    def missing(self, line: str, kept: Term, left_out: set[str], what: str = "a step") -> str:
        """What is left out is said only where it is an argument, which the student knows of."""
        elsewhere = set().union(*(names_in(t) for n, t in self.program.lines.items() if n != line))
        unused = sorted(n for n in left_out if n in self.program.inputs and n not in elsewhere | names_in(kept))
        unused = [n for n in unused if self.program.sorts[n] not in ("Size", "Number")]
        if unused:
            return f"{' and '.join(map(self.name, unused))} {'is' if len(unused) == 1 else 'are'} not used"
        if isinstance(kept, Var):
            return f"{what} between {self.name(kept.name)} and {self.name(line)} is missing"
        return f"{what} on the way to {self.name(line)} is missing"

    def step(self, term: App, kept: int) -> str:
        """A step that the student's code has, with what it is done with: "the division by √d_k"."""
        others = [a for i, a in enumerate(term.arguments) if i != kept]
        by = {"divide": "the division by", "multiply": "the multiplication by", "add": "the addition of"}
        if term.function in by and len(others) == 1:
            return f"{by[term.function]} {self.term(others[0], RESULT)}"
        return NOUNS[term.function]
