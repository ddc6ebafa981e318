"""What the tests of the reference share: float64, torch's layers with our weights, and the comparison."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

quick = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)


@pytest.fixture(autouse=True)
def float64():
    """Everything in float64, so that what differs is wrong and not rounded."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


def assert_same(ours, theirs, pairs=()):
    """Equal values, and equal gradients of each pair of leaves when one random direction is pulled back."""
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    pairs = list(pairs)
    if not pairs:
        return
    direction = torch.randn_like(ours)
    grads = torch.autograd.grad(ours, [a for a, _ in pairs], direction)
    expected = torch.autograd.grad(theirs, [b for _, b in pairs], direction)
    for number, (got, want) in enumerate(zip(grads, expected, strict=True)):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10, msg=lambda m, n=number: f"gradient {n}: {m}")


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def shake(module):
    """Every parameter away from its initial value: biases from 0, gains from 1."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def torch_attention(ours):
    """torch's MultiheadAttention with our weights."""
    d_model = ours.w_o.out_features
    theirs = nn.MultiheadAttention(d_model, ours.n_heads, batch_first=True)
    maps = (ours.w_q, ours.w_k, ours.w_v)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))
        theirs.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))
    theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    return theirs


def torch_block(ours):
    """torch's pre-norm TransformerEncoderLayer with our weights."""
    d_model, d_ff = ours.feed_forward.shrink.out_features, ours.feed_forward.expand.out_features
    theirs = nn.TransformerEncoderLayer(
        d_model, ours.attention.n_heads, d_ff, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    theirs.self_attn.load_state_dict(torch_attention(ours.attention).state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.shrink.state_dict())
    for a, b in ((ours.norm_1, theirs.norm1), (ours.norm_2, theirs.norm2)):
        b.load_state_dict({"weight": a.gamma, "bias": a.beta})
    return theirs


def block_pairs(ours, theirs):
    """The parameters of our block beside those of torch's that correspond one to one."""
    return [
        (ours.norm_1.gamma, theirs.norm1.weight),
        (ours.norm_2.beta, theirs.norm2.bias),
        (ours.attention.w_o.weight, theirs.self_attn.out_proj.weight),
        (ours.feed_forward.expand.weight, theirs.linear1.weight),
        (ours.feed_forward.shrink.bias, theirs.linear2.bias),
    ]
