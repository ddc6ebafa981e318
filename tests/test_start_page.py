"""The page with the course's map: what it counts as done and as next, and how JupyterLab shows it."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from headroom import progress
from headroom.lab import STATE, STATE_VARIABLE
from headroom.start_page import standing
from tests.browser import Lab

REPOSITORY = Path(__file__).resolve().parents[1]
MULTI_HEAD = "labs/lab02_multi_head/multi_head.ipynb"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first lectures and labs, and nothing done."""
    for path in [*REPOSITORY.glob("lectures/0[0-3]*.ipynb"), *REPOSITORY.glob("labs/lab0[12]*/*.ipynb")]:
        copy = tmp_path / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / STATE))
    return tmp_path


def run(course: Path, name: str, cells: int | None = None) -> None:
    """Save a lecture as it is after its first code cells, or all of them, were run."""
    [path] = course.glob(f"lectures/{name}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    for n, cell in enumerate([cell for cell in notebook.cells if cell.cell_type == "code"][:cells], 1):
        cell.execution_count = n
    nbformat.write(notebook, path)


def passed(course: Path, lab: str, *exercises: str) -> None:
    lines = [{"lab": lab, "exercise": name, "attempted": True, "passed": True, "mistakes": []} for name in exercises]
    path = progress.file(course)
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def done(course: Path) -> dict[str, tuple[int, int]]:
    return {piece["name"]: (piece["done"], piece["of"]) for piece in standing(course)["pieces"] if piece["done"]}


def test_what_was_run_and_what_has_passed_is_done_and_what_follows_is_next(course: Path) -> None:
    assert done(course) == {} and standing(course)["next"] == ["00"]
    run(course, "00")
    assert standing(course)["next"] == ["01"]
    run(course, "01", cells=2)
    run(course, "02")
    assert standing(course)["next"] == ["03", "lab01"], "lecture 1 was left for lecture 2"
    passed(course, "lab01_attention", "project_qkv", "attention_scores")
    counted = done(course)
    assert counted["lab01"] == (2, 3) and counted["01"][0] == 2 < counted["01"][1]
    assert counted["00"][0] == counted["00"][1]
    run(course, "03")
    passed(course, "lab01_attention", *progress.exercises(course)["lab01_attention"])
    assert standing(course)["next"] == ["lab02"]
    passed(course, "lab02_multi_head", *progress.exercises(course)["lab02_multi_head"])
    assert standing(course)["next"] == []


@pytest.mark.parametrize("broken", ["", "[]", '{"cells": [{}]}', '{"cells": [{"cell_type": "code"}]}', "\ufffd"])
def test_a_notebook_that_is_none_is_on_the_map_all_the_same(course: Path, broken: str) -> None:
    for path in (*course.glob("lectures/01*.ipynb"), *course.glob("labs/lab01*/*.ipynb")):
        path.write_text(broken)
    pieces = {piece["name"]: piece for piece in standing(course)["pieces"]}
    assert pieces["01"]["done"] == pieces["lab01"]["done"] == 0
    assert pieces["01"]["minutes"] and pieces["lab01"]["minutes"]


def test_a_notebook_that_was_only_opened_is_not_unsaved(lab: Lab) -> None:
    lab.open_start()
    dirty = "() => jupyterapp.shell.currentWidget.context.model.dirty"
    lab.page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.context.model.getMetadata('language_info').version"
    )
    assert lab.page.evaluate(dirty) is False
    lab.set_source(lab.cells()[0]["id"], "changed")
    assert lab.page.evaluate(dirty) is True


def test_the_launcher_brings_the_map_back(lab: Lab) -> None:
    lab.open_start()
    lab.page.get_by_role("tab", name="Course map").locator(".lm-TabBar-tabCloseIcon").click()
    expect(lab.page.locator(".headroom-start")).to_have_count(0)
    lab.run_command("launcher:create")
    lab.page.locator(".jp-LauncherCard", has_text="Course map").click()
    expect(lab.page.locator(".headroom-map")).to_be_visible()
