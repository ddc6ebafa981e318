"""Self-check questions in a lecture: written as plain text, shown by jupyterquiz, offline and never graded.

    ask('''
    How many rows of weights does one head give for 6 tokens?
    + 6
      One row for each query, and every token is a query.
    - 36
      That is the number of weights: 6 rows of 6.
    ''')
"""

import textwrap

from jupyterquiz import display_quiz

LOOK = {
    "--jq-multiple-choice-bg": "#f1f1f1",
    "--jq-text-color": "#222222",
    "--jq-mc-button-bg": "#ffffff",
    "--jq-mc-button-border": "#8a8a8a",
    "--jq-correct-color": "#9fd9c4",
    "--jq-incorrect-color": "#f3c1a0",
}


def ask(text: str) -> None:
    """Show a multiple-choice question whose every answer explains itself when it is picked.

    Args:
        text: the question; then each answer, on a line that starts with `+ ` (right) or `- ` (wrong), and under it,
            indented, the explanation.

    Raises:
        ValueError: see `parse`.
    """
    display_quiz([parse(text)], shuffle_answers=False, max_width=760, colors=LOOK)


def parse(text: str) -> dict:
    """`text` as jupyterquiz wants it.

    Raises:
        ValueError: an answer lacks its explanation, or not exactly one answer is right.
    """
    question: list[str] = []
    answers: list[dict] = []
    for line in textwrap.dedent(text).strip().splitlines():
        if line.startswith(("+ ", "- ")):
            answers.append({"answer": line[2:].strip(), "correct": line[0] == "+", "feedback": ""})
        elif answers and line.startswith("  "):
            answers[-1]["feedback"] = f"{answers[-1]['feedback']} {line.strip()}".strip()
        else:
            question.append(line.strip())
    for answer in answers:
        if not answer["feedback"]:
            raise ValueError(f"the answer {answer['answer']!r} has no explanation: write it below, indented")
    right = sum(answer["correct"] for answer in answers)
    if right != 1:
        raise ValueError(f"{right} answers start with '+'; exactly one must be right: {' '.join(question)!r}")
    return {"type": "multiple_choice", "question": " ".join(question), "answers": answers, "answer_cols": 1}
