"""The cells of a submission as they run, whatever they do: which run again, what is shown, what the judge is told."""

import base64
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from nbclient.exceptions import DeadKernelError
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder import probe
from autograder.pipeline import execute, kernel, kernel_side
from autograder.pipeline.cells import is_run
from autograder.pipeline.kernel import DEATHS, Kernel
from autograder.pipeline.outputs import showable
from autograder.verdict import not_judged
from headroom import reference
from tests.test_submission import WithoutKernel, released_cell

READIED = "prepare"  # the grader's own first cell in a fresh kernel


def says(kind: str, **content: Any) -> dict[str, Any]:
    return {"msg_type": kind, "header": {"msg_type": kind}, "parent_header": {}, "content": content}


class Scripted(WithoutKernel):
    """A cell does what its text says, and a check is answered by what `replies` gives."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(isolated=False, **settings)
        self.ran: list[str] = []
        self.death: int | None = None
        self.replies: Any = lambda reply: [reply]

    def create_kernel_manager(self) -> Any:
        self.km: Any = SimpleNamespace(provisioner=SimpleNamespace(exit_status=self.death))
        return self.km

    def execute_cell(self, cell: NotebookNode, index: int, **_: Any) -> None:
        cell.outputs, self.clear_before_next_output = [], False
        if right := self.reply_to(cell):
            self.ran.append("check")
            for reply in self.replies(right):
                self.process_message(says("display_data", data={kernel_side.MIME: reply}, metadata={}), cell, index)
            return
        self.ran.append(READIED if READIED in cell.source else cell.source)
        match cell.source.split(maxsplit=1):
            case ["dies"]:
                raise DeadKernelError("dead")
            case ["endless"]:
                cell.outputs = [new_output("error", ename="CellTimeoutError", evalue="", traceback=[])]
            case ["prints", count]:
                self.process_message(says("stream", name="stdout", text="x" * int(count)), cell, index)


def run(grader: Scripted, *sources: str, judged: bool = False) -> list[NotebookNode]:
    """The cells after such a notebook, with a check below them, was graded; `judged` only where the verdict matters."""
    if not judged:
        grader._judge = lambda index, name, ask: not_judged(name, "no.")
    cells = [new_code_cell(source) for source in sources]
    check = released_cell("check", "check(LayerNorm)", grade=True, locked=True, points=4.0)
    grader.preprocess(new_notebook(cells=[*cells, check]), ResourcesDict())
    return [*cells, check]


def said(cell: NotebookNode) -> str:
    return "".join(output.get("evalue", "") + output.get("text", "") for output in cell.outputs)


def verdict(cells: list[NotebookNode]) -> str:
    return cells[-1].outputs[0].data["text/plain"]


# --- Which cells run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "runs"),
    [
        (new_code_cell("x"), True),
        (new_markdown_cell("x"), False),
        (released_cell("setup", "x", locked=True), True),
        (released_cell("picture-of-masks", "x", locked=True), False),
        (released_cell("reward-vit", "x", locked=True), False),
        (released_cell("picture-of-mine", "x", solution=True), True),
        (released_cell("reward-test", "x", grade=True, locked=True), True),
        (released_cell("my-picture-", "x", locked=True), True),
        (released_cell("check", "check(A)", grade=True, locked=True), False),
        (released_cell("own-test", "assert A", grade=True, locked=True), True),
    ],
)
def test_what_is_only_to_be_looked_at_is_not_run(cell: NotebookNode, runs: bool) -> None:
    assert is_run(cell) == runs


def test_what_costs_its_kernel_is_not_run_again_and_all_before_it_is() -> None:
    grader = Scripted()
    cells = run(grader, "a", "dies", "b", "endless", "c", judged=True)
    own = [READIED, "a", "dies", READIED, "a", "b", "endless", "c"]
    assert grader.ran[: len(own)] == own and {*grader.ran[len(own) :]} == {"check"}
    assert said(cells[1]) == "This cell ended the Python process."
    assert said(cells[3]).startswith("This cell did not end within") and "a loop without end" in said(cells[3])
    assert "✓ LayerNorm" in verdict(cells)
    assert [remark.where for remark in grader.account.remarks] == ["cell 2", "cell 4"]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"timeout": 4}, "did not end within 4 s and was stopped. Is there"),
        (
            {"timeout": 4, "total_timeout": 2.0},
            "did not end within what was left of the notebook's 2 s and was stopped.",
        ),
    ],
)
def test_a_cell_without_end_is_told_which_limit_stopped_it(limits: dict[str, float], told: str) -> None:
    assert told in said(run(Scripted(**limits), "endless")[0])


def test_a_second_fresh_kernel_runs_no_cell_that_cost_an_earlier_one() -> None:
    grader = Scripted()
    run(grader, "a", "dies", "b", "dies", "c")
    again = [READIED, "a", "dies", READIED, "a", "b", "dies", READIED, "a", "b", "c"]
    assert grader.ran == again


def test_what_stands_below_the_last_check_is_not_run() -> None:
    grader, told = Scripted(), list[str]()
    grader.on_verdict = lambda cell, verdict: told.append(f"{cell.metadata.nbgrader.grade_id} {verdict.points:g}")
    grader._judge = lambda index, name, ask: not_judged(name, "no.")
    check = released_cell("check", "check(LayerNorm)", grade=True, locked=True, points=4.0)
    grader.preprocess(new_notebook(cells=[new_code_cell("a"), check, new_code_cell("b")]), ResourcesDict())
    assert grader.ran == [READIED, "a"] and told == ["check 4"]


def test_no_more_kernels_are_started_than_a_notebook_may_have() -> None:
    grader = Scripted(max_restarts=2)
    cells = run(grader, "a", "dies", "dies", "dies", "b", judged=True)
    assert grader.ran.count(READIED) == 3
    assert said(cells[4]) == "This cell was not run: the Python process had to be started anew 2 times before."
    assert "it was not run: the Python process had to be started anew 2 times before" in verdict(cells)


def test_a_notebook_that_used_up_its_time_is_told_so() -> None:
    grader = Scripted(total_timeout=-1.0)
    cells = run(grader, "a", judged=True)
    assert grader.ran == [READIED]
    assert "was not run: the notebook used up its -1 s" in said(cells[0]) and "used up" in verdict(cells)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(("status", "how"), [*DEATHS.items(), (3, ""), (None, "")])
def test_how_a_cell_ended_its_kernel_is_said(status: int | None, how: str) -> None:
    grader = Scripted()
    grader.death = status
    assert said(run(grader, "dies")[0]) == f"This cell ended the Python process{how}."


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_each_end_has_its_own_word() -> None:
    import signal

    named = {number: how.strip(" ()") for number, how in DEATHS.items()}
    assert named[-signal.SIGSEGV] == "segmentation fault" and named[-signal.SIGABRT] == "abort"
    assert named[-signal.SIGBUS] == "bus error" and "memory" in named[-signal.SIGKILL]
    assert len({*named.values()}) == len(named)


# --- What is shown ----------------------------------------------------------------------------------------------------


def test_what_a_cell_and_a_notebook_print_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "interrupt", lambda self: None)  # there is none
    cells = run(Scripted(max_output=1000, max_shown=2100), "prints 800", "prints 5000", "prints 800", "prints 800")
    assert said(cells[0]) == "x" * 800
    assert said(cells[1]) == "This cell was stopped after 1,000 characters of output."
    assert said(cells[2]) == "[Not all is shown: the notebook's outputs have more than 2,100 characters.]\n"


FORMS = {
    "stream": ({"name": "stderr", "text": "a\x1b[2Jb"}, {"name": "stderr", "text": "a[2Jb"}),
    "error": (
        {"ename": "E", "evalue": "\x07no", "traceback": ["one", 2, "\x1b[31mred"]},
        {"ename": "E", "evalue": "no", "traceback": ["one", "", "\x1b[31mred"]},
    ),
}


@pytest.mark.parametrize("kind", FORMS)
def test_a_message_is_taken_in_without_what_a_terminal_would_obey(kind: str) -> None:
    given, shown = FORMS[kind]
    assert showable(kind, given) == shown
    assert showable("stream", {"name": "elsewhere", "text": 7}) == {"name": "stdout", "text": ""}


def test_of_an_output_those_forms_are_kept_that_a_page_can_show() -> None:
    kept = {f"text/{kind}": "x" for kind in ("plain", "html", "markdown", "latex")}
    kept |= {"image/png": "iVBO\nRw==", "image/jpeg": "/9j/4A=="}
    others = {"application/javascript": "x", "image/svg+xml": "<svg/>", "application/vnd.jupyter.widget-view+json": {}}
    shown = showable("display_data", {"data": kept | others, "metadata": {"x": 1}})["data"]
    assert shown == kept
    assert showable("display_data", {"data": {"image/png": "<svg>"}})["data"] == {}


def test_a_cell_can_clear_what_it_has_shown_and_change_nothing_of_anothers() -> None:
    class Clears(Scripted):
        def execute_cell(self, cell: NotebookNode, index: int, **more: Any) -> None:
            super().execute_cell(cell, index, **more)
            if cell.source == "clears":
                self.process_message(says("stream", name="stdout", text="before"), cell, index)
                self.process_message(says("clear_output", wait=False), cell, index)
                self.process_message(says("stream", name="stdout", text="after"), cell, index)
                data = {"data": {"text/plain": "forged"}, "transient": {"display_id": "1"}, "metadata": {}}
                self.process_message(says("update_display_data", **data), cell, index)
                self.process_message(says("comm_open", comm_id="1", target_name="x", data={}), cell, index)

    grader = Clears()
    assert said(run(grader, "clears")[0]) == "after" and grader.account.remarks == []


# --- What the judge is told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "told", "noted"),
    [
        (lambda reply: [reply], "✓ LayerNorm", None),
        (lambda reply: [], "the check got no answer from the notebook's Python process.", None),
        (lambda reply: [reply, reply], "more than one answer", "sent more than one reply"),
        (lambda reply: [reply | {"nonce": "0" * 32}], "got no answer", "sent a reply that was not asked for"),
        (lambda reply: [reply | {"status": "too large"}], "what it returns is too large to be compared", None),
        (lambda reply: [reply | {"status": "missing"}], "LayerNorm is not defined: the cell that defines it is", None),
    ],
)
def test_a_check_has_one_answer_or_says_why_not(replies: Any, told: str, noted: str | None) -> None:
    grader = Scripted()
    grader.replies = replies
    assert told in verdict(run(grader, "a", judged=True))
    assert [remark.what for remark in grader.account.remarks] == ([noted] if noted else [])
    assert not noted or grader.account.remarks[0].where == "while `LayerNorm` was checked"


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("no", "raised ValueError: no"),
        ("first\nsecond", "raised ValueError: first"),
        ("invalid syntax (2071439.py, line 3)", "raised ValueError: invalid syntax (line 3)"),
        (" ", "raised ValueError"),
    ],
)
def test_what_a_cell_raised_is_told_where_its_name_is_missing(what: str, shown: str) -> None:
    class Raises(Scripted):
        def execute_cell(self, cell: NotebookNode, index: int, **more: Any) -> None:
            super().execute_cell(cell, index, **more)
            if cell.source.startswith("LayerNorm"):
                cell.outputs = [new_output("error", ename="ValueError", evalue=what, traceback=[])]

    grader = Raises()
    grader.replies = lambda reply: [reply | {"status": "missing"}]
    assert f"LayerNorm is not defined: the cell that defines it {shown}." in verdict(
        run(grader, "LayerNorm = 1", judged=True)
    )


@pytest.mark.parametrize(
    ("defined", "most", "status"), [(True, 10**7, "answered"), (True, 100, "too large"), (False, 10**7, "missing")]
)
def test_what_a_kernel_replies_says_if_there_is_a_name_and_if_its_answer_is_too_large(
    monkeypatch: pytest.MonkeyPatch, defined: bool, most: int, status: str
) -> None:
    shown: list[dict[str, Any]] = []
    request = probe.pack({"do": "describe", "builds": [[4]]})
    shell = SimpleNamespace(user_ns={"LayerNorm": reference.LayerNorm} if defined else {})
    shell.display_pub = SimpleNamespace(publish=shown.append)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(kernel_side, "new_probe", lambda: SimpleNamespace(calls=probe))
    monkeypatch.setattr(kernel_side, "sent", lambda: (base64.b64encode(request).decode(),))
    kernel_side.answer("LayerNorm", "0" * 32, most)
    ((mime, reply),) = shown[0].items()
    assert (mime, reply["status"], reply["nonce"]) == (kernel_side.MIME, status, "0" * 32)
    assert ("reply" in reply) == (status == "answered")
    if status == "answered":
        (told,) = probe.unpack(base64.b64decode(reply["reply"]))
        assert [one["name"] for one in told["parameters"]] == ["gamma", "beta"]


def test_a_function_that_a_task_forbids_is_noted_for_the_instructor(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder import judge

    monkeypatch.setattr(judge, "judge", lambda *_: not_judged("LayerNorm", "no.", forbidden="layer_norm"))
    grader = Scripted()
    run(grader, "a", judged=True)
    assert [vars(one) for one in grader.account.remarks] == [
        {
            "where": "while `LayerNorm` was checked",
            "what": "calls `layer_norm`, which the task forbids",
            "difference": "",
        }
    ]


def test_the_probe_is_sent_whole_and_in_order() -> None:
    """Each of its files after those that it imports."""
    there = {path.name.removesuffix(".py") for path in kernel.files("autograder").joinpath("probe").iterdir()}
    assert {*kernel.PROBE} == {name for name in there if not name.startswith("__")}
    for place, (name, text) in enumerate(kernel.PROBE.items()):
        assert {*re.findall(r"^from \.(\w+) import", text, re.MULTILINE)} <= {*list(kernel.PROBE)[:place]}, name


def test_a_seed_is_told_to_no_unit_but_with_its_request() -> None:
    config = execute.unseeded(Scripted(seed=7).config)
    assert "seed" not in config.JudgedExecute
