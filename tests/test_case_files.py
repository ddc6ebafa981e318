"""Lab 8 hands out broken programs: students get them as they are meant, and nothing is earned by leaving them so."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from autograder.pipeline.release import ClearSolutions
from autograder.verdict import Verdict
from tests.answers import found

REPOSITORY = Path(__file__).resolve().parents[1]
NOTEBOOK = Path("lab08_case_files", "case_files.ipynb")
# What each program comes with: the mistake that shows, and the one that hides behind it.
SLIPS = {
    "sequence_loss": ("not_shifted", "divided_by_all"),
    "train_one_pass": ("piled_up", "divided_again"),
    "masked_attention": ("future_seen", "on_queries"),
    "embed_tokens": ("by_batch", "x_twice"),
    "letters_right": ("answers_read", "filler_counted"),
}
GIVEN = ("setup", "add-positions", *(name.replace("_", "-") for name in SLIPS))


def programs(folder: str) -> dict:
    """The names that a notebook of solutions/ or labs/ defines in its given code and its five programs."""
    cells = {cell.id: cell.source for cell in nbformat.read(REPOSITORY / folder / NOTEBOOK, as_version=4).cells}
    names: dict = {}
    for cell in GIVEN:
        exec(cells[cell], names)
    return names


def judged(name: str, program, seed: int) -> Verdict:
    return judge(find(name), lambda request: probe.answer(request, program), seed)


def cleared(source: str) -> str:
    """What a solution cell becomes."""
    about = {"grade": False, "grade_id": "a", "locked": False, "schema_version": 3, "solution": True, "task": False}
    cell = new_code_cell(source, metadata={"nbgrader": about})
    return ClearSolutions().preprocess_cell(cell, {"language": "python"}, 0)[0].source


@pytest.mark.parametrize("name", SLIPS)
def test_a_program_as_it_is_given_earns_nothing_and_both_of_its_slips_are_recognised(name: str) -> None:
    program = programs("labs")[name]
    for seed in range(5):
        verdict = judged(name, program, seed)
        assert verdict.score == 0, verdict.text()
        assert {mistake.key for mistake in verdict.mistakes} == set(SLIPS[name]), verdict.text()


@pytest.mark.parametrize("name", SLIPS)
def test_a_program_that_is_mended_earns_everything(name: str) -> None:
    program = programs("solutions")[name]
    for seed in range(5):
        assert judged(name, program, seed).score == 1.0


@pytest.mark.parametrize(("name", "left"), [(name, slip) for name, slips in SLIPS.items() for slip in slips])
def test_a_program_that_is_half_mended_earns_about_half(name: str, left: str) -> None:
    halves = [answer for exercise, answer in found("wrong") if exercise == name and answer.mistakes == (left,)]
    assert halves
    for answer in halves:
        verdict = judged(name, answer, 0)
        assert 0.4 <= verdict.score <= 0.6, verdict.text()


def test_students_get_the_program_that_a_solution_names() -> None:
    source = """\
def mean(values):
    ### BEGIN SOLUTION
    return sum(values) / len(values)
    ### STUDENTS GET
    # total = 0  # so far
    # for value in values:
    #     total = value
    #
    # return total
    ### END SOLUTION


def other():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION"""
    wanted = """\
def mean(values):
    total = 0  # so far
    for value in values:
        total = value

    return total


def other():
    # YOUR CODE HERE
    raise NotImplementedError()"""
    assert cleared(source) == wanted


def test_a_solution_without_a_program_becomes_the_stub_even_where_one_with_it_follows() -> None:
    plain = "### BEGIN SOLUTION\na = 1\n### END SOLUTION\n"
    source = f"{plain}### BEGIN SOLUTION\nb = 1\n### STUDENTS GET\n# b = 2\n### END SOLUTION"
    assert cleared(source) == "# YOUR CODE HERE\nraise NotImplementedError()\nb = 2"


@pytest.mark.parametrize("given", ["", "b = 2\n", "# b = 2\nc = 3\n"])
def test_a_mark_without_comments_after_it_is_refused(given: str) -> None:
    with pytest.raises(RuntimeError, match="STUDENTS GET"):
        cleared(f"### BEGIN SOLUTION\nb = 1\n### STUDENTS GET\n{given}### END SOLUTION")
