"""Hand-ins that are nearly the same: a hint for a human, and no proof of anything.

Code is compared as its syntax tree is, without comments, docstrings, type hints, and the names that its author chose.
What remains is cut into overlapping pieces, and pieces count that few have: neither what the lab gives nor what its
model answer says, nor what many of the class write. This is how MOSS compares (Schleimer, Wilkerson and Aiken 2003,
"Winnowing"), with nodes of the tree in place of characters. Nothing is run.
"""

import ast
import itertools
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

LONGEST = 50_000  # characters of a cell that are looked at
PIECE = 8  # nodes of the tree in a piece: about a statement
ENOUGH = 30  # unusual pieces that both must have: less is too little to compare
ALIKE = 0.7  # share of the unusual pieces of the longer of two hand-ins that the other has, too
MANY = 10  # hand-ins that have a piece, at most, for it to count as unusual; in a small class
FEW, PART = 3, 0.2  # a fifth of them, but no fewer than three
WHOLE = "the whole lab"

Pieces = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Group:
    """Hand-ins that are nearly the same.

    Attributes:
        what: the cell, or `WHOLE`.
        students: two or more, sorted.
        likeness: the lowest share of unusual pieces that two who are alike share, of the longer one, from 0 to 1.
        pieces: the smallest number of unusual pieces among them.
    """

    what: str
    students: tuple[str, ...]
    likeness: float
    pieces: int


def alike(cells: Mapping[str, Mapping[str, str]], given: Iterable[Mapping[str, str]]) -> list[Group]:
    """Find hand-ins to one lab that are nearly the same, as a whole or in a cell; the likest first.

    Args:
        cells: for each student, the text of each cell by its name.
        given: the same of the lab as it is released, and of its model answer.
    """
    known = {name: Pieces().union(*(pieces(of.get(name, "")) for of in given)) for name in _names(cells)}
    known_anywhere = Pieces().union(*known.values())
    unusual: dict[str, dict[str, set[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(set))
    most = min(MANY, max(FEW, int(PART * len(cells))))
    for name in known:
        of = {student: pieces(own.get(name, "")) - known_anywhere for student, own in cells.items()}
        common = {piece for piece, n in Counter(itertools.chain(*of.values())).items() if n > most}
        for student, found in of.items():
            unusual[name][student] = {*found} - common
            unusual[WHOLE][student] |= {(name, *piece) for piece in unusual[name][student]}
    groups = _groups(WHOLE, unusual.pop(WHOLE, {}))
    covered = [set(group.students) for group in groups]
    for name, of in unusual.items():
        groups += [one for one in _groups(name, of) if not any(set(one.students) <= them for them in covered)]
    return sorted(groups, key=lambda group: (-group.likeness, -group.pieces, group.students))


def pieces(source: str) -> Pieces:
    """The overlapping pieces of a text of Python; none where it is no Python."""
    labels = list(_labels(source))
    return frozenset(tuple(labels[i : i + PIECE]) for i in range(len(labels) - PIECE + 1))


def _names(cells: Mapping[str, Mapping[str, str]]) -> list[str]:
    return sorted({name for own in cells.values() for name in own})


def _labels(source: str) -> Iterator[str]:
    """The nodes of a syntax tree, parents before children, without what its author could easily change."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the student's code
            tree = ast.parse(source[:LONGEST])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    own = _chosen(tree)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            continue
        if not isinstance(node, (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)):
            yield _label(node, own)
        hints = {id(hint) for hint in (getattr(node, "annotation", None), getattr(node, "returns", None)) if hint}
        waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in hints][::-1]


def _chosen(tree: ast.AST) -> set[str]:
    """The names that the author of a tree chose: of variables, arguments, functions, classes and attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def _label(node: ast.AST, own: set[str]) -> str:
    """A node's kind, with what its author did not choose: operators, numbers, and the names of others."""
    kind, said = type(node).__name__, ""
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.BoolOp)):
        said = type(node.op).__name__
    elif isinstance(node, ast.Compare):
        said = " ".join(type(op).__name__ for op in node.ops)
    elif isinstance(node, ast.Constant):
        # Attack: a whole number of thousands of digits, which Python refuses to write as decimals.
        number = hex(node.value) if isinstance(node.value, int) else repr(node.value)
        said = "" if isinstance(node.value, (str, bytes)) else number[:40]
    elif isinstance(node, ast.Name):
        said = node.id
    elif isinstance(node, ast.Attribute):
        said = node.attr
    elif isinstance(node, ast.keyword):
        said = node.arg or ""
    return f"{kind} {said}" if said and said not in own else kind


def _groups(what: str, unusual: Mapping[str, set[tuple[str, ...]]]) -> list[Group]:
    """Those who are alike, directly or by way of others."""
    having: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for student, found in sorted(unusual.items()):
        for piece in found if len(found) >= ENOUGH else ():
            having[piece].append(student)
    shared = Counter(pair for students in having.values() for pair in itertools.combinations(students, 2))
    links: dict[tuple[str, str], float] = {}
    for (one, other), n in shared.items():
        likeness = n / max(len(unusual[one]), len(unusual[other]))
        if likeness >= ALIKE:
            links[one, other] = likeness
    member: dict[str, set[str]] = {}
    for one, other in links:
        joined = member.get(one, {one}) | member.get(other, {other})
        member |= dict.fromkeys(joined, joined)
    groups: list[Group] = []
    for students in {tuple(sorted(group)) for group in member.values()}:
        likeness = min(value for pair, value in links.items() if pair[0] in students)
        groups.append(Group(what, students, likeness, min(len(unusual[one]) for one in students)))
    return groups
