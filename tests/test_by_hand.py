"""The NumPy encoder block against torch's autograd, and against central differences."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom import reference as ref
from headroom.reference import by_hand

quick = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)

# Sizes that all differ: what is transposed or summed along the wrong axis does not fit.
BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 4, 5, 6, 7
LENGTHS = {
    "none": None,
    "per sequence": np.array([5, 2]),
    "per query": np.array([[1, 2, 3, 4], [5, 1, 3, 2]]),
}
lengths = pytest.mark.parametrize("valid_lengths", LENGTHS.values(), ids=LENGTHS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def assert_close(got, want):
    want = want.detach().numpy() if isinstance(want, torch.Tensor) else want
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


def autograd(f, d_out, *arrays):
    """torch's result of f and the gradients of the arrays, when d_out is pulled back."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    out = f(*tensors)
    return out, torch.autograd.grad(out, tensors, torch.as_tensor(d_out))


def assert_central_differences(gradients, f, d_out, *arrays):
    """Each gradient is what wiggling its array, the others held, does to Σ d_out f(…)."""
    for number, gradient in enumerate(gradients):

        def f_of_one(x, number=number):
            return f(*arrays[:number], x, *arrays[number + 1 :])

        numerical = by_hand.numerical_gradient(f_of_one, arrays[number], d_out)
        np.testing.assert_allclose(gradient, numerical, rtol=1e-7, atol=1e-7, err_msg=f"argument {number}")


def loop_mask(valid_lengths, shape):
    """Which keys count, written as one would say it: a loop over sequences and queries."""
    batch, _, n_queries, _ = shape
    mask = torch.ones(shape, dtype=torch.bool)
    if valid_lengths is not None:
        for b in range(batch):
            for i in range(n_queries):
                length = valid_lengths[b] if valid_lengths.ndim == 1 else valid_lengths[b, i]
                mask[b, :, i, length:] = False
    return mask


# Central differences


def test_the_numerical_gradient_is_the_derivative(rng):
    x, d_out = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    np.testing.assert_allclose(by_hand.numerical_gradient(np.sin, x, d_out), d_out * np.cos(x), atol=1e-9)
    np.testing.assert_allclose(by_hand.numerical_gradient(lambda x: (x**2).sum(), x), 2 * x, atol=1e-9)


def test_the_numerical_gradient_leaves_its_input_alone_and_sees_a_wrong_backward(rng):
    x, d_out = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    before = x.copy()
    numerical = by_hand.numerical_gradient(by_hand.softmax, x, d_out)
    assert np.array_equal(x, before)
    weights = by_hand.softmax(x)
    forgot_the_others = weights * (1 - weights) * d_out
    assert np.abs(numerical - forgot_the_others).max() > 0.01


def test_the_numerical_gradient_refuses_integers():
    with pytest.raises(TypeError, match="x has dtype int64; it must be floating"):
        by_hand.numerical_gradient(np.sin, np.arange(3, dtype=np.int64))


# Softmax


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_softmax_equals_torchs(rng, scale):
    scores, d_weights = scale * rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    weights = by_hand.softmax(scores)
    want, (d_scores,) = autograd(lambda s: s.softmax(-1), d_weights, scores)
    assert_close(weights, want)
    assert_close(by_hand.softmax_backward(d_weights, weights), d_scores)


@lengths
def test_masked_softmax_equals_torchs(rng, valid_lengths):
    shape = (BATCH, HEADS, QUERIES, KEYS)
    scores, d_weights = rng.normal(size=shape), rng.normal(size=shape)
    mask = loop_mask(valid_lengths, shape)
    weights = by_hand.masked_softmax(scores, valid_lengths)
    want, (d_scores,) = autograd(lambda s: s.masked_fill(~mask, -math.inf).softmax(-1), d_weights, scores)
    assert_close(weights, want)
    got = by_hand.softmax_backward(d_weights, weights)
    assert_close(got, d_scores)
    assert_central_differences([got], lambda s: by_hand.masked_softmax(s, valid_lengths), d_weights, scores)


@lengths
def test_masked_softmax_takes_scores_without_heads(rng, valid_lengths):
    scores = rng.normal(size=(BATCH, 1, QUERIES, KEYS))
    one_head = by_hand.masked_softmax(scores, valid_lengths)
    assert_close(by_hand.masked_softmax(scores[:, 0], valid_lengths), one_head[:, 0])


def test_valid_lengths_say_what_the_courses_masks_say():
    valid_lengths = np.array([3, 1])
    padding = ref.padding_mask(torch.tensor(valid_lengths), KEYS)
    assert np.array_equal(by_hand.valid_keys(valid_lengths, (2, 3, 4, KEYS)), padding.numpy())
    growing = np.arange(1, KEYS + 1)[None]  # query i sees i keys
    assert np.array_equal(by_hand.valid_keys(growing, (1, KEYS, KEYS))[0], ref.causal_mask(KEYS).numpy())


@quick
@given(seed=seeds, n_queries=st.integers(1, 4), n_keys=st.integers(1, 6), per_query=st.booleans())
def test_weights_sum_to_one_within_the_valid_length_and_are_zero_beyond(seed, n_queries, n_keys, per_query):
    rng = np.random.default_rng(seed)
    scores = 100 * rng.normal(size=(3, 2, n_queries, n_keys))
    valid_lengths = rng.integers(1, n_keys + 1, (3, n_queries) if per_query else 3)
    weights = by_hand.masked_softmax(scores, valid_lengths)
    mask = loop_mask(valid_lengths, scores.shape).numpy()
    assert (weights[~mask] == 0).all()
    assert (weights >= 0).all()
    np.testing.assert_allclose(np.where(mask, weights, 0).sum(-1), 1)


@quick
@given(seed=seeds, shift=st.floats(-1e3, 1e3))
def test_the_same_added_to_all_scores_changes_nothing_so_their_gradients_sum_to_zero(seed, shift):
    rng = np.random.default_rng(seed)
    scores, d_weights = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    weights = by_hand.softmax(scores)
    np.testing.assert_allclose(by_hand.softmax(scores + shift), weights, rtol=1e-9)
    np.testing.assert_allclose(by_hand.softmax_backward(d_weights, weights).sum(-1), 0, atol=1e-14)


@pytest.mark.parametrize(
    ("valid_lengths", "sentence"),
    [
        (np.array([5, 0]), r"valid_lengths\[1\] is 0; with n_keys=5 it must be 1 … 5"),
        (np.array([[1, 2, 3, 6], [1, 1, 1, 1]]), r"valid_lengths\[0, 3\] is 6; with n_keys=5 it must be 1 … 5"),
        (np.array([-1, 5]), r"valid_lengths\[0\] is -1; with n_keys=5 it must be 1 … 5"),
        (
            np.array([5, 2, 1]),
            r"valid_lengths has shape \(3,\).*\(batch,\) = \(2,\) or \(batch, n_queries\) = \(2, 4\)",
        ),
        (np.ones((4, 2), dtype=int), r"valid_lengths has shape \(4, 2\)"),
        (np.ones((2, 1), dtype=int), r"valid_lengths has shape \(2, 1\)"),
        (np.array(3), r"valid_lengths has shape \(\)"),
    ],
)
def test_valid_lengths_that_cannot_be_are_refused(rng, valid_lengths, sentence):
    with pytest.raises(ValueError, match=sentence):
        by_hand.masked_softmax(rng.normal(size=(BATCH, HEADS, QUERIES, KEYS)), valid_lengths)


@pytest.mark.parametrize("valid_lengths", [np.array([5.0, 2.0]), np.array([True, False]), [5, 2]])
def test_valid_lengths_that_are_no_integers_are_refused(rng, valid_lengths):
    with pytest.raises(TypeError, match="valid_lengths must be a NumPy array of integers, not"):
        by_hand.masked_softmax(rng.normal(size=(BATCH, HEADS, QUERIES, KEYS)), valid_lengths)


def test_valid_lengths_need_a_batch(rng):
    with pytest.raises(ValueError, match=r"scores have shape \(4, 5\); .* \(batch, ..., n_queries, n_keys\)"):
        by_hand.masked_softmax(rng.normal(size=(4, 5)), np.array([1, 2, 3, 4]))


# LayerNorm


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_layer_norm_equals_torchs(rng, shape, eps):
    x, d_out = 2 + 3 * rng.normal(size=shape), rng.normal(size=shape)
    gamma, beta = rng.normal(size=7), rng.normal(size=7)
    want, gradients = autograd(lambda x, g, b: F.layer_norm(x, (7,), g, b, eps), d_out, x, gamma, beta)
    assert_close(by_hand.layer_norm(x, gamma, beta, eps), want)
    got = by_hand.layer_norm_backward(d_out, x, gamma, eps)
    for ours, theirs in zip(got, gradients, strict=True):
        assert_close(ours, theirs)
    assert_central_differences(got, lambda *a: by_hand.layer_norm(*a, eps), d_out, x, gamma, beta)


@quick
@given(seed=seeds, d_model=st.integers(2, 9))
def test_layer_norms_gradient_neither_moves_nor_stretches(seed, d_model):
    rng = np.random.default_rng(seed)
    x, d_out = rng.normal(size=(4, d_model)), rng.normal(size=(4, d_model))
    normalized = by_hand.layer_norm(x, np.ones(d_model), np.zeros(d_model), eps=0.0)
    d_x, _, _ = by_hand.layer_norm_backward(d_out, x, rng.normal(size=d_model), eps=0.0)
    size = np.abs(d_x).max() + np.abs(1 / x.std(-1)).max()  # rounding grows as the features come close together
    np.testing.assert_allclose(d_x.sum(-1) / size, 0, atol=1e-11)
    np.testing.assert_allclose((d_x * normalized).sum(-1) / size, 0, atol=1e-11)


# Linear, embedding, GELU


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_linear_equals_torchs(rng, shape):
    x, weight, bias = rng.normal(size=shape), rng.normal(size=(5, 4)), rng.normal(size=5)
    d_out = rng.normal(size=(*shape[:-1], 5))
    want, gradients = autograd(F.linear, d_out, x, weight, bias)
    assert_close(by_hand.linear(x, weight, bias), want)
    got = by_hand.linear_backward(d_out, x, weight)
    for ours, theirs in zip(got, gradients, strict=True):
        assert_close(ours, theirs)
    assert_central_differences(got, by_hand.linear, d_out, x, weight, bias)


def test_embedding_equals_torchs_and_counts_a_token_as_often_as_it_occurs(rng):
    tokens, table = np.array([[0, 2, 2], [3, 2, 0]]), rng.normal(size=(5, 4))
    d_out = rng.normal(size=(2, 3, 4))
    want, (d_table,) = autograd(lambda t: F.embedding(torch.tensor(tokens), t), d_out, table)
    assert_close(by_hand.embedding(tokens, table), want)
    got = by_hand.embedding_backward(d_out, tokens, table)
    assert_close(got, d_table)
    assert_central_differences([got], lambda t: by_hand.embedding(tokens, t), d_out, table)


def test_gelu_equals_torchs_exact_one(rng):
    x = np.concatenate([rng.normal(size=20), [-40.0, -6.0, -1e-9, 0.0, 1e-9, 6.0, 40.0]]).reshape(3, 9)
    d_out = rng.normal(size=x.shape)
    want, (d_x,) = autograd(F.gelu, d_out, x)
    assert_close(by_hand.gelu(x), want)
    got = by_hand.gelu_backward(d_out, x)
    assert_close(got, d_x)
    assert_central_differences([got], by_hand.gelu, d_out, x)


# Cross-entropy


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_cross_entropy_equals_torchs(rng, shape, scale):
    logits, targets = scale * rng.normal(size=(*shape, 5)), rng.integers(0, 5, shape)
    flat = torch.tensor(targets).flatten()
    want, (d_logits,) = autograd(lambda z: F.cross_entropy(z.reshape(-1, 5), flat), 1.0, logits)
    assert_close(by_hand.cross_entropy(logits, targets), want)
    got = by_hand.cross_entropy_backward(logits, targets)
    assert_close(got, d_logits)
    assert_central_differences([got], lambda z: by_hand.cross_entropy(z, targets), 1.0, logits)


@pytest.mark.parametrize("function", [by_hand.cross_entropy, by_hand.cross_entropy_backward])
def test_targets_that_cannot_be_are_refused(rng, function):
    logits = rng.normal(size=(3, 5))
    with pytest.raises(ValueError, match=r"targets\[1\] is 5; with n_classes=5 it must be 0 … 4"):
        function(logits, np.array([0, 5, 1]))
    with pytest.raises(ValueError, match=r"targets\[2\] is -1; with n_classes=5 it must be 0 … 4"):
        function(logits, np.array([0, 4, -1]))
    with pytest.raises(ValueError, match=r"targets has shape \(2,\); it must be \(3,\)"):
        function(logits, np.array([0, 1]))
    with pytest.raises(ValueError, match="the mean over no target is undefined"):
        function(logits[:0], np.array([], dtype=int))
    with pytest.raises(TypeError, match="targets must be a NumPy array of integers, not float64"):
        function(logits, np.array([0.0, 1.0, 2.0]))


# Attention


@lengths
def test_attention_equals_torchs(rng, valid_lengths):
    q = rng.normal(size=(BATCH, HEADS, QUERIES, D_HEAD))
    k = rng.normal(size=(BATCH, HEADS, KEYS, D_HEAD))
    v = rng.normal(size=(BATCH, HEADS, KEYS, D_VALUE))
    d_out = rng.normal(size=(BATCH, HEADS, QUERIES, D_VALUE))
    mask = loop_mask(valid_lengths, (BATCH, HEADS, QUERIES, KEYS))
    out, weights = by_hand.attention(q, k, v, valid_lengths)
    want, gradients = autograd(lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=mask), d_out, q, k, v)
    assert_close(out, want)
    _, want_weights = ref.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), mask)
    assert_close(weights, want_weights)
    got = by_hand.attention_backward(d_out, q, k, v, weights)
    for ours, theirs in zip(got, gradients, strict=True):
        assert_close(ours, theirs)
    assert_central_differences(got, lambda *qkv: by_hand.attention(*qkv, valid_lengths)[0], d_out, q, k, v)


def test_splitting_into_heads_is_undone_by_merging_and_equals_the_references(rng):
    x = rng.normal(size=(2, 5, 12))
    heads = by_hand.split_heads(x, n_heads=3)
    assert_close(heads, ref.MultiHeadSelfAttention(12, 3).split_heads(torch.tensor(x)))
    assert np.array_equal(by_hand.merge_heads(heads), x)
    for n_heads in (5, 0):
        with pytest.raises(ValueError, match=f"d_model=12 does not divide into n_heads={n_heads} equal heads"):
            by_hand.split_heads(x, n_heads)


# Layers, against the same layers of headroom.reference

D_MODEL, N_HEADS, D_FF, TOKENS = 6, 3, 7, 5
LAYERS = {
    "multi-head self-attention": (
        lambda: ref.MultiHeadSelfAttention(D_MODEL, N_HEADS),
        lambda p, x, n: by_hand.multi_head_self_attention(p, x, N_HEADS, n),
        by_hand.multi_head_self_attention_backward,
    ),
    "feed-forward": (
        lambda: ref.FeedForward(D_MODEL, D_FF),
        lambda p, x, n: by_hand.feed_forward(p, x),
        by_hand.feed_forward_backward,
    ),
    "encoder block": (
        lambda: ref.EncoderBlock(D_MODEL, N_HEADS, D_FF),
        lambda p, x, n: by_hand.encoder_block(p, x, N_HEADS, n),
        by_hand.encoder_block_backward,
    ),
}
TOKEN_LENGTHS = {
    "none": None,
    "per sequence": np.array([5, 2]),
    "per query": np.array([[1, 2, 3, 4, 5], [5, 1, 3, 2, 4]]),
}


def shaken(make):
    """A module in float64, every parameter away from its initial value, and the same parameters as arrays."""
    torch.manual_seed(0)
    module = make().double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module, {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("valid_lengths", TOKEN_LENGTHS.values(), ids=TOKEN_LENGTHS)
def test_layers_equal_the_references(rng, layer, valid_lengths):
    make, forward, backward = LAYERS[layer]
    module, parameters = shaken(make)
    x, d_out = rng.normal(size=(2, 2, TOKENS, D_MODEL))
    mask = loop_mask(valid_lengths, (2, N_HEADS, TOKENS, TOKENS))

    their_x = torch.tensor(x, requires_grad=True)
    want = module(their_x) if layer == "feed-forward" else module(their_x, mask)
    want = want[0] if isinstance(want, tuple) else want
    want.backward(torch.tensor(d_out))

    out, saved = forward(parameters, x, valid_lengths)
    assert_close(out, want)
    d_x, gradients = backward(d_out, parameters, saved)
    assert_close(d_x, their_x.grad)
    assert gradients.keys() == parameters.keys()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(gradients[name], parameter.grad.numpy(), rtol=1e-10, atol=1e-10, err_msg=name)

    assert_central_differences([d_x], lambda x: forward(parameters, x, valid_lengths)[0], d_out, x)
    for name in parameters:
        numerical = by_hand.numerical_gradient(
            lambda array, name=name: forward(parameters | {name: array}, x, valid_lengths)[0], parameters[name], d_out
        )
        np.testing.assert_allclose(gradients[name], numerical, rtol=1e-6, atol=1e-7, err_msg=name)


def test_the_block_leaves_what_it_is_given_alone(rng):
    _, parameters = shaken(LAYERS["encoder block"][0])
    x, d_out = rng.normal(size=(2, 2, TOKENS, D_MODEL))
    before = {name: array.copy() for name, array in parameters.items()}, x.copy(), d_out.copy()
    _, saved = by_hand.encoder_block(parameters, x, N_HEADS)
    first, _ = by_hand.encoder_block_backward(d_out, parameters, saved)
    again, _ = by_hand.encoder_block_backward(d_out, parameters, saved)
    assert np.array_equal(first, again)
    assert np.array_equal(x, before[1]) and np.array_equal(d_out, before[2])
    assert all(np.array_equal(parameters[name], before[0][name]) for name in parameters)


def test_new_parameters_are_those_of_the_references_block(rng):
    ours = by_hand.encoder_block_parameters(D_MODEL, D_FF, rng)
    theirs = ref.EncoderBlock(D_MODEL, N_HEADS, D_FF).state_dict()
    assert {n: a.shape for n, a in ours.items()} == {n: tuple(t.shape) for n, t in theirs.items()}
    assert len({id(array) for array in ours.values()}) == len(ours), "no array serves twice"


@quick
@given(seed=seeds, length=st.integers(1, 5), padding=st.integers(1, 4))
def test_padding_changes_neither_the_real_tokens_nor_any_gradient(seed, length, padding):
    rng = np.random.default_rng(seed)
    parameters = by_hand.encoder_block_parameters(D_MODEL, D_FF, rng)
    x, d_out = rng.normal(size=(2, 1, length, D_MODEL))
    padded = np.concatenate([x, 10 * rng.normal(size=(1, padding, D_MODEL))], axis=1)
    padded_d_out = np.concatenate([d_out, np.zeros((1, padding, D_MODEL))], axis=1)  # nobody asks for the padding

    out, saved = by_hand.encoder_block(parameters, x, N_HEADS)
    d_x, gradients = by_hand.encoder_block_backward(d_out, parameters, saved)
    padded_out, saved = by_hand.encoder_block(parameters, padded, N_HEADS, np.array([length]))
    padded_d_x, padded_gradients = by_hand.encoder_block_backward(padded_d_out, parameters, saved)

    np.testing.assert_allclose(padded_out[:, :length], out, atol=1e-12)
    np.testing.assert_allclose(padded_d_x[:, :length], d_x, atol=1e-10)
    np.testing.assert_allclose(padded_d_x[:, length:], 0, atol=1e-12)
    for name in gradients:
        np.testing.assert_allclose(padded_gradients[name], gradients[name], atol=1e-10, err_msg=name)


# Adam


def test_adam_equals_torchs(rng):
    parameters = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    theirs = {name: torch.tensor(array, requires_grad=True) for name, array in parameters.items()}
    adam = by_hand.Adam(parameters, lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    torchs = torch.optim.Adam(theirs.values(), lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    for _ in range(5):
        gradients = {name: rng.normal(size=array.shape) for name, array in parameters.items()}
        adam.step(gradients)
        for name, tensor in theirs.items():
            tensor.grad = torch.tensor(gradients[name])
        torchs.step()
        for name, tensor in theirs.items():
            assert_close(parameters[name], tensor)


def test_adam_names_a_gradient_that_is_missing_or_misshapen():
    adam = by_hand.Adam({"a": np.zeros(3), "b": np.zeros(2)}, lr=0.1)
    with pytest.raises(ValueError, match="only one of them has: b"):
        adam.step({"a": np.zeros(3)})
    with pytest.raises(ValueError, match=r"gradients\['b'\] has shape \(1,\); it must be \(2,\)"):
        adam.step({"a": np.zeros(3), "b": np.zeros(1)})


def test_float32_stays_float32():
    x = np.ones((2, 3, 3), dtype=np.float32)
    out, weights = by_hand.attention(x, x, x, np.array([1, 2]))
    results = [out, weights, *by_hand.attention_backward(x, x, x, x, weights), by_hand.gelu(x)]
    results += by_hand.layer_norm_backward(x, x, x[0, 0])
    assert {array.dtype for array in results} == {np.dtype("float32")}


def test_the_package_computes_without_torch():
    for path in Path(by_hand.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                assert module.startswith("headroom.reference.by_hand") or not module.startswith(("torch", "headroom"))
