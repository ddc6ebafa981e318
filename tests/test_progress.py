"""A student's own progress: what `check` keeps of the labs, never failing for it; and that nobody believes the file."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import check
from headroom import progress
from headroom.lab import STATE_VARIABLE, course_folder, private_environment
from website import build

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass
class Titled:
    title: str


@dataclass
class Said:
    """As much of a verdict as progress needs."""

    exercise: str
    passed: bool
    mistakes: tuple[Titled, ...] = ()
    attempted: bool = True


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of two labs, with a state folder; the present folder is the first lab's."""
    for path in sorted((REPOSITORY / "labs").glob("lab0[12]*/*.ipynb")):
        copy = tmp_path / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / ".headroom"))
    monkeypatch.chdir(tmp_path / "labs" / "lab01_attention")
    return tmp_path


def said(exercise: str, *mistakes: str, passed: bool = False) -> Said:
    return Said(exercise, passed, tuple(map(Titled, mistakes)))


def test_mistakes_are_overcome_and_what_comes_next_is_said(course: Path) -> None:
    progress.note(course, said("project_qkv", passed=True))
    progress.note(course, said("attention_scores", "no scaling", "the scores are transposed"))
    progress.note(course, said("attention_scores", "the scores are transposed"))
    done = progress.read(course)["lab01_attention"]
    assert done["attention_scores"].made == ["the scores are transposed"]
    assert done["attention_scores"].overcome == ["no scaling"] and done["attention_scores"].checks == 2
    text = progress.text(course)
    assert "Lab 1: 1 of 3 passed" in text and "no longer made: no scaling" in text
    assert text.endswith("Next in the labs: go on with Lab 1, attention_scores.")
    for name in progress.exercises(course)["lab01_attention"]:
        progress.note(course, said(name, passed=True))
    assert progress.text(course).endswith("Next in the labs: begin Lab 2, MultiHeadSelfAttention.")
    assert "still there" not in progress.text(course)
    progress.note(course, said("project_qkv"))  # changed since, and wrong now
    assert not progress.read(course)["lab01_attention"]["project_qkv"].passed
    assert progress.text(course).endswith("Next in the labs: go on with Lab 1, project_qkv.")


def test_what_is_not_attempted_or_not_in_a_lab_does_not_count(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.note(course, Said("project_qkv", False, attempted=False))
    assert progress.read(course) == {}
    monkeypatch.chdir(course)
    progress.note(course, said("project_qkv", passed=True))
    monkeypatch.chdir(course / "labs")
    progress.note(course, said("project_qkv", passed=True))
    assert progress.read(course) == {} and "No check in a lab yet" in progress.text(course)


@pytest.mark.parametrize(
    "broken",
    [
        b"\xff\xfe",
        b'{"lab": 3}',
        b"[" * 100_000,
        b'{"lab": "lab01_attention", "exercise": "x", "passed": 1, "attempted": true, "mistakes": []}',
        b'{"lab": "lab01_attention", "exercise": "x", "passed": true, "attempted": true, "mistakes": "no"}',
        b'{"lab": "lab01_attention", "exercise": "x", "passed": true, "attempted": true, "mistakes": ["a\\n\\n- b"]}',
    ],
)
def test_a_broken_file_is_begun_anew_and_kept_beside(course: Path, broken: bytes) -> None:
    progress.note(course, said("project_qkv", passed=True))
    path = progress.file(course)
    before = path.read_bytes() + broken
    path.write_bytes(before)
    assert progress.read(course)["lab01_attention"].keys() == {"project_qkv"}
    assert path.with_name(progress.BROKEN).read_bytes() == before
    progress.note(course, said("attention_scores", passed=True))
    assert len(progress.read(course)["lab01_attention"]) == 2


def test_a_file_without_end_is_begun_anew(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LARGEST", 1000)
    for _ in range(20):
        progress.note(course, said("project_qkv", passed=True))
    assert progress.file(course).stat().st_size < 1500
    progress.file(course).write_bytes(b"x" * 5000)
    assert progress.read(course) == {}


def test_nothing_happens_where_the_file_cannot_be_written(course: Path) -> None:
    progress.file(course).mkdir(parents=True)
    progress.note(course, said("project_qkv", passed=True))
    assert progress.read(course) == {}


def test_what_stands_in_the_file_is_shown_as_text(course: Path) -> None:
    progress.note(course, said("project_qkv", "<script>alert(1)</script> [x](javascript:y) $z$ \x1b[2J"))
    table = progress.table(course)
    assert "<script" not in table and "[x](" not in table and "$" not in table
    assert "\x1b" not in progress.text(course) and "alert(1)" in table


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(course: Path) -> None:
    progress.file(course).parent.mkdir()
    os.mkfifo(progress.file(course))
    assert progress.read(course) == {} and not progress.file(course).exists()


def test_check_keeps_what_it_said_of_a_lab_and_says_it_all_the_same_where_it_cannot(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The course is that of the repository, so the lab's folder is the repository's own; its state is elsewhere."""

    def attention_scores(q, k):
        return q @ k.transpose(-2, -1)

    monkeypatch.chdir(REPOSITORY / "labs" / "lab01_attention")
    assert [one.title for one in check(attention_scores).mistakes] == ["no scaling"]
    assert progress.read(course)["lab01_attention"]["attention_scores"].made == ["no scaling"]
    monkeypatch.setattr(progress, "note", lambda course, verdict: 1 / 0)
    assert not check(attention_scores).passed
    assert progress.read(course)["lab01_attention"]["attention_scores"].checks == 1
    monkeypatch.undo()
    monkeypatch.chdir(REPOSITORY / "labs" / "lab01_attention")
    monkeypatch.setenv(STATE_VARIABLE, str(course / ".headroom"))
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    with pytest.raises(AssertionError):
        check(attention_scores)
    assert progress.read(course)["lab01_attention"]["attention_scores"].checks == 1


def test_the_command_says_it_and_the_file_is_ignored_by_git(course: Path) -> None:
    progress.note(course, said("project_qkv", passed=True))
    ran = subprocess.run(
        [sys.executable, "-m", "headroom", "progress"], cwd=REPOSITORY, env=os.environ, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "Lab 1: 1 of 3 passed" in ran.stdout, ran.stderr
    assert ".headroom/" in (REPOSITORY / ".gitignore").read_text().splitlines()
    assert private_environment(Path("s"), Path("c"))[STATE_VARIABLE] == "s"
    assert course_folder(REPOSITORY) == REPOSITORY


def test_the_website_shows_nobodys_progress(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lecture 0 shows one's own; whoever builds the website may have some."""
    (course / "lectures").mkdir()
    (course / "constraints.txt").touch()
    monkeypatch.setattr(build, "COURSE", course)
    progress.note(course, said("project_qkv", passed=True))
    assert "1 of 3 passed" in progress.table(course)
    showing = "from pathlib import Path\nfrom headroom.progress import table\nprint(table(Path('..').resolve()))"
    lecture = new_notebook(cells=[new_code_cell(showing)])
    ran = build.Book(course / "book", []).executed("lectures/00_start_here.ipynb", lecture)
    assert [output.text.split(".")[0] for output in ran.cells[0].outputs] == ["No check in a lab yet"]


def test_what_is_kept_of_a_check_is_bounded_and_read_as_it_was_written(course: Path) -> None:
    mistakes = [f"{number}: {'x' * 300}" for number in range(20)]
    progress.note(course, said("y" * 300, *mistakes))
    [line] = progress.file(course).read_text().splitlines()
    told = json.loads(line)
    assert told["lab"] == "lab01_attention" and told["exercise"] == "y" * 200 and told["at"].endswith("+00:00")
    assert told["mistakes"] == [one[:200] for one in mistakes[:10]]
    done = progress.read(course)["lab01_attention"]["y" * 200]
    assert done.made == told["mistakes"] and not done.passed
    assert not progress.file(course).with_name(progress.BROKEN).exists()


def test_a_mistake_that_comes_back_is_no_longer_overcome(course: Path) -> None:
    for mistakes in (["a", "b"], ["b"], ["a"], []):
        progress.note(course, said("project_qkv", *mistakes))
        done = progress.read(course)["lab01_attention"]["project_qkv"]
    assert sorted(done.overcome) == ["a", "b"] and done.made == [] and done.checks == 4
    progress.note(course, said("project_qkv", "a"))
    done = progress.read(course)["lab01_attention"]["project_qkv"]
    assert (done.overcome, done.made) == (["b"], ["a"])


def test_the_table_of_lecture_0_has_a_row_for_each_lab_that_was_begun(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert progress.table(course) == "No check in a lab yet. Next in the labs: begin Lab 1, project_qkv."
    progress.note(course, said("project_qkv", passed=True))
    progress.note(course, said("attention_scores", "no scaling"))
    table = progress.table(course)
    assert table.startswith(
        "<table><thead><tr><th>lab</th><th>checks</th><th>mistakes overcome</th><th>still there</th></tr></thead>"
        "<tbody><tr><td>Lab 1</td><td>1 of 3 passed</td><td>–</td><td>no scaling</td></tr></tbody></table>\n\n"
    )
    assert table.count("<tr>") == 2 and table.endswith("go on with Lab 1, attention&#95;scores.")
    for lab, names in progress.exercises(course).items():
        monkeypatch.chdir(course / "labs" / lab)
        for name in names:
            progress.note(course, said(name, passed=True))
    assert progress.text(course).endswith("Every check has passed.")
