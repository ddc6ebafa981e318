"""The page with the course's map: what it counts as done and as next, and how JupyterLab shows it."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from headroom import progress, start_page
from headroom.course import BY_NAME, core
from headroom.lab import STATE, STATE_VARIABLE
from headroom.start_page import standing
from tests.browser import TOKEN, Lab, copy_course, lab_server
from tests.test_browser import WRONG_ANSWER

REPOSITORY = Path(__file__).resolve().parents[1]
MAP = "Course map"  # its tab
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
    """Save a lecture as it is after its first code cells, or all of its core path, were run."""
    [path] = course.glob(f"lectures/{name}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    for n, cell in enumerate([cell for cell in core(notebook.cells) if cell["cell_type"] == "code"][:cells], 1):
        cell["execution_count"] = n
    nbformat.write(notebook, path)


def passed(course: Path, lab: str, *exercises: str) -> None:
    lines = [{"lab": lab, "exercise": name, "attempted": True, "passed": True, "mistakes": []} for name in exercises]
    path = progress.file(course)
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def done(course: Path) -> dict[str, tuple[int, int]]:
    return {piece["name"]: (piece["done"], piece["of"]) for piece in standing(course)["pieces"] if piece["done"]}


def test_the_page_leads_to_the_help_that_is_there(course: Path) -> None:
    assert standing(course)["help"] == ""
    (course / "docs").mkdir()
    (course / "docs" / "students.md").touch()
    assert standing(course)["help"] == "docs/students.md"


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
    assert pieces["01"]["minutes"] == pieces["lab01"]["minutes"] == "" != pieces["00"]["minutes"]


def names_that_are_cut(lab: Lab) -> list[str]:
    return lab.page.locator(".jp-DirListing-itemText").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
    )


def test_the_map_opens_notebooks_and_says_what_is_done(browser, tmp_path: Path) -> None:
    """The first time beside lecture 0; once something was done, in front."""
    course = copy_course(tmp_path / "headroom")
    shutil.copy2(REPOSITORY / "pyproject.toml", course)  # by which `check` notes what has passed
    with lab_server(course, tmp_path / "home") as server:
        lab = Lab(browser, server)
        lab.open_start()
        before = (course / "lectures" / "00_start_here.ipynb").read_bytes()
        names = lab.page.locator(".jp-DirListing-itemText")
        expect(names.filter(has_text="03_multi_head")).to_be_visible()
        assert names_that_are_cut(lab) == []
        start = lab.page.locator(".headroom-start")
        lab.bring_to_front(MAP, start.get_by_text("Next: Lecture 0, Start here."))
        lab.click_in(MAP, start.get_by_role("link", name="Lab 2 · Multi-head self-attention"))
        lab.wait_for_kernel()
        assert lab.page.evaluate("() => jupyterapp.shell.currentWidget.context.path") == MULTI_HEAD
        lab.set_source(
            "multi-head",
            WRONG_ANSWER.strip().replace(
                "x.view(x.size(0), self.n_heads, x.size(1), self.d_head)",
                "x.view(x.size(0), x.size(1), self.n_heads, self.d_head).transpose(1, 2)",
            ),
        )
        for cell in ("setup", "given-attention", "multi-head", "check-multi-head"):
            lab.run_cell(cell)
        lab.bring_to_front(MAP, start.locator("[data-piece=lab02]", has_text="checks passed"))
        lab.screenshot("course-map")
        found = Axe().run(lab.page, context=".headroom-start").response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")] == []
        lab.close()
        assert lab.errors == lab.left_the_machine == []
        assert (course / "lectures" / "00_start_here.ipynb").read_bytes() == before
    with lab_server(course, tmp_path / "home") as server:
        lab = Lab(browser, server)
        lab.page.set_viewport_size({"width": 380, "height": 800})
        lab.page.goto(f"{server.address}/?token={TOKEN}")
        expect(lab.page.locator(".headroom-start [data-piece=lab02]")).to_contain_text("checks passed", timeout=90_000)
        assert lab.page.evaluate("() => jupyterapp.shell.leftCollapsed")
        lab.screenshot("course-map-380")
        lab.close()


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
    lab.page.get_by_role("tab", name=MAP).locator(".lm-TabBar-tabCloseIcon").click()
    expect(lab.page.locator(".headroom-start")).to_have_count(0)
    lab.run_command("launcher:create")
    card = lab.page.locator(".jp-LauncherCard", has_text="Course map")
    lab.click_in("Launcher", card, shows=lab.page.locator(".headroom-map"))


def test_who_comes_back_to_the_map_sees_what_was_done_meanwhile(
    lab: Lab, course_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as in a terminal, or in another tab: the map was in front all the time."""
    monkeypatch.setenv(STATE_VARIABLE, str(course_copy / STATE))
    lab.open_start()
    piece = lab.page.locator(".headroom-start [data-piece=lab01]")
    lab.bring_to_front(MAP, piece)
    expect(piece).not_to_contain_text("checks passed")
    passed(course_copy, "lab01_attention", "project_qkv")
    lab.page.evaluate("() => dispatchEvent(new Event('focus'))")
    lab.bring_to_front(MAP, lab.page.locator("[data-piece=lab01]", has_text="1 of 3 checks passed"))


def test_the_map_shows_the_server_that_it_is_the_servers_own_page_and_says_if_that_is_not_enough(lab: Lab) -> None:
    """A hub's server refuses what comes with a cookie alone."""
    headers = list[dict[str, str]]()

    def refuse(route) -> None:
        headers.append(route.request.headers)
        route.continue_(url=route.request.url.replace("/course", "/nothing"))

    lab.page.route("**/headroom/course*", refuse)
    lab.open_start()
    lab.bring_to_front(MAP, lab.page.get_by_text("The map cannot be shown: the server answers 404."))
    assert {"authorization", "x-xsrftoken"} & headers[0].keys()
    lab.page.unroute("**/headroom/course*")
    lab.page.evaluate("() => dispatchEvent(new Event('focus'))")
    lab.bring_to_front(MAP, lab.page.locator(".headroom-map"))
    lab.errors.clear()


def test_widgets_that_come_back_leave_a_notebook_saved(lab: Lab) -> None:
    lab.open_start()
    lab.run_cell(lab.cells()[1]["id"])
    lab.page.wait_for_selector(".jp-OutputArea-output .jupyter-widgets, .jp-OutputArea-output [class*=headroom]")
    lab.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    lab.page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    lab.page.reload()
    lab.page.wait_for_selector(".jp-OutputArea-output .jupyter-widgets, .jp-OutputArea-output [class*=headroom]")
    lab.page.wait_for_timeout(3000)
    assert lab.page.evaluate("() => jupyterapp.shell.currentWidget.context.model.dirty") is False


def test_whoever_does_labs_alone_is_led_to_the_next_lab(course: Path) -> None:
    assert standing(course)["next"] == ["00"]
    passed(course, "lab01_attention", "project_qkv")
    assert standing(course)["next"] == ["00", "lab01"]
    passed(course, "lab01_attention", *progress.exercises(course)["lab01_attention"])
    assert standing(course)["next"] == ["00", "lab02"]
    run(course, "00")
    assert standing(course)["next"] == ["01"], "who reads lectures does a lab after its own"


def test_a_piece_is_told_with_all_that_its_box_shows(course: Path) -> None:
    pieces = {piece["name"]: piece for piece in standing(course)["pieces"]}
    assert list(pieces) == ["00", "01", "02", "lab01", "03", "lab02"], "in reading order"
    for name, piece in pieces.items():
        known = BY_NAME[name]
        assert (piece["title"], piece["builds"], piece["place"]) == (known.title, known.builds, known.place)
        assert piece["lab"] == known.is_lab and (course / piece["path"]).is_file() and not piece["path"].startswith("/")
        assert piece["needs"] == list(known.needs) and piece["minutes"] and piece["done"] == 0 < piece["of"]


def test_the_server_answers_at_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    added = []
    web_app = SimpleNamespace(settings={"base_url": "/user/ann/"}, add_handlers=lambda *given: added.append(given))
    start_page._load_jupyter_server_extension(SimpleNamespace(web_app=web_app))
    assert added == [(".*$", [("/user/ann/headroom/course", start_page.Standing)])]
    assert start_page._jupyter_server_extension_points() == [{"module": "headroom.start_page"}]
