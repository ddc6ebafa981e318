"""Self-check questions: what is written is what is asked, and a half-written question is refused."""

import ast
from pathlib import Path

import nbformat
import pytest

from headroom.quiz import parse

LECTURES = sorted((Path(__file__).resolve().parents[1] / "lectures").glob("*.ipynb"))
# Of each lecture's questions, which answer is right, counted from 1: worked out without a look at the marks. Whoever
# adds or turns a question works out its answer here once more.
KEY = {
    "00": "3 1 2 1 2 2",
    "01": "2 2 2 2 2",
    "02": "2 1 2 2",
    "03": "3 2 2 3 1 2",
    "04": "3 3 1 2 3",
    "05": "3 2 2 2",
    "06": "2 2 3 3 2 3",
    "07": "3 3 4 2 3",
    "08": "1 3 3 3",
    "09": "2 2 3 2",
    "10": "3 2 3 2",
    "11": "3 2 2 3 3 2",
    "12": "2 2 2 3 3 2",
    "13": "2 2 3 2",
    "14": "2 3 2",
}
QUESTION = """
How many rows of weights
for 6 tokens?
+ 6
  One for each query,
  and every token is one.
- 36
  That is the number of weights.
"""


def test_a_question_keeps_its_words_and_every_answer_its_explanation():
    parsed = parse(QUESTION)
    assert parsed["question"] == "How many rows of weights for 6 tokens?"
    assert [(a["answer"], a["correct"], a["feedback"]) for a in parsed["answers"]] == [
        ("6", True, "One for each query, and every token is one."),
        ("36", False, "That is the number of weights."),
    ]


def test_an_answer_without_explanation_is_refused():
    with pytest.raises(ValueError, match="'36' has no explanation"):
        parse(QUESTION.replace("  That is the number of weights.\n", ""))


@pytest.mark.parametrize("changed", [QUESTION.replace("+ 6", "- 6"), QUESTION.replace("- 36", "+ 36")])
def test_exactly_one_answer_is_right(changed):
    with pytest.raises(ValueError, match="exactly one must be right"):
        parse(changed)


@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.name[:2])
def test_the_answer_that_a_lecture_marks_is_the_right_one(path):
    asked = [
        call.args[0]
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and "ask(" in cell.source
        for call in ast.walk(ast.parse(cell.source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ask"
    ]
    answers = [[answer["correct"] for answer in parse(ast.literal_eval(text))["answers"]] for text in asked]
    assert " ".join(str(1 + correct.index(True)) for correct in answers) == KEY[path.name[:2]]
