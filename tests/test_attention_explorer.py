"""AttentionExplorer: what is sent, what comes back, what is refused; models of transformers.

test_widgets_in_lab.py tests what all widgets promise.
"""

import numpy as np
import pytest
import torch
import traitlets

from headroom.data import SOURCE, TARGET
from headroom.pretrained import pretrained_transformer
from headroom.reference import Transformer, ViT, attention_maps, causal_mask
from headroom.widgets import AttentionExplorer

IMAGES, LAYERS, HEADS, PATCHES = 3, 2, 4, 16


def softmax_attention(tokens: int = PATCHES + 1, seed: int = 0) -> torch.Tensor:
    scores = torch.randn(IMAGES, LAYERS, HEADS, tokens, tokens, generator=torch.Generator().manual_seed(seed))
    return (2 * scores).softmax(dim=-1)


def digits() -> torch.Tensor:
    return torch.rand(IMAGES, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def of_patches(images, attention, **arguments) -> AttentionExplorer:
    return AttentionExplorer(attention, images=images, **arguments)


WORDS = [["the", "cat", "sat"], ["a", "dog", "ran", "off"], ["it", "did"]]  # of different lengths
SCORES = torch.randn(3, LAYERS, HEADS, 4, 4, generator=torch.Generator().manual_seed(2))
MASK = causal_mask(4)
WEIGHTS = SCORES.masked_fill(~MASK, float("-inf")).softmax(dim=-1)  # causal: no word looks at padding


def of_words(attention=WEIGHTS, tokens=WORDS, **arguments) -> AttentionExplorer:
    return AttentionExplorer(attention, tokens=tokens, **arguments)


# ---------------------------------------------------------------- what is sent


def test_attention_is_sent_as_two_bytes_a_weight_and_never_as_json():
    attention = softmax_attention()
    state = of_patches(digits(), attention).get_state()
    assert len(state["_attention"]) == 2 * attention.numel()
    assert len(state["_pixels"]) == IMAGES * 28 * 28
    others = {name: value for name, value in state.items() if name not in ("_attention", "_pixels", "_esm", "_css")}
    assert len(repr(others)) < 2000, "something else as large as the attention travels as text"


def test_buffer_lies_in_the_order_that_the_browser_reads():
    attention = softmax_attention()
    sent = np.frombuffer(of_patches(digits(), attention)._attention, dtype="<u2")
    tokens = PATCHES + 1
    image, layer, head, query, key = 2, 1, 3, 5, 7
    at = (((image * LAYERS + layer) * HEADS + head) * tokens + query) * tokens + key  # as the browser reads it
    assert sent[at] / 65535 == pytest.approx(attention[image, layer, head, query, key].item(), abs=1e-5)


def test_bytes_of_a_digit_arrive_as_they_were():
    raw = np.random.default_rng(0).integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8)
    widget = of_patches(raw / 255, softmax_attention())
    assert widget._pixels == raw.tobytes()


def test_other_forms_of_the_same_arguments_send_the_same():
    images, attention = digits(), softmax_attention()
    plain = of_patches(images, attention)
    for other in (
        of_patches(images[:, 0].numpy(), attention.numpy()),
        of_patches(images.double().requires_grad_(), attention.double().requires_grad_()),
        of_patches(images, attention, patch_size=7),
    ):
        assert other._attention == plain._attention
        assert other._pixels == plain._pixels
        assert other._facts == plain._facts


@pytest.mark.parametrize(
    ("shape", "tokens", "patch_size", "expected"),
    [
        ((28, 28), 17, None, (4, 4, True)),
        ((28, 28), 16, None, (4, 4, False)),
        ((28, 28), 50, None, (7, 7, True)),
        ((12, 18), 7, None, (2, 3, True)),
        ((12, 18), 7, 6, (2, 3, True)),
        ((4, 4), 2, None, (1, 1, True)),
    ],
)
def test_patch_grid_is_found_from_the_tokens(shape, tokens, patch_size, expected):
    facts = of_patches(np.zeros((IMAGES, *shape)), softmax_attention(tokens), patch_size=patch_size)._facts
    assert (facts["rows"], facts["columns"], facts["has_class"]) == expected


# ---------------------------------------------------------------- what comes back


def test_selection_starts_on_the_last_layer_the_mean_head_and_the_class_token():
    widget = of_patches(digits(), softmax_attention())
    chosen = widget.selection
    assert (chosen.sample, chosen.layer, chosen.head, chosen.query) == (0, LAYERS - 1, None, "[class]")
    assert (chosen.locked, chosen.control) == (False, None)
    with pytest.raises(AttributeError):
        chosen.layer = 0
    assert of_patches(digits(), softmax_attention(PATCHES)).selection.query == 0


def test_selected_weights_are_those_of_the_selection():
    attention = softmax_attention()
    widget = of_patches(digits(), attention, sample=1, layer=0, head=2, query=5)
    np.testing.assert_array_equal(widget.selected_weights, attention[1, 0, 2, 6, 1:])
    widget.head = None
    np.testing.assert_allclose(widget.selected_weights, attention[1, 0, :, 6, 1:].mean(dim=0), rtol=1e-6)
    widget.query = "[class]"
    np.testing.assert_allclose(widget.selected_weights, attention[1, 0, :, 0, 1:].mean(dim=0), rtol=1e-6)
    without_class = softmax_attention(PATCHES)
    widget = of_patches(digits(), without_class, head=0, query=5)
    np.testing.assert_array_equal(widget.selected_weights, without_class[0, -1, 0, 5])


def test_selected_weights_are_the_readers_own_to_change():
    widget = of_patches(digits(), softmax_attention())
    widget.selected_weights[:] = 0
    assert widget.selected_weights.sum() > 0


def test_the_browsers_choice_arrives():
    attention = softmax_attention()
    widget = of_patches(digits(), attention)
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "query")
    widget.set_state({"sample": 2, "layer": 0, "head": 1, "query": 15, "locked": True})  # a message from the front end
    assert seen == [15]
    assert widget.selection.locked
    np.testing.assert_array_equal(widget.selected_weights, attention[2, 0, 1, 16, 1:])


def test_control_shows_another_images_attention_and_never_its_own():
    attention = softmax_attention()
    widget = of_patches(digits(), attention, head=0)
    widget.control = 2
    np.testing.assert_array_equal(widget.selected_weights, attention[2, -1, 0, 0, 1:])
    widget.sample = 2
    assert widget.selection.control == 0
    widget.control = 2
    assert widget.selection.control == 0
    alone = of_patches(digits()[:1], attention[:1])
    alone.control = 0
    assert alone.selection.control is None


@pytest.mark.parametrize(
    ("name", "value"), [("sample", 3), ("layer", 2), ("head", 4), ("query", 16), ("query", "cls"), ("scale", "log")]
)
def test_a_choice_that_does_not_exist_is_refused_and_undone(name, value):
    widget = of_patches(digits(), softmax_attention())
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError, match=name):
        setattr(widget, name, value)
    assert getattr(widget, name) == before


def test_negative_indices_count_from_the_end():
    widget = of_patches(digits(), softmax_attention(), sample=-1, layer=-2, head=-1, query=-1)
    assert (widget.sample, widget.layer, widget.head, widget.query) == (2, 0, 3, 15)


# ---------------------------------------------------------------- from a model


def test_from_model_shows_what_the_model_computes_and_leaves_its_mode():
    model = ViT(dropout=0.5, drop_path=0.5)
    model.train()
    model.encoder.eval()  # a frozen part stays frozen
    images = digits()
    widget = AttentionExplorer.from_model(model, images, labels=[7, 2, 1], head=0, query=3)
    assert model.training
    assert not model.encoder.training
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    with torch.no_grad():
        with attention_maps(model) as maps:
            logits = model(images)
        attention = maps["encoder.blocks.attention"]
    np.testing.assert_allclose(widget.selected_weights, attention[0, -1, 0, 4, 1:], atol=1e-6)
    np.testing.assert_allclose(widget._facts["predictions"], logits.softmax(-1), atol=1e-4)
    assert widget._facts["labels"] == [7, 2, 1]


def test_from_model_restores_the_mode_when_the_model_fails():
    model = ViT()
    with pytest.raises(ValueError):
        AttentionExplorer.from_model(model, torch.zeros(1, 1, 20, 20))
    assert model.training


def test_from_model_names_a_model_without_attention():
    class Silent(torch.nn.Module):
        def forward(self, images, return_attention):
            return images

    with pytest.raises(TypeError, match=r"returned Tensor; it must return a pair \(logits, attention\)"):
        AttentionExplorer.from_model(Silent(), digits())


def test_from_transformer_shows_what_the_model_computes_and_leaves_its_mode():
    model = pretrained_transformer().train()
    widget = AttentionExplorer.from_transformer(model, ["4 March 2021", "28 de junio de 1987"], head=0)
    assert model.training
    first, second = widget._facts["queries"]
    assert "".join(first) == "2021-03-04<eos>"
    assert "".join(second) == "1987-06-28<eos>"
    assert [len(keys) for keys in widget._facts["keys"]] == [12, 19], "each text has its own length"
    np.testing.assert_allclose(widget.selected_weights.sum(), 1, atol=1e-3)
    assert widget.selected_weights.shape == (12,)
    causal = AttentionExplorer.from_transformer(model, ["4 March 2021"], part="decoder", head=0, query=2)
    assert causal._facts["queries"][0][:3] == ["<bos>", "2", "0"]
    assert (causal.selected_weights[3:] == 0).all()


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_from_transformer_finds_the_scores_of_every_attention(part, rotary):
    """The widget itself refuses scores that do not make the weights; here they must come from any model."""
    torch.manual_seed(0)
    model = Transformer(len(SOURCE), len(TARGET), d_model=16, rotary=rotary)
    widget = AttentionExplorer.from_transformer(model, ["1.2.", "11.12.1999"], part=part)
    assert len(widget._scores) == 2 * len(widget._attention)


# ---------------------------------------------------------------- text


def test_words_are_sent_with_their_own_lengths_and_without_padding():
    widget = of_words()
    cells = sum(len(words) ** 2 for words in WORDS)
    assert len(widget._attention) == 2 * LAYERS * HEADS * cells
    assert widget._facts["queries"] == WORDS
    widget.sample, widget.head, widget.query = 2, 1, 1
    np.testing.assert_array_equal(widget.selected_weights, WEIGHTS[2, -1, 1, 1, :2])


def test_one_sequence_needs_no_batch():
    one = of_words(WEIGHTS[1], WORDS[1])
    assert one._attention == of_words(WEIGHTS[1:2], WORDS[1:2])._attention
    assert one.selection.query == 0


def test_keys_may_be_other_words():
    cross = torch.rand(1, 1, 1, 2, 5).softmax(-1)
    widget = of_words(cross, ["he", "slept"], source_tokens=["er", "ist", "gestern", "ein", "geschlafen"])
    widget.query, widget.key = 1, 4
    np.testing.assert_array_equal(widget.selected_weights, cross[0, 0, 0, 1])
    with pytest.raises(traitlets.TraitError, match="query=4 does not exist; there are 2"):
        widget.query = 4


def test_a_shorter_sequence_takes_the_selection_back_to_its_own_words():
    widget = of_words(sample=1, query=3)
    widget.key, widget.marks = 3, [0, 3]
    widget.sample = 2
    assert (widget.query, widget.key, widget.marks) == (1, 1, [0])


def test_scores_and_mask_travel_beside_the_weights():
    widget = of_words(scores=SCORES, mask=MASK)
    assert len(widget._scores) == 2 * len(widget._attention)
    assert list(widget._mask[:9]) == [1, 0, 0, 1, 1, 0, 1, 1, 1]
    widget.show = "scores"
    with pytest.raises(traitlets.TraitError, match="needs scores and mask"):
        of_words().show = "scores"


def test_marks_of_a_prediction_can_be_read():
    widget = of_words()
    widget.set_state({"phase": "revealed", "marks": [0, 2]})
    assert widget.selection.marks == (0, 2)
    with pytest.raises(traitlets.TraitError, match="marks=7 does not exist"):
        widget.marks = [7]


def test_from_a_live_training_step():
    """What a student has at hand requires gradients, and may be on a GPU: detached, copied, never changed."""
    scores = SCORES.clone().requires_grad_()
    weights = scores.masked_fill(~MASK, float("-inf")).softmax(dim=-1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    widget = of_words(weights.to(device), scores=scores.to(device), mask=MASK.to(device))
    assert widget._attention == of_words()._attention
    weights.sum().backward()


# ---------------------------------------------------------------- what is refused


def with_nan(values: torch.Tensor) -> torch.Tensor:
    values = values.clone()
    values.view(-1)[5] = float("nan")
    return values


REFUSED = {
    "one image": (lambda: {"images": digits()[0, 0]}, r"images has shape \(28, 28\).*images\[None\]"),
    "channels": (lambda: {"images": torch.zeros(3, 2, 28, 28)}, r"images has shape \(3, 2, 28, 28\)"),
    "no image": (lambda: {"images": torch.zeros(0, 28, 28)}, r"images has shape \(0, 28, 28\)"),
    "bytes": (lambda: {"images": 255 * digits()}, r"images has values from .* \[0, 1\]; divide bytes by 255"),
    "normalised": (lambda: {"images": digits() - 0.5}, r"images has values from -0\.4.*undo the normalisation"),
    "NaN image": (lambda: {"images": with_nan(digits())}, r"images has 1 values that are NaN.*\(0, 0, 0, 5\)"),
    "words": (lambda: {"images": [["a"]]}, r"images holds <U1 values"),
    "one head": (lambda: {"attention": softmax_attention()[0, 0, 0]}, r"shape \(17, 17\).*attention\[None, None\]"),
    "one image's": (lambda: {"attention": softmax_attention()[0]}, r"attention is for 1 images, but images holds 3"),
    "fewer images": (lambda: {"attention": softmax_attention()[:2]}, r"attention is for 2 images, but images holds 3"),
    "not square": (lambda: {"attention": softmax_attention()[..., :-1]}, r"17 queries but 16 keys"),
    "tokens": (lambda: {"attention": softmax_attention(19)}, r"19 tokens.*1, 4, 16, 49, 196, 784"),
    "tokens for patch_size": (lambda: {"patch_size": 4}, r"17 tokens.*49 patches of 4 × 4.*49 or.*50"),
    "patch_size": (lambda: {"patch_size": 5}, r"patch_size=5 does not divide images of 28 × 28"),
    "patch_size 0": (lambda: {"patch_size": 0}, r"patch_size=0; it must be a whole number of pixels"),
    "NaN": (lambda: {"attention": with_nan(softmax_attention())}, r"attention\[0\] has 1 values that are NaN.*0, 0, 5"),
    "scores": (lambda: {"attention": softmax_attention().log()}, r"attention has values from -.*after the softmax"),
    "transposed": (
        lambda: {"attention": softmax_attention().transpose(-1, -2)},
        r"sums to .* must sum to 1 .*the columns do: transpose",
    ),
    "rows": (lambda: {"attention": softmax_attention() * 0.998}, r"\(sample, layer, head, query\) sums to 0\.998"),
    "labels": (lambda: {"labels": [1, 2]}, r"labels has shape \(2,\); it must be \(3,\)"),
    "float labels": (lambda: {"labels": [1.0, 2.0, 3.0]}, r"labels holds float64 values"),
    "predictions": (lambda: {"predictions": torch.zeros(3)}, r"predictions has shape \(3,\)"),
    "logits": (lambda: {"predictions": torch.randn(3, 10)}, r"probabilities: logits\.softmax"),
    "sample": (lambda: {"sample": 3}, r"sample=3 does not exist; there are 3: 0 to 2"),
    "layer": (lambda: {"layer": -3}, r"layer=-3 does not exist; there are 2"),
    "head": (lambda: {"head": 1.5}, r"head=1\.5 is not an index"),
    "query": (lambda: {"query": 16}, r"query=16 does not exist; there are 16"),
    "query word": (lambda: {"query": "cls"}, r'query="cls" is not a token.*"\[class\]"'),
    "no class token": (
        lambda: {"attention": softmax_attention(PATCHES), "query": "[class]"},
        r"no \[class\] token: its 16 tokens are the patches",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_named_with_what_they_are_and_what_is_right(case):
    changes, sentence = REFUSED[case]
    arguments = {"images": digits(), "attention": softmax_attention()} | changes()
    with pytest.raises(ValueError, match=sentence):
        of_patches(**arguments)


REFUSED_WORDS = {
    "nothing": (lambda: {"tokens": None}, r"give tokens=.* or images=.*; got neither"),
    "both": (lambda: {"images": digits()}, r"give tokens=.* or images=.*; got both"),
    "a string": (lambda: {"tokens": "the cat"}, r"tokens is one string, 'the cat'; .*\['the', 'cat'\]"),
    "too few lists": (lambda: {"tokens": WORDS[:2]}, r"attention is for 3 sequences; tokens must be a list of 3 lists"),
    "too many words": (lambda: {"tokens": [*WORDS[:2], list("abcde")]}, r"tokens\[2\] has 5 words.* 4 queries"),
    "too few words": (lambda: {"tokens": [WORDS[0]] * 3}, r"tokens has at most 3 words, but attention has 4 queries"),
    "no words": (lambda: {"tokens": [*WORDS[:2], []]}, r"tokens\[2\] has 0 words"),
    "numbers": (lambda: {"tokens": [*WORDS[:2], [1, 2]]}, r"tokens\[2\] holds something else than strings"),
    "other keys": (lambda: {"attention": WEIGHTS[..., :1]}, r"4 queries but 1 keys.*give source_tokens"),
    "padding": (
        lambda: {"attention": SCORES.softmax(-1)},
        r"row \(0, \d, \d, \d\) \(sample, layer, head, query\) sums to 0",
    ),
    "labels": (lambda: {"labels": [1, 2, 3]}, r"labels goes with images"),
    "control": (lambda: {"scores": SCORES}, r"mask is missing: scores and mask go together"),
    "scores' shape": (lambda: {"scores": SCORES[:, :1], "mask": MASK}, r"scores has shape \(3, 1, 4, 4, 4\)"),
    "masked scores": (
        lambda: {"scores": SCORES.masked_fill(~MASK, float("-inf")), "mask": MASK},
        r"scores\[0\] has \d+ values that are NaN or infinite",
    ),
    "unscaled scores": (lambda: {"scores": 2 * SCORES, "mask": MASK}, r"scores and mask do not make attention: at \("),
    "mask the other way round": (lambda: {"scores": SCORES, "mask": ~MASK}, r"mask leaves query 2 of sample 0 no key"),
    "mask of numbers": (lambda: {"scores": SCORES, "mask": MASK.int()}, r"mask holds int32 values; it must be bool"),
    "mask's shape": (lambda: {"scores": SCORES, "mask": MASK[:3]}, r"mask has shape \(3, 4\); it must broadcast to"),
    "query": (lambda: {"query": "[class]"}, r"no \[class\] token: its tokens are words"),
}


@pytest.mark.parametrize("case", REFUSED_WORDS)
def test_wrong_words_scores_and_masks_are_named(case):
    changes, sentence = REFUSED_WORDS[case]
    arguments = {"attention": WEIGHTS, "tokens": WORDS} | changes()
    with pytest.raises(ValueError, match=sentence):
        AttentionExplorer(**arguments)


def test_rows_may_miss_one_by_a_thousandth():
    of_patches(digits(), softmax_attention() * 0.9995)
    of_patches(digits(), softmax_attention().half())


def test_too_much_for_a_notebook_is_refused_before_it_is_copied():
    huge = np.broadcast_to(np.float32(1 / 197), (16, 12, 12, 197, 197))  # no memory behind it
    with pytest.raises(ValueError, match=r"171 MB .* at most 32 MB: show 3 at a time"):
        of_patches(np.zeros((16, 224, 224)), huge)


def test_it_says_what_it_is_where_no_browser_shows_it():
    widget = of_patches(digits(), softmax_attention())
    assert repr(widget) == "AttentionExplorer(3 images, 2 layers, 4 heads, 4 × 4 patches + [class])"


# ---------------------------------------------------------------- models of transformers


def huggingface(kind: str):
    """A small model of `transformers` with random weights and its tokenizer; nothing is fetched."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    names = ["<pad>", "</s>", "<unk>", *"abcdefgh"]
    text = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    text.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=text, unk_token="<unk>", eos_token="</s>")
    size = {"vocab_size": len(names), "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 3}
    torch.manual_seed(0)
    if kind == "encoder":
        return transformers.BertModel(transformers.BertConfig(**size, intermediate_size=8)), tokenizer
    if kind == "decoder":
        config = transformers.GPT2Config(
            vocab_size=len(names), n_embd=8, n_head=2, n_layer=3, bos_token_id=1, eos_token_id=1
        )
        return transformers.GPT2LMHeadModel(config), tokenizer
    config = transformers.T5Config(
        vocab_size=len(names), d_model=8, d_kv=4, d_ff=8, num_heads=2, num_layers=3, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config), tokenizer


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_one_stack_of_transformers_is_shown(kind):
    model, tokenizer = huggingface(kind)
    before = model.config._attn_implementation
    model.train()
    widget = AttentionExplorer.from_huggingface(model, tokenizer, ["a b c d", "e f"])
    assert model.training
    assert model.config._attn_implementation == before
    assert widget._facts["queries"] == [list("abcd"), list("ef")]
    assert (widget._n_layers, widget._n_heads, widget._sizes) == (3, 2, [(4, 4), (2, 2)])
    upper = np.triu(widget._weights[0][0, 0], 1)
    assert (upper == 0).all() == (kind == "decoder")
    with pytest.raises(ValueError, match="are for encoder-decoders"):
        AttentionExplorer.from_huggingface(model, tokenizer, "a", part="cross")


@pytest.mark.parametrize(("part", "size"), [("encoder", (3, 3)), ("decoder", (3, 3)), (None, (3, 3))])
def test_an_encoder_decoder_of_transformers_is_shown(part, size):
    model, tokenizer = huggingface("both")
    widget = AttentionExplorer.from_huggingface(model, tokenizer, "a b c", part, target="d e")
    assert widget._sizes == [size]
    assert widget._facts["queries"] == [list("abc") if part == "encoder" else ["<pad>", "d", "e"]]
    assert widget._facts["keys"] == [["<pad>", "d", "e"] if part == "decoder" else list("abc")]
    written = AttentionExplorer.from_huggingface(model, tokenizer, "a b c")
    assert written._facts["queries"][0][0] == "<pad>"
