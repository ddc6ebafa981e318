"""labs/ is what solutions/ gives, and tells no answer."""

import re
from pathlib import Path

import nbformat
import pytest

from autograder.exercises import EXERCISES
from autograder.pipeline import labs
from autograder.pipeline.course import Failed
from autograder.pipeline.execute import checked_name

REPOSITORY = Path(__file__).resolve().parents[1]
SECRETS = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END (?:SOLUTION|HIDDEN TESTS)", re.DOTALL)
NOTEBOOKS = sorted((REPOSITORY / "solutions").glob("*/*.ipynb"))


def cells(path: Path) -> list[nbformat.NotebookNode]:
    return nbformat.read(path, as_version=4).cells


def secrets(path: Path) -> list[str]:
    """What of a source notebook a student must not see: each solution, hidden test and model answer."""
    found = []
    for cell in cells(path):
        about = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "markdown" and about.get("solution"):
            found.append(cell.source)
        found += SECRETS.findall(cell.source)
    return [text.strip() for text in found]


def test_labs_are_what_solutions_give() -> None:
    assert labs.differing(REPOSITORY) == [], "run `make labs`"


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_answer_is_released(source: Path) -> None:
    released = REPOSITORY / "labs" / source.parent.name / source.name
    text = "\n".join(cell.source for cell in cells(released))
    assert secrets(source), "a lab without a solution would make this test empty"
    given = "\n".join(SECRETS.sub("", cell.source) for cell in cells(source))
    for secret in secrets(source):  # a short one may also stand in code that is given
        assert secret not in text or text.count(secret) == given.count(secret)
    assert "BEGIN SOLUTION" not in text
    assert "BEGIN HIDDEN" not in text


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_check_can_be_judged(source: Path) -> None:
    names = [name for cell in cells(source) if (name := checked_name(cell))]
    assert names
    assert set(names) <= EXERCISES.keys()


def test_a_check_that_would_not_be_judged_is_refused(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    check = next(cell for cell in notebook.cells if checked_name(cell))
    check.source = f"assert {check.source}.passed"
    folder = tmp_path / "solutions" / "lab"
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / "lab.ipynb")
    with pytest.raises(Failed, match="stands alone"):
        labs.generate(tmp_path, ["lab"])


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_shares_of_the_points_are_stated_before_the_student_starts(source: Path) -> None:
    released = cells(REPOSITORY / "labs" / source.parent.name / source.name)
    for place, cell in enumerate(released):
        if name := checked_name(cell):
            before = "\n".join(earlier.source for earlier in released[:place])
            for criterion in EXERCISES[name].criteria:
                assert f"| {criterion.share:.0%} | {criterion.title} |" in before
