"""The encoder block in NumPy, forward and backward, every derivative written out: backpropagation without autograd.

`d_x` is the gradient of the loss by `x`, and has x's shape; so d_q, d_k and d_v are gradients. Only d_model, d_head and
d_ff are widths, as everywhere in the course. Two conventions, and no third:

An operation is a function of arrays, and so is its backward. It takes the gradient of what the forward returned, then,
by the forward's names, the arrays that its formula needs: inputs, or results where that is what the derivative is made
of (the weights of a softmax). It returns the gradients of the forward's inputs, in their order.

    out = layer_norm(x, gamma, beta, eps)           d_x, d_gamma, d_beta = layer_norm_backward(d_out, x, gamma, eps)
    weights = softmax(scores)                       d_scores = softmax_backward(d_weights, weights)
    out, weights = attention(q, k, v, lengths)      d_q, d_k, d_v = attention_backward(d_out, q, k, v, weights)

A layer is several operations with their parameters, a flat dict of arrays. It returns, beside its result, what it
computed on the way; its backward takes that, and returns the parameters' gradients under the parameters' names.

    out, saved = encoder_block(parameters, x, n_heads, valid_lengths)
    d_x, gradients = encoder_block_backward(d_out, parameters, saved)

Every backward agrees with `numerical_gradient`, and with torch's autograd on the same layer of `headroom.reference`.
"""

from headroom.reference.by_hand.adam import Adam
from headroom.reference.by_hand.attention import attention, attention_backward
from headroom.reference.by_hand.check import numerical_gradient
from headroom.reference.by_hand.cross_entropy import cross_entropy, cross_entropy_backward
from headroom.reference.by_hand.embedding import embedding, embedding_backward
from headroom.reference.by_hand.encoder_block import encoder_block, encoder_block_backward, encoder_block_parameters
from headroom.reference.by_hand.feed_forward import feed_forward, feed_forward_backward
from headroom.reference.by_hand.gelu import gelu, gelu_backward
from headroom.reference.by_hand.layer_norm import layer_norm, layer_norm_backward
from headroom.reference.by_hand.linear import linear, linear_backward
from headroom.reference.by_hand.multi_head import (
    merge_heads,
    multi_head_self_attention,
    multi_head_self_attention_backward,
    split_heads,
)
from headroom.reference.by_hand.softmax import masked_softmax, softmax, softmax_backward, valid_keys
from headroom.reference.by_hand.toy import counting_task, exact, train_counter

__all__ = [
    "Adam",
    "attention",
    "attention_backward",
    "counting_task",
    "cross_entropy",
    "cross_entropy_backward",
    "embedding",
    "embedding_backward",
    "encoder_block",
    "encoder_block_backward",
    "encoder_block_parameters",
    "exact",
    "feed_forward",
    "feed_forward_backward",
    "gelu",
    "gelu_backward",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
    "masked_softmax",
    "merge_heads",
    "multi_head_self_attention",
    "multi_head_self_attention_backward",
    "numerical_gradient",
    "softmax",
    "softmax_backward",
    "split_heads",
    "train_counter",
    "valid_keys",
]
