"""What students get: everything that lectures, labs and `check` need, and no answer that they could do without."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder.pipeline import labs, student_copy
from autograder.pipeline.course import Failed
from headroom.lab import MACHINERY
from tests.test_labs import NOTEBOOKS, cells, secrets

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, zipped = student_copy.make(REPOSITORY, tmp_path_factory.mktemp("copy") / "headroom-students")
    within = {path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in zipfile.ZipFile(zipped).namelist() if not name.endswith("/")} == within
    return folder


def run(copy: Path, *command: str) -> subprocess.CompletedProcess:
    variables = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)


def test_it_holds_the_course_and_nothing_else(copy: Path) -> None:
    assert {path.name for path in (copy / "lectures").glob("*.ipynb")} == {
        path.name for path in (REPOSITORY / "lectures").glob("*.ipynb")
    }
    assert sorted(path.name for path in (copy / "labs").iterdir()) == labs.names(REPOSITORY)
    assert not {"solutions", "tests", "benchmarks", "development.mk", "website"} & {
        path.name for path in copy.iterdir()
    }
    assert not [path for path in copy.rglob("*") if path.name.startswith(".") or path.name == "__pycache__"]


# A lab and a lecture hand out what an earlier lab has asked for.
GIVEN_LATER = {("multi_head.ipynb", "decoder.ipynb"), ("vit.ipynb", "09_vit_on_mnist.ipynb")}


def test_no_solution_and_no_model_answer_is_in_it(copy: Path) -> None:
    """But for what the reference is: `check` compares with it, and docs/security.md says so."""
    reference = copy / "headroom" / "reference"
    texts = {path.name: "\n\n".join(cell.source for cell in cells(path)) for path in copy.rglob("*.ipynb")}
    for path in (one for one in copy.rglob("*") if one.suffix in (".py", ".md", ".toml", ".json", ".yml")):
        if not path.is_relative_to(reference):
            texts[path.relative_to(copy).as_posix()] = path.read_text(encoding="utf-8")
    long = [(path.name, secret) for path in NOTEBOOKS for secret in secrets(path) if len(secret) > 250]
    assert len(long) > 10
    told = {(source, name) for source, secret in long for name, text in texts.items() if secret in text}
    assert told == GIVEN_LATER
    notebooks = [text for name, text in texts.items() if name.endswith(".ipynb")]
    assert not [text for text in notebooks if "BEGIN SOLUTION" in text or "BEGIN HIDDEN" in text]


def test_its_pages_speak_to_students_and_lead_somewhere(copy: Path) -> None:
    readme = (copy / "README.md").read_text(encoding="utf-8")
    assert "## Students" in readme and "## Licences" in readme and "not for students" not in readme
    assert not re.search(r"## (Instructors|Contributors)|make (test|grade|labs)\b|solutions/", readme)
    for page in (copy / "README.md", *(copy / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#\s]+)", text)
        assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == [], page.name
        assert "For instructors" not in text


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="there is no make")
def test_it_sets_itself_up_by_the_same_two_commands(copy: Path) -> None:
    """`make setup` and `make lab`, as far as they go without a network: what they run is there, and needs no tests."""
    said = run(copy, "make", "--no-print-directory", "-n", "lab").stdout.splitlines()
    assert said[-2].endswith("; python3 bootstrap.py") and said[-1] == ".venv/bin/python -m headroom lab "
    assert run(copy, "make", "help").stdout.count("make ") == 3
    code = "import bootstrap\nbootstrap.Installers.bring = lambda self, pinned, target, check: print(target)\n"
    code += "bootstrap.check_disk = lambda *about: None\nbootstrap.set_up(bootstrap.ROOT)"
    assert "." in run(copy, sys.executable, "-c", code).stdout.splitlines()
    for name in ("pyproject.toml", "constraints.txt", "LICENSE", "README.md", "headroom", "autograder"):
        assert (copy / name).exists(), "what installing it needs"


@pytest.mark.full
def test_check_judges_in_it(copy: Path) -> None:
    path = copy / "labs" / "lab04_layer_norm" / "layer_norm.ipynb"
    notebook = nbformat.read(path, as_version=4)
    source = REPOSITORY / "solutions" / "lab04_layer_norm" / "layer_norm.ipynb"
    right = {cell.id: cell.source for cell in cells(source)}
    for cell in notebook.cells:
        cell.source = right.get(cell.id, cell.source) if cell.id == "layer-norm" else cell.source
    filled = copy / "labs" / "lab04_layer_norm" / "mine.ipynb"
    nbformat.write(notebook, filled)
    done = run(copy, sys.executable, "-m", "autograder", "check", str(filled))
    filled.unlink()
    assert "✓ LayerNorm" in done.stdout and "✗ RMSNorm: not attempted yet" in done.stdout, done.stdout + done.stderr
    where = run(
        copy, sys.executable, "-c", "import autograder, headroom; print(autograder.__file__, headroom.__file__)"
    )
    assert where.stdout.count(str(copy)) == 2


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Failed, match="holds something else"):
        student_copy.make(REPOSITORY, tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_later_copy_leaves_the_environment_in_its_place(tmp_path: Path) -> None:
    """That of a hub's students (docs/jupyterhub.md), which takes minutes to make and is no part of the zip."""
    (tmp_path / "course" / ".venv").mkdir(parents=True)
    (tmp_path / "course" / ".venv" / "pyvenv.cfg").touch()
    for _ in range(2):
        folder, zipped = student_copy.make(REPOSITORY, tmp_path / "course")
        (folder / "lectures" / "of an older version.ipynb").touch()
    assert (folder / ".venv" / "pyvenv.cfg").exists()
    names = zipfile.ZipFile(zipped).namelist()
    assert "course/README.md" in names and not [one for one in names if ".venv" in one or "older" in one]


def test_feedback_on_an_instructors_own_trial_is_not_in_it(tmp_path: Path) -> None:
    """JupyterLab's Assignment List puts it into the lab's folder, which everybody else's copy has, too."""
    course = tmp_path / "course"
    for name in ("solutions/lab1", "labs/lab1/feedback/2026-11-30", "labs/lab1/pictures", "lectures/feedback"):
        (course / name).mkdir(parents=True)
    (course / "pyproject.toml").write_text('[tool.autograder]\nexercises = "exercises"\nstudents = ["lectures"]\n')
    for name in ("labs/lab1/lab.ipynb", "labs/lab1/pictures/one.png", "lectures/feedback/loops.ipynb"):
        (course / name).touch()
    (course / "solutions" / "lab1" / "lab.ipynb").touch()
    (course / "labs" / "lab1" / "feedback" / "2026-11-30" / "lab.html").touch()
    folder, _ = student_copy.make(course, tmp_path / "copy")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"labs/lab1/lab.ipynb", "labs/lab1/pictures/one.png", "lectures/feedback/loops.ipynb"}


def test_what_running_and_installing_leave_behind_is_not_in_it(tmp_path: Path) -> None:
    course = tmp_path / "course"
    for name in ("solutions/lab1", "labs/lab1", "lectures/__pycache__", "lectures/x.egg-info", "lectures/node_modules"):
        (course / name).mkdir(parents=True)
        (course / name / "lab.ipynb").touch()
    (course / "pyproject.toml").write_text(
        '[tool.autograder]\nexercises = "exercises"\nstudents = ["lectures", "a.md"]\n'
    )
    for name in ("lectures/one.ipynb", "lectures/.hidden", "lectures/two.pyc", "a.md"):
        (course / name).touch()
    (course / "a.md").write_text("for all <!-- not for students -->for some<!-- for students -->\n\nagain")
    folder, _ = student_copy.make(course)
    assert folder == course / student_copy.FOLDER and (folder / "a.md").read_text() == "for all again"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"labs/lab1/lab.ipynb", "lectures/one.ipynb", "a.md"}


def test_what_is_to_be_in_it_and_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "solutions" / "lab1").mkdir(parents=True)
    (tmp_path / "solutions" / "lab1" / "lab.ipynb").touch()
    (tmp_path / "a.md").touch()
    for listed, said in (
        ("", r"does not say what students get, as students = \[\.\.\.\]"),
        ('students = ["a.md", "gone"]', "lists 'gone' for students, which is not there"),
        ('students = ["a.md"]', r"There is no labs/lab1: make labs makes it\."),
    ):
        (tmp_path / "pyproject.toml").write_text(f'[tool.autograder]\nexercises = "exercises"\n{listed}\n')
        with pytest.raises(Failed, match=said):
            student_copy.make(tmp_path)


def test_the_file_browser_hides_all_that_is_no_lecture_and_no_lab() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("there is no git here")
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} - {*MACHINERY} == {"lectures", "labs"}
