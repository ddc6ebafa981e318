"""Look at attention: of words or of an image's patches, all heads at once. The front end is view.js."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import traitlets as t

from headroom.data import BOS, EOS, SOURCE, TARGET, Vocabulary
from headroom.figures import ArrayLike
from headroom.modes import looking_at
from headroom.reference import Transformer, attention_maps, greedy_decode, padding_mask
from headroom.widgets.attention_explorer.huggingface import eager_attention, run_huggingface
from headroom.widgets.attention_explorer.inputs import (
    CLASS_TOKEN,
    MAX_TOKENS,
    SCORES_TOLERANCE,
    ScoreCollector,
    Words,
    check_images,
    check_predictions,
    check_size,
    check_weights,
    check_words,
    cut_to_sizes,
    five_axes,
    patch_grid,
    refuse,
)
from headroom.widgets.base import Widget, choice, index, index_or_none
from headroom.widgets.checks import as_mask, check_keys_left, check_labels, check_pair
from headroom.widgets.picture import Panel
from headroom.widgets.shared import (
    Change,
    as_index,
    call_with_attention,
    front_end,
    quantise,
    softmax,
)


class AttentionExplorer(Widget):
    """Attention weights of sequences of words or of images' patches, for mouse, keyboard and screen reader.

    All heads of a layer stand side by side as small matrices, the chosen one large, with the words or the image beside
    it; pointing at a query or a key anywhere shows it everywhere. A click or Enter locks, Esc unlocks. Everything is
    sent to the browser once, so the widget answers without Python and goes on working in a saved notebook. What the
    reader chooses comes back: each choice can be read, observed and set, and `selection` has them all. `scale` is "row"
    or "all", `show` "weights", "unmasked" or "scores", and `phase` "off", "marking" or "revealed": the reader
    predicts before looking. What is hovered arrives once the pointer has rested on it for 0.3 s or has left,
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
    sample = index(lambda self: len(self._weights))  # which sequence, or which image
    layer = index(lambda self: self._n_layers)
    head = index_or_none(lambda self: self._n_heads)  # None: the mean of all heads
    # Index of a token, or of a patch row by row, or "[class]"; of the key None: the reader points at none.
    query = choice(
        t.Union([t.Int(), t.Enum([CLASS_TOKEN])], default_value=0), lambda self, name, value: self._token(name, value)
    )
    key = choice(
        t.Union([t.Int(), t.Enum([CLASS_TOKEN])], default_value=None, allow_none=True),
        lambda self, name, value: None if value is None else self._token(name, value),
    )
    locked = choice(t.Bool(False))  # True: the pointer no longer moves query and key
    # The image whose attention is drawn in place of `sample`'s own; None: no control.
    control = choice(t.Int(None, allow_none=True), lambda self, name, value: self._check_control(value))
    scale = choice(t.Enum(["row", "all"], default_value="row"))
    show = choice(
        t.Enum(["weights", "unmasked", "scores"], default_value="weights"),
        lambda self, _, value: self._check_show(value),
    )
    matrices = choice(t.Bool(True))
    phase = choice(t.Enum(["off", "marking", "revealed"], default_value="off"))
    # Keys that the reader marked as a prediction.
    marks = choice(t.List(), lambda self, name, value: [self._token(name, mark) for mark in value])

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
        weights = five_axes("attention", attention)
        n, n_layers, n_heads, n_queries, n_keys = weights.shape
        check_size(weights.shape, scores is not None)
        facts: dict[str, Any] = {"n_layers": n_layers, "n_heads": n_heads}
        pixels, has_class = b"", False
        if images is not None:
            refuse(source_tokens=source_tokens)
            array = check_images(images, n)
            if n_queries != n_keys:
                raise ValueError(
                    f"attention has shape {weights.shape}: {n_queries} queries but {n_keys} keys; "
                    "self-attention of patches has as many of both, (…, tokens, tokens)"
                )
            height, width, channels = array.shape[1:]
            rows, columns, has_class = patch_grid(height, width, n_keys, patch_size)
            pixels = np.rint(array * 255).astype(np.uint8).tobytes()
            facts |= {"rows": rows, "columns": columns, "height": height, "width": width, "channels": channels}
            classes = None if labels is None else check_labels("labels", labels, n).tolist()
            facts |= {"labels": classes, "predictions": check_predictions(predictions, n)}
            self._sizes = [(n_queries, n_keys)] * n
        else:
            refuse(patch_size=patch_size, predictions=predictions, labels=labels)
            assert tokens is not None  # one of the two was given
            queries = check_words("tokens", tokens, n, n_queries, "queries")
            if source_tokens is None and n_queries != n_keys:
                raise ValueError(
                    f"attention has shape {weights.shape}: {n_queries} queries but {n_keys} keys; "
                    "the keys need words of their own: give source_tokens"
                )
            keys = queries if source_tokens is None else check_words("source_tokens", source_tokens, n, n_keys, "keys")
            facts |= {"queries": queries, "keys": keys, "crossed": source_tokens is not None}
            self._sizes = [(len(asking), len(asked)) for asking, asked in zip(queries, keys, strict=True)]
        facts |= {"sizes": self._sizes, "has_class": has_class}
        self._weights = cut_to_sizes("attention", weights, self._sizes)
        check_weights(self._weights)
        scores_sent, mask_sent = self._check_scores(weights.shape, scores, mask)
        self._has_class, self._has_scores, self._is_image = has_class, bool(scores_sent), images is not None
        self._n_layers, self._n_heads = n_layers, n_heads

        super().__init__(
            _attention=b"".join(map(quantise, self._weights)),
            _scores=scores_sent,
            _mask=mask_sent,
            _pixels=pixels,
            # The largest of all, so that the browser need not look for it among millions.
            _facts=facts | {"largest": max(float(stack.max()) for stack in self._weights)},
            matrices=matrices,
        )
        # Set here and not above: a query must exist in the sample that is chosen.
        first = CLASS_TOKEN if has_class else 0
        self._choose(sample=sample, layer=layer, head=head, query=first if query is None else query)

    @classmethod
    def from_model(
        cls, model: torch.nn.Module, images: torch.Tensor, labels: ArrayLike | None = None, **start: Any
    ) -> AttentionExplorer:
        """Run a Vision Transformer on `images` (evaluation mode, no gradients) and show its attention.

        Args:
            model: of `headroom.reference`; or any that, called as `model(images, return_attention=True)`, answers with
                logits `(n, n_classes)` and attention `(n, n_layers, n_heads, tokens, tokens)`. Its mode (train or eval)
                is left as it was.
            images: `(n, channels, height, width)`, as the model takes them; moved to the model's device.
            labels: `(n,)`, the right classes.
            start: `sample`, `layer`, `head`, `query`, `matrices`, `patch_size`, as in the class.

        Raises:
            TypeError: the model shows no attention, or that of several stacks.
            ValueError: as the class.
        """
        images = torch.as_tensor(images)
        with looking_at(model) as device:
            logits, attention = check_pair(call_with_attention(model, images.to(device)))
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
            name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[part]
            stack = model.decoder if part in ("decoder", "cross") else model.encoder
            with (
                attention_maps(stack) as maps,
                ScoreCollector([getattr(block, name) for block in stack.blocks]) as scores,
            ):
                model(ids, given, source_mask)
        read = [[source.tokens[i] for i in row[:length]] for row, length in zip(ids.tolist(), lengths, strict=True)]
        steps = [row.index(EOS) + 1 if EOS in row else len(row) for row in written.tolist()]
        named = written if part == "cross" else given
        wrote = [[target.tokens[i] for i in row[:n]] for row, n in zip(named.tolist(), steps, strict=True)]
        n_steps = given.size(1)
        mask = torch.ones(n_steps, n_steps, dtype=torch.bool).tril() if part == "decoder" else source_mask
        words = {"encoder": (read, None), "decoder": (wrote, None), "cross": (wrote, read)}[part]
        return cls(
            maps[f"blocks.{name}"],
            tokens=words[0],
            source_tokens=words[1],
            scores=scores.stacked(),
            mask=mask.cpu(),
            **start,
        )

    @classmethod
    def from_huggingface(
        cls,
        model: Any,
        tokenizer: Any,
        text: str | Sequence[str],
        part: Literal["encoder", "decoder", "cross"] | None = None,
        target: str | Sequence[str] | None = None,
        **start: Any,
    ) -> AttentionExplorer:
        """Run a text model of Hugging Face's `transformers` (evaluation mode, no gradients) and show its attention.

        Args:
            model: an encoder (BERT), a decoder (GPT-2) or both (T5) of `transformers` 5 or newer. Its mode and the
                implementation of its attention are left as they were.
            tokenizer: the model's own.
            text: what it reads; several texts become several sequences, each run by itself.
            part: of an encoder-decoder, "encoder", "decoder" or "cross" (the default): which attention is shown. A row
                of the latter two carries the name of the token that the decoder has read.
            target: of an encoder-decoder, what its decoder reads after its start token, one for each of `text`; None:
                what it writes greedily, at most 100 tokens.
            start: `sample`, `layer`, `head`, `query`, as in the class.

        Raises:
            ValueError: the model gives no attention weights, or an argument does not belong to such a model.
        """
        texts = [text] if isinstance(text, str) else list(text)
        targets = [target] if isinstance(target, str) else [None] * len(texts) if target is None else list(target)
        if not texts or len(targets) != len(texts):
            raise ValueError(f"there are {len(texts)} texts and {len(targets)} targets; give a target for each text")
        if not model.config.is_encoder_decoder and (part, target) != (None, None):
            raise ValueError(
                f"part={part!r} and target={target!r} are for encoder-decoders; {type(model).__name__} has one stack"
            )
        if part not in (None, "encoder", "decoder", "cross"):
            raise ValueError(f'part={part!r} must be "encoder", "decoder" or "cross"')
        part = (part or "cross") if model.config.is_encoder_decoder else None
        runs = []
        with looking_at(model) as device, eager_attention(model):
            for given, written in zip(texts, targets, strict=True):
                runs.append(run_huggingface(model, tokenizer, given, part, written, device))
        maps, words, source = zip(*runs, strict=True)
        sizes = [max(len(row) for row in rows) for rows in (words, source)]
        attention = np.zeros((len(maps), *maps[0].shape[:2], *sizes), np.float32)
        for i, weights in enumerate(maps):
            attention[i, :, :, : weights.shape[2], : weights.shape[3]] = weights
        return cls(attention, tokens=words, source_tokens=source if part == "cross" else None, **start)

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

    def _panels(self) -> list[Panel]:
        maps = self._weights[self.sample][self.layer]
        shown = maps.mean(axis=0) if self.head is None else maps[self.head]
        facts = self._facts
        if not self._is_image:
            return [
                Panel(f"Weights of {self._whose()}", shown, facts["queries"][self.sample], facts["keys"][self.sample])
            ]
        pixels = np.frombuffer(self._pixels, np.uint8).reshape(-1, facts["height"], facts["width"], facts["channels"])
        image = pixels[self.sample] / 255
        grey = image.shape[-1] == 1
        label = f" (a {facts['labels'][self.sample]})" if facts["labels"] else ""
        grid = (facts["rows"], facts["columns"])
        return [
            Panel(f"Image {self.sample + 1}{label}", image[..., 0] if grey else image, ink=grey, patches=grid),
            Panel(f"Weights of {self._whose()}", self.selected_weights.reshape(grid)),
        ]

    def _says(self) -> str:
        if self._is_image:
            query = self.query if isinstance(self.query, str) else f"patch {self.query + 1}"
            return f"Image {self.sample + 1}, and beside it how {query} weights its patches, in {self._whose()}."
        return (
            f"The attention weights of sequence {self.sample + 1}, in {self._whose()}: queries are rows, keys are "
            "columns, and each row sums to 1."
        )

    def _whose(self) -> str:
        return f"layer {self.layer + 1}, {'mean of heads' if self.head is None else f'head {self.head + 1}'}"

    def __repr__(self) -> str:
        what = f"{len(self._weights)} {'images' if self._is_image else 'sequences'}"
        if self._is_image:
            rows, columns = self._facts["rows"], self._facts["columns"]
            tokens = f"{rows} × {columns} patches{' + [class]' if self._has_class else ''}"
        else:
            most = [max(sizes) for sizes in zip(*self._sizes, strict=True)]
            tokens = f"up to {most[0]} queries × {most[1]} keys"
        return f"AttentionExplorer({what}, {self._n_layers} layers, {self._n_heads} heads, {tokens})"

    def _check_control(self, control: int | None) -> int | None:
        if control is None:
            return None
        if not self._is_image:
            raise ValueError("control is for images: sequences of words differ in length")
        return as_index("control", control, len(self._weights))

    def _check_show(self, show: str) -> str:
        if show != "weights" and not self._has_scores:
            raise ValueError(f'show="{show}" needs scores and mask, which this widget was not given')
        return show

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
        array = five_axes("scores", scores)
        if array.shape != shape:
            raise ValueError(f"scores has shape {array.shape}; it must have that of attention, {shape}")
        allowed = as_mask(mask)
        try:
            allowed = np.broadcast_to(allowed, (shape[0], 1, *shape[3:]))[:, None]  # (n, 1, 1, n_queries, n_keys)
        except ValueError:
            raise ValueError(
                f"mask has shape {allowed.shape}; it must broadcast to {(shape[0], 1, *shape[3:])}, "
                "(n, 1, n_queries, n_keys): the same for all layers and heads"
            ) from None
        cut, cut_mask = cut_to_sizes("scores", array, self._sizes), cut_to_sizes("mask", allowed, self._sizes)
        for sample, (weights, ours, may) in enumerate(zip(self._weights, cut, cut_mask, strict=True)):
            check_keys_left(may, f" of sample {sample}")
            off = np.abs(softmax(np.where(may, ours, -np.inf)) - weights)
            if off.max() > SCORES_TOLERANCE:
                where = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
                raise ValueError(
                    f"scores and mask do not make attention: at {(sample, *where)} (sample, layer, head, query, key) "
                    f"softmax(scores where mask) and attention differ by {off.max():.3g}; "
                    "scores are scaled (divided by √d_head) and not masked yet"
                )
        sent = b"".join(part.astype("<f4").tobytes() for part in cut)
        return sent, b"".join(np.ascontiguousarray(part).astype(np.uint8).tobytes() for part in cut_mask)
