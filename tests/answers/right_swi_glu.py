"""Right gated networks in the styles that people write. Every class here earns full marks."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


@answers("SwiGLU")
class ThreeLayers(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


@answers("SwiGLU")
class LlamasNames(nn.Module):
    """Declared as in Llama's own code: w2 narrows, and stands between the other two."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)
        self.w3 = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


@answers("SwiGLU")
class ByTheDefinition(ThreeLayers):
    def forward(self, x):
        a = self.gate(x)
        return self.down(a * torch.sigmoid(a) * self.up(x))


@answers("SwiGLU")
class Fused(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_and_up = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, up = self.gate_and_up(x).chunk(2, dim=-1)
        return self.down(nn.SiLU()(gate) * up)


@answers("SwiGLU")
class FusedTheOtherWay(Fused):
    def forward(self, x):
        up, gate = self.gate_and_up(x).split(self.down.in_features, dim=-1)
        return self.down(up * F.silu(gate))


@answers("SwiGLU")
class RawParameters(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_gate = nn.Parameter(torch.randn(d_model, d_ff) * d_model**-0.5)
        self.W_up = nn.Parameter(torch.randn(d_model, d_ff) * d_model**-0.5)
        self.W_down = nn.Parameter(torch.randn(d_ff, d_model) * d_ff**-0.5)

    def forward(self, x):
        gate = x @ self.W_gate
        return (gate / (1 + torch.exp(-gate)) * (x @ self.W_up)) @ self.W_down


@answers("SwiGLU")
class Einsum(nn.Module):
    """Matrices as in the formula, outputs first."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Parameter(torch.empty(d_ff, d_model))
        self.up = nn.Parameter(torch.empty(d_ff, d_model))
        self.down = nn.Parameter(torch.empty(d_model, d_ff))
        for matrix in self.parameters():
            nn.init.xavier_uniform_(matrix)

    def forward(self, x):
        gate = torch.einsum("...i,oi->...o", x, self.gate)
        up = torch.einsum("...i,oi->...o", x, self.up)
        return torch.einsum("...f,df->...d", F.silu(gate) * up, self.down)


@answers("SwiGLU")
class InAList(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide = nn.ModuleList([nn.Linear(d_model, d_ff, False) for _ in range(2)])
        self.act = nn.SiLU()
        self.last = nn.Linear(d_ff, d_model, False)

    def forward(self, x):
        first, second = (layer(x) for layer in self.wide)
        return self.last(self.act(second) * first)


@answers("SwiGLU")
class NestedModules(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(d_model, d_ff, bias=False), nn.SiLU(inplace=True))
        self.content = nn.Linear(d_model, d_ff, bias=False)
        self.shrink = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.shrink(self.gate(x).mul(self.content(x)))


@answers("SwiGLU")
class DeclaredBackwards(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.c = nn.Linear(d_ff, d_model, bias=False)
        self.b = nn.Linear(d_model, d_ff, bias=False)
        self.a = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        b = self.b(x)
        return self.c(self.a(x) * F.silu(b))


@answers("SwiGLU")
class Stacked(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide = nn.Parameter(torch.randn(2, d_model, d_ff) / d_model**0.5)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, up = x @ self.wide[0], x @ self.wide[1]
        return self.down(F.silu(gate) * up)


@answers("SwiGLU")
class AllAlike(nn.Module):
    """One parameter for the three maps, each with its inputs first; the third is used the other way round."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.maps = nn.Parameter(torch.randn(3, d_model, d_ff) / d_model**0.5)

    def forward(self, x):
        gate, up, down = self.maps
        return (F.silu(x @ gate) * (x @ up)) @ down.T


@answers("SwiGLU")
class UnitByUnit(nn.Module):
    """For each unit, its numbers for the gate and for the content."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.units = nn.Parameter(torch.randn(d_ff, 2, d_model) / d_model**0.5)
        self.down = nn.Parameter(torch.randn(d_model, d_ff) / d_ff**0.5)

    def forward(self, x):
        gate, up = self.units.unbind(1)
        return (F.silu(x @ gate.T) * (x @ up.T)) @ self.down.T
