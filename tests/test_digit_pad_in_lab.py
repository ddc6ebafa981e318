"""DigitPad in a real JupyterLab: drawing, reading, breaking; each drawing is computed in another way here."""

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Mouse, expect

from headroom.data import embedded_digits
from headroom.mistakes import MISTAKES
from headroom.pretrained import pretrained_vit
from headroom.widgets import DigitPad
from headroom.widgets.shared import front_end
from tests.test_digit_pad import digits
from tests.widgets import EXPORTED, Widget, WidgetNotebook, exported, widget_notebook

# ---------------------------------------------------------------- the same drawing, computed in another way

FINE, PEN, ERASER = 8, 2.8, 5
CENTRES = (np.arange(28 * FINE) + 0.5) / FINE  # of the fine grid, in pixels


def ink_of(strokes: list, example: np.ndarray | None = None) -> np.ndarray:
    """The ink on the fine grid `(224, 224)`: each point's cover by the distance to the nearest piece of a stroke."""
    ink = np.zeros((28 * FINE, 28 * FINE)) if example is None else np.kron(example, np.ones((FINE, FINE)))
    x, y = np.meshgrid(CENTRES, CENTRES)
    for erases, *flat in strokes:
        points = np.array(flat).reshape(-1, 2)
        nearest = np.full_like(ink, np.inf)
        for a, b in itertools.pairwise(points if len(points) > 1 else [*points, *points]):
            length = max(float(np.square(b - a).sum()), 1e-12)
            along = np.clip(((x - a[0]) * (b[0] - a[0]) + (y - a[1]) * (b[1] - a[1])) / length, 0, 1)
            off = np.hypot(x - a[0] - along * (b[0] - a[0]), y - a[1] - along * (b[1] - a[1]))
            nearest = np.minimum(nearest, off)
        covered = np.clip(((ERASER if erases else PEN) / 2 - nearest) * FINE + 0.5, 0, 1)
        ink = np.minimum(ink, 1 - covered) if erases else np.maximum(ink, covered)
    return ink


def as_mnist(ink: np.ndarray, centred: bool = True) -> np.ndarray:
    """The image `(28, 28)`: the box of the ink scaled to 20 pixels, its centre of mass in pixel (14, 14)."""
    bounds = []
    for axis in (1, 0):  # down, then across
        inked = np.flatnonzero((ink > 1 / 512).any(axis=axis))
        bounds.append((inked[0], inked[-1] + 1))
    step = max(high - low for low, high in bounds) / 20 if centred else FINE
    across = []
    for axis, (low, high) in enumerate(bounds):
        mass = ink.sum(axis=1 - axis)
        middle = (mass * (np.arange(len(mass)) + 0.5)).sum() / mass.sum()
        room = 28 - np.ceil((high - low) / step - 1e-6)
        start = np.clip(np.ceil(14 - (middle - low) / step - 1e-6), 0, room) if centred else low / step
        edges = low + (np.arange(29) - start) * step  # of the pixels, on the fine grid
        fine = np.arange(28 * FINE)
        # How much of each fine row lies in each pixel: (28, 224).
        shared = np.minimum(edges[1:, None], fine + 1) - np.maximum(edges[:-1, None], fine)
        across.append(shared.clip(0) / step)
    return across[0] @ ink @ across[1].T


def test_mnists_own_digits_stay_as_they_are():
    """The rule is MNIST's: 200 of its digits, scaled and centred again, do not change."""
    for image in embedded_digits().val_images[:200, 0].numpy():
        np.testing.assert_allclose(as_mnist(np.kron(image, np.ones((FINE, FINE)))), image, atol=1e-6)


# ---------------------------------------------------------------- in JupyterLab; each test goes on from the one before

CELLS = {
    "pad": """
        import json, time
        from dataclasses import asdict
        from headroom.data import embedded_digits
        from headroom.mistakes import broken
        from headroom.pretrained import pretrained_vit
        from headroom.reference import attention_maps
        from headroom.widgets import DigitPad
        digits, model = embedded_digits(), pretrained_vit()
        pad = DigitPad(model, digits.val_images[:5], digits.val_labels[:5])
        pad""",
    "read": """
        told = {"image": None if pad.image is None else (255 * pad.image[0, 0]).round().int().tolist()}
        told["probabilities"] = None if pad.probabilities is None else pad.probabilities.tolist()
        told["drawing"] = pad._drawing
        if pad.mistake is not None and pad.image is not None:
            told["wrong"] = broken(model, pad.mistake)(pad.image).softmax(dim=-1)[0].tolist()
        if pad.image is not None:
            with attention_maps(model) as maps:
                model(pad.image)
            told["attention"] = maps["encoder.blocks.attention"][0, :, :, 0].tolist()
        print(json.dumps(told | asdict(pad.selection)))""",
    "slow": """
        from headroom.reference import ViT
        class Slow(ViT):
            calls = 0
            def forward(self, images):
                self.calls += 1
                if self.calls > 1:
                    time.sleep(0.2)
                return super().forward(images)
        slow = Slow()
        slow_pad = DigitPad(slow, digits.val_images[:2])
        slow_pad""",
    "read slow": """
        image = slow_pad.image
        print(json.dumps({"calls": slow.calls, "image": None if image is None else
            (255 * image[0, 0]).round().int().tolist(), "drawing": slow_pad._drawing, "centred": slow_pad.centred}))""",
    "do": "pass",
}


@pytest.fixture
def alone(browser):
    """Shows a pad in a page that holds nothing else: no Jupyter, no Python."""
    pages = []

    def show(pad: DigitPad, width: int = 920):
        pages.append(browser.new_page(viewport={"width": width, "height": 900}))
        pages[-1].evaluate(EXPORTED, [*front_end("digit_pad"), exported(pad)])
        return pages[-1]

    yield show
    for page in pages:
        page.close()


def test_another_page_ends_what_was_said_of_the_pen(alone):
    page = alone(DigitPad(pretrained_vit(), digits()))
    live = page.locator("[data-part=live]")
    page.locator("[data-part=pad]").focus()
    for choose in (
        lambda: page.locator("[data-part=example-select]").select_option("1"),
        lambda: page.locator("[data-part=clear]").click(),
    ):
        page.keyboard.press("ArrowDown")
        expect(live).to_contain_text("Pen up at row")
        choose()
        expect(live).not_to_contain_text("Pen")
        page.locator("[data-part=pad]").focus()


def test_mistakes_stand_under_the_part_that_they_change_and_keys_choose_them(alone) -> None:
    made = DigitPad(pretrained_vit(), digits())
    page = alone(made)
    pad = Widget(page.locator(".headroom-digit-pad"))
    menu = pad.part("mistake-select")
    shown = menu.locator("optgroup").evaluate_all(
        "(all) => all.map((g) => [g.label, [...g.children].map((o) => o.value)])"
    )
    groups = dict[str, list[str]]()
    for name, group, *_ in made._facts["mistakes"]:
        groups.setdefault(group, []).append(name)
    assert {label: names for label, names in shown} == groups and len(shown) == len(groups) > 4
    menu.focus()
    for name in [name for names in groups.values() for name in names]:
        page.keyboard.press("ArrowDown")
        expect(pad.root).to_have_attribute("data-mistake", name)


def test_without_python_the_page_reads_what_is_drawn(alone) -> None:
    page = alone(DigitPad(pretrained_vit(), digits()))
    pad = Widget(page.locator(".headroom-digit-pad"))
    trace_with(page.mouse, pad, SEVEN)
    expect(pad.root).to_have_attribute("data-guess", "7")
    expect(pad.part("live")).to_contain_text("[class], layer 2, mean of heads: most weight on patch row")
    pad.part("mistake-select").select_option("no_output")
    expect(pad.part("live")).to_contain_text("With the mistake “no output projection” it reads")
    fresh(pad)
    pad.part("clear").click()
    expect(pad.part("guess").first).to_have_text("Nothing is drawn.")
    assert "computed here" in pad.part("python").text_content()


def test_a_pens_own_eraser_erases(alone) -> None:
    page = alone(DigitPad(pretrained_vit(), digits()))
    pad = Widget(page.locator(".headroom-digit-pad"))
    box = pad.part("pad").bounding_box()
    at = {"pointerId": 1, "pointerType": "pen", "button": 5, "buttons": 32, "bubbles": True}
    at |= {"clientX": box["x"] + box["width"] / 2, "clientY": box["y"] + box["height"] / 2}
    for event in ("pointerdown", "pointerup"):
        pad.part("pad").dispatch_event(event, at)
    expect(pad.root).to_have_attribute("data-strokes", "1")
    expect(pad.part("live")).to_contain_text("Nothing is drawn.")


def test_two_models_answers_are_level_and_menus_stay_inside_a_narrow_page(alone):
    pad = DigitPad(pretrained_vit(), digits(), example=0, mistake="no_class_token")
    tops = (
        alone(pad)
        .locator("[data-part=doubts]")
        .evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    )
    assert len(tops) == 2
    assert tops[0] == tops[1]
    narrow = alone(pad, 380)
    rights = narrow.locator("select").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
    assert max(rights) <= 380
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 380


def test_the_outline_leaves_the_maps_numbers_free(alone):
    pad = DigitPad(pretrained_vit(), digits(), example=0)
    side = pad._facts["side"]
    without = DigitPad(pretrained_vit(), digits(), example=0)
    without._answer = pad._answer | {"pixels": bytes(len(pad._answer["pixels"]))}  # the same weights, and nothing inked
    # What is painted in the middle of each patch, where its number stands, and all of it.
    painted = """(canvas, side) => {
        const pen = canvas.getContext("2d"), w = canvas.width / side;
        const middles = Array.from({ length: side * side }, (_, i) =>
            Array.from(pen.getImageData((i % side + 0.5) * w - 13, (Math.floor(i / side) + 0.5) * w - 7, 26, 15).data));
        return [middles, Array.from(pen.getImageData(0, 0, canvas.width, canvas.width).data)];
    }"""
    numbers, everything = alone(pad).locator("[data-part=map]").first.evaluate(painted, side)
    alike, other = alone(without).locator("[data-part=map]").first.evaluate(painted, side)
    assert numbers == alike
    assert everything != other


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """A notebook with a pad of a trained model, one of a slow model, cells that print what Python knows of them, and a
    cell for whatever a test wants done."""
    cells = {name.replace(" ", "-"): source for name, source in CELLS.items()}
    with widget_notebook(browser, server, "digit_pad", cells) as opened:
        yield opened


def do(notebook: WidgetNotebook, source: str) -> None:
    notebook.tab.set_source("do", source)
    notebook.tab.run_cell("do")


SEVEN = [[(6, 5), (21, 5), (17, 13), (13, 23)]]
DRAWN = {
    0: [[(14, 4), (9, 7), (7, 14), (9, 21), (14, 24), (19, 21), (21, 14), (19, 7), (14, 4)]],
    1: [[(14.5, 4), (14, 14), (13.5, 24)]],
    2: [[(7, 9), (9, 5), (14, 4), (19, 6), (20, 10), (17, 15), (11, 20), (7, 24), (14, 23.5), (21, 24)]],
    3: [[(8, 5), (14, 4), (19, 7), (18, 11), (13, 13), (19, 15), (20, 20), (15, 24), (8, 23)]],
    4: [[(9, 4), (7, 14), (14, 14.5), (20, 14)], [(19, 4), (18, 14), (17, 24)]],
    5: [[(20, 4), (10, 4), (9, 12), (14, 11), (19, 14), (20, 19), (16, 24), (8, 23)]],
    6: [[(17, 4), (11, 9), (8, 17), (10, 23), (15, 24), (19, 20), (17, 16), (12, 16), (9, 20)]],
    7: SEVEN,
    8: [[(14, 13), (9, 9), (10, 5), (15, 4), (19, 7), (11, 15), (8, 20), (12, 24), (18, 22), (19, 17), (14, 13)]],
    9: [[(19, 8), (14, 5), (10, 8), (11, 13), (16, 13), (19, 9), (19, 16), (17, 24)]],
}


def trace(notebook: WidgetNotebook, pad: Widget, strokes: list) -> None:
    """Draw with the mouse; points in pixels of the image."""
    trace_with(notebook.page.mouse, pad, strokes)


def trace_with(mouse: Mouse, pad: Widget, strokes: list) -> None:
    box = pad.part("pad").bounding_box()
    unit = box["width"] / 28
    for points in strokes:
        (x, y), *rest = [(box["x"] + x * unit, box["y"] + y * unit) for x, y in points]
        mouse.move(x, y)
        mouse.down()
        for x, y in rest:
            mouse.move(x, y, steps=6)
        mouse.up()


def fresh(pad: Widget) -> None:
    """Wait until what is drawn now has been read."""
    pad.painted()
    expect(pad.root).to_have_attribute("data-fresh", "true", timeout=15_000)


def expect_image(told: dict, example: np.ndarray | None = None) -> None:
    """What Python was given is what the strokes make, to within the rounding of a byte."""
    ink = ink_of(told["drawing"]["strokes"], example)
    expected = 255 * as_mnist(ink, told["centred"])
    assert np.abs(np.array(told["image"]) - expected).max() <= 0.51
    assert np.max(told["image"]) > 200


def test_what_is_drawn_with_the_mouse_is_read(notebook) -> None:
    pad = notebook.widget("pad")
    expect(pad.part("live")).to_have_text("Nothing is drawn. Draw a digit, or start from one of the menu.")
    trace(notebook, pad, SEVEN)
    fresh(pad)
    expect(pad.root).to_have_attribute("data-guess", "7")
    expect(pad.part("live")).to_contain_text(re.compile(r"^The model reads a 7 \(.*sure, \d\.\d\d\)"))
    notebook.tab.screenshot("pad-seven")
    told = notebook.read("read", strokes=1)
    expect_image(told)
    pad = notebook.widget("pad")
    shown = pad.part("doubts").first.locator(".headroom-value").all_inner_texts()
    assert shown == [f"{p:.2f}" for p in told["probabilities"]]
    assert "to fit 20 × 20, its centre of mass in the middle" in pad.root.inner_text()


def test_its_attention_is_in_the_table_for_each_layer_and_head(notebook) -> None:
    attention = np.array(notebook.read("read")["attention"])  # (layers, heads, 17)
    pad = notebook.widget("pad")
    table = pad.open_table()
    for keys, layer, head in (("0", 1, None), ("[3", 0, 2), ("]1", 1, 0)):
        notebook.press(pad, "pad", *keys)
        row = attention[layer].mean(axis=0) if head is None else attention[layer, head]
        name = "mean of heads" if head is None else f"head {head + 1}"
        best = int(row[1:].argmax())
        expect(pad.part("map-note").first).to_contain_text(
            f"[class], layer {layer + 1}, {name}: most weight on patch row {best // 4 + 1}, column {best % 4 + 1} "
            f"({row[1 + best]:.2f}); {row[0]:.2f} goes to [class]"
        )
        cells = table.locator("table").nth(1).locator("td").all_inner_texts()
        assert [float(cell) for cell in cells if cell] == pytest.approx(row, abs=0.00051)
    pad.close_table()
    notebook.read("read", layer=1, head=0)


def test_the_eraser_undo_and_clear(notebook) -> None:
    pad = notebook.widget("pad")
    pad.part("eraser").click()
    trace(notebook, pad, [[(3, 5), (12, 5)]])
    fresh(pad)
    told = notebook.read("read", strokes=2)
    assert [stroke[0] for stroke in told["drawing"]["strokes"]] == [0, 1]
    expect_image(told)
    pad = notebook.widget("pad")
    pad.part("undo").click()
    pad.part("pen").click()
    before = notebook.read("read", strokes=1)
    pad = notebook.widget("pad")
    pad.part("clear").click()
    expect(pad.part("live")).to_contain_text("Nothing is drawn.")
    expect(pad.part("guess").first).to_have_text("Nothing is drawn.")
    notebook.read("read", image=None, probabilities=None, strokes=0)
    pad = notebook.widget("pad")
    pad.part("undo").click()
    notebook.read("read", image=before["image"], strokes=1)


def test_keys_draw_too(notebook) -> None:
    """A 1 without a mouse: up to where it begins, pen down, down the page, pen up."""
    pad = notebook.widget("pad")
    up, down = ["Shift+ArrowUp"] * 2, ["Shift+ArrowDown"] * 4
    notebook.press(pad, "pad", "Delete", *up, "Space")
    expect(pad.part("live")).to_contain_text("Pen down at row 7, column 15.")
    notebook.tab.press(*down, "Space")
    expect(pad.part("live")).to_contain_text("Pen up at row 23, column 15. The model reads a 1")
    fresh(pad)
    told = notebook.read("read", lambda told: np.max(told["image"]) > 0, strokes=1)
    assert told["drawing"]["strokes"][0] == [0, 14, 6, 14, 10, 14, 14, 14, 18, 14, 22]
    expect_image(told)
    pad = notebook.widget("pad")
    notebook.press(pad, "pad", "e", "Space", "ArrowLeft", "End", "Space", "e", "u")
    expect(pad.root).to_have_attribute("data-strokes", "1")
    expect(pad.part("pen")).to_have_attribute("aria-pressed", "true")
    notebook.read("read", image=told["image"])


def test_a_real_digit_is_given_as_it_is_and_can_be_altered(notebook) -> None:
    pad = notebook.widget("pad")
    pad.part("example-select").select_option("1")
    fresh(pad)
    example = (255 * embedded_digits().val_images[1, 0]).round().int()
    told = notebook.read("read", example=1, strokes=0)
    assert told["image"] == example.tolist()
    pad = notebook.widget("pad")
    trace(notebook, pad, [[(5, 24), (23, 26)]])
    fresh(pad)
    expect_image(notebook.read("read", example=1, strokes=1), example.numpy() / 255)
    pad = notebook.widget("pad")
    pad.part("centred-box").uncheck()
    fresh(pad)
    expect_image(notebook.read("read", centred=False), example.numpy() / 255)
    pad = notebook.widget("pad")
    notebook.press(pad, "pad", "m", "i")
    expect(pad.root).to_have_attribute("data-example", "2")
    fresh(pad)
    notebook.read("read", example=2, strokes=0, centred=True)


def test_a_digit_chosen_in_python_is_shown(notebook) -> None:
    do(notebook, "pad.example = 4")
    pad = notebook.widget("pad")
    expect(pad.root).to_have_attribute("data-example", "4")
    fresh(pad)
    probabilities = notebook.read("read", example=4, strokes=0)["probabilities"]
    pad = notebook.widget("pad")
    expect(pad.root).to_have_attribute("data-guess", str(int(np.argmax(probabilities))))


def test_with_a_mistake_both_models_read_the_same_drawing(notebook) -> None:
    pad = notebook.widget("pad")
    assert pad.part("reading").nth(1).is_hidden()
    pad.part("mistake-select").select_option("no_positions")
    second = pad.part("reading").nth(1)
    expect(second).to_contain_text(f"With the mistake: {MISTAKES['no_positions'].title}")
    expect(second).to_contain_text(MISTAKES["no_positions"].sentence)
    fresh(pad)
    told = notebook.read("read", mistake="no_positions")
    pad = notebook.widget("pad")
    for i, name in enumerate(("probabilities", "wrong")):
        shown = pad.part("doubts").nth(i).locator(".headroom-value").all_inner_texts()
        assert [float(value) for value in shown] == pytest.approx(told[name], abs=0.0051)
    expect(pad.part("live")).to_contain_text("With the mistake “no positions” it reads")
    notebook.tab.screenshot("pad-broken")
    pad.part("overlay-box").uncheck()
    expect(pad.part("map").first).to_be_hidden()
    pad.part("overlay-box").check()
    pad.part("mistake-select").select_option("")
    expect(second).to_be_hidden()


STRIKE = """
def on_strike(module, given):
    raise RuntimeError("the weights are on strike")
hook = model.register_forward_pre_hook(on_strike)"""


def test_a_model_that_raises_is_a_sentence_and_nothing_is_lost(notebook) -> None:
    do(notebook, STRIKE)
    pad = notebook.widget("pad")
    pad.part("clear").click()
    trace(notebook, pad, SEVEN)
    expect(pad.part("guess").first).to_contain_text("raised RuntimeError: the weights are on strike.")
    expect(pad.part("live")).to_contain_text("The model gives no answer: the model does not read an image")
    notebook.tab.screenshot("pad-strike")
    do(notebook, "hook.remove()")
    pad = notebook.widget("pad")
    expect(pad.root).to_have_attribute("data-strokes", "1")
    trace(notebook, pad, [[(10, 14), (19, 14)]])
    fresh(pad)
    expect(pad.root).to_have_attribute("data-guess", "7")


def test_a_slow_model_is_asked_for_the_newest_drawing_and_never_twice_at_once(notebook) -> None:
    pad = notebook.widget("slow")
    trace(notebook, pad, DRAWN[8])
    fresh(pad)
    told = notebook.read("read-slow", lambda told: told["drawing"]["strokes"])
    points = (len(told["drawing"]["strokes"][0]) - 1) / 2
    assert points > 40, "pieces of the stroke, each of which changed the drawing"
    expect_image(told)


def test_while_python_is_busy_one_draws_on_and_is_told(notebook) -> None:
    pad = notebook.widget("pad")
    trace(notebook, pad, SEVEN)
    pad.part("clear").click()
    fresh(pad)
    notebook.page.evaluate(
        """() => {
            const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            kernel.requestExecute({ code: "time.sleep(4)" });
        }"""
    )
    trace(notebook, pad, SEVEN)
    expect(pad.part("status")).to_be_visible()
    expect(pad.part("status")).to_contain_text("Python has not answered for a second")
    assert pad.root.get_attribute("data-strokes") == "1"
    fresh(pad)
    expect(pad.part("status")).to_be_hidden()
    expect(pad.root).to_have_attribute("data-guess", "7")


def test_digits_as_people_draw_them_are_read(notebook) -> None:
    """Ten plain digits of a few straight pieces, drawn as large as the page allows."""
    read = []
    for digit, strokes in DRAWN.items():
        pad = notebook.widget("pad")
        pad.part("clear").click()
        trace(notebook, pad, strokes)
        fresh(pad)
        read.append((digit, int(pad.root.get_attribute("data-guess"))))
    assert sum(drawn == guess for drawn, guess in read) >= 9, read


def test_reopened_without_python_the_last_answer_stays_and_drawing_goes_on(notebook) -> None:
    pad = notebook.widget("pad")
    pad.part("clear").click()
    trace(notebook, pad, SEVEN)
    fresh(pad)
    said = pad.part("live").inner_text()
    doubts = pad.part("doubts").first.inner_text()
    notebook.read("read", strokes=1)
    notebook.reopen_without_kernel("pad")
    pad = notebook.widget("pad")
    expect(pad.part("live")).to_have_text(said, timeout=240_000)
    assert pad.part("doubts").first.inner_text() == doubts
    assert pad.root.get_attribute("data-fresh") == "true"
    notebook.press(pad, "pad", "[")
    expect(pad.part("live")).to_contain_text("layer 1")
    trace(notebook, pad, [[(10, 14), (19, 14)]])
    expect(pad.root).to_have_attribute("data-strokes", "2")
    expect(pad.part("lost")).to_contain_text("Run this cell again to bring it back")
    expect(pad.part("status")).to_contain_text("What stands here was read from an earlier drawing")
    notebook.press(pad, "pad", "u")
    expect(pad.part("status")).to_be_hidden()
    notebook.tab.screenshot("pad-reopened")
    assert notebook.tab.errors == []
    assert notebook.tab.left_the_machine == []
