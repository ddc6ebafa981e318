"""What the exercises of lab 5 share: tokens, cases of a block and of a stack, and how layers are read."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder import reading
from autograder.covering import Axis, Choice, Only, Sizes, sequence_length
from autograder.exercise import Build, Case, Evidence, Inputs, Parameter, Property, Weights
from autograder.exercises import multi_head
from autograder.exercises.attention import masked
from autograder.exercises.known import mistake, overwritten

# --- Cases -------------------------------------------------------------------------------------------------------

D_FF = (7, 9, 11, 13, 17)  # never a multiple of d_model: a width of one's own choice is seen
OWN_WIDTH_SHOWS = Only(lambda sizes: sizes["d_model"] > 1 and sizes["d_ff"] % sizes["d_model"] != 0)
NORM_SHOWS = Only(lambda sizes: sizes["d_model"] > 2)  # of two numbers, a LayerNorm keeps only which one is larger
BLOCK_AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    *multi_head.HEADS,
    Axis("d_ff", least=5, most=17, build=True),
    Choice("mask", (None, "causal", "padding", "both")),
    OWN_WIDTH_SHOWS,
    NORM_SHOWS,
)


def stream(source: np.random.Generator, shape: tuple[int, ...], size: float = 1.5) -> np.ndarray:
    """Tokens that no norm leaves as they are: off centre, and of different sizes."""
    return size * source.normal(size=shape) * source.uniform(0.5, 2.0, (*shape[:-1], 1)) + 0.5 * size


def block_sizes(rng: np.random.Generator) -> tuple[int, ...]:
    """batch, tokens, d_head, n_heads, d_ff: all different, and different from d_model."""
    while True:
        batch, tokens, d_head, n_heads = map(int, rng.choice([2, 3, 4, 5, 6], size=4, replace=False))
        d_ff = int(rng.choice(D_FF))
        if tokens > 2 and d_head * n_heads not in (batch, tokens, d_head, n_heads, d_ff):
            return batch, tokens, d_head, n_heads, d_ff


def block_case(
    tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: str = "", size: float = 1.5, **kwargs: Any
) -> Case:
    """A case for a block, or, where the sizes begin with a number of layers, for a stack of them.

    mask: "padding", "causal", or "twins": padding, and two sequences that differ in the filler only.
    """
    *n_layers, batch, tokens, d_head, n_heads, d_ff = map(int, sizes)
    d_model = n_heads * d_head
    x = stream(source, (batch, tokens, d_model), size)
    inputs: Inputs = (x,)
    if mask == "causal":
        inputs = (x, np.tril(np.ones((1, 1, tokens, tokens), dtype=bool)))
    elif mask:
        lengths = source.permutation(tokens - 1 - np.arange(batch) % (tokens - 1))[:, None]  # 1 … tokens − 1
        if mask == "twins":
            lengths = np.full((batch, 1), tokens - 2)
            x[:, : tokens - 2] = x[:1, : tokens - 2]
        inputs = (x, (np.arange(tokens) < lengths)[:, None, None, :])
    layers = [f"{n} layer{'s' * (n > 1)}, " for n in n_layers]
    label = f"{''.join(layers)}batch {batch}, tokens {tokens}, d_model {d_model}, {n_heads} heads, d_ff {d_ff}"
    label += {"": "", "causal": ", causal mask"}.get(mask, ", padding mask")
    label += ", large weights" if kwargs.get("scale", 1.0) > 1 else ""
    return Case(tag, label, inputs, (*n_layers, d_model, n_heads, d_ff), **kwargs)


def drawn_block(sizes: Sizes, rng: np.random.Generator) -> Case:
    """A case of drawn sizes, as `block_case` makes them: where these name n_layers, for a stack."""
    shape = sizes["batch"], sizes["tokens"], sizes["d_model"]
    mask, layers = sizes["mask"], [sizes["n_layers"]] if "n_layers" in sizes else []
    inputs: Inputs = (stream(rng, shape),)
    if mask is not None:
        inputs += (multi_head.with_heads(masked(mask, *shape[:2], shape[1], rng)),)
    tag = "mask" if mask else "values" if layers else "attention"
    return Case(tag, "", inputs, (*layers, sizes["d_model"], sizes["n_heads"], sizes["d_ff"]))


def _filler_has_no_say(case: Case, output: np.ndarray) -> bool | None:
    """Of two sequences that differ in what the mask hides, the real tokens come out alike."""
    if len(case.inputs) < 2 or case.inputs[1].shape[2] > 1:
        return None
    x, real = case.inputs[0], case.inputs[1][:, 0, 0]
    if len(x) < 2 or not (real == real[0]).all() or not np.array_equal(x[0, real[0]], x[1, real[0]]):
        return None
    return bool(np.allclose(output[0, real[0]], output[1, real[0]], atol=1e-9))


FILLER_HAS_NO_SAY = Property("what the mask hides has no say in the other tokens", _filler_has_no_say)

LIKE_X = "a tensor of the shape of x, (batch, tokens, d_model)"
DONE_FOR_YOU = frozenset(
    {
        "multi_head_attention_forward",
        "_native_multi_head_attention",
        "transformer_encoder_layer_forward",
        "_transformer_encoder_layer_fwd",
    }
)
DONE_FOR_YOU_REASON = "The task is to put the block together yourself, around the attention that is given."


# --- Reading a student's parameters ------------------------------------------------------------------------------


def network_shapes(d_model: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    return {
        "expand.weight": (d_ff, d_model),
        "expand.bias": (d_ff,),
        "shrink.weight": (d_model, d_ff),
        "shrink.bias": (d_model,),
    }


def fitted(weights: Weights, role: str, d_model: int, d_ff: int) -> Weights:
    """`weights` with a feed-forward network of the task's shapes at `role`.

    One of another width is kept beside it, as "own.", and what is missing gets numbers of its own: then the answer
    differs, and the mistake can be looked for.
    """
    shapes = network_shapes(d_model, d_ff)
    own = {part: weights.pop(f"{role}{part}") for part in shapes if f"{role}{part}" in weights}
    if own["expand.weight"].shape != shapes["expand.weight"]:
        weights |= {f"{role}own.{part}": tensor for part, tensor in own.items()}
        own = {}
    return weights | {f"{role}{p}": own.get(p, reading.numbers(role + p, shape)) for p, shape in shapes.items()}


def of_own_width(weights: Weights, role: str = "") -> dict[str, Tensor | None]:
    """The network at `role` in the width that a student chose; where that is the task's, one narrower by one."""
    own = {part: weights.get(f"{role}own.{part}") for part in network_shapes(0, 0)}
    if own["expand.weight"] is not None:
        return own
    whole = {part: weights.get(f"{role}{part}") for part in own}
    whole |= {part: t[:-1] for part, t in whole.items() if t is not None and part.startswith("expand")}
    assert whole["shrink.weight"] is not None  # the task cannot do without it
    return whole | {"shrink.weight": whole["shrink.weight"][:, :-1]}


def mappings(
    parameters: dict[str, tuple[Parameter, Tensor]], d_model: int, n_heads: int, d_ff: int, layers: int | None = None
) -> Iterator[Weights]:
    """By the names of headroom.reference; "present" counts the student's blocks. Without any attention: nothing."""
    found = reading.units(parameters, d_model, n_heads)
    attentions, norms, networks = (reading.of_kind(found, kind) for kind in ("attention", "norm", "feed_forward"))
    if not attentions:
        yield {}
        return
    norms = norms or [reading.absent("norm", {"gamma": (d_model,), "beta": (d_model,)})]
    networks = networks or [reading.absent("feed_forward", network_shapes(d_model, d_ff))]
    blocks = max(layers, len(attentions)) if layers else None
    roles = [f"blocks.{i}.feed_forward." for i in range(blocks)] if blocks else ["feed_forward."]
    ways = itertools.product(
        reading.orders(attentions, ("attention",), blocks, among=found),
        reading.orders(networks, ("feed_forward",), blocks, among=found),
        reading.orders(norms, ("norm_1", "norm_2"), blocks, last="norm" if layers else None, among=found),
    )
    for attention, network, norm in ways:
        weights = reading.named(attention | network | norm)
        for role in roles:
            weights = fitted(weights, role, d_model, d_ff)
        yield weights | {"present": torch.tensor(len(attentions))}


def of_layer(weights: Weights, name: str) -> Weights:
    """The weights of the layer called `name`, by their names in it."""
    return {role.removeprefix(f"{name}."): tensor for role, tensor in weights.items() if role.startswith(f"{name}.")}


def roles(kind: type[nn.Module], build: Build, n_heads: int) -> reading.Roles:
    """The task demands both biases of the feed-forward network; it says nothing of those of the attention."""
    return reading.roles_of(reading.empty(kind, build), n_heads, demanded=("expand", "shrink"))


# --- What shows in something other than outputs ------------------------------------------------------------------


def _unregistered(seen: Evidence) -> bool:
    """A container holds layers, and fewer numbers are registered than the task has in its weights alone."""
    build = seen.cases[0].built_with  # (d_model, d_ff), (d_model, n_heads, d_ff) or (n_layers, d_model, n_heads, d_ff)
    d_model, d_ff = build[0] if len(build) == 2 else build[-3], build[-1]
    needed = 2 * d_model * d_ff
    if len(build) > 2:
        needed = (build[0] if len(build) == 4 else 1) * (needed + 4 * d_model**2 + 4 * d_model)
    registered = sum(math.prod(parameter.shape) for parameter in seen.parameters)
    return registered < needed and any(item["kind"] in ("list", "tuple", "dict", "Tensor") for item in seen.loose)


UNREGISTERED = mistake(
    "patch_embedding.unregistered",
    "Count `list(module.parameters())`. Which container tells the module about the layers that it holds?",
    sign=_unregistered,
)
OVERWRITTEN = overwritten()
