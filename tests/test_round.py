"""A round of grading: what it refuses and says before it begins, what it takes up again and why, what it makes anew."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbgrader.api import Gradebook
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

from autograder.pipeline import feedback, grading, listing
from autograder.pipeline.course import Failed, configuration
from autograder.pipeline.journal import PARTS, Journal
from autograder.pipeline.parcel import pack
from autograder.pipeline.plan import NAMED, Plan
from autograder.pipeline.turns import Turn
from autograder.pipeline.worker import Died, Refused
from tests import small_course
from tests.small_course import DUE, book, due, give, hand_in

PAGE = '<h1>first <span class="score">(Score: {} / 10.0)</span></h1></html>'


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


class Round:
    """A round in which nothing is graded: what it says, and which labs it makes and takes up."""

    def __init__(self, course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.course, self.said, self.warned = course, list[str](), list[str]()
        self.made, self.labs, self.todo = list[str](), list[str](), list[str]()
        monkeypatch.setattr(grading.labs, "generate", lambda course, labs, *_, **__: self.made.extend(labs))
        monkeypatch.setattr(grading, "_grade_and_write", self._grade)
        monkeypatch.setattr(grading, "_export", lambda *_: None)
        usual = grading._plans

        def plans(course: Path, config: Config, chosen: list[str], *more: Any) -> list[Plan]:
            self.labs = chosen
            return usual(course, config, chosen, *more)

        monkeypatch.setattr(grading, "_plans", plans)

    def _grade(self, plans: list[Plan], *_: Any) -> None:
        self.todo = [f"{student}, {plan.lab}" for plan in plans for student in plan.todo]

    def __call__(self, *labs: str, **how: Any) -> list[str]:
        voice = grading.Voice(self.said.append, self.warned.append)
        return grading.grade(self.course, [*labs], workers=how.pop("workers", 1), voice=voice, **how)


@pytest.fixture
def a_round(course: Path, monkeypatch: pytest.MonkeyPatch) -> Round:
    return Round(course, monkeypatch)


# --- Before anything is graded ---------------------------------------------------------------------------------------


def test_labs_that_nobody_handed_in_are_graded_only_if_they_are_named(a_round: Round) -> None:
    hand_in(a_round.course, "ann")
    assert a_round() == ["ann, lab1"] and a_round.labs == ["lab1"] and a_round.todo == ["ann, lab1"]
    assert "NOT GRADED. What went wrong stands above" in a_round.said[0]
    assert a_round.made == [], "the gradebook knows it"


def test_where_nobody_handed_in_anything_that_is_said(a_round: Round) -> None:
    for chosen in ((), ("lab1",)):
        with pytest.raises(Failed, match=r"nothing to grade: hand-ins are expected as submitted/STUDENT/LAB/NOTEBOOK"):
            a_round(*chosen)


@pytest.mark.parametrize("workers", [0, -1])
def test_a_number_of_workers_that_is_none_is_named(a_round: Round, workers: int) -> None:
    with pytest.raises(Failed, match=f"--workers {workers}: at least one is needed"):
        a_round(workers=workers)


def test_a_mistake_in_the_extensions_is_said_before_anything_is_graded(a_round: Round) -> None:
    hand_in(a_round.course, "ann")
    (a_round.course / "extensions.csv").write_text("student,lab,until\nann,lab1,soon\n")
    with pytest.raises(Failed, match="line 2: until 'soon' is no time"):
        a_round()
    assert a_round.labs == [] and a_round.todo == []


def test_code_that_runs_unprotected_is_warned_of_and_only_that(a_round: Round) -> None:
    hand_in(a_round.course, "ann")
    a_round()
    assert not [line for line in a_round.warned if "unprotected" in line]
    a_round(isolated=False)
    assert "WARNING: students' code runs unprotected, with your full permissions." in a_round.warned


def test_nothing_is_graded_where_a_kernel_could_read_the_gradebook(
    a_round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in(a_round.course, "ann")
    monkeypatch.setattr(grading, "within_reach", lambda config: "the gradebook lies in /usr")
    with pytest.raises(Failed, match=r"Nothing is graded: the gradebook lies in /usr\."):
        a_round()
    a_round(isolated=False)


def test_a_lab_that_is_older_than_its_source_is_named_with_what_renews_it(
    a_round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in(a_round.course, "ann")
    monkeypatch.setattr(grading.labs, "changed", lambda course, labs: [*labs])
    a_round()
    assert a_round.warned[0].startswith("lab1: solutions/ has changed since labs/ was made from it")
    assert "make labs LAB=lab1 renews it" in a_round.warned[1]


def test_of_the_labs_that_are_graded_the_due_dates_are_said_and_of_no_others(course: Path) -> None:
    due(course, DUE)
    with book(course) as gradebook:
        gradebook.update_or_create_assignment("lab2", duedate=DUE)
    said: list[str] = []
    grading._say_what_is_odd(f"sqlite:///{course}/gradebook.db", ["lab1", "lab2"], {"lab1": []}, said.append)
    assert said == [f"lab1 is due {DUE:%Y-%m-%d %H:%M} UTC."]


@pytest.mark.parametrize("known_by", ["first_name", "last_name", "email"])
def test_who_is_in_no_roster_is_said_where_there_is_one(course: Path, known_by: str) -> None:
    """nbgrader makes a student without a name of each folder; where nobody has a name, there is no roster."""
    url, said = f"sqlite:///{course}/gradebook.db", list[str]()
    with book(course) as gradebook:
        gradebook.add_student("anm")
    grading._say_what_is_odd(url, ["lab1", "lab2"], {"lab1": ["ann", "anm"]}, said.append)
    assert said == []
    with book(course) as gradebook:
        gradebook.add_student("ann", **{known_by: "Ann"})
    grading._say_what_is_odd(url, ["lab1", "lab2"], {"lab1": ["ann", "anm"]}, said.append)
    assert said == ["WARNING: anm handed in, and is not in the roster: is the folder's name misspelled?"]


def test_as_many_grade_as_are_worth_their_start_and_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    psutil = pytest.importorskip("psutil")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(grading, "_dask", lambda: True)

    def workers(jobs: int, wanted: int | None = None, room: float = 100.0) -> int:
        free = SimpleNamespace(available=int(room * grading.MEMORY))
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        return grading._workers(wanted, jobs, pytest.fail)

    few = grading.WORTHWHILE
    assert [workers(jobs) for jobs in (1, few - 1, few, 2 * few, 100 * few)] == [1, 1, 2, 3, 8]
    assert workers(100 * few, room=2.5) == 2 and workers(100 * few, room=0.5) == 1
    assert workers(100, wanted=4, room=1.0) == 4, "who names a number gets it"


# --- What is graded again ---------------------------------------------------------------------------------------------


def planned(course: Path, versions: dict[str, str] | None = None, students: tuple[str, ...] = ("ann",)) -> Plan:
    return Plan(course, configuration(course), "lab1", [*students], versions or {"torch": "2"})


def newer_torch(course: Path) -> dict[str, str]:
    return {"torch": "3"}


def other_limit(course: Path) -> None:
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.JudgedExecute.timeout = 10\n")


def other_penalty(course: Path) -> None:
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LatePolicy.percent = 10  # a day\n")


def other_cell(course: Path) -> None:
    with book(course) as gradebook:
        cell: Any = gradebook.find_source_cell("check", "first", "lab1")
        cell.source = "check(B)"
        gradebook.db.commit()


def other_points(course: Path) -> None:
    with book(course) as gradebook:
        cell: Any = gradebook.find_grade_cell("check", "first", "lab1")
        cell.max_score = 11.0
        gradebook.db.commit()


def other_data(course: Path) -> None:
    (course / "solutions" / "lab1" / "data.csv").write_text("1,3")


def other_solution(course: Path) -> None:
    (course / "solutions" / "lab1" / "first.ipynb").write_text("{}")


def other_due_date(course: Path) -> None:
    due(course, DUE)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (newer_torch, "grader"),
        (other_limit, "grader"),
        (other_cell, "source"),
        (other_points, "source"),
        (other_data, "source"),
        (other_penalty, None),
        (other_solution, None),
        (other_due_date, None),
    ],
)
def test_what_may_change_a_score_has_everybody_graded_again(
    course: Path, change: Callable[[Path], Any], part: str | None
) -> None:
    """And what cannot, as a model answer before make labs, a due date and what being late costs, has nobody."""
    (course / "solutions" / "lab1" / "data.csv").write_text("1,2")
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.CourseDirectory.source_directory = 'solutions'\n")
    before = planned(course).of(b"handed in")
    after = planned(course, change(course)).of(b"handed in")
    assert {name for name in PARTS if before[name] != after[name]} == ({part} if part else set())
    assert planned(course).of(b"another")["submission"] != before["submission"]


def test_one_has_everything_graded_again_of_a_student_a_lab_or_an_exercise(course: Path) -> None:
    plan = planned(course, students=("ann", "ben"))
    assert plan.includes("lab1") == plan.includes("A") == {"ann", "ben"}
    assert plan.includes("ben") == {"ben"} and plan.includes("B") == plan.includes("first") == set()
    with pytest.raises(Failed, match="--regrade bne: no lab or exercise is called so, and nobody who handed in"):
        hand_in(course, "ben")
        grading._plans(course, configuration(course), ["lab1"], ["ben", "bne"], Journal(course))


@pytest.mark.parametrize("count", [NAMED, NAMED + 1])
def test_few_who_are_graded_again_are_named_and_many_are_counted(
    course: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    students = [f"s{n}" for n in range(count)]
    plan, said = planned(course, students=(*students, "other")), list[str]()
    monkeypatch.setattr(Plan, "_why_again", lambda self, journal, student: None)
    plan.look(Journal(course), {*students}, said.append)
    who = ", ".join(students) if count <= NAMED else f"{count} submissions"
    assert said == [f"lab1: graded again, because this was asked for: {who}"] and plan.todo == students


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [("10:00", "10:01", "it was handed in again"), ("10:00", "10:00", None), ("", "10:00", None)],
)
def test_what_nbgraders_own_command_graded_is_graded_again_if_it_was_handed_in_later(
    course: Path, monkeypatch: pytest.MonkeyPatch, before: str, now: str, why: str | None
) -> None:
    give(course, "ann", 5.0)
    monkeypatch.setattr(Plan, "_graded", lambda self, student, notebook: True)
    for area, time in (("autograded", before), ("submitted", now)):
        if time:
            (course / area / "ann" / "lab1" / "timestamp.txt").write_text(f"2026-11-20 {time} UTC")
    assert planned(course)._why_again(Journal(course), "ann") == why


def test_who_has_no_row_in_the_gradebook_is_graded_whatever_lies_in_the_folders(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(course, "ann", 5.0)
    monkeypatch.setattr(Plan, "_graded", lambda self, student, notebook: True)
    assert planned(course).is_there("ann")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        gradebook.remove_submission("lab1", "ann")
    assert not planned(course).is_there("ann")


# --- While it is graded, and afterwards -------------------------------------------------------------------------------


def test_what_kept_a_submission_from_its_grade_is_said_and_all_of_it_is_in_the_log(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = {
        "ann": Died("the grader's process ended"),
        "ben": {"ok": False, "why": "x\nValueError: no", "log": "all"},
    }
    hand_in(course, "ann"), hand_in(course, "ben")

    @contextmanager
    def answers(jobs: Any, *_: Any) -> Iterator[Any]:
        def one_by_one() -> Iterator[Any]:
            for (lab, student), request in jobs:
                request()
                found = answered[student]
                yield (lab, student), found if isinstance(found, Exception) else pack(found)

        yield one_by_one(), lambda: 1

    monkeypatch.setattr(grading, "_answers", answers)
    (course / ".headroom").mkdir(exist_ok=True)
    plan, warned = planned(course, students=("ann", "ben")), list[str]()
    plan.todo = ["ann", "ben"]
    voice = grading.Voice(warn=warned.append)
    grading._grade_and_write([plan], Journal(course), configuration(course), True, 1, None, voice)
    assert warned[0] == "2 submissions to grade: starting 1 worker…"
    assert warned[1:3] == [
        f"'ann', lab1: the grader's process ended (more in {grading.LOG})",
        f"'ben', lab1: ValueError: no (more in {grading.LOG})",
    ]
    log = (course / grading.LOG).read_text(encoding="utf-8")
    assert "=== ann, lab1\nthe grader's process ended\n" in log and "=== ben, lab1\nall\n" in log


@pytest.mark.parametrize("shown", ["5.0", "4.0", "", "cut off"])
def test_a_page_that_is_missing_or_shows_another_score_is_made_anew(
    course: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    give(course, "ann", 5.0)
    page, asked = course / "feedback" / "ann" / "lab1" / "first.html", list[tuple[str, ...]]()
    page.parent.mkdir(parents=True)
    if shown:
        page.write_text(PAGE.format("5.0").removesuffix("</html>") if shown == "cut off" else PAGE.format(shown))

    def nbgrader(course: Path, *arguments: str, quiet: bool) -> int:
        assert not page.exists(), "or nbgrader would leave it as it is"
        asked.append(arguments)
        page.write_text(PAGE.format("5.0"))
        return 0

    monkeypatch.setattr(grading, "nbgrader", nbgrader)
    (_, (ann,)) = grading._standings(course, configuration(course), ["lab1"], print)["lab1"]
    assert asked == ([] if shown == "5.0" else [("generate_feedback", "lab1")])
    assert ann.stale == () and feedback.score_shown(page) == (5.0, 0.0)


def test_a_students_list_of_pages_says_who_that_is(a_round: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    give(a_round.course, "ann", 5.0)
    with book(a_round.course) as gradebook:
        gradebook.update_or_create_student("ann", first_name="Ann", last_name="Ek")
    page = a_round.course / "feedback" / "ann" / "lab1" / "first.html"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE.format("5.0"))
    monkeypatch.setattr(Plan, "_graded", lambda self, student, notebook: True)
    assert a_round() == []
    assert "Feedback for Ann Ek (ann)" in (page.parents[1] / "index.html").read_text(encoding="utf-8")


def test_a_round_ends_with_a_line_for_each_lab() -> None:
    said: list[str] = []
    plans: list[Any] = [SimpleNamespace(lab="lab1", todo=["ann"]), SimpleNamespace(lab="lab02", todo=[])]
    counted = {
        "lab1": listing.Counter({"handed in": 4, "absent": 2, "missing": 1, "graded": 3, "points": 10}),
        "lab02": listing.Counter(),
    }
    listing.sum_up(plans, counted, said.append)
    head, first, second = (line.split() for line in "\n".join(said).strip().splitlines())
    assert " ".join(head) == "handed in not handed in to grade in this run no grade or page mean score"
    assert first == ["lab1", "4", "2", "1", "1", "3.33"] and second == ["lab02", "0", "0", "0", "0", "–"]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            Refused("students' code cannot be isolated here"),
            "Nothing is graded: students' code cannot be isolated here",
        ),
        (Died("the grader's process ended with status 9"), "the grader's process ended with status 9"),
        (None, "WARNING: isolated less well"),
    ],
)
def test_one_grader_that_may_not_grade_is_a_sentence_and_one_that_is_weaker_a_warning(
    monkeypatch: pytest.MonkeyPatch, problem: Exception | None, said: str
) -> None:
    closed: list[bool] = []

    class Starts:
        weaker = "isolated less well"

        def __init__(self, versions: dict[str, str], isolated: bool) -> None:
            assert (versions, isolated) == ({"torch": "2"}, True)

        def start(self) -> None:
            if problem is not None:
                raise problem

        def ask(self, request: bytes) -> bytes:
            if request == b"ben":
                raise Died("it ended")
            return request[::-1]

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(grading, "Grader", Starts)
    warned: list[str] = []
    jobs = iter([("ann", lambda: b"ann"), ("ben", lambda: b"ben"), ("cleo", lambda: b"cleo")])
    with (
        pytest.raises(Failed, match=said) if problem else contextlib.nullcontext(),
        grading._answers(jobs, {"torch": "2"}, True, 1, None, warned.append) as (answers, alive),
    ):
        found = dict(answers)
        assert (found["ann"], found["cleo"], alive()) == (b"nna", b"oelc", 1) and isinstance(found["ben"], Died)
    assert warned == ([] if problem else [said]) and closed == [True]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            OperationalError("", {}, Exception("locked")),
            r"The gradebook cannot be used \(locked\)\. The next run takes",
        ),
        (OSError(errno.ENOSPC, "No space left"), r"No space left\. The next run takes up what is missing\."),
    ],
)
def test_what_ends_a_round_is_a_sentence_that_says_how_it_goes_on(
    a_round: Round, monkeypatch: pytest.MonkeyPatch, problem: Exception, said: str
) -> None:
    hand_in(a_round.course, "ann")

    def ends(*_: Any) -> None:
        raise problem

    monkeypatch.setattr(grading, "_grade_and_write", ends)
    with pytest.raises(Failed, match=said):
        a_round()
    Turn(a_round.course, "the gradebook", pytest.fail, grading.AT_WORK).close()


def test_a_round_that_is_stopped_says_how_far_it_is(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def answers(jobs: Any, *_: Any) -> Iterator[Any]:
        def stopped() -> Iterator[Any]:
            known, request = next(jobs)
            request()
            yield known, Died("it ended")
            raise KeyboardInterrupt

        yield stopped(), lambda: 1

    hand_in(course, "ann"), hand_in(course, "ben")
    monkeypatch.setattr(grading, "_answers", answers)
    (course / ".headroom").mkdir(exist_ok=True)
    plan = planned(course, students=("ann", "ben"))
    plan.todo = ["ann", "ben"]
    with pytest.raises(Failed, match=r"Stopped after 1 of 2\. The same command goes on from there\."):
        grading._grade_and_write([plan], Journal(course), configuration(course), True, 1, None)


def test_to_look_for_a_lab_makes_no_gradebook(course: Path) -> None:
    database = f"sqlite:///{course}/other.db"
    assert not grading.in_gradebook(database, "lab1") and not (course / "other.db").exists()
    database = f"sqlite:///{course}/gradebook.db"
    assert grading.in_gradebook(database, "lab1"), "which has a notebook"
    assert not grading.in_gradebook(database, "lab2") and not grading.in_gradebook(database, "lab9")
