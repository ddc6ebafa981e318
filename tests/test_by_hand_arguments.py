"""What the package by_hand refuses, by name."""

import numpy as np
import pytest
import torch

from headroom.reference import by_hand

INTEGERS, FLOATS = np.ones((2, 3, 3), dtype=np.int64), np.ones((2, 3, 3))
VECTOR = np.ones(3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda bad: by_hand.softmax(bad), "scores"),
        (lambda bad: by_hand.masked_softmax(bad, np.array([1, 2])), "scores"),
        (lambda bad: by_hand.softmax_backward(bad, FLOATS), "d_weights"),
        (lambda bad: by_hand.layer_norm(bad, VECTOR, VECTOR), "x"),
        (lambda bad: by_hand.layer_norm_backward(bad, FLOATS, VECTOR), "d_out"),
        (lambda bad: by_hand.linear(bad, np.eye(3), VECTOR), "x"),
        (lambda bad: by_hand.linear_backward(FLOATS, bad, np.eye(3)), "x"),
        (lambda bad: by_hand.embedding(np.array([1]), bad), "table"),
        (lambda bad: by_hand.gelu(bad), "x"),
        (lambda bad: by_hand.cross_entropy(bad, np.ones((2, 3), dtype=int)), "logits"),
        (lambda bad: by_hand.attention(FLOATS, bad, FLOATS), "k"),
        (lambda bad: by_hand.attention_backward(FLOATS, FLOATS, FLOATS, bad, FLOATS), "v"),
    ],
)
@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (INTEGERS, "{} has dtype int64; it must be floating, such as float64"),
        (torch.ones(2, 3, 3), "{} is a Tensor; it must be a NumPy array of floats"),
    ],
    ids=["integers", "tensor"],
)
def test_what_is_no_array_of_floats_is_refused_by_name(call, name, bad, sentence):
    with pytest.raises(TypeError, match=f"^{sentence.format(name)}"):
        call(bad)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: by_hand.softmax_backward(np.ones((1, 3)), np.ones((2, 3))), r"d_weights has shape \(1, 3\).*\(2, 3\)"),
        (lambda: by_hand.layer_norm(FLOATS, np.ones(1), VECTOR), r"gamma has shape \(1,\); it must be \(3,\)"),
        (lambda: by_hand.layer_norm(FLOATS, VECTOR, np.ones(4)), r"beta has shape \(4,\); it must be \(3,\)"),
        (lambda: by_hand.layer_norm_backward(VECTOR, FLOATS, VECTOR), r"d_out has shape \(3,\); .*\(2, 3, 3\)"),
        (lambda: by_hand.linear(FLOATS, np.ones((4, 2)), np.ones(4)), r"weight has shape \(4, 2\).* = \(4, 3\)"),
        (lambda: by_hand.linear_backward(FLOATS, FLOATS, np.ones((4, 3))), r"d_out has shape .*\(2, 3, 4\)"),
        (lambda: by_hand.gelu_backward(VECTOR, FLOATS), r"d_out has shape \(3,\); it must be \(2, 3, 3\)"),
        (lambda: by_hand.embedding(np.array([[0, 3]]), np.eye(3)), r"tokens\[0, 1\] is 3; with 3 rows .* 0 … 2"),
        (lambda: by_hand.embedding_backward(np.ones(3), np.array([0, 1]), np.eye(3)), r"d_out has shape \(3,\)"),
        (lambda: by_hand.attention(FLOATS, FLOATS[..., :2], FLOATS), r"q, k and v have shapes .*\(2, 3, 2\)"),
        (lambda: by_hand.attention(FLOATS, FLOATS[:, :2], FLOATS), r"q, k and v have shapes .*\(2, 2, 3\)"),
        (lambda: by_hand.attention(FLOATS[:1], FLOATS, FLOATS), r"q, k and v have shapes \(1, 3, 3\)"),
        (lambda: by_hand.attention_backward(VECTOR, FLOATS, FLOATS, FLOATS, FLOATS), r"d_out has shape \(3,\)"),
    ],
)
def test_shapes_that_numpy_would_stretch_are_refused_by_name(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
