"""Inputs of sizes that no case of an exercise has: one of everything, many tokens, equal sizes, other widths."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograder.exercise import Case

Sizes = Callable[..., int]  # draws one of the numbers given
FEW, MANY = (1, 2, 3, 4), (1, 2, 3, 5, 9, 17)
LONG = (1, 2, 4, 11, 70)


def further(exercise: str, rng: np.random.Generator, rounds: int = 6) -> Iterator[list[Case]]:
    """Groups of three cases that one object can answer: of one constructor's arguments, and of different sizes."""
    if exercise not in MAKERS:
        return
    for _ in range(rounds):

        def size(*choices: int) -> int:
            return int(rng.choice(choices))

        build, make = MAKERS[exercise](rng, size)
        group = []
        for _ in range(3):
            inputs, *steps = make()
            shapes = ", ".join(str(v.shape) if isinstance(v, np.ndarray) else repr(v)[:12] for v in inputs)
            said = f"{'' if build is None else f'{build}, '}inputs {shapes}"
            group.append(Case("", said, inputs, build, steps=steps[0] if steps else None))
        yield group


Made = tuple[Any, Callable[[], tuple[Any, ...]]]  # the constructor's arguments, and what makes a call's


def _qkv(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        d_model = size(*MANY)
        width = size(*MANY)
        return (
            (
                rng.normal(size=(size(*FEW), size(*LONG), d_model)),
                rng.normal(size=(d_model, width)),
                rng.normal(size=(d_model, width)),
                rng.normal(size=(d_model, size(*MANY))),
            ),
        )

    return None, make


def _lead(size: Sizes) -> tuple[int, ...]:
    return tuple(size(*FEW) for _ in range(size(0, 1, 1, 2, 3)))


def _scores(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        lead, d_k = _lead(size), size(*MANY)
        return ((rng.normal(size=(*lead, size(*LONG), d_k)), rng.normal(size=(*lead, size(*LONG), d_k))),)

    return None, make


def _may(rng: np.random.Generator, lead: tuple[int, ...], queries: int, keys: int) -> np.ndarray:
    """A mask under which each query has a key: hidden keys, hidden future, or anything."""
    kind = rng.integers(3)
    if kind == 0:
        lengths = rng.integers(1, keys + 1, size=(*lead[:1], *[1] * max(len(lead) - 1, 0), 1, 1))
        return np.arange(keys) < lengths
    if kind == 1:
        return np.tril(np.ones((queries, keys), dtype=bool))
    may = rng.random((*lead, queries, keys)) < 0.5
    return may | (np.arange(keys) == rng.integers(keys, size=(*lead, queries, 1)))


def _attention(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        lead, d_k, queries, keys = _lead(size), size(*MANY), size(*LONG), size(*LONG)
        inputs = (
            rng.normal(size=(*lead, queries, d_k)),
            rng.normal(size=(*lead, keys, d_k)),
            rng.normal(size=(*lead, keys, size(*MANY))),
        )
        return ((*inputs, _may(rng, lead, queries, keys)) if rng.random() < 0.6 else inputs,)

    return None, make


def _softmaxed(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _weights(rng: np.random.Generator, lead: tuple[int, ...], queries: int, keys: int) -> np.ndarray:
    scores = rng.normal(size=(*lead, queries, keys))
    if rng.random() < 0.4:
        scores = np.where(_may(rng, lead, queries, keys), scores, -np.inf)
    return _softmaxed(scores)


def _softmax_backward(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        weights = _weights(rng, _lead(size), size(*MANY), size(*MANY))
        return ((rng.normal(1.5, 2.0, weights.shape), weights),)

    return None, make


def _norm_backward(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        d = size(2, 3, 8, 17)
        shape = (*_lead(size), d)
        return ((rng.normal(size=shape), rng.normal(1.0, 3.0, shape), rng.normal(size=d)),)

    return None, make


def _attention_backward(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        lead, queries, keys, d_k, d_v = _lead(size), size(*MANY), size(*MANY), size(*FEW, 9), size(*FEW, 9)
        q, k, v = (rng.normal(size=(*lead, *s)) for s in ((queries, d_k), (keys, d_k), (keys, d_v)))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(d_k)
        if rng.random() < 0.4:
            scores = np.where(_may(rng, lead, queries, keys), scores, -np.inf)
        return ((rng.normal(size=(*lead, queries, d_v)), q, k, v, _softmaxed(scores)),)

    return None, make


def _heads(size: Sizes) -> tuple[int, int]:
    n_heads = size(1, 2, 3, 4)
    return n_heads * size(1, 2, 3, 5), n_heads


def _padding(rng: np.random.Generator, batch: int, keys: int) -> np.ndarray:
    return (np.arange(keys) < rng.integers(1, keys + 1, size=(batch, 1)))[:, None, None]


def _head_mask(rng: np.random.Generator, batch: int, tokens: int) -> np.ndarray:
    causal = np.tril(np.ones((1, 1, tokens, tokens), dtype=bool))
    kind = rng.integers(3)
    return causal if kind == 0 else _padding(rng, batch, tokens) if kind == 1 else causal & _padding(rng, batch, tokens)


def _self_attention(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, n_heads = _heads(size)

    def make() -> tuple[Any, ...]:
        return (_tokens(rng, size, d_model),)

    return (d_model, n_heads), make


def _tokens(rng: np.random.Generator, size: Sizes, d_model: int) -> tuple[Any, ...]:
    batch, tokens = size(*FEW), size(*LONG)
    x = rng.normal(size=(batch, tokens, d_model))
    return (x, _head_mask(rng, batch, tokens)) if rng.random() < 0.6 else (x,)


def _encoder_block(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, n_heads = _heads(size)
    return (max(2, d_model), n_heads if d_model > 1 else 1, size(1, 5, 8, 16)), lambda: (
        _tokens(rng, size, max(2, d_model)),
    )


def _encoder(rng: np.random.Generator, size: Sizes) -> Made:
    build, make = _encoder_block(rng, size)
    return (size(1, 2, 3, 4), *build), make


def _cross(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, n_heads = _heads(size)

    def make() -> tuple[Any, ...]:
        batch, tokens, source = size(*FEW), size(*LONG), size(*LONG)
        x, memory = rng.normal(size=(batch, tokens, d_model)), rng.normal(size=(batch, source, d_model))
        return ((x, memory, _padding(rng, batch, source)) if rng.random() < 0.6 else (x, memory),)

    return (d_model, n_heads), make


def _decoder_block(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, n_heads = _heads(size)
    d_model = d_model if d_model > 1 else 2

    def make() -> tuple[Any, ...]:
        batch, tokens, source = size(*FEW), size(*LONG), size(*LONG)
        x, memory = rng.normal(size=(batch, tokens, d_model)), rng.normal(size=(batch, source, d_model))
        mask = np.tril(np.ones((tokens, tokens), dtype=bool)) if rng.random() < 0.6 else None
        return ((x, memory, mask, _padding(rng, batch, source) if rng.random() < 0.6 else None),)

    return (d_model, n_heads, size(1, 5, 8, 16)), make


def _cached(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, n_heads = _heads(size)

    def make() -> tuple[Any, ...]:
        steps = tuple(size(1, 1, 2, 5, 30) for _ in range(size(1, 2, 4)))
        return ((rng.normal(size=(size(*FEW), sum(steps), d_model)),), steps)

    return (d_model, n_heads), make


def _loss(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        batch, tokens, classes = size(*FEW), size(2, 3, 9, 40), size(3, 5, 12)
        pad = size(0, classes - 1, 1)
        ids = rng.choice([c for c in range(classes) if c != pad], size=(batch, tokens))
        lengths = np.maximum(2 * (np.arange(batch) == 0), rng.integers(1, tokens + 1, batch))
        ids = np.where(np.arange(tokens) < lengths[:, None], ids, pad)
        return ((rng.normal(size=(batch, tokens, classes)), ids, pad),)

    return None, make


def _training(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        features, classes, images = size(1, 2, 3, 7), size(2, 3, 7), size(1, 2, 3, 7, 20)
        weights, x = rng.normal(size=(features, classes)), rng.normal(size=(images, features))
        return ((weights, x, rng.integers(0, classes, images), 0.3, size(1, 2, 3, 7, 50)),)

    return None, make


def _masked(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        batch, tokens, d = size(*FEW), size(*LONG), size(*MANY)
        q, k, v = (rng.normal(size=(batch, tokens, d)) for _ in range(3))
        return ((q, k, v, rng.integers(1, tokens + 1, batch), bool(rng.random() < 0.5)),)

    return None, make


def _embedded(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        ids = rng.integers(0, 5, (size(*FEW), size(*LONG)))
        return ((rng.normal(size=(5, size(2, 4, 6, 10))), ids, size(0, 1, 40)),)

    return None, make


def _letters(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        n_tokens, batch, longest = size(3, 5, 12), size(*FEW), size(2, 3, 12)
        end = size(0, 1, n_tokens - 1)
        words = rng.choice([t for t in range(n_tokens) if t != end], size=(batch, longest))
        lengths = rng.integers(2, longest + 1, batch)
        words = np.where(np.arange(longest) < lengths[:, None] - 1, words, end)
        return ((rng.normal(size=(n_tokens, n_tokens)), words, end),)

    return None, make


def _decoded(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        batch, n_target, max_tokens = size(*FEW), size(3, 5, 12), size(1, 2, 6, 20)
        start, end = map(int, rng.choice(n_target, 2, replace=False))
        model = {
            "$make": "next_logits",
            "rows": rng.normal(size=(batch, max_tokens + 2, n_target)),
            "before": rng.normal(size=(max_tokens + 2, n_target, n_target)),
        }
        return ((model, start, end, max_tokens, batch),)

    return None, make


def _norm(rng: np.random.Generator, size: Sizes) -> Made:
    d_model = size(2, 3, 8, 33)
    build = (d_model,) if rng.random() < 0.5 else (d_model, 0.1)
    return build, lambda: ((rng.normal(1.0, 3.0, (*_lead(size), d_model)),),)


def _feed_forward(rng: np.random.Generator, size: Sizes) -> Made:
    d_model = size(*MANY)
    return (d_model, size(1, 5, 9, 33)), lambda: ((rng.normal(size=(*_lead(size), d_model)),),)


def _padded(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        n_tokens = size(*LONG)
        return ((rng.integers(0, n_tokens + 1, size(1, 2, 5)), n_tokens),)

    return None, make


def _positions(rng: np.random.Generator, size: Sizes) -> Made:
    d_model, longest = size(1, 2, 3, 8, 33), size(3, 9, 90)
    return (d_model, longest), lambda: ((rng.normal(size=(size(*FEW), int(rng.integers(1, longest + 1)), d_model)),),)


def _images(rng: np.random.Generator, size: Sizes, patch_size: int, channels: int) -> np.ndarray:
    return rng.normal(size=(size(*FEW), channels, patch_size * size(*FEW), patch_size * size(*FEW)))


def _patches(rng: np.random.Generator, size: Sizes) -> Made:
    def make() -> tuple[Any, ...]:
        patch_size = size(*FEW, 7)
        return ((_images(rng, size, patch_size, size(*FEW)), patch_size),)

    return None, make


def _patch_embedding(rng: np.random.Generator, size: Sizes) -> Made:
    patch_size, channels = size(*FEW, 7), size(1, 2, 3)
    return (patch_size, channels, size(*MANY)), lambda: ((_images(rng, size, patch_size, channels),),)


def _vit(rng: np.random.Generator, size: Sizes) -> Made:
    n_heads = size(1, 2, 3)
    patch_size, channels = size(1, 2, 4), size(1, 2, 3)
    side = patch_size * size(1, 2, 5)
    build = (side, patch_size, channels, size(1, 2, 9), n_heads * size(2, 3, 4), size(1, 2, 3), n_heads, size(1, 8, 17))
    return build, lambda: ((rng.normal(size=(size(*FEW), channels, side, side)),),)


MAKERS: dict[str, Callable[[np.random.Generator, Sizes], Made]] = {
    "project_qkv": _qkv,
    "attention_scores": _scores,
    "scaled_dot_product_attention": _attention,
    "softmax_backward": _softmax_backward,
    "layer_norm_backward": _norm_backward,
    "attention_backward": _attention_backward,
    "CachedSelfAttention": _cached,
    "sequence_loss": _loss,
    "train_one_pass": _training,
    "masked_attention": _masked,
    "embed_tokens": _embedded,
    "letters_right": _letters,
    "CrossAttention": _cross,
    "DecoderBlock": _decoder_block,
    "greedy_decode": _decoded,
    "FeedForward": _feed_forward,
    "EncoderBlock": _encoder_block,
    "Encoder": _encoder,
    "LayerNorm": _norm,
    "padding_mask": _padded,
    "causal_mask": lambda rng, size: (None, lambda: ((size(1, 2, 3, 8, 70),),)),
    "MultiHeadSelfAttention": _self_attention,
    "RMSNorm": _norm,
    "sinusoidal_encoding": lambda rng, size: (None, lambda: ((size(*LONG), size(1, 2, 3, 8, 33)),)),
    "PositionalEncoding": _positions,
    "patchify": _patches,
    "PatchEmbedding": _patch_embedding,
    "ViT": _vit,
}
