"""Wrong answers to lab 2 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import torch
import torch.nn.functional as F

from tests.answers import answers, right_multi_head


@answers("MultiHeadSelfAttention")
class SqueezedHeads(right_multi_head.ViewTranspose):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze()


@answers("MultiHeadSelfAttention")
class OneHeadIsNotMixed(right_multi_head.ViewTranspose):
    """A single head has nobody to be mixed with, so the last map is left out."""

    def forward(self, x, mask=None):
        if self.n_heads > 1:
            return super().forward(x, mask)
        return right_multi_head.attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)[0]


@answers("MultiHeadSelfAttention")
class QueryBiasNotTrained(right_multi_head.ViewTranspose):
    """The outputs are right; the bias of the queries gets no gradient."""

    def forward(self, x, mask=None):
        bias, layer = self.w_q.bias.detach(), self.w_q
        self.__dict__["w_q"] = lambda t: F.linear(t, layer.weight, bias)
        out = super().forward(x, mask)
        del self.__dict__["w_q"]
        return out


@answers("MultiHeadSelfAttention")
class EightTokensAtMost(right_multi_head.ViewTranspose):
    """A window: no token sees another that is eight or more places away."""

    def forward(self, x, mask=None):
        far = torch.arange(x.size(1))
        near = (far[:, None] - far).abs() < 8
        return super().forward(x, near if mask is None else near & mask)
