"""NormExplorer: what is sent, what comes back, what is refused; what it does in a real JupyterLab.

test_widgets_in_lab.py tests what all widgets promise.
"""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch import nn

from headroom import reference
from headroom.widgets import NormExplorer
from tests.widgets import Widget, WidgetNotebook, widget_notebook

SHAPE = (2, 3, 4)
X = 2 * torch.randn(*SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
GAMMA, BETA = [1.5, -0.5, 2.0, 1.0], [0.0, 0.25, -1.0, 3.0]


def reference_output(norm: str, x: torch.Tensor, eps: float = 1e-5, affine: bool = False) -> torch.Tensor:
    """By the course's own modules, in float64 and in training mode."""
    if norm == "none":
        return x
    module = getattr(reference, norm)(x.size(-1), eps).double()
    if affine:
        module.gamma.data = torch.tensor(GAMMA, dtype=torch.float64)
        if norm != "RMSNorm":
            module.beta.data = torch.tensor(BETA, dtype=torch.float64)
    return module(x).detach()


# ---------------------------------------------------------------- what is sent and what comes back


def test_x_comes_back_as_it_was_given_whatever_it_was():
    for given in (X, X.numpy(), X.tolist(), X.float().requires_grad_()):
        np.testing.assert_allclose(NormExplorer(given).x, X, atol=1e-6)
    assert len(NormExplorer(X).get_state()["x"]) == 8 * X.numel()


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNorm", "BatchNorm", "none"])
def test_output_is_the_references(norm, affine):
    widget = NormExplorer(X, norm=norm, eps=0.5, gamma=GAMMA, beta=BETA)
    widget.affine = affine
    np.testing.assert_allclose(widget.output, reference_output(norm, torch.tensor(widget.x), 0.5, affine), atol=1e-12)


def test_what_the_browser_changes_arrives_and_what_python_sets_is_sent():
    widget = NormExplorer(X)
    seen = []
    widget.observe(lambda change: seen.append(change["new"].copy()), "x")
    edited = X.numpy().copy()
    edited[1, 2, 3] = 7.5
    widget.set_state({"x": memoryview(edited.tobytes()), "norm": "BatchNorm", "locked": True})
    np.testing.assert_array_equal(seen[0], edited)
    assert widget.selection.norm == "BatchNorm"
    assert widget.selection.locked
    np.testing.assert_allclose(widget.output, reference_output("BatchNorm", torch.tensor(edited)))
    widget.x = 3 * X
    np.testing.assert_allclose(np.frombuffer(widget.get_state()["x"]).reshape(SHAPE), 3 * X)
    np.testing.assert_allclose(np.frombuffer(widget._start).reshape(SHAPE), X, atol=1e-6)


def test_a_change_inside_of_x_is_refused_because_nobody_would_see_it():
    widget = NormExplorer(X)
    with pytest.raises(ValueError, match="read-only"):
        widget.x[0, 0, 0] = 1


def test_the_readers_own_tensor_stays_as_it_is():
    x = X.numpy().copy()
    widget = NormExplorer(x)
    x[:] = 0
    np.testing.assert_allclose(widget.x, X)


def test_negative_indices_count_from_the_end():
    chosen = NormExplorer(X, sample=-1, token=-1, feature=-2).selection
    assert (chosen.sample, chosen.token, chosen.feature) == (1, 2, 2)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("sample", 2, "sample=2 does not exist; there are 2"),
        ("feature", -5, "feature=-5 does not exist"),
        ("eps", 0.0, "eps=0.0 must be a number from 1e-12 to 100"),
        ("norm", "GroupNorm", "norm"),
        ("x", X[:1], r"x has shape \(1, 3, 4\); this widget shows \(2, 3, 4\)"),
        ("x", X * float("nan"), "x has 24 values that are NaN"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_and_undone(name, value, sentence):
    widget = NormExplorer(X)
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError, match=sentence):
        setattr(widget, name, value)
    np.testing.assert_array_equal(getattr(widget, name), before)


def test_words_may_be_the_same_for_all_samples_or_each_samples_own():
    assert NormExplorer(X, tokens=["a", "b", "c"])._facts["words"] == [["a", "b", "c"]] * 2
    assert NormExplorer(X, tokens=[["a", "b", "c"], ["d", "e", "f"]])._facts["words"][1] == ["d", "e", "f"]


def test_it_says_what_it_is_where_no_browser_shows_it():
    assert repr(NormExplorer(X)) == "NormExplorer(2 samples × 3 tokens × 4 features, LayerNorm, eps=1e-05)"


# ---------------------------------------------------------------- from a live norm


def with_affine(module: nn.Module) -> nn.Module:
    """The same module with scale and shift away from 1 and 0."""
    for names, values in ((("gamma", "weight"), GAMMA), (("beta", "bias"), BETA)):
        for name in names:
            if isinstance(getattr(module, name, None), nn.Parameter):
                getattr(module, name).data = torch.tensor(values)
    return module


class MyLayerNorm(reference.LayerNorm):
    """Somebody's own, named after what it is."""


@pytest.mark.parametrize(
    ("module", "norm", "eps"),
    [
        (reference.LayerNorm(4, 1e-3), "LayerNorm", 1e-3),
        (reference.RMSNorm(4), "RMSNorm", 1e-5),
        (reference.BatchNorm(4), "BatchNorm", 1e-5),
        (nn.LayerNorm(4), "LayerNorm", 1e-5),
        (nn.LayerNorm(4, elementwise_affine=False), "LayerNorm", 1e-5),
        (nn.RMSNorm(4), "RMSNorm", torch.finfo(torch.float32).eps),
        (nn.BatchNorm1d(4), "BatchNorm", 1e-5),
        (MyLayerNorm(4, 0.1), "LayerNorm", 0.1),
    ],
)
def test_a_live_norm_brings_its_scale_shift_and_epsilon_and_computes_what_we_do(module, norm, eps):
    widget = NormExplorer.from_module(with_affine(module), X)
    assert (widget.norm, widget.eps) == (norm, pytest.approx(eps))
    np.testing.assert_allclose(np.frombuffer(widget._theirs).reshape(SHAPE), widget.output, atol=1e-5)


def test_a_live_norm_is_left_as_it_was():
    module = reference.BatchNorm(4)
    module.running_mean.fill_(3.0)
    NormExplorer.from_module(module, X)
    assert module.training
    assert module.running_mean.tolist() == [3.0] * 4
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_module_that_fails_leaves_its_running_averages_too():
    class Failing(nn.BatchNorm1d):
        def forward(self, x):
            super().forward(x)
            raise RuntimeError("no")

    module = Failing(4)
    with pytest.raises(RuntimeError, match="no"):
        NormExplorer(X, module=module)
    assert module.running_mean.tolist() == [0.0] * 4


def test_what_a_module_does_to_the_callers_tensor_is_seen():
    told = NormExplorer(X, module=lambda x: x.sub_(x.mean(-1, keepdim=True)))._facts["module"]
    assert told["overwrites"]
    assert not NormExplorer(X, module=nn.LayerNorm(4))._facts["module"]["overwrites"]


# ---------------------------------------------------------------- what is refused

REFUSED = {
    "one sample": (lambda: {"x": X[0]}, r"x has shape \(3, 4\); it must be \(batch, tokens, features\).*x\[None\]"),
    "empty": (lambda: {"x": X[:0]}, r"x has shape \(0, 3, 4\)"),
    "NaN": (lambda: {"x": X / 0 * 0}, r"x has 24 values that are NaN.*\(0, 0, 0\)"),
    "words": (lambda: {"x": [[["a"]]]}, r"x holds <U1 values"),
    "too many samples": (lambda: {"x": torch.zeros(100, 17, 64)}, r"at most 8 samples, 128 tokens.* x\[:7, :, :\]"),
    "too many features": (lambda: {"x": torch.zeros(2, 17, 512)}, r"x\[:, :, :64\].*norm of a part is not a part"),
    "too large": (lambda: {"x": 1e9 * X}, r"x has values from .* to .*; they must lie between"),
    "norm": (lambda: {"norm": "Layer"}, r"norm='Layer' is none of \"LayerNorm\", .* and \"none\""),
    "eps": (lambda: {"eps": 0}, r"eps=0 must be a number from 1e-12 to 100"),
    "gamma": (lambda: {"gamma": [1, 2]}, r"gamma has shape \(2,\); it must be \(4,\), one number for each feature"),
    "NaN beta": (lambda: {"beta": [0, 0, 0, float("nan")]}, r"beta has 1 values that are NaN"),
    "a string": (lambda: {"tokens": "a b c"}, r"tokens is one string, 'a b c'; .*\['a', 'b', 'c'\]"),
    "words of too few": (lambda: {"tokens": ["a", "b"]}, r"tokens\[0\] is \['a', 'b'\]; it must hold 3 words"),
    "words of another batch": (lambda: {"tokens": [["a", "b", "c"]] * 3}, r"2 samples, but tokens has 3 lists"),
    "sample": (lambda: {"sample": 2}, r"sample=2 does not exist; there are 2: 0 to 1"),
    "a module's shape": (lambda: {"module": lambda x: x.mean(-1)}, r"module\(x\) has shape \(2, 3\).*\(2, 3, 4\)"),
    "a module's NaN": (lambda: {"module": lambda x: x * float("nan")}, r"module\(x\) has 24 values that are NaN"),
    "a module's answer": (lambda: {"module": lambda x: 3}, r"module\(x\) is a int; it must be a tensor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_named_with_what_they_are_and_what_is_right(case):
    changes, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        NormExplorer(**({"x": X} | changes()))


def test_a_module_that_says_no_norm_has_to_be_named():
    with pytest.raises(ValueError, match=r'Identity has none of LayerNorm, RMSNorm, BatchNorm in its name.*norm="'):
        NormExplorer.from_module(nn.Identity(), X)
    assert NormExplorer.from_module(nn.Identity(), X, norm="none").norm == "none"


# ---------------------------------------------------------------- in JupyterLab

CELLS = {
    "explorer": f"""
        import json
        import numpy as np
        import torch
        from torch import nn
        from headroom import reference
        from headroom.widgets import NormExplorer
        x = torch.tensor({X.tolist()}, dtype=torch.float64).numpy()
        words = [["the", "cat", "sat"], ["a", "dog", "ran"]]
        widget = NormExplorer(x, gamma={GAMMA}, beta={BETA}, tokens=words)
        widget.affine = False
        widget""",
    "wrong": """
        class Unbiased(reference.LayerNorm):
            def forward(self, x):
                return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps)
        wrong = NormExplorer.from_module(Unbiased(4), x, norm="LayerNorm")
        wrong""",
    "axis": """
        axis = NormExplorer(x, module=reference.BatchNorm(4))
        axis""",
    "large": """
        large = NormExplorer(torch.randn(3, 17, 64), norm="BatchNorm")
        large""",
    "read": """
        chosen = widget.selection
        answer = {name: getattr(chosen, name) for name in ("norm", "sample", "token", "feature", "eps", "locked")}
        print(json.dumps(answer | {"x": widget.x.tolist(), "output": widget.output.tolist()}))""",
    "flat": "widget.x = 0 * x",
    "set": """
        widget.x = x
        widget.norm, widget.sample, widget.token, widget.feature, widget.locked = "LayerNorm", 1, 1, 2, False""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """One tab, in which each test goes on where the one before left off."""
    with widget_notebook(browser, server, "norm-explorer", CELLS) as opened:
        yield opened


def in_tensor(widget: Widget, sample: int, token: int, feature: int, part: str = "tensor") -> dict:
    """Where a number lies in its picture, as Playwright takes it."""
    names = ("left", "top", "cell-width", "cell-height", "sample-height")
    left, top, wide, tall, per_sample = (float(widget.part(part).get_attribute(f"data-{name}")) for name in names)
    return {"x": left + (feature + 0.5) * wide, "y": top + sample * per_sample + (token + 0.5) * tall}


def on_the_page(widget: Widget) -> dict[str, np.ndarray]:
    """The numbers that the browser computed, from its table."""
    rows = [
        [number.replace("−", "-") for number in row.locator("td").all_inner_texts()]
        for row in widget.open_table().locator("tbody tr").all()
    ]
    columns = np.array(rows, dtype=float).T.reshape(4, *SHAPE)
    return dict(zip(("x", "LayerNorm", "RMSNorm", "BatchNorm"), columns, strict=True))


def says(widget: Widget, *texts: str) -> None:
    for text in texts:
        expect(widget.part("live")).to_contain_text(text)


def test_the_browsers_arithmetic_is_the_references(notebook) -> None:
    """Each of them to six digits, plain and with γ, β and an ε that matters."""
    for eps, affine in ((1e-5, False), (1.0, True)):
        widget = notebook.widget("explorer")
        if affine:
            notebook.press(widget, "tensor", "g", *["E"] * 5)
            expect(widget.root).to_have_attribute("data-affine", "true")
            expect(widget.root).to_have_attribute("data-eps", "1")
        found = on_the_page(widget)
        np.testing.assert_allclose(found["x"], X, atol=1e-6)
        for norm in ("LayerNorm", "RMSNorm", "BatchNorm"):
            np.testing.assert_allclose(found[norm], reference_output(norm, X, eps, affine), atol=1e-6)
    notebook.press(widget, "tensor", "g", *["e"] * 5)


def test_pointing_says_which_numbers_share_a_mean(notebook) -> None:
    widget = notebook.widget("explorer")
    row, column = X[0, 1].numpy(), X[:, :, 2].numpy()
    widget.part("tensor").hover(position=in_tensor(widget, 0, 1, 2))
    of_its_own = "with the 4 features of its own token."
    says(widget, f"LayerNorm. Sample 1, token 2 “cat”, feature 3: {shown(row[2])} becomes")
    says(widget, f"It shares mean {shown(row.mean())} and variance {shown(row.var())} {of_its_own}")
    widget.part("norm").nth(3).check()
    widget.part("output").hover(position=in_tensor(widget, 1, 0, 2, "output"))
    says(widget, f"BatchNorm. Sample 2, token 1 “a”, feature 3: {shown(X[1, 0, 2].item())} becomes")
    says(widget, f"It shares mean {shown(column.mean())} and variance {shown(column.var())} with feature 3 of")
    says(widget, "of all 3 tokens of all 2 samples: 6 numbers.")
    widget.part("norm").nth(2).check()
    says(widget, f"It shares the mean square {shown(X[1, 0].square().mean().item())} {of_its_own}")
    answer = notebook.read("read", norm="RMSNorm", sample=1, token=0, feature=2)
    np.testing.assert_allclose(answer["output"], reference_output("RMSNorm", X), atol=1e-9)
    widget = notebook.widget("explorer")
    widget.part("norm").nth(0).check()
    says(widget, f"No norm. Sample 2, token 1 “a”, feature 3: {shown(X[1, 0, 2].item())}.")
    expect(widget.part("calculation")).to_have_text(re.compile("every number stays what it is"))
    notebook.page.mouse.move(2, 2)


def shown(value: float) -> str:
    """A number as the widget shows it."""
    return f"{value:.2f}".replace("-", "−")


def chosen_anew(notebook: WidgetNotebook) -> Widget:
    """The widget with x as it was and sample 2, token 2 “dog”, feature 3 chosen in Python."""
    notebook.tab.run_cell("set")
    widget = notebook.widget("explorer")
    for name, value in {"norm": "LayerNorm", "sample": "1", "token": "1", "feature": "2", "locked": "false"}.items():
        expect(widget.root).to_have_attribute(f"data-{name}", value)
    return widget


def test_dragging_a_number_shows_whom_it_reaches(notebook) -> None:
    """LayerNorm: its own token alone. BatchNorm: that feature of every token of every sample."""
    widget = chosen_anew(notebook)
    tensor = widget.part("tensor")
    tensor.scroll_into_view_if_needed()
    box, at = tensor.bounding_box(), in_tensor(widget, 1, 1, 2)
    x, y = box["x"] + at["x"], box["y"] + at["y"]
    mouse = notebook.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x, y - 50, steps=5)
    mouse.up()
    mouse.move(2, 2)  # what comes to lie under a resting pointer would be pointed at
    step = float(widget.part("value-input").get_attribute("step"))
    says(widget, "Sample 2, token 2 “dog”, feature 3:", "Since the start, 1 number of x changed", "Locked")
    says(widget, "4 of 24 outputs change, all in sample 2, token 2 “dog”.")
    notes = widget.part("norms").locator(".headroom-value").all_inner_texts()
    assert notes[0].startswith("1 of 24 change")
    assert notes[2].startswith("4 of 24 change, all in sample 2, token 2")
    assert notes[3].startswith("6 of 24 change, in 6 tokens of 2 samples")
    found = on_the_page(widget)
    notebook.tab.screenshot("norm-explorer-dragged")
    answer = notebook.read("read", sample=1, token=1, feature=2, locked=True)
    edited = np.array(answer["x"])
    assert edited[1, 1, 2] == pytest.approx(X[1, 1, 2].item() + 10 * step, abs=0.51 * step), "5 pixels a step"
    assert (np.abs(edited - X.numpy()) > 1e-9).sum() == 1
    for norm in ("LayerNorm", "RMSNorm", "BatchNorm"):
        np.testing.assert_allclose(found[norm], reference_output(norm, torch.tensor(edited)), atol=1e-6)


def test_keys_move_and_change_a_number(notebook) -> None:
    widget = chosen_anew(notebook)
    notebook.press(widget, "tensor", "ArrowUp", "ArrowUp", "ArrowRight")
    says(widget, "Sample 1, token 3 “sat”, feature 4:")
    step = float(widget.part("value-input").get_attribute("step"))
    value = X[0, 2, 3].item()
    notebook.press(widget, "tensor", "Enter", "ArrowUp", "Shift+ArrowUp", "ArrowDown", "ArrowDown")
    changed = round((round(value / step) + 9) * step, 9)
    expect(widget.part("value-input")).to_have_value(f"{changed:g}")
    says(widget, "Locked: the arrow keys change it.", "1 number of x changed")
    notebook.press(widget, "tensor", "Escape", "ArrowLeft")
    says(widget, "feature 3:")
    answer = notebook.read("read", sample=0, token=2, feature=2, locked=False)
    assert answer["x"][0][2][3] == pytest.approx(changed)
    notebook.press(notebook.widget("explorer"), "tensor", "r")
    expect(notebook.widget("explorer").part("live")).not_to_contain_text("Since the start")


def test_a_typed_number_is_taken(notebook) -> None:
    widget = notebook.widget("explorer")
    widget.part("value-input").fill("-12.5")
    says(widget, "−12.50 becomes")
    notebook.page.keyboard.press("Tab")
    notebook.read("read", lambda answer: answer["x"][0][2][2] == -12.5, sample=0, token=2, feature=2)
    notebook.widget("explorer").part("reset").click()


def test_the_level_matters_to_rmsnorm_alone_and_the_size_to_none(notebook) -> None:
    """x + 1 moves RMSNorm; x × 10 moves none of the three, until ε is no longer small."""
    widget = notebook.widget("explorer")
    notes = widget.part("norms").locator(".headroom-value")
    widget.part("times-ten").click()
    expect(notes.nth(0)).to_contain_text("24 of 24 change")
    for norm in (1, 2, 3):
        expect(notes.nth(norm)).to_have_text("none changes")
    widget.part("reset").click()
    widget.part("plus-one").click()
    for norm in (1, 3):
        expect(notes.nth(norm)).to_have_text("none changes")
    expect(notes.nth(2)).to_contain_text("change, in 6 tokens of 2 samples")
    widget.part("reset").click()


def test_epsilon_decides_where_the_variance_is_tiny(notebook) -> None:
    widget = notebook.widget("explorer")
    widget.part("norm").nth(1).check()
    expect(widget.part("calculation")).to_contain_text("too little to matter")
    for _ in range(4):
        widget.part("tenth").click()
    expect(widget.part("calculation")).to_contain_text("numbers as small as these stay small")
    epsilon = widget.part("eps-range")
    assert epsilon.get_attribute("aria-valuetext") == "ε = 1e−5"
    epsilon.focus()
    notebook.tab.press(*["ArrowLeft"] * 13)  # half a decade each
    expect(widget.part("calculation")).to_contain_text("too little to matter")
    notebook.read("read", lambda answer: answer["eps"] == pytest.approx(10**-11.5, rel=1e-4))
    widget = notebook.widget("explorer")
    widget.part("reset").click()
    notebook.press(widget, "tensor", *["E"] * 3)


def test_equal_numbers_are_said_to_need_epsilon(notebook) -> None:
    notebook.tab.run_cell("flat")
    widget = notebook.widget("explorer")
    says(widget, "0.00 becomes 0.00")
    expect(widget.part("calculation")).to_contain_text("The variance is 0: without ε this would be 0 / 0.")
    widget.part("reset").click()


def test_a_live_models_tensor_has_room(notebook) -> None:
    """3 sequences of 17 tokens with 64 features: no numbers in the cells, but each can be pointed at and moved."""
    widget = notebook.widget("large")
    widget.part("tensor").hover(position=in_tensor(widget, 2, 16, 63))
    says(widget, "BatchNorm. Sample 3, token 17, feature 64:", "of all 17 tokens of all 3 samples: 51 numbers.")
    notebook.press(widget, "tensor", "n", "n", "Shift+ArrowUp")
    says(widget, "LayerNorm. Sample 3, token 16, feature 64:")
    notebook.press(widget, "tensor", "Enter", "Shift+ArrowUp")
    says(widget, "1 number of x changed, and", "of 3264 outputs change, all in sample 3, token 16.")
    expect(widget.open_table().locator("tbody tr")).to_have_count(64)
    notebook.tab.screenshot("norm-explorer-large")


def test_a_wrong_norm_is_named_by_its_first_difference(notebook) -> None:
    """The unbiased variance makes every output too small by √(3/4)."""
    widget = notebook.widget("wrong")
    compared = widget.part("compared")
    expect(compared).to_contain_text("Your module differs from LayerNorm with ε = 1e−5 in 24 of 24 outputs (✗).")
    ours = reference_output("LayerNorm", X)[0, 0, 0].item()
    theirs = ours * 0.75**0.5
    expect(compared).to_contain_text("The first: sample 1, token 1, feature 1, in Python [0, 0, 0]")
    said = compared.text_content()
    yours, mine = (float(one.replace("−", "-")) for one in re.findall(r"(?:yours|ours) (−?[\d.]+\d)", said))
    assert (yours, mine) == (pytest.approx(theirs, abs=1e-3), pytest.approx(ours, abs=1e-3))
    notebook.tab.screenshot("norm-explorer-wrong")


def test_a_norm_over_the_wrong_axis_is_recognised(notebook) -> None:
    widget = notebook.widget("axis")
    expect(widget.part("compared")).to_contain_text("It agrees with BatchNorm instead.")
    widget.part("norm").nth(3).check()
    expect(widget.part("compared")).to_contain_text("Your module agrees with BatchNorm with ε = 1e−5")
    notebook.press(widget, "tensor", "E", "E", "E")
    expect(widget.part("compared")).to_contain_text("differs from BatchNorm with ε = 0.01")


def test_nothing_went_wrong_and_nobody_was_asked(notebook) -> None:
    assert notebook.tab.left_the_machine == []
    assert notebook.tab.errors == []
