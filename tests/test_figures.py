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
