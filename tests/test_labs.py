"""labs/ is what solutions/ gives, and tells no answer."""

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch.nn.functional import dropout

from autograder import probe
from autograder.course import Course, course_of
from autograder.exercises import EXERCISES
from autograder.judge import judge
from autograder.pipeline import grading, labs
from autograder.pipeline.cells import checked_name
from autograder.pipeline.course import Failed, nbgrader
from autograder.pipeline.integrity import earlier_prints
from headroom.reference import causal_mask, padding_mask
from tests import small_course
from tests.answers import found

REPOSITORY = Path(__file__).resolve().parents[1]
SECRETS = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END (?:SOLUTION|HIDDEN TESTS)", re.DOTALL)
NOTEBOOKS = sorted((REPOSITORY / "solutions").glob("*/*.ipynb"))
LECTURES = sorted((REPOSITORY / "lectures").glob("*.ipynb"))


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
    told = []
    assert labs.differing(REPOSITORY, told.append) == [], "run `make labs`"
    begun = [line.split(":")[0] for line in told if re.search(r": \d+ of \d+", line)]
    assert begun == labs.names(REPOSITORY), "a line as each lab begins"
    assert re.search(r"about \d+ s left$", told[-3]) and told[-1] == "labs/ is what solutions/ gives."


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_answer_is_released(source: Path) -> None:
    released = REPOSITORY / "labs" / source.parent.name / source.name
    text = "\n".join(cell.source for cell in cells(released))
    assert secrets(source), "a lab without a solution would make this test empty"
    given = "\n".join(SECRETS.sub("", cell.source) for cell in cells(source))
    for secret in secrets(source):  # a short one may also stand in code that is given
        assert secret not in text or text.count(secret) == given.count(secret)
    assert "BEGIN SOLUTION" not in text
    assert "BEGIN HIDDEN" not in text and "<!--" not in text


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


def test_a_check_of_an_exercise_that_there_is_not_is_refused(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    next(cell for cell in notebook.cells if checked_name(cell)).source = "check(NoSuchOne)"
    (tmp_path / "solutions" / "lab").mkdir(parents=True)
    nbformat.write(notebook, tmp_path / "solutions" / "lab" / "lab.ipynb")
    with pytest.raises(Failed, match=r"lab\.ipynb, cell .*: no exercise is called 'NoSuchOne'; there are"):
        labs.generate(tmp_path, ["lab"], course_of(REPOSITORY))


def test_a_lab_that_is_made_again_knows_the_cells_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Students may have any of them: what they hand in is then no change of theirs."""
    course = small_course.make(tmp_path, monkeypatch)
    path = course / "labs" / "lab1" / "first.ipynb"
    path.parent.mkdir(parents=True)
    prints: list[set[str]] = []
    for points in (4.0, 5.0, 6.0):
        about = {"grade_id": "check", "grade": True, "solution": False, "locked": True, "points": points}
        cell = nbformat.v4.new_code_cell("check(A)", metadata={"nbgrader": about | {"schema_version": 3}})

        def made(*_: Any, cell: nbformat.NotebookNode = cell, **__: Any) -> int:
            nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
            return 0

        monkeypatch.setattr(labs, "nbgrader", made)
        labs.generate(course, ["lab1"], Course(course, "exercises"))
        prints.append({*earlier_prints(course, "lab1")})
    assert [len(one) for one in prints] == [1, 2, 3] and prints[0] < prints[1] < prints[2]
    assert earlier_prints(course, "lab2") == []


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_shares_of_the_points_are_stated_before_the_student_starts(source: Path) -> None:
    released = cells(REPOSITORY / "labs" / source.parent.name / source.name)
    for place, cell in enumerate(released):
        if name := checked_name(cell):
            before = "\n".join(earlier.source for earlier in released[:place])
            for criterion in EXERCISES[name].criteria:
                assert f"| {criterion.share:.0%} | {criterion.title} |" in before


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lab_begins_with_the_points_that_there_are(source: Path) -> None:
    """All of them; `make labs` says where the text names no cell's own."""
    released = cells(REPOSITORY / "labs" / source.parent.name / source.name)
    graded = [about for cell in released if (about := cell.metadata.get("nbgrader", {})).get("grade")]
    said = re.findall(r"\b(\d+) points\b", released[0].source)
    assert [float(number) for number in said] == [sum(about.points for about in graded)]


SHAPE = re.compile(r"`\(([^()`]*)\)`")
MASKS = {"padding": padding_mask(torch.tensor([1, 2, 3]), 3)[0], "causal": causal_mask(3)}


@pytest.mark.parametrize("notebook", [*NOTEBOOKS, *LECTURES], ids=lambda path: path.stem)
def test_a_table_of_masks_gives_them_the_axes_that_they_have(notebook: Path) -> None:
    """Over the last two, queries and keys: what hides padding is alike for all queries, and so has a 1 there."""
    text = "\n".join(cell.source for cell in cells(notebook) if cell.cell_type == "markdown")
    for name, row in re.findall(r"^\| (padding|causal) \|(.*)$", text, re.MULTILINE):
        shapes = [[axis.strip() for axis in shape.split(",")][-2:] for shape in SHAPE.findall(row)]
        ones = [length == 1 for length in MASKS[name].shape[-2:]]
        assert shapes and all([axis == "1" for axis in shape] == ones for shape in shapes), row


# --- What a task demands -----------------------------------------------------------------------------------------

DEMAND = re.compile(r"\b(must|never|exactly|no|nobody may|nothing may)\b", re.IGNORECASE)
TIE = re.compile(r"<!-- (\w+): (\w+) -->")  # the criterion that checks a sentence, and an answer that breaks both
NOT_THE_TASK = re.compile(r"<details>.*?</details>|```.*?```|^#.*?$|^\|[^|\n]*\d%.*?$", re.DOTALL | re.MULTILINE)
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=-->)\s*|\n\n|\n(?=[-|])")


def demands(notebook: Path) -> Iterator[tuple[str, str]]:
    """(exercise, sentence) for all that demands something in a text that states the shares of an exercise."""
    texts: list[str] = []
    for cell in cells(notebook):
        if cell.cell_type == "markdown" and re.search(r"\|\s*\d+%\s*\|", cell.source):
            texts.append(NOT_THE_TASK.sub("", cell.source))
        if name := checked_name(cell):
            for sentence in (one for text in texts for one in SENTENCE.split(text)):
                if DEMAND.search(TIE.sub("", sentence)):
                    yield name, " ".join(sentence.split())
            texts = []


def breaking(exercise: str, name: str) -> type:
    """A wrong answer to an exercise, by its name; "dropout": the first right one, with dropout."""
    if name != "dropout":
        return next(answer for of, answer in found("wrong") if of == exercise and answer.__name__ == name)
    right = next(answer for of, answer in found("right") if of == exercise)
    return type(name, (right,), {"forward": lambda self, *x: dropout(right.forward(self, *x), 0.1, self.training)})


DEMANDED = [(source, *demand) for source in NOTEBOOKS for demand in demands(source)]


every_demand = pytest.mark.parametrize(
    ("source", "exercise", "sentence"), DEMANDED, ids=[f"{source.stem}-{n}" for n, (source, *_) in enumerate(DEMANDED)]
)


@every_demand
def test_what_a_task_demands_names_what_checks_it(source: Path, exercise: str, sentence: str) -> None:
    """Each such sentence is followed by its criterion and an answer that does otherwise."""
    ties = TIE.findall(sentence)
    assert ties, f"no comment names what checks this, as docs/adding-an-exercise.md asks in section 4: {sentence}"
    assert {key for key, _ in ties} <= {criterion.key for criterion in EXERCISES[exercise].criteria}
    assert all(breaking(exercise, name) for _, name in ties)


@pytest.mark.full
@every_demand
def test_what_a_task_demands_is_checked(source: Path, exercise: str, sentence: str) -> None:
    """An answer that does otherwise loses the criterion that is named."""
    for key, name in TIE.findall(sentence):
        answer = breaking(exercise, name)
        verdict = judge(EXERCISES[exercise], lambda request, answer=answer: probe.answer(request, answer), 0)
        (result,) = (r for c, r in zip(EXERCISES[exercise].criteria, verdict.results, strict=True) if c.key == key)
        assert not result.holds and not result.spared, verdict.text()


@pytest.mark.skipif(sys.platform == "win32", reason="a script stands in for Python")
def test_a_full_disk_is_called_so_where_nbgrader_advises_to_upgrade_the_gradebook(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'sqlite3.OperationalError: database or disk is full'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(Failed, match="is full: make room"):
        nbgrader(tmp_path, "generate_assignment", "*", quiet=True, about=course_of(REPOSITORY))


def test_a_lab_whose_making_was_broken_off_is_made_before_it_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradebook knows its notebook from the beginning, and its cells one after the other."""
    course = small_course.make(tmp_path, monkeypatch)
    small_course.hand_in(course, "ann")

    def killed(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(labs, "nbgrader", killed)
        with pytest.raises(KeyboardInterrupt):
            labs.generate(course, ["lab1"])
    for status, left_broken_off in ((1, True), (0, False)):
        asked: list[str] = []

        def made(*arguments: Any, asked: list[str] = asked, status: int = status, **_: Any) -> int:
            asked.append(arguments[2])
            return status

        monkeypatch.setattr(labs, "nbgrader", made)
        monkeypatch.setattr(grading, "_plans", lambda *_, asked=asked: asked.append("plans") or [])
        monkeypatch.setattr(grading, "_export", lambda *_: None)
        monkeypatch.setattr(grading.listing, "sum_up", lambda *_: None)
        with contextlib.suppress(Failed):
            grading.grade(course, [], workers=1)
        assert asked == (["lab1"] if status else ["lab1", "plans"])
        assert labs.broken_off(course, "lab1") == left_broken_off
    monkeypatch.setattr(labs, "nbgrader", lambda *_, **__: 1)
    with pytest.raises(Failed, match="could not make labs/lab1"):
        labs.generate(course, ["lab1"])
    assert not labs.broken_off(course, "lab1"), "nbgrader refuses before it changes anything"
