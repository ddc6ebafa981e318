"""Wrong gated networks; `answers` names the mistakes, or none that is on a list."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


class Maps(nn.Module):
    """Three right maps; the subclasses go wrong in `forward`."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)


@answers("SwiGLU", "unregistered")
class PlainList(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.maps = [nn.Linear(d_model, d_ff, bias=False) for _ in range(2)]
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.maps[0](x)) * self.maps[1](x))


@answers("SwiGLU", "overwritten")
class InPlace(Maps):
    def forward(self, x):
        out = self.down(F.silu(self.gate(x)) * self.up(x))
        with torch.no_grad():
            x *= 0
        return out


@answers("SwiGLU", "over_tokens")
class Transposed(Maps):
    def forward(self, x):
        x = x.transpose(-2, -1)
        return self.down(F.silu(self.gate(x)) * self.up(x)).transpose(-2, -1)


@answers("SwiGLU", "relu")
class Relu(Maps):
    def forward(self, x):
        return self.down(F.relu(self.gate(x)) * self.up(x))


@answers("SwiGLU", "gelu")
class Gelu(Maps):
    def forward(self, x):
        return self.down(F.gelu(self.gate(x)) * self.up(x))


@answers("SwiGLU", "gelu")
class GeluByTanh(Maps):
    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


@answers("SwiGLU", "sigmoid")
class OnlySigmoid(Maps):
    def forward(self, x):
        return self.down(torch.sigmoid(self.gate(x)) * self.up(x))


@answers("SwiGLU", "no_activation")
class Bilinear(Maps):
    def forward(self, x):
        return self.down(self.gate(x) * self.up(x))


@answers("SwiGLU", "activation_on_up")
class Both(Maps):
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * F.silu(self.up(x)))


@answers("SwiGLU", "activation_after")
class OnTheProduct(Maps):
    def forward(self, x):
        return self.down(F.silu(self.gate(x) * self.up(x)))


@answers("SwiGLU", "activation_last")
class OnTheResult(Maps):
    def forward(self, x):
        return F.silu(self.down(F.silu(self.gate(x)) * self.up(x)))


@answers("SwiGLU", "added")
class Added(Maps):
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) + self.up(x))


@answers("SwiGLU", "one_map")
class OneMap(Maps):
    def forward(self, x):
        wide = self.gate(x)
        return self.down(F.silu(wide) * wide)


@answers("SwiGLU", "no_gate")
class TwoMaps(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


@answers("SwiGLU", "no_gate")
class UpNotUsed(Maps):
    def forward(self, x):
        return self.down(F.silu(self.gate(x)))


@answers("SwiGLU", "x_for_up")
class GatesX(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * x)


@answers("SwiGLU", "not_narrowed")
class NotNarrowed(Maps):
    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


@answers("SwiGLU", "with_bias")
class Biases(Maps):
    def __init__(self, d_model, d_ff):
        nn.Module.__init__(self)
        self.gate, self.up = nn.Linear(d_model, d_ff), nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


@answers("SwiGLU", "two_thirds")
class TwoThirdsAgain(Maps):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, 2 * d_ff // 3)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


@answers("SwiGLU", "inner_residual")
class Residual(Maps):
    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


# --- two at once ---


@answers("SwiGLU", "relu", "inner_residual")
class ReluAndResidual(Maps):
    def forward(self, x):
        return x + self.down(F.relu(self.gate(x)) * self.up(x))


@answers("SwiGLU", "gelu", "added")
class GeluAdded(Maps):
    def forward(self, x):
        return self.down(F.gelu(self.gate(x)) + self.up(x))


# --- on no list ---


@answers("SwiGLU")
class Softmax(Maps):
    def forward(self, x):
        return self.down(self.gate(x).softmax(-1) * self.up(x))


@answers("SwiGLU")
class Swish2(Maps):
    def forward(self, x):
        gate = self.gate(x)
        return self.down(gate * torch.sigmoid(2 * gate) * self.up(x))


@answers("SwiGLU")
class Dropout(Maps):
    def forward(self, x):
        return self.down(F.dropout(F.silu(self.gate(x)), 0.1, self.training) * self.up(x))


@answers("SwiGLU")
class Normed(Maps):
    def forward(self, x):
        x = F.layer_norm(x, x.shape[-1:])
        return self.down(F.silu(self.gate(x)) * self.up(x))


@answers("SwiGLU")
class OnlyThreeAxes(Maps):
    def forward(self, x):
        batch, tokens, d_model = x.shape
        flat = x.reshape(batch * tokens, d_model)
        return self.down(F.silu(self.gate(flat)) * self.up(flat)).view(batch, tokens, d_model)


@answers("SwiGLU")
class Nothing(Maps):
    def forward(self, x):
        self.down(F.silu(self.gate(x)) * self.up(x))


@answers("SwiGLU")
class FourthMap(Maps):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.skip = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))
