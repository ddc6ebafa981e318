"""What a model is asked when mistakes are switched on in it, and how well it does."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headroom.data import BOS, EOS, PAD, Vocabulary
from headroom.figures import ArrayLike
from headroom.reference import Transformer, attention_maps, cross_entropy, greedy_decode, padding_mask
from headroom.widgets.checks import check_finite, check_labels
from headroom.widgets.shared import as_array, call_with_attention

KINDS = {  # of a Transformer's attention, and where it is
    "encoder": "encoder.blocks.attention",
    "decoder": "decoder.blocks.self_attention",
    "cross": "decoder.blocks.cross_attention",
}
SHOWN = 3  # examples whose attention is sent; the numbers are of all


@dataclass(frozen=True)
class Task:
    """What a model is asked: `loss(model)` → loss, predictions, attention by kind `(n, layers, heads, …)`."""

    ask: Callable[[Any], tuple[Tensor, list[Any], dict[str, Tensor]]]
    targets: list[Any]  # the right prediction for each example
    sizes: dict[str, list[tuple[int, int]]]  # queries and keys of each shown example, without padding; by kind
    facts: dict[str, Any]
    pixels: bytes = b""


def images_task(model: nn.Module, inputs: ArrayLike, targets: ArrayLike) -> Task:
    images = as_array("inputs", inputs)
    if images.ndim != 4 or 0 in images.shape:
        hint = "; put one image in a batch with inputs[None]" if images.ndim == 3 else ""
        raise ValueError(f"inputs has shape {images.shape}; it must be (n, channels, height, width){hint}")
    check_finite("inputs", images)
    labels = check_labels("targets", targets, len(images))
    device, dtype = _home(model)
    x = torch.as_tensor(images, dtype=dtype, device=device)
    y = torch.as_tensor(labels.astype(np.int64), device=device)
    n_classes = _count_classes(model, x)
    if not 0 <= labels.min() <= labels.max() < n_classes:
        raise ValueError(f"targets holds {labels.min()} … {labels.max()}; the model knows classes 0 … {n_classes - 1}")

    def ask(model: nn.Module) -> tuple[Tensor, list[Any], dict[str, Tensor]]:
        answer = call_with_attention(model, x)
        logits, attention = answer if isinstance(answer, tuple) else (answer, None)  # None: there are several stacks
        if attention is not None and attention.dim() != 5:
            attention = None  # in windows
        classes = [int(row.argmax()) if row.isfinite().all() else None for row in logits.detach()]
        return cross_entropy(logits, y), classes, {} if attention is None else {"encoder": attention.detach()}

    height, width = images.shape[2:]
    shown = images[:SHOWN].transpose(0, 2, 3, 1)
    if shown.shape[-1] not in (1, 3):
        shown = shown.mean(axis=-1, keepdims=True)
    low, high = float(images.min()), float(images.max())
    pixels = np.rint(255 * (shown - low) / ((high - low) or 1)).astype(np.uint8)  # normalised images too
    patch = getattr(getattr(model, "embed", None), "patch_size", width + 1)  # 0 columns: tokens are no patches
    facts = {
        "kind": "image",
        "shown": [{"target": int(label)} for label in labels[:SHOWN]],
        "n_classes": n_classes,
        "height": height,
        "width": width,
        "channels": pixels.shape[-1],
        "rows": height // patch,
        "columns": width // patch,
    }
    return Task(ask, labels.tolist(), {}, facts, pixels.tobytes())


def texts_task(
    model: Transformer, texts: Sequence[str], answers: Sequence[str], source: Vocabulary, target: Vocabulary
) -> Task:
    if not isinstance(model, Transformer):
        raise ValueError(f"model is a {type(model).__name__}; from_transformer takes a Transformer")
    for name, given in (("texts", texts), ("answers", answers)):
        if isinstance(given, str):
            raise ValueError(f"{name} is one string, {given!r}; it must be a list of strings")
    if len(texts) != len(answers):
        raise ValueError(f"{len(texts)} texts and {len(answers)} answers; there must be one answer for each text")
    ids, lengths = source.encode(texts)
    wanted, ends = target.encode(answers, ends=True)
    device, _ = _home(model)
    ids, lengths, wanted = ids.to(device), lengths.to(device), wanted.to(device)
    mask = padding_mask(lengths, ids.size(1))
    room = wanted.size(1)  # what is longer than the longest answer is wrong, however it ends

    def ask(model: Transformer) -> tuple[Tensor, list[Any], dict[str, Tensor]]:
        with attention_maps(model) as maps:
            logits = model(ids, wanted[:, :-1], mask)
        loss = cross_entropy(logits, wanted[:, 1:], ignore=PAD)
        finite = logits.detach().isfinite().flatten(1).all(dim=1).tolist()
        written = target.decode(greedy_decode(model, ids, BOS, EOS, room, mask).cpu())
        texts_or_none = [text if good else None for text, good in zip(written, finite, strict=True)]
        return loss, texts_or_none, {kind: maps[path].detach() for kind, path in KINDS.items()}

    read = [[source.tokens[i] for i in row[:n]] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True)][:SHOWN]
    steps = [[target.tokens[i] for i in row[:n]] for row, n in zip(wanted.tolist(), ends.tolist(), strict=True)][:SHOWN]
    facts = {
        "kind": "text",
        "shown": [
            {"text": text, "target": answer, "read": tokens, "given": step[:-1], "next": step[1:]}
            for text, answer, tokens, step in zip(texts, answers, read, steps, strict=False)
        ],
        "n_classes": len(target),
    }
    sizes = {
        "encoder": [(len(tokens), len(tokens)) for tokens in read],
        "decoder": [(len(step) - 1, len(step) - 1) for step in steps],
        "cross": [(len(step) - 1, len(tokens)) for step, tokens in zip(steps, read, strict=True)],
    }
    return Task(ask, list(answers), sizes, facts)


def _count_classes(model: nn.Module, images: Tensor) -> int:
    """The number of logits for an image; a ValueError in a sentence where the model is no classifier of images."""
    kind = type(model).__name__
    if list(inspect.signature(model.forward).parameters)[:1] != ["images"]:
        hint = "; use BugSwitches.from_transformer" if isinstance(model, Transformer) else ""
        raise ValueError(f"model is a {kind}, which does not classify images{hint}")
    with torch.no_grad():
        return copy.deepcopy(model).eval()(images[:1]).size(-1)


def _home(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where the model's numbers are, and what they are."""
    parameter = next(model.parameters())
    return parameter.device, parameter.dtype
