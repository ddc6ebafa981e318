"""Feedback pages packed for Canvas and Moodle."""

import zipfile
from pathlib import Path

import pytest

from autograder.__main__ import main
from autograder.pipeline.course import Failed
from autograder.pipeline.lms_feedback import pack
from tests import small_course
from tests.test_lms import CANVAS, MOODLE_PEOPLE, PLAIN, enrolled, zipped


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def graded(course: Path, *students: str) -> None:
    for student in students:
        folder = course / "feedback" / student / "lab1"
        folder.mkdir(parents=True)
        (folder / "first.html").write_text(f"{student}'s points")


def packed(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize(
    ("people", "files", "names"),
    [
        (
            CANVAS,
            ["müllerdand_101_554_first.ipynb", "müllerdand_101_555_first-1.ipynb", "oharazoë_LATE_102_556_mine.ipynb"],
            {"müllerdand_101_555_first.html": "dan", "oharazoë_LATE_102_556_first.html": "zoe"},
        ),
        (
            MOODLE_PEOPLE,
            [
                'Dan "D." Müller_9001_assignsubmission_file_/first.ipynb',
                "Zoë O'Hara_9002_assignsubmission_file_first.ipynb",
            ],
            {
                'Dan "D." Müller_9001_assignsubmission_file_/first.html': "dan",
                "Zoë O'Hara_9002_assignsubmission_file_first.html": "zoe",
            },
        ),
        (PLAIN, ["dan/first.ipynb", "zoe/first.ipynb"], {"dan/first.html": "dan", "zoe/first.html": "zoe"}),
    ],
    ids=["Canvas", "Moodle", "folders"],
)
def test_pages_are_called_as_the_hand_ins_are_in_the_export(
    course: Path, people: str, files: list[str], names: dict[str, str]
) -> None:
    enrolled(course, people)
    graded(course, "dan", "zoe", "anna")
    source, told = zipped(course / "export.zip", dict.fromkeys(files, b"{}")), list[str]()
    assert pack(course, "lab1", source, None, told.append) == []
    to = course / "build" / "feedback-lab1.zip"
    assert packed(to) == {name: f"{student}'s points" for name, student in names.items()}
    assert told == [f"2 pages in {to}."]


def test_who_has_no_page_is_listed_and_the_rest_is_packed(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course)
    enrolled(course, CANVAS)
    graded(course, "dan")
    names = ("müllerdand_101_555_first.ipynb", "oharazoë_102_556_first.ipynb", "somebody_999_557_first.ipynb")
    source, to = zipped(course / "export.zip", dict.fromkeys(names, b"{}")), course / "elsewhere" / "pages.zip"
    assert main(["feedback", "lab1", str(source), "--to", str(to)]) == 1
    assert [*packed(to)] == ["müllerdand_101_555_first.html"]
    said = capsys.readouterr()
    assert "zoe: no page in feedback/zoe/lab1; make grade writes it" in said.out + said.err
    assert "somebody" in said.out + said.err


def test_names_that_lead_elsewhere_and_a_name_that_two_go_by_are_left_out(course: Path) -> None:
    """Attack: a name of one's own choice, by which a page would be unpacked elsewhere or reach somebody else."""
    enrolled(course, MOODLE_PEOPLE)
    graded(course, "dan", "zoe", "anna")
    names = (
        "../Zoë O'Hara_9002_assignsubmission_file_/first.ipynb",
        'Dan "D." Müller_9001_assignsubmission_file_/first.ipynb',
        'Dan "D." Müller_9009_assignsubmission_file_/first.ipynb',
        "Anna Maria von der Berg_9003_assignsubmission_file_/first.ipynb",
    )
    source = zipped(course / "export.zip", dict.fromkeys(names, b"{}"))
    missing = pack(course, "lab1", source, None, lambda line: None)
    assert [*packed(course / "build" / "feedback-lab1.zip")] == [
        "Anna Maria von der Berg_9003_assignsubmission_file_/first.html"
    ]
    assert any("2 users of the LMS go by this name" in why for why in missing)


def test_nothing_to_pack_is_said(course: Path) -> None:
    enrolled(course, PLAIN)
    source = zipped(course / "export.zip", {"dan/first.ipynb": b"{}"})
    with pytest.raises(Failed, match=r"nothing to pack\. dan: no page"):
        pack(course, "lab1", source, None, print)
    assert not (course / "build").exists()
