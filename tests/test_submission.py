"""What is read from a submitted file, and what the instructor's cells become in it; no kernel is started."""

import base64
import contextlib
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from jupyter_client.kernelspec import NoSuchKernel
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from traitlets.config import Config

from autograder import probe
from autograder.exercises import find
from autograder.kernels import launch, provisioner
from autograder.kernels.launch import NoIsolation
from autograder.pipeline import execute, kernel_side, running, submission, unit
from autograder.pipeline.account import Account
from autograder.pipeline.cells import checked_name
from autograder.pipeline.course import within_reach
from autograder.pipeline.execute import JudgedExecute
from autograder.pipeline.integrity import NOTED, UNREAD, UNSEEN
from autograder.pipeline.messenger import why_missing
from autograder.pipeline.recorded import KEY
from autograder.pipeline.running import NOT_ENDED
from autograder.pipeline.submission import SubmissionExporter, Unreadable, read, restore
from autograder.verdict import Verdict, not_judged
from headroom import reference


def released_cell(grade_id: str, source: str, **about: bool | float) -> NotebookNode:
    nbgrader = {"grade": False, "solution": False, "locked": False, "task": False, "grade_id": grade_id} | about
    return new_code_cell(source, metadata={"nbgrader": nbgrader})


RELEASED = {
    "setup": released_cell("setup", "import torch", locked=True),
    "first": released_cell("first", "# YOUR CODE HERE", solution=True),
    "check-first": released_cell("check-first", "check(First)", grade=True, locked=True, points=4.0),
    "second": released_cell("second", "# YOUR CODE HERE", solution=True),
    "check-second": released_cell("check-second", "check(Second)", grade=True, locked=True, points=6.0),
}


def submitted(*names: str) -> list[NotebookNode]:
    """The released cells of these names, in this order, as a student hands them in."""
    return [nbformat.from_dict(json.loads(json.dumps(RELEASED[name]))) for name in names]


def silent(index: int, name: str, request: bytes) -> bytes:
    """In place of a messenger."""
    return b""


def ids(cells: list[NotebookNode]) -> list[str | None]:
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]


def test_an_honest_submission_keeps_its_answers_and_loses_its_tags() -> None:
    cells = submitted(*RELEASED)
    cells[1].source = "first = 1"
    cells[1].metadata.tags = ["skip-execution"]
    cells.insert(2, new_code_cell("print(first)", metadata={"tags": ["raises-exception"]}))
    restored = restore(cells, RELEASED)
    assert ids(restored) == ["setup", "first", None, "check-first", "second", "check-second"]
    assert [cell.source for cell in restored[1:3]] == ["first = 1", "print(first)"]
    assert not any("tags" in cell.metadata for cell in restored)


def test_changed_checks_become_the_instructors() -> None:
    cells = submitted(*RELEASED)
    cells[2].source = "10.0"
    cells[2].metadata.nbgrader.update(points=1000, grade=False, locked=False, solution=True)
    cells[4] = new_markdown_cell("gone", metadata=cells[4].metadata)
    restored = restore(cells, RELEASED)
    assert [checked_name(cell) for cell in restored] == [None, None, "First", None, "Second"]
    assert restored[2].metadata == RELEASED["check-first"].metadata


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (["setup", "first", "second", "check-second"], ["setup", "first", "check-first", "second", "check-second"]),
        (["setup", "second", "check-second"], ["setup", "check-first", "second", "check-second"]),
        (["setup", "first", "check-first"], ["setup", "first", "check-first", "check-second"]),
        ([], ["check-first", "check-second"]),
        (["second", "first"], ["second", "check-second", "first", "check-first"]),
    ],
)
def test_deleted_checks_come_back_and_deleted_answers_do_not(left: list[str], expected: list[str]) -> None:
    assert ids(restore(submitted(*left), RELEASED)) == expected


def test_a_task_that_was_deleted_comes_back() -> None:
    task = new_markdown_cell("Draw it.", metadata={"nbgrader": RELEASED["setup"].metadata.nbgrader | {"task": True}})
    task.metadata.nbgrader.update(grade_id="task", points=2.0)
    assert ids(restore([], {"task": task})) == ["task"]


def test_of_two_cells_with_one_id_the_last_keeps_it() -> None:
    cells = submitted("first", "first", "check-first")
    cells[0].source, cells[1].source = "first = 1", "first = 2"
    restored = restore(cells, RELEASED)
    assert ids(restored) == [None, "first", "check-first", "check-second"]
    assert [cell.source for cell in restored[:2]] == ["first = 1", "first = 2"]


@pytest.mark.parametrize("about", ["text", None, {"grade_id": ["list"]}, {"grade_id": "unknown", "grade": True}, {}])
def test_nonsense_metadata_is_dropped(about: object) -> None:
    cell = new_code_cell("x = 1", metadata={"nbgrader": about})
    assert restore([cell], RELEASED)[0].metadata == {}


def test_every_readable_notebook_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "odd.ipynb"
    cells = [
        {"cell_type": "code", "source": ["a = ", 3, "'\ud800'"], "metadata": None, "outputs": "none"},
        {"cell_type": "unheard of", "source": "b"},
        "no cell",
        {"cell_type": "markdown", "source": 7, "metadata": {}, "id": "not an id!", "more": 1},
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 9, "metadata": [], "cells": cells}))
    notebook = read(path)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["code", "markdown"]
    nbformat.writes(notebook).encode("utf-8")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" \n", b"{", b"[]", b"7", b"null", b"\xff\xfe\x00", b"[" * 100_000),
        *(b'{"cells": 3}', b'{"nbformat": 4}', b'{"nbformat": "4", "cells": []}'),
        b'{"nbformat": 1e99, "cells": [], "metadata": {}}',
        b'{"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {}}',
    ],
)
def test_what_is_no_notebook_is_unreadable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_bytes(data)
    with pytest.raises(Unreadable):
        read(path)


def test_a_notebook_of_an_older_format_is_bounded_as_it_is_read(tmp_path: Path) -> None:
    """Attack: a heading of level n has n characters more."""
    path = tmp_path / "old.ipynb"
    heading = {"cell_type": "heading", "level": 60_000_000, "source": "x", "metadata": {}}
    path.write_text(
        json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [heading]}]})
    )
    with pytest.raises(Unreadable, match="in the present format it is larger than"):
        read(path)


def test_a_notebook_that_takes_too_much_memory_is_not_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: millions of empty objects in 20 MB; whoever handed it in is told what is wrong with it."""
    path = tmp_path / "large.ipynb"
    path.write_text(nbformat.writes(new_notebook()))

    def full(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(nbformat, "from_dict", full)
    with pytest.raises(Unreadable, match="more memory"):
        read(path)


def test_a_notebook_of_an_older_format_and_one_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path, cells = tmp_path / "first.ipynb", [{"cell_type": "code", "input": "x = 1", "metadata": {}, "outputs": []}]
    path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}))
    assert [cell.source for cell in read(path).cells] == ["x = 1"]
    path.write_text(nbformat.writes(new_notebook(cells=[new_code_cell("y")])), encoding="utf-8-sig")
    assert [cell.source for cell in read(path).cells] == ["y"]


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_notebook_has_so_many_cells_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    monkeypatch.setattr(submission, "MAX_CELLS", 3)
    path = tmp_path / "first.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=[new_code_cell("x") for _ in range(3 + beyond)])))
    if beyond:
        with pytest.raises(Unreadable, match="it has 4 cells; at most 3 are read"):
            read(path)
    else:
        assert len(read(path).cells) == 3


def test_links_and_folders_are_not_read(tmp_path: Path) -> None:
    secret, link, folder = tmp_path / "secret", tmp_path / "link.ipynb", tmp_path / "folder.ipynb"
    secret.write_text(nbformat.writes(new_notebook()))
    link.symlink_to(secret)
    folder.mkdir()
    for path in (link, folder):
        with pytest.raises(Unreadable):
            read(path)


def test_a_kernel_that_cannot_start_leaves_the_submission_ungraded() -> None:
    notebook = new_notebook(cells=submitted(*RELEASED))
    with pytest.raises(NoSuchKernel):
        JudgedExecute(kernel_name="no-such-kernel", isolated=False).preprocess(notebook, ResourcesDict())


@pytest.mark.parametrize("problem", [ValueError("shape"), IndexError(), MemoryError(), RecursionError(), KeyError("x")])
def test_whatever_the_judge_raises_is_a_verdict(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def confused(*_: object) -> None:
        raise problem

    monkeypatch.setattr("autograder.judge.judge", confused)
    grader = JudgedExecute()
    verdict = grader._judge(3, "LayerNorm", silent)
    assert verdict.score == 0 and type(problem).__name__ in verdict.text()
    assert type(problem).__name__ in grader.account.remarks[0].what


def test_each_grading_draws_the_numbers_of_its_hidden_cases_anew() -> None:
    """Whatever the process's own generators say: a unit is forked, with the state that they have in the grader."""
    asked: list[dict] = []

    def ask(index: int, name: str, request: bytes) -> bytes:
        asked.append(probe.unpack(request))
        return probe.answer(request, reference.LayerNorm)

    for _ in range(2):
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        assert JudgedExecute()._judge(3, "LayerNorm", ask).passed
    one, other = (told["cases"] for told in asked if told["do"] == "run")
    tried = find("LayerNorm").tried(np.random.default_rng(0))
    for case, first, second in zip(tried, one, other, strict=True):
        for mine, theirs in (
            (first["inputs"], second["inputs"]),
            *zip(first["weights"].values(), second["weights"].values(), strict=True),
        ):
            drawn = np.ptp(np.concatenate([np.ravel(part) for part in mine])) > 0  # else only a shape, which may recur
            assert not drawn or np.array_equal(mine, theirs) == case.visible, case.label


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\n" * 1_000_000, "is missing, or gives it another name"),
        ("\t" * 1_000_000, "is missing, or gives it another name"),
        ("if True:\n    class  Name(object): ...", "is it deleted again?"),
        ("Name  = print", "is it deleted again?"),
        ("Names = 1; defName = 2", "is missing"),
    ],
)
def test_where_a_name_is_defined_is_found_in_one_pass_over_a_cell(source: str, said: str) -> None:
    """A pattern that begins anew on each of a million blank lines would take an hour."""
    assert said in why_missing("Name", 1, [source], {})


def test_where_a_cell_took_too_long_a_student_is_told_which_for_how_long_and_what_to_look_for() -> None:
    late, wrong = f"{NOT_ENDED} 240 s and was stopped", "raised ValueError: no"
    told = "the cell that defines it did not end within 240 s and was stopped. Is there a loop without end in it?"
    assert why_missing("Name", 1, ["Name = 1"], {0: late}) == f"Name is not defined: {told}"
    assert why_missing("Name", 1, ["Name = 1"], {0: wrong}).endswith("the cell that defines it raised ValueError: no.")


@pytest.mark.parametrize("swallowed", [True, False])
def test_the_graders_own_failure_is_no_verdict(monkeypatch: pytest.MonkeyPatch, swallowed: bool) -> None:
    """A kernel that cannot be started anew while a check is judged, whatever the judge makes of that."""
    grader = JudgedExecute()

    def fails(*_: object) -> Verdict:
        grader.account.own_failure = RuntimeError("no kernel")
        if not swallowed:
            raise grader.account.own_failure
        return not_judged("LayerNorm", "no answer")

    monkeypatch.setattr("autograder.judge.judge", fails)
    with pytest.raises(RuntimeError, match="no kernel"):
        grader._judge(3, "LayerNorm", silent)


def test_what_was_not_judged_earns_nothing_and_what_was_counts() -> None:
    notebook = new_notebook(cells=submitted(*RELEASED))
    notebook.cells.append(released_cell("own-test", "assert True", grade=True, locked=True, points=1.0))
    told = {"grade_id": "check-first", "score": 0.5, "text": "half", "html": "<p>half", "exercise": "", "forbidden": ""}
    told["recorded"] = {}
    resources = ResourcesDict()
    resources[execute.ENDED] = {"why": "it was too much", "judged": {"check-first": told}, "noted": []}
    notebook, resources = JudgedExecute().preprocess(notebook, resources)
    assert resources[execute.SCORES] == {"check-first": 0.5, "check-second": 0.0, "own-test": 0.0}
    first, second = (cell.outputs[0].data["text/plain"] for cell in notebook.cells if checked_name(cell))
    assert first == "half" and "it was not judged: it was too much." in second


def test_a_file_that_could_not_be_read_is_no_attempt_and_lacks_no_cell(tmp_path: Path) -> None:
    """And no kernel is started for it."""
    (tmp_path / "first.ipynb").write_text("")
    seen: dict[str, Any] = {}
    exporter = SubmissionExporter()
    exporter._preprocessors = [lambda notebook, resources: (seen.update(resources), (notebook, resources))[1]]
    request = {"resources": {"nbgrader": {"notebook": "first"}}, "folder": str(tmp_path / "to"), "seed": 0}
    request |= {"source": str(tmp_path / "first.ipynb"), "look": True, "why": ""}
    assert "read as a notebook: it is empty.** Nothing" in exporter._grade(request, print)
    assert seen[UNREAD] == "the submitted file could not be read as a notebook: it is empty"
    assert [vars(one) for one in seen[NOTED]] == [
        {"where": "'first.ipynb'", "what": "could not be read as a notebook: it is empty", "difference": ""}
    ]
    notebook = new_notebook(cells=submitted(*RELEASED))
    notebook.cells.append(released_cell("own-test", "assert True", grade=True, locked=True, points=1.0))
    resources = ResourcesDict()
    resources[UNREAD] = seen[UNREAD]
    notebook, resources = JudgedExecute().preprocess(notebook, resources)
    assert resources[execute.SCORES] == {"check-first": 0.0, "check-second": 0.0, "own-test": 0.0}
    (output,) = notebook.cells[2].outputs
    assert "First: the submitted file could not be read as a notebook: it is empty." in output.data["text/plain"]
    assert output.metadata[KEY]["attempted"] is False


def test_a_submission_has_the_kernel_of_its_lab_and_no_metadata_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"name": "python3", "display_name": "Python 3"}
    gradebook = SimpleNamespace(find_notebook=lambda *names: SimpleNamespace(kernelspec=json.dumps(spec)))
    monkeypatch.setattr(submission, "Gradebook", lambda url: contextlib.nullcontext(gradebook))
    monkeypatch.setattr(submission, "_released", lambda notebook: RELEASED)
    about = {"nbgrader": {"db_url": "", "notebook": "first", "assignment": "lab1"}}
    handed_in = new_notebook(metadata={"kernelspec": spec | {"name": "evil"}, "mine": 1})
    assert submission.RestoreCells().preprocess(handed_in, about)[0].metadata == {"kernelspec": spec}


@pytest.mark.parametrize("kind", [UNREAD, UNSEEN, ""])
def test_of_what_was_not_read_no_cell_is_said_to_be_deleted(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    gradebook = SimpleNamespace(find_notebook=lambda *names: SimpleNamespace(kernelspec=""))
    monkeypatch.setattr(submission, "Gradebook", lambda url: contextlib.nullcontext(gradebook))
    monkeypatch.setattr(submission, "_released", lambda notebook: RELEASED)
    about = {"nbgrader": {"db_url": "", "notebook": "first", "assignment": "lab1"}}
    notebook, resources = submission.RestoreCells().preprocess(new_notebook(), about | {kind: "why"})
    assert {"check-first", "check-second"} <= set(ids(notebook.cells))
    assert len(resources.get(NOTED, [])) == (0 if kind else 2)


def test_what_is_noted_is_said_at_once_and_stays_where_grading_is_broken_off() -> None:
    """Attack: a process that is ended with what it holds."""
    told: list[dict] = []
    account = Account(say=told.append)
    for _ in range(2):
        account.remark(3, "opened '/etc/shadow'")
    assert told == [{"noted": {"where": "cell 4", "what": "opened '/etc/shadow'", "difference": ""}}]
    resources = ResourcesDict()
    resources[execute.ENDED] = {"why": "it was too much", "judged": {}, "noted": [one["noted"] for one in told]}
    _, resources = JudgedExecute().preprocess(new_notebook(), resources)
    assert [one.what for one in resources[NOTED]] == ["opened '/etc/shadow'", "was broken off: it was too much"]


def test_where_nothing_can_be_isolated_nothing_is_run_and_the_switch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(course: object) -> None:
        raise NoIsolation("this machine is a toaster")

    monkeypatch.setattr(provisioner, "warm_parent", refuse)
    notebook = new_notebook(cells=submitted(*RELEASED))
    with pytest.raises(NoIsolation, match=r"this machine is a toaster\..*--no-isolation"):
        JudgedExecute().preprocess(notebook, ResourcesDict())
    assert not any(cell.outputs for cell in notebook.cells)


@pytest.mark.parametrize(("what", "setting"), [("exchange", "Exchange.root"), ("gradebook", "CourseDirectory.db_url")])
def test_nothing_is_graded_where_kernels_could_read_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, setting: str
) -> None:
    """Attack: the submissions of others, in an exchange below a folder of the system."""
    monkeypatch.setattr(launch, "_of_the_system", lambda: [tmp_path / "usr"])
    (section, name), prefix = setting.split("."), "sqlite:///" if what == "gradebook" else ""
    for folder in ("home", "usr"):
        path = tmp_path / folder / what
        config = Config({section: {name: f"{prefix}{path}"}})
        assert within_reach(config) is None  # it is not there
        path.mkdir(parents=True)
    assert within_reach(Config({section: {name: f"{prefix}{tmp_path / 'home' / what}"}})) is None
    assert f"the {what} lies in {path}, among what kernels must read" in str(within_reach(config))
    grader = JudgedExecute(config=config)
    assert grader.make_ready() is None
    with pytest.raises(NoIsolation, match=f"the {what} lies in.* with c.{setting}"):
        grader.preprocess(new_notebook(cells=submitted(*RELEASED)), ResourcesDict())


def test_where_the_grader_has_no_warm_parent_a_unit_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit is ended without a word, and its own would leave a folder: seen where warming up takes minutes."""

    def late(course: object) -> None:
        raise NoIsolation("the warm parent did not come up")

    monkeypatch.setattr(execute, "warm_parent", late)
    grader = JudgedExecute()
    assert grader.make_ready() is None
    monkeypatch.setattr(provisioner, "warm_parent", lambda course: pytest.fail("another one was started"))
    with pytest.raises(NoIsolation, match="did not come up"):
        grader.preprocess(new_notebook(cells=submitted(*RELEASED)), ResourcesDict())


class WithoutKernel(JudgedExecute):
    """Executes nothing, and has checks answered rightly; at one cell, this process is out of memory."""

    full_at = ""  # the text of that cell, or a part of it
    as_message = False  # whether it is so as a message comes

    def create_kernel_manager(self) -> Any:
        self.km: Any = SimpleNamespace(provisioner=None)
        return self.km

    def start_new_kernel(self, **_: Any) -> None: ...

    def start_new_kernel_client(self, **_: Any) -> None:
        self.kc: Any = SimpleNamespace(session=SimpleNamespace(metadata={}))

    def _cleanup_kernel(self) -> None: ...

    def execute_cell(self, cell: NotebookNode, index: int, **_: Any) -> None:
        cell.outputs = []
        if self.full_at in f"{cell.source} at {index}":
            if self.as_message:
                self.process_message({"msg_type": "stream", "content": {"text": "much"}}, cell, index)
            raise MemoryError
        if reply := self.reply_to(cell):
            data = {kernel_side.MIME: reply}
            self.process_message({"msg_type": "display_data", "content": {"data": data}}, cell, index)

    def reply_to(self, cell: NotebookNode) -> dict[str, str] | None:
        """The right answer, where a cell asks for one."""
        if not (nonce := re.search(r"answer\(.*'(\w{32})'", cell.source)):
            return None
        (request,) = self.kc.session.metadata[kernel_side.SENT]
        packed = base64.b64encode(probe.answer(base64.b64decode(request), reference.LayerNorm)).decode()
        return {"nonce": nonce[1], "status": "answered", "reply": packed}


@pytest.mark.parametrize("as_message", [False, True])
@pytest.mark.parametrize(
    ("full_at", "first"), [("prepare", 0.0), ("answer(*('LayerNorm'", 0.0), ("x = 1", 1.0), (" at 2", 1.0)]
)
def test_memory_that_is_used_up_as_a_cell_is_executed_breaks_off_with_what_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: str, first: float, as_message: bool
) -> None:
    """It is the unit's own limit: no failure of the grader's, no answer of the code's, and no message of a forger."""

    def too_large(kind: str, content: dict[str, Any]) -> dict[str, Any]:
        raise MemoryError if "text" in content else AssertionError

    monkeypatch.setattr(running, "showable", too_large)
    monkeypatch.setattr(unit, "POSSIBLE", False)  # PyTorch may have threads here, of which a fork has none
    folder = tmp_path / "ann" / "lab"
    folder.mkdir(parents=True)
    cells = [RELEASED["check-first"], new_code_cell("x = 1"), RELEASED["check-second"]]
    cells = [nbformat.from_dict(json.loads(json.dumps(cell))) for cell in cells]
    cells[0].source = cells[2].source = "check(LayerNorm)"
    nbformat.write(new_notebook(cells=cells), folder / "first.ipynb")
    grader = WithoutKernel(isolated=False)
    grader.full_at, grader.as_message = full_at, as_message
    exporter = SubmissionExporter()
    exporter._preprocessors = [grader]
    source = str(folder / "first.ipynb")
    request = {"resources": {"nbgrader": {"notebook": "first"}}, "folder": str(tmp_path), "source": source, "seed": 1}
    notebook = nbformat.reads(exporter._graded(request), as_version=4)
    why = "the grader met with something that it cannot take (MemoryError)"
    assert notebook.cells[0].source == f"**Grading was broken off: {why}.** What had been judged before counts."
    checks = [cell.outputs[0] for cell in notebook.cells if checked_name(cell)]
    assert [output.metadata[KEY]["score"] for output in checks] == [first, 0.0]
    assert f"it was not judged: {why}." in checks[1].data["text/plain"]
    assert [remark.what for remark in grader.account.remarks] == [f"was broken off: {why}"]


@pytest.mark.parametrize("source", ["check(First).score", "check(First, 1)", "print(check(First))", "check('First')"])
def test_only_a_check_alone_is_judged(source: str) -> None:
    cell = released_cell("check-first", source, grade=True, locked=True, points=4.0)
    assert checked_name(cell) is None


EVERY_COMMAND = """
import importlib, pkgutil, sys
from autograder import pipeline
for module in pkgutil.iter_modules(pipeline.__path__, "autograder.pipeline."):
    importlib.import_module(module.name)
print({"torch", "lark"} & {*sys.modules})
"""


def test_commands_wait_neither_for_pytorch_nor_for_a_grammar() -> None:
    """PyTorch is for what judges, and takes seconds; so does the grammar that newer versions of jsonschema build."""
    done = subprocess.run([sys.executable, "-c", EVERY_COMMAND], capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stdout + done.stderr
