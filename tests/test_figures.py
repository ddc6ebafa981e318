"""Figures: what every figure owes its reader, and that helpers draw what they are given."""

import base64
import html
import re
from io import BytesIO

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.colors import to_rgb
from traitlets.config import Config

from headroom import diagrams, figures
from headroom.reference import DecoderBlock, Transformer
from headroom.training import History


@pytest.fixture(autouse=True)
def style():
    """The course's style, on a backend without a screen; everything undone afterwards."""
    with mpl.rc_context():
        plt.switch_backend("agg")
        figures.use_style()
        yield
        plt.close("all")


@pytest.fixture
def notebook(tmp_path):
    """A running IPython, which is where figures are shown; it writes nothing into the home folder."""
    without_history = Config({"HistoryManager": {"enabled": False}})
    yield InteractiveShell.instance(config=without_history, ipython_dir=str(tmp_path))
    InteractiveShell.clear_instance()


def titled():
    fig, ax = plt.subplots(figsize=(4, 3))
    ax.set_title("Found")
    return fig, ax


def test_show_displays_the_figure_with_its_description_and_closes_it(notebook):
    fig, _ = titled()
    alt = 'A "curve" that rises & stays < 1'
    with capture_output() as captured:
        figures.show(fig, alt=alt)
    (output,) = captured.outputs
    markup = output.data["text/html"]
    assert html.unescape(re.search(r'alt="([^"]*)"', markup)[1]) == alt
    png = base64.b64decode(re.search(r'src="data:image/png;base64,([^"]*)"', markup)[1])
    pixels = plt.imread(BytesIO(png))
    assert pixels.shape[:2] == (3 * 160, 4 * 160)
    assert (pixels[0, 0] == 1).all(), "white and opaque paper reads on a dark theme too"
    assert output.data["text/plain"] == alt
    assert not plt.fignum_exists(fig.number)


def test_a_script_prints_the_description(capsys):
    figures.show(titled()[0], alt="A curve that rises")
    assert capsys.readouterr().out == "A curve that rises\n"


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_figure_without_description_is_refused(alt):
    with pytest.raises(ValueError, match="describe in a sentence what the figure shows"):
        figures.show(titled()[0], alt=alt)


def test_a_figure_without_title_is_refused():
    fig, ax = plt.subplots()
    ax.plot([1, 2])
    with pytest.raises(ValueError, match="the figure has no title"):
        figures.show(fig, alt="A line")


@pytest.mark.parametrize("loc", ["left", "center", "right", "figure"])
def test_a_title_may_stand_anywhere(notebook, loc):
    fig, ax = plt.subplots()
    if loc == "figure":
        fig.suptitle("Found")
    else:
        ax.set_title("Found", loc=loc)
    with capture_output() as captured:
        figures.show(fig, alt="A line")
    assert captured.outputs


def test_query_key_and_value_are_blue_orange_and_green():
    q, k, v = (to_rgb(figures.COLORS[name]) for name in "qkv")
    assert q[2] == max(q), "the query is blue"
    assert k[0] > k[1] > k[2], "the key is orange"
    assert v[1] == max(v), "the value is green"


def test_heatmap_draws_the_matrix_with_labels_and_values():
    _, ax = titled()
    matrix = torch.tensor([[0.25, -1.5, float("-inf")], [1.0, 0.5, 0.0]], requires_grad=True)
    image = figures.heatmap(ax, matrix, ["a", "b"], ["one", "two", "three"], values=True, signed=True)
    shown = image.get_array()
    np.testing.assert_allclose(shown.filled(99), [[0.25, -1.5, 99], [1.0, 0.5, 0.0]])
    assert image.get_clim() == (-1.5, 1.5), "0 lies in the middle of the colours"
    assert [t.get_text() for t in ax.texts] == ["0.25", "−1.50", "−∞", "1.00", "0.50", "0.00"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["one", "two", "three"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]


def test_heatmap_says_what_its_colours_measure():
    image = figures.heatmap(titled()[1], torch.rand(2, 3), colorbar="weight")
    assert image.colorbar.ax.get_ylabel() == "weight"


def luminance(color: str | tuple[float, ...]) -> float:
    """As of WCAG, 0 … 1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("signed", [False, True])
def test_a_value_can_be_read_on_the_colour_of_its_cell(signed):
    _, ax = titled()
    matrix = torch.cat([torch.linspace(-1, 1, 41), torch.tensor([float("-inf")])])[None]
    image = figures.heatmap(ax, matrix, values=True, signed=signed)
    behind = [luminance(tuple(color[:3])) for color in image.to_rgba(image.get_array())[0]]
    written = [luminance(text.get_color()) for text in ax.texts]
    assert len(behind) == len(written) == 42
    contrasts = [(max(pair) + 0.05) / (min(pair) + 0.05) for pair in zip(behind, written, strict=True)]
    assert min(contrasts) > 3.5


def test_heatmap_of_nothing_but_masked_scores_draws():
    fig, ax = titled()
    figures.heatmap(ax, torch.full((2, 2), float("-inf")), values=True)
    assert figures.as_html(fig, "masked")


def test_heatmap_refuses_what_is_no_matrix():
    with pytest.raises(ValueError, match=r"matrix has shape \(2, 3, 4\).*pick one sample and one head"):
        figures.heatmap(titled()[1], torch.zeros(2, 3, 4))


def test_heatmap_refuses_labels_that_do_not_match():
    with pytest.raises(ValueError, match=r"columns has 2 labels; the matrix of shape \(2, 3\) needs 3"):
        figures.heatmap(titled()[1], torch.zeros(2, 3), columns=["a", "b"])


def test_curves_are_titled_with_what_was_reached():
    history = History(losses=[2.0, 1.0, 0.5], val_accuracy=[0.8, 0.9125], interrupted=True)
    left, right = figures.curves(history).axes
    assert left.get_title(loc="left") == "The loss went from 2.00 to 0.50"
    assert right.get_title(loc="left") == "91.2 % after 2 epochs, then stopped"
    np.testing.assert_allclose(left.lines[0].get_ydata(), history.losses)
    np.testing.assert_allclose(right.lines[0].get_ydata(), [80, 91.25])


def test_curves_say_what_is_counted_along_each_axis():
    left, right = figures.curves(History(losses=[2.0, 1.0], val_accuracy=[0.8])).axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("step", "loss (cross-entropy)")
    assert (right.get_xlabel(), right.get_ylabel()) == ("epoch", "validation accuracy, %")


def test_curves_of_a_run_stopped_at_once_draw(notebook):
    with capture_output() as captured:
        figures.show(figures.curves(History(interrupted=True)), alt="Nothing yet")
    assert captured.outputs


def test_the_running_mean_is_the_mean_of_the_last_values():
    np.testing.assert_allclose(figures._running_mean([1.0, 3.0, 5.0, 7.0], window=2), [1, 2, 4, 6])


def test_gallery_shows_every_image_with_its_caption():
    fig = figures.gallery(torch.rand(7, 1, 28, 28), list("abcdefg"), "Seven", columns=5)
    drawn = [ax for ax in fig.axes if ax.images]
    assert [ax.get_title() for ax in drawn] == list("abcdefg")
    assert fig.get_suptitle() == "Seven"
    with pytest.raises(ValueError, match="captions has 2 entries for 7 images"):
        figures.gallery(torch.rand(7, 28, 28), ["a", "b"], "Seven")


def test_patch_map_lays_each_weight_over_its_patch():
    _, ax = titled()
    weights = torch.arange(16.0)
    heat = figures.patch_map(ax, torch.rand(1, 28, 28), weights)
    np.testing.assert_allclose(heat.get_array(), weights.view(4, 4))
    assert heat.get_extent() == ax.images[0].get_extent()


def test_patch_map_refuses_the_weight_of_class():
    with pytest.raises(ValueError, match=r"weights has shape \(17,\).*without that of \[class\]"):
        figures.patch_map(titled()[1], torch.rand(28, 28), torch.rand(17))


def test_attention_step_shows_every_number_and_says_what_is_what_without_colour():
    q, k, v = torch.tensor([7.0, 0.5]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [-6.0]])
    scores, weights = torch.tensor([8.0, 9.0]), torch.tensor([0.27, 0.73])
    fig = figures.attention_step(["cat", "drank"], "drank", q, k, v, scores, weights, weights @ v, "A finding")
    (ax,) = fig.axes
    written = [text.get_text() for text in ax.texts]
    for number in ("7.0", "0.5", "1", "2", "3", "4", "5", "−6", "8.00", "9.00", "0.27", "0.73", "−3.03"):
        assert number in written, number
    assert (written.count("Q"), written.count("K"), written.count("V")) == (1, 2, 2)
    hatches = {patch.get_hatch(): to_rgb(patch.get_edgecolor()[:3]) for patch in ax.patches if patch.get_hatch()}
    assert hatches == {hatch: to_rgb(figures.COLORS[kind]) for hatch, kind in (("//", "q"), ("..", "k"), ("xx", "v"))}
    with pytest.raises(ValueError, match="k has 2 rows for 3 words"):
        figures.attention_step(list("abc"), "a", q, k, v, scores, weights, weights @ v, "A finding")


def test_a_diagram_ends_its_arrows_at_the_edge_of_a_box():
    fig, ax = plt.subplots()
    boxes = {"norm": (0, 1, "LayerNorm"), "sum": (2, 3, "+")}
    diagrams.diagram(ax, boxes, [[(0, 0), "norm"], ["norm", (0, 3), "sum"]], width=1.6, marked=["norm"])
    heads = [annotation.xy for annotation in ax.texts if isinstance(annotation, mpl.text.Annotation)]
    assert heads == [(0, pytest.approx(0.7)), (pytest.approx(1.78), 3)]
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["LayerNorm", "+"]
    norm, sum_ = ax.patches
    assert norm.get_bbox().bounds == pytest.approx((-0.8, 0.7, 1.6, 0.6)) and sum_.center == (2, 3)
    assert norm.get_facecolor() != sum_.get_facecolor()
    fig.canvas.draw()


def test_a_diagram_refuses_an_arrow_that_ends_aslant():
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"corner at \(0, 3\) or \(2, 1\)"):
        diagrams.diagram(ax, {"norm": (0, 1, "LayerNorm"), "sum": (2, 3, "+")}, [["norm", "sum"]])


def test_the_decoder_blocks_picture_names_every_part_of_the_block():
    fig = diagrams.decoder_block()
    shown = " ".join(text.get_text() for text in fig.axes[0].texts)
    block = DecoderBlock(d_model=4, n_heads=2, d_ff=8)
    for name, _ in block.named_children():
        assert name.replace("_", " ") in shown.replace("-", " ").replace("_", " "), name
    letters = [text for text in fig.axes[0].texts if text.get_text() in ("Q", "K", "V")]
    assert [text.get_text() for text in letters] == ["Q", "K", "V", "Q", "K", "V"]
    assert all(text.get_color() == figures.COLORS[text.get_text().lower()] for text in letters)


def test_the_transformers_picture_counts_its_parameters_and_has_each_mask_once():
    model = Transformer(20, 14, d_model=8, n_layers=3, n_heads=2, d_ff=16)
    fig = diagrams.transformer(model, "3.4.", "<bos> 0", "0 <eos>")
    shown = " ".join(text.get_text().replace("\n", " ") for text in fig.axes[0].texts)
    parts = (model.embed_source, model.embed_target, model.encoder.blocks[0], model.decoder.blocks[0], model.head)
    for part in parts:
        assert f"{sum(one.numel() for one in part.parameters()):,} parameters" in shown
    assert f"{sum(one.numel() for one in model.parameters()):,} parameters" in fig.axes[0].get_title(loc="left")
    assert shown.count("× 3") == 2 and shown.count("LayerNorm") == 2 + 3 + 2
    assert shown.count("causal mask") == shown.count("padding mask") == shown.count("cross-attention") == 1
    fig.canvas.draw()


def test_a_vision_transformers_picture_has_a_row_for_each_token_and_a_bar_for_each_class():
    rng = np.random.default_rng(0)
    image, tokens, positions, logits = rng.random((28, 28)), *rng.normal(size=(2, 17, 64)), rng.normal(size=10)
    fig = diagrams.vision_transformer(image, tokens, positions, logits)
    ax = fig.axes[0]
    assert len(ax.images) == 1 + 16 + 2 * 17, "the image, its patches, tokens and positions"
    bars = [patch.get_width() for patch in ax.patches if to_rgb(patch.get_facecolor()) == to_rgb(figures.COLORS["ink"])]
    assert np.argsort(bars).tolist() == np.argsort(logits).tolist()
    fig.canvas.draw()
    with pytest.raises(ValueError, match=r"\(16, 64\)"):
        diagrams.vision_transformer(image, tokens[1:], positions, logits)


def test_the_longest_path_has_a_step_for_each_word_but_the_first():
    fig = diagrams.word_paths(list("abcdefg"))
    assert [ax.get_title(loc="left") for ax in fig.axes] == [
        "Recurrent: 6 steps",
        "Convolution over 7: 2 layers",
        "Attention: 1 layer",
    ]
    pink = to_rgb(figures.COLORS["pink"])
    steps = [np.size(line.get_xdata()) - 1 for ax in fig.axes for line in ax.lines if to_rgb(line.get_color()) == pink]
    assert steps == [6 + 1, 2, 1], "the recurrent network first takes the word in"


# Each helper's own promises, and what all of them owe


def step_figure():
    q, k, v = torch.tensor([2.0, 0.0]), torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0], [3.0]])
    return figures.attention_step(["cat", "drank"], "its", q, k, v, q @ k.T, torch.tensor([0.25, 0.75]), [2.5], "Found")


def mapped():
    fig, ax = titled()
    figures.patch_map(ax, torch.rand(28, 28), torch.rand(16))
    return fig


MADE = {
    "heatmap": lambda: (figures.heatmap(titled()[1], torch.rand(2, 2), colorbar="weight"), plt.gcf())[1],
    "curves": lambda: figures.curves(History(losses=[2.0, 1.0], val_accuracy=[0.8])),
    "gallery": lambda: figures.gallery(torch.rand(3, 28, 28), list("abc"), "Three", columns=2),
    "patch_map": mapped,
    "attention_step": step_figure,
    "word_paths": lambda: diagrams.word_paths(list("abcde")),
    "decoder_block": diagrams.decoder_block,
    "transformer": lambda: diagrams.transformer(Transformer(9, 9, d_model=8, n_heads=2, d_ff=16), "a", "b", "c"),
    "vision_transformer": lambda: diagrams.vision_transformer(
        np.ones((28, 28)), np.ones((17, 12)), np.ones((17, 12)), np.arange(10)
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_figure_has_a_title_and_axes_that_say_what_they_count_or_are_not_there(name):
    """What counts along an axis is in its label, or its ticks are words; pictures of cells count rows and columns."""
    fig = MADE[name]()
    fig.canvas.draw()
    assert fig.get_suptitle() or any(ax.get_title(loc="left") for ax in fig.axes)
    for ax in fig.axes:
        if not ax.axison or ax.images:
            continue
        for axis in (ax.xaxis, ax.yaxis):
            words = [tick.get_text() for tick in axis.get_ticklabels() if re.search(r"[A-Za-z]", tick.get_text())]
            assert axis.get_label_text() or words or not len(axis.get_ticklocs()), f"{name}: {axis}"
        assert ax.get_legend() or len(ax.get_legend_handles_labels()[1]) < 2, f"{name}: which is which"


def test_all_figures_have_one_style():
    for name, value in {
        "figure.facecolor": "#FFFFFF",
        "savefig.facecolor": "#FFFFFF",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "image.cmap": "cividis",
        "image.interpolation": "nearest",
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }.items():
        assert mpl.rcParams[name] == value, name
    colors = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert len(set(colors)) == len(colors) == 7 and colors[:3] == [figures.COLORS[name] for name in "qkv"]


@pytest.mark.parametrize(
    ("options", "expected", "cmap"),
    [
        ({}, (-1, 3), "cividis"),
        ({"signed": True}, (-3, 3), "PuOr"),
        ({"limits": (0, 1)}, (0, 1), "cividis"),
        ({"limits": (-1, 2), "signed": True}, (-1, 2), "PuOr"),
    ],
)
def test_heatmap_colours_between_the_limits(options, expected, cmap):
    image = figures.heatmap(titled()[1], [[-1.0, 0.0], [3.0, float("nan")]], **options)
    assert image.get_clim() == expected and image.get_cmap().name == cmap
    assert to_rgb(image.get_cmap().get_bad()[:3]) == to_rgb(figures.HIDDEN)
    assert np.ma.getmaskarray(image.get_array()).tolist() == [[False, False], [False, True]]
    assert image.colorbar is None and not image.axes.texts, "only who asks for them gets numbers and a bar"


@pytest.mark.parametrize(("word", "turned"), [("a", 0), ("ab", 0), ("abc", 45)])
def test_long_names_of_columns_stand_aslant(word, turned):
    _, ax = titled()
    figures.heatmap(ax, torch.rand(2, 2), rows=["long name", "b"], columns=["a", word])
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {turned}
    with pytest.raises(ValueError, match=r"rows has 3 labels; the matrix of shape \(2, 2\) needs 2"):
        figures.heatmap(ax, torch.rand(2, 2), rows=list("abc"))


def test_curves_count_epochs_from_one_and_show_each_step_beside_the_mean():
    history = History(losses=[3.0, 1.0] * 100, val_accuracy=[0.5, 0.75, 0.8])
    left, right = figures.curves(history).axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["each step", "running mean"]
    assert left.lines[1].get_ydata()[3:].tolist() == [2.0] * 197, "over a fiftieth of the steps"
    assert left.get_ylim()[0] == 0 and right.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert right.get_title(loc="left") == "80.0 % after 3 epochs"


def test_gallery_shows_ink_dark_on_white_in_rows():
    fig = figures.gallery(torch.rand(5, 1, 28, 28), list("abcde"), "Five", columns=2)
    assert len(fig.axes) == 6 and not any(ax.axison for ax in fig.axes)
    for ax in fig.axes[:5]:
        assert ax.images[0].get_cmap().name == "gray_r" and ax.images[0].get_clim() == (0, 1)
    places = [ax.get_subplotspec() for ax in fig.axes[:3]]
    assert [(one.rowspan.start, one.colspan.start) for one in places] == [(0, 0), (0, 1), (1, 0)]


def test_patch_map_fades_from_nothing_to_orange_over_the_image():
    _, ax = titled()
    heat = figures.patch_map(ax, torch.rand(28, 28), torch.linspace(0.1, 0.4, 16))
    assert heat.get_clim() == (0, pytest.approx(0.4)) and list(ax.images).index(heat) == 1
    low, high = heat.get_cmap()(0.0), heat.get_cmap()(1.0)
    assert low[3] == 0 and high[3] > 0.5 and to_rgb(high[:3]) == to_rgb(figures.COLORS["k"])
    assert ax.images[0].get_cmap().name == "gray_r" and ax.images[0].get_clim() == (0, 1)
    lines = sorted({line.get_xdata()[0] for line in ax.lines if line.get_xdata()[0] == line.get_xdata()[1]})
    assert lines == [6.5, 13.5, 20.5] and len(ax.lines) == 6, "between the patches"
    assert len(ax.get_xticks()) == len(ax.get_yticks()) == 0
    assert figures.patch_map(ax, torch.rand(28, 28), torch.rand(16), limits=(0.1, 0.9)).get_clim() == (0.1, 0.9)


def test_attention_step_names_its_stages_and_draws_each_weight_as_long_as_it_is():
    (ax,) = step_figure().axes
    written = [text.get_text() for text in ax.texts]
    places = {text.get_text(): text.get_position() for text in ax.texts}
    stages = ["a query meets all keys", "1. scores", "2. weights", "values"]
    assert [places[one][0] for one in stages] == sorted(places[one][0] for one in stages), "from left to right"
    assert places["3. their weighted mean"][1] > places["values"][1]
    assert "what “its” takes in" in written and written.count("cat") == written.count("drank") == 2
    assert written.count("its") == 1 and ax.get_title(loc="left") == "Found" and not ax.axison
    grey = [one for one in ax.patches if to_rgb(one.get_facecolor()) == to_rgb(figures.COLORS["grey"])]
    assert [bar.get_width() for bar in grey] == pytest.approx([2 * 0.25, 2 * 0.75])
    assert places["2.00"][1] < places["4.00"][1] and places["0.25"][1] == places["2.00"][1], "a row for each key"
    for name in ("q", "k", "v"):
        assert sum(text == name.upper() for text in written) == {"q": 1, "k": 2, "v": 2}[name]


@pytest.mark.parametrize("name", ["k", "v", "scores", "weights"])
def test_attention_step_refuses_what_has_not_a_row_for_each_word(name):
    given = {"q": [1.0], "k": [[1.0]] * 2, "v": [[1.0]] * 2, "scores": [1.0] * 2, "weights": [0.5] * 2, "output": [1.0]}
    given[name] = given[name][:1]
    with pytest.raises(ValueError, match=f"{name} has 1 rows for 2 words"):
        figures.attention_step(["a", "b"], "a", **given, title="Found")


def test_word_paths_lead_from_the_first_word_to_the_last_by_steps_that_the_network_has():
    words = list("abcdefghi")
    fig = diagrams.word_paths(words)
    assert "From “a” to “i”" in fig.get_suptitle()
    pink, last = to_rgb(figures.COLORS["pink"]), len(words) - 1
    for ax, reach in zip(fig.axes, (1, 3, last), strict=True):
        assert [label.get_text() for label in ax.get_xticklabels()] == words
        [path] = [np.asarray(line.get_xdata()) for line in ax.lines if to_rgb(line.get_color()) == pink]
        assert path[0] == 0 and path[-1] == last and np.abs(np.diff(path)).max() <= reach
    edges = [sum(to_rgb(line.get_color()) == to_rgb(figures.COLORS["grey"]) for line in ax.lines) for ax in fig.axes]
    assert edges == [9, 3 * (9 * 7 - 2 * (1 + 2 + 3)), 9 * 9]


def test_the_pictures_of_models_show_where_masks_and_memory_go_in():
    ax = MADE["transformer"]().axes[0]
    hidden = [one.get_xy() for one in ax.patches if to_rgb(one.get_facecolor()) == to_rgb(figures.HIDDEN)]
    causal = [(round((x - 6.7) / 0.12), round((2.68 - y) / 0.12)) for x, y in hidden if y < 2.9]
    assert sorted(causal) == sorted((j, i) for i in range(5) for j in range(i + 1, 5)), "a row for each query"
    padding = {(round((x - 6.7) / 0.12), round((3.68 - y) / 0.12)) for x, y in hidden if y > 2.9}
    assert padding == {(j, i) for j in (3, 4) for i in range(5)}, "hides keys from every query alike"
    places = {text.get_text(): text.get_position() for text in ax.texts}
    order = ["masked\nself-attention", "cross-attention", "feed-forward\nnetwork"]
    assert [places[one][1] for one in order] == sorted(places[one][1] for one in order), "from below"
    assert places["positions"][1] < places["masked\nself-attention"][1]
    assert "only cross-attention joins its halves" in ax.get_title(loc="left")

    ax = diagrams.decoder_block().axes[0]
    places = {text.get_text().split("\n")[0]: text.get_position() for text in ax.texts}
    order = ["masked self-attention", "cross-attention", "feed-forward network"]
    assert [places[one][0] for one in order] == sorted(places[one][0] for one in order)
    memory = next(place for name, place in places.items() if name.startswith("memory"))
    assert memory[0] == pytest.approx(places["cross-attention"][0]), "the memory comes in there"
    details = dict(text.get_text().split("\n") for text in ax.texts if "\n" in text.get_text())
    assert details == {order[0]: "mask: causal", order[1]: "memory_mask: padding", order[2]: "each token by itself"}


def test_a_vision_transformers_picture_names_its_stages_in_order():
    ax = MADE["vision_transformer"]().axes[0]
    places = {text.get_text(): text.get_position() for text in ax.texts}
    stages = ["image", "16 patches", "[class], tokens", "positions", "encoder block, repeated", "logits"]
    assert [places[one][0] for one in stages] == sorted(places[one][0] for one in stages)
    assert places["self-attention"][1] > places["feed-forward"][1], "from above"
    digits = [places[str(digit)][1] for digit in range(10)]
    assert digits == sorted(digits, reverse=True)
    assert [one.get_text() for one in ax.texts].count("LayerNorm") == 2
