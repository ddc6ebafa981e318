"""The decoder block of lab 6 once more, step by step, for the search behind its list of mistakes."""

from typing import Annotated

from torch import Tensor

from autograder.diagnosis.vocabulary import (
    INF,
    Bias,
    Mask,
    gelu,
    hide,
    linear,
    merge_heads,
    normalise,
    size,
    softmax,
    split_heads,
    transpose,
)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    memory: Annotated[Tensor, "batch source_tokens features"],
    mask: Mask,
    memory_mask: Mask,
    /,
    d_model: int,
    n_heads: int,
    d_ff: int,
    *,
    norm_1_gamma: Annotated[Tensor, "", "γ of the first norm"],
    norm_1_beta: Annotated[Tensor, "", "β of the first norm"],
    self_attention_w_q_weight: Annotated[Tensor, "", "the queries' map of the self-attention"],
    self_attention_w_k_weight: Annotated[Tensor, "", "the keys' map of the self-attention"],
    self_attention_w_v_weight: Annotated[Tensor, "", "the values' map of the self-attention"],
    self_attention_w_o_weight: Annotated[Tensor, "", "the output map of the self-attention"],
    self_attention_w_q_bias: Annotated[Bias, "", "the bias of the self-attention's queries"],
    self_attention_w_k_bias: Annotated[Bias, "", "the bias of the self-attention's keys"],
    self_attention_w_v_bias: Annotated[Bias, "", "the bias of the self-attention's values"],
    self_attention_w_o_bias: Annotated[Bias, "", "the bias of the self-attention's output"],
    norm_2_gamma: Annotated[Tensor, "", "γ of the second norm"],
    norm_2_beta: Annotated[Tensor, "", "β of the second norm"],
    cross_attention_w_q_weight: Annotated[Tensor, "", "the queries' map of the cross-attention"],
    cross_attention_w_k_weight: Annotated[Tensor, "", "the keys' map of the cross-attention"],
    cross_attention_w_v_weight: Annotated[Tensor, "", "the values' map of the cross-attention"],
    cross_attention_w_o_weight: Annotated[Tensor, "", "the output map of the cross-attention"],
    cross_attention_w_q_bias: Annotated[Bias, "", "the bias of the cross-attention's queries"],
    cross_attention_w_k_bias: Annotated[Bias, "", "the bias of the cross-attention's keys"],
    cross_attention_w_v_bias: Annotated[Bias, "", "the bias of the cross-attention's values"],
    cross_attention_w_o_bias: Annotated[Bias, "", "the bias of the cross-attention's output"],
    norm_3_gamma: Annotated[Tensor, "", "γ of the third norm"],
    norm_3_beta: Annotated[Tensor, "", "β of the third norm"],
    feed_forward_expand_weight: Annotated[Tensor, "", "the network's first map"],
    feed_forward_expand_bias: Annotated[Bias, "", "the bias of the network's first map"],
    feed_forward_shrink_weight: Annotated[Tensor, "", "the network's second map"],
    feed_forward_shrink_bias: Annotated[Bias, "", "the bias of the network's second map"],
) -> Tensor:
    """A pre-norm decoder block, branch by branch."""
    first_norm = normalise(x, -1) * norm_1_gamma + norm_1_beta
    self_attention_queries = split_heads(
        linear(first_norm, self_attention_w_q_weight, self_attention_w_q_bias), n_heads
    )
    self_attention_keys = split_heads(linear(first_norm, self_attention_w_k_weight, self_attention_w_k_bias), n_heads)
    self_attention_values = split_heads(linear(first_norm, self_attention_w_v_weight, self_attention_w_v_bias), n_heads)
    self_d_head = size(self_attention_queries, -1)
    self_attention_scores = self_attention_queries @ transpose(self_attention_keys, -2, -1) / self_d_head**0.5
    self_attention_masked_scores = hide(self_attention_scores, mask, -INF)
    self_attention_weights = softmax(self_attention_masked_scores, -1)
    self_attention_heads = merge_heads(self_attention_weights @ self_attention_values)
    self_attention_output = linear(self_attention_heads, self_attention_w_o_weight, self_attention_w_o_bias)
    first_sum = x + self_attention_output
    second_norm = normalise(first_sum, -1) * norm_2_gamma + norm_2_beta
    cross_attention_queries = split_heads(
        linear(second_norm, cross_attention_w_q_weight, cross_attention_w_q_bias), n_heads
    )
    cross_attention_keys = split_heads(linear(memory, cross_attention_w_k_weight, cross_attention_w_k_bias), n_heads)
    cross_attention_values = split_heads(linear(memory, cross_attention_w_v_weight, cross_attention_w_v_bias), n_heads)
    cross_d_head = size(cross_attention_queries, -1)
    cross_attention_scores = cross_attention_queries @ transpose(cross_attention_keys, -2, -1) / cross_d_head**0.5
    cross_attention_masked_scores = hide(cross_attention_scores, memory_mask, -INF)
    cross_attention_weights = softmax(cross_attention_masked_scores, -1)
    cross_attention_heads = merge_heads(cross_attention_weights @ cross_attention_values)
    cross_attention_output = linear(cross_attention_heads, cross_attention_w_o_weight, cross_attention_w_o_bias)
    second_sum = first_sum + cross_attention_output
    third_norm = normalise(second_sum, -1) * norm_3_gamma + norm_3_beta
    wide_features = linear(third_norm, feed_forward_expand_weight, feed_forward_expand_bias)
    bent_features = gelu(wide_features)
    network_output = linear(bent_features, feed_forward_shrink_weight, feed_forward_shrink_bias)
    return second_sum + network_output
