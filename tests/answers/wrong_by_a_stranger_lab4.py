"""Wrong answers to lab 4 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import torch

from tests.answers import answers, right_layer_norm, right_rms_norm
from tests.answers.detaching import without_gradient_for


@answers("LayerNorm")
class EpsAsAFloor(right_layer_norm.TwoPass):
    """The variance is not raised by eps but kept from falling below it."""

    def forward(self, x):
        mu, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * (x - mu) / var.clamp(min=self.eps).sqrt() + self.beta


@answers("LayerNorm")
class SqueezedNorm(right_layer_norm.TwoPass):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("LayerNorm")
class NotForOneToken(right_layer_norm.TwoPass):
    """Moves the features to the last axis but one and back: a token without any leading axis has none."""

    def forward(self, x):
        x = x.transpose(-1, -2)
        mu, var = x.mean(-2, keepdim=True), x.var(-2, unbiased=False, keepdim=True)
        return self.gamma * ((x - mu) / (var + self.eps).sqrt()).transpose(-1, -2) + self.beta


@answers("LayerNorm")
class MeanDetached(right_layer_norm.TwoPass):
    """The outputs are right; backward takes the mean for a constant, the variance not."""

    def forward(self, x):
        mu = x.mean(-1, keepdim=True)
        var = ((x - mu) ** 2).mean(-1, keepdim=True)
        return self.gamma * (x - mu.detach()) / (var + self.eps) ** 0.5 + self.beta


@answers("RMSNorm")
class FloorOfEps(right_rms_norm.MeanOfSquares):
    """The mean square is not raised by eps but kept from falling below it."""

    def forward(self, x):
        return self.gamma * x / x.square().mean(-1, keepdim=True).clamp(min=self.eps).sqrt()


@answers("RMSNorm")
class SqueezedRows(right_rms_norm.MeanOfSquares):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("RMSNorm")
class NeedsALeadingAxis(right_rms_norm.MeanOfSquares):
    """Works on the transposed tokens: a token without any leading axis has no other side."""

    def forward(self, x):
        return (self.gamma[:, None] * x.mT / (x.mT.square().mean(-2, keepdim=True) + self.eps).sqrt()).mT


@answers("RMSNorm")
class GainOfFirstTokenOnly(right_rms_norm.MeanOfSquares):
    """The outputs are right; γ hears of the first token alone."""

    def forward(self, x):
        later = (torch.arange(x.size(-2)) > 0)[:, None]
        gamma = without_gradient_for(self.gamma.expand(x.size(-2), -1), later)
        return gamma * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)
