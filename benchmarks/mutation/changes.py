"""Small changes of a program: every one that this file knows, one at a time, without two that read the same."""

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.Lambda
Put = Callable[[ast.AST], None]  # puts another node into a node's place

OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
STRINGS = {
    "mean": ("sum", "none"),
    "sum": ("mean", "none"),
    "none": ("mean", "sum"),
    "inf": ("-inf",),
    "-inf": ("inf",),
}
PAIRS = (
    "sum mean|max min|amax amin|argmax argmin|sin cos|zeros ones|zeros_like ones_like|triu tril|any all|var std|"
    "sqrt square|rsqrt sqrt|gelu relu|GELU ReLU|softmax log_softmax|float32 float64|float double|cat stack|eq ne|"
    "gt ge|lt le|squeeze unsqueeze|cumsum cumprod|min_ max_|logical_and logical_or|randn zeros|maximum minimum"
)
TWINS: dict[str, set[str]] = {}
for _pair in PAIRS.split("|"):
    _one, _other = _pair.split()
    TWINS.setdefault(_one, set()).add(_other)
    TWINS.setdefault(_other, set()).add(_one)
LARGE = 1000.0  # a number above is also tried as 100 and 10: a fill that is not large enough


@dataclass(frozen=True)
class Change:
    """One change of a definition.

    Attributes:
        kind: what was done, such as "operator".
        line: of the original, where it was done.
        code: the whole definition after it, as `ast.unparse` writes it.
    """

    kind: str
    line: int
    code: str


def changes(definition: ast.stmt) -> list[Change]:
    """Every change of a function or class, in the order of its lines; those that read the same only once."""
    tree = copy.deepcopy(definition)
    seen = {ast.unparse(tree)}
    found = []
    for kind, line, put, original, replacement in _all(tree):
        put(replacement)
        code = ast.unparse(ast.fix_missing_locations(tree))
        put(original)
        if code not in seen:
            seen.add(code)
            found.append(Change(kind, line, code))
    return found


def _all(tree: ast.stmt) -> Iterator[tuple[str, int, Put, ast.AST, ast.AST]]:
    """(kind, line, put, original, replacement) of each; the tree may change between two, and is put back."""
    for place in list(_places(tree, _Scope())):
        line = getattr(place.node, "lineno", place.line)
        for kind, replacement in _replacements(place):
            yield kind, line, place.put, place.node, replacement


@dataclass(frozen=True)
class _Scope:
    """Names that a place may use: local ones, and attributes of the object."""

    names: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """A node, how another is put in its place, and what stands around it."""

    node: ast.AST
    put: Put
    parent: ast.AST
    field: str
    scope: _Scope
    line: int


def _places(parent: ast.AST, scope: _Scope) -> Iterator[_Place]:
    """All places below a node, those that say nothing left out: docstrings, prints, assertions, types, decorators."""
    if isinstance(parent, ast.ClassDef):
        scope = _Scope(scope.names, _attributes(parent))
    if isinstance(parent, Function):
        scope = _Scope(tuple(dict.fromkeys((*scope.names, *_locals(parent)))), scope.attributes)
    for field, value in ast.iter_fields(parent):
        if field in ("decorator_list", "annotation", "returns", "bases", "targets", "target", "type_params"):
            continue
        items = value if isinstance(value, list) else [value]
        for at, node in enumerate(items):
            if not isinstance(node, ast.AST) or _says_nothing(node):
                continue

            def put(other: ast.AST, at: int = at, field: str = field, value: object = value) -> None:
                if isinstance(value, list):
                    value[at] = other
                else:
                    setattr(parent, field, other)

            yield _Place(node, put, parent, field, scope, getattr(parent, "lineno", 0))
            yield from _places(node, scope)


def _says_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Pass | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    printed = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
    return printed or isinstance(value, ast.Constant)


def _locals(function: Function) -> list[str]:
    """Arguments and assigned names in the order in which they are bound; not `self`."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.arg != "self"]
    inside = function.body if isinstance(function.body, list) else [function.body]
    for node in (node for statement in inside for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return [name for name in dict.fromkeys(names) if name != "_"]


def _attributes(definition: ast.ClassDef) -> tuple[str, ...]:
    """Names that are assigned to the object anywhere in a class."""
    return tuple(
        dict.fromkeys(
            node.attr
            for node in ast.walk(definition)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
        )
    )


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


# --- What may stand in place of a node ---------------------------------------------------------------------------


def _replacements(place: _Place) -> Iterator[tuple[str, ast.AST]]:
    node = place.node
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    if (place.field == "test" and isinstance(node, ast.expr)) or place.field == "ifs":
        assert isinstance(node, ast.expr)
        yield "condition", ast.UnaryOp(ast.Not(), node)
        yield "condition", ast.Constant(True)
        yield "condition", ast.Constant(False)
    if isinstance(node, ast.Constant):
        negative = isinstance(place.parent, ast.UnaryOp) and isinstance(place.parent.op, ast.USub)
        if not negative:  # -1 is changed as a whole
            yield from _of_constant(node.value)
    elif isinstance(node, ast.UnaryOp):
        yield from _of_unary(node)
    elif isinstance(node, ast.BinOp):
        for operator in OPERATORS.get(type(node.op), ()):
            yield "operator", ast.BinOp(node.left, operator(), node.right)
        yield "operand", node.left
        yield "operand", node.right
    elif isinstance(node, ast.BoolOp):
        yield "operator", ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        for value in node.values:
            yield "operand", value
    elif isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield "comparison", ast.Compare(node.left, _with(node.ops, at, other()), node.comparators)
    elif isinstance(node, ast.IfExp):
        yield "condition", node.body
        yield "condition", node.orelse
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Slice):
        yield from _of_slice(node)
    elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        for swapped in _swapped(node.elts):
            yield "order", type(node)(swapped, ast.Load())
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and place.field != "func":
        for name in _others(node.id, place.scope.names):
            yield "name", ast.Name(name, ast.Load())
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        if _is_self(node.value):
            for name in _others(node.attr, place.scope.attributes):
                yield "name", ast.Attribute(node.value, name, ast.Load())
        for name in sorted(TWINS.get(node.attr, ())):
            yield "function", ast.Attribute(node.value, name, ast.Load())
        if node.attr in ("T", "mT"):
            yield "call", node.value
        if node.attr.endswith("_") and not node.attr.startswith("_"):
            yield "function", ast.Attribute(node.value, node.attr[:-1], ast.Load())  # no longer in place


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return
    yield "statement", ast.Pass()
    if isinstance(node, ast.AugAssign):
        for operator in OPERATORS.get(type(node.op), ()):
            yield "operator", ast.AugAssign(node.target, operator(), node.value)
        yield "operator", ast.Assign([node.target], node.value, lineno=node.lineno)


def _of_constant(value: object) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(value, bool):
        yield "boolean", ast.Constant(not value)
    elif isinstance(value, int | float):
        for number in _numbers(value):
            yield "number", _number(number)
    elif isinstance(value, str):
        for other in (*STRINGS.get(value, ()), *_patterns(value)):
            yield "string", ast.Constant(other)


def _of_unary(node: ast.UnaryOp) -> Iterator[tuple[str, ast.AST]]:
    operand = node.operand
    if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant) and isinstance(operand.value, int | float):
        for number in (*_numbers(-operand.value), operand.value):
            yield "number", _number(number)
    else:
        yield "operator", operand


def _numbers(value: float) -> list[float]:
    """Other numbers near one; of a fraction, tenfold and a tenth."""
    if isinstance(value, int):
        near: list[float] = [value + 1, value - 1]
    else:
        near = [value + 1, value - 1, 10 * value, value / 10] if value else [1.0]
    if abs(value) >= LARGE:
        near += [100.0, 10.0] if value > 0 else [-100.0, -10.0]
    return near


def _number(value: float) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _patterns(text: str) -> Iterator[str]:
    """An einsum or einops pattern with two neighbouring axes exchanged."""
    if "->" not in text:
        return
    spaced = " " in text
    for match in re.finditer(r"(\w+)(\)? \(?)(\w+)" if spaced else r"(?=(\w)()(\w))", text):
        one, between, other = match.groups()
        start = match.start(1)
        yield text[:start] + other + between + one + text[start + len(one + between + other) :]


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield "call", node.args[0]
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Call | ast.Name):
        yield "call", node.func.value
    elif isinstance(node.func, ast.Attribute):
        called = node.func.value
        module = isinstance(called, ast.Name) and called.id in ("torch", "nn", "np", "F", "math", "self")
        if not module:
            yield "call", called
    for swapped in _swapped(node.args):
        yield "order", ast.Call(node.func, swapped, node.keywords)
    if node.args:
        yield "argument", ast.Call(node.func, node.args[:-1], node.keywords)
    for at in range(len(node.keywords)):
        yield "keyword", ast.Call(node.func, node.args, node.keywords[:at] + node.keywords[at + 1 :])


def _of_slice(node: ast.Slice) -> Iterator[tuple[str, ast.AST]]:
    def with_bounds(**other: ast.expr | None) -> ast.Slice:
        bounds = {"lower": node.lower, "upper": node.upper, "step": node.step} | other
        return ast.Slice(bounds["lower"], bounds["upper"], bounds["step"])

    if node.lower is None and node.upper is not None:
        yield "slice", with_bounds(lower=ast.Constant(1))
    for bound, value in (("lower", node.lower), ("upper", node.upper), ("step", node.step)):
        if value is None:
            continue
        yield "slice", with_bounds(**{bound: None})
        if not isinstance(value, ast.Constant | ast.UnaryOp):
            for operator in (ast.Add(), ast.Sub()):
                yield "slice", with_bounds(**{bound: ast.BinOp(value, operator, ast.Constant(1))})


def _swapped(items: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """With two neighbours exchanged."""
    for at in range(len(items) - 1):
        yield [*items[:at], items[at + 1], items[at], *items[at + 2 :]]


def _with(items: list, at: int, other: object) -> list:
    return [*items[:at], other, *items[at + 1 :]]


def _others(name: str, names: tuple[str, ...]) -> Iterator[str]:
    """The names bound right before and after this one; all would be too many."""
    if name in names and len(names) > 1:
        at = names.index(name)
        yield from {names[at - 1]: None, names[(at + 1) % len(names)]: None}
