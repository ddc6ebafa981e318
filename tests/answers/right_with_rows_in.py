"""Right answers whose matrices have a row for each feature that comes in, and are called `weight` all the same."""

import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_with_other_layouts import BlockAround, as_answer, attend, cut, glue, number, of_memory
from tests.answers.right_with_other_model_layouts import DecoderAround, EncoderAround


class RowsIn(nn.Module):
    """A map whose matrix has a row for each feature that comes in."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight, self.bias = number(n_in, n_out), number(n_out)

    def forward(self, x):
        return x @ self.weight + self.bias


@answers("FeedForward")
class TwoOfRowsIn(nn.Module):
    """Each matrix has the shape that the other one would have in `nn.Linear`; the biases tell them apart."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.a, self.b = RowsIn(d_model, d_ff), RowsIn(d_ff, d_model)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


class AttentionOfRowsIn(nn.Module):
    """Square matrices: no shape tells that these are not the weights of `nn.Linear`."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (RowsIn(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        q, k, v = (cut(t, self.n_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return self.w_o(glue(attend(q, k, v, mask)))


class BlockOfRowsIn(BlockAround):
    attention = AttentionOfRowsIn

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.net = TwoOfRowsIn(d_model, d_ff)


as_answer(globals(), "MultiHeadSelfAttention", "SelfOfRowsIn", AttentionOfRowsIn)
as_answer(globals(), "CrossAttention", "CrossOfRowsIn", AttentionOfRowsIn, forward=of_memory(AttentionOfRowsIn))
as_answer(globals(), "EncoderBlock", "AroundRowsIn", BlockOfRowsIn)
as_answer(globals(), "Encoder", "EncoderOfRowsIn", EncoderAround, block=BlockOfRowsIn)
as_answer(globals(), "DecoderBlock", "DecoderAroundRowsIn", DecoderAround, attention=AttentionOfRowsIn)
