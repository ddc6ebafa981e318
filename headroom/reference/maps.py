"""Attention maps: the weights of every attention in a model, computed only for whoever asks."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headroom.reference.attention import Attention


@contextmanager
def attention_maps(model: nn.Module) -> Generator[dict[str, Tensor]]:
    """Keep the attention weights of the one call of `model`, or of a part of it, that is made inside the block.

        with attention_maps(vit) as maps:
            logits = vit(images)
        maps["encoder.blocks.attention"]  # (batch, layers, heads, tokens, tokens)

    Args:
        model: any model, stack, block or attention of the course.

    Yields:
        a dictionary, filled when the block ends: for every stack of layers its weights, before dropout,
        `(batch, layers, heads, n_queries, n_keys)`, under the attention's path in the model without the layer's number,
        such as `"decoder.blocks.cross_attention"`. A lone attention is one layer by the name of `"attention"`.

    Source: Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    figure 3, for looking at the weights.
    """
    maps: dict[str, Tensor] = {}
    layers: dict[str, list[Tensor]] = {}

    def keep(attend: Attention, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        layers.setdefault(names[attend], []).append(attend.weights(*inputs))

    names = {module: stack_of(path) for path, module in model.named_modules() if isinstance(module, Attention)}
    hooks = [attend.register_forward_hook(keep) for attend in names]
    try:
        yield maps
        maps.update((name, torch.stack(weights, dim=1)) for name, weights in layers.items())
    finally:
        for hook in hooks:
            hook.remove()


def stack_of(path: str) -> str:
    """`"encoder.blocks.1.attention.attend"` → `"encoder.blocks.attention"`: without the layer and without `attend`."""
    parts = path.split(".")[:-1]
    number = max((at for at, part in enumerate(parts) if part.isdecimal()), default=None)
    if number is not None:
        del parts[number]
    return ".".join(parts) or "attention"
