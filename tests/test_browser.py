"""The course in a real JupyterLab in a real browser, as a student sees it."""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from autograder.exercises import find
from tests.browser import TOKEN, Lab, Server, copy_course, lab_server


@pytest.mark.quick
def test_the_lab_opens_on_the_first_notebook_ready_to_run(lab: Lab) -> None:
    """No dialog, no notification, the first notebook in front, its kernel idle."""
    lab.open_start()
    lab.screenshot("start")
    assert lab.page.evaluate("() => jupyterapp.shell.currentWidget.context.path") == "lectures/00_start_here.ipynb"
    assert lab.page.locator(".jp-Dialog").count() == 0
    assert lab.page.locator(".Toastify__toast").count() == 0


def test_a_screenshot_holds_what_the_window_cuts_off(browser, server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HEADROOM_SCREENSHOTS", str(tmp_path))
    lab = Lab(browser, server)
    before = lab.page.viewport_size
    lab.page.set_content(
        '<body style="margin:0"><div style="height:100vh;overflow:auto"><div style="height:1500px"></div>'
        '<div style="height:9px;background:#f00">'
    )
    lab.screenshot("long")
    assert lab.page.viewport_size == before
    lab.close()
    with Image.open(tmp_path / "long.png") as taken:
        assert taken.convert("RGB").getpixel((5, 1505)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("command", "tab", "selector", "words"),
    [
        ("nbgrader:open-formgrader", "Formgrader", "iframe", "Manage Assignments"),
        ("nbgrader:open-assignment-list", "Assignments", None, "Released assignments"),
    ],
)
def test_nbgraders_pages_open_for_instructors(
    browser, tmp_path, command: str, tab: str, selector: str | None, words: str
) -> None:
    """Formgrader answers HTTP 500 when `alembic` is not on PATH, the lists when there is no exchange folder."""
    with lab_server(copy_course(tmp_path / "headroom"), tmp_path / "home", instructor=True) as server:
        lab = Lab(browser, server)
        lab.open_start()
        lab.run_command(command)
        place = lab.page.frame_locator(selector) if selector else lab.page
        lab.bring_to_front(tab, place.get_by_text(words).first)
        lab.page.wait_for_load_state("networkidle")
        lab.screenshot(command.replace(":", "-"))
        lab.close()
        assert lab.errors == []


def test_students_see_lectures_and_labs_and_no_tools_for_instructors(lab: Lab) -> None:
    (lab.server.course / "mine").mkdir(exist_ok=True)
    lab.open_start()
    names = lab.page.locator(".jp-DirListing-itemText")
    deadline = time.monotonic() + 90
    while not {"labs", "lectures", "mine"} <= {*names.all_inner_texts()}:
        assert time.monotonic() < deadline, names.all_inner_texts()
        # Again and again: JupyterLab goes to the open notebook's folder once it has found it.
        lab.page.evaluate("() => { void jupyterapp.commands.execute('filebrowser:go-to-path', {path: '/'}); }")
        lab.page.wait_for_timeout(500)
    lab.screenshot("file-browser")
    assert not {"solutions", "jupyter", "nbgrader_config.py", "autograder", "tests"} & {*names.all_inner_texts()}
    commands = lab.page.evaluate("() => jupyterapp.commands.listCommands().filter((one) => one.startsWith('nbgrader'))")
    assert "nbgrader:open-assignment-list" in commands
    assert not {"nbgrader:open-formgrader", "nbgrader:open-course-list", "nbgrader:open-create-assignment"} & {
        *commands
    }


def test_a_lab_is_fetched_to_where_its_links_lead_on(browser, tmp_path) -> None:
    """Released and fetched through the Assignment List, a lab lies in labs/, and its link opens the lecture."""
    name, course = "lab02_multi_head", copy_course(tmp_path / "headroom")
    released = course / ".headroom" / "exchange" / "headroom" / "outbound" / name
    (course / ".headroom" / "exchange" / "headroom" / "inbound").mkdir(parents=True)
    released.parent.mkdir()
    shutil.move(course / "labs" / name, released)
    with lab_server(course, tmp_path / "home") as server:
        lab = Lab(browser, server)
        lab.open_start()
        lab.run_command("nbgrader:open-assignment-list")
        fetch = lab.page.locator("#released_assignments_list button", has_text="Fetch")
        lab.click_in("Assignments", fetch)
        fetched = lab.page.locator("#fetched_assignments_list")
        fetched.get_by_text("Submit").first.wait_for(timeout=240_000)
        lab.screenshot("fetched")
        assert (course / "labs" / name / "multi_head.ipynb").is_file()
        lab.open_notebook(f"labs/{name}/multi_head.ipynb")
        lab.page.locator(".jp-RenderedMarkdown a", has_text="Lecture 3").first.click()
        lab.page.get_by_role("tab", name="03_multi_head_self_attention.ipynb").wait_for(timeout=240_000)
        lab.close()


def test_widgets_never_call_back_from_another_thread(lab: Lab) -> None:
    """Callbacks in a subshell run beside the cell that runs, which corrupts figures."""
    lab.open_start()
    value = lab.page.evaluate(
        """async () => {
            const settings = await jupyterapp.serviceManager.settings.fetch(
                '@jupyterlab/apputils-extension:kernels-settings');
            return JSON.stringify(settings);
        }"""
    )
    assert '"default":"disabled"' in value.replace(" ", "")


def test_nothing_is_written_into_the_home_folder(browser, tmp_path) -> None:
    """Open the lab, run the first notebook, complete a word, open Formgrader, stop with Ctrl-C: home stays empty."""
    home = tmp_path / "home"
    with lab_server(copy_course(tmp_path / "headroom"), home, instructor=True) as server:
        lab = Lab(browser, server)
        lab.open_start()
        lab.run_all()
        assert "getcwd" in lab.complete("import os\nos.get"), "the kernel completes words, and caches what it learns"
        lab.run_command("docmanager:save")
        lab.run_command("nbgrader:open-formgrader")
        lab.bring_to_front("Formgrader", lab.page.frame_locator("iframe").get_by_text("Manage Assignments").first)
        lab.close()
        assert server.interrupt() == 0
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) == []


def test_no_line_of_code_runs_off_a_narrow_window(lab: Lab) -> None:
    """Two columns share 1,024 pixels: the files and the notebook, whose first cell has lines of 80 characters."""
    lab.page.set_viewport_size({"width": 1024, "height": 1000})
    lab.open_notebook("lectures/00_start_here.ipynb")
    code = lab.page.locator(".jp-CodeCell:not(.jp-mod-noInput) .cm-scroller", has_text="a Vision Transformer")
    expect(code).to_be_visible()
    lab.screenshot("narrow")
    assert code.evaluate("(shown) => shown.scrollWidth - shown.clientWidth") <= 0


def test_a_question_never_fetches_another_mathjax(lab: Lab) -> None:
    """Which jupyterquiz does where MathJax has no `typeset`: JupyterLab's, that it may load after the question."""
    lab.open_notebook("lectures/00_start_here.ipynb")
    first = next(cell["id"] for cell in lab.cells() if cell["cell_type"] == "code")
    lab.set_source(first, 'from headroom.quiz import ask\nask("One?\\n+ Yes.\\n  It is.\\n- No.\\n  It is.")')
    lab.run_cell(first)
    expect(lab.page.locator(".MCButton").first).to_be_visible()
    loaded = "() => { window.MathJax = { version: '3.2.2' }; return Object.hasOwn(window.MathJax, 'typeset'); }"
    assert lab.page.evaluate(loaded)
    lab.page.wait_for_timeout(800)  # it looks again after 500 ms


def test_in_a_question_keys_are_its_own_and_shift_enter_goes_on(lab: Lab) -> None:
    lab.open_notebook("lectures/00_start_here.ipynb")
    first = next(cell["id"] for cell in lab.cells() if cell["cell_type"] == "code")
    lab.set_source(first, 'from headroom.quiz import ask\nask("One?\\n+ Yes.\\n  It is.\\n- No.\\n  It is.")')
    lab.run_cell(first)
    cells = len(lab.cells())
    active = lab.page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
    lab.page.locator(".MCButton").first.click()
    lab.page.keyboard.press("b")  # which the notebook would take for a new cell
    expect(active.locator(".MCButton").first).to_be_visible()
    lab.page.keyboard.press("Shift+Enter")
    expect(active).to_have_count(1)
    expect(active.locator(".MCButton")).to_have_count(0)
    assert len(lab.cells()) == cells


def test_formulas_fit_into_a_small_window_and_a_wider_one_scrolls(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1024, "height": 1000})
    lab.open_notebook("lectures/02_attention_scores.ipynb")
    formulas = lab.page.locator(".jp-RenderedMarkdown mjx-container[display=true]:visible")
    formulas.last.scroll_into_view_if_needed()
    wider = (
        "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => getComputedStyle(one).overflowX)"
    )
    assert formulas.evaluate_all(wider) == []
    formulas.last.evaluate("(one) => { one.firstElementChild.style = 'display: inline-block; min-width: 2000px'; }")
    lab.screenshot("narrow-formulas")
    assert formulas.evaluate_all(wider) == ["auto"]


@pytest.mark.full
def test_a_taken_port_is_replaced_by_the_next_free_one(server: Server, tmp_path) -> None:
    """Another folder's lab on the same port starts on another and says so."""
    taken = int(server.address.rsplit(":", 1)[1])
    with lab_server(copy_course(tmp_path / "headroom"), tmp_path / "home", port=taken) as second:
        assert second.address != server.address
        assert f"Port {taken} is not free" in second.log.read_text()


def test_a_start_says_where_it_is_and_how_it_stops_and_warnings_show(server: Server) -> None:
    said = server.log.read_text()
    where = rf"running at\n    {re.escape(server.address)}/lab\S*\?token={TOKEN}\nCtrl-C here stops it\.\n"
    assert re.search(where, said), said
    assert not re.findall(r"^\[[DI] .*", said, re.MULTILINE), "what is of no use to a student"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{server.address}/api/contents/nothing?token={TOKEN}", timeout=60)
    warned, end = re.compile(r"^\[W .*404 GET /api/contents/nothing", re.MULTILINE), time.monotonic() + 60
    while not warned.search(said := server.log.read_text()) and time.monotonic() < end:
        time.sleep(0.1)  # a server writes its log after it has answered
    assert warned.search(said), said


def test_a_second_start_opens_the_lab_that_is_running(server: Server) -> None:
    def started(*arguments: str) -> str:
        command = [sys.executable, "-m", "headroom", "lab", *arguments]
        ran = subprocess.run(command, cwd=server.course, env=environment, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    environment = os.environ | {"BROWSER": "echo opened %s"}
    said = started()
    assert f"running for this folder already:\n    {server.address}/lab?token={TOKEN}\n" in said
    (opened,) = re.findall(r"opened file://(.*)", said)
    assert f"{server.address.removeprefix('http://')}/lab" in Path(opened).read_text()
    assert "opened" not in started("--no-browser")


def test_lecture_9_trains_and_its_widget_follows_the_pointer(lab: Lab) -> None:
    """The whole lecture runs in JupyterLab, offline; hovering a patch changes the line that says what is shown."""
    lab.open_notebook("lectures/09_vit_on_mnist.ipynb")
    lab.run_all(timeout=600)

    widget = lab.cell("widget").locator(".headroom-attention-explorer")
    picture, live = widget.locator("[data-part=image]"), widget.locator("[data-part=live]")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    for column, row in [(1, 1), (2, 2)]:
        lab.page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 4, box["y"] + (row + 0.5) * box["height"] / 4)
        expect(live).to_contain_text(f"patch row {row + 1}, column {column + 1} gives most weight", timeout=240_000)
    lab.screenshot("lecture-09-hover")


WRONG_ANSWER = """
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), self.n_heads, x.size(1), self.d_head)

    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        heads, _ = attention(q, k, v, mask)
        return self.w_o(heads.transpose(1, 2).reshape(x.shape))
"""


@pytest.mark.quick
def test_a_wrong_answer_in_lab_2_is_told_its_mistake(lab: Lab) -> None:
    """Heads cut with a view alone: fill it in, run the check cell, read the mistake's name."""
    lab.open_notebook("labs/lab02_multi_head/multi_head.ipynb")
    lab.set_source("multi-head", WRONG_ANSWER.strip())
    for cell in ("setup", "given-attention", "multi-head", "check-multi-head"):
        lab.run_cell(cell)
    verdict = lab.cell("check-multi-head").locator(".jp-OutputArea-output")
    lab.screenshot("lab-02-diagnosis")
    mistake = find("MultiHeadSelfAttention").mistake("view_split")
    expect(verdict).to_contain_text(mistake.title)
