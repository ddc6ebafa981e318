"""The widgets in a real JupyterLab: one notebook, one tab, in which each test goes on where the one before left off."""

import json
import re
import time
from collections.abc import Iterator
from types import SimpleNamespace

import nbformat
import pytest
from browser import Lab
from playwright.sync_api import Locator, expect

from headroom.widgets import AttentionExplorer
from headroom.widgets.shared import front_end

CELLS = {
    "text": """
        import torch
        from headroom.reference import causal_mask
        from headroom.widgets import AttentionExplorer
        torch.manual_seed(0)
        scores, mask = torch.randn(2, 2, 3, 4, 4), causal_mask(4)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        words = [["the", "cat", "sat", "down"], ["a", "dog"]]
        text = AttentionExplorer(weights, tokens=words, scores=scores, mask=mask, layer=0, head=0, query=2)
        text""",
    "image": """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        digits = embedded_digits()
        image = AttentionExplorer.from_model(pretrained_vit(), digits.val_images[:3], labels=digits.val_labels[:3])
        image""",
    "read": """
        import json
        from dataclasses import asdict
        numbers = {"weights": weights[0, 0, 0].tolist(), "unmasked": scores[0, 0, 0].softmax(-1).tolist()}
        selected = {"text": asdict(text.selection), "image": asdict(image.selection)}
        print(json.dumps(selected | {"numbers": numbers, "patches": image.selected_weights.tolist()}))""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[SimpleNamespace]:
    """A notebook with an explorer of words, one of patches, and a cell that prints what Python knows of them."""
    written = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for name, source in CELLS.items():
        cell = nbformat.v4.new_code_cell(re.sub(r"^ {8}", "", source.strip("\n"), flags=re.MULTILINE))
        cell["id"] = name
        written.cells.append(cell)
    nbformat.write(written, server.course / "widgets.ipynb")
    tab = Lab(browser, server)
    tab.open_notebook("widgets.ipynb")
    tab.run_all(timeout=120)

    def explorer(cell: str) -> SimpleNamespace:
        root = tab.cell(cell).locator(".headroom-attention-explorer")
        root.wait_for(timeout=30_000)
        return SimpleNamespace(root=root, part=lambda name: root.locator(f"[data-part={name}]"))

    def read(name: str = "text", **expected) -> dict:
        """What Python knows, once it knows what is expected: ipywidgets sends a change when the one before is done."""
        for _ in range(20):
            answer = json.loads("".join(tab.run_cell("read")["outputs"][0]["text"]))
            if expected.items() <= answer[name].items():
                return answer
        raise AssertionError(f"{expected} has not reached Python: {answer[name]}")

    yield SimpleNamespace(tab=tab, page=tab.page, explorer=explorer, read=read)
    tab.close()


def in_matrix(matrix: Locator, row: float, column: float) -> dict:
    """Where a cell of the large matrix lies, as Playwright takes it."""
    laid = {name: float(matrix.get_attribute(f"data-{name}")) for name in ("left", "top", "cell-width", "cell-height")}
    return {
        "x": laid["left"] + (column + 0.5) * laid["cell-width"],
        "y": laid["top"] + (row + 0.5) * laid["cell-height"],
    }


def test_it_says_what_it_shows(notebook) -> None:
    text, image = notebook.explorer("text"), notebook.explorer("image")
    expect(text.part("live")).to_contain_text("Sequence 1, layer 1, head 1: query 3 “sat” gives most weight to key")
    expect(text.part("queries").locator("[data-token]")).to_have_text(["the", "cat", "Qsat", "down"])
    assert text.part("head").count() == 4, "the mean and three heads"
    expect(image.part("live")).to_contain_text(
        "Image 1, layer 2, mean of heads: [class] gives most weight to patch row"
    )
    notebook.tab.screenshot("explorer-image")


def test_what_is_pointed_at_shows_everywhere_and_reaches_python(notebook) -> None:
    text = notebook.explorer("text")
    text.part("matrix").hover(position=in_matrix(text.part("matrix"), 1, 0))
    expect(text.root).to_have_attribute("data-query", "1")
    expect(text.part("queries").locator(".headroom-is-q")).to_contain_text("cat")
    expect(text.part("keys-row").locator(".headroom-is-k")).to_contain_text("the")
    expect(text.part("live")).to_contain_text("Pointing at key 1 “the”")
    notebook.read(query=1, key=0)  # the pointer has rested

    text = notebook.explorer("text")
    text.part("queries").locator("[data-token='3']").hover()
    expect(text.root).to_have_attribute("data-query", "3")
    small = text.part("small-matrix").nth(2)
    box = small.bounding_box()
    small.hover(position={"x": box["width"] * 0.4, "y": box["height"] * 0.6})
    expect(text.part("live")).to_contain_text("query 3 “sat” gives")
    expect(text.part("live")).to_contain_text("Pointing at key 2 “cat”")


def test_a_click_locks_and_escape_unlocks(notebook) -> None:
    text = notebook.explorer("text")
    text.part("queries").locator("[data-token='2']").click()
    expect(text.part("live")).to_contain_text("Locked.")
    text.part("queries").locator("[data-token='0']").hover()
    expect(text.root).to_have_attribute("data-query", "2")
    notebook.read(query=2, locked=True)
    text = notebook.explorer("text")
    text.part("queries").focus()
    notebook.page.keyboard.press("Escape")
    expect(text.root).to_have_attribute("data-locked", "false")


def test_keys_move_through_patches_layers_and_heads(notebook) -> None:
    image = notebook.explorer("image")
    image.part("image").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "[", "3", "Enter"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("Image 1, layer 1, head 3: patch row 2, column 2 gives most weight")
    answer = notebook.read("image", layer=0, head=2, query=5, locked=True)
    assert len(answer["patches"]) == 16
    image = notebook.explorer("image")
    image.part("matrix").focus()
    for key in ("Escape", "ArrowUp", "ArrowRight", "ArrowRight"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("patch row 2, column 1 gives most weight")
    expect(image.part("live")).to_contain_text("Pointing at patch row 1, column 1: weight 0.")


def test_the_notebooks_own_keys_do_nothing_inside(notebook) -> None:
    """Outside of the widget, `b` adds a cell and `d d` deletes one."""
    before = len(notebook.tab.cells())
    for name, part in (("text", "keys-row"), ("text", "predict"), ("image", "image"), ("image", "sample-select")):
        notebook.explorer(name).part(part).focus()
        for key in ("b", "a", "d", "d", "x", "z", "Shift+m", "Control+m"):
            notebook.page.keyboard.press(key)
    image = notebook.explorer("image")
    image.part("image").focus()
    if image.root.get_attribute("data-control") != "none":
        notebook.page.keyboard.press("x")  # it switched the control
    assert len(notebook.tab.cells()) == before
    notebook.page.keyboard.press("Tab")  # leaves the picture
    assert image.part("image").evaluate("(element) => element !== document.activeElement")


def test_the_mask_in_numbers(notebook) -> None:
    """Scores before, weights after, and what the weights left are divided by."""
    text = notebook.explorer("text")
    text.part("queries").locator("[data-token='1']").click()
    text.part("show-select").select_option("unmasked")
    numbers = notebook.read(query=1)["numbers"]
    text = notebook.explorer("text")
    share = sum(numbers["unmasked"][1][:2])
    said = text.part("renormalised").inner_text()
    assert f"gives {share:.3f} to the 2 keys" in said
    best = max(range(2), key=lambda key: numbers["weights"][1][key])
    assert f"{numbers['unmasked'][1][best]:.3f} / {share:.3f} = {numbers['weights'][1][best]:.3f}" in said
    values = text.part("keys-row").locator(".headroom-value")
    assert values.all_inner_texts() == [
        f"{'× ' if key > 1 else ''}{numbers['unmasked'][1][key]:.2f}" for key in range(4)
    ]
    text.part("show-select").select_option("scores")
    expect(text.part("live")).to_contain_text("has its highest score with")
    notebook.tab.screenshot("explorer-scores")
    text.part("show-select").select_option("weights")


def test_predict_first_then_reveal(notebook) -> None:
    text = notebook.explorer("text")
    weights = notebook.read()["numbers"]["weights"][3]
    text = notebook.explorer("text")
    text.part("queries").locator("[data-token='3']").click()
    text.part("predict").click()
    for part in ("matrix", "heads", "table", "renormalised"):
        expect(text.part(part)).to_be_hidden()
    assert text.part("keys-row").inner_text().split() == ["the", "cat", "sat", "down"], "no number is told"
    assert not re.search(r"0\.\d", text.part("live").inner_text())
    expect(text.part("reveal")).to_be_disabled()
    worst = min(range(4), key=lambda key: weights[key])
    text.part("keys-row").locator(f"[data-token='{worst}']").click()
    expect(text.part("live")).to_contain_text("Marked: key")
    text.part("reveal").click()
    live = text.part("live")
    expect(live).to_contain_text(f"the key you marked gets {weights[worst]:.2f} of the weight")
    expect(live).to_contain_text(f"the best key possible {max(weights):.2f}, an even share would be 0.25")
    expect(live).to_contain_text("It looks elsewhere")
    expect(live).to_contain_text("yours comes 4th")
    notebook.read(marks=[worst])
    text = notebook.explorer("text")
    notebook.tab.screenshot("explorer-revealed")
    text.part("predict").click()
    expect(text.part("matrix")).to_be_visible()

    image = notebook.explorer("image")
    image.part("image").focus()
    for key in ("Escape", "p", "ArrowDown", "Space", "r"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("the key you marked gets")
    notebook.page.keyboard.press("p")


def test_the_table_has_the_numbers(notebook) -> None:
    text = notebook.explorer("text")
    text.part("table").locator("summary").click()
    rows = text.part("table").locator("tbody tr")
    expect(rows).to_have_count(4)
    weights = notebook.read()["numbers"]["weights"][3]
    text = notebook.explorer("text")
    for key, row in enumerate(rows.all()):
        assert f"{weights[key]:.3f}" in row.inner_text()


CONTROLS = {"button", "combobox", "slider", "checkbox", "radio", "application", "img", "image", "region"}


@pytest.mark.parametrize("name", ["text", "image"])
def test_every_control_has_a_name(notebook, name) -> None:
    """As assistive technology gets it: Chromium's accessibility tree of the widget."""
    notebook.explorer(name)
    devtools = notebook.page.context.new_cdp_session(notebook.page)
    index = list(CELLS).index(name)
    found = devtools.send(
        "Runtime.evaluate", {"expression": f"document.querySelectorAll('.headroom-attention-explorer')[{index}]"}
    )
    nodes = devtools.send("Accessibility.queryAXTree", {"objectId": found["result"]["objectId"]})["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
    ]
    controls = [(role, label) for role, label in named if role in CONTROLS]
    assert len(controls) > 10
    assert [role for role, label in controls if not label.strip()] == []
    assert ("slider", "Layer") in [(role, label.strip()) for role, label in controls]


CONTRAST = """(root) => {
    const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const numbers = (css) => css.match(/[\\d.]+/g).map(Number);
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = numbers(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const texts = [...root.querySelectorAll("*")].filter((element) =>
        element.checkVisibility() && !element.closest(":disabled") && element.tagName !== "OPTION" &&
        [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
    return texts.map((element) => {
        const colours = [numbers(getComputedStyle(element).color), behind(element)];
        const [a, b] = colours.map(luminance).sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), element.textContent];
    });
}"""


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_text_stands_out_in_both_themes(notebook, theme) -> None:
    notebook.page.evaluate(
        "(theme) => { void jupyterapp.commands.execute('apputils:change-theme', { theme }); }", theme
    )
    light = "true" if theme.endswith("Light") else "false"
    notebook.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
    time.sleep(0.5)  # the new style sheet
    for name in ("text", "image"):
        contrasts = notebook.explorer(name).root.evaluate(CONTRAST)
        assert len(contrasts) > 20
        assert [text for contrast, text in contrasts if contrast < 4.5] == []
        notebook.tab.screenshot(f"explorer-{name}-{theme.rsplit()[-1].lower()}")


@pytest.mark.parametrize(("width", "height"), [(700, 500), (496, 900)])
def test_nothing_is_cut_off_when_zoomed_or_narrow(notebook, width, height) -> None:
    """A zoom of 200 % halves the window in CSS pixels; beside JupyterLab's own bars, 496 px leave the widget 380."""
    notebook.page.evaluate(
        """() => {
            if (!jupyterapp.shell.leftCollapsed) void jupyterapp.commands.execute('application:toggle-left-area');
        }"""
    )
    before = notebook.page.viewport_size
    try:
        notebook.page.set_viewport_size({"width": width, "height": height})
        time.sleep(0.5)
        for name in ("text", "image"):
            inner, needed = notebook.explorer(name).root.evaluate("(root) => [root.clientWidth, root.scrollWidth]")
            assert needed <= inner <= width - 100
            notebook.tab.screenshot(f"explorer-{name}-{width}")
    finally:
        notebook.page.set_viewport_size(before)
        time.sleep(0.3)


def test_it_lives_on_in_the_saved_notebook(notebook) -> None:
    """Saved, its kernel gone, reopened: it shows what was chosen last and answers, without a cell run."""
    image = notebook.explorer("image")
    image.part("image").focus()
    for key in ("Escape", "c", "2"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("head 2: [class] gives")
    said = image.part("live").inner_text()
    notebook.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    notebook.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.tab.open_notebook("widgets.ipynb")
    image = notebook.explorer("image")
    expect(image.part("live")).to_have_text(said, timeout=30_000)
    image.part("image").focus()
    for key in ("[", "ArrowDown", "h"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("Image 1, layer 1, head 3: patch row 1, column 1 gives most weight")
    notebook.tab.screenshot("explorer-reopened")


def test_nothing_went_wrong_and_nobody_was_asked(notebook) -> None:
    assert notebook.tab.left_the_machine == []
    assert notebook.tab.errors == []


EXPORTED = """async ([esm, css, state, buffers]) => {
    const style = document.createElement("style");
    style.textContent = css;
    document.head.append(style);
    const mark = document.createElement("script");
    mark.type = "application/vnd.jupyter.widget-state+json"; // as nbconvert writes it
    document.head.append(mark);
    for (const [name, bytes] of Object.entries(buffers)) state[name] = new DataView(new Uint8Array(bytes).buffer);
    const heard = {};
    const model = {
        get: (name) => state[name],
        set: (name, value) => { state[name] = value; heard[name]?.(); },
        save_changes: () => {}, on: (name, call) => (heard[name.slice(7)] = call), off: () => {},
    };
    const { default: widget } = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
    widget.render({ model, el: document.body });
}"""


def test_in_a_page_without_python_it_answers_and_says_what_is_missing(browser) -> None:
    """The front end is all there is: no Jupyter, no network. What an exported page gives it, this page gives it too."""
    widget = AttentionExplorer([[[[1.0, 0.0], [0.25, 0.75]]]], tokens=["so", "it"])
    page = browser.new_page(device_scale_factor=2)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    state = {name: getattr(widget, name) for name in widget.keys if hasattr(widget, name) and not name.startswith("_")}
    plain = {name: value for name, value in state.items() if isinstance(value, str | int | float | bool | list | None)}
    buffers = {name: list(getattr(widget, name)) for name in ("_attention", "_scores", "_mask", "_pixels")}
    page.evaluate(EXPORTED, [*front_end("attention_explorer"), plain | {"_facts": widget._facts}, buffers])
    page.locator("[data-part=queries]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-part=live]")).to_contain_text("query 2 “it” gives most weight to key 2 “it” (0.75)")
    pixels, wide = page.locator("[data-part=matrix]").evaluate("(canvas) => [canvas.width, canvas.clientWidth]")
    assert pixels == 2 * wide, "drawn at the screen's own resolution"
    assert "There is no Python behind this page" in page.locator("[data-part=python]").text_content()
    page.close()
    assert wrong == []
