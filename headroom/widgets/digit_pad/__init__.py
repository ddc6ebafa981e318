"""Draw a digit and watch a Vision Transformer read it, whole or with a known mistake in it: view.js draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import traitlets as t
from torch import Tensor, nn

from headroom.figures import ArrayLike
from headroom.mistakes import MISTAKES, broken
from headroom.modes import looking_at
from headroom.widgets.base import Widget, choice, index, index_or_none
from headroom.widgets.checks import ROW_SUM_TOLERANCE, check_finite, check_labels, check_pair, check_unit
from headroom.widgets.digit_pad import in_page
from headroom.widgets.picture import Panel
from headroom.widgets.shared import (
    CHOSEN,
    Change,
    as_array,
    as_index,
    call_with_attention,
    front_end,
    softmax,
)

SIDE = 28  # pixels of an image along each side
CLASSES = 10
BLANK = bytes(SIDE * SIDE)
EMPTY: dict[str, Any] = {"example": None, "strokes": []}  # a drawing


class DigitPad(Widget):
    """A page to draw a digit on, with mouse, pen, finger or keys, and a live model that reads it while it is drawn.

    The browser draws, and makes of the drawing the 28 × 28 pixels that the model sees. Python runs the model: one
    request at a time, always with the newest drawing. Shown are the ten probabilities and the attention with which the
    model read; with `mistake` set, a copy of the model with that mistake in it reads the same pixels beside it. Each
    choice can be read, observed and set, and `selection` has them all; setting `example` starts a new drawing. In a
    page without Python, such as an exported notebook, the page computes: a `ViT` from the weights with which it
    answered last; of any other model, the last answer stays.

    The model is used as it is at that moment: train it further, and the next stroke is read by what it has learned.
    It may be on any device; its mode (train or eval) is left as it was. Where widgets run in a thread of their own, do
    not draw while it trains.

    Args:
        model: a digit classifier, called as `model(images, return_attention=True)` with float32 images
            `(1, 1, 28, 28)`, ink 1 on paper 0. It answers with logits `(1, 10)` and attention
            `(1, n_layers, n_heads, tokens, tokens)`; tokens are patches, with a [class] token in front or without.
        examples: digits to start from and to alter: `(n, 28, 28)` or `(n, 1, 28, 28)`, values in [0, 1].
        labels: `(n,)`, what the examples are.
        example: which of them to start with; None: an empty page. Negative indices count from the end, here and below.
        layer, head: whose attention to show first. `head` None: the mean of all heads.
        mistake: the name of a known mistake, one of `headroom.mistakes.MISTAKES` that applies to this model.

    Raises:
        TypeError: `model` is no module, or does not answer with a pair.
        ValueError: the model does not read such images, or an argument has the wrong shape or values; the message says
            what it got, and what is right.

    Source: how a drawing is scaled and centred: LeCun et al. 1998, "Gradient-Based Learning Applied to Document
    Recognition", section III.A.
    """

    _esm, _css = front_end("digit_pad")

    # Sent once
    _examples = t.Bytes().tag(sync=True)  # u8: (n, 28, 28); empty without examples
    _facts = t.Dict().tag(sync=True)  # sizes, labels, the mistakes that apply
    # f32: the model's weights when it answered last, for pages without Python; empty where vit.js cannot use them
    _weights = t.Bytes().tag(sync=True)

    # The drawing and what the model makes of it: kept in a saved notebook
    # {"example", "strokes"}: what the strokes lie on; each is [1 if it erases else 0, x, y, x, y, …], in pixels
    _drawing = t.Dict(EMPTY).tag(**CHOSEN)
    _request = t.Dict().tag(**CHOSEN)  # {"id", "pixels": u8 (28, 28), empty if nothing is drawn}
    _answer = t.Dict().tag(sync=True)  # {"id", "pixels", "mistake", "models"}; see `_reply`

    # What the reader chooses; either side may change it.
    # The digit that the drawing started from; None: an empty page.
    example = choice(t.Int(None, allow_none=True), lambda self, name, value: self._check_example(value))
    layer = index(lambda self: self._n_layers)
    head = index_or_none(lambda self: self._n_heads)  # None: the mean of all heads
    overlay = choice(t.Bool(True))  # whether attention is shown
    centred = choice(t.Bool(True))  # whether the drawing is scaled and centred as MNIST's digits are
    # The known mistake that the second model has; None: there is no second model.
    mistake = choice(t.Unicode(None, allow_none=True), lambda self, name, value: self._check_mistake(value))

    def __init__(
        self,
        model: nn.Module,
        examples: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        example: int | None = None,
        layer: int = -1,
        head: int | None = None,
        mistake: str | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}; it must be a torch.nn.Module")
        self._model = model
        self._copy: nn.Module | None = None  # the model with the chosen mistake in it, and …
        self._copied: tuple[Any, ...] = ()  # … what it was made from
        digits = _check_examples(examples)
        self._digits = [digit.tobytes() for digit in digits]
        _, attention = _read(model, self._digits[0] if self._digits else BLANK)
        _check_rows(attention)
        self._n_layers, self._n_heads, _, tokens = attention.shape
        side, has_class = _patch_grid(tokens)
        self._mistakes = [name for name, known in MISTAKES.items() if known.applies(model)]

        super().__init__(
            _examples=b"".join(self._digits),
            _facts={
                "n_layers": self._n_layers,
                "n_heads": self._n_heads,
                "side": side,
                "has_class": has_class,
                "labels": None if labels is None else check_labels("labels", labels, len(digits)).tolist(),
                "mistakes": [
                    [one.name, one.group, one.title, one.sentence, one.tokens]
                    for one in map(MISTAKES.__getitem__, self._mistakes)
                ],
                **in_page.layout(model),
            },
        )
        self._choose(layer=layer, head=head)
        self.mistake = mistake
        self.example = example
        self._keep_weights()

    def _derived(self) -> dict[str, Any]:
        strokes: Any = self._drawing["strokes"]
        return {"strokes": len(strokes)}  # how many the reader has laid on the example, the eraser's counted

    @property
    def image(self) -> Tensor | None:
        """What the model has read last: float32 `(1, 1, 28, 28)` in [0, 1]; None when nothing is drawn."""
        return _as_image(self._answer["pixels"]) if "pixels" in self._answer else None

    @property
    def probabilities(self) -> Tensor | None:
        """The model's probabilities of the digits 0 to 9 for `image`, float32 `(10,)`; None when it gave none."""
        answer = self._answer.get("models", [{}])[0]
        return torch.tensor(answer["probabilities"]) if "probabilities" in answer else None

    def _panels(self) -> list[Panel]:
        image, read = self.image, self.probabilities
        page = np.zeros((SIDE, SIDE)) if image is None else image[0, 0].numpy()
        panels = [Panel("What is drawn", page, ink=True)]
        if read is not None:
            digits = [str(digit) for digit in range(CLASSES)]
            panels.append(Panel("What the model reads", read.numpy()[:, None], digits, [""], values=True))
        return panels

    def _says(self) -> str:
        read = self.probabilities
        if read is None:
            return "A page to draw a digit on, for a model to read. Nothing has been read yet."
        return f"A drawn digit. The model reads a {int(read.argmax())}, with probability {float(read.max()):.2f}."

    def __repr__(self) -> str:
        kept = f"{len(self._digits)} examples, {len(self._mistakes)} mistakes"
        return f"DigitPad({type(self._model).__name__}, {self._n_layers} layers, {self._n_heads} heads, {kept})"

    def _check_example(self, example: int | None) -> int | None:
        if example is None:
            return None
        if not self._digits:
            raise ValueError(f"example={example}, but this pad has no examples; give examples=… when you make it")
        return as_index("example", example, len(self._digits))

    def _check_mistake(self, name: str | None) -> str | None:
        if name is not None and name not in self._mistakes:
            known = ", ".join(self._mistakes) or "none"
            raise ValueError(f"mistake={name!r} does not apply to this model; those that do: {known}")
        return name

    @t.observe("_request")
    def _asked(self, change: Change) -> None:
        self._reply(bytes(change["new"]["pixels"]))

    @t.observe("example")
    def _start_anew(self, change: Change) -> None:
        if self._drawing["example"] == self.example:
            return  # the browser's choice, which says itself what is drawn
        self._drawing = {"example": self.example, "strokes": []}
        self._reply(b"" if self.example is None else self._digits[self.example])

    @t.observe("mistake")
    def _read_again(self, change: Change) -> None:
        if "pixels" in self._answer:
            self._reply(self._answer["pixels"])

    def _reply(self, pixels: bytes) -> None:
        """Send what the model, and the one with the mistake, read in `pixels`; without any, that nothing is drawn."""
        self._keep_weights()
        answer: dict[str, Any] = {"id": self._request.get("id", ""), "mistake": self.mistake}
        if pixels:
            models = [self._model] if self.mistake is None else [self._model, self._mistaken(self.mistake)]
            answer |= {"pixels": pixels, "models": [self._answer_of(model, pixels) for model in models]}
        self._answer = answer

    def _keep_weights(self) -> None:
        """Send the weights as they are now, if the page can compute this model and they have changed."""
        if self._facts["tensors"]:
            self._weights = in_page.weights(self._model)

    def _answer_of(self, model: nn.Module, pixels: bytes) -> dict[str, Any]:
        """What the browser shows of one model: `{"probabilities", "attention", "reader"}`, or `{"error"}`, a sentence.

        The attention is the row of the token that is read, float32 `(n_layers, n_heads, tokens)`; of a model without
        [class], which reads the mean of all patches, the mean of all rows.
        """
        try:
            logits, attention = _read(model, pixels)
        except (TypeError, ValueError) as error:  # whatever the student's model does: the drawing goes on
            return {"error": f"{str(error).rstrip('.')}."}
        reader = "[class]" if self._facts["has_class"] else "the mean of all patches"
        rows = attention[:, :, 0] if self._facts["has_class"] else attention.mean(axis=2)
        if model is not self._model and self.mistake is not None and (tokens := MISTAKES[self.mistake].tokens):
            reader = "the patch in the upper left corner"
            if tokens == "class_last":
                rows = np.roll(rows, 1, axis=-1)  # shown where it stands in the healthy model: in front
        return {
            "probabilities": softmax(logits).tolist(),
            "attention": rows.astype("<f4").tobytes(),
            "reader": reader,
        }

    def _mistaken(self, mistake: str) -> nn.Module:
        """The model with the chosen mistake in it: copied anew when the model has learned something since."""
        state = [*self._model.parameters(), *self._model.buffers()]
        made_from = (mistake, [(id(tensor), tensor._version) for tensor in state])
        if self._copy is None or self._copied != made_from:
            self._copy, self._copied = broken(self._model, mistake), made_from
        return self._copy


def _as_image(pixels: bytes) -> Tensor:
    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(1, 1, SIDE, SIDE) / 255


def _read(model: nn.Module, pixels: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The model's logits `(10,)`, float64, and attention `(n_layers, n_heads, tokens, tokens)` for one image.

    Raises:
        TypeError, ValueError: the model fails, or its answer has another form; in one sentence.
    """
    try:
        with looking_at(model) as device:
            answer = call_with_attention(model, _as_image(pixels).to(device))
    except Exception as error:
        raise ValueError(
            f"the model does not read an image of shape (1, 1, {SIDE}, {SIDE}): "
            f"it raised {type(error).__name__}: {error}"
        ) from error
    scores, looked = check_pair(answer)
    logits, attention = as_array("logits", scores), as_array("attention", looked)
    if logits.shape != (1, CLASSES):
        raise ValueError(
            f"the model's logits have shape {logits.shape}; for one image they must be (1, {CLASSES}), one for each "
            "digit 0 to 9"
        )
    if attention.ndim != 5 or len(attention) != 1 or attention.shape[3] != attention.shape[4] or 0 in attention.shape:
        raise ValueError(
            f"the model's attention has shape {attention.shape}; for one image it must be "
            "(1, n_layers, n_heads, tokens, tokens)"
        )
    check_finite("the model's logits", logits[0])
    check_finite("the model's attention", attention[0])
    return logits[0].astype(np.float64), attention[0]


def _check_rows(attention: np.ndarray) -> None:
    """Raise a ValueError unless each query's weights sum to 1."""
    sums = attention.sum(axis=-1)
    where = np.unravel_index(np.abs(sums - 1).argmax(), sums.shape)
    if abs(sums[where] - 1) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"the model's attention has a row {tuple(map(int, where))} (layer, head, query) that sums to "
            f"{sums[where]:.4g}; a query's weights must sum to 1 (±{ROW_SUM_TOLERANCE:g}): give them after the softmax"
        )


def _patch_grid(tokens: int) -> tuple[int, bool]:
    """Along each side of the image so many patches; and whether a [class] token comes before them."""
    for has_class in (True, False):
        side = math.isqrt(tokens - has_class)
        if side and side * side + has_class == tokens and SIDE % side == 0:
            return side, has_class
    raise ValueError(
        f"the model's attention has {tokens} tokens, which fits no square patches of {SIDE} × {SIDE} pixels, with or "
        "without a [class] token"
    )


def _check_examples(examples: ArrayLike | None) -> np.ndarray:
    """Examples as `(n, 28, 28)` u8."""
    if examples is None:
        return np.empty((0, SIDE, SIDE), np.uint8)
    array = as_array("examples", examples)
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 3 or array.shape[1:] != (SIDE, SIDE) or not len(array):
        hint = "; put one digit in a batch with examples[None]" if array.shape[-2:] == (SIDE, SIDE) else ""
        raise ValueError(
            f"examples has shape {tuple(np.shape(examples))}; it must be (n, {SIDE}, {SIDE}) or "
            f"(n, 1, {SIDE}, {SIDE}), with n at least 1{hint}"
        )
    check_unit("examples", array)
    return np.rint(array * 255).astype(np.uint8)
