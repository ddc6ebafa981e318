"""What an AttentionExplorer takes, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headroom.figures import ArrayLike
from headroom.reference import MultiHeadSelfAttention
from headroom.widgets.checks import ROW_SUM_TOLERANCE, check_finite, check_list, check_strings, check_unit
from headroom.widgets.shared import as_array

CLASS_TOKEN = "[class]"
MAX_TOKENS = 100  # that a model may write before it is stopped
SCORES_TOLERANCE = 1e-3  # how far softmax(scores) may be from the weights
# Everything sent is also saved in the notebook, as base64. Beyond this a notebook takes many seconds to open.
MAX_PAYLOAD_BYTES = 32 * 2**20

Words = Sequence[str] | Sequence[Sequence[str]]


class ScoreCollector:
    """Within the block, what some attentions compute before mask and softmax: their queries times their keys."""

    def __init__(self, attentions: list[MultiHeadSelfAttention]) -> None:
        self._attends = [attention.attend for attention in attentions]
        self._layers: list[torch.Tensor] = []

    def __enter__(self) -> ScoreCollector:
        def compare(_module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            q, k = inputs[:2]
            self._layers.append(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))

        self._hooks = [attend.register_forward_pre_hook(compare) for attend in self._attends]
        return self

    def __exit__(self, *_error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def stacked(self) -> torch.Tensor:
        """`(n, n_layers, n_heads, n_queries, n_keys)`."""
        return torch.stack(self._layers, dim=1)


def refuse(**arguments: object) -> None:
    """Arguments that belong to the other kind of tokens."""
    for name, value in arguments.items():
        if value is not None:
            other = "text" if name == "source_tokens" else "images"
            raise ValueError(f"{name} goes with {other}, which this widget was not given")


def five_axes(name: str, value: ArrayLike) -> np.ndarray:
    """`(n, n_layers, n_heads, n_queries, n_keys)`; one sample may come without the first axis."""
    array = as_array(name, value)
    array = array[None] if array.ndim == 4 else array
    if array.ndim != 5 or 0 in array.shape:
        shape = tuple(np.shape(value))
        hint = {2: f"; for one layer and one head: {name}[None, None]", 3: f"; for one layer: {name}[None]"}
        raise ValueError(
            f"{name} has shape {shape}; it must be (n_layers, n_heads, n_queries, n_keys), or that of several "
            f"sequences or images: (n, n_layers, n_heads, n_queries, n_keys){hint.get(len(shape), '')}"
        )
    return array


def check_size(shape: tuple[int, ...], with_scores: bool) -> None:
    size = math.prod(shape) * (6 if with_scores else 2)
    if size > MAX_PAYLOAD_BYTES:
        fit = max(1, shape[0] * MAX_PAYLOAD_BYTES // size)
        raise ValueError(
            f"attention of shape {shape} makes {size / 2**20:.0f} MB to send and to save in the notebook; "
            f"at most {MAX_PAYLOAD_BYTES // 2**20} MB: show {fit} at a time, or fewer layers"
        )


def cut_to_sizes(name: str, array: np.ndarray, sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    """Each sample without its padding, finite, `(n_layers, n_heads, n_queries, n_keys)` float32 (a mask: bool)."""
    cut = []
    for sample, (n_queries, n_keys) in enumerate(sizes):
        part = array[sample, ..., :n_queries, :n_keys]
        if part.dtype != bool:
            part = part.astype(np.float32)
            check_finite(f"{name}[{sample}]", part)
        cut.append(part)
    return cut


def check_weights(samples: list[np.ndarray]) -> None:
    """Every row of every sample is in [0, 1] and sums to 1."""
    for sample, array in enumerate(samples):
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 1 + ROW_SUM_TOLERANCE:
            raise ValueError(
                f"attention has values from {low:g} to {high:g}; weights lie in [0, 1]: give them after the softmax"
            )
        sums = array.sum(axis=-1)
        off = np.abs(sums - 1)
        if off.max() > ROW_SUM_TOLERANCE:
            where = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
            columns_do = np.abs(array.sum(axis=-2) - 1).max() <= ROW_SUM_TOLERANCE
            hint = "; the columns do: transpose the last two axes" if columns_do else ""
            raise ValueError(
                f"attention's row {(sample, *where)} (sample, layer, head, query) sums to {sums[where]:.4g}; "
                f"each row, a query's weights over the keys, must sum to 1 (±{ROW_SUM_TOLERANCE:g}){hint}"
            )


def check_words(name: str, words: Words, n: int, size: int, what: str) -> list[list[str]]:
    """The words of each of `n` sequences, at most `size` in each; one sequence's may come as one list."""
    check_list(name, words)
    sequences: list[Any] = [list(words)] if n == 1 and all(isinstance(word, str) for word in words) else list(words)
    if len(sequences) != n or any(isinstance(sequence, str) for sequence in sequences):
        raise ValueError(f"attention is for {n} sequences; {name} must be a list of {n} lists of words")
    for i, sequence in enumerate(sequences):
        check_strings(f"{name}[{i}]", sequence)
        if not 0 < len(sequence) <= size:
            raise ValueError(f"{name}[{i}] has {len(sequence)} words, but attention has {size} {what}")
    if max(map(len, sequences)) < size:
        longest = max(map(len, sequences))
        raise ValueError(f"{name} has at most {longest} words, but attention has {size} {what}; name each")
    return [list(sequence) for sequence in sequences]


def check_images(images: ArrayLike, n: int) -> np.ndarray:
    """Images as `(n, height, width, channels)` float32."""
    array = as_array("images", images)
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        hint = "; put one image in a batch with images[None]" if array.ndim == 2 else ""
        raise ValueError(
            f"images has shape {tuple(np.shape(images))}; it must be (n, height, width), (n, 1, height, width) or "
            f"(n, 3, height, width){hint}"
        )
    if len(array) != n:
        raise ValueError(f"attention is for {n} images, but images holds {len(array)}; give one for each image")
    check_unit("images", array)
    return array.astype(np.float32).transpose(0, 2, 3, 1)


def patch_grid(height: int, width: int, tokens: int, patch_size: int | None) -> tuple[int, int, bool]:
    """Rows and columns of patches, and whether a [class] token comes before them."""
    if patch_size is None:
        sides = [side for side in range(1, math.gcd(height, width) + 1) if math.gcd(height, width) % side == 0]
    else:
        if isinstance(patch_size, bool) or not isinstance(patch_size, int) or patch_size < 1:
            raise ValueError(f"patch_size={patch_size!r}; it must be a whole number of pixels, at least 1")
        if height % patch_size or width % patch_size:
            raise ValueError(
                f"patch_size={patch_size} does not divide images of {height} × {width} pixels into equal patches"
            )
        sides = [patch_size]
    for has_class in (True, False):
        for side in sides:
            rows, columns = height // side, width // side
            if rows * columns + has_class == tokens:
                return rows, columns, has_class
    if patch_size is not None:
        patches = (height // patch_size) * (width // patch_size)
        raise ValueError(
            f"attention has {tokens} tokens, but images of {height} × {width} pixels make {patches} patches of "
            f"{patch_size} × {patch_size}; tokens must be {patches} or, with a [class] token, {patches + 1}"
        )
    counts = sorted((height // side) * (width // side) for side in sides)
    raise ValueError(
        f"attention has {tokens} tokens, which fits no square patches of images of {height} × {width} pixels; "
        f"possible numbers of patches are {', '.join(map(str, counts))} (plus one with a [class] token)"
    )


def check_predictions(predictions: ArrayLike | None, n: int) -> list[list[float]] | None:
    if predictions is None:
        return None
    array = as_array("predictions", predictions)
    if array.ndim != 2 or array.shape[0] != n or array.shape[1] == 0:
        raise ValueError(f"predictions has shape {array.shape}; it must be ({n}, n_classes)")
    check_finite("predictions", array)
    off = np.abs(array.sum(axis=1) - 1).max()
    if array.min() < 0 or off > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"predictions has values from {array.min():g} to {array.max():g} and rows that do not all sum to 1; "
            "it must hold probabilities: logits.softmax(dim=-1)"
        )
    return array.astype(float).round(4).tolist()
