"""AttentionStepper in a real JupyterLab; each test goes on from the one before."""

import re
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import expect

from headroom.widgets import AttentionStepper
from headroom.widgets.shared import front_end
from tests.widgets import EXPORTED, Widget, WidgetNotebook, exported, place_in, widget_notebook

CELLS = {
    "steps": """
        import torch
        from headroom.reference import causal_mask, scaled_dot_product_attention
        from headroom.widgets import AttentionStepper
        torch.manual_seed(0)
        q, k, v = torch.randn(6, 4), torch.randn(6, 4), torch.randn(6, 3)
        words = ["the", "tired", "cat", "drank", "its", "milk"]
        steps = AttentionStepper(q, k, v, causal_mask(6), tokens=words, query=3)
        steps""",
    "checked": """
        output, weights = scaled_dot_product_attention(q, k, v)
        scores = q @ k.T / 2
        scores[1, 2] += 1
        AttentionStepper(q, k, v, tokens=words, scores=scores, weights=weights, output=output)""",
    "read": """
        import json
        from dataclasses import asdict
        row = {name: one.tolist() for name, one in vars(steps.row).items()}
        print(json.dumps(asdict(steps.selection) | {"row": row}))""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """A notebook with a stepper, one with a student's tensors, and a cell that prints what Python knows."""
    with widget_notebook(browser, server, "attention_stepper", CELLS) as opened:
        yield opened


def number(text: str) -> float:
    """A number as the screen writes it."""
    return float(re.sub(r"[×=≠✎]", "", text).replace("−", "-").replace("∞", "inf").strip())


def column(widget: Widget, spot: str) -> list[float]:
    """The numbers of a column of the row in numbers, top down."""
    cells = widget.root.locator(f"td[data-spot={spot}]:not(.headroom-beside)")
    return [number(text) for text in cells.all_inner_texts()]


def test_each_step_shows_its_column_with_the_references_numbers(notebook) -> None:
    row = notebook.read("read")["row"]
    widget = notebook.widget("steps")
    expect(widget.part("live")).to_contain_text("Step 1 of 5, compare: the query of “drank” meets every key")
    for name, digits, step in (("dots", 2, 1), ("scores", 2, 2), ("masked", 2, 3), ("weights", 3, 4)):
        expect(widget.part("live")).to_contain_text(f"Step {step} of 5")
        hidden = widget.root.locator("[data-part=ledger] th[scope=col]:visible").count()
        assert hidden == 2 + (step - 1) + (step == 4), "a column for the key and for each step so far"
        assert column(widget, name) == [round(value, digits) for value in row[name]]
        notebook.tab.screenshot(f"stepper-{step}")
        widget.part("next").click()
    expect(widget.part("live")).to_contain_text("Step 5 of 5, mix: the output of “drank”")
    entries = widget.part("output").locator("[data-chip]")
    assert [number(text.split("\n")[-1]) for text in entries.all_inner_texts()] == [round(x, 2) for x in row["output"]]
    notebook.tab.screenshot("stepper-5")
    notebook.press(widget, "next", "Enter")  # there is no sixth, and the focus stays where it is
    expect(widget.root).to_have_attribute("data-step", "mix")
    notebook.read("read", step="mix")


def test_steps_go_back_with_button_range_and_keys(notebook) -> None:
    widget = notebook.widget("steps")
    widget.part("back").click()
    expect(widget.root).to_have_attribute("data-step", "softmax")
    notebook.press(widget, "step-range", "ArrowLeft", "ArrowLeft")
    expect(widget.root).to_have_attribute("data-step", "scale")
    notebook.press(widget, "s", "[", "[")
    expect(widget.root).to_have_attribute("data-step", "compare")
    widget.root.locator("td[data-spot=dots][data-key='2']").focus()
    notebook.tab.press("ArrowRight")  # past the last column that is there: the next step
    expect(widget.root).to_have_attribute("data-step", "scale")
    notebook.tab.press("ArrowRight")
    expect(widget.root).to_have_attribute("data-step", "mask")
    notebook.tab.press("ArrowRight", "ArrowDown")
    expect(widget.root).to_have_attribute("data-step", "softmax")
    expect(widget.root).to_have_attribute("data-spot", "powers")
    expect(widget.root).to_have_attribute("data-key", "3")
    notebook.read("read", step="softmax", spot="powers", key=3)


def test_a_number_and_its_places_point_at_each_other(notebook) -> None:
    row = notebook.read("read")["row"]
    widget = notebook.widget("steps")
    notebook.press(widget, "s", "Escape")
    widget.part("k").hover(position=place_in(widget.part("k"), 1, 2))  # a place in K: the key's line in the row
    expect(widget.root.locator("tr.headroom-is-k th")).to_have_text("K 2 tired")
    expect(widget.part("live")).to_contain_text("Pointing at entry 3 of key 2 “tired”")
    widget.root.locator("td[data-spot=scores][data-key='0']").hover()  # a number: its place in the matrix
    expect(widget.root).to_have_attribute("data-spot", "scores")
    expect(widget.part("live")).to_contain_text(
        f"Pointing at the score with key 1 “the”, {row['scores'][0]:.2f}".replace("-", "−")
    )
    widget.part("s").hover(position=place_in(widget.part("s"), 3, 2))
    expect(widget.root.locator("td.headroom-spot")).to_have_attribute("data-key", "2")
    widget.part("s").hover(position=place_in(widget.part("s"), 0, 2))  # another query's row: not followed until clicked
    expect(widget.root).to_have_attribute("data-query", "3")
    widget.part("s").click(position=place_in(widget.part("s"), 2, 1))
    expect(widget.root).to_have_attribute("data-query", "2")
    expect(widget.part("live")).to_contain_text("Held.")
    widget.root.locator("td[data-spot=scores][data-key='0']").hover()
    expect(widget.root).to_have_attribute("data-key", "1")
    notebook.read("read", query=2, key=1, locked=True)
    widget = notebook.widget("steps")
    notebook.press(widget, "s", "Escape")
    expect(widget.root).to_have_attribute("data-locked", "false")


def test_lit_places_change_what_the_matrices_show(notebook) -> None:
    """The pictures of Q, K, V, scores and output: each changes when a number is pointed at that belongs to it."""
    widget = notebook.widget("steps")
    notebook.press(widget, "s", "]", "]")  # the mix
    picture = "(canvas) => canvas.toDataURL()"
    notebook.press(widget, "s", "ArrowLeft")
    expect(widget.root).to_have_attribute("data-spot", "weights")
    before = {name: widget.part(name).evaluate(picture) for name in "qksvo"}
    widget.part("output").locator("[data-chip='1']").hover()
    expect(widget.root).to_have_attribute("data-spot", "output")
    after = {name: widget.part(name).evaluate(picture) for name in "qksvo"}
    assert {name for name in before if before[name] != after[name]} == {"k", "s", "v", "o"}


def test_terms_add_up_to_the_number_they_make(notebook) -> None:
    widget = notebook.widget("steps")
    notebook.press(widget, "s", "Escape", "[", "[", "[", "[", "[")
    expect(widget.root).to_have_attribute("data-step", "compare")
    terms = widget.part("working").locator("[data-chip]:visible")
    expect(terms).to_have_count(4)
    total = sum(number(text.split("=")[-1]) for text in terms.all_inner_texts())
    told = number(re.search(r"dot product: (.*)\.$", widget.part("working").inner_text())[1])
    assert total == pytest.approx(told, abs=0.03), "but for rounding"
    terms.nth(2).focus()
    notebook.tab.press("ArrowRight")
    expect(widget.part("live")).to_contain_text("Pointing at entry 4 of key")
    notebook.press(widget, "s", "]", "]", "]", "]")
    expect(widget.root).to_have_attribute("data-step", "mix")
    expect(terms).to_have_count(6)
    total = sum(number(text.split("=")[-1]) for text in terms.all_inner_texts())
    told = number(re.search(r"of the output: (\S+)\.$", widget.part("working").inner_text())[1])
    assert total == pytest.approx(told, abs=0.03)


def test_the_reader_changes_numbers_and_gets_them_back(notebook) -> None:
    notebook.press(notebook.widget("steps"), "s", "Escape")
    before = notebook.read("read", locked=False)["row"]
    widget = notebook.widget("steps")
    widget.part("query-select").select_option("5")
    widget.part("edit").click()
    expect(widget.part("changes")).to_be_visible()
    expect(widget.part("edited")).to_be_hidden()
    widget.part("temperature-range").focus()
    notebook.tab.press("ArrowRight", "ArrowRight")
    expect(widget.part("edited")).to_have_text("These are your numbers now, not the model's: temperature 2.")
    shown = column(widget, "weights")
    notebook.read("read", lambda told: shown == [round(value, 3) for value in told["row"]["weights"]], query=5)
    widget = notebook.widget("steps")
    scores = widget.root.locator("[data-part=score-input]")
    scores.nth(2).fill("4.5")
    widget.root.locator("[data-part=mask-box]").nth(0).uncheck()
    expect(widget.part("edited")).to_contain_text("score with “cat” 4.50 in place of")
    expect(widget.part("edited")).to_contain_text("“the” hidden and temperature 2")
    widget.part("scaled-box").uncheck()
    row = notebook.read("read", lambda told: told["row"]["scores"][1] == pytest.approx(told["row"]["dots"][1]))["row"]
    assert row["weights"][0] == 0
    widget = notebook.widget("steps")
    assert column(widget, "weights") == [round(value, 3) for value in row["weights"]]
    assert row["scores"][2] == 4.5
    notebook.tab.screenshot("stepper-edited")
    scores = widget.root.locator("[data-part=score-input]")
    scores.nth(1).focus()
    value = number(scores.nth(1).input_value())
    notebook.tab.press("ArrowUp")  # a native number field
    assert number(scores.nth(1).input_value()) > value
    widget.root.locator("[data-part=mask-box]").nth(1).focus()
    for key in range(1, 6):
        box = widget.root.locator("[data-part=mask-box]").nth(key)
        place = box.bounding_box()
        box.hover()
        expect(widget.root.locator("tr.headroom-is-k th")).to_contain_text(f"K {key + 1} ")
        assert box.bounding_box() == place, "what is pointed at must not move: the click would miss it"
        box.click()
        expect(box).not_to_be_checked()
    expect(widget.part("live")).to_contain_text("hides every key from “milk”: a softmax over nothing has no meaning")
    widget.part("reset").click()
    expect(widget.part("edited")).to_be_hidden()
    widget.part("query-select").select_option("2")
    widget.part("edit").click()
    after = notebook.read("read", edited=False, query=2)["row"]
    assert after == before


def test_a_students_numbers_stand_beside_the_right_ones(notebook) -> None:
    widget = notebook.widget("checked")
    told = widget.part("check").locator("li")
    expect(told.nth(0)).to_contain_text(
        "✗ Your scores first differ from the right ones at query 2 “tired”, key 3 “cat”"
    )
    expect(told.nth(1)).to_contain_text("✓ Your weights agree")
    told.nth(0).locator("button").click()
    expect(widget.root).to_have_attribute("data-query", "1")
    expect(widget.root).to_have_attribute("data-step", "scale")
    beside = widget.root.locator("td.headroom-beside[data-spot=scores]")
    expect(beside.nth(2)).to_have_class(re.compile("headroom-differs"))
    texts = beside.all_inner_texts()
    assert [text[0] for text in texts] == ["=", "=", "≠", "=", "=", "="]
    right = column(widget, "scores")
    assert number(texts[2]) == pytest.approx(right[2] + 1, abs=0.011)
    notebook.tab.screenshot("stepper-checked")


def test_the_table_holds_all_matrices(notebook) -> None:
    widget = notebook.widget("steps")
    row = notebook.read("read")["row"]
    widget = notebook.widget("steps")
    table = widget.open_table()
    assert table.locator("caption").count() == 8
    weights = table.locator("table", has_text="Weights").locator("tbody tr").nth(2)
    assert [number(text) for text in weights.locator("td").all_inner_texts()] == [round(x, 3) for x in row["weights"]]
    widget.close_table()


@pytest.fixture
def alone(browser):
    """Shows a widget on a page of its own, without Jupyter; nothing may go wrong on it."""
    page = browser.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def show(widget: AttentionStepper):
        page.evaluate(EXPORTED, [*front_end("attention_stepper"), exported(widget)])
        return page

    yield show
    page.close()
    assert wrong == []


def test_a_score_of_zero_is_a_number_to_change_too(alone) -> None:
    page = alone(AttentionStepper([[2.0]], [[0.0], [1.5]], [[1.0], [2.0]], step="scale", editing=True))
    inputs = page.locator("[data-part=score-input]")
    assert [one.input_value() for one in inputs.all()] == ["0", "3"]
    inputs.first.focus()
    page.keyboard.press("ArrowDown")
    assert inputs.first.input_value() == "-0.25"
    expect(page.locator("[data-part=edited]")).to_contain_text("score with key 1 −0.25 in place of 0.00")


def test_a_large_input_is_painted_and_said_too(alone) -> None:
    """The largest that is allowed, with scores so far apart that e to their power would not fit a number."""
    q, k, v = (30 * torch.randn(20, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    widget = AttentionStepper(q, k, v, step="softmax")
    page = alone(widget)
    expect(page.locator("[data-part=working]")).to_contain_text("is taken off all of them")
    cells = page.locator("td[data-spot=weights]:not(.headroom-beside)").all_inner_texts()
    assert [number(text) for text in cells] == [round(value, 3) for value in widget.row.weights.tolist()]
