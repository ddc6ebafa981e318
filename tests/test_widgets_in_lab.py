"""What every widget promises, in a real JupyterLab: one notebook holds them all, each test goes on from the last.

A widget's own test file checks what it shows. Here: it speaks, can be used with the keys alone, keeps the notebook's
keys from the notebook, has names, contrast and room for everything, tells Python, outlives its kernel, and leaves
Matplotlib alone. Whoever writes a widget adds it to WIDGETS.
"""

import json
import re
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import nbformat
import pytest
from anywidget import AnyWidget
from axe_playwright_python.sync_playwright import Axe
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from headroom import widgets
from tests.widgets import Widget, WidgetNotebook, widget_notebook


@dataclass(frozen=True)
class Shown:
    """A widget as the notebook shows it.

    Attributes:
        source: Python that leaves it in the variable `widget`.
        part: the `data-part` that has the focus while `keys` are pressed.
        keys: what changes the selection, each time again, without Python's help.
    """

    source: str
    part: str
    keys: tuple[str, ...]


WIDGETS = {
    "AttentionExplorer": Shown(
        """
        import torch
        from headroom.reference import causal_mask
        from headroom.widgets import AttentionExplorer
        scores, mask = torch.randn(2, 2, 3, 4, 4, generator=torch.Generator().manual_seed(0)), causal_mask(4)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        words = [["the", "cat", "sat", "down"], ["a", "dog"]]
        widget = AttentionExplorer(weights, tokens=words, scores=scores, mask=mask)
        """,
        "matrix",
        ("h",),
    ),
    "AttentionExplorer of an image": Shown(
        """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import AttentionExplorer
        digits = embedded_digits()
        widget = AttentionExplorer.from_model(pretrained_vit(), digits.val_images[:3], labels=digits.val_labels[:3])
        """,
        "image",
        ("i",),
    ),
    "PositionExplorer": Shown(
        """
        from headroom.pretrained import pretrained_vit
        from headroom.reference import sinusoidal_encoding
        from headroom.widgets import PositionExplorer
        widget = PositionExplorer(pretrained_vit().positions, encoding=sinusoidal_encoding, position=3, dimension=4)
        """,
        "matrix",
        ("k",),
    ),
    "BugSwitches": Shown(
        """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import BugSwitches
        digits, some = embedded_digits(), ["unscaled", "no_class_token", "no_residual"]
        widget = BugSwitches(pretrained_vit(), digits.val_images[:20], digits.val_labels[:20], some, on=["unscaled"])
        """,
        "healthy",
        ("h",),
    ),
    "NormExplorer": Shown(
        """
        import torch
        from headroom.reference import LayerNorm
        from headroom.widgets import NormExplorer
        x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
        widget = NormExplorer.from_module(LayerNorm(4), x, tokens=["the", "cat", "sat"])
        """,
        "tensor",
        ("n",),
    ),
    "DigitPad": Shown(
        """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import DigitPad
        digits = embedded_digits()
        widget = DigitPad(pretrained_vit(), digits.val_images[:3], digits.val_labels[:3], example=0)
        """,
        "pad",
        ("h",),
    ),
    "AttentionStepper": Shown(
        """
        import torch
        from headroom.reference import causal_mask
        from headroom.widgets import AttentionStepper
        q, k, v = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))
        words = ["the", "tired", "cat", "drank", "its", "milk"]
        widget = AttentionStepper(q, k, v, causal_mask(6), tokens=words, scores=q @ k.T, step="mix", editing=True)
        """,
        "s",
        ("q",),
    ),
    "DecodingStepper": Shown(
        """
        from headroom.pretrained import pretrained_transformer
        from headroom.widgets import DecodingStepper
        widget = DecodingStepper(pretrained_transformer(), "1 M 2021", step=3)
        """,
        "written",
        ("h",),
    ),
}

BEFORE = """
    import json
    shown = {}
    """
SELECTIONS = "print(json.dumps({name: repr(widget.selection) for name, widget in shown.items()}))"
DRAWING = """
    import hashlib, io
    import matplotlib.pyplot as plt
    def figure(i):
        plt.figure(figsize=(3, 2))
        plt.plot([i * j % 7 for j in range(20)])
        plt.title(f"figure {i}")
        file = io.BytesIO()
        plt.savefig(file, format="png")
        plt.close()
        return hashlib.sha256(file.getvalue()).hexdigest()
    still = [figure(i) for i in range(50)]
    """
DRAWING_AGAIN = 'print(json.dumps({"same": sum(figure(i) == one for i, one in enumerate(still))}))'
RUN_DRAWING = """() => {
    const notebook = jupyterapp.shell.currentWidget;
    const drawing = notebook.content.widgets.find((cell) => cell.model.id === "drawing-again");
    const { kernel } = notebook.sessionContext.session;
    const future = kernel.requestExecute({ code: drawing.model.sharedModel.getSource() });
    window.answer = null;
    future.onIOPub = ({ content }) => { if (content.name === "stdout") window.answer = content.text; };
    future.done.then(() => { window.answer ??= "{}"; });
}"""

pytestmark = pytest.mark.quick
every_widget = pytest.mark.parametrize("name", WIDGETS)


def code(shown: Shown) -> str:
    return textwrap.dedent(shown.source).strip()


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """A notebook with every widget, and cells that print each one's selection and draw figures with pyplot."""
    cells = {"before": BEFORE}
    cells |= {name: f"{code(shown)}\nshown[{name!r}] = widget\nwidget" for name, shown in WIDGETS.items()}
    cells |= {"selections": SELECTIONS, "drawing": DRAWING, "drawing again": DRAWING_AGAIN}
    # A cell's id holds no spaces.
    ids = {name: re.sub(r"\W", "-", name) for name in cells}
    with widget_notebook(browser, server, "widgets", {ids[name]: source for name, source in cells.items()}) as opened:
        yield opened


def at(notebook: WidgetNotebook, name: str) -> Widget:
    return notebook.widget(re.sub(r"\W", "-", name))


def selections(notebook: WidgetNotebook) -> dict[str, str]:
    return json.loads("".join(notebook.tab.run_cell("selections")["outputs"][0]["text"]))


def test_every_widget_is_here() -> None:
    assert {name.split()[0] for name in WIDGETS} == set(widgets.__all__)


@every_widget
def test_it_says_in_a_sentence_what_it_shows(notebook, name) -> None:
    live = at(notebook, name).part("live")
    expect(live).to_have_attribute("aria-live", "polite")
    expect(live).to_contain_text(re.compile(r"\w+ .*\."))
    notebook.tab.screenshot(f"widget-{name}")


@every_widget
def test_what_is_chosen_with_keys_reaches_the_next_cell(notebook, name) -> None:
    before = selections(notebook)
    notebook.press(at(notebook, name), WIDGETS[name].part, *WIDGETS[name].keys)
    for _ in range(20):
        after = selections(notebook)
        if after[name] != before[name]:
            break
    assert after[name] != before[name]
    assert {other: said for other, said in after.items() if other != name} == {
        other: said for other, said in before.items() if other != name
    }


@every_widget
def test_a_choice_that_reached_python_is_not_sent_back(name, monkeypatch) -> None:
    """It would undo a later one: of two quick presses of an arrow key, the second would start from before the first."""
    names: dict = {}
    exec(code(WIDGETS[name]), names)
    widget = names["widget"]
    sent = []
    monkeypatch.setattr(widget, "_send", lambda message, buffers=None: sent.append(message))
    widget.set_state({"tooltip": "control"})
    assert sent == [{"method": "echo_update", "state": {"tooltip": "control"}, "buffer_paths": []}]
    chosen = {trait for trait in widget.keys if trait[0] != "_" and not hasattr(AnyWidget, trait)}
    assert len(chosen) >= 5
    assert chosen - {"x"} == set(widget._choices) <= set(asdict(widget.selection)), "each is declared with `choice`"
    widget.set_state(widget.get_state(chosen))
    assert len(sent) == 1


FOCUSABLE = "select:enabled, input:enabled, button:enabled, textarea:enabled, summary, [tabindex='0']"


@pytest.mark.full
@every_widget
def test_the_notebooks_own_keys_do_nothing_inside(notebook, name) -> None:
    """Outside of the widget, `b` adds a cell and `d d` deletes one."""
    before = [cell["id"] for cell in notebook.tab.cells()]
    widget = at(notebook, name)
    places = [place for place in widget.root.locator(FOCUSABLE).all() if place.is_visible()]
    assert places
    for place in places:
        if not place.is_visible() or place.is_disabled():
            continue  # what was pressed before may have hidden it
        place.focus()
        notebook.tab.press("b", "a", "d", "d", "x", "z", "Shift+M", "Control+m")
    assert [cell["id"] for cell in notebook.tab.cells()] == before
    notebook.press(at(notebook, name), WIDGETS[name].part, "Escape")


@every_widget
def test_tab_goes_through_it_with_the_focus_in_sight_and_leaves(notebook, name) -> None:
    widget = at(notebook, name)
    widget.root.evaluate("(root) => { root.tabIndex = -1; root.focus(); root.removeAttribute('tabindex'); }")
    passed, unseen = set(), []
    for _ in range(200):
        notebook.page.keyboard.press("Tab")
        seen = widget.root.evaluate(
            """(root) => {
                const one = document.activeElement;
                if (!root.contains(one)) return null;
                const { outlineStyle, outlineWidth } = getComputedStyle(one);
                const name = one.outerHTML.slice(0, 160);
                return [name, outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2];
            }"""
        )
        if seen is None:
            break
        passed.add(seen[0])
        if not seen[1]:
            unseen.append(seen[0])
    else:
        raise AssertionError("Tab never leaves the widget")
    assert len(passed) >= 2
    assert unseen == []


CONTROLS = {"application", "button", "checkbox", "combobox", "image", "img", "radio", "region", "slider"}
CONTROLS |= {"spinbutton", "textbox"}


@every_widget
def test_every_control_has_a_name(notebook, name) -> None:
    """As assistive technology gets it: Chromium's accessibility tree of the widget."""
    root = at(notebook, name).root
    root.evaluate("(root) => { window.asked = root; }")
    devtools = notebook.page.context.new_cdp_session(notebook.page)
    found = devtools.send("Runtime.evaluate", {"expression": "window.asked"})
    nodes = devtools.send("Accessibility.queryAXTree", {"objectId": found["result"]["objectId"]})["nodes"]
    controls = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in CONTROLS
    ]
    assert len(controls) >= 3
    assert [role for role, label in controls if not label.strip()] == []


OUT_OF_REACH = """(table, focusable) => [...table.querySelectorAll("*")].filter((one) => {
    const { overflowX, overflowY } = getComputedStyle(one);
    return /auto|scroll/.test(overflowX + overflowY) && !one.matches(focusable) && !one.querySelector(focusable);
}).map((one) => one.outerHTML.slice(0, 120))"""


@every_widget
def test_its_numbers_are_a_table_too(notebook, name) -> None:
    widget = at(notebook, name)
    table = widget.open_table()
    expect(table.locator("caption").first).to_contain_text(re.compile(r"\w"))
    assert table.locator("th[scope]").count() >= 2
    assert re.search(r"\d", table.locator("td").all_inner_texts().__str__())
    assert table.evaluate(OUT_OF_REACH, FOCUSABLE) == [], "arrow keys scroll what takes the focus"
    widget.close_table()


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


@pytest.fixture(params=["JupyterLab Dark", "JupyterLab Light"], scope="module")
def theme(request, notebook) -> str:
    notebook.page.evaluate(
        "(theme) => { void jupyterapp.commands.execute('apputils:change-theme', { theme }); }", request.param
    )
    light = "true" if request.param.endswith("Light") else "false"
    notebook.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
    time.sleep(0.5)  # the new style sheet
    return request.param.split()[-1].lower()


PAINTED = """(root) => [...root.querySelectorAll("canvas")].filter((canvas) => canvas.clientWidth > 1)
    .every((canvas) => canvas.width > 1)"""


@every_widget
def test_it_can_be_read_in_both_themes(notebook, theme, name) -> None:
    """Contrast of all text, and nothing that axe-core (the rules of WCAG 2.2 and its best practices) calls serious.

    What is painted is painted again: JupyterLab takes widgets their size for a moment when its theme changes.
    """
    widget = at(notebook, name)
    expect(widget.root).to_be_visible()
    notebook.page.wait_for_function(f"(root) => ({PAINTED})(root)", arg=widget.root.element_handle(), timeout=5000)
    contrasts = widget.root.evaluate(CONTRAST)
    assert len(contrasts) > 5
    assert [text for contrast, text in contrasts if contrast < 4.5] == []
    widget.root.evaluate(
        "(root) => { for (const one of document.querySelectorAll('#asked')) one.id = ''; root.id ||= 'asked'; }"
    )
    identity = widget.root.get_attribute("id")
    found = Axe().run(notebook.page, f"#{identity}", {"resultTypes": ["violations"]}).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["help"], [node["html"] for node in one["nodes"]]) for one in serious] == []
    notebook.tab.screenshot(f"widget-{name}-{theme}")


@pytest.mark.parametrize(("width", "height"), [pytest.param(700, 500, marks=pytest.mark.full), (496, 900)])
@every_widget
def test_nothing_is_cut_off_when_zoomed_or_narrow(notebook, name, width, height) -> None:
    """A zoom of 200 % halves the window in CSS pixels; beside JupyterLab's own bars, 496 px leave the widget 380."""
    notebook.page.evaluate(
        """() => {
            if (!jupyterapp.shell.leftCollapsed) void jupyterapp.commands.execute('application:toggle-left-area');
        }"""
    )
    before = notebook.page.viewport_size
    try:
        notebook.page.set_viewport_size({"width": width, "height": height})
        root = at(notebook, name).root
        for _ in range(50):  # JupyterLab lays its panels out when the window has kept its size for a moment
            inner, needed = root.evaluate("(root) => [root.clientWidth, root.scrollWidth]")
            if needed <= inner <= width - 100:
                break
            time.sleep(0.1)
        assert needed <= inner <= width - 100
        notebook.tab.screenshot(f"widget-{name}-{width}")
    finally:
        notebook.page.set_viewport_size(before)


@every_widget
def test_nothing_moves_by_itself_for_readers_who_asked_for_that(notebook, name) -> None:
    widget = at(notebook, name)
    notebook.page.emulate_media(reduced_motion="reduce")
    try:
        moving = widget.root.evaluate(
            """(root) => [...root.querySelectorAll("*")].filter((one) => {
                const { animationName, transitionDuration } = getComputedStyle(one);
                return animationName !== "none" || transitionDuration.split(",").some((time) => parseFloat(time) > 0);
            }).map((one) => one.outerHTML.slice(0, 120))"""
        )
        assert moving == []
    finally:
        notebook.page.emulate_media(reduced_motion="no-preference")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full) for name in WIDGETS])
def test_figures_drawn_while_it_is_used_are_whole(notebook, name) -> None:
    """It answers while a cell draws, and spoils no figure.

    After every message of a widget, ipykernel shows and closes pyplot's open figures. JupyterLab's default has the
    kernel hear widgets in a thread of their own, in the midst of a cell: 15 of these 50 figures came out right. The
    course's JupyterLab lets them wait for the cell's end (`commsOverSubshells` in jupyter/labconfig).
    """
    widget = at(notebook, name)
    live = widget.part("live")
    widget.part(WIDGETS[name].part).first.focus()
    notebook.page.evaluate(RUN_DRAWING)
    deadline = time.monotonic() + 60
    said = set()
    while not (answer := notebook.page.evaluate("() => window.answer")):
        notebook.tab.press(*WIDGETS[name].keys)
        said.add(live.inner_text())
        assert time.monotonic() < deadline
    assert len(said) > 1, "it did not answer while the kernel was busy"
    assert json.loads(answer) == {"same": 50}


RESTART = "() => { void jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"
SAVE = "() => jupyterapp.shell.currentWidget.context.save()"


@pytest.mark.full
def test_they_live_on_in_a_notebook_saved_after_a_restart(notebook) -> None:
    """Their kernel restarted, saved, reopened, saved and reopened: each says what is gone, shows what it showed last,
    and answers, without a cell run."""
    said = {}
    for name, shown in WIDGETS.items():
        widget = at(notebook, name)
        expect(widget.part("lost")).to_be_hidden()
        notebook.press(widget, shown.part, *shown.keys)
        widget.painted()
        said[name] = widget.part("live").inner_text()
    selections(notebook)  # everything has arrived
    notebook.page.evaluate(RESTART)
    for name in WIDGETS:
        expect(at(notebook, name).part("lost")).to_contain_text("Run this cell again to bring it back", timeout=5000)
    notebook.tab.wait_for_kernel()
    for _ in range(2):  # reopened, no widget has ever had Python behind it
        notebook.page.evaluate(SAVE)
        notebook.tab.open_notebook(notebook.path)
        for name in WIDGETS:
            expect(at(notebook, name).part("live")).to_have_text(said[name], timeout=90_000)
    for name, shown in WIDGETS.items():
        expect(at(notebook, name).part("lost")).to_contain_text("Run this cell again to bring it back")
        notebook.press(at(notebook, name), shown.part, *shown.keys)
        expect(at(notebook, name).part("live")).not_to_have_text(said[name])
        notebook.tab.screenshot(f"widget-{name}-reopened")
    state = nbformat.read(notebook.tab.server.course / notebook.path, 4).metadata["widgets"]
    saved = state["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert sum(one["model_module"] == "anywidget" for one in saved) == len(WIDGETS)


def test_a_page_that_has_no_widgets_shows_a_picture_and_says_what_it_is(browser, notebook) -> None:
    """As nbconvert makes one of a notebook that was saved without the widgets' state."""
    path = notebook.tab.server.course / notebook.path
    notebook.page.evaluate(SAVE)
    saved = nbformat.read(path, 4)
    saved.metadata.pop("widgets", None)
    page = browser.new_page()
    page.route(re.compile("^https?:"), lambda route: route.abort())  # MathJax, which nothing here needs
    page.set_content(HTMLExporter(template_name="lab").from_notebook_node(saved)[0], wait_until="domcontentloaded")
    pictures = page.locator("figure img")
    expect(pictures).to_have_count(len(WIDGETS))
    for picture in pictures.all():
        expect(picture).to_have_attribute("alt", re.compile(r"\w+ .*\."))
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 300
        assert len(picture.get_attribute("src")) < 100_000
    page.close()


def test_nothing_went_wrong_and_nobody_was_asked(notebook) -> None:
    assert notebook.tab.left_the_machine == []
    assert notebook.tab.errors == []
