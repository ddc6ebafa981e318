"""The integrity note: what it says of a submission, and that nothing of it is active."""

from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from autograder.pipeline.integrity import DONE, NOTED, Remark, SaveIntegrityNote, cell_print, text
from autograder.pipeline.integrity import what_is_restored as restored

ABOUT = {"grade": False, "solution": False, "task": False, "locked": False, "cell_type": "code"}


def cell(name: str, source: str, **about: bool | float) -> NotebookNode:
    return new_code_cell(source, metadata={"nbgrader": ABOUT | {"grade_id": name} | about})


def released() -> dict[str, NotebookNode]:
    return {
        "setup": cell("setup", "import torch", locked=True),
        "answer": cell("answer", "# YOUR CODE", solution=True),
        "check": cell("check", "check(Answer)", grade=True, locked=True, points=4.0),
    }


def handed_in() -> dict[str, NotebookNode]:
    cells = released()
    cells["answer"].source = "class Answer: pass"
    return cells


def test_of_an_honest_submission_nothing_is_said() -> None:
    cells = list(handed_in().values())
    cells.insert(1, new_code_cell("print('mine')"))
    assert restored(cells, released()) == []


def test_a_deleted_check_is_said_and_a_deleted_setup_is_not() -> None:
    cells = handed_in()
    assert restored([cells["answer"]], released()) == [Remark("cell 'check'", "was deleted, and is put back")]


def test_a_deleted_task_is_said() -> None:
    task = {"task": cell("task", "Draw it.", task=True, locked=True, points=2.0)}
    assert restored([], task) == [Remark("cell 'task'", "was deleted, and is put back")]


def test_a_changed_check_is_shown_with_its_difference() -> None:
    cells = handed_in()
    cells["check"].source = "4.0"
    (remark,) = restored(list(cells.values()), released())
    assert "was changed" in remark.what
    assert "-check(Answer)" in remark.difference.splitlines() and "+4.0" in remark.difference.splitlines()


def test_a_print_survives_json_that_turns_4_0_into_4() -> None:
    assert cell_print(cell("a", "x", points=4.0)) == cell_print(cell("a", "x", points=4))


def test_points_of_any_size_and_kind_are_remarked_upon() -> None:
    for points in (10**400, float("nan"), "4", [4.0], None, True, -(2**60)):
        cells = handed_in()
        cells["check"].metadata.nbgrader.points = points
        (remark,) = restored(list(cells.values()), released(), frozenset({"x"}))
        assert f"points {points!r} instead of 4.0" in remark.what


def test_a_cell_from_an_earlier_release_is_no_difference_and_one_changed_since_is() -> None:
    cells = handed_in()
    earlier = frozenset(cell_print(one) for one in released().values())
    now = released()
    now["check"].metadata.nbgrader.points = 2.0
    now["setup"].source = "import torch, math"
    assert restored(list(cells.values()), now, earlier) == []
    assert len(restored(list(cells.values()), now)) == 2
    cells["check"].metadata.nbgrader.points = 400
    (remark,) = restored(list(cells.values()), now, earlier)
    assert remark.what.endswith("points 400 instead of 2.0")


def test_other_properties_and_tags_are_said() -> None:
    cells = handed_in()
    cells["check"].metadata.nbgrader.update(points=400.0, locked=False)
    cells["check"].metadata.tags = ["skip-execution"]
    said = [remark.what for remark in restored(list(cells.values()), released())]
    assert any("locked False instead of True, points 400.0 instead of 4.0" in what for what in said)
    assert any("skip-execution" in what for what in said)


def test_copies_and_another_order_are_said() -> None:
    cells = handed_in()
    said = [r.what for r in restored([cells["check"], cells["setup"], cells["answer"], cells["answer"]], released())]
    assert said == ["was there 2 times; the last one counts", "were in another order, which is kept"]


@pytest.mark.parametrize("about", [None, 7, [], {"grade_id": ["check"]}, {"grade_id": None}])
def test_metadata_of_any_kind_is_read(about: object) -> None:
    odd = new_code_cell("x")
    odd.metadata["nbgrader"] = about
    assert restored([*handed_in().values(), odd], released()) == []


def test_a_difference_of_large_texts_is_made_of_their_beginnings() -> None:
    cells = handed_in()
    cells["setup"].source = "\n".join("import torch" if i % 2 else f"{i}" for i in range(200_000))  # minutes, otherwise
    (remark,) = restored(list(cells.values()), released())
    assert "was changed" in remark.what and len(remark.difference) < 100_000


def test_a_note_has_a_size() -> None:
    page = text("ada", "lab", [Remark("x" * 5000, "y" * 5000)] * 5000)
    assert len(page) < 1_000_000 and "4800 more, which are not listed" in page


def test_nothing_in_a_note_is_active() -> None:
    page = text("ada", "lab", [Remark("x", "opened '<script>' [a](javascript:b)\x1b[2J", "+`</pre><b>\x07")])
    listed = page.split("\n- ")[1]
    assert "\x1b" not in page and "\x07" not in page
    assert "\\<script\\>" in listed and "\\[a\\](" in listed
    assert "\n      +`</pre><b>" in page  # indented by six in a list: code


def test_code_in_a_note_has_no_backslashes_and_a_lone_backtick_begins_none() -> None:
    page = text("ada", "lab", [Remark("`", "calls `scaled_dot_product_attention`, ``<b>`` `<i>")])
    assert page.split("\n- ")[1].strip() == (
        "**\\`** calls `scaled_dot_product_attention`, \\`\\`\\<b\\>\\`\\` \\`\\<i\\>"
    )


def test_a_note_is_written_where_something_was_seen_and_taken_away_where_not(tmp_path: Path) -> None:
    save = SaveIntegrityNote(config=Config(CourseDirectory={"root": str(tmp_path)}))
    about = {"nbgrader": {"assignment": "lab", "student": "ada", "notebook": "one"}}
    path = tmp_path / "integrity" / "lab" / "ada-one.md"
    notebook, _ = save.preprocess(new_notebook(), {**about, NOTED: [Remark("cell 3", "forked")]})
    assert "- **cell 3** forked" in path.read_text(encoding="utf-8") and notebook.metadata[DONE]
    save.preprocess(new_notebook(), {**about, NOTED: []})
    assert not path.exists()
