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
from typing import Any

from IPython.display import HTML, Javascript, display
from jupyterquiz import display_quiz

# Dark enough to read on JupyterLab's light theme, light enough on its dark one.
LOOK = {
    "--jq-multiple-choice-bg": "#35506b",
    "--jq-text-color": "#ffffff",
    "--jq-mc-button-bg": "#ffffff",
    "--jq-mc-button-border": "#8a8a8a",
    "--jq-correct-color": "#0a8060",
    "--jq-incorrect-color": "#c44d00",
}
FOCUS = "<style>.MCButton:focus-within { outline: 3px solid #56b4e9 }</style>"
# JupyterLab's MathJax has no `typeset`; jupyterquiz would then fetch another MathJax from the network. It gets one
# whenever it is looked at: a reopened notebook shows its questions while JupyterLab still loads its MathJax.
# And keys pressed in a question (arrows choose an answer) are the question's, not the notebook's; Escape goes back to
# the notebook, and Shift+Enter goes on to the next cell as everywhere.
SETTLE = """
if (!Object.getOwnPropertyDescriptor(window, "MathJax")?.get) {
    let mathjax = window.MathJax;
    const get = () => {
        if (mathjax && !Object.hasOwn(mathjax, "typeset")) mathjax.typeset = () => {};
        return mathjax;
    };
    Object.defineProperty(window, "MathJax", { configurable: true, get, set: (other) => { mathjax = other; } });
}
setTimeout(() => {  // once JupyterLab has put the output into the page
    element.closest(".jp-OutputArea")?.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" && !(event.key === "Enter" && event.shiftKey)) event.stopPropagation();
    });
});
"""


def ask(text: str) -> None:
    """Show a multiple-choice question whose every answer explains itself when it is picked.

    Args:
        text: the question; then each answer, on a line that starts with `+ ` (right) or `- ` (wrong), and under it,
            indented, the explanation.

    Raises:
        ValueError: see `parse`.
    """
    question = parse(text)
    display(HTML(FOCUS), Javascript(SETTLE))
    display_quiz([question], shuffle_answers=False, max_width=760, colors=LOOK)


def parse(text: str) -> dict[str, Any]:
    """`text` as jupyterquiz wants it.

    Raises:
        ValueError: an answer lacks its explanation, or not exactly one answer is right.
    """
    question: list[str] = []
    answers: list[dict[str, Any]] = []
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
