"""A wrong answer as the lines of the right one that it has otherwise.

A mistake says in its `change` which steps of the exercise's right answer (`Exercise.steps`) it writes in another way:

    deviation = variance + eps

replaces the step of that name. A name that the steps do not have is a step more, before the next that is replaced;
`return …` replaces the result. Mistakes that replace different steps can be made together.
"""

import ast
import functools
import inspect
import math
import textwrap
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from autograder.diagnosis import vocabulary
from autograder.diagnosis.dataflow import axes_of, bound

RESULT = "return"
Steps = Callable[..., Any]


def run(steps: Steps, changes: tuple[str, ...], build: Any, inputs: tuple[Any, ...], weights: dict[str, Any]) -> Any:
    """What the changed steps give.

    Besides the steps' own names, a change can use the vocabulary, `torch`, `F`, `math`, `build`, and `roles`: the
    weights by role, where one is not among the parameters of the steps.

    Raises:
        whatever the changed code raises, such as `RuntimeError` for shapes that do not fit.
    """
    given = bound(steps, build, inputs, weights)
    return _compiled(steps, changes)(**given, build=build, roles=weights)


def replaced(change: str) -> frozenset[str]:
    """The names of the steps that a change writes; `return` is the result."""
    return frozenset(_target(statement) for statement in ast.parse(_inside(change)).body[0].body)  # type: ignore[attr-defined]


def names(steps: Steps) -> frozenset[str]:
    """The names of all steps, the result among them."""
    return frozenset(_target(statement) for statement in _body(_definition(steps)))


def _inside(change: str) -> str:
    return "def changed():\n" + textwrap.indent(textwrap.dedent(change).strip(), "    ")


def _definition(steps: Steps) -> ast.FunctionDef:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(steps))).body
    assert isinstance(definition, ast.FunctionDef)
    return definition


def _body(definition: ast.FunctionDef) -> list[ast.stmt]:
    """The statements after the docstring."""
    return [statement for statement in definition.body if not isinstance(statement, ast.Expr)]


def _target(statement: ast.stmt) -> str:
    match statement:
        case ast.Return():
            return RESULT
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            raise SyntaxError(f"a step is `name = …` or `return …`, not `{ast.unparse(statement)}`")


@functools.lru_cache(maxsize=4096)
def _compiled(steps: Steps, changes: tuple[str, ...]) -> Steps:
    definition = _definition(steps)
    body = _body(definition)
    for change in changes:
        body = _changed(body, ast.parse(_inside(change)).body[0].body)  # type: ignore[attr-defined]
    known = set(inspect.signature(steps).parameters)
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    sizes = {name: size for name, size in axes_of(steps).items() if name in used - known}
    lead = [ast.parse(f"{name} = {tensor}.size({place})").body[0] for name, (tensor, place) in sizes.items()]
    arguments = [ast.arg(name) for name in (*inspect.signature(steps).parameters, "build", "roles")]
    definition.body, definition.returns, definition.decorator_list = [*lead, *body], None, []
    definition.args = ast.arguments(
        posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[], vararg=None, kwarg=None
    )
    module = ast.fix_missing_locations(ast.Module([definition], []))
    space: dict[str, Any] = {**vocabulary.FUNCTIONS, "INF": vocabulary.INF, "torch": torch, "F": F, "math": math}
    space |= steps.__globals__  # type: ignore[attr-defined]
    exec(compile(module, f"<{steps.__name__}, changed>", "exec"), space)
    return space[definition.name]


def _changed(body: list[ast.stmt], lines: list[ast.stmt]) -> list[ast.stmt]:
    """`body` with each of `lines` in place of the step of that name, or before the next of them that has one."""
    body, names = list(body), [_target(statement) for statement in body]
    waiting: list[ast.stmt] = []
    for line in lines:
        if _target(line) not in names:
            waiting.append(line)
            continue
        place = names.index(_target(line))
        body[place : place + 1] = [*waiting, line]
        names[place : place + 1] = [*map(_target, waiting), names[place]]
        waiting = []
    if waiting:
        raise SyntaxError(f"{_target(waiting[0])!r} is followed by no step of the right answer, so nothing uses it")
    return body
