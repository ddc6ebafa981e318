"""Wrong answers to lab 2 that have two mistakes at once, which `answers` names."""

import math

from tests.answers import answers
from tests.answers.right_multi_head import attention
from tests.answers.wrong_multi_head import Base, NoScale, Scaled, SlicedInput


@answers("MultiHeadSelfAttention", "view_split", "unscaled")
class ScrambledAndUnscaled(NoScale):
    def split(self, t):
        return t.view(t.size(0), self.n_heads, t.size(1), self.d_head)


@answers("MultiHeadSelfAttention", "no_output", "mask_ignored")
class UnmaskedAndUnmixed(Scaled):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        return self.merge(self.attend(q, k, v, None))


@answers("MultiHeadSelfAttention", "view_split", "view_merge")
class ScrambledBothWays(Base):
    def split(self, t):
        return t.reshape(t.size(0), self.n_heads, -1, self.d_head)

    def merge(self, heads):
        return heads.reshape(heads.size(0), heads.size(2), -1)


@answers("MultiHeadSelfAttention", "no_output", "sliced")
class LabSheetHeads(SlicedInput):
    """Slices of the input and no output projection."""

    def forward(self, x, mask=None):
        heads = attention(self.project(self.q, x), self.project(self.k, x), self.project(self.v, x), mask)[0]
        return heads.transpose(1, 2).flatten(2)


@answers("MultiHeadSelfAttention", "by_d_model", "mask_after")
class RootOfModelWidthMaskAfter(Scaled):
    def scores(self, q, k):
        return q @ k.mT / math.sqrt(self.d_head * self.n_heads)

    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.softmax(-1) * mask
