"""Makes the students' labs/ from solutions/, with nbgrader, and compares the two."""

import ast
import shutil
import tempfile
from pathlib import Path

import nbformat

from autograder.exercises import find
from autograder.pipeline.course import Failed, nbgrader
from autograder.pipeline.execute import checked_name
from headroom.notebooks import clean_files


def names(course: Path) -> list[str]:
    """The labs that solutions/ has."""
    return sorted(path.parent.name for path in (course / "solutions").glob("*/*.ipynb"))


def generate(course: Path, labs: list[str]) -> None:
    """Make labs/ from solutions/ in `course`, and tell its gradebook about them.

    Raises:
        Failed: a check that cannot be judged, or nbgrader's refusal.
    """
    for lab in labs:
        for path in sorted((course / "solutions" / lab).glob("*.ipynb")):
            _refuse_unjudgeable(path)
    # nbgrader takes one lab or a pattern; starting it takes longer than making a lab.
    for lab in ["*"] if labs == names(course) else labs:
        if nbgrader(course, "generate_assignment", lab, "--force", f"--CourseDirectory.root={course}", quiet=True):
            raise Failed(f"nbgrader could not make labs/{lab}; what it said stands above.")
    for lab in labs:
        clean_files((course / "labs" / lab).rglob("*.ipynb"))


def differing(course: Path) -> list[str]:
    """The labs in labs/ that are not what solutions/ gives: other files, other bytes, one too many or too few."""
    with tempfile.TemporaryDirectory(prefix="headroom-labs-") as folder:
        scratch = Path(folder)
        shutil.copytree(course / "solutions", scratch / "solutions", ignore=shutil.ignore_patterns(".*"))
        shutil.copy(course / "nbgrader_config.py", scratch)
        shutil.copytree(course / "jupyter", scratch / "jupyter")
        generate(scratch, names(scratch))
        made, kept = _files(scratch / "labs"), _files(course / "labs")
    return sorted({path.parts[0] for path in made.keys() | kept.keys() if made.get(path) != kept.get(path)})


def _files(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _refuse_unjudgeable(path: Path) -> None:
    """Raise `Failed` if a graded cell calls `check` in a form that the grader would not judge."""
    for cell in nbformat.read(path, as_version=4).cells:
        about = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code" or not about.get("grade") or about.get("solution"):
            continue
        if name := checked_name(cell):
            find(name)
        elif any(isinstance(node, ast.Name) and node.id == "check" for node in ast.walk(ast.parse(cell.source))):
            raise Failed(f"{path}, cell {about['grade_id']}: a graded check stands alone in its cell, as check(Name).")
