"""What of a hand-in is looked at: plain files, bounded one by one and in sum; and what nbgrader gets to see of it."""

import os
import socket
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory

from autograder.pipeline import intake
from autograder.pipeline.intake import (
    MAX_STAMP,
    STAMP,
    TakenIn,
    copy_beside,
    handed_in_at,
    moment,
    read_plain,
    unusable,
)
from autograder.pipeline.texts import in_table, printable

posix = pytest.mark.skipif(sys.platform == "win32", reason="a file system with links, pipes and any name")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A submission's folder, and where it is graded."""
    made = tmp_path / "handed-in", tmp_path / "graded"
    for folder in made:
        folder.mkdir()
    return made


def copied(target: Path) -> list[str]:
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def written(folder: Path, name: bytes) -> None:
    """Write a file of any name; the test is skipped where the file system does not allow it."""
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("x")
    except OSError:
        pytest.skip("this file system knows no such names")


def test_plain_files_are_copied_and_notebooks_and_hidden_ones_are_not(folders: tuple[Path, Path]) -> None:
    source, target = folders
    for name in ("data.csv", "deep/er/more.txt", "a.ipynb", ".hidden", "__pycache__/x.pyc", STAMP):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    assert copy_beside(source, target) == []
    assert copied(target) == ["data.csv", str(Path("deep/er/more.txt"))]
    assert (target / "deep/er/more.txt").read_text() == "deep/er/more.txt"


def test_what_is_there_already_is_the_instructors(folders: tuple[Path, Path]) -> None:
    source, target = folders
    for folder in folders:
        (folder / "data.csv").write_text(folder.name)
    copy_beside(source, target)
    assert (target / "data.csv").read_text() == "graded"


def test_what_nbgrader_does_not_copy_is_not_copied(folders: tuple[Path, Path]) -> None:
    source, target = folders
    for pattern in CourseDirectory().ignore:
        (source / "deep" / pattern.replace("*", "x")).mkdir(parents=True)
        (source / "deep" / pattern.replace("*", "x") / "file.txt").touch()
    (source / "deep" / "feedback.txt").touch()
    assert copy_beside(source, target) == [] and copied(target) == [str(Path("deep/feedback.txt"))]


@posix
def test_only_plain_files_are_copied(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folders
    monkeypatch.chdir(source)  # the path of a socket is short
    (source.parent / "secret").write_text("sk-1")
    (source / "link").symlink_to(source.parent / "secret")
    (source / "folder").symlink_to(source.parent)
    (source / "loop").symlink_to("loop")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    said = {remark.where: remark.what for remark in copy_beside(source, target)}
    assert copied(target) == []
    assert set(said) == {"link", "folder", "loop", "pipe", "socket"}
    assert all("no file" in what for what in said.values())


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [([60_000_000], 0), ([10**12], 0), ([40_000_000] * 40, 2), ([1_000] * 3, 3), ([10**12, 10], 1)],
)
def test_sizes_are_bounded_as_if_holes_were_full(folders: tuple[Path, Path], sizes: list[int], kept: int) -> None:
    source, target = folders
    try:
        for i, size in enumerate(sizes):
            hole(source / f"{i:02}.bin", size)
    except OSError:
        pytest.skip("this file system has no such holes")
    remarks = copy_beside(source, target)
    assert len(copied(target)) == kept
    assert bool(remarks) == (kept < len(sizes))
    assert len(remarks) <= intake.MAX_REMARKS + 1


def test_numbers_and_depths_are_bounded(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folders
    monkeypatch.setattr(intake, "MAX_FILES", 50)
    monkeypatch.setattr(intake, "MAX_LOOKED_AT", 300)
    for i in range(200):
        (source / f"{i:03}").touch()
    deep = source
    for _ in range(30):
        deep = deep / ("d" * 20)
        deep.mkdir()
        (deep / "file").touch()
    for i in range(300):
        (source / f"x{i}").mkdir()
        (source / f"x{i}" / "file").touch()
    remarks = copy_beside(source, target)
    made = list(target.rglob("*"))
    assert 40 <= len(made) <= 50  # folders count
    assert any("too many" in remark.where + remark.what for remark in remarks)


def test_time_grows_with_the_number_of_files_and_no_faster(folders: tuple[Path, Path]) -> None:
    """nbgrader's own copying asks for each file which names in its folder are like it."""
    source, target = folders
    for i in range(4000):
        (source / f"[{i}]" if sys.platform != "win32" else source / f"{i}").touch()
    begun = time.process_time()
    copy_beside(source, target)
    assert time.process_time() - begun < 20  # nbgrader's took minutes


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["first.ipynb", "my first.ipynb"], "first.ipynb"),
        (["First (1).ipynb", "notes.ipynb"], "First (1).ipynb"),
        (["first (1).ipynb", "first (2).ipynb"], None),  # which of them, nobody can tell
    ],
)
def test_a_notebook_is_meant_by_its_name_or_by_the_only_one_that_holds_it(
    tmp_path: Path, files: list[str], expected: str | None
) -> None:
    for file in files:
        (tmp_path / file).touch()
    assert intake.meant(tmp_path, ["first"]).get("first") == expected


@posix
@pytest.mark.parametrize("name", [b"a\nb.py", b"\x1b[2J", b"\xff\xfe", "‮evil".encode()])
def test_names_that_cannot_be_printed_are_renamed(folders: tuple[Path, Path], name: bytes) -> None:
    source, target = folders
    written(source, name)
    (remark,) = copy_beside(source, target)
    (kept,) = copied(target)
    assert kept.isprintable() and "renamed" in remark.what
    assert remark.where.isprintable()


@posix
def test_names_of_any_length_and_files_in_the_place_of_folders(folders: tuple[Path, Path]) -> None:
    """Whatever cannot be copied is left out; a full disk is the grader's own failure, and nothing else is."""
    source, target = folders
    written(source, b"\xff" * 255)
    (source / "a").mkdir()
    (source / "a" / "b").write_text("x")
    (source / "c").write_text("x")
    (target / "a").write_text("the instructor's")
    (target / "c").mkdir()
    said = {remark.where: remark.what for remark in copy_beside(source, target)}
    assert copied(target) == ["_" * 255, "a"]
    assert "cannot be copied" in said["a/b"]


@posix
def test_what_may_not_be_read_becomes_readable_or_is_left_out(folders: tuple[Path, Path]) -> None:
    source, target = folders
    (source / "closed").mkdir()
    (source / "closed/file").touch()
    (source / "file").touch(mode=0)
    (source / "closed").chmod(0)
    assert copy_beside(source, target) == []
    assert copied(target) == ["closed/file", "file"]


@posix
def test_nothing_is_read_that_is_large_or_no_file(tmp_path: Path) -> None:
    hole(tmp_path / "hole", 10**10)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "small").write_text("x")
    assert [read_plain(tmp_path / name, 10) for name in ("hole", "pipe", "link", "gone", "small")] == [None] * 4 + [
        b"x"
    ]


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("text", "known", "remark"),
    [
        pytest.param(f"{NOW:%Y-%m-%d %H:%M:%S.%f} UTC", True, "", id="now"),
        pytest.param(f"{NOW:%Y-%m-%d %H:%M:%S.%f} Europe/Zurich", True, "", id="now in Zurich"),
        pytest.param(f"{NOW - timedelta(days=4000):%Y-%m-%d %H:%M:%S} UTC", True, "long ago", id="long ago"),
        ("2001-01-01 00:00:00 UTC", True, "long ago"),
        ("9999-12-31 23:59:59 UTC", True, "still to come"),
        ("5", False, "holds no time"),
        ("tomorrow", False, "holds no time"),
        ("2026-13-45 99:99", False, "holds no time"),
        ("0000-01-01 00:00:00 UTC", False, "holds no time"),
        ("9999-12-31 23:59:59 -2359", False, "holds no time"),
        ("2026-01-01 00:00:00 99999999999999999999", False, "holds no time"),
        ("", False, "holds no time"),
        ("\x1b[2J", False, "holds no time"),
        ("2026-01-01 " + "0" * MAX_STAMP, False, "no file, or has more than"),
    ],
)
def test_the_time_of_handing_in(tmp_path: Path, text: str, known: bool, remark: str) -> None:
    (tmp_path / STAMP).write_text(text)
    time, remarks = handed_in_at(tmp_path)
    assert (time is not None) == known
    assert remark in " ".join(one.what for one in remarks) and bool(remark) == bool(remarks)


@pytest.mark.parametrize(
    ("days", "remark"),
    [(2, "still to come"), (0.9, ""), (-1, ""), (-2.9 * 365, ""), (-3.1 * 365, "long ago")],
)
def test_a_time_more_than_a_day_ahead_or_three_years_past_is_remarked_upon(
    tmp_path: Path, days: float, remark: str
) -> None:
    """As docs/security.md says."""
    (tmp_path / STAMP).write_text(f"{NOW + timedelta(days=days):%Y-%m-%d %H:%M:%S} UTC")
    _, remarks = handed_in_at(tmp_path)
    assert [remark in one.what for one in remarks] == [True] * bool(remark)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-01-01 12:00", 12),
        ("2026-01-01T12:00:00Z", 12),
        ("2026-01-01 12:00:00.123456789 UTC", 12),
        ("2026-01-01 12:00 Europe/Berlin", 11),
        ("2026-01-01 12:00 +0100", 11),
        ("2026-01-01 12:00:00-05:00", 17),
    ],
)
def test_a_time_is_read_in_its_zone(text: str, hour: int) -> None:
    assert moment(text).replace(microsecond=0) == datetime(2026, 1, 1, hour)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01 12:00 Europe/Berln",
        "2026-01-01 12:00 XYZ",
        "2026-01-01 12:00 60",
        "2026-01-01 12:00 /etc/passwd",
        "2026-01-01 12:00 ../UTC",
        "2026-01-01 12:00 UTC UTC",
        "2026-01-01 ٢٣:٥٩",
        "0001-01-01 00:00 +1400",
    ],
)
def test_a_time_in_no_zone_that_there_is_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|in no"):
        moment(text)


def test_no_time_is_no_remark(tmp_path: Path) -> None:
    assert handed_in_at(tmp_path) == (None, [])


@posix
def test_a_time_that_is_a_hole_or_a_link(tmp_path: Path) -> None:
    hole(tmp_path / STAMP, 10**12)
    assert "more than" in handed_in_at(tmp_path)[1][0].what
    (tmp_path / STAMP).unlink()
    (tmp_path / STAMP).symlink_to("/dev/zero")
    assert handed_in_at(tmp_path)[0] is None


@pytest.mark.parametrize(
    "name",
    ["ada", 'a,b"c', "=1+1", "ünï 码", "it's", "-h", "x" * 100, "ü" * 100, "码" * 66, "a.b", "{x}", "~"],
)
def test_most_names_are_fine(name: str) -> None:
    assert unusable(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "[a]",
        "a?",
        ".hidden",
        "..evil",
        "a\nb",
        "\x1b[2J",
        "\udcff",
        "‮evil",
        "x" * 101,
        "码" * 67,
        "\t",
        " ada",
        "ada ",
    ],
)
def test_a_name_that_nbgrader_cannot_take_is_refused_with_a_sentence(name: str) -> None:
    assert (unusable(name) or "").endswith("Rename it.")


def test_nbgrader_sees_empty_notebooks_and_a_checked_time(tmp_path: Path) -> None:
    given = CourseDirectory(root=str(tmp_path), assignment_id="lab")
    folder = tmp_path / "submitted" / "ada" / "lab"
    folder.mkdir(parents=True)
    hole(folder / "one.ipynb", 1000)
    (folder / STAMP).write_text(f"{NOW:%Y-%m-%d %H:%M:%S} UTC")
    (folder / "data.csv").touch()
    course = TakenIn(given)
    where, notebooks = course.add("lab", "ada", ["one"])
    assert (course.assignment_id, course.student_id) == ("lab", "*")
    assert sorted(os.listdir(where)) == ["one.ipynb", STAMP]
    assert [os.path.getsize(path) for path in notebooks] == [0]
    assert course.get_existing_timestamp(where) == NOW.replace(tzinfo=None, microsecond=0)
    assert course.folder("lab", "ada") == folder
    assert where == course.format_path(course.submitted_directory, "ada", "lab")
    del course
    assert not list((tmp_path / ".headroom").iterdir())


def test_nbgrader_sees_the_time_that_was_checked_in_any_year(tmp_path: Path) -> None:
    folder = tmp_path / "submitted" / "ann" / "lab"
    folder.mkdir(parents=True)
    for year in ("0001", "0999", "1970", "9999"):
        (folder / STAMP).write_text(f"{year}-09-28 10:03:00 UTC")
        course = TakenIn(CourseDirectory(root=str(tmp_path)))
        seen, _ = course.add("lab", "ann", ["one"])
        assert course.get_existing_timestamp(seen) == handed_in_at(folder)[0] == datetime(int(year), 9, 28, 10, 3)
        course.close()


def test_what_a_killed_grader_left_is_removed_and_what_a_running_one_has_is_not(tmp_path: Path) -> None:
    given = CourseDirectory(root=str(tmp_path))
    dead, running = (tmp_path / intake.FOLDER.format(number) for number in (2**22 + 1, os.getppid()))
    for folder in (dead, running):
        (folder / "ada").mkdir(parents=True)
    TakenIn(given)
    assert not dead.exists() and running.exists()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_nothing_in_grades_is_computed_or_obeyed_by_a_terminal(text: str) -> None:
    assert in_table(text) == f"'{printable(text)}"
    assert in_table("\x1b[2J\u202eEve") == "_[2J_Eve"
    assert in_table(-1.0) == -1.0 and in_table("a=b") == "a=b"
    assert in_table(f"a; {text}") == f"a; {printable(text)}".replace("; ", "; '" if text[0] in "=+-@" else "; ")
