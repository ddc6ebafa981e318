"""DigitPad: what Python answers, what it refuses, and in a real JupyterLab: drawing, reading, breaking."""

import base64
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import Mouse, expect
from torch import nn

from headroom.data import embedded_digits
from headroom.mistakes import MISTAKES, broken
from headroom.pretrained import pretrained_vit
from headroom.reference import Transformer, ViT, attention_maps
from headroom.widgets import DigitPad, shared
from headroom.widgets.shared import front_end
from tests.widgets import EXPORTED, Widget, WidgetNotebook, exported, widget_notebook

UNTOUCHED = {"example": None, "layer": 1, "head": None, "overlay": True, "centred": True, "mistake": None, "strokes": 0}


def digits(n: int = 3) -> torch.Tensor:
    return embedded_digits().val_images[:n]


def draw(pad: DigitPad, image: torch.Tensor, identity: str = "1") -> None:
    """What the browser sends when this image has been drawn."""
    pixels = (255 * image).round().to(torch.uint8).numpy().tobytes()
    pad.set_state({"_request": {"id": identity, "pixels": memoryview(pixels)}})


def said(model: nn.Module, image: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(image[None] if image.dim() == 3 else image).softmax(dim=-1)[0]


# ---------------------------------------------------------------- what Python answers


def test_nothing_is_drawn_at_first():
    pad = DigitPad(ViT())
    assert (pad.image, pad.probabilities) == (None, None)
    assert asdict(pad.selection) == UNTOUCHED
    with pytest.raises(AttributeError):
        pad.selection.layer = 0


def test_the_model_reads_what_was_drawn_and_keeps_its_mode():
    model = ViT(dropout=0.5, drop_path=0.5).train()
    model.encoder.eval()  # a frozen part stays frozen
    pad = DigitPad(model)
    draw(pad, digits()[1])
    assert model.training
    assert not model.encoder.training
    assert pad.image.dtype == torch.float32
    assert torch.equal(pad.image, digits()[1:2])
    torch.testing.assert_close(pad.probabilities, said(model, digits()[1]))


def maps_of(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with attention_maps(model) as maps:
        model(images)
    return maps["encoder.blocks.attention"]


def test_it_sends_the_row_of_the_token_that_is_read():
    for model in (pretrained_vit(), ViT(pooling="mean", patch_size=4).eval()):
        pad = DigitPad(model)
        draw(pad, digits()[0])
        with torch.no_grad():
            attention = maps_of(model, digits()[:1])  # (1, layers, heads, tokens, tokens)
        row = attention[0, :, :, 0] if model.class_token is not None else attention[0].mean(dim=2)
        sent = np.frombuffer(pad._answer["models"][0]["attention"], dtype="<f4")
        np.testing.assert_allclose(sent, row.flatten(), atol=1e-6)
        assert pad._facts["has_class"] == (model.class_token is not None)


def test_a_model_that_goes_on_learning_answers_with_what_it_has_learned():
    model = pretrained_vit()
    pad = DigitPad(model, mistake="unscaled")
    draw(pad, digits()[0], "1")
    before = pad._answer["models"]
    with torch.no_grad():
        model.head.bias[7] += 20  # the digit is a 3
    draw(pad, digits()[0], "2")
    for was, now in zip(before, pad._answer["models"], strict=True):
        assert was["probabilities"][7] < 0.5 < now["probabilities"][7]


@pytest.mark.parametrize("name", [name for name, one in MISTAKES.items() if one.applies(ViT())])
def test_with_a_mistake_a_second_model_reads_the_same(name):
    model = pretrained_vit()
    pad = DigitPad(model, digits(), example=0)
    pad.mistake = name
    healthy, wrong = pad._answer["models"]
    np.testing.assert_allclose(healthy["probabilities"], said(model, digits()[0]), atol=1e-6)
    np.testing.assert_allclose(wrong["probabilities"], said(broken(model, name), digits()[0]), atol=1e-6)
    assert pad.probabilities.tolist() == pytest.approx(healthy["probabilities"]), "those of the model as it is"
    assert len(wrong["attention"]) in (4 * 2 * 4 * 17, 4 * 2 * 4 * 16)
    pad.mistake = None
    assert len(pad._answer["models"]) == 1


def test_without_a_class_token_or_with_it_at_the_end_the_first_patch_is_read():
    model = pretrained_vit()
    with torch.no_grad():
        attention = maps_of(broken(model, "class_at_the_end"), digits()[:1])
    pad = DigitPad(model, digits(), example=0, mistake="class_at_the_end")
    wrong = pad._answer["models"][1]
    sent = torch.frombuffer(bytearray(wrong["attention"]), dtype=torch.float32).view(2, 4, 17)
    assert wrong["reader"] == "the patch in the upper left corner"
    torch.testing.assert_close(sent[..., 1:], attention[0, :, :, 0, :-1]), "patches, row by row"
    torch.testing.assert_close(sent[..., 0], attention[0, :, :, 0, -1]), "[class] in front, where it is looked for"


def test_a_model_that_fails_while_one_draws_says_so_and_answers_again_later():
    class Moody(ViT):
        mood = "good"

        def forward(self, images):
            if self.mood == "raises":
                raise RuntimeError("the weights are on strike")
            return super().forward(images) / (self.mood != "NaN")

    model = Moody()
    pad = DigitPad(model)
    for mood, sentence in (
        ("raises", "raised RuntimeError: the weights are on strike."),
        ("NaN", "the model's logits has 10 values that are NaN or infinite, the first at index (0,)"),
    ):
        model.mood = mood
        draw(pad, digits()[0], mood)
        assert sentence in pad._answer["models"][0]["error"]
        assert pad.probabilities is None
        assert torch.equal(pad.image, digits()[:1]), "what was drawn is kept"
    model.mood = "good"
    draw(pad, digits()[0], "good")
    torch.testing.assert_close(pad.probabilities, said(model, digits()[0]))


def test_an_example_can_be_chosen_from_python_and_starts_a_new_drawing():
    model = pretrained_vit()
    pad = DigitPad(model, digits(), example=-1)
    assert pad.selection.example == 2
    assert torch.equal(pad.image, digits()[2:3])
    pad.set_state({"_drawing": {"example": 2, "strokes": [[0, 1.0, 2.0, 3.0, 4.0]]}})
    assert pad.selection.strokes == 1
    pad.example = 1
    assert (pad.selection.example, pad.selection.strokes) == (1, 0)
    torch.testing.assert_close(pad.probabilities, said(model, digits()[1]))
    pad.example = None
    assert pad.image is None


def test_undoing_the_choice_of_an_example_brings_the_strokes_back():
    pad = DigitPad(ViT(), digits(), example=1)
    pad.set_state({"example": 0, "_drawing": {"example": 0, "strokes": [[0, 1.0, 2.0]]}})  # as the browser undoes
    assert (pad.selection.example, pad.selection.strokes) == (0, 1)


def test_an_empty_page_is_no_image():
    pad = DigitPad(ViT(), digits(), example=0)
    pad.set_state({"_request": {"id": "2", "pixels": memoryview(b"")}})
    assert (pad.image, pad.probabilities) == (None, None)
    pad.mistake = "unscaled"
    assert pad.image is None


def test_tensors_that_need_grad_and_arrays_are_welcome():
    examples = digits().double().requires_grad_()
    for given in (examples, digits()[:, 0].numpy()):
        assert DigitPad(ViT(), given, [1, 2, 3])._examples == DigitPad(ViT(), digits())._examples


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_model_on_a_gpu_answers_as_on_the_cpu():
    model = pretrained_vit()
    expected = said(model, digits()[0])
    pad = DigitPad(model.cuda(), digits().cuda(), example=0, mistake="unscaled")
    torch.testing.assert_close(pad.probabilities, expected, atol=1e-4, rtol=1e-3)
    assert next(model.parameters()).is_cuda
    assert "probabilities" in pad._answer["models"][1]


def test_models_of_which_no_mistake_is_known_have_none_to_choose():
    class Other(nn.Module):
        def forward(self, images, return_attention):
            return images.flatten(1)[:, :10], torch.full((1, 1, 1, 16, 16), 1 / 16)

    pad = DigitPad(Other())
    assert pad._facts["mistakes"] == []
    with pytest.raises(traitlets.TraitError, match=r"mistake='unscaled' does not apply to this model.*: none"):
        pad.mistake = "unscaled"


# ---------------------------------------------------------------- what is refused


def answering(answer) -> nn.Module:
    class Stub(nn.Module):
        def forward(self, images, return_attention):
            return answer

    return Stub()


LOGITS, WEIGHTS = torch.zeros(1, 10), torch.full((1, 2, 4, 17, 17), 1 / 17)

REFUSED = {
    "a function": (lambda: (print,), TypeError, r"model is a builtin_function.*; it must be a torch\.nn\.Module"),
    "no attention": (
        lambda: (nn.Identity(),),
        TypeError,
        r"the model returned Tensor; it must return a pair \(logits, attention\) .* or hold one stack",
    ),
    "another size": (
        lambda: (ViT(image_size=32, patch_size=8),),
        ValueError,
        r"raised ValueError: images has shape \(1, 1, 28, 28\); it must be \(batch, 1, 32, 32\)",
    ),
    "text": (lambda: (Transformer(20, 20),), ValueError, r"does not read an image of shape \(1, 1, 28, 28\)"),
    "no pair": (lambda: (answering(LOGITS),), TypeError, r"returned Tensor; it must return a pair"),
    "classes": (
        lambda: (ViT(n_classes=5),),
        ValueError,
        r"logits have shape \(1, 5\); for one image they must be \(1, 10\)",
    ),
    "attention": (
        lambda: (answering((LOGITS, WEIGHTS[0])),),
        ValueError,
        r"attention has shape \(2, 4, 17, 17\); .*\(1, n_layers",
    ),
    "tokens": (
        lambda: (answering((LOGITS, torch.full((1, 1, 1, 19, 19), 1 / 19))),),
        ValueError,
        r"19 tokens, which fits no square patches of 28 × 28",
    ),
    "rows": (
        lambda: (answering((LOGITS, 2 * WEIGHTS)),),
        ValueError,
        r"row \(0, 0, 0\) \(layer, head, query\) that sums to 2",
    ),
    "NaN": (lambda: (answering((LOGITS / 0, WEIGHTS)),), ValueError, r"logits has 10 values that are NaN or infinite"),
    "examples": (
        lambda: (ViT(), torch.zeros(3, 20, 20)),
        ValueError,
        r"examples has shape \(3, 20, 20\); it must be \(n, 28",
    ),
    "one digit": (lambda: (ViT(), torch.zeros(28, 28)), ValueError, r"shape \(28, 28\).*examples\[None\]"),
    "no digit": (lambda: (ViT(), torch.zeros(0, 28, 28)), ValueError, r"shape \(0, 28, 28\).*n at least 1"),
    "bytes": (lambda: (ViT(), 255 * digits()), ValueError, r"examples has values from 0 to 255.*divide bytes by 255"),
    "normalised": (lambda: (ViT(), digits() - 0.5), ValueError, r"undo the normalisation first"),
    "NaN digit": (lambda: (ViT(), digits() / 0), ValueError, r"examples has .* values that are NaN"),
    "labels": (
        lambda: (ViT(), digits(), [1, 2]),
        ValueError,
        r"labels has shape \(2,\); it must be \(3,\), one for each",
    ),
    "float labels": (lambda: (ViT(), digits(), [1.0, 2.0, 3.0]), ValueError, r"labels holds float64 values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_named_with_what_they_are_and_what_is_right(case):
    arguments, kind, sentence = REFUSED[case]
    with pytest.raises(kind, match=sentence):
        DigitPad(*arguments())


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"layer": 2}, "layer=2 does not exist; there are 2"),
        ({"head": 1.5}, r"head=1\.5 is not an index"),
        ({"example": 3}, "example=3 does not exist; there are 3"),
        ({"mistake": "no_eyes"}, "mistake='no_eyes' does not apply.*unscaled"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(choice, sentence):
    with pytest.raises((ValueError, traitlets.TraitError), match=sentence):
        DigitPad(ViT(), digits(), **choice)


def test_a_choice_that_does_not_exist_is_undone():
    pad = DigitPad(ViT())
    with pytest.raises(traitlets.TraitError, match="example=0, but this pad has no examples"):
        pad.example = 0
    with pytest.raises(traitlets.TraitError, match="head=4 does not exist"):
        pad.head = 4
    assert asdict(pad.selection) == UNTOUCHED


def test_it_says_what_it_is_where_no_browser_shows_it():
    known = sum(one.applies(ViT()) for one in MISTAKES.values())
    assert repr(DigitPad(ViT(), digits())) == f"DigitPad(ViT, 2 layers, 4 heads, 3 examples, {known} mistakes)"


# ---------------------------------------------------------------- without Python: the page computes

IN_NODE = """
import { stdin } from "node:process";
const { ViT, weightsOf } = await import(`${FOLDER}/vit.js`);
const { readingOf } = await import(`${FOLDER}/reader.js`);
let text = "";
for await (const piece of stdin) text += piece;
const { facts, weights, images, mistakes } = JSON.parse(text);
const bytes = (value) => Uint8Array.from(Buffer.from(value, "base64"));
const vit = new ViT(facts, weightsOf(facts, new DataView(bytes(weights).buffer)));
const digits = images.map(bytes);
const logits = digits.map((pixels) => [...vit.read(pixels).logits]);
const readings = mistakes.map((name) => readingOf(vit, facts, name, digits[0]));
for (const one of readings) one.attention = Buffer.from(one.attention.buffer).toString("base64");
console.log(JSON.stringify({ logits, readings }));
"""


def test_the_page_computes_what_pytorch_does() -> None:
    """The logits of 1,000 digits, and what is shown of one digit with each mistake that the pad offers."""
    if not (node := shutil.which("node")):
        pytest.skip("there is no Node.js")
    model, images = pretrained_vit(), embedded_digits().val_images
    pad = DigitPad(model, images[:1], example=0)
    mistakes = [None, *pad._mistakes]
    given = {
        "facts": pad._facts,
        "weights": base64.b64encode(pad._weights).decode(),
        "images": [base64.b64encode((255 * one).round().byte().numpy()).decode() for one in images],
        "mistakes": mistakes,
    }
    folder = (Path(shared.HERE) / "digit_pad").as_uri()
    script = f"const FOLDER = {json.dumps(folder)};{IN_NODE}"
    done = subprocess.run(
        [node, "--input-type=module", "--eval", script], input=json.dumps(given), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answered = json.loads(done.stdout)
    with torch.no_grad():
        logits = model(images)
    assert len(logits) == 1000
    torch.testing.assert_close(torch.tensor(answered["logits"]), logits, atol=1e-4, rtol=0)
    assert len(mistakes) > 30
    for name, reading in zip(mistakes, answered["readings"], strict=True):
        pad.mistake = name
        said = pad._answer["models"][-1]
        assert reading["reader"] == said["reader"], name
        np.testing.assert_allclose(reading["probabilities"], said["probabilities"], atol=1e-5, err_msg=str(name))
        looked = [np.frombuffer(one, "<f4") for one in (base64.b64decode(reading["attention"]), said["attention"])]
        np.testing.assert_allclose(*looked, atol=1e-5, err_msg=str(name))


def test_the_weights_in_the_page_are_those_with_which_the_model_answered_last() -> None:
    model = pretrained_vit()
    pad = DigitPad(model)
    before = pad._weights
    assert len(before) == 4 * sum(one.numel() for one in model.parameters())
    with torch.no_grad():
        model.head.bias += 1
    draw(pad, digits()[0])
    assert pad._weights != before


def test_a_model_that_the_page_cannot_compute_sends_no_weights() -> None:
    class Other(ViT):
        pass

    altered = ViT()
    altered.encoder.blocks[0].norm_1 = nn.LayerNorm(64)
    for model in (Other(), altered, ViT(pooling="mean"), ViT(d_model=128)):
        pad = DigitPad(model)
        assert (pad._facts["tensors"], pad._weights) == ([], b"")


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
