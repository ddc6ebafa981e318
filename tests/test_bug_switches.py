"""BugSwitches: its numbers are those of broken models, the model is left alone, and what is switched on is seen."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch import nn

from headroom.data import written_dates
from headroom.mistakes import MISTAKES, broken
from headroom.pretrained import pretrained_transformer
from headroom.reference import CPVT, ConvNet, Encoder, Swin, Transformer, ViT, attention_maps, cross_entropy
from headroom.training import accuracy, exact_match
from headroom.widgets import BugSwitches, bug_switches
from tests.widgets import WidgetNotebook, dequantise, widget_notebook

SOME = ["unscaled", "by_d_head", "columns", "k_for_v", "unregistered", "over_batch", "no_eps", "no_class_token"]


def small_vit() -> ViT:
    torch.manual_seed(0)
    return ViT(image_size=12, patch_size=4, d_model=8, n_heads=2, d_ff=12, n_classes=4)


IMAGES = torch.rand(6, 1, 12, 12, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 2, 3, 0, 1])


def of_images(mistakes=SOME, **start) -> BugSwitches:
    return BugSwitches(small_vit(), IMAGES, LABELS, mistakes, **start)


def small_transformer() -> Transformer:
    torch.manual_seed(0)
    return Transformer(len(bug_switches.SOURCE), len(bug_switches.TARGET), d_model=8, n_heads=2, d_ff=12)


TEXTS, ANSWERS = ["4 March 2021", "1.2.1999", "May 5, 2001"], ["2021-03-04", "1999-02-01", "2001-05-05"]


def of_texts(mistakes=("unscaled", "own_memory", "mask_ignored"), **start) -> BugSwitches:
    return BugSwitches.from_transformer(small_transformer(), TEXTS, ANSWERS, mistakes, **start)


# --- The numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), ("unscaled",), ("columns",), ("unscaled", "columns")])
def test_results_are_those_of_the_broken_model(names):
    result = of_images().compute(*names)
    model = broken(small_vit().eval(), *names)
    with attention_maps(model) as maps:
        logits = model(IMAGES)
    loss = cross_entropy(logits, LABELS)
    loss.backward()
    assert result.accuracy == pytest.approx(accuracy(model, IMAGES, LABELS))
    assert result.predictions == tuple(logits.argmax(dim=-1).tolist())
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    norms = {name: parameter.grad.norm().item() for name, parameter in model.named_parameters()}
    assert result.gradient == pytest.approx(math.hypot(*norms.values()), rel=1e-4)
    w_q = [norm for name, norm in norms.items() if ".1.attention.w_q." in name]
    assert result.gradients["layer 2, W_Q"] == pytest.approx(math.hypot(*w_q), rel=1e-4)
    assert math.hypot(*result.gradients.values()) == pytest.approx(result.gradient)
    for sample, weights in enumerate(result.attention["encoder"]):
        np.testing.assert_allclose(weights, maps["encoder.blocks.attention"][sample].detach(), atol=1e-6)


def test_a_transformer_is_judged_by_what_it_writes_freely():
    dates = written_dates(split="val", n=12)
    model = pretrained_transformer()
    widget = BugSwitches.from_transformer(model, dates.written, dates.iso, ["by_d_model", "mask_ignored"])
    for names in ((), ("by_d_model",), ("mask_ignored",)):
        result = widget.compute(*names)
        assert result.accuracy == exact_match(broken(model, *names), dates), names
        shapes = [[one.shape[-2:] for one in result.attention[kind]] for kind in ("encoder", "decoder", "cross")]
        lengths = [len(text) for text in dates.written[:3]]
        assert shapes == [[(n, n) for n in lengths], [(11, 11)] * 3, [(11, n) for n in lengths]]
    assert widget.results[()].accuracy > 0.9 > widget.results[("mask_ignored",)].accuracy


def test_parts_without_gradient_and_parts_that_are_not_trained():
    widget = of_images()
    keys_for_values, unregistered = widget.compute("k_for_v"), widget.compute("unregistered")
    assert keys_for_values.gradients["layer 1, W_V"] is None
    assert keys_for_values.gradients["layer 1, W_K"] > 0
    assert {"layer 1, W_Q", "layer 2, W_K"} & set(unregistered.gradients) == set()
    assert unregistered.parameters < widget.results[()].parameters == sum(p.numel() for p in small_vit().parameters())


def test_what_is_sent_is_what_was_computed():
    widget = of_images()
    for names, result in widget.results.items():
        together = np.concatenate([one.ravel() for one in result.attention["encoder"]])
        sent = dequantise(widget._attention["+".join(names)], together.shape)
        np.testing.assert_allclose(sent, together, atol=1e-5)
    json.dumps(widget._results, allow_nan=False)


def test_what_is_not_a_number_is_said_and_not_sent():
    """Without ε, over a batch in which all [class] tokens are equal, 0 is divided by 0."""
    widget = of_images(on=["over_batch", "no_eps"])
    result = widget.result
    assert math.isnan(result.loss)
    assert (result.accuracy, set(result.predictions)) == (0.0, {None})
    sent = widget._results["over_batch+no_eps"]
    assert (sent["loss"], sent["looks"]) == ("NaN", {})
    json.dumps(widget._results, allow_nan=False)


def test_the_model_is_left_alone_and_what_is_shown_is_the_model_as_it_was():
    model = small_vit().train()
    model.encoder.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    widget = BugSwitches(model, IMAGES, LABELS, SOME)
    assert model.training and not model.encoder.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    expected = of_images().compute("unscaled", "columns").loss
    nn.init.zeros_(model.head.weight)
    assert widget.compute("unscaled", "columns").loss == pytest.approx(expected)


def test_dropout_is_off():
    torch.manual_seed(0)
    model = ViT(image_size=12, patch_size=4, d_model=8, n_heads=2, d_ff=12, n_classes=4, dropout=0.5, drop_path=0.5)
    first, second = (BugSwitches(model, IMAGES, LABELS, ["unscaled"]) for _ in range(2))
    assert first.results[()].loss == second.results[()].loss


# --- What is offered, and when it is computed --------------------------------------------------------------------


def test_all_that_can_be_made_is_offered_and_computed_at_once():
    widget = BugSwitches(small_vit(), IMAGES, LABELS)
    possible = [name for name, mistake in MISTAKES.items() if mistake.applies(small_vit())]
    assert [one["name"] for one in widget._facts["mistakes"]] == possible
    assert set(widget.results) == {()} | {(name,) for name in possible}


def test_what_takes_too_long_is_computed_when_it_is_switched_on(monkeypatch):
    monkeypatch.setattr(bug_switches, "SECONDS", 0.0)
    widget = of_images()
    assert list(widget.results) == [()]
    widget.on = ["unscaled"]
    assert list(widget.results) == [(), ("unscaled",)]
    assert list(widget._results) == ["", "unscaled"]


def test_what_the_browser_switches_on_is_computed_once():
    widget = of_images()
    widget.set_state({"on": ["columns", "unscaled"]})
    assert widget.selection.mistakes == ("unscaled", "columns"), "in the order of the list"
    first = widget.result
    assert widget._results["unscaled+columns"]["loss"] == pytest.approx(first.loss)
    widget.set_state({"on": []})
    widget.set_state({"on": ["unscaled", "columns"]})
    assert widget.result is first


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("on", ["unscalled"], "'unscalled' is not offered here; there are unscaled, by_d_head"),
        ("on", ["no_root"], "'no_root' is not offered here"),
        ("on", ["unscaled", "by_d_head"], "'unscaled' and 'by_d_head' exclude each other"),
        ("sample", 3, "sample=3 does not exist; there are 3"),
        ("layer", 2, "layer=2 does not exist"),
        ("head", 1.5, "head"),
        ("query", 10, "query=10 does not exist; there are 10"),
        ("part", "cross", "part='cross' does not exist; there are encoder"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_and_undone(name, value, sentence):
    widget = of_images()
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError, match=sentence):
        setattr(widget, name, value)
    assert getattr(widget, name) == before


def test_selection_can_be_set_and_read():
    widget = of_texts(on=["unscaled"], sample=-1, head=1)
    chosen = {"on": ("unscaled",), "sample": 2, "part": "cross", "layer": 1, "head": 1, "query": 0, "key": 0}
    assert asdict(widget.selection) == chosen | {"mistakes": ("unscaled",)}
    widget.part, widget.sample = "encoder", 0
    widget.query, widget.key = 11, 11
    widget.sample = 1
    assert (widget.query, widget.key) == (7, 7), "a shorter text has no later tokens"
    with pytest.raises(AttributeError):
        widget.selection.sample = 1


def test_cross_attention_to_the_decoder_has_other_keys():
    widget = of_texts()
    assert widget.compute("own_memory").attention["cross"][0].shape[-2:] == (11, 11)
    assert widget._results["own_memory"]["looks"]["cross"]["moved"] is None


@pytest.mark.parametrize("model", [CPVT(), Swin(), ConvNet()], ids=lambda model: type(model).__name__)
def test_other_classifiers_are_shown_too(model):
    """Attention in windows, or none at all, is no picture of tokens: the widget goes without."""
    widget = BugSwitches(model, torch.rand(2, 1, 28, 28), [3, 4])
    assert bool(widget.results[()].attention) == isinstance(model, CPVT)
    assert widget._facts["parts"] == (["encoder"] if isinstance(model, CPVT) else [])
    assert ("softmax_twice",) in widget.results


def test_arguments_in_other_forms_are_the_same():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    other = BugSwitches(small_vit().to(device), IMAGES.double().requires_grad_().to(device), LABELS.tolist(), SOME)
    assert other.results[()].loss == pytest.approx(of_images().results[()].loss, rel=1e-4)


REFUSED = {
    "no model": ({"model": "vit"}, r"model is a str; it must be a model of headroom\.reference"),
    "another model": ({"model": nn.Linear(2, 2)}, r"no known mistake can be made in a Linear"),
    "a part": ({"model": Encoder(1, 8, 1, 8), "mistakes": None}, r"model is a Encoder, which does not classify images"),
    "a transformer": (
        {"model": small_transformer(), "mistakes": None},
        r"Transformer, .* use BugSwitches\.from_transformer",
    ),
    "one image": ({"inputs": IMAGES[0]}, r"inputs has shape \(1, 12, 12\).*inputs\[None\]"),
    "no image": ({"inputs": IMAGES[:0]}, r"inputs has shape \(0, 1, 12, 12\)"),
    "NaN": ({"inputs": IMAGES * float("nan")}, r"inputs has 864 values that are NaN"),
    "another size": (
        {"inputs": torch.zeros(6, 1, 8, 8)},
        r"images has shape \(1, 1, 8, 8\); it must be \(batch, 1, 12",
    ),
    "targets": ({"targets": LABELS[:3]}, r"targets has shape \(3,\); it must be \(6,\)"),
    "float targets": ({"targets": LABELS.float()}, r"targets holds float32 values"),
    "unknown class": ({"targets": LABELS + 1}, r"targets holds 1 … 4; the model knows classes 0 … 3"),
    "one string": ({"mistakes": "unscaled"}, r"mistakes is one string, 'unscaled'; .*\['unscaled'\]"),
    "unknown": (
        {"mistakes": ["floored"]},
        r"mistakes names 'floored', which cannot be made in this ViT; those that can",
    ),
    "excluding": ({"on": ["unscaled", "by_d_head"]}, r"exclude each other"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_named_with_what_they_are_and_what_is_right(case):
    changes, sentence = REFUSED[case]
    arguments = {"model": small_vit(), "inputs": IMAGES, "targets": LABELS, "mistakes": SOME} | changes
    with pytest.raises((ValueError, traitlets.TraitError), match=sentence):
        BugSwitches(**arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((small_vit(), TEXTS, ANSWERS), r"model is a ViT; from_transformer takes a Transformer"),
        ((small_transformer(), TEXTS[0], ANSWERS), r"texts is one string, '4 March 2021'"),
        ((small_transformer(), TEXTS, ANSWERS[:2]), r"3 texts and 2 answers"),
        ((small_transformer(), ["4 März 2021 ☺"], ANSWERS[:1]), r"the character '☺'"),
        ((small_transformer(), [], []), r"texts is empty"),
    ],
)
def test_wrong_texts_are_named(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        BugSwitches.from_transformer(*arguments)


def test_it_says_what_it_is_where_no_browser_shows_it():
    assert repr(of_images(["unscaled"])) == "BugSwitches(ViT, 6 examples, 1 mistakes, 1 combinations computed)"


# --- In JupyterLab -----------------------------------------------------------------------------------------------

CELLS = {
    "image": """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import BugSwitches
        digits = embedded_digits()
        image = BugSwitches(pretrained_vit(), digits.val_images[:60], digits.val_labels[:60])
        image""",
    "text": """
        from headroom.pretrained import pretrained_transformer
        texts, answers = ["4 March 2021", "28 de junio de 1987", "1.2.1999"], ["2021-03-04", "1987-06-28", "1999-02-01"]
        some = ["unscaled", "mask_ignored", "own_memory", "softmax_twice"]
        text = BugSwitches.from_transformer(pretrained_transformer(), texts, answers, some)
        text""",
    "read": """
        import json
        from dataclasses import asdict
        def told(widget):
            at, result, healthy = widget.selection, widget.result, widget.results[()]
            weights = [
                one.attention[at.part][at.sample][at.layer].mean(0)[at.query].tolist() for one in (healthy, result)
            ]
            return {"on": list(at.mistakes), "query": at.query, "key": at.key, "weights": weights,
                "accuracy": result.accuracy, "gradients": result.gradients, "n": len(result.predictions)}
        print(json.dumps(told(image)))""",
    "read-text": "print(json.dumps(told(text)))",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    with widget_notebook(browser, server, "bug_switches", CELLS) as opened:
        yield opened


def switch(widget, name: str):
    return widget.root.locator(f"[data-part=switch][value={name}]")


def test_a_switch_shows_the_broken_model_beside_the_healthy_one(notebook):
    widget = notebook.widget("image")
    expect(widget.part("live")).to_contain_text("No mistake is switched on. The model gets")
    expect(widget.part("healthy")).to_be_visible()
    expect(widget.part("broken")).to_be_hidden()
    switch(widget, "shared_qk").check()
    expect(widget.part("live")).to_contain_text("One projection for query and key: ")
    expect(widget.part("broken")).to_be_visible()
    expect(widget.part("what")).to_contain_text(MISTAKES["shared_qk"].sentence)
    notebook.tab.screenshot("bugs-image")
    answer = notebook.read("read", on=["shared_qk"])
    widget = notebook.widget("image")
    right = round(answer["accuracy"] * answer["n"])
    expect(widget.part("live")).to_contain_text(
        f"{right} of {answer['n']} images right ({answer['accuracy']:.1%}".replace("%", " %")
    )
    shown = widget.root.locator("[data-number=accuracy] td").nth(1)
    expect(shown).to_contain_text(f"{100 * answer['accuracy']:.1f} %")
    rows = widget.part("gradients").locator("tbody tr")
    for row in rows.all():
        norm = answer["gradients"][row.get_attribute("data-gradient")]
        text = row.locator("td").nth(2).inner_text()
        assert text == "none" if norm is None else float(text) == pytest.approx(norm, rel=0.05, abs=1e-4)
    assert "No gradient reaches layer 1, W_K" in widget.part("gradient-note").inner_text()


def test_pointing_and_keys_tell_both_weights(notebook):
    widget = notebook.widget("image")
    notebook.press(widget, "healthy", "ArrowDown", "ArrowDown", "ArrowRight")
    answer = notebook.read("read", query=2, key=1)
    healthy, wrong = (weights[1] for weights in answer["weights"])
    widget = notebook.widget("image")
    said = "patch row 1, column 2 gives patch row 1, column 1 the weight"
    expect(widget.part("live")).to_contain_text(f"{said} {healthy:.3f}, with the mistake {wrong:.3f}.")
    matrix = widget.part("broken")
    laid = {name: float(matrix.get_attribute(f"data-{name}")) for name in ("left", "top", "cell-width")}
    matrix.hover(position={"x": laid["left"] + 4.5 * laid["cell-width"], "y": laid["top"] + 0.5 * laid["cell-width"]})
    answer = notebook.read("read", query=0, key=4)
    widget = notebook.widget("image")
    expect(widget.part("live")).to_contain_text("[class] gives patch row 1, column 4 the weight")
    cells = widget.open_table().locator("tbody tr").nth(4).locator("td")
    assert cells.all_inner_texts() == [f"{weights[4]:.3f}" for weights in answer["weights"]]
    widget.close_table()


def test_two_versions_of_one_line_take_turns_and_escape_switches_all_off(notebook):
    widget = notebook.widget("image")
    switch(widget, "unscaled").check()
    switch(widget, "by_d_head").check()
    expect(switch(widget, "unscaled")).not_to_be_checked()
    notebook.read("read", on=["by_d_head", "shared_qk"])
    widget = notebook.widget("image")
    expect(widget.part("live")).to_contain_text(
        "Divided by d_head instead of its root and one projection for query and key:"
    )
    expect(widget.part("live")).to_contain_text("images right")  # it has been computed
    notebook.press(widget, "healthy", "Escape")
    expect(switch(widget, "by_d_head")).not_to_be_checked()
    notebook.read("read", on=[])


def test_a_text_that_is_written_wrong_is_shown(notebook):
    widget = notebook.widget("text")
    switch(widget, "own_memory").check()
    expect(widget.part("example")).to_contain_text(
        "“4 March 2021” should become “2021-03-04”. The model writes “2021-03-04”, right."
    )
    expect(widget.part("example")).to_contain_text("right. With the mistake it writes")
    widget.part("part-select").select_option("decoder")
    widget.part("sample-select").select_option("1")
    notebook.press(widget, "broken", "ArrowDown", "ArrowDown")
    expect(widget.part("live")).to_contain_text("query 3 “9” gives key 1 “<bos>” the weight")
    told = notebook.read("read-text", query=2)
    widget = notebook.widget("text")
    healthy, wrong = (weights[0] for weights in told["weights"])
    expect(widget.part("live")).to_contain_text(f"the weight {healthy:.3f}, with the mistake {wrong:.3f}")
    notebook.tab.screenshot("bugs-text")


def test_a_saved_notebook_replays_what_was_computed_and_says_what_was_not(notebook):
    widget = notebook.widget("text")
    switch(widget, "own_memory").check()
    expect(widget.part("live")).to_contain_text("texts right")
    switch(widget, "unscaled").check()
    expect(widget.part("live")).to_contain_text("No scaling and cross-attention looks at the decoder: 0 of 3 texts")
    said = widget.part("live").inner_text()
    notebook.reopen_without_kernel("text")
    widget = notebook.widget("text")
    expect(widget.part("live")).to_have_text(said, timeout=240_000)
    switch(widget, "unscaled").uncheck()
    expect(widget.part("live")).to_contain_text("Cross-attention looks at the decoder:")
    expect(widget.part("live")).to_contain_text("texts right")
    switch(widget, "mask_ignored").check()
    expect(widget.part("live")).to_contain_text("has not been computed, and that needs Python")
    expect(widget.part("broken")).to_be_hidden()
    notebook.tab.screenshot("bugs-not-computed")
    switch(widget, "mask_ignored").uncheck()
    expect(widget.part("broken")).to_be_visible()
    assert notebook.tab.errors == []
