"""Self-check questions: what is written is what is asked, and a half-written question is refused."""

import pytest

from headroom.quiz import parse

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
