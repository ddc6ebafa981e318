"""PositionExplorer: what is sent, what comes back, what is refused; what it does in a real JupyterLab.

test_widgets_in_lab.py tests what all widgets promise.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch import nn

from autograder.exercises import find
from headroom.reference import LearnedPositionalEncoding, ViT, rotate, sinusoidal_encoding
from headroom.widgets import PositionExplorer
from headroom.widgets.shared import HERE
from tests.widgets import WidgetNotebook, place_in, widget_notebook

EXACT = 1e-6


@pytest.fixture
def double():
    """The reference in float64: in float32 its own rounding would be larger than what is allowed here."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def vectors(d_head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A query and a key that float32 holds exactly."""
    return torch.randn(2, d_head, generator=torch.Generator().manual_seed(0), dtype=torch.float32).unbind()


# ---------------------------------------------------------------- what is shown


@pytest.mark.parametrize(("n_positions", "d_model"), [(2, 2), (50, 64), (200, 256)])
def test_table_is_the_references(n_positions, d_model, double):
    widget = PositionExplorer(n_positions=n_positions, d_model=d_model)
    np.testing.assert_allclose(widget.table, sinusoidal_encoding(n_positions, d_model), atol=EXACT)
    q, k = vectors(d_model)
    widget = PositionExplorer(q=q, k=k, kind="rotary", n_positions=n_positions)
    turned = rotate(q.double().expand(n_positions, -1))
    np.testing.assert_allclose(widget.table, turned, atol=EXACT)
    assert widget.selection.d_model == 64, "q brings its own width, sin-cos keeps its"


@pytest.mark.parametrize("base", [10, 777.0, 1e6])
def test_table_of_any_base(base):
    widget = PositionExplorer(base=base, n_positions=30, d_model=12)
    turns = np.exp(1j * np.arange(30)[:, None] * base ** (-np.arange(6) / 6))
    np.testing.assert_allclose(widget.table[:, 0::2], turns.imag, atol=EXACT)
    np.testing.assert_allclose(widget.table[:, 1::2], turns.real, atol=EXACT)


def test_a_learned_table_is_sent_once_as_bytes_and_shown_as_it_is():
    table = nn.Parameter(torch.randn(17, 64))
    widget = PositionExplorer(table)
    assert widget.kind == "learned"
    assert (widget.n_positions, widget.d_model) == (17, 64)
    np.testing.assert_array_equal(widget.table, table.detach())
    state = widget.get_state()
    assert len(state["_learned"]) == 4 * 17 * 64
    others = {name: value for name, value in state.items() if name not in ("_learned", "_esm", "_css")}
    assert len(repr(others)) < 1500
    widget.table[:] = 0
    assert widget.table.any(), "a copy, the reader's own to change"


def test_tables_come_in_many_forms():
    embedding = nn.Embedding(9, 6)
    plain = PositionExplorer(embedding.weight)._learned
    for other in (
        embedding,
        embedding.weight[None],
        embedding.weight.double(),
        embedding.weight.detach().numpy(),
        embedding.weight.tolist(),
    ):
        assert PositionExplorer(other)._learned == plain
    own = LearnedPositionalEncoding(6, 9)
    np.testing.assert_array_equal(PositionExplorer(own).table, own.table.detach())
    np.testing.assert_array_equal(PositionExplorer(ViT().positions).table.shape, (17, 64))


def test_of_a_long_table_the_first_rows_are_shown():
    table = torch.arange(512.0)[:, None].expand(512, 5)
    widget = PositionExplorer(table)
    assert widget.n_positions == 200
    assert len(widget._learned) == 4 * 200 * 5
    np.testing.assert_array_equal(widget.table, table[:200])


# ---------------------------------------------------------------- a table of the reader's own


def test_a_function_is_called_for_every_size_and_only_then():
    called = []

    def encoding(n_positions, d_model):
        called.append((n_positions, d_model))
        return sinusoidal_encoding(n_positions, d_model)

    widget = PositionExplorer(encoding=encoding, n_positions=20, d_model=8)
    assert called == [(20, 8)]
    widget.set_state({"d_model": 10})  # a message from the front end
    widget.position, widget.base = 3, 100.0
    widget.n_positions = 30
    assert called == [(20, 8), (20, 10), (30, 10)]
    assert widget.kind == "yours"
    np.testing.assert_array_equal(widget.table, sinusoidal_encoding(30, 10))


def test_a_function_that_fails_later_leaves_its_last_table_and_says_why():
    def encoding(n_positions, d_model):
        if d_model > 8:
            raise IndexError("no such column")
        return torch.zeros(n_positions, d_model)

    widget = PositionExplorer(encoding=encoding, n_positions=5, d_model=8)
    widget.d_model = 10
    assert widget._yours_facts["trouble"] == "encoding(5, 10) raised IndexError: no such column"
    assert widget.table.shape == (5, 8)
    widget.d_model = 6
    assert widget._yours_facts["trouble"] == ""
    assert widget.table.shape == (5, 6)


# ---------------------------------------------------------------- what is chosen


def test_the_browsers_choice_arrives():
    widget = PositionExplorer(nn.Embedding(17, 64))
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "shift")
    sent = {"kind": "rotary", "position": 4, "dimension": 7, "shift": -3, "base": 100, "measure": "cosine"}
    widget.set_state(sent)
    assert seen == [-3]
    for name, value in sent.items():
        assert getattr(widget.selection, name) == value
    assert widget.selection.pair == 3
    with pytest.raises(AttributeError):
        widget.selection.base = 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "yours"),
        ("kind", "alibi"),
        ("position", 17),
        ("dimension", 64),
        ("shift", 17),
        ("base", 1.0),
        ("base", float("nan")),
        ("d_model", 7),
        ("d_model", 258),
        ("n_positions", 1),
        ("n_positions", 201),
        ("measure", "l2"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_and_undone(name, value):
    widget = PositionExplorer(nn.Embedding(17, 64))
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError, match=name):
        setattr(widget, name, value)
    assert getattr(widget, name) == before


def test_what_is_chosen_stays_within_what_is_shown():
    widget = PositionExplorer(nn.Embedding(30, 64), kind="learned", position=-1, dimension=-1, shift=-29)
    assert (widget.position, widget.dimension) == (29, 63)
    widget.n_positions = 10
    assert (widget.position, widget.shift) == (9, -9)
    widget.d_model = 8
    assert widget.dimension == 63, "the learned table keeps its width"
    widget.kind = "sin-cos"
    assert widget.dimension == 7
    widget.set_state({"kind": "learned", "dimension": 63})
    assert widget.dimension == 63, "what arrives together is checked together"


# ---------------------------------------------------------------- what is refused


def batch(n_positions, d_model):
    return torch.zeros(2, n_positions, d_model)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"learned": torch.zeros(5)}, r"learned has shape \(5,\); it must be \(positions, d_model\)"),
        ({"learned": torch.zeros(2, 5, 4)}, "of a batch, take one"),
        ({"learned": torch.zeros(0, 4)}, r"learned has shape \(0, 4\)"),
        ({"learned": [[1.0], [1.0, 2.0]]}, "learned is not an array of numbers"),
        ({"learned": [["a"]]}, "learned holds"),
        ({"learned": [[0.0, float("nan")]]}, r"1 values that are NaN or infinite, the first at index \(0, 1\)"),
        ({"learned": torch.zeros(2, 3000)}, "learned is 3000 wide; at most 2048"),
        ({"learned": ViT()}, "ViT with .* parameters; give the table itself, such as model.positions.table"),
        ({"encoding": torch.zeros(5)}, r"encoding has shape \(5,\)"),
        ({"encoding": batch}, r"encoding\(50, 64\) has shape \(2, 50, 64\); .*of a batch, take one"),
        ({"encoding": lambda n, d: torch.zeros(n, d + 1)}, r"returned shape \(50, 65\); it must be .* = \(50, 64\)"),
        ({"encoding": lambda n: torch.zeros(n)}, r"encoding\(50, 64\) raised TypeError"),
        ({"q": torch.ones(4)}, "k is missing: q and k go together"),
        ({"q": torch.ones(4), "k": torch.ones(6)}, "q has 4 numbers and k 6; a dot product needs as many of both"),
        ({"q": torch.ones(3), "k": torch.ones(3)}, "d_head even"),
        ({"q": torch.ones(2, 4), "k": torch.ones(2, 4)}, r"q has shape \(2, 4\); it must be one vector"),
        ({"kind": "learned"}, 'kind="learned" needs a table, which this widget was not given: learned='),
        ({"kind": "sine"}, "kind='sine' must be"),
        ({"measure": "l2"}, "measure='l2' must be"),
        ({"base": 2}, "base=2 must be a number from 10 to 1,000,000"),
        ({"d_model": 9}, "d_model=9 must be even"),
        ({"n_positions": 500}, "n_positions=500 must be a whole number from 2 to 200"),
        ({"position": 50}, "position=50 does not exist; there are 50: 0 to 49"),
        ({"dimension": 1.5}, "dimension=1.5 is not an index"),
        ({"shift": 50}, "shift=50 must be a whole number from -49 to 49"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        PositionExplorer(**arguments)


# ---------------------------------------------------------------- in JavaScript

COMPUTED = """
    import { frequencies, sinCosRow, turnedRow } from ENCODINGS;
    const [n, width, base, query] = ARGUMENTS;
    const omegas = frequencies(width, base);
    const all = (row) => Array.from({ length: n }, (_, p) => Array.from(row(p)));
    console.log(JSON.stringify([
        all((p) => sinCosRow(p, omegas, new Float64Array(width))),
        all((p) => turnedRow(query, p, omegas, new Float64Array(width))),
    ]));
"""


@pytest.mark.parametrize(("n_positions", "d_model"), [(3, 2), (50, 64), (200, 256)])
def test_javascript_computes_the_references_tables(double, n_positions, d_model):
    if not (node := shutil.which("node")):
        pytest.skip("there is no Node.js")
    q, _ = vectors(d_model)
    script = COMPUTED.replace("ENCODINGS", json.dumps((HERE / "position_explorer" / "encodings.js").as_uri()))
    script = script.replace("ARGUMENTS", json.dumps([n_positions, d_model, 10_000, q.tolist()]))
    ran = subprocess.run([node, "--input-type=module", "--eval", script], capture_output=True, text=True, check=True)
    table, turned = json.loads(ran.stdout)
    np.testing.assert_allclose(table, sinusoidal_encoding(n_positions, d_model), atol=EXACT)
    np.testing.assert_allclose(turned, rotate(q.double().expand(n_positions, -1)), atol=EXACT)


# ---------------------------------------------------------------- in a browser

CELLS = {
    "three": """
        import torch
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import PositionExplorer
        q, k = torch.randn(2, 16, generator=torch.Generator().manual_seed(0)).unbind()
        learned = pretrained_vit().positions
        three = PositionExplorer(learned, q=q, k=k, kind="sin-cos", n_positions=30, d_model=32, position=4, shift=3)
        three""",
    "wrong": """
        from headroom.reference import sinusoidal_encoding
        def encoding(n_positions, d_model):
            wrong = sinusoidal_encoding(n_positions, d_model)
            position = torch.arange(n_positions)[:, None]
            wrong[:, 1::2] = (position * 10000 ** (-torch.arange(1, d_model, 2) / d_model)).cos()
            return wrong
        wrong = PositionExplorer(encoding=encoding, n_positions=20, d_model=8, shift=2)
        wrong""",
    "fast": """
        position, i = torch.arange(12)[:, None], torch.arange(4)
        other = torch.stack([(position * 1000 ** (-i / 4)).sin(), (position * 1000 ** (-i / 4)).cos()], -1).flatten(1)
        fast = PositionExplorer(encoding=other, shift=2)
        fast""",
    "read": """
        import json
        from dataclasses import asdict
        print(json.dumps(asdict(three.selection) | {"table": three.table.tolist()}))""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    with widget_notebook(browser, server, "positions", CELLS) as opened:
        yield opened


def slide(widget, part: str, value: float) -> None:
    """Set a slider as dragging it would."""
    widget.part(f"{part}-range").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+\.\d+", text.replace("−", "-"))]


def columns_of(widget) -> np.ndarray:
    """The numbers of the table view, `(positions, columns)`."""
    rows = widget.open_table().locator("tbody tr")
    cells = rows.evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((one) => one.textContent))"
    )
    return np.array([numbers(" ".join(row)) for row in cells])


def vit_positions() -> np.ndarray:
    from headroom.pretrained import pretrained_vit

    return pretrained_vit().positions.table.detach().numpy()


def test_the_numbers_on_the_page_are_the_references(notebook, double):
    three = notebook.widget("three")
    expected = sinusoidal_encoding(30, 32).numpy()
    for dimension in (0, 9, 31):
        slide(three, "dimension", dimension)
        expect(three.root).to_have_attribute("data-dimension", str(dimension))
        pair = slice(dimension // 2 * 2, dimension // 2 * 2 + 2)
        alike = expected @ expected[4]
        np.testing.assert_allclose(
            columns_of(three), np.concatenate([expected[:, pair], alike[:, None]], axis=1), atol=EXACT
        )
    three.root.locator("input[value=rotary]").check()
    slide(three, "dimension", 5)
    expect(three.root).to_have_attribute("data-dimension", "5")
    q, k = (vector.double() for vector in vectors(16))
    queries, keys = rotate(q.expand(30, -1)), rotate(k.expand(30, -1))
    scores = keys @ queries[4] / 16**0.5
    np.testing.assert_allclose(columns_of(three), torch.column_stack([queries[:, 4:6], scores]), atol=EXACT)
    three.part("measure-select").select_option("cosine")
    expect(three.root).to_have_attribute("data-measure", "cosine")
    cosines = torch.cosine_similarity(queries[4:5], keys)
    np.testing.assert_allclose(columns_of(three)[:, 2], cosines, atol=EXACT)
    three.part("measure-select").select_option("dot")
    three.root.locator("input[value=sin-cos]").check()
    three.close_table()


def test_what_is_pointed_at_shows_everywhere_and_reaches_python(notebook):
    three = notebook.widget("three")
    three.part("table-picture").hover(position=place_in(three.part("table-picture"), 7, 6))
    expect(three.part("live")).to_contain_text("Sin-cos, position 7, dimension 6, the sine of pair 3")
    expect(three.part("live")).to_contain_text("The shift by 3, to position 10, turns the pair by")
    answer = notebook.read("read", position=7, dimension=6)
    np.testing.assert_allclose(answer["table"], sinusoidal_encoding(30, 32), atol=1e-5)
    three = notebook.widget("three")
    three.part("matrix").hover(position=place_in(three.part("matrix"), 20, 12))
    expect(three.part("live")).to_contain_text("position 20")
    expect(three.part("live")).to_contain_text("The shift by −8, to position 12")
    expect(three.part("position-range")).to_have_value("20")
    expect(three.part("shift-range")).to_have_value("-8")
    for part, name, value in (("profile", "shift", "5"), ("wave", "position", "11")):
        canvas = three.part(part)
        left, step = (float(canvas.get_attribute(f"data-{one}")) for one in ("left", "step"))
        places = int(value) + (29 if name == "shift" else 0)
        canvas.hover(position={"x": left + places * step, "y": 30})
        expect(three.root).to_have_attribute(f"data-{name}", value)
    notebook.read("read", position=11, shift=5)


def test_a_click_locks_and_escape_lets_go(notebook):
    three = notebook.widget("three")
    three.part("matrix").click(position=place_in(three.part("matrix"), 5, 9))
    expect(three.part("live")).to_contain_text("Locked.")
    three.part("wave").hover(position={"x": 200, "y": 30})
    expect(three.root).to_have_attribute("data-position", "5")
    notebook.read("read", position=5, shift=4, locked=True)
    three = notebook.widget("three")
    notebook.press(three, "matrix", "Escape")
    expect(three.root).to_have_attribute("data-locked", "false")
    notebook.page.mouse.move(0, 0)


def test_keys_move_through_everything_that_can_be_chosen(notebook):
    three = notebook.widget("three")
    slide(three, "shift", 4)
    notebook.press(
        three, "table-picture", "PageUp", "ArrowDown", "ArrowDown", "ArrowRight", "s", "]", "+", "m", "Enter"
    )
    chosen = {"position": 2, "shift": 5, "d_model": 34, "base": 11200.0, "measure": "cosine", "locked": True}
    expect(three.root).to_have_attribute("data-locked", "true")
    dimension = int(three.root.get_attribute("data-dimension"))
    notebook.read("read", kind="sin-cos", dimension=dimension, **chosen)
    three = notebook.widget("three")
    notebook.press(three, "matrix", "ArrowRight", "ArrowUp", "S", "S", "[", "-", "m", "k", "k", "K", "Space")
    expect(three.root).to_have_attribute("data-kind", "learned")
    notebook.read("read", kind="learned", position=1, shift=4, d_model=32, base=10000.0, measure="dot", locked=False)


def test_a_shift_is_the_same_turn_from_every_position(notebook):
    three = notebook.widget("three")
    three.root.locator("input[value=sin-cos]").check()
    slide(three, "dimension", 4)
    slide(three, "shift", 6)
    turn = np.degrees(6 * 10_000 ** (-4 / 32))
    for position in (0, 9, 23):
        slide(three, "position", position)
        expect(three.root).to_have_attribute("data-position", str(position))
        expect(three.root.locator(".headroom-view-circle")).to_contain_text(f"is a turn by {turn:.1f}°")
        first, second = (three.part("rotation").locator("p").nth(line).inner_text() for line in (1, 2))
        row = sinusoidal_encoding(position + 7, 32)[position + 6]
        np.testing.assert_allclose([numbers(first)[-1], numbers(second)[-1]], [row[5], row[4]], atol=6e-5)
        assert int(three.part("distance").inner_text().split()[1]) == 24, "pairs of positions 6 apart"
        expect(three.part("distance")).to_contain_text("have the same dot product")
    three.root.locator("input[value=rotary]").check()
    expect(three.part("distance")).to_contain_text("have the same score")
    notebook.tab.screenshot("positions-rotary")


def test_a_learned_table_is_no_rotation_and_ends(notebook):
    three = notebook.widget("three")
    three.root.locator("input[value=learned]").check()
    slide(three, "position", 3)
    slide(three, "shift", 2)
    slide(three, "dimension", 10)
    expect(three.root).to_have_attribute("data-dimension", "10")
    table = vit_positions()
    live, rotation = three.part("live"), three.part("rotation")
    assert numbers(live.inner_text())[-1] == pytest.approx(table[3] @ table[5], abs=5e-4)
    points = table[:, [11, 10]].astype(float) @ [1, 1j]  # pair 5 as complex numbers
    along = (points[:-2].conj() * points[2:]).sum()
    fits = 2 * abs(along) / ((abs(points[:-2]) ** 2).sum() + (abs(points[2:]) ** 2).sum())
    said = rotation.inner_text()
    turn = f"{np.degrees(np.angle(along)):.1f}".replace("-", "−")
    assert f"the best one, by {turn}°, fits to {100 * fits:.1f} %." in said
    assert "Of 32 pairs, none is turned by one rotation each." in said
    expect(three.part("distance")).to_contain_text("have different dot products")
    slide(three, "position", 20)
    expect(live).to_contain_text("The learned table has 17 rows: there is none for position 20.")
    expect(three.part("kinds")).to_contain_text("no row 20")
    notebook.tab.screenshot("positions-learned")


def test_where_yours_differs_first_is_said(notebook):
    wrong = notebook.widget("wrong")
    slips = find("sinusoidal_encoding").altered(None, (20, 8), {}, frozenset({"own_cosine"})).numpy()
    right = sinusoidal_encoding(20, 8).numpy()
    angles = np.arange(20)[:, None] * 10_000 ** (-(np.arange(8) // 2 * 2) / 8)
    differ = abs(slips - right) > 3e-6 * (1 + angles)  # more than float32 rounds
    position, dimension = (int(at[0]) for at in np.nonzero(differ))
    said = wrong.part("comparison").inner_text()
    assert f"first at position {position}, dimension {dimension}: yours is {slips[position, dimension]:.6f}" in said
    assert f"sin-cos {right[position, dimension]:.6f}" in said
    assert f"Of 160 numbers {differ.sum()} differ" in said
    assert "Of 4 pairs, " in wrong.part("rotation").inner_text()
    slide(wrong, "position", 12)
    wrong.part("show-difference").click()
    expect(wrong.root).to_have_attribute("data-position", str(position))
    expect(wrong.root).to_have_attribute("data-dimension", str(dimension))
    notebook.tab.screenshot("positions-wrong")
    slide(wrong, "width", 16)
    expect(wrong.part("comparison")).to_contain_text("Of 320 numbers")  # Python has called the function again


def test_a_base_of_its_own_is_found_with_the_slider(notebook):
    fast = notebook.widget("fast")
    expect(fast.part("comparison")).to_contain_text("differs from sin-cos with base 10,000 first at position 1")
    expect(fast.part("rotation")).to_contain_text("Of 4 pairs, all are turned by one rotation each.")
    slide(fast, "base", 3)
    expect(fast.part("comparison")).to_contain_text("Yours is the sin-cos table of base 1,000")
    expect(fast.part("show-difference")).to_be_hidden()


def test_nothing_went_wrong(notebook):
    assert notebook.tab.errors == []
    assert notebook.tab.left_the_machine == []
