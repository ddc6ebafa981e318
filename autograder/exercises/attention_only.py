"""A model of attention alone, as lab 11 prints it, and what its exercises share: its heads, one by one."""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# The lab's classes have no annotations that say what is in a ModuleList.

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder.covering import Axis, Choice, Derived, Only, Sizes


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        """(batch, tokens, d_model) → (batch, heads, tokens, d_head): head h gets columns h·d_head to (h + 1)·d_head."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def weights(self, x: Tensor) -> Tensor:
        """(batch, tokens, d_model) → the attention weights, (batch, heads, tokens, tokens)."""
        q, k = self.split(self.w_q(x)), self.split(self.w_k(x))  # (batch, heads, tokens, d_head)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -math.inf).softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.weights(x) @ self.split(self.w_v(x))  # the outputs of the heads, (batch, heads, tokens, d_head)
        merged = heads.transpose(1, 2).flatten(-2)  # side by side, (batch, tokens, d_model)
        return self.w_o(merged)


class Block(nn.Module):
    """Reads the normalised stream, and adds what attention makes of it."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, n_heads)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm(x))


class AttentionOnly(nn.Module):
    """A language model of nothing but attention."""

    def __init__(self, n_vocabulary: int, d_model: int, n_layers: int, n_heads: int, max_tokens: int):
        super().__init__()
        self.embed = nn.Embedding(n_vocabulary, d_model)
        self.positions = nn.Embedding(max_tokens, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.unembed = nn.Linear(d_model, n_vocabulary, bias=False)

    def start(self, ids: Tensor) -> Tensor:
        """Token ids (batch, tokens) → what the first block reads, (batch, tokens, d_model)."""
        return self.embed(ids) + self.positions(torch.arange(ids.size(1)))

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids (batch, tokens) → logits of the next token, (batch, tokens, n_vocabulary)."""
        x = self.start(ids)
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.norm(x))

    def weights(self, ids: Tensor) -> Tensor:
        """Token ids (batch, tokens) → the attention weights, (batch, layers, heads, tokens, tokens)."""
        x, weights = self.start(ids), []
        for block in self.blocks:
            weights.append(block.attention.weights(block.norm(x)))
            x = block(x)
        return torch.stack(weights, dim=1)


SOURCE = "\n\n".join(inspect.getsource(part) for part in (Attention, Block, AttentionOnly))
N_VOCABULARY, MAX_TOKENS = 7, 80  # of a model with random weights
DEPTHS = {"first": lambda last: 0, "middle": lambda last: last // 2, "last": lambda last: last}
HEADS = (  # the sizes of such a model and of what it reads, and which of its heads is asked about
    Axis("batch", most=4),
    Axis("tokens", most=7, long=60),
    Axis("layers", most=3),
    Axis("heads", most=4),
    Axis("d_head", least=2, most=5),
    Choice("which layer", tuple(DEPTHS)),
    Derived("layer", lambda sizes: DEPTHS[sizes["which layer"]](sizes["layers"] - 1)),
    Choice("head", ("first", "last")),
    Only(lambda sizes: sizes["heads"] * sizes["d_head"] > 2),  # LayerNorm leaves two features their signs alone
)
Heads = Callable[[int, Tensor, Tensor, Tensor], Tensor]  # layer, outputs, weights, values → the outputs to go on with


def plain(model: AttentionOnly, *build: int) -> dict[str, Any]:
    """A model as a case holds it; `build`: what it was built with.

    With an odd number of heads it is in evaluation mode, so that both occur.
    """
    weights = {name: parameter.detach().double().numpy() for name, parameter in model.named_parameters()}
    made = {"$make": "module", "source": SOURCE, "kind": "AttentionOnly", "build": list(build), "weights": weights}
    *_, n_heads, _ = build
    return made | {"training": n_heads % 2 == 0}


def place(sizes: Sizes) -> tuple[int, int]:
    """The layer and the head that are asked about, by sizes of `HEADS`."""
    return sizes["layer"], 0 if sizes["head"] == "first" else sizes["heads"] - 1


def drawn_model(rng: np.random.Generator, n_layers: int, n_heads: int, d_head: int) -> dict[str, Any]:
    """A model with random weights and biases, so large that each head matters."""
    build = (N_VOCABULARY, n_heads * d_head, n_layers, n_heads, MAX_TOKENS)
    model = AttentionOnly(*build)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 1.5 / math.sqrt(parameter.size(-1)) if parameter.dim() > 1 else 1.0
            drawn = rng.normal(0.0, scale, parameter.shape) if parameter.dim() > 1 else _away(rng, parameter.shape)
            parameter.copy_(torch.from_numpy(drawn))
        for table in (model.embed.weight, model.positions.weight):
            table.copy_(torch.from_numpy(rng.normal(size=table.shape)))
    return plain(model, *build)


def _away(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers away from 0 and 1: biases and gains."""
    return rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)


@torch.no_grad()
def run(model: AttentionOnly, ids: Tensor, change: Heads) -> Tensor:
    """The logits, with the heads' outputs `(batch, heads, tokens, d_head)` of every layer changed."""
    x = model.start(ids)
    for layer, block in enumerate(model.blocks):
        x = x + mixed(block, layer, block.norm(x), change)
    return model.unembed(model.norm(x))


def mixed(block: Any, layer: int, normalised: Tensor, change: Heads) -> Tensor:
    """What a block's attention adds, with its heads' outputs changed."""
    attention = block.attention
    weights, values = attention.weights(normalised), attention.split(attention.w_v(normalised))
    return attention.w_o(merged(change(layer, weights @ values, weights, values)))


def merged(heads: Tensor) -> Tensor:
    """(batch, heads, tokens, d_head) → (batch, tokens, d_model)."""
    return heads.transpose(1, 2).flatten(-2)
