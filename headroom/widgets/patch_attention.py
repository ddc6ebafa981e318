"""Look at a Vision Transformer's attention: hover a patch, see where it looks. The front end is patch_attention.js."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anywidget
import numpy as np
import torch
import traitlets as t

CLASS_TOKEN = "[class]"
ROW_SUM_TOLERANCE = 1e-3
U16_MAX = 2**16 - 1
# Everything sent is also saved in the notebook, as base64. Beyond this a notebook takes many seconds to open.
MAX_PAYLOAD_BYTES = 32 * 2**20

ArrayLike = np.ndarray | torch.Tensor | Sequence


@dataclass(frozen=True)
class Selection:
    """What a `PatchAttention` shows right now. Every index counts from 0 (the screen counts from 1)."""

    image: int
    layer: int
    head: int | None  # None: the mean of all heads
    query: int | str  # index of a patch, row by row, or "[class]"
    locked: bool  # True: the pointer no longer moves the query
    control: int | None = None  # the image whose attention is drawn in place of `image`'s own; None: no control


class PatchAttention(anywidget.AnyWidget):
    """Attention of a Vision Transformer over the patches of its images, for mouse, keyboard and screen reader.

    Hovering a patch makes it the query; a click or Enter locks it, Esc unlocks it. Everything is sent to the browser
    once, so the widget answers without Python and goes on working in a saved notebook. What the reader chooses comes
    back: the traits `image`, `layer`, `head`, `query`, `locked`, `control` and `scale` can be read, observed and set. A
    hovered query arrives once the pointer has rested on it for 0.3 s or has left the picture, never while it moves.

    The weights travel as one buffer of unsigned 16-bit integers, `round(65535 * weight)`: off by at most
    1 / 131070 (7.7e-6), finer than float16 above 0.008 and two bytes a weight like it. Python keeps the exact ones.

    Args:
        images: `(n_images, height, width)` or `(n_images, 1, height, width)`, values in [0, 1].
        attention: `(n_images, n_layers, n_heads, tokens, tokens)`, weights after the softmax (rows sum to 1). `tokens`
            is the number of patches plus one, the [class] token first; or, without such a token, the number of patches.
        patch_size: side of a patch in pixels; found from `tokens` when None.
        predictions: `(n_images, n_classes)`, the model's probabilities.
        labels: `(n_images,)`, the right classes.
        image, layer, head, query: what to show first; negative indices count from the end. `head` None: the mean of all
            heads. `query` is the index of a patch or "[class]"; None: [class] where there is one, else the first patch.

    Raises:
        ValueError: an argument has the wrong shape or values; the message says which, what it got, and what is right.
    """

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")

    # Sent once.
    _attention = t.Bytes().tag(sync=True)  # u16, little-endian: (n_images, n_layers, n_heads, tokens, tokens)
    _pixels = t.Bytes().tag(sync=True)  # u8: (n_images, height, width)
    _facts = t.Dict().tag(sync=True)  # sizes, labels, predictions

    # What the reader chooses; either side may change it.
    image = t.Int(0).tag(sync=True)
    layer = t.Int(0).tag(sync=True)
    head = t.Int(None, allow_none=True).tag(sync=True)
    query = t.Union([t.Int(), t.Enum([CLASS_TOKEN])], default_value=0).tag(sync=True)
    locked = t.Bool(False).tag(sync=True)
    control = t.Int(None, allow_none=True).tag(sync=True)
    scale = t.Enum(["row", "all"], default_value="row").tag(sync=True)

    def __init__(
        self,
        images: ArrayLike,
        attention: ArrayLike,
        patch_size: int | None = None,
        predictions: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        image: int = 0,
        layer: int = -1,
        head: int | None = None,
        query: int | str | None = None,
    ) -> None:
        pixels = _check_images(images)
        self._weights = _check_attention(attention, len(pixels))
        n_images, n_layers, n_heads, tokens, _ = self._weights.shape
        height, width = pixels.shape[1:]
        rows, columns, has_class = _patch_grid(height, width, tokens, patch_size)
        # Read by the validators below, so set before the traits.
        self._grid, self._has_class = (rows, columns), has_class

        super().__init__(
            _attention=quantise(self._weights),
            _pixels=np.rint(pixels * 255).astype(np.uint8).tobytes(),
            _facts={
                "n_images": n_images,
                "n_layers": n_layers,
                "n_heads": n_heads,
                "tokens": tokens,
                "rows": rows,
                "columns": columns,
                "has_class": has_class,
                "height": height,
                "width": width,
                "labels": _check_labels(labels, n_images),
                "predictions": _check_predictions(predictions, n_images),
            },
            image=_index("image", image, n_images),
            layer=_index("layer", layer, n_layers),
            head=None if head is None else _index("head", head, n_heads),
            query=self._query_index((CLASS_TOKEN if has_class else 0) if query is None else query),
        )

    @classmethod
    def from_model(
        cls, model: torch.nn.Module, images: torch.Tensor, labels: ArrayLike | None = None, **start
    ) -> PatchAttention:
        """Run `model` on `images` (evaluation mode, no gradients) and show its attention.

        Args:
            model: called as `model(images, return_attention=True)`; answers with logits `(n_images, n_classes)` and
                attention `(n_images, n_layers, n_heads, tokens, tokens)`. Its mode (train or eval) is left as it was.
            images: `(n_images, 1, height, width)`, as the model takes them; moved to the model's device.
            labels: `(n_images,)`, the right classes.
            start: `image`, `layer`, `head`, `query`, `patch_size`, as in the class.
        """
        images = torch.as_tensor(images)
        parameter = next(model.parameters(), None)
        if parameter is not None:
            images = images.to(parameter.device)
        modes = [(module, module.training) for module in model.modules()]
        try:
            model.eval()
            with torch.no_grad():
                answer = model(images, return_attention=True)
        finally:
            for module, training in modes:  # one by one: parts of a model may be frozen in a mode of their own
                module.training = training
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(
                f"model(images, return_attention=True) returned {type(answer).__name__}; "
                "it must return a pair (logits, attention)"
            )
        logits, attention = answer
        return cls(images, attention, predictions=logits.softmax(dim=-1), labels=labels, **start)

    @property
    def selection(self) -> Selection:
        """What is selected now, as the reader sees it (read-only)."""
        return Selection(self.image, self.layer, self.head, self.query, self.locked, self.control)

    @property
    def selected_weights(self) -> np.ndarray:
        """The weights on the screen: `(patches,)` float32, what the selected query gives to each patch, row by row.

        What is missing from 1 is the weight of the [class] token. With `control` set they are that image's weights.
        """
        source = self.image if self.control is None else self.control
        heads = self._weights[source, self.layer]  # (n_heads, tokens, tokens)
        weights = heads.mean(axis=0) if self.head is None else heads[self.head]
        first_patch = int(self._has_class)
        query = 0 if self.query == CLASS_TOKEN else self.query + first_patch
        return weights[query, first_patch:].copy()

    def __repr__(self) -> str:
        n_images, n_layers, n_heads, _, _ = self._weights.shape
        rows, columns = self._grid
        return (
            f"PatchAttention({n_images} images, {n_layers} layers, {n_heads} heads, "
            f"{rows} × {columns} patches{' + [class]' if self._has_class else ''})"
        )

    # A selection is checked whoever makes it. traitlets rolls a change back on TraitError only.
    @t.validate("image", "layer", "head", "control")
    def _valid_index(self, proposal: dict) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        if value is None:
            return None
        n_images, n_layers, n_heads, _, _ = self._weights.shape
        sizes = {"image": n_images, "layer": n_layers, "head": n_heads, "control": n_images}
        try:
            return _index(name, value, sizes[name])
        except ValueError as error:
            raise t.TraitError(str(error)) from None

    @t.validate("query")
    def _valid_query(self, proposal: dict) -> int | str:
        try:
            return self._query_index(proposal["value"])
        except ValueError as error:
            raise t.TraitError(str(error)) from None

    @t.observe("image", "control")
    def _keep_control_apart(self, _change: dict) -> None:
        """A control shows *another* image's attention; the browser follows the same rule."""
        if self.control is not None and self.control == self.image:
            n_images = len(self._weights)
            self.control = None if n_images == 1 else (self.image + 1) % n_images

    def _query_index(self, query: int | str) -> int | str:
        rows, columns = self._grid
        if query == CLASS_TOKEN:
            if not self._has_class:
                raise ValueError(
                    f'query="{CLASS_TOKEN}", but this attention has no [class] token: its {rows * columns} tokens are '
                    f"the patches; give the index of a patch, 0 to {rows * columns - 1}"
                )
            return query
        if isinstance(query, str):
            raise ValueError(f'query="{query}" is not a token; give the index of a patch or "{CLASS_TOKEN}"')
        return _index("query", query, rows * columns)


def quantise(weights: np.ndarray) -> bytes:
    """Weights in [0, 1] as little-endian unsigned 16-bit integers, `round(65535 * weight)`, in C order.

    Uniform steps suit weights that are drawn and read off as numbers: the error is at most half a step, 7.7e-6.
    """
    return np.rint(np.clip(weights, 0, 1).astype(np.float64) * U16_MAX).astype("<u2").tobytes()


def dequantise(buffer: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The weights that the browser sees: `quantise`'s buffer as float32 of the given shape."""
    return (np.frombuffer(buffer, dtype="<u2").reshape(shape) / U16_MAX).astype(np.float32)


def _array(name: str, value: ArrayLike) -> np.ndarray:
    """`value` as an array on the CPU, whatever device, gradient or floating-point width it comes with."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; it must be an array or tensor of numbers")
    return array


def _finite(name: str, array: np.ndarray) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at index {where}; "
            "every value must be finite"
        )


def _check_images(images: ArrayLike) -> np.ndarray:
    """Images as `(n_images, height, width)` float32."""
    array = _array("images", images)
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 3 or 0 in array.shape:
        hint = "; put one image in a batch with images[None]" if array.ndim == 2 else ""
        raise ValueError(
            f"images has shape {array.shape}; "
            f"it must be (n_images, height, width) or (n_images, 1, height, width){hint}"
        )
    _finite("images", array)
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        hint = "; divide bytes by 255" if low >= 0 and high > 2 else "; undo the normalisation first"
        raise ValueError(f"images has values from {low:g} to {high:g}; they must lie in [0, 1]{hint}")
    return array.astype(np.float32)


def _check_attention(attention: ArrayLike, n_images: int) -> np.ndarray:
    """Attention as `(n_images, n_layers, n_heads, tokens, tokens)` float32."""
    array = _array("attention", attention)
    shape = array.shape
    if array.ndim != 5 or 0 in shape:
        hint = "; for a single layer, add its axis with attention[:, None]" if array.ndim == 4 else ""
        raise ValueError(f"attention has shape {shape}; it must be (n_images, n_layers, n_heads, tokens, tokens){hint}")
    if shape[0] != n_images:
        raise ValueError(f"attention is for {shape[0]} images, but images holds {n_images}; give one for each image")
    if shape[3] != shape[4]:
        raise ValueError(
            f"attention has shape {shape}: {shape[3]} queries but {shape[4]} keys; "
            "self-attention has as many of both, (…, tokens, tokens)"
        )
    if 2 * array.size > MAX_PAYLOAD_BYTES:
        fit = max(1, n_images * MAX_PAYLOAD_BYTES // (2 * array.size))
        raise ValueError(
            f"attention of shape {shape} makes {2 * array.size / 2**20:.0f} MB to send and to save in the notebook; "
            f"at most {MAX_PAYLOAD_BYTES // 2**20} MB: show {fit} images, or fewer layers, at a time"
        )
    _finite("attention", array)
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1 + ROW_SUM_TOLERANCE:
        raise ValueError(
            f"attention has values from {low:g} to {high:g}; weights lie in [0, 1]: give them after the softmax"
        )
    sums = array.sum(axis=-1, dtype=np.float64)
    off = np.abs(sums - 1)
    if off.max() > ROW_SUM_TOLERANCE:
        where = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
        columns_do = np.abs(array.sum(axis=-2, dtype=np.float64) - 1).max() <= ROW_SUM_TOLERANCE
        hint = "; the columns do: transpose the last two axes" if columns_do else ""
        raise ValueError(
            f"attention's row {where} (image, layer, head, query) sums to {sums[where]:.4g}; "
            f"each row, a query's weights over the keys, must sum to 1 (±{ROW_SUM_TOLERANCE:g}){hint}"
        )
    return array.astype(np.float32)


def _patch_grid(height: int, width: int, tokens: int, patch_size: int | None) -> tuple[int, int, bool]:
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


def _check_labels(labels: ArrayLike | None, n_images: int) -> list[int] | None:
    if labels is None:
        return None
    array = _array("labels", labels)
    if array.shape != (n_images,):
        raise ValueError(f"labels has shape {array.shape}; it must be ({n_images},), one class for each image")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels holds {array.dtype} values; classes are whole numbers")
    return array.tolist()


def _check_predictions(predictions: ArrayLike | None, n_images: int) -> list[list[float]] | None:
    if predictions is None:
        return None
    array = _array("predictions", predictions)
    if array.ndim != 2 or array.shape[0] != n_images or array.shape[1] == 0:
        raise ValueError(f"predictions has shape {array.shape}; it must be ({n_images}, n_classes)")
    _finite("predictions", array)
    off = np.abs(array.sum(axis=1) - 1).max()
    if array.min() < 0 or off > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"predictions has values from {array.min():g} to {array.max():g} and rows that do not all sum to 1; "
            "it must hold probabilities: logits.softmax(dim=-1)"
        )
    return array.astype(float).round(4).tolist()


def _index(name: str, value: int, size: int) -> int:
    """`value` as an index from 0, negative ones counted from the end as in a list."""
    try:
        index = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r} is not an index; give a whole number from 0 to {size - 1}") from None
    if not -size <= index < size:
        raise ValueError(f"{name}={index} does not exist; there are {size}: 0 to {size - 1}")
    return index % size
