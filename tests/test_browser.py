"""The course in a real JupyterLab in a real browser, as a student sees it."""

import pytest
from browser import Lab, Server, lab_server


def test_the_lab_opens_on_the_first_notebook_ready_to_run(lab: Lab) -> None:
    """No dialog, no notification, the first notebook in front, its kernel idle."""
    lab.open_start()
    lab.screenshot("start")
    assert lab.page.evaluate("() => jupyterapp.shell.currentWidget.context.path") == "lectures/00_start_here.ipynb"
    assert lab.page.locator(".jp-Dialog").count() == 0
    assert lab.page.locator(".Toastify__toast").count() == 0


@pytest.mark.parametrize(
    ("command", "selector", "words"),
    [
        ("nbgrader:open-formgrader", "iframe", "Manage Assignments"),
        ("nbgrader:open-assignment-list", None, "Released assignments"),
    ],
)
def test_nbgraders_pages_open(lab: Lab, command: str, selector: str | None, words: str) -> None:
    """Formgrader answers HTTP 500 when `alembic` is not on PATH, the lists when there is no exchange folder."""
    lab.open_start()
    lab.run_command(command)
    place = lab.page.frame_locator(selector) if selector else lab.page
    place.get_by_text(words).first.wait_for(timeout=30_000)
    lab.page.wait_for_load_state("networkidle")
    lab.screenshot(command.replace(":", "-"))


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


def test_nothing_is_written_into_the_home_folder(browser, course_copy, tmp_path) -> None:
    """Open the lab, run the first notebook, complete a word, open Formgrader, stop with Ctrl-C: home stays empty."""
    home = tmp_path / "home"
    with lab_server(course_copy, home) as server:
        lab = Lab(browser, server)
        lab.open_start()
        lab.run_all()
        assert "getcwd" in lab.complete("import os\nos.get"), "the kernel completes words, and caches what it learns"
        lab.run_command("docmanager:save")
        lab.run_command("nbgrader:open-formgrader")
        lab.page.frame_locator("iframe").get_by_text("Manage Assignments").first.wait_for(timeout=30_000)
        lab.close()
        assert server.interrupt() == 0
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) == []


def test_a_taken_port_is_replaced_by_the_next_free_one(server: Server, course_copy, tmp_path) -> None:
    """A second lab on the same port starts on another and says so."""
    taken = int(server.address.rsplit(":", 1)[1])
    with lab_server(course_copy, tmp_path / "home", port=taken) as second:
        assert second.address != server.address
        assert f"port {taken} is already in use" in second.log.read_text()
