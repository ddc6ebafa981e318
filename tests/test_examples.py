"""The second course: the engine grades what it knows only by configuration, in a notebook, by nbgrader, isolated."""

import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell
from torch import Tensor
from traitlets.config import Config

from autograder import check, diagnosis, probe
from autograder.__main__ import main
from autograder.course import INSTALLED, NoCourse, collected, course_of
from autograder.diagnosis.vocabulary import mean, total
from autograder.exercise import Exercise
from autograder.judge import judge
from autograder.pipeline.cells import checked_name
from autograder.pipeline.execute import JudgedExecute
from autograder.quick import question
from autograder.verdict import Verdict
from headroom import notebooks

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "examples"
LABS = sorted((EXAMPLES / "solutions").glob("*/*.ipynb"))
PAGE = (REPOSITORY / "docs" / "another-course.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COURSE = course_of(EXAMPLES)


def judged(exercise: Exercise, answer: Callable, seed: int | None = 0) -> Verdict:
    return judge(exercise, lambda request: probe.answer(request, answer), seed)


def copied(folder: Path) -> Path:
    """A copy of the course outside the repository."""
    return shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__", ".ipynb*"))


# --- Exercises by configuration --------------------------------------------------------------------------------------


def test_each_folder_has_the_exercises_of_its_own_course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    monkeypatch.chdir(EXAMPLES / "solutions" / "lab1_softmax")
    assert check(softmax).passed
    monkeypatch.chdir(REPOSITORY / "labs")
    with pytest.raises(LookupError, match=r"no exercise is called 'softmax'; there are .*LayerNorm"):
        check(softmax)
    monkeypatch.chdir(tmp_path)
    assert course_of().folder == INSTALLED
    monkeypatch.setenv("AUTOGRADER_COURSE", str(EXAMPLES))
    assert check(softmax).passed


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "does not say in which module"),
        ('exercise = "questions"', "has no key 'exercise'; there are exercises, importable"),
        ('exercises = "questions"', "names 'questions', which is not there"),
        ('exercises = "exercises"\nimportable = "plots.py"', "importable is to be a list"),
        ('exercises = "probe"', "'probe' of .* is hidden by .* a name of its own"),
        ('exercises = "twice"', "two exercises of twice are called 'softmax'"),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, said: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.autograder]\n{table}\n")
    (tmp_path / "probe.py").touch()
    monkeypatch.setitem(sys.modules, "probe", probe)  # another module of that name, imported before
    again = "from dataclasses import replace\nSOFTMAX_2 = replace(SOFTMAX)\n"
    (tmp_path / "twice.py").write_text((EXAMPLES / "exercises.py").read_text(encoding="utf-8") + again)
    with pytest.raises(NoCourse, match=said):
        course_of(tmp_path).find("softmax")


def test_what_is_handed_in_names_no_course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The course is that of the round; a submission's pyproject.toml would be code that the grader runs."""
    handed_in = tmp_path / "autograded" / "eve" / "lab"
    handed_in.mkdir(parents=True)
    (handed_in / "pyproject.toml").write_text('[tool.autograder]\nexercises = "stolen"\n')
    monkeypatch.chdir(REPOSITORY)
    execute = JudgedExecute(config=Config(CourseDirectory={"root": str(EXAMPLES)}))
    execute.resources = {"metadata": {"path": str(handed_in)}}
    assert execute.graded_course == COURSE
    assert JudgedExecute().graded_course == course_of(REPOSITORY)


# --- The two labs ----------------------------------------------------------------------------------------------------


def first_axis(x):
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def overflowing(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def flipped(image, kernel):
    rows, columns = kernel.shape
    places = np.indices((image.shape[0] - rows + 1, image.shape[1] - columns + 1)).reshape(2, -1).T
    sums = [(image[i : i + rows, j : j + columns] * np.flip(kernel)).sum() for i, j in places]
    return np.reshape(sums, (image.shape[0] - rows + 1, -1))


@pytest.mark.parametrize(
    ("name", "answer", "score", "key"),
    [
        ("softmax", first_axis, 0.4, "first_axis"),
        ("softmax", overflowing, 0.8, "not_shifted"),
        ("convolve", flipped, 0.3, "flipped"),
        ("standardise", lambda image: (image - image.mean()) / image.std(ddof=1), 0.2, diagnosis.KEY),
    ],
)
def test_wrong_answers_are_told_what_is_wrong(name: str, answer: Callable, score: float, key: str) -> None:
    verdict = judged(COURSE.find(name), answer)
    assert [mistake.key for mistake in verdict.mistakes] == [key], verdict.text()
    assert verdict.score == pytest.approx(score)


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_the_solutions_are_right(path: Path) -> None:
    """As they stand in their notebooks; the full half runs these as well."""
    space: dict[str, Any] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if name := checked_name(cell):
            assert judged(COURSE.find(name), space[name]).passed
            assert cell.metadata.nbgrader.locked and cell.metadata.nbgrader.points > 0
        elif cell.cell_type == "code":
            exec(cell.source, space)


def test_every_exercise_is_checked_in_one_lab_and_its_shares_add_up() -> None:
    cells = [cell for path in LABS for cell in nbformat.read(path, as_version=4).cells]
    checked = sorted(name for cell in cells if (name := checked_name(cell)))
    assert checked == sorted(collected(COURSE.module()))
    for name in checked:
        exercise = COURSE.find(name)
        keys, costs = {criterion.key for criterion in exercise.criteria}, [m.costs for m in exercise.mistakes]
        assert sum(criterion.share for criterion in exercise.criteria) == pytest.approx(1)
        assert {case.tag for case in exercise.tried(np.random.default_rng(0))} <= keys
        assert {key for cost in costs for key in cost} <= keys


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_the_shares_are_stated_and_the_notebook_is_stored_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert notebooks.clean(text) == text
    cells = nbformat.reads(text, as_version=4).cells
    names = [name for cell in cells if (name := checked_name(cell))]
    assert names
    for name in names:
        for criterion in COURSE.find(name).criteria:
            assert f"| {criterion.share:.0%} | {criterion.title} |" in "\n".join(cell.source for cell in cells)


@pytest.mark.full
@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_the_solutions_pass_in_their_notebooks(
    path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):  # which the command sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    assert main(["check", str(path)]) == 0
    assert re.search(r"\n(\d+) of \1 points\.", capsys.readouterr().out)


@pytest.mark.full
@pytest.mark.parametrize("isolated", [True, False])
def test_nbgrader_grades_it(tmp_path: Path, isolated: bool) -> None:
    """Ada is right in lab 2 and looks for the exercises; Ben hands in what he got."""
    course = copied(tmp_path)
    run(course, "labs")
    for student, source in (("ada", "solutions"), ("ben", "labs")):
        shutil.copytree(course / source / "lab2_convolution", course / "submitted" / student / "lab2_convolution")
    path = course / "submitted" / "ada" / "lab2_convolution" / "convolution.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(
        2, new_code_cell(f"import os\nprint('there', os.path.exists({str(course)!r} + '/exercises.py'))")
    )
    nbformat.write(notebook, path)
    said = run(course, "grade", *([] if isolated else ["--no-isolation"]))
    if isolated and "--no-isolation" in said:
        pytest.skip("there is no sandbox here")
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == {"ada": 15.0, "ben": 0.0}, said[-3000:]
    graded = nbformat.read(course / "autograded" / "ada" / "lab2_convolution" / "convolution.ipynb", as_version=4)
    assert f"there {not isolated}" in str([cell.get("outputs") for cell in graded.cells])
    assert "not attempted" in (course / "feedback" / "ben" / "lab2_convolution" / "convolution.html").read_text("utf-8")


def run(course: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autograder", *arguments], cwd=course, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


# --- A question in few lines -----------------------------------------------------------------------------------------


@question((np.array([1.0, 2.0, 4.0]),), lambda rng: (rng.normal(size=7),))
def spread(x):
    """The largest number less the smallest."""
    return x.max() - x.min()


@question((torch.tensor([[1.0, -2.0], [0.5, 3.0]]), 2), lambda rng: (torch.from_numpy(rng.normal(size=(3, 4))), 3))
def cubes(x, exponent):
    """A tensor of powers, and their sum."""
    return x**exponent, (x**exponent).sum()


def test_a_question_is_its_right_answer_and_cases():
    assert judged(spread, lambda x: np.ptp(x)).passed
    assert judged(spread, lambda x: float(np.ptp(x))).passed  # a number of Python's own, too
    assert judged(spread, lambda x: x.max()).score == pytest.approx(0.2)
    only_shown = judged(spread, lambda x: np.float64(3.0))
    assert "1 of 2 cases" in only_shown.headline and only_shown.difference is None
    assert (
        "it returns a list of 1 (float); it should return the largest number" in judged(spread, lambda x: [3.0]).text()
    )


def test_a_question_sees_an_argument_that_is_changed():
    def sorting(x):
        x.sort()
        return x[-1] - x[0]

    verdict = judged(spread, sorting)
    assert verdict.score == pytest.approx(0.9) and "the input is changed by the call" in verdict.text()


def test_a_question_in_torch_compares_gradients():
    assert judged(cubes, lambda x, n: (x.pow(n), x.pow(n).sum())).passed
    verdict = judged(cubes, lambda x, n: (x.pow(n), x.detach().pow(n).sum()))
    assert verdict.score == pytest.approx(0.9) and "the gradient of `x` is missing" in verdict.text()


def test_a_question_takes_any_other_field_of_an_exercise():
    made = question((np.ones(3),), name="length", seconds=2.0)(np.linalg.norm)
    assert (made.name, made.seconds, made.library) == ("length", 2.0, "numpy")


def test_the_shares_of_a_question_are_those_that_its_page_names():
    shares = [{one.key: one.share for one in of.criteria} for of in (spread, cubes)]
    assert shares[0] == {"shape": 0.1, "values": 0.8, "contract": 0.1}
    assert shares[1] == {"shape": 0.1, "values": 0.7, "gradients": 0.1, "contract": 0.1}
    whole = question((torch.tensor([1, 2]),))(counted)
    assert "gradients" not in {one.key for one in whole.criteria}, "whole numbers have none"


def counted(x):
    """A tensor of whole numbers."""
    return x + 1


@pytest.mark.parametrize(
    ("given", "kind"), [(np.float32(2), float), (np.ones(2, np.float32), "float64"), (np.ones(2, np.uint8), "int64")]
)
def test_a_question_is_asked_in_numbers_that_can_cross(given, kind):
    (case,) = question((given,))(twice).cases(np.random.default_rng(0))
    assert case.visible and case.inputs[0].dtype == kind if isinstance(kind, str) else type(case.inputs[0]) is kind


def twice(x):
    """An array of doubles."""
    return np.multiply(x, 2)


def test_what_a_question_shows_are_tuples_and_what_it_draws_it_hides():
    (shown, hidden) = spread.cases(np.random.default_rng(0))
    assert (shown.visible, shown.label) == (True, "case 1: x of shape (3,)") and not hidden.visible
    assert not np.array_equal(hidden.inputs[0], spread.cases(np.random.default_rng(1))[1].inputs[0])


def without_words(x):
    return x


def numpy_in_search(x: Tensor, /) -> Tensor:
    """A tensor."""
    return np.exp(x)  # pyright: ignore[reportReturnType]


def no_slash(x: Tensor) -> Tensor:
    """A tensor."""
    return total(x, -1) / mean(x, -1)


def text(x):
    """A text."""
    return "x"


@pytest.mark.parametrize(
    ("function", "cases", "search", "said"),
    [
        (without_words, [(np.ones(2),)], False, "needs a docstring"),
        (spread, [], False, "needs a case"),
        (twice, [(np.ones(2), 1)], False, "case 1 does not fit twice: too many positional arguments"),
        (twice, [({"a": 1},)], False, "an argument may be an array, a tensor, a number, a string, a list of these"),
        (text, [(np.ones(2),)], False, r"gives no array, tensor or number for case 1: x of shape \(2,\)"),
        (no_slash, [np.ones(2)], False, "a case is a tuple of arguments, as in .x,.; this is ndarray"),
        (no_slash, [(np.ones(2),)], True, "stands before a `/`"),
        (numpy_in_search, [(np.ones(2),)], True, "in the words of autograder.diagnosis.vocabulary only"),
    ],
)
def test_a_question_that_cannot_be_judged_is_refused_when_it_is_made(function, cases, search, said):
    with pytest.raises((TypeError, ValueError), match=said):
        question(*cases, search=search)(function)


# --- The page --------------------------------------------------------------------------------------------------------


def test_the_page_shows_nothing_that_is_not_run():
    assert {language for language, _ in BLOCKS} == {"sh", "python"}
    table = re.findall(r"`([a-z]+ = .*?)`", PAGE)
    assert table and all(tomllib.loads(line).keys() <= COURSE.__dataclass_fields__.keys() for line in table)


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="the page's commands are for a shell")
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "headroom").mkdir()
    copied(tmp_path / "headroom")
    script = ["set -e"]
    for language, block in BLOCKS:
        script.append(block if language == "sh" else f"cat >> exercises.py << 'EOF'\n\n\n{block}EOF")
    environment = os.environ | {"PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])}
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)],
        cwd=tmp_path / "headroom",
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if "--no-isolation" in done.stdout:
        pytest.skip("there is no sandbox here, and nothing is graded")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "10 of 10 points." in done.stdout
    assert "it returned a list of" in done.stdout
    assert "one less than the number of terms" in done.stdout
    assert re.search(r"lab1_softmax +ada +0\.00 of 10", done.stdout)
    assert (tmp_path / "my-course" / "grades.csv").exists()
