"""What an AttentionStepper takes, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from headroom.figures import ArrayLike
from headroom.modes import looking_at
from headroom.reference import attention_maps
from headroom.widgets.checks import as_mask, check_finite, check_keys_left, check_list, check_strings
from headroom.widgets.shared import as_array

MAX_TOKENS = 20  # rows of numbers that fit on a screen; a Vision Transformer's 16 patches and [class] are 17
MAX_WIDTH = 16  # numbers in a row


def listen(model: torch.nn.Module, attention: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """What an attention's maps give (`w_q`, `w_k`, `w_v`), what enters `w_o`, its mask, and its weights if known."""
    heard: dict[str, torch.Tensor] = {}
    signature = inspect.signature(attention.forward)

    def maps_to(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: heard.__setitem__(name, output)

    def called(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        mask = signature.bind(*args, **kwargs).arguments.get("mask")
        if mask is not None:
            heard["mask"] = mask
        if isinstance(output, tuple) and len(output) > 1:
            heard["weights"] = output[1]

    hooks = [getattr(attention, name).register_forward_hook(maps_to(name)) for name in ("w_q", "w_k", "w_v")]
    w_o = attention.get_submodule("w_o")
    hooks.append(w_o.register_forward_pre_hook(lambda _module, args: heard.__setitem__("w_o", args[0])))
    hooks.append(attention.register_forward_hook(called, with_kwargs=True))
    try:
        with looking_at(model) as device, attention_maps(attention) as maps:
            model(*(value.to(device) if isinstance(value, torch.Tensor) else value for value in inputs))
    finally:
        for hook in hooks:
            hook.remove()
    if len(maps) == 1:
        heard["weights"] = next(iter(maps.values()))[:, 0]  # of one layer
    for name in ("w_q", "w_k", "w_v", "w_o"):
        if name not in heard:
            raise ValueError(
                f"{type(attention).__name__} does not use its {name} in this call; its numbers are unknown"
            )
        if heard[name].dim() != 3:
            raise ValueError(
                f"{name} works on a tensor of shape {tuple(heard[name].shape)}; it must be (batch, tokens, width)"
            )
    return heard


def check_matrix(name: str, value: ArrayLike) -> np.ndarray:
    """Two axes, float64, finite."""
    array = as_array(name, value)
    if array.ndim != 2 or 0 in array.shape:
        form = {"q": "(n_queries, d_k)", "k": "(n_keys, d_k)", "v": "(n_keys, d_v)"}[name]
        pick = {1: f"; of one token: {name}[None]", 3: f"; pick one sample: {name}[0]"}
        hint = pick.get(array.ndim, f"; pick one sample and one head: {name}[0, 0]" if array.ndim == 4 else "")
        raise ValueError(f"{name} has shape {array.shape}; it must be {form}{hint}")
    check_finite(name, array)
    return array.astype(np.float64)


def check_sizes(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[int, int, int, int]:
    """n_queries, n_keys, d_k, d_v."""
    (n_queries, d_k), (n_keys, d_v) = q.shape, v.shape
    if k.shape[1] != d_k:
        raise ValueError(
            f"q has shape {q.shape} and k {k.shape}: queries of {d_k} numbers and keys of {k.shape[1]}; "
            "a dot product needs as many of both"
        )
    if len(k) != n_keys:
        raise ValueError(f"k has shape {k.shape} and v {v.shape}; every one of the {len(k)} keys needs its value")
    for what, size, most, hint in (
        ("q has {} queries", n_queries, MAX_TOKENS, f"Each is computed on its own, so show some: q[:{MAX_TOKENS}]"),
        ("k has {} keys", n_keys, MAX_TOKENS, "A softmax over some of them is another softmax: take a shorter text"),
        (
            "q and k have rows of d_k={}",
            d_k,
            MAX_WIDTH,
            "A part of a dot product is another number: take a narrower head",
        ),
        (
            "v has rows of d_v={}",
            d_v,
            MAX_WIDTH,
            f"Each entry is computed on its own, so show some: v[:, :{MAX_WIDTH}]",
        ),
    ):
        if size > most:
            raise ValueError(f"{what.format(size)}; at most {most} can be followed on a screen. {hint}")
    return n_queries, n_keys, d_k, d_v


def check_mask(mask: ArrayLike | None, n_queries: int, n_keys: int) -> np.ndarray:
    """Bool `(n_queries, n_keys)`."""
    if mask is None:
        return np.ones((n_queries, n_keys), dtype=bool)
    may = as_mask(mask)
    shape = may.shape
    while may.ndim > 2 and may.shape[0] == 1:
        may = may[0]
    try:
        may = np.broadcast_to(may, (n_queries, n_keys)).copy()
    except ValueError:
        raise ValueError(
            f"mask has shape {shape}; it must broadcast to {(n_queries, n_keys)}, (n_queries, n_keys)"
        ) from None
    check_keys_left(may)
    return may


def check_words(
    tokens: Sequence[str] | None, source_tokens: Sequence[str] | None, n_queries: int, n_keys: int
) -> tuple[list[str] | None, list[str] | None]:
    """The words of the queries and of the keys; None: numbered."""
    if source_tokens is None and tokens is not None and n_queries != n_keys:
        raise ValueError(
            f"there are {n_queries} queries but {n_keys} keys; the keys need words of their own: give source_tokens"
        )
    lists = []
    for name, words, size, what in (
        ("tokens", tokens, n_queries, "queries"),
        ("source_tokens", tokens if source_tokens is None else source_tokens, n_keys, "keys"),
    ):
        if words is not None:
            check_list(name, words)
            check_strings(name, words)
            if len(words) != size:
                raise ValueError(f"{name} has {len(words)} words, but there are {size} {what}; name each")
        lists.append(None if words is None else list(words))
    return lists[0], lists[1]
