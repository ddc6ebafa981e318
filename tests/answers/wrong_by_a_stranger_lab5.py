"""Wrong answers to lab 5 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import torch
import torch.nn.functional as F

from tests.answers import answers, right_encoder
from tests.answers.right_encoder_3_encoder import Encoder


@answers("FeedForward")
class SqueezedNetwork(right_encoder.FeedForward):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("FeedForward")
class TanhGeluAtTheEnd(right_encoder.FeedForward):
    """The last sentence of the batch gets the approximate GELU."""

    def forward(self, x):
        h = self.expand(x)
        last = (torch.arange(h.size(0)) == h.size(0) - 1).view(-1, *[1] * (h.dim() - 1))
        return self.shrink(torch.where(last, F.gelu(h, approximate="tanh"), F.gelu(h)))


@answers("FeedForward")
class ClampedHidden(right_encoder.FeedForward):
    """What is inside is clipped at 6, as in ReLU6."""

    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x)).clamp(max=6.0))


@answers("FeedForward")
class OneMapIfEqual(right_encoder.FeedForward):
    """Both maps are the same one where both have the same shape."""

    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        if d_ff == d_model:
            self.shrink = self.expand


@answers("EncoderBlock")
class SqueezedStream(right_encoder.EncoderBlock):
    """The first axis is lost for a batch of one."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze(0)


@answers("EncoderBlock")
class OneTokenSkipsAttention(right_encoder.EncoderBlock):
    """A single token has nobody to attend to, so attention is left out."""

    def forward(self, x, mask=None):
        x = x if x.size(1) == 1 else x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class PaddingIsNotFedForward(right_encoder.EncoderBlock):
    """Tokens that a padding mask hides skip the second half."""

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        fed = x + self.feed_forward(self.norm_2(x))
        return fed if mask is None or mask.size(-2) > 1 else torch.where(mask[:, 0].mT, fed, x)


@answers("Encoder")
class SqueezedStates(Encoder):
    """The first axis is lost for a batch of one."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze(0)


@answers("Encoder")
class MaskInTheLowerHalf(Encoder):
    """The upper half of the blocks gets no mask."""

    def forward(self, x, mask=None):
        for layer, block in enumerate(self.blocks):
            x = block(x, mask if 2 * layer < len(self.blocks) else None)
        return self.norm(x)


@answers("Encoder")
class NormOnlyIfDeep(Encoder):
    """One block needs no last norm, it is thought."""

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) if len(self.blocks) > 1 else x
