"""Whatever ends the grader's work on one submission, and whatever a student's folder is called: nobody else notices.

The deaths are brought about in the grader itself, by a preprocessor that does what a notebook says: that is more than
any attack can do that is known.
"""

import csv
import os
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from tests.pages import words
from tests.redteam import arena
from tests.redteam.arena import HONEST

pytestmark = pytest.mark.full  # each grades a round

# In nbgrader's configuration: a preprocessor before the notebook is run, one after its scores are in the gradebook, and
# one when its page is made.
OBEYS = """
import os, signal, sys, time
from nbgrader.preprocessors import NbGraderPreprocessor

class Obeys(NbGraderPreprocessor):
    word = ""
    def preprocess(self, nb, resources):
        for cell in nb.cells:
            if self.word in cell.source:
                exec(cell.source.split(self.word)[1].splitlines()[0])
        return nb, resources

class Before(Obeys):
    word = "BEFORE IT RUNS: "

class After(Obeys):
    word = "AFTER IT RAN: "

c.Autograde.autograde_preprocessors.insert(1, Before)
class Shown(Obeys):
    word = "WHEN IT IS SHOWN: "

c.Autograde.autograde_preprocessors.append(After)
c.GenerateFeedback.preprocessors.append(Shown)
c.SubmissionExporter.grader_s = 5.0
c.JudgedExecute.total_timeout = 10.0
c.FeedbackExporter.page_s = 5.0
"""
NOTED = "try: open('/etc/shadow')\nexcept OSError: pass"
DEATHS = {
    "abort": ("os.abort()", "SIGABRT"),
    "killed": ("os.kill(os.getpid(), 9)", "SIGKILL"),
    "exit": ("os._exit(0)", "ended with status 0"),
    "quits": ("sys.exit(0)", "SystemExit"),
    "raises": ("{}['key']", "KeyError"),
    "encodes": ("'\\ud800'.encode()", "UnicodeEncodeError"),
    "memory": ("bytes(10**11)", "MemoryError"),
    "endless": ("while True: pass", "longer than"),
}


def test_whatever_ends_a_unit_costs_one_submission_at_most_what_was_not_judged_yet(tmp_path: Path) -> None:
    course = arena.make_course(tmp_path, arena.SHORT + OBEYS)
    arena.hand_in_honest(course)
    for name, (line, _) in DEATHS.items():
        arena.hand_in(course, f"early_{name}", {"scratch": f"# BEFORE IT RUNS: {line}"})
        arena.hand_in(course, f"late_{name}", {"scratch": f"{NOTED}\n# AFTER IT RAN: {line}"})
        arena.hand_in(course, f"shown_{name}", {"scratch": f"# WHEN IT IS SHOWN: {line}"})
    (left,) = arena.grade(course, seconds=1800)
    assert left.status == 0, arena.log(course)[-6000:]
    assert left.nothing(), left
    scores = arena.scores(course)
    assert {name: scores[name] for name in HONEST} == {name: score for name, (_, score) in HONEST.items()}
    for name, (_, said) in DEATHS.items():
        for when, score in (("early", 0.0), ("late", 15.0)):
            page = words(arena.pages(course, f"{when}_{name}"))
            assert "Grading was broken off" in page and said in page, page[:3000]
            assert scores[f"{when}_{name}"] == score
            note = arena.note(course, f"{when}_{name}")
            assert "was broken off" in note
            assert ("opened '/etc/shadow'" in note) == (when == "late"), note
        page = words(arena.pages(course, f"shown_{name}"))
        assert "This page is not whole" in page and said in page and "It shows the verdicts only." in page, page[:3000]
        assert scores[f"shown_{name}"] == 15.0 and "LayerNorm: all" in page
        assert "it was not judged: the grader" in words(arena.pages(course, f"early_{name}"))


USABLE = ('a,b"c', "=1+1", "@home", "-rf", "ünï 码", "it's", "a;b", "$(id)", "{x}", "100%", "a\\b", "~", "a.b")
USABLE += (66 * "码",)  # 198 bytes, and more with what a note's name adds
UNUSABLE = ("*", "[a]", "who?", "..evil", ".hidden", "two\nlines", "\x1b[2J", "x" * 150, 83 * "码")
NO_TEXT = b"\xff\xfe"


def test_names_of_students(tmp_path: Path) -> None:
    course = arena.make_course(tmp_path)
    arena.hand_in_honest(course)
    noted = {"write": lambda folder, path: (folder / "link").symlink_to(path)}
    for name in (*USABLE, *UNUSABLE, os.fsdecode(NO_TEXT)):
        arena.hand_in(course, name, {"rms-norm": None}, noted)
    folder = course / "submitted" / "misnamed" / arena.LAB
    folder.mkdir(parents=True)
    (folder / "mine.ipynb").write_text("{}")
    (left,) = arena.grade(course, seconds=1800)
    log = arena.log(course)
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    expected = {name: score for name, (_, score) in HONEST.items()} | dict.fromkeys(USABLE, 10.0)
    formulas = {name: f"'{name}" for name in USABLE if name[0] in "=@-"}
    assert {name: float(row["score"]) for name, row in rows.items() if row["score"]} == {
        formulas.get(name, name): score for name, score in expected.items()
    }
    others = [row for row in rows.values() if not row["score"]]
    assert len(others) == len(UNUSABLE) + 2
    assert all(row["status"] == "not graded" and row["score"] == "" for row in others)
    most = sum(cell.metadata.get("nbgrader", {}).get("points") or 0 for cell in arena.lab_in("solutions").cells)
    assert all(None not in row and float(row["max_score"]) == most for row in rows.values())
    assert left.status == 1  # the others are listed, each with what to do
    listed = [line for line in log.splitlines() if "NOT GRADED" in line]
    assert len(listed) == len(UNUSABLE) + 2
    assert [line for line in listed if "Rename it." not in line] == [
        f"{arena.LAB}  {'misnamed':24}  NOT GRADED. "
        f"There is 'mine.ipynb' in it: the file is to be called {arena.NOTEBOOK}.ipynb."
    ]
    assert "\x1b" not in log
    notes = (arena.note(course, name) for name in USABLE)
    assert all("is a link" in note for note in notes)
    assert left.nothing(), left
