"""Wrong encoder blocks with mistakes that are on no list."""

import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import EncoderBlock, LayerNorm, MultiHeadSelfAttention
from tests.answers.wrong_encoder_2_encoder_block import Block


@answers("EncoderBlock")
class Nothing(Block):
    def forward(self, x, mask=None):
        return x


@answers("EncoderBlock")
class ThirdNorm(Block):
    """A norm inside and one at the block's end."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm_3 = LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return self.norm_3(x + self.feed_forward(self.norm_2(x)))


@answers("EncoderBlock")
class AttendsTwice(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class AcrossTheBatch(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x).transpose(0, 1)).transpose(0, 1)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class HalfTheSum(Block):
    def forward(self, x, mask=None):
        x = (x + self.attention(self.norm_1(x), mask)) / 2
        return (x + self.feed_forward(self.norm_2(x))) / 2


@answers("EncoderBlock")
class MultipliesTheStream(Block):
    def forward(self, x, mask=None):
        x = x * self.attention(self.norm_1(x), mask)
        return x * self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class RootMeanSquares(Block):
    """RMSNorm: nothing is centred."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm_1, self.norm_2 = nn.RMSNorm(d_model), nn.RMSNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class DropsWhenUsed(Block):
    def forward(self, x, mask=None):
        x = x + F.dropout(self.attention(self.norm_1(x), mask), 0.3)
        return x + F.dropout(self.feed_forward(self.norm_2(x)), 0.3)


@answers("EncoderBlock")
class ReturnsThePair(Block):
    """The tokens and what attention added; the task asks for the tokens alone."""

    def forward(self, x, mask=None):
        a = self.attention(self.norm_1(x), mask)
        x = x + a
        return x + self.feed_forward(self.norm_2(x)), a


@answers("EncoderBlock")
class MaskedTokens(Block):
    """The padded tokens are set to 0, and still attended to."""

    def forward(self, x, mask=None):
        n = self.norm_1(x)
        if mask is not None and mask.shape[2] == 1:
            n = n * mask[:, 0, 0, :, None]
        x = x + self.attention(n)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class WrittenOverInside(Block):
    """In place on a copy: the outputs are right, and backward fails."""

    def forward(self, x, mask=None):
        x = x.clone()
        x += self.attention(self.norm_1(x), mask)
        x += self.feed_forward(self.norm_2(x))
        return x


class OwnAttention(MultiHeadSelfAttention):
    """The given attention with a fill, or a softmax, of its own."""

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, self.fill)
        return self.w_o((self.weights(scores) @ v).transpose(1, 2).flatten(-2))

    fill = float("-inf")

    def weights(self, scores):
        return scores.softmax(-1)


class FilledWithMinus100(OwnAttention):
    fill = -100.0


class SoftmaxThatOverflows(OwnAttention):
    def weights(self, scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


class WithAttention(EncoderBlock):
    """A right block around the attention that its subclass names."""

    kind = OwnAttention

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.attention = self.kind(d_model, n_heads)


@answers("EncoderBlock")
class NearlyHidden(WithAttention):
    """Scores below −100 are possible, and then what is hidden wins."""

    kind = FilledWithMinus100


@answers("EncoderBlock")
class ExponentialsOverflow(WithAttention):
    kind = SoftmaxThatOverflows


@answers("EncoderBlock")
class PyTorchsLayer(nn.TransformerEncoderLayer):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff, 0.0, "gelu", batch_first=True, norm_first=True)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = (~mask).expand(len(x), self.self_attn.num_heads, x.size(1), -1).flatten(0, 1)
        return super().forward(x, src_mask=mask)
