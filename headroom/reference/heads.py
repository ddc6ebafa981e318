"""What a head does: scores of its attention map, and what a model says without the head, or with its output exchanged.

Olsson et al. 2022, "In-context Learning and Induction Heads"; Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits".
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headroom.reference.language_model import LanguageModel


def previous_token_score(weights: Tensor) -> Tensor:
    """The mean weight that each head gives to the token just before.

    Args:
        weights: attention weights `(batch, layers, heads, tokens, tokens)`, as from `attention_maps`.

    Returns:
        0 … 1, `(layers, heads)`; the mean is over sequences and over all tokens but the first.

    Source: Olsson et al. 2022, "Previous token heads".
    """
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, -1))


def induction_score(weights: Tensor, length: int) -> Tensor:
    """The mean weight that each head gives to the token *after* the earlier occurrence of the token that it reads.

    Args:
        weights: attention weights `(batch, layers, heads, tokens, tokens)` to sequences in which each token equals the
            one `length` places before it.
        length: after how many tokens the sequence repeats.

    Returns:
        0 … 1, `(layers, heads)`; the mean is over sequences and over all tokens from position `length` on.

    Raises:
        ValueError: no token occurs for the second time, because `length` is not between 1 and `tokens` − 1.

    Source: Olsson et al. 2022, "prefix matching" on repeated random tokens.
    """
    if not 1 <= length < weights.size(-1):
        raise ValueError(f"length={length} must be between 1 and {weights.size(-1) - 1}, the tokens but one")
    matches = weights.diagonal(1 - length, dim1=-2, dim2=-1)  # of query length − 1 + i to key i
    return matches[..., 1:].mean(dim=(0, -1))  # query length − 1 reads its token for the first time


@torch.no_grad()
def ablate(model: LanguageModel, ids: Tensor, layer: int, head: int) -> Tensor:
    """What the model says when a head's output is zero.

    Args:
        model: a language model with multi-head attention; it is left as it was.
        ids: token ids `(batch, tokens)`.
        layer, head: which head, both counted from 0.

    Returns:
        logits `(batch, tokens, n_vocabulary)`.

    Raises:
        IndexError: there is no such layer or head.

    Source: Olsson et al. 2022, "ablations", where a head's output is replaced by zero.
    """
    with _changed(model, layer, head, torch.zeros_like):
        return model(ids)


@torch.no_grad()
def patch(model: LanguageModel, ids: Tensor, donor_ids: Tensor, layer: int, head: int) -> Tensor:
    """What the model says of `ids` when a head's output is the one that it has on `donor_ids`.

    Args:
        model, layer, head: as of `ablate`.
        ids, donor_ids: token ids, both `(batch, tokens)`.

    Returns:
        logits `(batch, tokens, n_vocabulary)`.

    Raises:
        IndexError: there is no such layer or head.
        ValueError: the two texts have different shapes.

    Source: activation patching, as Wang et al. 2023, "Interpretability in the Wild", section 3, use it.
    """
    if ids.shape != donor_ids.shape:
        raise ValueError(f"ids {tuple(ids.shape)} and donor_ids {tuple(donor_ids.shape)} must have the same shape")
    kept: list[Tensor] = []

    def keep(output: Tensor) -> Tensor:
        kept.append(output.clone())
        return output

    with _changed(model, layer, head, keep):
        model(donor_ids)
    with _changed(model, layer, head, lambda _output: kept[0]):
        return model(ids)


@contextmanager
def _changed(model: LanguageModel, layer: int, head: int, change: Callable[[Tensor], Tensor]) -> Generator[None]:
    """Inside the block, `change` is applied to a head's output `(batch, tokens, d_head)` before W_O mixes the heads."""
    attention: Any = model.blocks[layer].attention
    if not 0 <= head < attention.n_heads:
        raise IndexError(f"head={head}: there are heads 0 to {attention.n_heads - 1}")

    def hook(_w_o: object, inputs: tuple[Tensor, ...]) -> Tensor:
        heads = list(inputs[0].chunk(attention.n_heads, dim=-1))  # (batch, tokens, d_head) each
        heads[head] = change(heads[head])
        return torch.cat(heads, dim=-1)

    handle = attention.w_o.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()
