"""DigitPad: what Python answers, what it refuses, and what the page computes without Python."""

import base64
import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import traitlets
from torch import nn

from headroom.data import embedded_digits
from headroom.mistakes import MISTAKES, broken
from headroom.pretrained import pretrained_vit
from headroom.reference import Transformer, ViT, attention_maps
from headroom.widgets import DigitPad, shared

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


@pytest.mark.full
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
