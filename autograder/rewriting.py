"""A wrong answer as the lines of the right one that it has otherwise.

A mistake says in its `change` which steps of the exercise's right answer (`Exercise.steps`) it writes in another way:

    deviation = variance + eps

replaces the step of that name, and `return …` the result. A line that uses the step that it names, such as
`variance = 2 * variance`, comes after it, whatever another change makes of it. A name that the steps do not have is a
step more, before the next that is replaced; where none is, before the first that uses it, so that an input can have
another value. Mistakes that replace different steps can be made together.
"""

import ast
import builtins
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.nn.functional as F

from autograder.diagnosis import vocabulary
from autograder.diagnosis.dataflow import axes_of, bound

RESULT = "return"
BESIDES: dict[str, Any] = {**vocabulary.FUNCTIONS, "INF": vocabulary.INF, "torch": torch, "F": F, "math": math}
Steps = Callable[..., Any]


def run(
    steps: Steps,
    changes: tuple[str, ...],
    build: Any,
    inputs: tuple[Any, ...],
    weights: dict[str, Any],
    finite: bool = False,
) -> Any:
    """What the changed steps give.

    Besides the steps' own names, a change can use the vocabulary, `torch`, `F`, `math`, `build`, and `roles`: the
    weights by role, where one is not among the parameters of the steps.

    Args:
        finite: with a finite number in place of infinity.

    Raises:
        whatever the changed code raises, such as `RuntimeError` for shapes that do not fit.
    """
    names: dict[str, Any] = {**_known(steps), **bound(steps, build, inputs, weights), "build": build, "roles": weights}
    if finite:
        names["INF"] = vocabulary.FINITE
    for line in _program(steps, changes):
        for axis in line.needs.difference(names):
            tensor, place = _axes(steps).get(axis, ("", 0))
            if tensor:
                names[axis] = names[tensor].size(place)
        names[line.name] = eval(line.code, names)
    return names[RESULT]


def values(
    steps: Steps, called: Mapping[str, str], build: Any, inputs: tuple[Any, ...], weights: dict[str, Any]
) -> dict[str, Any]:
    """The values of some of the steps, by what `called` says that each is called, such as "scores": "the scores"."""
    change = f"return {', '.join(called)},"
    return dict(zip(called.values(), run(steps, (change,), build, inputs, weights), strict=True))


def replaced(change: str) -> frozenset[str]:
    """The names of the steps that a change writes; `return` is the result."""
    return frozenset(line.name for line in _written(change))


def clash(first: str, second: str) -> bool:
    """Whether two changes put something in the place of the same step."""
    names, other_names = (
        {line.name for line in _written(change) if line.name not in line.needs} for change in (first, second)
    )
    return not names.isdisjoint(other_names)


def names(steps: Steps) -> frozenset[str]:
    """The names of the steps, that of the result among them."""
    return frozenset(line.name for line in _lines(_source(steps)))


def is_infinite(steps: Steps) -> bool:
    """Whether infinity stands in one of the steps."""
    return any("INF" in line.needs for line in _lines(_source(steps)))


@functools.cache
def check(steps: Steps, change: str) -> None:
    """Refuse a change that cannot be meant, as one in which a name is misspelt.

    Raises:
        SyntaxError: it is not written as steps, or no step uses one of its own.
        NameError: a step uses what there is not.
    """
    lines, given = _program(steps, (change,)), inspect.signature(steps).parameters
    there = f"there are {', '.join([*given, *(line.name for line in _lines(_source(steps)))])}"
    own = {line.name for line in _written(change)} - names(steps) - given.keys()
    known = {*dir(builtins), *BESIDES, *steps.__globals__, *_axes(steps), *given, "build", "roles"}  # type: ignore[attr-defined]
    for i, line in enumerate(lines):
        if unknown := sorted(line.needs - known):
            raise NameError(f"{unknown[0]!r} in {line.name!r} is no step before that; {there}")
        if line.name in own and not any(line.name in later.needs for later in lines[i + 1 :]):
            raise SyntaxError(f"{line.name!r} is used by no step after it; {there}")
        known.add(line.name)


@dataclass(frozen=True)
class _Line:
    """One step: the name that it gives, what it is, and the names that it needs."""

    name: str
    code: CodeType
    needs: frozenset[str]


@functools.cache
def _source(steps: Steps) -> str:
    return textwrap.dedent(inspect.getsource(steps))


@functools.lru_cache(maxsize=4096)
def _program(steps: Steps, changes: tuple[str, ...]) -> tuple[_Line, ...]:
    """The steps with the changes made, one after the other."""
    lines = _lines(_source(steps))
    for change in changes:
        lines = _changed(lines, _written(change))
    return lines


@functools.cache
def _written(change: str) -> tuple[_Line, ...]:
    """The lines of a change."""
    return _lines("def changed():\n" + textwrap.indent(textwrap.dedent(change).strip(), "    "))


@functools.cache
def _axes(steps: Steps) -> dict[str, tuple[str, int]]:
    return axes_of(steps)


@functools.cache
def _known(steps: Steps) -> dict[str, Any]:
    return BESIDES | steps.__globals__  # type: ignore[attr-defined]


@functools.cache
def _lines(source: str) -> tuple[_Line, ...]:
    """The steps of a function, given as source."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    return tuple(_line(statement) for statement in definition.body if not isinstance(statement, ast.Expr))


def _line(statement: ast.stmt) -> _Line:
    match statement:
        case ast.Return(value=ast.expr() as value):
            name = RESULT
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            raise SyntaxError(f"a step is `name = …` or `return …`, not `{ast.unparse(statement)}`")
    nodes = [*ast.walk(value)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    needs = frozenset(read - bound - {node.arg for node in nodes if isinstance(node, ast.arg)})
    return _Line(name, compile(ast.Expression(value), f"<{name}>", "eval"), needs)


def _changed(lines: tuple[_Line, ...], change: tuple[_Line, ...]) -> tuple[_Line, ...]:
    """`lines` with each of `change` where it belongs."""
    kept, waiting = list(lines), list[_Line]()
    for line in change:
        places = [i for i, step in enumerate(kept) if step.name == line.name]
        if places and line.name in line.needs:
            kept.insert(places[-1] + 1, line)
        elif places:
            kept[places[0] : places[0] + 1] = [*waiting, line]
            waiting = []
        else:
            waiting.append(line)
    for line in reversed(waiting):
        place = next((i for i, step in enumerate(kept) if line.name in step.needs), None)
        if place is None:
            raise SyntaxError(f"{line.name!r} is used by no step of the right answer")
        kept.insert(place, line)
    return tuple(kept)
