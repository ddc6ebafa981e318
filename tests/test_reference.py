"""The reference against torch's own layers in float64, values and gradients, and the properties the course teaches."""

import inspect
import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headroom import reference as ref
from tests.peers import assert_same, block_pairs, float64, leaf, quick, seeds, shake, torch_attention, torch_block  # noqa: F401

FOLDER = Path(ref.__file__).parent


# Attention

MASKS = {
    "none": None,
    "causal": ref.causal_mask(5),
    "padding": ref.padding_mask(torch.tensor([5, 2]), 5),
    "both": ref.causal_mask(5) & ref.padding_mask(torch.tensor([5, 2]), 5),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attention_equals_torchs(mask):
    q, k, v = leaf(2, 3, 5, 4), leaf(2, 3, 5, 4), leaf(2, 3, 5, 7)
    output, weights = ref.scaled_dot_product_attention(q, k, v, mask)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert_same(output, expected, [(x, x) for x in (q, k, v)])
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    if mask is not None:
        assert (weights.masked_select(~mask) == 0).all()


def test_attention_of_other_queries_than_keys_equals_torchs():
    q, k, v = leaf(2, 3, 6, 4), leaf(2, 3, 5, 4), leaf(2, 3, 5, 7)
    mask = torch.rand(2, 1, 6, 5) < 0.6
    mask[..., 0] = True
    output, weights = ref.scaled_dot_product_attention(q, k, v, mask)
    assert weights.shape == (2, 3, 6, 5)
    assert_same(output, F.scaled_dot_product_attention(q, k, v, attn_mask=mask), [(x, x) for x in (q, k, v)])


def test_a_query_that_may_attend_to_nothing_gets_nan():
    mask = torch.tensor([[True, True], [False, False]])
    output, _ = ref.scaled_dot_product_attention(torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3), mask)
    assert output[0].isfinite().all()
    assert output[1].isnan().all()


def test_huge_scores_stay_finite():
    q = 1e4 * torch.randn(2, 3, 4)
    output, weights = ref.scaled_dot_product_attention(q, q, q)
    assert output.isfinite().all() and weights.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_mask_that_is_not_bool_is_refused(dtype):
    q = torch.randn(2, 3, 5, 4)
    with pytest.raises(TypeError, match=rf"mask has dtype {dtype}; it must be torch.bool, with True = may attend"):
        ref.scaled_dot_product_attention(q, q, q, torch.ones(5, 5, dtype=dtype))


@pytest.mark.parametrize("shape", [(4, 5), (5, 4), (3, 1, 5, 5), (1, 2, 3, 5, 5)])
def test_a_mask_that_does_not_broadcast_is_refused(shape):
    q = torch.randn(2, 3, 5, 4)
    with pytest.raises(ValueError, match=r"does not broadcast to the scores' \(2, 3, 5, 5\)") as caught:
        ref.scaled_dot_product_attention(q, q, q, torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(caught.value)


def test_dropout_spares_the_maps_and_keeps_the_mean():
    q, v = torch.randn(4, 6), torch.randn(4, 3)
    clean, weights = ref.scaled_dot_product_attention(q, q, v)
    attend = ref.Attention(dropout=0.3)
    with ref.attention_maps(attend) as maps:
        dropped = attend(*(x.expand(4000, -1, -1) for x in (q, q, v)))
    torch.testing.assert_close(maps["attention"][0, 0], weights)
    assert not torch.allclose(dropped[0], clean)
    torch.testing.assert_close(dropped.mean(0), clean, rtol=0, atol=0.06)


# Masks


def test_masks_say_true_for_may_attend():
    assert ref.causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    mask = ref.padding_mask(torch.tensor([1, 3]), 3)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, False, False], [True, True, True]]


def test_lengths_are_whole_numbers():
    with pytest.raises(TypeError, match=r"lengths has dtype torch.float64; it must hold integers"):
        ref.padding_mask(torch.tensor([2.5]), 4)


@pytest.mark.parametrize(("n_keys", "finite"), [(4, False), (40, True)])
def test_what_flows_back_where_a_query_sees_nothing(n_keys, finite):
    """As the docstring says, for the values; queries and keys behind the mask get nothing either way."""
    q, k, v = leaf(1, 2, 3), leaf(1, n_keys, 3), leaf(1, n_keys, 3)
    mask = torch.tensor([[False], [True]]).expand(2, n_keys)
    output = ref.Attention()(q, k, v, mask)
    assert output[0, 0].isnan().all() and output[0, 1].isfinite().all()
    output[0, 1].sum().backward()
    assert v.grad.isfinite().all() == finite
    assert q.grad.isfinite().all() and k.grad.isfinite().all()


# Multi-head self-attention


@pytest.mark.parametrize("name", MASKS)
def test_multi_head_attention_equals_torchs(name):
    mask = MASKS[name]
    ours = shake(ref.MultiHeadSelfAttention(d_model=12, n_heads=3))
    theirs = torch_attention(ours)
    x = leaf(2, 5, 12)
    hidden = None if mask is None else (~mask).expand(2, 3, 5, 5).reshape(6, 5, 5)  # torch hides where True
    with ref.attention_maps(ours) as maps:
        out = ours(x, mask)
    weights = maps["attention"][:, 0]  # of one layer
    expected, expected_weights = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(weights, expected_weights)
    assert_same(
        out, expected, [(x, x), (ours.w_o.weight, theirs.out_proj.weight), (ours.w_o.bias, theirs.out_proj.bias)]
    )

    direction = torch.randn_like(out)
    ours(x, mask).backward(direction)
    theirs(x, x, x, attn_mask=hidden)[0].backward(direction)
    maps = (ours.w_q, ours.w_k, ours.w_v)
    torch.testing.assert_close(torch.cat([m.weight.grad for m in maps]), theirs.in_proj_weight.grad)
    torch.testing.assert_close(torch.cat([m.bias.grad for m in maps]), theirs.in_proj_bias.grad)


def test_splitting_into_heads_is_undone_by_merging():
    attention = ref.MultiHeadSelfAttention(d_model=12, n_heads=3)
    x = torch.randn(2, 5, 12)
    heads = attention.split_heads(x)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[..., 4:8])
    assert torch.equal(attention.merge_heads(heads), x)


def test_a_width_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="d_model=512 does not divide into n_heads=6 equal heads"):
        ref.MultiHeadSelfAttention(512, 6)


def test_attention_dropout_acts_only_while_training():
    attention = ref.MultiHeadSelfAttention(12, 3, dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


@quick
@given(seed=seeds, n_tokens=st.integers(1, 7), n_heads=st.integers(1, 4))
def test_permuting_the_tokens_permutes_the_output(seed, n_tokens, n_heads):
    torch.manual_seed(seed)
    attention = ref.MultiHeadSelfAttention(4 * n_heads, n_heads)
    x = torch.randn(2, n_tokens, 4 * n_heads)
    order = torch.randperm(n_tokens)
    torch.testing.assert_close(attention(x[:, order]), attention(x)[:, order])


@quick
@given(seed=seeds, n_tokens=st.integers(2, 7), data=st.data())
def test_under_a_causal_mask_the_future_changes_nothing(seed, n_tokens, data):
    now = data.draw(st.integers(1, n_tokens - 1))
    torch.manual_seed(seed)
    encoder = ref.Encoder(n_layers=2, d_model=8, n_heads=2, d_ff=6)
    x = torch.randn(2, n_tokens, 8)
    other = x.clone()
    other[:, now:] = torch.randn(2, n_tokens - now, 8)
    before = encoder(x, ref.causal_mask(n_tokens))
    after = encoder(other, ref.causal_mask(n_tokens))
    torch.testing.assert_close(after[:, :now], before[:, :now])
    assert not torch.allclose(after[:, now:], before[:, now:])


@quick
@given(seed=seeds, length=st.integers(1, 5), padding=st.integers(1, 4))
def test_padding_changes_nothing_for_the_real_tokens(seed, length, padding):
    torch.manual_seed(seed)
    encoder = ref.Encoder(n_layers=2, d_model=8, n_heads=2, d_ff=6)
    x = torch.randn(1, length, 8)
    padded = torch.cat([x, 10 * torch.randn(1, padding, 8)], dim=1)
    expected = encoder(x)
    got = encoder(padded, ref.padding_mask(torch.tensor([length]), length + padding))
    torch.testing.assert_close(got[:, :length], expected)


# Positions


@pytest.mark.parametrize("d_model", [1, 2, 7, 8])
def test_sinusoidal_encoding_equals_the_formula_entry_by_entry(d_model):
    table = ref.sinusoidal_encoding(11, d_model)
    assert table.shape == (11, d_model)
    for p in range(11):
        for column in range(d_model):
            i = column // 2
            angle = p / 10000 ** (2 * i / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[p, column].item() == pytest.approx(expected, abs=1e-12), (p, column)


@quick
@given(shift=st.integers(0, 50), half=st.integers(1, 8))
def test_a_shift_of_position_is_a_rotation(shift, half):
    d_model = 2 * half
    table = ref.sinusoidal_encoding(20 + shift, d_model)
    omega = 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    cos, sin = (shift * omega).cos(), (shift * omega).sin()
    sines, cosines = table[:20, 0::2], table[:20, 1::2]
    torch.testing.assert_close(table[shift:, 0::2], sines * cos + cosines * sin, rtol=0, atol=1e-10)
    torch.testing.assert_close(table[shift:, 1::2], cosines * cos - sines * sin, rtol=0, atol=1e-10)


def test_sinusoidal_encoding_follows_the_default_dtype():
    torch.set_default_dtype(torch.float32)
    assert ref.sinusoidal_encoding(3, 4).dtype == torch.float32


def test_positional_encoding_adds_its_table_and_trains_nothing():
    encoding = ref.PositionalEncoding(d_model=6, max_tokens=9)
    x = torch.randn(2, 4, 6)
    torch.testing.assert_close(encoding(x), x + ref.sinusoidal_encoding(4, 6))
    assert not list(encoding.parameters())
    assert encoding.to(torch.float32).table.dtype == torch.float32, "the table moves with the module"


def test_learned_positional_encoding_trains_the_positions_it_used():
    encoding = ref.LearnedPositionalEncoding(d_model=6, max_tokens=9)
    x = torch.randn(2, 4, 6)
    torch.testing.assert_close(encoding(x), x + encoding.table[:4])
    encoding(x).sum().backward()
    assert torch.equal(encoding.table.grad.ne(0).any(1), torch.arange(9) < 4)


def test_learned_positions_start_small_beside_the_tokens():
    """Dosovitskiy et al.'s released code draws them with a standard deviation of 0.02."""
    table = ref.LearnedPositionalEncoding(d_model=64, max_tokens=64).table
    assert 0.018 < table.std().item() < 0.022


@pytest.mark.parametrize("kind", [ref.PositionalEncoding, ref.LearnedPositionalEncoding])
def test_a_sequence_beyond_the_last_position_is_refused(kind):
    encoding = kind(d_model=6, max_tokens=3)
    with pytest.raises(ValueError, match="x has 4 tokens, the table only max_tokens=3 positions"):
        encoding(torch.randn(2, 4, 6))


# LayerNorm


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_layer_norm_equals_torchs(shape, scale):
    ours, theirs = shake(ref.LayerNorm(7, eps=1e-3)), nn.LayerNorm(7, eps=1e-3)
    theirs.load_state_dict({"weight": ours.gamma, "bias": ours.beta})
    x = (scale * torch.randn(shape) + 5 * scale).requires_grad_()
    assert_same(ours(x), theirs(x), [(x, x), (ours.gamma, theirs.weight), (ours.beta, theirs.bias)])


def test_layer_norm_of_equal_features_is_beta():
    norm = shake(ref.LayerNorm(7))
    torch.testing.assert_close(norm(torch.full((2, 7), 3.0)), norm.beta.expand(2, 7))


# Encoder


@pytest.mark.parametrize("name", MASKS)
def test_encoder_block_equals_torchs(name):
    mask = MASKS[name]
    ours = shake(ref.EncoderBlock(d_model=12, n_heads=3, d_ff=17))
    theirs = torch_block(ours)
    x = leaf(2, 5, 12)
    hidden = None if mask is None else (~mask).expand(2, 3, 5, 5).reshape(6, 5, 5)
    out = ours(x, mask)
    assert_same(out, theirs(x, src_mask=hidden), [(x, x), *block_pairs(ours, theirs)])


def test_drop_path_keeps_the_mean_and_drops_whole_samples():
    drop = ref.DropPath(0.25)
    x = torch.ones(20_000, 2, 3)
    out = drop(x)
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    flat = out.flatten(1)
    assert (flat == flat[:, :1]).all(), "a sample is kept or dropped as a whole"
    assert set(flat[:, 0].unique().tolist()) == {0.0, 1 / 0.75}


def test_drop_path_is_the_identity_in_eval_mode():
    x = torch.randn(4, 2, 3)
    assert torch.equal(ref.DropPath(0.9).eval()(x), x)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_branch_cannot_always_be_skipped(rate):
    with pytest.raises(ValueError, match=f"drop_path={rate} must be at least 0 and less than 1"):
        ref.EncoderBlock(8, 2, 16, drop_path=rate)


def test_drop_path_grows_with_depth():
    encoder = ref.Encoder(n_layers=4, d_model=8, n_heads=2, d_ff=6, drop_path=0.2)
    assert [block.drop_path.rate for block in encoder.blocks] == pytest.approx([0.05, 0.1, 0.15, 0.2])


# What the files promise to their reader


def test_every_file_can_be_read_in_one_go():
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in FOLDER.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 150} == {}


@pytest.mark.parametrize("name", ref.__all__)
def test_every_public_name_says_where_it_comes_from_and_in_which_shapes(name):
    thing = getattr(ref, name)
    text = inspect.getdoc(thing)
    assert "Source: " in text
    with_forward = text + (inspect.getdoc(thing.forward) or "") if issubclass_of_module(thing) else text
    if "_schedule" not in name and name not in (
        "glorot",
        "paper_learning_rate",
    ):  # these have to do with no tensor's shape
        assert re.search(r"`\(.+\)`", with_forward), "no shape is named"


def issubclass_of_module(thing) -> bool:
    return inspect.isclass(thing) and issubclass(thing, nn.Module)
