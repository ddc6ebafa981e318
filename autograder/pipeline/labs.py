"""Makes the students' labs/ from solutions/, with nbgrader, and compares the two."""

import ast
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat

from autograder.course import Course, course_of
from autograder.pipeline.cells import checked_name, is_check
from autograder.pipeline.course import STATE, Failed, nbgrader, state
from autograder.pipeline.files import replacing
from autograder.pipeline.integrity import RELEASED, cell_print, earlier_prints
from autograder.pipeline.journal import digest

MADE = f"{STATE}/made.json"  # in the course folder: of what in solutions/ each lab was made; "" until it is
CONVERTED = re.compile(r"Converting notebook .*/([^/]+)/[^/]+\.ipynb")  # what nbgrader logs as it begins with one


def names(course: Path) -> list[str]:
    """The labs that solutions/ has."""
    return sorted(path.parent.name for path in (course / "solutions").glob("*/*.ipynb"))


def chosen(course: Path, labs: list[str]) -> list[str]:
    """These labs; all that solutions/ has if none is named.

    Raises:
        Failed: one that solutions/ does not have.
    """
    known = names(course)
    if unknown := sorted(set(labs) - set(known)):
        raise Failed(f"There is no lab {unknown[0]}; there are {', '.join(known)}.")
    return labs or known


def generate(
    course: Path, labs: list[str], about: Course | None = None, say: Callable[[str], None] = lambda line: None
) -> None:
    """Make labs/ from solutions/ in `course`, and tell its gradebook about them.

    Args:
        course: a folder with solutions/ and nbgrader_config.py.
        labs: some of `names`.
        about: the course whose exercises the labs check; that which the folder belongs to if None.
        say: called with a line as each lab begins, and before what takes seconds.

    Raises:
        Failed: a check that cannot be judged, or nbgrader's refusal.
    """
    about = about or course_of(course)
    say("Reading the checks in solutions/ ...")
    sources = [path for lab in labs for path in sorted((course / "solutions" / lab).glob("*.ipynb"))]
    for path in sources:
        _refuse_unjudgeable(path, about)
    # nbgrader takes one lab or a pattern; starting it takes longer than making a lab.
    say("Starting nbgrader ...")
    log = _progress(labs, say)
    prints = {lab: {*earlier_prints(course, lab), *_prints(course, lab)} for lab in names(course)}
    made = _made(course)
    _note(course, made | dict.fromkeys(labs, ""))
    for lab in ["*"] if labs == names(course) else labs:
        how = ("--force", f"--CourseDirectory.root={course}")
        if nbgrader(course, "generate_assignment", lab, *how, quiet=True, about=about, log=log):
            _note(course, made)  # which it refuses to change
            raise Failed(f"nbgrader could not make labs/{lab}; what it said stands above.")
    if about.stored:
        tidy = about.function(about.stored)
        for path in (path for lab in labs for path in (course / "labs" / lab).rglob("*.ipynb")):
            path.write_text(tidy(path.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")

    for path in sources:
        for sentence in unsaid_points(path):
            say(f"{path.parent.name}: {sentence}")
    kept = {lab: sorted({*before, *_prints(course, lab)}) for lab, before in prints.items()}
    (course / RELEASED).write_text(json.dumps(kept), encoding="utf-8")
    _note(course, made | {lab: _digest(course, lab) for lab in labs})


def unsaid_points(path: Path) -> list[str]:
    """Points that a lab's text and its graded cells do not agree on, as sentences, if the text names any at all.

    The numbered questions of a cell may share its points as they like.
    """
    cells = nbformat.read(path, as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    lines = [line for line in prose.splitlines() if not re.match(r"\s*\d+\. ", line)]
    named = {float(number): line for line in lines for number in re.findall(r"\b(\d+(?:\.\d+)?) points?\b", line)}
    given = {
        about.grade_id: about.points for cell in cells if (about := cell.metadata.get("nbgrader", {})).get("points")
    }
    known = {*given.values(), sum(given.values())}
    missing = [
        f"the cell {name!r} gives {points:g} points, and the lab's text does not say so."
        for name, points in given.items()
        if named and points not in named
    ]
    return missing + [
        f"its text speaks of {points:g} points, which no graded cell gives, nor all together: {line.strip()[:80]!r}"
        for points, line in named.items()
        if points not in known
    ]


def changed(course: Path, labs: list[str]) -> list[str]:
    """Those of some labs whose folder in solutions/ is another one since labs/ was made from it here."""
    made = _made(course)
    return [lab for lab in labs if made.get(lab) and made[lab] != _digest(course, lab)]


def broken_off(course: Path, lab: str) -> bool:
    """Whether the making of a lab began, and did not end: the gradebook may know some of its cells only."""
    return _made(course).get(lab) == ""


def _note(course: Path, made: dict[str, str]) -> None:
    state(course)
    with replacing(course / MADE) as part:
        part.write_text(json.dumps(made), encoding="utf-8")


def _made(course: Path) -> dict[str, str]:
    try:
        return json.loads((course / MADE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _digest(course: Path, lab: str) -> str:
    """A hash of a lab's folder in solutions/."""
    files = _files(course / "solutions" / lab)
    return digest({path.as_posix(): digest(data) for path, data in files.items()})


def _prints(course: Path, lab: str) -> set[str]:
    """The prints of a lab's cells as students get them now."""
    cells = [
        cell
        for path in (course / "labs" / lab).glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if "nbgrader" in cell.metadata
    ]
    return {cell_print(cell) for cell in cells}


def _progress(labs: list[str], say: Callable[[str], None]) -> Callable[[str], None]:
    """What takes nbgrader's log, line by line, and says which lab begins, and after some how long the rest may take."""
    begun: dict[str, float] = {}

    def log(line: str) -> None:
        converted = CONVERTED.search(line)
        if not converted or converted[1] in begun or converted[1] not in labs:
            return
        now = time.monotonic()
        pace = (now - next(iter(begun.values()))) / len(begun) if begun else 0.0  # seconds a lab
        rest = f", about {pace * (len(labs) - len(begun)):.0f} s left" if begun else ""
        begun[converted[1]] = now
        say(f"{converted[1]}: {len(begun)} of {len(labs)}{rest}")

    return log


def differing(course: Path, say: Callable[[str], None] = lambda line: None) -> list[str]:
    """The labs in labs/ that are not what solutions/ gives: other files, other bytes, one too many or too few.

    `say` is called as in `generate`.
    """
    with tempfile.TemporaryDirectory(prefix="autograder-labs-") as folder:
        scratch = Path(folder)
        shutil.copytree(course / "solutions", scratch / "solutions", ignore=shutil.ignore_patterns(".*"))
        shutil.copy(course / "nbgrader_config.py", scratch)
        if (course / "jupyter").is_dir():
            shutil.copytree(course / "jupyter", scratch / "jupyter")
        generate(scratch, names(scratch), course_of(course), say)
        say("Comparing what was made with labs/ ...")
        made, kept = _files(scratch / "labs"), _files(course / "labs")
    found = sorted({path.parts[0] for path in made.keys() | kept.keys() if made.get(path) != kept.get(path)})
    if not found:
        say("labs/ is what solutions/ gives.")
    return found


def _files(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _refuse_unjudgeable(path: Path, course: Course) -> None:
    """Raise `Failed` if a graded cell calls `check` in a form that the grader would not judge."""
    for cell in nbformat.read(path, as_version=4).cells:
        if not is_check(cell):
            continue
        where = f"{path}, cell {cell.metadata.nbgrader.grade_id}"
        if name := checked_name(cell):
            try:
                course.find(name)
            except LookupError as unknown:
                raise Failed(f"{where}: {unknown}.") from None
        elif any(isinstance(node, ast.Name) and node.id == "check" for node in ast.walk(ast.parse(cell.source))):
            raise Failed(f"{where}: a graded check stands alone in its cell, as check(Name).")
