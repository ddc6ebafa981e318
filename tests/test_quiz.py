"""Self-check questions: what is written is what is asked, and a half-written question is refused."""

import ast
from pathlib import Path

import nbformat
import pytest

from headroom import quiz
from headroom.quiz import parse
from tests.test_figures import luminance
from tests.test_widgets import in_node

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


def test_a_question_is_shown_with_its_answers_in_their_order_and_colours_that_can_be_read(monkeypatch):
    shown, asked = [], []
    monkeypatch.setattr(quiz, "display", lambda *all_: shown.extend(type(one).__name__ for one in all_))
    monkeypatch.setattr(quiz, "display_quiz", lambda questions, **options: asked.append((questions, options)))
    quiz.ask(QUESTION)
    [([question], options)] = asked
    assert question == parse(QUESTION) and question["type"] == "multiple_choice" and question["answer_cols"] == 1
    assert options["shuffle_answers"] is False, "what an explanation says of the one above stays true"
    assert options["colors"] is quiz.LOOK and shown == ["HTML", "Javascript"]

    def contrast(one, other):
        light, dark = sorted((luminance(quiz.LOOK[f"--jq-{name}"]) for name in (one, other)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    for behind in ("multiple-choice-bg", "correct-color", "incorrect-color"):
        assert contrast("text-color", behind) >= 4.5, behind
    assert len({quiz.LOOK[f"--jq-{name}"] for name in ("correct-color", "incorrect-color", "mc-button-bg")}) == 3
    assert ":focus-within" in quiz.FOCUS


KEYS = """
    const listeners = [];
    globalThis.window = {};
    const output = { addEventListener: (on, call) => listeners.push([on, call]) };
    const element = { closest: (which) => which === ".jp-OutputArea" && output };
    %s
    await new Promise((done) => setTimeout(done, 5));
    const [[on, call]] = listeners;
    const stays = ([key, shiftKey]) => {
        let stopped = false;
        call({ key, shiftKey, stopPropagation() { stopped = true; } });
        return stopped;
    };
    window.MathJax = { version: "JupyterLab's" };
    const own = typeof window.MathJax.typeset;
    window.MathJax = { typeset: () => "kept" };
    const pressed = [["ArrowDown"], ["Enter"], ["b"], ["Escape"], ["Enter", true]].map(stays);
    export default [on, pressed, own, window.MathJax.typeset()];
"""


def test_a_questions_keys_are_its_own_and_no_other_mathjax_is_fetched():
    assert in_node(KEYS % quiz.SETTLE) == ["keydown", [True, True, True, False, False], "function", "kept"]
