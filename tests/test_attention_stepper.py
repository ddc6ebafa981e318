"""AttentionStepper: its arithmetic, what it says of a student's tensors, and what is refused."""

import math

import numpy as np
import pytest
import torch
import traitlets

from headroom.pretrained import pretrained_transformer, pretrained_vit
from headroom.reference import (
    CrossAttention,
    MultiHeadSelfAttention,
    RotarySelfAttention,
    attention_maps,
    causal_mask,
    scaled_dot_product_attention,
)
from headroom.widgets import AttentionStepper

WORDS = ["the", "tired", "cat", "drank", "its", "milk"]
TOKENS, D_K, D_V = len(WORDS), 4, 3
MASK = causal_mask(TOKENS)


def projected(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(TOKENS, width, generator=generator) for width in (D_K, D_K, D_V))


Q, K, V = projected()
SCORES = Q @ K.T / math.sqrt(D_K)
MASKED = SCORES.masked_fill(~MASK, float("-inf"))
OUTPUT, WEIGHTS = scaled_dot_product_attention(Q, K, V, MASK)


def stepper(**arguments) -> AttentionStepper:
    return AttentionStepper(Q, K, V, **{"mask": MASK, "tokens": WORDS} | arguments)


# ---------------------------------------------------------------- the arithmetic


def test_every_step_is_that_of_the_reference():
    widget = stepper(query=3)
    for query in range(TOKENS):
        widget.query = query
        row = widget.row
        np.testing.assert_allclose(row.dots, (Q @ K.T)[query], atol=1e-6)
        np.testing.assert_allclose(row.scores, SCORES[query], atol=1e-6)
        np.testing.assert_allclose(row.masked, MASKED[query], atol=1e-6)
        np.testing.assert_allclose(row.weights, WEIGHTS[query], atol=1e-6)
        np.testing.assert_allclose(row.output, OUTPUT[query], atol=1e-6)


def test_the_readers_changes_change_what_follows():
    widget = stepper(query=5)
    widget.temperature = 2.0
    np.testing.assert_allclose(widget.row.weights, (SCORES[5] / 2).softmax(-1), atol=1e-6)
    widget.scaled = False
    np.testing.assert_allclose(widget.row.weights, (SCORES[5] * math.sqrt(D_K) / 2).softmax(-1), atol=1e-6)
    widget.temperature, widget.scaled = 1.0, True
    widget.flipped = [[5, 0], [2, 4]]
    hidden = SCORES[5].clone()
    hidden[0] = float("-inf")
    np.testing.assert_allclose(widget.row.weights, hidden.softmax(-1), atol=1e-6)
    widget.edited = [[5, 1, 3.5]]
    hidden[1] = 3.5
    np.testing.assert_allclose(widget.row.weights, hidden.softmax(-1), atol=1e-6)
    np.testing.assert_allclose(widget.row.output, hidden.softmax(-1) @ V, atol=1e-5)
    assert widget.selection.edited
    widget.query = 2
    assert widget.row.weights[4] > 0, "the reader showed this query a key that the mask hides"


def test_a_query_that_may_attend_to_nothing_gets_nan_and_no_warning(recwarn):
    widget = stepper(query=1)
    widget.flipped = [[1, 0], [1, 1]]
    assert np.isnan(widget.row.weights).all()
    assert np.isnan(widget.row.output).all()
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_other_forms_of_the_same_arguments_send_the_same():
    plain = stepper()
    for other in (
        AttentionStepper(Q.numpy(), K.tolist(), V.requires_grad_(), mask=MASK.numpy(), tokens=WORDS),
        AttentionStepper(Q, K, V, MASK[None, None], tokens=WORDS, source_tokens=None),
    ):
        assert np.allclose(np.frombuffer(other._numbers), np.frombuffer(plain._numbers), atol=1e-7)
        assert other._mask == plain._mask
    V.requires_grad_(False)


def test_it_sends_little_and_its_numbers_as_bytes():
    state = stepper(scores=SCORES, weights=WEIGHTS, output=OUTPUT).get_state()
    assert len(state["_numbers"]) == 8 * (Q.numel() + K.numel() + V.numel())
    assert len(state["_yours"]) == 8 * (SCORES.numel() + WEIGHTS.numel() + OUTPUT.numel())
    assert len(state["_mask"]) == MASK.numel()


# ---------------------------------------------------------------- a student's tensors


def said(**yours) -> list[str]:
    return [one["says"] for one in stepper(**yours)._facts["check"]]


def test_the_right_tensors_agree_masked_or_not():
    for scores in (SCORES, MASKED, SCORES.masked_fill(~MASK, -1e9)):
        widget = stepper(scores=scores, weights=WEIGHTS, output=OUTPUT)
        assert widget.differences == ()
        assert [one["ok"] for one in widget._facts["check"]] == [True] * 3


def test_the_first_difference_is_named_with_both_numbers_and_its_index():
    wrong = OUTPUT.clone()
    wrong[2, 1] += 0.5
    wrong[4, 0] -= 1
    (difference,) = stepper(weights=WEIGHTS, output=wrong).differences
    assert (difference.stage, difference.index) == ("output", (2, 1))
    assert difference.yours == pytest.approx(OUTPUT[2, 1].item() + 0.5, abs=1e-6)
    assert difference.right == pytest.approx(OUTPUT[2, 1].item(), abs=1e-6)
    assert "query 3 “cat”, entry 2 (output[2, 1] in Python)" in difference.says
    assert "2 of 18 numbers differ" in difference.says
    assert "look at the last step" in difference.says, "the weights agree"


UNSCALED = Q @ K.T
MISTAKES = {
    "not scaled": ({"scores": UNSCALED}, "2 times the right one, and √d_k = 2: the dot products are not divided"),
    "divided by d_k": ({"scores": UNSCALED / D_K}, "divided by √d_k twice"),
    "transposed": ({"scores": SCORES.T}, "transposed: queries are rows"),
    "columns": ({"weights": MASKED.nan_to_num(neginf=-1e9).softmax(0)}, "your columns do"),
    "scaled after the softmax": ({"weights": WEIGHTS / 2}, "divided by √d_k after the softmax"),
    "no mask": ({"weights": SCORES.softmax(-1)}, "to keys that the mask hides"),
    "nothing left": ({"weights": WEIGHTS * float("nan")}, "36 of yours are NaN"),
    "the mask lost": (
        {"scores": SCORES, "weights": SCORES.softmax(-1)},
        "Your scores agree, so look between them and the weights",
    ),
    "inherited weights": (
        {"scores": UNSCALED, "weights": UNSCALED.masked_fill(~MASK, float("-inf")).softmax(-1)},
        "the softmax of your masked scores: this step is right",
    ),
    "inherited output": (
        {"weights": SCORES.softmax(-1), "output": SCORES.softmax(-1) @ V},
        "your weights times V: this step is right",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_the_numbers_tell_of_a_mistake(name):
    yours, expected = MISTAKES[name]
    assert expected in " ".join(said(**yours))


def test_a_mistake_that_leaves_no_mark_is_not_called_anything():
    (says,) = said(scores=SCORES + torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1)))
    assert says.endswith("numbers differ.")


# ---------------------------------------------------------------- from a model


def test_from_model_takes_a_head_of_a_live_attention():
    attention = MultiHeadSelfAttention(d_model=12, n_heads=3, dropout=0.5)
    x = torch.randn(2, TOKENS, 12)
    widget = AttentionStepper.from_model(attention, x, MASK, head=-1, sample=1, tokens=WORDS, query=2)
    assert attention.training
    attention.eval()
    with attention_maps(attention) as maps:
        attention(x, MASK)
    np.testing.assert_allclose(widget.row.weights, maps["attention"][1, 0, 2, 2].detach(), atol=1e-6)
    assert widget._facts["given"] == ["weights", "output"], "what the module itself computed is compared"
    assert widget.differences == ()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in attention.modules())


def test_from_model_finds_out_a_module_that_scrambles_its_heads():
    class Scrambled(MultiHeadSelfAttention):
        def split_heads(self, x):
            return x.view(len(x), self.n_heads, x.size(1), -1)

    widget = AttentionStepper.from_model(Scrambled(12, 3), torch.randn(1, TOKENS, 12), tokens=WORDS)
    assert [one.stage for one in widget.differences] == ["weights", "output"]


def test_from_model_listens_within_a_whole_model():
    vit = pretrained_vit()
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    attention = vit.encoder.blocks[1].attention
    widget = AttentionStepper.from_model(vit, images, attention=attention, head=1, sample=1)
    with attention_maps(vit) as maps:
        vit(images)
    np.testing.assert_allclose(widget.row.weights, maps["encoder.blocks.attention"][1, 1, 1, 0].detach(), atol=1e-5)

    model = pretrained_transformer()
    source, target = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([[1, 4, 5]])
    widget = AttentionStepper.from_model(model, source, target, attention=model.decoder.blocks[0].self_attention)
    assert widget.differences == ()
    assert widget._mask == causal_mask(3).numpy().astype(np.uint8).tobytes(), "the mask that it was called with"
    cross = model.decoder.blocks[0].cross_attention
    widget = AttentionStepper.from_model(
        model, source, target, attention=cross, tokens=list("abc"), source_tokens=list("vwxyz")
    )
    assert (widget._facts["n_queries"], widget._facts["n_keys"]) == (3, 5)


def test_from_model_turns_by_rotary_positions():
    attention = RotarySelfAttention(8, 2)
    assert AttentionStepper.from_model(attention, torch.randn(1, 5, 8), head=1).differences == ()


def test_from_model_says_what_it_cannot_listen_to():
    with pytest.raises(TypeError, match="has no map w_q; from_model listens to w_q, w_k, w_v and w_o"):
        AttentionStepper.from_model(torch.nn.MultiheadAttention(8, 2), torch.randn(1, 5, 8))
    with pytest.raises(ValueError, match="CrossAttention does not use its w_q in this call"):
        outside = CrossAttention(8, 2)
        AttentionStepper.from_model(torch.nn.Linear(8, 8), torch.randn(1, 5, 8), attention=outside)


# ---------------------------------------------------------------- what is refused

WRONG = [
    ({"q": Q[None]}, r"q has shape \(1, 6, 4\); it must be \(n_queries, d_k\); pick one sample: q\[0\]"),
    ({"q": Q[0]}, r"q has shape \(4,\).*of one token: q\[None\]"),
    ({"k": K[:, :3]}, "queries of 4 numbers and keys of 3"),
    ({"v": V[:3]}, "every one of the 6 keys needs its value"),
    ({"q": torch.randn(21, D_K)}, r"q has 21 queries; at most 20 .* show some: q\[:20\]"),
    ({"k": torch.randn(21, D_K), "v": torch.randn(21, D_V)}, "k has 21 keys; .* another softmax"),
    ({"q": torch.randn(6, 17), "k": torch.randn(6, 17)}, "d_k=17; .* take a narrower head"),
    ({"v": torch.randn(6, 17)}, r"d_v=17; .* v\[:, :16\]"),
    ({"q": Q * float("nan")}, "q has 24 values that are NaN or infinite"),
    ({"mask": MASK.float()}, "mask holds float32 values; it must be bool, True = may attend"),
    ({"mask": MASK[:4]}, r"mask has shape \(4, 6\); it must broadcast to \(6, 6\)"),
    ({"mask": ~MASK}, "mask leaves query 5 no key"),
    ({"tokens": "the tired cat"}, "tokens is one string"),
    ({"tokens": WORDS[:5]}, "tokens has 5 words, but there are 6 queries"),
    ({"tokens": WORDS, "source_tokens": WORDS[:5]}, "source_tokens has 5 words, but there are 6 keys"),
    ({"tokens": list(range(6))}, "tokens holds something else than strings"),
    ({"k": K[:5], "v": V[:5], "mask": None}, "6 queries but 5 keys; the keys need words of their own"),
    ({"scores": SCORES[:5]}, r"scores has shape \(5, 6\); it must be \(n_queries, n_keys\) = \(6, 6\)"),
    ({"output": OUTPUT.T}, r"output has shape \(3, 6\).*transposed, it would fit"),
    ({"weights": [["a"]]}, "weights holds"),
    ({"query": 6}, "query=6 does not exist; there are 6: 0 to 5"),
    ({"step": "divide"}, "step='divide' must be one of 'compare', 'scale'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_bad_input_is_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        AttentionStepper(**{"q": Q, "k": K, "v": V, "mask": MASK, "tokens": WORDS} | arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("query", 6),
        ("key", 6),
        ("entry", D_K),
        ("step", "divide"),
        ("spot", "x"),
        ("temperature", 0.0),
        ("temperature", math.inf),
        ("flipped", [[0, 9]]),
        ("flipped", [3]),
        ("edited", [[0, 1]]),
        ("edited", [[0, 1, math.inf]]),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_and_undone(name, value):
    widget = stepper()
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError, match=name):
        setattr(widget, name, value)
    assert getattr(widget, name) == before


def test_the_browsers_choice_arrives():
    widget = stepper()
    widget.set_state({"query": 3, "step": "softmax", "spot": "weights", "key": 2, "locked": True, "temperature": 0.5})
    chosen = widget.selection
    assert (chosen.query, chosen.step, chosen.spot, chosen.key, chosen.entry) == (3, "softmax", "weights", 2, None)
    assert chosen.locked and chosen.edited
    with pytest.raises(AttributeError):
        chosen.query = 0
