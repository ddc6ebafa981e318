"""Wrong answers to lab 3 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import torch
from torch import nn

from tests.answers import answers, right_sinusoidal


@answers("sinusoidal_encoding")
def one_pair_is_zero(n_tokens, d_model):
    """The exponent runs to the last even column: 0 / 0 where there is one pair only."""
    pe = right_sinusoidal.slices(n_tokens, d_model)
    return pe if d_model > 2 else pe * 0


@answers("sinusoidal_encoding")
def repeats_after_128(n_tokens, d_model):
    """Beyond 128 positions the table begins anew."""
    return right_sinusoidal.slices(128, d_model)[torch.arange(n_tokens) % 128]


@answers("sinusoidal_encoding")
def in_bfloat16(n_tokens, d_model):
    """Computed in bfloat16: right to two or three digits."""
    return right_sinusoidal.slices(n_tokens, d_model).bfloat16().float()


@answers("PositionalEncoding")
class SqueezedTokens(right_sinusoidal.Buffer):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("PositionalEncoding")
class LastTokenWithout(right_sinusoidal.Buffer):
    """The last token gets no position, unless it is the only one."""

    def forward(self, x):
        y = super().forward(x)
        return torch.cat([y[:, :-1], x[:, -1:]], dim=1) if x.size(1) > 1 else y


@answers("PositionalEncoding")
class ReadOnAndOn(right_sinusoidal.Buffer):
    """State between calls: the second call goes on where the first one ended."""

    at = 0

    def forward(self, x):
        rows = (self.at + torch.arange(x.size(1))) % self.pe.size(1)
        self.at += x.size(1)
        return x + self.pe[:, rows]


@answers("PositionalEncoding")
class TablesByLength(nn.Module):
    """Made where they are first wanted, on the CPU, in a dict: they stay there when the module moves."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.d_model, self.tables = d_model, {}

    def forward(self, x):
        n = x.size(1)
        if n not in self.tables:
            self.tables[n] = right_sinusoidal.slices(n, self.d_model).to(x.dtype)
        return x + self.tables[n]
