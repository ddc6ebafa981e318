"""Groups that Moodle puts before names in an export, and names of students' own choice that look like them."""

from pathlib import Path

import pytest

from autograder.pipeline.lms_submissions import collect
from tests import small_course
from tests.test_lms import FROM_MOODLE, MOODLE_PEOPLE, enrolled, there, zipped


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


@pytest.mark.parametrize("group", ["", "Group 1-"])
@pytest.mark.parametrize("zoes", [True, False])
def test_a_name_that_ends_as_somebody_elses_is_not_theirs(course: Path, group: str, zoes: bool) -> None:
    """Attack: it costs them their place, or puts one's own file there."""
    enrolled(course, MOODLE_PEOPLE)
    files = {f"{group}{name}": data for name, data in FROM_MOODLE.items() if zoes or not name.startswith("Zoë")}
    forged = {f"{group}x-Zoë O'Hara_77_assignsubmission_file_/first.ipynb": b"evil"}
    left = collect(course, "lab1", zipped(course / "a.zip", forged | files), print)
    assert there(course).get("zoe/lab1/first.ipynb") == ("zoe's" if zoes else None)
    assert there(course)["dan/lab1/first.ipynb"] == "dan's"
    why = "two may be meant" if group else "nobody in the roster"
    assert any(line.startswith(f"{group}x-Zoë O'Hara: {why}") for line in left)


def test_why_a_group_of_one_whose_name_begins_as_anothers_is_left_out_is_said(course: Path) -> None:
    """It may be honest: then whoever collects has to see what it is about."""
    enrolled(course, MOODLE_PEOPLE)
    groups = {"Dan": "A-", "Zoë": "A-1-", "Anna": "A-", "Some": "A-"}
    files = {groups[name.split()[0]] + name: data for name, data in FROM_MOODLE.items()}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert {name.split("/")[0] for name in there(course)} == {"dan", "anna"}
    (line,) = (line for line in left if line.startswith("A-1-Zoë O'Hara: two may be meant"))
    assert line.endswith("zoe in the group 'A-1', in which is nobody else, or another one in the group 'A'")
    (other,) = (line for line in left if line.startswith("A-Some Body: "))
    assert other.endswith("nobody in the roster goes by this name (A-Some Body_9004_…)")


def test_a_group_whose_name_begins_as_anothers_is_one_if_it_has_two_members(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    groups = {"Dan": "Lab-", "Zoë": "Lab-A-", "Anna": "Lab-A-", "Some": "Lab-"}
    files = {groups[name.split()[0]] + name: data for name, data in FROM_MOODLE.items()}
    collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert {name.split("/")[0] for name in there(course)} == {"dan", "zoe", "anna"}
