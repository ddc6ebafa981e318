"""Attacks as files, handed in between honest submissions and graded with them in one round."""

import ast
import csv
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.pipeline import grading
from autograder.pipeline.cells import checked_name
from tests.pages import words
from tests.redteam import machine

REPOSITORY = Path(__file__).resolve().parents[2]
ATTACKS = Path(__file__).parent / "attacks"
LAB, NOTEBOOK = "lab04_layer_norm", "layer_norm"
SHORT = """
c.JudgedExecute.timeout = 4
c.JudgedExecute.total_timeout = 30.0
c.JudgedExecute.max_restarts = 2
"""
# What must not get into anything that a student or another instructor sees.
SECRETS = {
    "environment": "sk-9d1f6a7be5f04c61",
    "home": "MIIBOgIBAAJBAKj34GkxFhD9",
    "solution": "the instructors' own remark 5c21e0",
    "neighbour": "what another student thinks 8b07d4",
}
NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
STOLEN = "STOLEN"  # what an attack prints when it succeeds, from two halves, so that its source does not hold it


def lab_in(folder: str) -> NotebookNode:
    """The lab, as it stands in solutions/ or in labs/."""
    return nbformat.read(REPOSITORY / folder / LAB / f"{NOTEBOOK}.ipynb", as_version=4)


def _cells() -> dict[str, str]:
    """The exercise that each answer cell holds, by the cell's id: the one that the next check names."""
    found, answer = {}, ""
    for cell in lab_in("solutions").cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("solution") and not about.get("grade"):
            answer = cell.id
        elif name := checked_name(cell):
            found[answer] = name
    return found


CELLS = _cells()


def answers(folder: str) -> dict[str, str]:
    """The source of each cell that students fill in, as it stands in solutions/ or in labs/, without its marks."""
    sources = {CELLS[cell.id]: cell.source for cell in lab_in(folder).cells if cell.id in CELLS}
    return {name: re.sub(r"^ *### (BEGIN|END) SOLUTION\n?", "", text, flags=re.M) for name, text in sources.items()}


ANSWERS = {"right": answers("solutions"), "wrong": answers("labs")}
HONEST = {
    "a_honest_right": ({}, 15.0),
    "f_honest_half": ({"rms-norm": None}, 10.0),
    "n_honest_wrong": (
        {"layer-norm": (REPOSITORY / "tests/classroom" / LAB / "ben.py").read_text(encoding="utf-8")},
        11.0,  # tests/classroom/expected.toml: 6 of 10 for the unbiased variance
    ),
    "zz_honest_untouched": ({"layer-norm": None, "rms-norm": None}, 0.0),
}


@dataclass
class Attack:
    """One file of attacks/.

    Args:
        name: also the student's.
        what: one sentence.
        score: what it honestly earned.
        says: phrases of the feedback page.
        noted: phrases of the note for the instructor.
        also: "user" where an ordinary user grades it too, "quick" where it stands for its class, and so does for that
            user too, "disk" where Landlock alone does not stop it.
        cells: source by cell id; where there is none for an answer, the right one is handed in.
        code: `change(notebook, cells)` and `write(folder, path)`, for what a cell cannot do.
    """

    name: str
    what: str
    score: float | None = None
    says: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    also: set[str] = field(default_factory=set)
    cells: dict[str, str] = field(default_factory=dict)
    code: dict[str, Any] = field(default_factory=dict)


def attack(path: Path) -> Attack:
    """Read one file of attacks/."""
    header, *cells = re.split(r"^# %% (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = ast.get_docstring(ast.parse(header), clean=True).splitlines()
    found = Attack(path.stem, lines[0])
    for line in lines[1:]:
        key, _, value = line.partition(": ")
        if key == "score":
            found.score = float(value)
        elif key in ("says", "noted"):
            getattr(found, key).append(value)
        elif key == "also":
            found.also |= set(value.split())
        elif line.strip():
            raise ValueError(f"{path.name}: {line!r}")
    for name, source in zip(cells[::2], cells[1::2], strict=True):
        if name == "hand in":
            exec(compile(source, str(path), "exec"), found.code)
        else:
            found.cells[name] = re.sub(r"^# (right|wrong) (\w+)\n", _answer, source, flags=re.MULTILINE)
    return found


def _answer(match: re.Match) -> str:
    return ANSWERS[match[1]][match[2]].strip() + "\n"


def attacks() -> list[Attack]:
    return [attack(path) for path in sorted(ATTACKS.glob("*.py"))]


def sample(attacks: list[Attack]) -> list[Attack]:
    """One attack of each class, the first word of its name: those that say `also: quick`."""
    found = [attack for attack in attacks if "quick" in attack.also]
    classes = [attack.name.split("_")[0] for attack in found]
    if sorted(classes) != sorted({attack.name.split("_")[0] for attack in attacks}):
        raise ValueError(f"one attack of each class says `also: quick`, and not these: {classes}")
    return found


def make_course(folder: Path, config: str = SHORT) -> Path:
    """A course folder that holds lab 4 only, with a home folder beside it; its gradebook and labs are to be made."""
    course = folder / "course"
    shutil.copytree(REPOSITORY / "solutions" / LAB, course / "solutions" / LAB, ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(REPOSITORY / "jupyter", course / "jupyter", ignore=shutil.ignore_patterns(".*"))
    lesson = (REPOSITORY / "nbgrader_config.py").read_text(encoding="utf-8")
    (course / "nbgrader_config.py").write_text(lesson + config, encoding="utf-8")
    path = course / "solutions" / LAB / f"{NOTEBOOK}.ipynb"
    text = path.read_text(encoding="utf-8")
    mark = '"    ### BEGIN SOLUTION\\n",\n'
    marked = text.replace("### BEGIN SOLUTION", f'### BEGIN SOLUTION\\n",\n    "        # {SECRETS["solution"]}')
    assert marked != text, mark
    path.write_text(marked, encoding="utf-8")
    home = folder / "home"
    for name in (".ssh/id_rsa", ".netrc", ".config/gh/hosts.yml", ".jupyter/token"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRETS["home"])
    return course


def environment(course: Path) -> dict[str, str]:
    """What the grader is started with: a home folder of its own, and a secret."""
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "CI", "PYTHONPATH")}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(course.parent / "home"),
        "OMP_NUM_THREADS": "1",
        "HEADROOM_TEST_SECRET": SECRETS["environment"],
        "GITHUB_TOKEN": SECRETS["environment"],
    }


def released() -> NotebookNode:
    """Lab 4 as students get it."""
    return lab_in("labs")


def hand_in(course: Path, student: str, cells: dict[str, str | None], code: dict[str, Any] | None = None) -> None:
    """Put a submission into submitted/.

    Args:
        cells: source by cell id; None leaves a cell as it was released.
        code: `change` and `write` of an attack.
    """
    notebook = released()
    place = {cell.id: cell for cell in notebook.cells}
    for name, source in ({name: ANSWERS["right"][answer] for name, answer in CELLS.items()} | cells).items():
        if source is not None:
            place[name].source = source.strip("\n")
    code = code or {}
    if "change" in code:
        notebook = code["change"](notebook, place) or notebook
    folder = course / "submitted" / student / LAB
    folder.mkdir(parents=True)
    path = folder / f"{NOTEBOOK}.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8", errors="surrogatepass")
    if "write" in code:
        code["write"](folder, path)


def hand_in_honest(course: Path) -> None:
    for student, (cells, _) in HONEST.items():
        more = {"scratch": f"# {SECRETS['neighbour']}\n"} if student.startswith("f") else {}
        hand_in(course, student, {**cells, **more})


def grade(
    course: Path,
    user: int = 0,
    variables: dict[str, str] | None = None,
    command: list[str] | None = None,
    **more: Any,
) -> list[machine.Left]:
    """Grade what was handed in, as a user; the test is skipped where students' code cannot be isolated.

    Args:
        command: in place of the usual one.
    """
    command = command or [sys.executable, "-m", "autograder", "grade"]
    left = machine.run(command, course, environment(course) | (variables or {}), user, **more)
    if refused := re.search(r"cannot be isolated here: (.*?)\. To run it", log(course)):
        pytest.skip(refused[1])
    return left


def log(course: Path, round_: int = 0) -> str:
    """What a round said in the terminal, and after it what the graders of all rounds logged."""
    files = (course.parent / f"{course.name}-log-{round_}.txt", course / grading.LOG)
    return "".join(one.read_text(encoding="utf-8", errors="replace") for one in files if one.exists())


def scores(course: Path) -> dict[str, float]:
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file) if row["score"]}


def pages(course: Path, student: str) -> str:
    """All feedback pages of a student."""
    found = sorted((course / "feedback" / student / LAB).glob("*.html"))
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


def graded(course: Path, student: str) -> list[NotebookNode]:
    found = sorted((course / "autograded" / student / LAB).glob("*.ipynb"))
    return [nbformat.read(path, as_version=4) for path in found]


def note(course: Path, student: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (course / "integrity" / LAB).glob(f"{student}-*.md"))


def outputs(notebook: NotebookNode) -> str:
    """All that the cells of a notebook show."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(map(str, shown))


def verdicts(course: Path, student: str) -> list[str]:
    """What the checks say, without the numbers, which are drawn afresh for each check."""
    texts = [
        cell.outputs[0].data["text/plain"]
        for notebook in graded(course, student)
        for cell in notebook.cells
        if checked_name(cell)
    ]
    return [NUMBER.sub("#", text) for text in texts]


def page_without_numbers(course: Path, student: str) -> str:
    return NUMBER.sub("#", words(pages(course, student)))
