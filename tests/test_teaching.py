"""What a teacher does all term: due dates, penalties, extensions, rosters, and lists that say who stands where."""

import csv
import errno
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import Exchange
from traitlets.config import Config

from autograder.course import Course
from autograder.pipeline import grading, intake, labs, late, listing
from autograder.pipeline.course import Failed, exchange
from autograder.pipeline.grades import QuotedExport
from autograder.pipeline.intake import TakenIn
from autograder.pipeline.integrity import NOTED, UNREAD, Remark, SaveIntegrityNote
from autograder.pipeline.late import LatePolicy
from autograder.pipeline.plan import _decisive
from autograder.pipeline.standing import GRADED, IN_PART, NOT_GRADED, NOT_HANDED_IN, released, standings
from autograder.pipeline.submission import SubmissionExporter
from tests import small_course
from tests.small_course import DUE, book, due, give, hand_in

REPOSITORY = Path(__file__).resolve().parents[1]
HOUR, DAY = 3600, 86400


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def policy(**settings: Any) -> Config:
    return Config(LatePolicy=settings, AssignLatePenalties={"plugin_class": LatePolicy})


def scores(course: Path, config: Config) -> dict[str, float | None]:
    with book(course) as gradebook:
        late.renew(gradebook, config, course)
        return {one.student: one.score for one in standings(course, gradebook, "lab1")}


# --- Time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "seconds", "taken"),
    [
        ({}, 9 * DAY, None),
        ({"percent": 10}, 1, 1.0),
        ({"percent": 10}, DAY, 1.0),
        ({"percent": 10}, DAY + 1, 2.0),
        ({"percent": 33.333}, 1, 3.33),
        ({"percent": 10}, 30 * DAY, 10.0),
        ({"percent": 2, "per": "hour"}, 5 * HOUR, 1.0),
        ({"percent": 10, "grace_minutes": 15}, 15 * 60, None),
        ({"percent": 10, "grace_minutes": 15}, DAY + 15 * 60, 1.0),
        ({"percent": 10, "most_percent": 50}, 30 * DAY, 5.0),
        ({"percent": 10, "least_points": 7}, 30 * DAY, 3.0),
        ({"percent": 10, "least_points": 12}, 30 * DAY, 0.0),
        ({"penalty_method": "zero"}, 1, 10.0),
        ({"penalty_method": "zero", "grace_minutes": 15}, 60, None),
    ],
)
def test_what_the_policy_takes_of_ten_points(settings: dict[str, Any], seconds: float, taken: float | None) -> None:
    plugin = LatePolicy(config=Config(LatePolicy=settings))
    assert plugin.late_submission_penalty("ann", 10.0, seconds) == taken


def test_due_dates_are_said_as_they_are_kept_and_names_that_are_no_labs(course: Path) -> None:
    """nbgrader takes a time zone that it doesn't know as UTC, and makes an assignment of any name."""
    due(course, DUE)
    with book(course) as gradebook:
        gradebook.add_assignment("lab01")
        gradebook.update_or_create_student("ann", first_name="Ann")
    said: list[str] = []
    grading._say_what_is_odd(f"sqlite:///{course}/gradebook.db", ["lab1"], {"lab1": ["ann", "anm"]}, said.append)
    assert f"lab1 is due {DUE:%Y-%m-%d %H:%M} UTC." in said
    assert any("lab01 is an assignment in the gradebook, and no lab" in line for line in said)
    assert [line.split()[1] for line in said if "roster" in line] == ["anm"]


def test_a_due_date_and_an_extension_count_whenever_they_are_set(course: Path) -> None:
    """Before or after grading, moved, taken back; and after the score itself has changed."""
    give(course, "ann", 10.0, hours_late=-1)
    give(course, "ben", 10.0, hours_late=30)
    config = policy(percent=10)
    assert scores(course, config) == {"ann": 10.0, "ben": 10.0}, "no due date yet"
    due(course, DUE)
    assert scores(course, config) == {"ann": 10.0, "ben": 8.0}
    with book(course) as gradebook:
        grade: Any = gradebook.find_grade("check", "first", "lab1", "ben")
        grade.manual_score = 5.0
        gradebook.db.commit()
    assert scores(course, config)["ben"] == 4.0, "a share of the score by hand"
    (course / "extensions.csv").write_text("student,lab,until\nben,lab1,2026-11-23 13:00 Europe/Berlin\n")
    assert scores(course, config)["ben"] == 4.5, "12:00 UTC, of which 18:00 is 6 h late"
    (course / "extensions.csv").write_text("student,lab,until\nben,lab1,2026-11-23 18:00 UTC\n")
    assert scores(course, config)["ben"] == 5.0
    due(course, DUE + timedelta(days=-3))
    assert scores(course, config) == {"ann": 7.0, "ben": 5.0}, "an extension says until when"
    (course / "extensions.csv").write_text("student,lab,until\n")
    assert scores(course, config) == {"ann": 7.0, "ben": 2.5}
    due(course, None)
    assert scores(course, config) == {"ann": 10.0, "ben": 5.0}


@pytest.mark.parametrize("stamp", [None, "soon"])
def test_a_time_of_handing_in_that_is_gone_is_forgotten(
    course: Path, monkeypatch: pytest.MonkeyPatch, stamp: str | None
) -> None:
    """nbgrader keeps the one of an earlier grading, and with it the penalty."""
    due(course, DUE)
    give(course, "ann", 10.0, hours_late=30)
    if stamp:
        (course / "submitted" / "ann" / "lab1" / "timestamp.txt").write_text(stamp)
    assert scores(course, policy(percent=10)) == {"ann": 8.0}
    url = f"sqlite:///{course}/gradebook.db"
    taken = TakenIn(CourseDirectory(root=str(course), db_url=url))
    taken.add("lab1", "ann", {"first": "first.ipynb"})
    exporter = SubmissionExporter()
    exporter._course = taken
    monkeypatch.setattr(exporter, "_graded", lambda request: "")
    about = {"nbgrader": {"assignment": "lab1", "student": "ann", "notebook": "first", "db_url": url}}
    exporter.from_filename(str(course / "autograded" / "ann" / "lab1" / "first.ipynb"), about)
    assert scores(course, policy(percent=10)) == {"ann": 10.0}
    taken.close()


def test_an_extension_before_anything_was_handed_in(course: Path) -> None:
    due(course, DUE)
    (course / "extensions.csv").write_text(
        "student,lab,until\nben,lab1,2026-11-24 12:00 UTC\nbne,lab1,2026-11-24 12:00\n"
    )
    with book(course) as gradebook:
        gradebook.add_student("ben")
        told: list[str] = []
        late.renew(gradebook, policy(percent=10), course, say=told.append)
    assert told == ["extensions.csv: nobody is called 'bne' (lab1)."]
    give(course, "ben", 10.0, hours_late=47)
    assert scores(course, policy(percent=10)) == {"ben": 10.0}


@pytest.mark.parametrize("between", [";", "\t"])
def test_extensions_as_a_spreadsheet_in_another_language_writes_them(tmp_path: Path, between: str) -> None:
    text = "student,lab,until\nann,lab1,2026-11-23 12:00\n".replace(",", between)
    (tmp_path / "extensions.csv").write_text(text)
    assert late.extensions(tmp_path, ["lab1"]) == {("ann", "lab1"): datetime(2026, 11, 23, 12)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann,lab1\n", "its first line is to be student,lab,until"),
        ("student,lab,until\nann,lab9,2026-11-23 12:00\n", "line 2: there is no lab 'lab9'; there are lab1, lab2"),
        ("student,lab,until\nann,lab1,tomorrow\n", "line 2: until 'tomorrow' is no time; such as"),
        ("student,lab,until\nann,lab1,2026-11-23\n", "is no time"),
        ("student,lab,until\nann,lab1\n", "until '' is no time"),
        (
            "student,lab,until\nann,lab1,2026-11-23 12:00 Europe/Berln\n",
            "line 2: until '2026-11-23 12:00 Europe/Berln'",
        ),
        ("student,lab,until\nann,lab1,2026-11-23 12:00 60\n", "is no time"),
        ('student,lab,until\n"ann,lab1,2026-11-23 12:00\n', "extensions.csv is no CSV file: unexpected end of data"),
        ("student,lab,until\nann,lab1,2026-11-23 12:00\nzo\udce9,lab1,\n", "line 3: it is not UTF-8"),
    ],
)
def test_a_wrong_line_of_extensions_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "extensions.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Failed, match=said):
        late.extensions(tmp_path, ["lab1", "lab2"])


def test_what_being_late_costs_grades_nothing_again() -> None:
    """The hash of the configuration, by which a rerun finds out what changed."""
    config = "from x import y\ny(c)\nc.JudgedExecute.timeout = 240\n"
    assert _decisive(config + "c.LatePolicy.percent = 10  # each day\n") == _decisive(config)
    assert _decisive(config.replace("240", "10")) != _decisive(config)


@pytest.mark.parametrize(
    ("seconds", "said"), [(30, "1 min"), (3600, "1 h"), (26 * 3600, "1 d 2 h"), (48 * 3600, "2 d"), (5000, "1 h")]
)
def test_how_late_in_words(seconds: float, said: str) -> None:
    assert late.how_late(seconds) == said


# --- People ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "files", "meant"),
    [
        (["multi_head"], ["multi_head.ipynb", "multi_head (1).ipynb"], {"multi_head": "multi_head.ipynb"}),
        (["multi_head"], ["multi_head (1).ipynb"], {"multi_head": "multi_head (1).ipynb"}),
        (["multi_head"], ["Multi-Head-Copy1.ipynb", "notes.ipynb"], {"multi_head": "Multi-Head-Copy1.ipynb"}),
        (["multi_head"], ["ann_multi_head_final.IPYNB"], {"multi_head": "ann_multi_head_final.IPYNB"}),
        (["multi_head"], ["multi_head (1).ipynb", "multi_head (2).ipynb"], {}),
        (["multi_head"], ["Untitled.ipynb"], {}),
        (["\u00fcbung"], ["u\u0308bung (1).ipynb"], {"\u00fcbung": "u\u0308bung (1).ipynb"}),
        (["multi_head"], [".multi_head.ipynb", "multi_head.txt"], {}),
        (["a", "ab"], ["ab (1).ipynb"], {"ab": "ab (1).ipynb"}),
        (["a", "ab"], ["a.ipynb", "ab (1).ipynb"], {"a": "a.ipynb", "ab": "ab (1).ipynb"}),
    ],
)
def test_a_file_is_recognised_where_only_one_can_be_meant(
    tmp_path: Path, names: list[str], files: list[str], meant: dict[str, str]
) -> None:
    folder = tmp_path / "ann" / "lab"
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    assert intake.meant(folder, names) == meant


def test_nothing_is_recognised_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "ann" / "lab").mkdir(parents=True)
    (tmp_path / "ann" / "lab" / "multi_head (1).ipynb").touch()
    (tmp_path / "ben").symlink_to(tmp_path / "ann")
    assert intake.meant(tmp_path / "ben" / "lab", ["multi_head"]) == {} == intake.meant(tmp_path / "no", ["multi_head"])


def exported(course: Path, config: Config) -> dict[tuple[str, str], dict[str, str]]:
    """grades.csv, by lab and student."""
    parent = SimpleNamespace(coursedir=SimpleNamespace(root=str(course), course_id="course"), config=config)
    export = QuotedExport()
    vars(export)["parent"] = parent
    export._trait_values["parent"] = parent
    export.to = str(course / "grades.csv")
    with book(course) as gradebook:
        export.export(gradebook)
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        return {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}


def test_not_handed_in_not_graded_and_no_points_are_three_things(course: Path) -> None:
    give(course, "ann", 0.0)
    hand_in(course, "ben", "Untitled.ipynb")
    hand_in(course, "cleo", "first (1).ipynb")
    (course / "submitted" / "eve").mkdir()
    (course / "submitted" / "eve" / "lab1").write_text("a file in the place of the folder")
    with book(course) as gradebook:
        gradebook.add_student("dan", last_name='Müller, "Dan"')
        found = {one.student: (one.state, one.score) for one in standings(course, gradebook, "lab1")}
        whys = {one.student: one.why for one in standings(course, gradebook, "lab1") if one.why}
    assert found == {
        "ann": (GRADED, 0.0),
        "ben": (NOT_GRADED, None),
        "cleo": (NOT_GRADED, None),
        "dan": (NOT_HANDED_IN, None),
        "eve": (NOT_GRADED, None),
    }
    assert whys["ben"] == "There is 'Untitled.ipynb' in it: the file is to be called first.ipynb."
    assert "the next run" in whys["cleo"] and whys["eve"] == "There is no first.ipynb in it."
    rows = exported(course, policy())
    assert {key: (row["status"], row["score"]) for key, row in rows.items()} == {
        ("lab1", "ann"): ("graded", "0.0"),
        ("lab1", "ben"): ("not graded", ""),
        ("lab1", "cleo"): ("not graded", ""),
        ("lab1", "dan"): ("not handed in", ""),
        ("lab1", "eve"): ("not graded", ""),
    }
    assert rows["lab1", "dan"]["last_name"] == 'Müller, "Dan"'


def test_times_say_that_they_are_in_utc(course: Path) -> None:
    give(course, "ann", 5.0, hours_late=1.5)
    hand_in(course, "ben")
    due(course, DUE)
    rows = exported(course, policy())
    assert rows["lab1", "ann"]["duedate"] == rows["lab1", "ben"]["duedate"] == "2026-11-22 12:00:00+00:00"
    assert rows["lab1", "ann"]["timestamp"] == "2026-11-22 13:30:00+00:00" and rows["lab1", "ben"]["timestamp"] == ""
    assert {"duedate", "timestamp"} < {*rows["lab1", "ann"]}, "nbgrader's names"


def test_points_that_nobody_has_given_yet_are_told_apart_from_none(course: Path) -> None:
    give(course, "ann", None)
    give(course, "ben", 0.0)
    with book(course) as gradebook:
        ann, ben = standings(course, gradebook, "lab1")
    assert (ann.state, ann.score, ann.ungraded, ann.by_hand) == (IN_PART, 0.0, 10.0, True)
    assert (ben.state, ben.score, ben.ungraded, ben.by_hand) == (GRADED, 0.0, 0.0, False)
    rows = exported(course, policy())
    assert [(row["status"], row["ungraded"]) for row in rows.values()] == [
        ("graded in part", "10.0"),
        ("graded", "0.0"),
    ]
    with book(course) as gradebook:
        grade: Any = gradebook.find_grade("check", "first", "lab1", "ann")
        grade.manual_score, grade.needs_manual_grade = 0.0, False
        gradebook.db.commit()
        assert standings(course, gradebook, "lab1")[0].state == GRADED


def test_the_list_says_that_a_file_could_not_be_read(course: Path) -> None:
    for student in ("ann", "ben"):
        give(course, student, 0.0)
        (course / "feedback" / student / "lab1").mkdir(parents=True)
        (course / "feedback" / student / "lab1" / "first.html").write_text("</html>")
        save = SaveIntegrityNote(config=Config(CourseDirectory={"root": str(course)}))
        about = {"nbgrader": {"assignment": "lab1", "student": student, "notebook": "first"}}
        why = {UNREAD: "the submitted file could not be read as a notebook: it is empty"} if student == "ann" else {}
        notebook, _ = save.preprocess(new_notebook(), {**about, **why, NOTED: [Remark("cell 3", "forked")]})
        nbformat.write(notebook, course / "autograded" / student / "lab1" / "first.ipynb")
    told: list[str] = []
    with book(course) as gradebook:
        listing.scores(course, "lab1", 10.0, standings(course, gradebook, "lab1"), told.append)
    assert [line.split(", ", 1)[1] for line in told] == [
        "the submitted file could not be read as a notebook: it is empty, see integrity/",
        "see integrity/",
    ]


def test_who_hands_in_while_others_are_graded_is_left_for_the_next_run(course: Path) -> None:
    (course / "submitted" / "ann" / "lab1").mkdir(parents=True)
    (course / "submitted" / "ann" / "lab1" / "first.ipynb").write_text("{}")
    told: list[str] = []
    with book(course) as gradebook:
        where = standings(course, gradebook, "lab1")
        counted, missing = listing.scores(course, "lab1", 10.0, where, told.append, known=["ben"])
        assert "handed in during this run: the next one grades it" in told[0] and not missing
        counted, missing = listing.scores(course, "lab1", 10.0, where, told.append, known=["ann"])
        assert "NOT GRADED" in told[-1] and missing == ["ann"] and counted["missing"] == 1


def test_grades_csv_has_the_labs_that_students_were_given(course: Path) -> None:
    with book(course) as gradebook:
        gradebook.add_student("ann")
        assert released(course, gradebook) == []
        (course / "outbound" / "lab2").mkdir(parents=True)
        assert released(course, gradebook, course / "outbound") == ["lab2"]
    due(course, DUE)
    config = policy(percent=10)
    assert {lab for lab, _ in exported(course, config)} == {"lab1"}
    hand_in(course, "ann")
    due(course, None)
    assert {lab for lab, _ in exported(course, config)} == {"lab1"}
    config.Exchange.root, config.CourseDirectory.course_id = str(course / "exchange"), "course"
    (course / "exchange" / "course" / "outbound" / "lab2").mkdir(parents=True)
    assert {lab for lab, _ in exported(course, config)} == {"lab1", "lab2"}


def test_where_no_exchange_is_named_it_is_nbgraders() -> None:
    assert exchange(Config()) == Path(Exchange().root)


def test_grades_csv_is_replaced_as_a_whole(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(course, "ann", 5.0)
    exported(course, policy(percent=10))
    before, write = (course / "grades.csv").read_bytes(), Path.write_text

    def half(self: Path, text: str, **how: Any) -> int:
        write(self, text[: len(text) // 2], **how)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space"):
        exported(course, policy(percent=10))
    assert (course / "grades.csv").read_bytes() == before


def test_the_penalty_is_the_same_in_the_table_and_in_grades_csv(course: Path) -> None:
    give(course, "ann", 10.0, hours_late=1)
    due(course, DUE)
    config = policy(percent=10)
    row = exported(course, config)["lab1", "ann"]
    assert (row["raw_score"], row["late_submission_penalty"], row["score"]) == ("10.0", "1.0", "9.0")
    assert float(row["score"]) == scores(course, config)["ann"]


# --- A whole term ---------------------------------------------------------------------------------------------------


def test_a_lab_whose_source_has_changed_since_it_was_made_is_known(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labs, "nbgrader", lambda *about, **how: 0)
    about = Course(course, "exercises")
    assert labs.changed(course, ["lab1", "lab2"]) == [], "nothing was made here"
    labs.generate(course, ["lab1", "lab2"], about)
    assert labs.changed(course, ["lab1", "lab2"]) == []
    cells = [nbformat.v4.new_markdown_cell("another task")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), course / "solutions" / "lab1" / "first.ipynb")
    assert labs.changed(course, ["lab1", "lab2"]) == ["lab1"]
    labs.generate(course, ["lab1"], about)
    assert labs.changed(course, ["lab1", "lab2"]) == []
    with pytest.raises(Failed, match="There is no lab lab9; there are lab1, lab2"):
        labs.chosen(course, ["lab9"])


def test_points_that_the_text_does_not_name_are_said(tmp_path: Path) -> None:
    for path in (REPOSITORY / "solutions").glob("*/*.ipynb"):
        assert labs.unsaid_points(path) == []
    path = next((REPOSITORY / "solutions").glob("lab04*/*.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    points = {cell.id: cell.metadata.get("nbgrader", {}).get("points", 0) for cell in notebook.cells}
    (cell,) = (cell for cell in notebook.cells if cell.id == "check-layer-norm")
    assert points[cell.id] == 10
    cell.metadata.nbgrader.points = 200  # more than any lab has
    nbformat.write(notebook, tmp_path / "layer_norm.ipynb")
    old = "its text speaks of {} points, which no graded cell gives, nor all together: {!r}"
    share, first = "| share of the 10 points | what is checked |", notebook.cells[0].source.split("*")[1]
    stale = [old.format(sum(points.values()), f"*{first}*"[:80]), old.format(10, share)]
    assert labs.unsaid_points(tmp_path / "layer_norm.ipynb") == [
        "the cell 'check-layer-norm' gives 200 points, and the lab's text does not say so.",
        *stale,
    ]
    for text in notebook.cells:  # only one of the three places is mended
        text.source = text.source.replace("Write `LayerNorm` (10 points)", "Write `LayerNorm` (200 points)")
    nbformat.write(notebook, tmp_path / "layer_norm.ipynb")
    assert labs.unsaid_points(tmp_path / "layer_norm.ipynb") == stale


def command(course: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autograder", *arguments], cwd=course, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.full
def test_a_term(tmp_path: Path) -> None:
    """Every command of docs/instructors.md in its order, on the course of examples/: roster to scores."""
    course = tmp_path / "course"
    shutil.copytree(REPOSITORY / "examples", course, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    lab, db = "lab1_softmax", [sys.executable, "-m", "nbgrader", "db", "assignment", "add"]
    (course / "class.csv").write_text("student_id,last_name\nann,Ek\nben,Ma\ncleo,Ng\ndan,Ro\n")
    assert "4 students" in command(course, "roster", "class.csv")
    assert f"Made {lab} in labs/" in command(course, "labs", lab)
    assert sorted(path.name for path in (course / "labs").iterdir()) == [lab]
    for student, area in (("ann", "solutions"), ("ben", "solutions"), ("cleo", "labs")):
        shutil.copytree(course / area / lab, course / "export" / student)
        (course / "export" / student / "softmax.ipynb").rename(course / "export" / student / "softmax (1).ipynb")
        os.utime(course / "export" / student / "softmax (1).ipynb")
    said = command(course, "collect", lab, "export")
    assert "3 submissions taken, 0 there already. submitted/ has those of 3 of 4 students" in said
    assert "ann: 'softmax (1).ipynb' is taken for softmax.ipynb." in said
    (course / "submitted" / "ben" / lab / "timestamp.txt").write_text("2026-11-23 13:00:00 UTC")
    how = ["--workers", "1", *([] if sys.platform.startswith("linux") else ["--no-isolation"])]
    said = command(course, "grade", *how)
    assert "not handed in by 1: dan" in said
    assert [row["score"] for row in grades(course)] == ["10.0", "10.0", "0.0", ""]
    assert [row["status"] for row in grades(course)] == ["graded"] * 3 + ["not handed in"]

    subprocess.run([*db, lab, "--duedate=2026-11-22 23:59 Europe/Berlin"], cwd=course, check=True)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LatePolicy.percent = 10\n")
    said = command(course, "grade", *how)
    assert "graded again" not in said and re.search(r"ben +9\.00 of 10, 1 taken: 14 h late", said), said
    assert [row["score"] for row in grades(course)] == ["10.0", "9.0", "0.0", ""]
    page = (course / "feedback" / "ben" / lab / "softmax.html").read_text(encoding="utf-8")
    assert "(Score: 9.0 / 10.0)" in page and "Late submission penalty (Score: -1.0)" in page
    assert "Ma (ben), lab1_softmax" in page
    assert "Feedback for Ma (ben)" in (course / "feedback" / "ben" / "index.html").read_text(encoding="utf-8")
    (course / "extensions.csv").write_text(f"student,lab,until\nben,{lab},2026-11-24 12:00 UTC\n")
    said = command(course, "grade", *how)
    assert "graded again" not in said and re.search(r"ben +10\.00 of 10\n", said), said
    assert "(Score: 10.0 / 10.0)" in (course / "feedback" / "ben" / lab / "softmax.html").read_text(encoding="utf-8")
    assert "3 scores in the column" in command(course, "scores", "class.csv", lab)
    assert (course / "class-scores.csv").read_text(encoding="utf-8").splitlines()[2] == "ben,Ma,10"

    path = course / "solutions" / lab / "softmax.ipynb"
    notebook = nbformat.read(path, as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("points") == 10)
    cell.metadata.nbgrader.points = 20
    nbformat.write(notebook, path)
    said = command(course, "grade", *how)
    assert f"make labs LAB={lab} renews it" in said and "of 10" in said
    command(course, "labs", lab)
    said = command(course, "grade", *how)
    assert "because the lab has changed" in said and re.search(r"ann +20\.00 of 20\n", said) and "renews" not in said
    assert not list((course / "integrity").rglob("*.md")), "of cells as an earlier release had them"


def grades(course: Path) -> list[dict[str, str]]:
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
