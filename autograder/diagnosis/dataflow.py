"""A right answer as dataflow: lines that name terms, read from a plain function, and run with a memory.

A term is a variable, a constant, or a function of the vocabulary applied to terms. Syntax is only the way in: what is
compared, changed and computed are terms, so equal ones are computed once, whatever program they stand in.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import torch
from torch import Tensor

from autograder.diagnosis import vocabulary
from autograder.diagnosis.vocabulary import FUNCTIONS, KINDS

RESULT = "the result"


@dataclass(frozen=True)
class Var:
    """A line, an input, a weight, or a size, by its name."""

    name: str


@dataclass(frozen=True)
class App:
    """A function of the vocabulary applied to terms."""

    function: str
    arguments: tuple[Any, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kind each argument is, as the vocabulary's annotations say."""
        return KINDS[self.function] or ("Tensor",) * len(self.arguments)


Term = Any  # Var, App, or a constant
Path = tuple[int, ...]  # which argument of which argument … of a line's term
Lines = dict[str, Term]  # in order; the last is RESULT


@dataclass(frozen=True)
class Program:
    """A function of named steps.

    Attributes:
        lines: what each name stands for; sizes first, the last is `RESULT`.
        inputs: the parameters, in order.
        sorts: of each name: "Tensor", "Mask", "Bias", "Size" or "Number".
        called: what a sentence calls a name, where that is not the name itself.
        weights: the parameters after the `*`.
    """

    lines: Lines
    inputs: tuple[str, ...]
    sorts: dict[str, str]
    called: dict[str, str] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()


def places(term: Term, kind: str = "Tensor", path: Path = ()) -> Iterator[tuple[Path, Term, str]]:
    """Every term within a term: where it is, itself, and of what kind its place is."""
    yield path, term, kind
    if isinstance(term, App):
        for i, (argument, kind) in enumerate(zip(term.arguments, term.kinds, strict=True)):
            yield from places(argument, kind, (*path, i))


def put(term: Term, path: Path, new: Term) -> Term:
    """`term` with `new` at a place."""
    if not path:
        return new
    arguments = list(term.arguments)
    arguments[path[0]] = put(arguments[path[0]], path[1:], new)
    return App(term.function, tuple(arguments))


def at(term: Term, path: Path) -> Term:
    """What stands at a place."""
    for i in path:
        term = term.arguments[i]
    return term


def names_in(term: Term) -> set[str]:
    return {part.name for _, part, _ in places(term) if isinstance(part, Var)}


# --- Reading -----------------------------------------------------------------------------------------------------

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.MatMult: "matmul",
    ast.Pow: "power",
    ast.FloorDiv: "floor_divide",
}
SORTS: dict[Any, str] = {Tensor: "Tensor", int: "Size", float: "Number"}


def read(function: Callable[..., Any]) -> Program:
    """A plain function, straight on: assignments to names, then a return.

    A parameter's annotation says its sort: a tensor, int (a size) or float (a number). What may be None is a mask where
    its name ends in "mask", else a bias.
    `Annotated[Tensor, "tokens d_k"]` names the last axes of a tensor, which are sizes to use in edits;
    `Annotated[Tensor, "tokens d_k", "the keys"]` says besides what a sentence calls it.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    hints = get_type_hints(function, include_extras=True)
    lines: Lines = {}
    sorts: dict[str, str] = {}
    called: dict[str, str] = {}
    parameters = tuple(inspect.signature(function).parameters)
    for name in parameters:
        hint = hints[name]
        words: tuple[str, ...] = getattr(hint, "__metadata__", ())
        kind = hint.__origin__ if words else hint
        sorts[name] = SORTS.get(kind) or ("Mask" if name.endswith("mask") else "Bias")
        if len(words) > 1:
            called[name] = words[1]
    lines |= {axis: App("size", (Var(name), place)) for axis, (name, place) in axes_of(function).items()}
    sorts |= dict.fromkeys(lines, "Size")
    for statement in definition.body:
        if isinstance(statement, ast.Return):
            lines[RESULT] = _term(statement.value, function.__globals__)
        elif isinstance(statement, ast.Assign):
            (target,) = statement.targets
            assert isinstance(target, ast.Name)
            lines[target.id] = _term(statement.value, function.__globals__)
            sorts[target.id] = _sort(lines[target.id], sorts)
    weights = (name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY)
    return Program(lines, parameters, sorts | {RESULT: "Tensor"}, called, frozenset(weights))


def axes_of(function: Callable[..., Any]) -> dict[str, tuple[str, int]]:
    """The sizes that the annotations of steps name: the parameter that has each first, and its axis from the end."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    found: dict[str, tuple[str, int]] = {}
    for name in parameters:
        words: tuple[str, ...] = getattr(hints[name], "__metadata__", ("",))
        for i, axis in enumerate(reversed(words[0].split()), 1):
            if axis not in parameters and axis.isidentifier():
                found.setdefault(axis, (name, -i))
    return found


def _term(node: ast.expr | None, known: dict[str, Any]) -> Term:
    """A term from syntax; `known` says which function of the vocabulary a name stands for."""

    def term(node: ast.expr) -> Term:
        match node:
            case ast.Name(id="INF"):
                return vocabulary.INF
            case ast.Name():
                return Var(node.id)
            case ast.Constant():
                return node.value
            case ast.UnaryOp(op=ast.USub()):
                inner = term(node.operand)
                return -inner if isinstance(inner, int | float) else App("negative", (inner,))
            case ast.BinOp():
                left, right = term(node.left), term(node.right)
                constant = isinstance(node.op, ast.Pow) and isinstance(left, float)
                return App("power_of" if constant else OPERATORS[type(node.op)], (left, right))
            case ast.Call(func=ast.Name(id=name)):
                return App(known[name].__name__, tuple(map(term, node.args)))
            case ast.Tuple():
                return App("results", tuple(map(term, node.elts)))
            case _:
                raise SyntaxError(f"steps hold no {ast.unparse(node)}")

    assert node is not None
    return term(node)


def _sort(term: Term, sorts: dict[str, str]) -> str:
    """A line is a size where it is made of sizes alone; of anything else, a tensor."""
    if isinstance(term, Var):
        return sorts[term.name]
    if not isinstance(term, App):
        return "Size"
    if term.function == "size":
        return "Size"
    parts = {_sort(argument, sorts) for argument in term.arguments}
    return "Size" if parts <= {"Size"} and term.function != "arange" else "Tensor"


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def inputs(function: Callable[..., Any]) -> tuple[str, ...]:
    """What steps call the inputs of a call: the names before the `/`."""
    return tuple(p.name for p in _parameters(function) if p.kind is p.POSITIONAL_ONLY)


def bound(
    function: Callable[..., Any], build: Any, inputs: tuple[Any, ...], weights: dict[str, Tensor]
) -> dict[str, Any]:
    """The arguments of steps, by name.

    What stands before the `/` are the inputs of a call, then come the arguments of the constructor, and after the `*`
    the weights by role (a dot in a role is `_`). What is not given is its default, or None.
    """
    roles = {role.replace(".", "_"): tensor for role, tensor in weights.items()}
    given: dict[str, Any] = {}
    sources = {
        inspect.Parameter.POSITIONAL_ONLY: iter(inputs),
        inspect.Parameter.POSITIONAL_OR_KEYWORD: iter(build or ()),
    }
    for parameter in _parameters(function):
        default = None if parameter.default is parameter.empty else parameter.default
        if parameter.kind in sources:
            given[parameter.name] = next(sources[parameter.kind], default)
        else:
            given[parameter.name] = roles.get(parameter.name, default)
    return given


# --- Running -----------------------------------------------------------------------------------------------------


MAX_HELD = 64 << 20  # bytes of what was computed on one case; a text of 300 tokens has scores of megabytes
FORGOTTEN = object()


class Machine:
    """Runs programs on one case. `steps` counts what had to be computed, as the measure of all that is spent."""

    def __init__(self, program: Program, values: dict[str, Any]):
        self.values, self.steps, self.held = values, 0, 0  # bytes
        self._memo: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._changed = frozenset(program.lines)
        # What the program itself gives: of each line, and of each term within one, by its identity.
        self._base: dict[str, tuple[Term, frozenset[str], Any]] = {}
        self._within: dict[int, tuple[frozenset[str], Any]] = {}
        needs: dict[str, frozenset[str]] = {}
        done: dict[str, Any] = {}
        within: dict[int, tuple[frozenset[str], Any]] = {}
        with torch.no_grad():
            for name, term in program.lines.items():
                needs[name] = _reached(term, needs) | {name}
                try:
                    found = self._found(program.lines, done, Var(name))
                except Exception:  # a size that this case has not
                    continue
                self._base[name] = (term, needs[name], found)
                for _, part, _ in places(term):
                    if isinstance(part, App):
                        within[id(part)] = (_reached(part, needs), self._found(program.lines, done, part))
        self._program, self._within = program, within  # the program keeps its terms, and so their identities

    def run(self, lines: Lines) -> tuple[Any, Any]:
        """A program's key and result; equal keys, equal results. Raises what any of its steps raises."""
        if not torch.is_grad_enabled():  # asking takes less than saying so again
            return self._run(lines)
        with torch.no_grad():
            return self._run(lines)

    def run_again(self, lines: Lines) -> Any:
        """The same with everything computed anew, so that gradients flow."""
        kept = self._memo, self._base, self._within
        self._memo, self._base, self._within = {}, {}, {}
        try:
            return self._run(lines)[1]
        finally:
            self._memo, self._base, self._within = kept

    def _run(self, lines: Lines) -> tuple[Any, Any]:
        changed = frozenset(n for n, term in lines.items() if n not in self._base or self._base[n][0] is not term)
        # What no change reaches is not walked again.
        done = {name: found for name, (_, needs, found) in self._base.items() if changed.isdisjoint(needs)}
        self._changed = changed
        return self._found(lines, done, Var(RESULT))

    def _found(self, lines: Lines, done: dict[str, Any], term: Term) -> tuple[Any, Any]:
        """A term's key and value."""
        kind = type(term)
        if kind is Var:
            name = term.name
            if name not in done:
                done[name] = (
                    self._found(lines, done, lines[name]) if name in lines else (("given", name), self.values[name])
                )
            return done[name]
        if kind is not App:
            return (kind.__name__, term), term
        known = self._within.get(id(term))
        if known and known[0].isdisjoint(self._changed):
            return known[1]
        keys: list[Any] = [term.function]
        arguments: list[Any] = []
        for argument in term.arguments:
            part = done.get(argument.name) if type(argument) is Var else None
            number, value = part or self._found(lines, done, argument)
            keys.append(number)
            arguments.append(value)
        key = tuple(keys)
        found = self._memo.get(key)
        if not found or found[1] is FORGOTTEN:
            self.steps += 1
            try:
                value = FUNCTIONS[term.function](*arguments)
            except Exception as error:  # most edits do not fit
                value = error
            if isinstance(value, Tensor):
                self._remember(value.nbytes)
            found = self._memo[key] = (found[0] if found else len(self._memo), value)
        if isinstance(found[1], Exception):
            raise found[1]
        return found

    def _remember(self, size: int) -> None:
        """Make room for a tensor of so many bytes: where there is none, all others but their keys are forgotten."""
        if self.held + size > MAX_HELD:
            for key, (number, value) in self._memo.items():
                if isinstance(value, Tensor):
                    self._memo[key] = number, FORGOTTEN
            self.held = 0
        self.held += size


def _reached(term: Term, needs: dict[str, frozenset[str]]) -> frozenset[str]:
    """The lines that a term depends on, through others too."""
    used = names_in(term)
    return frozenset(used).union(*(needs[name] for name in used if name in needs))
