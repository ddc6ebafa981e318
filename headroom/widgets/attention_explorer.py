"""Look at attention: of words or of an image's patches, all heads at once. The front end is attention_explorer.js."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anywidget
import numpy as np
import torch
import traitlets as t

from headroom.data import BOS, EOS, SOURCE, TARGET, Vocabulary
from headroom.reference import MultiHeadAttention, Transformer, greedy_decode, padding_mask, rotate
from headroom.widgets.shared import (
    CHOSEN,
    ArrayLike,
    Change,
    Proposal,
    as_array,
    as_index,
    check_finite,
    check_unit,
    front_end,
    looking_at,
    quantise,
    trait_errors,
)

CLASS_TOKEN = "[class]"
ROW_SUM_TOLERANCE = 1e-3
SCORES_TOLERANCE = 1e-3  # how far softmax(scores) may be from the weights
# Everything sent is also saved in the notebook, as base64. Beyond this a notebook takes many seconds to open.
MAX_PAYLOAD_BYTES = 32 * 2**20
MAX_TOKENS = 100  # that a model may write before `from_transformer` stops it

Words = Sequence[str] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class Selection:
    """What an `AttentionExplorer` shows right now. Every index counts from 0 (the screen counts from 1)."""

    sample: int  # which sequence, or which image
    layer: int
    head: int | None  # None: the mean of all heads
    query: int | str  # index of a token, or of a patch row by row, or "[class]"
    key: int | str | None  # the key that the reader points at, as `query`; None: none
    locked: bool  # True: the pointer no longer moves query and key
    marks: tuple[int | str, ...]  # keys that the reader marked as a prediction, as `query`
    control: int | None = None  # the image whose attention is drawn in place of `sample`'s own; None: no control


class AttentionExplorer(anywidget.AnyWidget):
    """Attention weights of sequences of words or of images' patches, for mouse, keyboard and screen reader.

    All heads of a layer stand side by side as small matrices, the chosen one large, with the words or the image beside
    it; pointing at a query or a key anywhere shows it everywhere. A click or Enter locks, Esc unlocks. Everything is
    sent to the browser once, so the widget answers without Python and goes on working in a saved notebook. What the
    reader chooses comes back: the traits named in `Selection` can be read, observed and set, and so can `scale` ("row"
    or "all"), `show` ("weights", "unmasked" or "scores"), `matrices` and `phase` ("off", "marking", "revealed": the
    reader predicts before looking). What is hovered arrives once the pointer has rested on it for 0.3 s or has left,
    never while it moves.

    The weights travel as one buffer of unsigned 16-bit integers, `round(65535 * weight)`: off by at most 1 / 131070
    (7.7e-6), finer than float16 above 0.008 and two bytes a weight like it. Python keeps the exact ones. Scores travel
    as float32. Tensors may be on any device and may require gradients: they are detached and copied.

    Args:
        attention: `(n, n_layers, n_heads, n_queries, n_keys)`, weights after the softmax (rows sum to 1), for `n`
            sequences or images. Without the first axis: of one.
        tokens: text: the words of each sequence's queries, as many lists as sequences; of one sequence, a list of
            words. A sequence with fewer words than `n_queries` is padded, and what follows is left out.
        source_tokens: the words of the keys where they are others (cross-attention); None: the same as `tokens`.
        images: in place of tokens: `(n, height, width)`, `(n, 1, height, width)` or `(n, 3, height, width)`, values in
            [0, 1]. Then tokens are patches, with a [class] token in front or without.
        patch_size: side of a patch in pixels; found from the number of tokens when None.
        scores: as `attention`: before the mask and the softmax, scaled; with them the widget shows what the mask does.
        mask: bool, broadcastable to `(n, 1, n_queries, n_keys)`, True = may attend; goes with `scores`.
        predictions: images: `(n, n_classes)`, the model's probabilities.
        labels: images: `(n,)`, the right classes.
        sample, layer, head, query: what to show first; negative indices count from the end. `head` None: the mean of
            all heads. `query` is the index of a token or "[class]"; None: [class] where there is one, else the first.
        matrices: whether to show matrices beside an image; text always has them.

    Raises:
        ValueError: an argument has the wrong shape or values; the message says which, what it got, and what is right.
    """

    _esm, _css = front_end("attention_explorer")

    # Sent once; in each buffer one sample follows the other.
    _attention = t.Bytes().tag(sync=True)  # u16, little-endian: (n_layers, n_heads, n_queries, n_keys)
    _scores = t.Bytes().tag(sync=True)  # float32, little-endian: as the weights; empty without scores
    _mask = t.Bytes().tag(sync=True)  # u8: (n_queries, n_keys), 1 = may attend; empty without scores
    _pixels = t.Bytes().tag(sync=True)  # u8: (height, width, channels); empty for text
    _facts = t.Dict().tag(sync=True)  # sizes, words, labels, predictions

    # What the reader chooses; either side may change it.
    sample = t.Int(0).tag(**CHOSEN)
    layer = t.Int(0).tag(**CHOSEN)
    head = t.Int(None, allow_none=True).tag(**CHOSEN)
    query = t.Union([t.Int(), t.Enum([CLASS_TOKEN])], default_value=0).tag(**CHOSEN)
    key = t.Union([t.Int(), t.Enum([CLASS_TOKEN])], default_value=None, allow_none=True).tag(**CHOSEN)
    locked = t.Bool(False).tag(**CHOSEN)
    control = t.Int(None, allow_none=True).tag(**CHOSEN)
    scale = t.Enum(["row", "all"], default_value="row").tag(**CHOSEN)
    show = t.Enum(["weights", "unmasked", "scores"], default_value="weights").tag(**CHOSEN)
    matrices = t.Bool(True).tag(**CHOSEN)
    phase = t.Enum(["off", "marking", "revealed"], default_value="off").tag(**CHOSEN)
    marks = t.List().tag(**CHOSEN)

    def __init__(
        self,
        attention: ArrayLike,
        *,
        tokens: Words | None = None,
        source_tokens: Words | None = None,
        images: ArrayLike | None = None,
        patch_size: int | None = None,
        scores: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        predictions: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        sample: int = 0,
        layer: int = -1,
        head: int | None = None,
        query: int | str | None = None,
        matrices: bool = True,
    ) -> None:
        if (tokens is None) == (images is None):
            got = "neither" if images is None else "both"
            raise ValueError(
                f"give tokens=… (the words of a text) or images=… (whose patches are the tokens); got {got}"
            )
        weights = _five_axes("attention", attention)
        n, n_layers, n_heads, n_queries, n_keys = weights.shape
        _check_size(weights.shape, scores is not None)
        facts: dict[str, Any] = {"n_layers": n_layers, "n_heads": n_heads}
        pixels, has_class = b"", False
        if images is not None:
            _refuse(source_tokens=source_tokens)
            array = _check_images(images, n)
            if n_queries != n_keys:
                raise ValueError(
                    f"attention has shape {weights.shape}: {n_queries} queries but {n_keys} keys; "
                    "self-attention of patches has as many of both, (…, tokens, tokens)"
                )
            height, width, channels = array.shape[1:]
            rows, columns, has_class = _patch_grid(height, width, n_keys, patch_size)
            pixels = np.rint(array * 255).astype(np.uint8).tobytes()
            facts |= {"rows": rows, "columns": columns, "height": height, "width": width, "channels": channels}
            facts |= {"labels": _check_labels(labels, n), "predictions": _check_predictions(predictions, n)}
            self._sizes = [(n_queries, n_keys)] * n
        else:
            _refuse(patch_size=patch_size, predictions=predictions, labels=labels)
            assert tokens is not None  # one of the two was given
            queries = _words("tokens", tokens, n, n_queries, "queries")
            if source_tokens is None and n_queries != n_keys:
                raise ValueError(
                    f"attention has shape {weights.shape}: {n_queries} queries but {n_keys} keys; "
                    "the keys need words of their own: give source_tokens"
                )
            keys = queries if source_tokens is None else _words("source_tokens", source_tokens, n, n_keys, "keys")
            facts |= {"queries": queries, "keys": keys, "crossed": source_tokens is not None}
            self._sizes = [(len(asking), len(asked)) for asking, asked in zip(queries, keys, strict=True)]
        facts |= {"sizes": self._sizes, "has_class": has_class}
        self._weights = _cut("attention", weights, self._sizes)
        _check_weights(self._weights)
        scores_sent, mask_sent = self._check_scores(weights.shape, scores, mask)
        self._has_class, self._has_scores, self._is_image = has_class, bool(scores_sent), images is not None
        self._n_layers, self._n_heads = n_layers, n_heads

        super().__init__(
            _attention=b"".join(map(quantise, self._weights)),
            _scores=scores_sent,
            _mask=mask_sent,
            _pixels=pixels,
            # The largest of all, so that the browser need not look for it among millions.
            _facts=facts | {"largest": max(float(one.max()) for one in self._weights)},
            matrices=matrices,
        )
        # Set here and not above: a query must exist in the sample that is chosen.
        self.sample = as_index("sample", sample, n)
        self.layer = as_index("layer", layer, n_layers)
        self.head = None if head is None else as_index("head", head, n_heads)
        self.query = self._token("query", (CLASS_TOKEN if has_class else 0) if query is None else query)

    @classmethod
    def from_model(
        cls, model: torch.nn.Module, images: torch.Tensor, labels: ArrayLike | None = None, **start: Any
    ) -> AttentionExplorer:
        """Run a Vision Transformer on `images` (evaluation mode, no gradients) and show its attention.

        Args:
            model: called as `model(images, return_attention=True)`; answers with logits `(n, n_classes)` and attention
                `(n, n_layers, n_heads, tokens, tokens)`. Its mode (train or eval) is left as it was.
            images: `(n, channels, height, width)`, as the model takes them; moved to the model's device.
            labels: `(n,)`, the right classes.
            start: `sample`, `layer`, `head`, `query`, `matrices`, `patch_size`, as in the class.

        Raises:
            TypeError: the model does not answer with a pair.
            ValueError: as the class.
        """
        images = torch.as_tensor(images)
        with looking_at(model) as device:
            answer = model(images.to(device), return_attention=True)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(
                f"model(images, return_attention=True) returned {type(answer).__name__}; "
                "it must return a pair (logits, attention)"
            )
        logits, attention = answer
        return cls(attention, images=images, predictions=logits.softmax(dim=-1), labels=labels, **start)

    @classmethod
    def from_transformer(
        cls,
        model: Transformer,
        texts: Sequence[str],
        part: Literal["encoder", "decoder", "cross"] = "cross",
        source: Vocabulary = SOURCE,
        target: Vocabulary = TARGET,
        **start: Any,
    ) -> AttentionExplorer:
        """Let a Transformer read `texts` and write its answers greedily, and show the attention with which it did.

        Args:
            model: as `headroom.reference.Transformer`. Its mode (train or eval) is left as it was.
            texts: what it reads; each becomes a sequence.
            part: "encoder": the source looks at itself; "decoder": what is written looks at what was written before;
                "cross": what is written looks at the source. A written token's row is of the step that follows it, the
                first that of `<bos>`; in "cross" it carries the name of the token that this step writes.
            source, target: the vocabularies of what it reads and writes.
            start: `sample`, `layer`, `head`, `query`, as in the class.

        Raises:
            ValueError: there is no such `part`, or a text holds a character that `source` does not have.
        """
        if part not in ("encoder", "decoder", "cross"):
            raise ValueError(f'part={part!r} must be "encoder", "decoder" or "cross"')
        ids, lengths = source.encode(texts)
        with looking_at(model) as device:
            ids, lengths = ids.to(device), lengths.to(device)
            source_mask = padding_mask(lengths, ids.size(1))
            written = greedy_decode(model, ids, BOS, EOS, MAX_TOKENS, source_mask)  # (n, steps), BOS left out
            given = torch.cat([torch.full_like(written[:, :1], BOS), written[:, :-1]], dim=1)  # what each step has read
            blocks = model.encoder.blocks if part == "encoder" else model.decoder.blocks
            name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[part]
            with _Scores([getattr(block, name) for block in blocks]) as scores:
                _, attention = model(ids, given, source_mask, return_attention=True)
        read = [[source.tokens[i] for i in row[:length]] for row, length in zip(ids.tolist(), lengths, strict=True)]
        steps = [row.index(EOS) + 1 if EOS in row else len(row) for row in written.tolist()]
        named = written if part == "cross" else given
        wrote = [[target.tokens[i] for i in row[:n]] for row, n in zip(named.tolist(), steps, strict=True)]
        n_steps = given.size(1)
        mask = torch.ones(n_steps, n_steps, dtype=torch.bool).tril() if part == "decoder" else source_mask
        words = {"encoder": (read, None), "decoder": (wrote, None), "cross": (wrote, read)}[part]
        return cls(
            attention[part], tokens=words[0], source_tokens=words[1], scores=scores.stacked(), mask=mask.cpu(), **start
        )

    @property
    def selection(self) -> Selection:
        """What is selected now, as the reader sees it (read-only)."""
        return Selection(
            self.sample, self.layer, self.head, self.query, self.key, self.locked, tuple(self.marks), self.control
        )

    @property
    def selected_weights(self) -> np.ndarray:
        """The weights of the selected query, float32: of text `(keys,)`; of an image `(patches,)`, row by row.

        Of an image, what is missing from 1 is the weight of the [class] token. With `control` set they are that
        image's weights.
        """
        heads = self._weights[self.sample if self.control is None else self.control][self.layer]
        weights = heads.mean(axis=0) if self.head is None else heads[self.head]  # (queries, keys)
        first = int(self._has_class)
        query = self.query + first if isinstance(self.query, int) else 0  # [class] stands in front
        return weights[query, first:].copy()

    def __repr__(self) -> str:
        what = f"{len(self._weights)} {'images' if self._is_image else 'sequences'}"
        if self._is_image:
            rows, columns = self._facts["rows"], self._facts["columns"]
            tokens = f"{rows} × {columns} patches{' + [class]' if self._has_class else ''}"
        else:
            most = [max(sizes) for sizes in zip(*self._sizes, strict=True)]
            tokens = f"up to {most[0]} queries × {most[1]} keys"
        return f"AttentionExplorer({what}, {self._n_layers} layers, {self._n_heads} heads, {tokens})"

    # A selection is checked whoever makes it. traitlets rolls a change back on TraitError only.
    @t.validate("sample", "layer", "head", "control")
    def _valid_index(self, proposal: Proposal) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        n = len(self._weights)
        size = {"sample": n, "layer": self._n_layers, "head": self._n_heads, "control": n}[name]
        with trait_errors():
            if name == "control" and value is not None and not self._is_image:
                raise ValueError("control is for images: sequences of words differ in length")
            return None if value is None else as_index(name, value, size)

    @t.validate("query", "key")
    def _valid_token(self, proposal: Proposal) -> int | str | None:
        name, value = proposal["trait"].name, proposal["value"]
        with trait_errors():
            return None if value is None else self._token(name, value)

    @t.validate("marks")
    def _valid_marks(self, proposal: Proposal) -> list[int | str]:
        with trait_errors():
            return [self._token("marks", value) for value in proposal["value"]]

    @t.validate("show")
    def _valid_show(self, proposal: Proposal) -> str:
        if proposal["value"] != "weights" and not self._has_scores:
            raise t.TraitError(f'show="{proposal["value"]}" needs scores and mask, which this widget was not given')
        return proposal["value"]

    @t.observe("sample", "control")
    def _keep_up(self, change: Change) -> None:
        """A control shows *another* image's attention, and a query exists in its sample; the browser does the same."""
        n = len(self._weights)
        if self.control is not None and self.control == self.sample:
            self.control = None if n == 1 else (self.sample + 1) % n
        if change["name"] == "sample" and not self._is_image:
            n_queries, n_keys = self._sizes[self.sample]
            self.query = min(self.query, n_queries - 1)
            self.key = None if self.key is None else min(self.key, n_keys - 1)
            self.marks = [mark for mark in self.marks if mark < n_keys]

    def _token(self, name: str, token: int | str) -> int | str:
        n_queries, n_keys = self._sizes[self.sample]
        size = (n_queries if name == "query" else n_keys) - self._has_class
        if isinstance(token, str) and token == CLASS_TOKEN:
            if not self._has_class:
                what = f"its {size} tokens are the patches" if self._is_image else "its tokens are words"
                raise ValueError(
                    f'{name}="{CLASS_TOKEN}", but this attention has no [class] token: {what}; give an index, '
                    f"0 to {size - 1}"
                )
            return token
        if isinstance(token, str):
            raise ValueError(f'{name}="{token}" is not a token; give its index or "{CLASS_TOKEN}"')
        return as_index(name, token, size)

    def _check_scores(
        self, shape: tuple[int, ...], scores: ArrayLike | None, mask: ArrayLike | None
    ) -> tuple[bytes, bytes]:
        """Scores and mask as they are sent: only if, by masking and softmax, they make the weights."""
        if (scores is None) != (mask is None):
            raise ValueError(f"{'mask' if mask is None else 'scores'} is missing: scores and mask go together")
        if scores is None or mask is None:
            return b"", b""
        array = _five_axes("scores", scores)
        if array.shape != shape:
            raise ValueError(f"scores has shape {array.shape}; it must have that of attention, {shape}")
        allowed = as_array("mask", mask)
        if allowed.dtype != bool:
            raise ValueError(f"mask holds {allowed.dtype} values; it must be bool, True = may attend")
        try:
            allowed = np.broadcast_to(allowed, (shape[0], 1, *shape[3:]))[:, None]  # (n, 1, 1, n_queries, n_keys)
        except ValueError:
            raise ValueError(
                f"mask has shape {allowed.shape}; it must broadcast to {(shape[0], 1, *shape[3:])}, "
                "(n, 1, n_queries, n_keys): the same for all layers and heads"
            ) from None
        cut, cut_mask = _cut("scores", array, self._sizes), _cut("mask", allowed, self._sizes)
        for sample, (weights, ours, may) in enumerate(zip(self._weights, cut, cut_mask, strict=True)):
            if not may.any(axis=-1).all():
                query = int(np.argwhere(~may.any(axis=-1))[0][-1])
                raise ValueError(
                    f"mask leaves query {query} of sample {sample} no key to attend to; its weights have no meaning"
                )
            masked = np.where(may, ours, -np.inf)
            powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
            off = np.abs(powers / powers.sum(axis=-1, keepdims=True) - weights)
            if off.max() > SCORES_TOLERANCE:
                where = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
                raise ValueError(
                    f"scores and mask do not make attention: at {(sample, *where)} (sample, layer, head, query, key) "
                    f"softmax(scores where mask) and attention differ by {off.max():.3g}; "
                    "scores are scaled (divided by √d_head) and not masked yet"
                )
        sent = b"".join(one.astype("<f4").tobytes() for one in cut)
        return sent, b"".join(np.ascontiguousarray(one).astype(np.uint8).tobytes() for one in cut_mask)


class _Scores:
    """Within the block, what some attentions compute before mask and softmax: their projections, multiplied again."""

    def __init__(self, attentions: list[MultiHeadAttention]) -> None:
        self._attentions = attentions
        self._heard: dict[tuple[int, str], torch.Tensor] = {}

    def __enter__(self) -> _Scores:
        def listen(key: tuple[int, str]) -> Callable[..., None]:
            return lambda _module, _inputs, output: self._heard.__setitem__(key, output)

        self._hooks = [
            getattr(attention, name).register_forward_hook(listen((layer, name)))
            for layer, attention in enumerate(self._attentions)
            for name in ("w_q", "w_k")
        ]
        return self

    def __exit__(self, *_error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def stacked(self) -> torch.Tensor:
        """`(n, n_layers, n_heads, n_queries, n_keys)`."""
        layers = []
        for layer, attention in enumerate(self._attentions):
            q, k = (attention.split_heads(self._heard[layer, name]) for name in ("w_q", "w_k"))
            if attention.rotary:
                q, k = rotate(q), rotate(k)
            layers.append(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
        return torch.stack(layers, dim=1)


def _refuse(**arguments: object) -> None:
    """Arguments that belong to the other kind of tokens."""
    for name, value in arguments.items():
        if value is not None:
            other = "text" if name == "source_tokens" else "images"
            raise ValueError(f"{name} goes with {other}, which this widget was not given")


def _five_axes(name: str, value: ArrayLike) -> np.ndarray:
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


def _check_size(shape: tuple[int, ...], with_scores: bool) -> None:
    size = math.prod(shape) * (6 if with_scores else 2)
    if size > MAX_PAYLOAD_BYTES:
        fit = max(1, shape[0] * MAX_PAYLOAD_BYTES // size)
        raise ValueError(
            f"attention of shape {shape} makes {size / 2**20:.0f} MB to send and to save in the notebook; "
            f"at most {MAX_PAYLOAD_BYTES // 2**20} MB: show {fit} at a time, or fewer layers"
        )


def _cut(name: str, array: np.ndarray, sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    """Each sample without its padding, finite, `(n_layers, n_heads, n_queries, n_keys)` float32 (a mask: bool)."""
    cut = []
    for sample, (n_queries, n_keys) in enumerate(sizes):
        one = array[sample, ..., :n_queries, :n_keys]
        if one.dtype != bool:
            one = one.astype(np.float32)
            check_finite(f"{name}[{sample}]", one)
        cut.append(one)
    return cut


def _check_weights(samples: list[np.ndarray]) -> None:
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


def _words(name: str, words: Words, n: int, size: int, what: str) -> list[list[str]]:
    """The words of each of `n` sequences, at most `size` in each; one sequence's may come as one list."""
    if isinstance(words, str):
        raise ValueError(f"{name} is one string, {words!r}; it must be a list of words, such as {words.split()!r}")
    sequences: list[Any] = [list(words)] if n == 1 and all(isinstance(word, str) for word in words) else list(words)
    if len(sequences) != n or any(isinstance(sequence, str) for sequence in sequences):
        raise ValueError(f"attention is for {n} sequences; {name} must be a list of {n} lists of words")
    for i, sequence in enumerate(sequences):
        if not all(isinstance(word, str) for word in sequence):
            raise ValueError(f"{name}[{i}] holds something else than strings: {list(sequence)!r}")
        if not 0 < len(sequence) <= size:
            raise ValueError(f"{name}[{i}] has {len(sequence)} words, but attention has {size} {what}")
    if max(map(len, sequences)) < size:
        longest = max(map(len, sequences))
        raise ValueError(f"{name} has at most {longest} words, but attention has {size} {what}; name each")
    return [list(sequence) for sequence in sequences]


def _check_images(images: ArrayLike, n: int) -> np.ndarray:
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


def _check_labels(labels: ArrayLike | None, n: int) -> list[int] | None:
    if labels is None:
        return None
    array = as_array("labels", labels)
    if array.shape != (n,):
        raise ValueError(f"labels has shape {array.shape}; it must be ({n},), one class for each image")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels holds {array.dtype} values; classes are whole numbers")
    return array.tolist()


def _check_predictions(predictions: ArrayLike | None, n: int) -> list[list[float]] | None:
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
