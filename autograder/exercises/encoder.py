"""FeedForward, EncoderBlock and Encoder, pre-norm, around attention and LayerNorm that are given (lab 5)."""

import functools
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder import reading
from autograder.covering import Axis, Choice, Only, Sizes
from autograder.diagnosis.vocabulary import (
    INF,
    Bias,
    Mask,
    gelu,
    hide,
    linear,
    merge_heads,
    normalise,
    size,
    softmax,
    split_heads,
    transpose,
)
from autograder.exercise import (
    Build,
    Case,
    Criterion,
    Evidence,
    Exercise,
    Inputs,
    Mistake,
    Parameter,
    Property,
    Weights,
)
from autograder.exercises import multi_head
from autograder.exercises.attention import masked
from headroom import reference
from headroom.mistakes import mistake

D_FF = (7, 9, 11, 13, 17)  # never a multiple of d_model: a width of one's own choice is seen


# --- The cases ---------------------------------------------------------------------------------------------------


def _tokens(source: np.random.Generator, shape: tuple[int, ...], size: float = 1.5) -> np.ndarray:
    """Tokens that no norm leaves as they are: off centre, and of different sizes."""
    return size * source.normal(size=shape) * source.uniform(0.5, 2.0, (*shape[:-1], 1)) + 0.5 * size


def feed_forward_cases(rng: np.random.Generator) -> list[Case]:
    """Any number of leading axes, and values where the non-linearities differ most and least."""
    visible = np.random.default_rng(5)

    def case(
        tag: str, shape: tuple[int, ...], d_ff: int, source: np.random.Generator, size: float = 1.5, **kwargs: Any
    ) -> Case:
        x = _tokens(source, shape, size)
        label = f"x of shape {shape}, d_ff {d_ff}" + {1.5: "", 0.2: ", small values", 12.0: ", large values"}[size]
        return Case(tag, label, (x,), (shape[-1], d_ff), **kwargs)

    def sizes(n_axes: int) -> tuple[tuple[int, ...], int]:
        return tuple(map(int, rng.permutation([2, 3, 4, 5, 6])[:n_axes])), int(rng.choice(D_FF))

    equal = case("values", (2, 3, 4), 9, rng)
    x = equal.inputs[0].copy()
    x[1, 2] = x[0, 0]
    return [
        case("values", (2, 5, 6), 11, visible, visible=True, differentiate=True),
        case("values", *sizes(3), rng, differentiate=True),
        replace(equal, label=equal.label + ", two tokens equal", inputs=(x,)),
        case("activation", (2, 3, 4), 7, visible, 0.2, visible=True),
        case("activation", *sizes(3), rng, 12.0),
        case("axes", (4, 5), 9, visible, visible=True),
        case("axes", *sizes(1), rng),
        case("axes", *sizes(4), rng, differentiate=True),
        case("axes", (1, 1, 4), 9, rng),
        case("manners", (2, 3, 5), 13, rng, dtype="float32"),
    ]


FEED_FORWARD_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    Axis("d_model", build=True),
    Axis("d_ff", least=5, most=13, build=True),
    Only(lambda sizes: sizes["d_model"] > 1 and sizes["d_ff"] % sizes["d_model"] != 0),  # a width of one's own shows
)


def drawn_feed_forward(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, d_ff = sizes.values()
    return Case("values", "", (_tokens(rng, (batch, tokens, d_model)),), (d_model, d_ff))


def _case(
    tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: str = "", size: float = 1.5, **kwargs: Any
) -> Case:
    """A case for a block, or, where the sizes begin with a number of layers, for a stack of them.

    mask: "padding", "causal", or "twins": padding, and two sequences that differ in the filler only.
    """
    *n_layers, batch, tokens, d_head, n_heads, d_ff = map(int, sizes)
    d_model = n_heads * d_head
    x = _tokens(source, (batch, tokens, d_model), size)
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
    return Case(tag, label, inputs, (*n_layers, d_model, n_heads, d_ff), **kwargs)


def _sizes(rng: np.random.Generator) -> tuple[int, ...]:
    """batch, tokens, d_head, n_heads, d_ff: all different, and different from d_model."""
    while True:
        batch, tokens, d_head, n_heads = map(int, rng.choice([2, 3, 4, 5, 6], size=4, replace=False))
        d_ff = int(rng.choice(D_FF))
        if tokens > 2 and d_head * n_heads not in (batch, tokens, d_head, n_heads, d_ff):
            return batch, tokens, d_head, n_heads, d_ff


def block_cases(rng: np.random.Generator) -> list[Case]:
    visible = np.random.default_rng(51)
    return [
        _case("attention", (2, 5, 4, 3, 17), visible, visible=True, differentiate=True),
        _case("attention", _sizes(rng), rng, differentiate=True),
        _case("feed_forward", (2, 3, 5, 2, 7), visible, visible=True),
        _case("feed_forward", _sizes(rng), rng),
        _case("feed_forward", (3, 1, 4, 2, 11), rng),  # a single token has only itself to attend to
        _case("feed_forward", (1, 4, 3, 2, 11), rng),
        _case("mask", (2, 5, 4, 3, 9), visible, "padding", visible=True),
        _case("mask", _sizes(rng), rng, "causal", differentiate=True),
        _case("mask", (2, 6, 4, 3, 13), rng, "twins"),
        _case("manners", (2, 3, 4, 5, 7), rng, "causal", dtype="float32"),
    ]


BLOCK_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    *multi_head.HEADS,
    Axis("d_ff", least=5, most=17, build=True),
    Choice("mask", (None, "causal", "padding")),
    FEED_FORWARD_AXES[-1],
)
ENCODER_AXES = (Axis("n_layers", most=2, build=True), *BLOCK_AXES)


def drawn_block(sizes: Sizes, rng: np.random.Generator) -> Case:
    case = drawn_encoder({"n_layers": 1, **sizes}, rng)
    return replace(case, tag="mask" if sizes["mask"] else "attention", build=case.built_with[1:])


def drawn_encoder(sizes: Sizes, rng: np.random.Generator) -> Case:
    n_layers, batch, tokens, n_heads, _, d_model, d_ff, mask = sizes.values()
    inputs: Inputs = (_tokens(rng, (batch, tokens, d_model)),)
    if mask is not None:
        inputs += (multi_head.with_heads(masked(mask, batch, tokens, tokens, rng)),)
    return Case("mask" if mask else "values", "", inputs, (n_layers, d_model, n_heads, d_ff))


def encoder_cases(rng: np.random.Generator) -> list[Case]:
    visible = np.random.default_rng(52)
    return [
        _case("block", (1, 2, 4, 3, 2, 7), visible, visible=True, differentiate=True),
        _case("values", (2, 2, 4, 3, 2, 11), visible, visible=True),
        _case("values", (3, *_sizes(rng)), rng, differentiate=True),
        _case("norm", (2, 2, 3, 5, 2, 9), visible, size=30.0, visible=True),
        _case("values", (2, 1, 1, 3, 2, 9), rng),
        _case("norm", (3, *_sizes(rng)), rng, size=0.05),
        _case("mask", (2, 2, 5, 4, 3, 7), visible, "padding", visible=True),
        _case("mask", (3, *_sizes(rng)), rng, "causal"),
        _case("mask", (2, 2, 6, 4, 3, 13), rng, "twins"),
        _case("manners", (2, 2, 3, 4, 5, 7), rng, "causal", dtype="float32"),
    ]


# --- Reading a student's parameters ------------------------------------------------------------------------------


def _fitted(weights: Weights, role: str, d_model: int, d_ff: int) -> Weights:
    """`weights` with a feed-forward network of the task's shapes at `role`.

    One of another width is kept beside it, as "own.", and what is missing gets numbers of its own: then the answer
    differs, and the mistake can be looked for.
    """
    shapes = _feed_forward_shapes(d_model, d_ff)
    own = {part: weights.pop(f"{role}{part}") for part in shapes if f"{role}{part}" in weights}
    if own["expand.weight"].shape != shapes["expand.weight"]:
        weights |= {f"{role}own.{part}": tensor for part, tensor in own.items()}
        own = {}
    return weights | {f"{role}{p}": own.get(p, reading.numbers(role + p, shape)) for p, shape in shapes.items()}


def _feed_forward_shapes(d_model: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    return {
        "expand.weight": (d_ff, d_model),
        "expand.bias": (d_ff,),
        "shrink.weight": (d_model, d_ff),
        "shrink.bias": (d_model,),
    }


def feed_forward_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The two maps: linear layers, convolutions of width 1, or bare matrices in either orientation."""
    networks = reading.of_kind(reading.units(parameters, build[0], 1), "feed_forward")
    yield _fitted(dict(networks[0].tensors), "", *build) if networks else {}


def block_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    yield from _mappings(parameters, *build)


def encoder_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    yield from _mappings(parameters, *build[1:], layers=build[0])


def _mappings(
    parameters: dict[str, tuple[Parameter, Tensor]], d_model: int, n_heads: int, d_ff: int, layers: int | None = None
) -> Iterator[Weights]:
    """By the names of headroom.reference; "present" counts the student's blocks. Without any attention: nothing."""
    found = reading.units(parameters, d_model, n_heads)
    attentions, norms, networks = (reading.of_kind(found, kind) for kind in ("attention", "norm", "feed_forward"))
    if not attentions:
        yield {}
        return
    norms = norms or [reading.absent("norm", {"gamma": (d_model,), "beta": (d_model,)})]
    networks = networks or [reading.absent("feed_forward", _feed_forward_shapes(d_model, d_ff))]
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
            weights = _fitted(weights, role, d_model, d_ff)
        yield weights | {"present": torch.tensor(len(attentions))}


def _roles(kind: type[nn.Module], build: Build, n_heads: int) -> reading.Roles:
    """The task demands both biases of the feed-forward network; it says nothing of those of the attention."""
    return reading.roles_of(reading.empty(kind, build), n_heads, demanded=("expand", "shrink"))


# --- The answers, and the mistakes -------------------------------------------------------------------------------


def right_feed_forward(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.FeedForward, build), weights, inputs)


def right_block(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.EncoderBlock, build), weights, inputs)[0]


def right_encoder(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.Encoder, build), weights, inputs)[0]


BENDS = {
    "no_activation": lambda x: x,
    "relu": torch.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "softmax": lambda x: x.softmax(-1),
    "approximate": lambda x: F.gelu(x, approximate="tanh"),
    "quick": lambda x: x * torch.sigmoid(1.702 * x),
}


def feed_forward_steps(
    x: Annotated[Tensor, "batch tokens features"],
    /,
    d_model: int,
    d_ff: int,
    *,
    expand_weight: Annotated[Tensor, "", "the first map"],
    expand_bias: Annotated[Bias, "", "the bias of the first map"],
    shrink_weight: Annotated[Tensor, "", "the second map"],
    shrink_bias: Annotated[Bias, "", "the bias of the second map"],
) -> Tensor:
    """The feed-forward network, step by step."""
    wide_features = linear(x, expand_weight, expand_bias)
    bent_features = gelu(wide_features)
    return linear(bent_features, shrink_weight, shrink_bias)


def block_steps(
    x: Annotated[Tensor, "batch tokens features"],
    mask: Mask,
    /,
    d_model: int,
    n_heads: int,
    d_ff: int,
    *,
    norm_1_gamma: Annotated[Tensor, "", "γ of the first norm"],
    norm_1_beta: Annotated[Tensor, "", "β of the first norm"],
    attention_w_q_weight: Annotated[Tensor, "", "the queries' map"],
    attention_w_k_weight: Annotated[Tensor, "", "the keys' map"],
    attention_w_v_weight: Annotated[Tensor, "", "the values' map"],
    attention_w_o_weight: Annotated[Tensor, "", "the output map"],
    attention_w_q_bias: Annotated[Bias, "", "the bias of the queries"],
    attention_w_k_bias: Annotated[Bias, "", "the bias of the keys"],
    attention_w_v_bias: Annotated[Bias, "", "the bias of the values"],
    attention_w_o_bias: Annotated[Bias, "", "the bias of the output map"],
    norm_2_gamma: Annotated[Tensor, "", "γ of the second norm"],
    norm_2_beta: Annotated[Tensor, "", "β of the second norm"],
    feed_forward_expand_weight: Annotated[Tensor, "", "the network's first map"],
    feed_forward_expand_bias: Annotated[Bias, "", "the bias of the network's first map"],
    feed_forward_shrink_weight: Annotated[Tensor, "", "the network's second map"],
    feed_forward_shrink_bias: Annotated[Bias, "", "the bias of the network's second map"],
) -> Tensor:
    """A pre-norm block, step by step."""
    first_norm = normalise(x, -1) * norm_1_gamma + norm_1_beta
    queries = split_heads(linear(first_norm, attention_w_q_weight, attention_w_q_bias), n_heads)
    keys = split_heads(linear(first_norm, attention_w_k_weight, attention_w_k_bias), n_heads)
    values = split_heads(linear(first_norm, attention_w_v_weight, attention_w_v_bias), n_heads)
    d_head = size(queries, -1)
    scores = queries @ transpose(keys, -2, -1) / d_head**0.5
    visible_scores = hide(scores, mask, -INF)
    weights = softmax(visible_scores, -1)
    merged_heads = merge_heads(weights @ values)
    attention_output = linear(merged_heads, attention_w_o_weight, attention_w_o_bias)
    first_sum = x + attention_output
    second_norm = normalise(first_sum, -1) * norm_2_gamma + norm_2_beta
    wide_features = linear(second_norm, feed_forward_expand_weight, feed_forward_expand_bias)
    bent_features = gelu(wide_features)
    network_output = linear(bent_features, feed_forward_shrink_weight, feed_forward_shrink_bias)
    return first_sum + network_output


def feed_forward_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The feed-forward network with mistakes switched on."""
    return _feed_forward(inputs[0], weights, "", slips)


def _feed_forward(x: Tensor, weights: Weights, role: str, slips: frozenset[str]) -> Tensor:
    if "other_width" in slips and f"{role}own.expand.weight" in weights:
        role += "own."
    w_1, w_2 = weights[f"{role}expand.weight"], weights[f"{role}shrink.weight"]
    b_1, b_2 = weights.get(f"{role}expand.bias"), weights.get(f"{role}shrink.bias")
    if "other_width" in slips and not role.endswith("own."):  # any other width will do
        w_1, b_1, w_2 = w_1[:-1], None if b_1 is None else b_1[:-1], w_2[:, :-1]
    if slips & {"no_bias", "no_first_bias"}:
        b_1 = None
    if slips & {"no_bias", "no_second_bias"}:
        b_2 = None
    bend = next((BENDS[key] for key in slips if key in BENDS), F.gelu)
    before = bend(x) if "activation_first" in slips else x
    hidden = F.linear(before, w_1, b_1)
    if not slips & {"activation_first", "activation_last"}:
        hidden = bend(hidden)
    if "not_narrowed" in slips:
        return bend(hidden) if "activation_last" in slips else hidden
    out = F.linear(hidden, w_2, b_2)
    if slips & {"activation_last", "activation_twice"}:
        out = bend(out)
    return x + out if "inner_residual" in slips else out


def block_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """A pre-norm block with mistakes switched on."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    return _block(x, mask, weights, "", build[1], slips)


FAMILIES = ("post_norm", "no_residual", "norm_on_branch", "unnormalised", "residual_of_norm")
OF_SECOND = {"stale", "parallel", "reads_branch", "old_residual", "exchanged"}


@functools.cache
def _settled(slips: frozenset[str]) -> frozenset[str]:
    """`slips` without those that another one of them leaves no room for.

    Where two mistakes contradict each other, or come to what two others do, one of them goes. So no pair of names
    stands for what it does not say, such as a block that does nothing at all.
    """
    gone: set[str] = set()
    both = slips.intersection(FAMILIES)
    if both:
        gone |= {f"{family}_{half}" for family in FAMILIES for half in (1, 2)}
    if "no_attention" in slips:
        gone |= {*both, *(f"{family}_1" for family in FAMILIES), "no_residual_2", "residual_of_norm_2", *OF_SECOND}
    if "no_feed_forward" in slips:
        gone |= {*both, *(f"{family}_2" for family in FAMILIES), *OF_SECOND}
    if slips & {"residual_of_norm", "residual_of_norm_2"}:
        gone |= {"stale", "parallel", "reads_branch"}
    if slips & {f"{family}{half}" for family in ("unnormalised", "norm_on_branch", "post_norm") for half in ("", "_1")}:
        gone.add("stale")
    if "no_affine" in slips:
        gone |= {"parallel", "shared_norm"}
    return slips - gone


def _block(x: Tensor, mask: Tensor | None, weights: Weights, at: str, n_heads: int, slips: frozenset[str]) -> Tensor:
    slips = _settled(slips)

    def norm(number: int, t: Tensor) -> Tensor:
        if "shared_norm" in slips:
            number = 1
        return _norm(t, weights, f"{at}norm_{number}", slips)

    def attend(t: Tensor) -> Tensor:
        if "no_attention" in slips:
            return torch.zeros_like(t)
        return _attention(t, mask, weights, f"{at}attention", n_heads, slips)

    def feed_forward(t: Tensor) -> Tensor:
        if "no_feed_forward" in slips:
            return torch.zeros_like(t)
        return _feed_forward(t, weights, f"{at}feed_forward.", slips)

    def has(slip: str, number: int) -> bool:
        return slip in slips or f"{slip}_{number}" in slips

    began, read, found = x, x, x  # what came in; what the first half read, and found
    halves = ((1, attend), (2, feed_forward))
    for place, (number, branch) in enumerate(halves[::-1] if "exchanged" in slips else halves):
        late = place == 1
        source = began if late and "parallel" in slips else found if late and "reads_branch" in slips else x
        if has("post_norm", number):
            read, found = source, branch(source)
            x = norm(number, x + found)
            continue
        bare = has("unnormalised", number) or has("norm_on_branch", number)
        fresh = source if bare else norm(number, source)
        seen = read if late and "stale" in slips else fresh
        result = branch(seen)
        if has("norm_on_branch", number):
            result = norm(number, result)
        if late and "old_residual" in slips:
            x = began
        if has("residual_of_norm", number):
            x = seen
        read, found = seen, result
        x = result if has("no_residual", number) else x + result
    return x


def _norm(t: Tensor, weights: Weights, role: str, slips: frozenset[str]) -> Tensor:
    if "no_affine" in slips:
        return F.layer_norm(t, t.shape[-1:])
    return F.layer_norm(t, t.shape[-1:], weights[f"{role}.gamma"], weights[f"{role}.beta"])


def _attention(
    x: Tensor, mask: Tensor | None, weights: Weights, role: str, n_heads: int, slips: frozenset[str]
) -> Tensor:
    if "one_head" in slips:
        n_heads = 1
    if mask is not None and "mask_ignored" in slips:
        mask = None
    if mask is not None and "mask_inverted" in slips:
        mask = ~mask
    q, k, v = (
        F.linear(x, weights[f"{role}.w_{r}.weight"], weights.get(f"{role}.w_{r}.bias"))
        .unflatten(-1, (n_heads, -1))
        .transpose(1, 2)
        for r in "qkv"
    )
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    heads = (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)
    return F.linear(heads, weights[f"{role}.w_o.weight"], weights.get(f"{role}.w_o.bias"))


def encoder_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The stack of blocks with mistakes switched on, its own or its blocks'."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    n_layers, _, n_heads, _ = build
    layers = list(range(n_layers))
    if "repeated_block" in slips:
        layers = [0] * n_layers
    elif "other_number" in slips:
        present = (
            int(weights["present"]) if "present" in weights else n_layers
        )  # where that is the right number: one more, the last again
        layers = list(range(present)) if present != n_layers else [*layers, layers[-1]]
    elif "one_too_few" in slips:
        layers = layers[:-1]
    elif "first_left_out" in slips:
        layers = layers[1:]
    if "reversed" in slips:
        layers.reverse()
    began = x
    if "norm_first" in slips:
        x = _norm(x, weights, "norm", slips)
    first = None  # what the first block made of x
    for place, layer in enumerate(layers):
        hidden = mask
        if ("mask_first_only" in slips and place > 0) or ("mask_last_only" in slips and place < len(layers) - 1):
            hidden = None
        source = began if "same_input" in slips else first if first is not None and "first_to_all" in slips else x
        x = _block(source, hidden, weights, f"blocks.{layer}.", n_heads, slips)
        first = x if first is None else first
        if "norm_each" in slips:
            x = _norm(x, weights, "norm", slips)
    if "outer_residual" in slips:
        x = began + x
    if not slips & {"no_last_norm", "norm_first", "norm_each"}:
        x = _norm(x, weights, "norm", slips)
    return began + x if "outer_residual_last" in slips else x


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


def _over_tokens(seen: Evidence) -> bool:
    """A map that wants d_model numbers got as many as there are tokens."""
    _, tokens, d_model = seen.cases[0].inputs[0].shape
    for message in seen.errors[:1]:
        product = re.search(r"\(\d+x(\d+) and (\d+)x\d+\)", message)
        channels = re.search(r"to have (\d+) channels, but got (\d+)", message)
        if product and (int(product[1]), int(product[2])) == (tokens, d_model):
            return True
        if channels and (int(channels[2]), int(channels[1])) == (tokens, d_model):
            return True
    return False


UNREGISTERED = mistake(
    "feed_forward.unregistered",
    "Count `list(module.parameters())`. Which container tells the module about the layers that it holds?",
    sign=_unregistered,
)

OVERWRITTEN = mistake(
    "feed_forward.overwritten",
    "Look for `+=`, `*=` or a method whose name ends in an underscore.",
    sign=lambda seen: seen.input_changed,
)

NO_ACTIVATION = mistake(
    "feed_forward.no_activation",
    "What stands between the two maps in the formula?",
    "bend",
    costs=("activation",),
)

RELU = mistake(
    "feed_forward.relu",
    "Compare the name of your non-linearity with the one in the task.",
    "bend",
    costs=("activation",),
)

OTHER_BEND = mistake(
    "feed_forward.silu",
    "Compare the name of your non-linearity with the one in the task.",
    "bend",
    also=("tanh", "sigmoid", "leaky_relu", "elu", "softmax"),
    costs=("activation",),
)

APPROXIMATE = mistake(
    "feed_forward.approximate",
    "Look at the arguments of your GELU, or at its formula.",
    "bend",
    also=("quick",),
    costs=("activation",),
)

OTHER_WIDTH = mistake(
    "feed_forward.other_width",
    "Follow `d_ff` through `__init__`. Which numbers do your layers' shapes come from?",
    "width",
    costs=("values",),
)

INNER_RESIDUAL = mistake(
    "feed_forward.inner_residual",
    "Compare the last line of the network's `forward` with its formula.",
    "inner",
    costs=("values",),
)

FEED_FORWARD_MISTAKES = (
    UNREGISTERED,
    OVERWRITTEN,
    mistake(
        "feed_forward.over_tokens",
        "A linear layer works on the last axis, a convolution on the one before. Which axis of x holds the features?",
        sign=_over_tokens,
    ),
    NO_ACTIVATION,
    RELU,
    OTHER_BEND,
    APPROXIMATE,
    mistake(
        "feed_forward.activation_last",
        "Read the formula from the inside out: which of the three comes second?",
        "place",
        costs=("activation",),
    ),
    mistake(
        "feed_forward.activation_first",
        "Read the formula from the inside out: which of the three comes second?",
        "place",
        costs=("activation",),
    ),
    mistake(
        "feed_forward.activation_twice",
        "How many times does GELU stand in the formula?",
        "place",
        costs=("activation",),
    ),
    mistake(
        "feed_forward.not_narrowed",
        "Compare the last axis of your result with that of x.",
        "narrow",
    ),
    mistake(
        "feed_forward.no_bias",
        "Count the symbols in the formula, and the parameters of your module.",
        "bias",
        also=("no_first_bias", "no_second_bias"),
        costs=("values",),
    ),
    OTHER_WIDTH,
    INNER_RESIDUAL,
)


def _by_half(key: str, name: str, does: str, look: str) -> tuple[Mistake, ...]:
    """A mistake in both halves of the block, and in either of them; `does` says "{}" for the half."""
    both = Mistake(key, name, does.format("A branch"), look, key, costs=("attention", "feed_forward"))
    first = replace(
        both, key=f"{key}_1", title=f"attention: {name}", sentence=does.format("Attention"), costs=("attention",)
    )
    second = replace(
        both,
        key=f"{key}_2",
        title=f"feed-forward network: {name}",
        sentence=does.format("The feed-forward network"),
        costs=("feed_forward",),
    )
    return first, second, both  # the narrower ones first: the other half may have a mistake of its own


BY_HALF = (
    *_by_half(
        "post_norm",
        "post-norm in place of pre-norm",
        "{} reads x as it is, and the sum is normalised after it, as in the paper of 2017; here a branch reads a "
        "normalised copy, and nothing normalises the stream.",
        "Which of the two is inside the other in your lines: the norm or the sum?",
    ),
    *_by_half(
        "residual_of_norm",
        "the residual stream is lost",
        "{} is added to what it has read, n + f(n) with n = LN(x): x itself does not go on.",
        "Two tensors are added. Is one of them the stream as it came in?",
    ),
    *_by_half(
        "no_residual",
        "no residual connection",
        "{} takes the place of x: what it does not pass on is gone, and so is its gradient.",
        "How many plus signs do the block's two formulas have?",
    ),
    *_by_half(
        "unnormalised",
        "no norm before the branch",
        "{} reads x in whatever size the stream has: the norm is left out, or its result is not used.",
        "Follow both norms through `forward`: what does each of them get, and who reads its result?",
    ),
    *_by_half(
        "norm_on_branch",
        "the norm comes after the branch",
        "{} reads x as it is, and what it finds is normalised before it is added.",
        "Is the norm around the branch, or inside it?",
    ),
)

BLOCK_ONLY = (
    mistake(
        "encoder_block.shared_norm",
        "How many norms does the block have, and which one does the second branch use?",
        "second",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.stale",
        "When the second branch begins, the stream has changed. Is its normalised copy new?",
        "second",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.parallel",
        "Which tensor does the second norm get, and when was it last changed?",
        "second",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.reads_branch",
        "Which tensor does the second norm get: the sum, or one of its parts?",
        "second",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.old_residual",
        "Which of your tensors holds the stream after attention, and where is it used?",
        "base",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.exchanged",
        "Which of the two should a token do first: listen, or think?",
        "order",
        costs=("attention",),
    ),
    mistake(
        "encoder_block.no_attention",
        "Follow the attention through `forward`: is its result used?",
        "halves",
        costs=("attention", "mask"),
    ),
    mistake(
        "encoder_block.no_feed_forward",
        "Follow the feed-forward network through `forward`: is its result used?",
        "halves",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.no_affine",
        "Which LayerNorm is given, and what are its parameters?",
        "affine",
        costs=("attention",),
    ),
    mistake(
        "encoder_block.one_head",
        "Follow `n_heads` through `__init__`.",
        "heads",
        costs=("attention",),
    ),
)

MASK_IGNORED = mistake(
    "encoder_block.mask_ignored",
    "Follow `mask` from the signature to the attention.",
    "mask",
    costs=("mask",),
)

MASK_INVERTED = mistake(
    "scaled_dot_product_attention.mask_inverted",
    "Which value of the mask does the given attention hide?",
    "mask",
    costs=("mask",),
)


def _inside(mistakes: tuple[Mistake, ...], costs: str, slot: str | None = None) -> tuple[Mistake, ...]:
    """Mistakes of a part as mistakes of what is built from it, where they cost another share."""
    return tuple(replace(mistake, costs=(costs,), slot=slot or mistake.slot) for mistake in mistakes)


# Those of a network that still gives tokens of the right width.
IN_FEED_FORWARD = tuple(m for m in FEED_FORWARD_MISTAKES if m.computed and m.key != "not_narrowed")

BLOCK_MISTAKES = (
    UNREGISTERED,
    OVERWRITTEN,
    *BY_HALF,
    *BLOCK_ONLY,
    MASK_IGNORED,
    MASK_INVERTED,
    *_inside(IN_FEED_FORWARD, "feed_forward"),
)

ENCODER_MISTAKES = (
    UNREGISTERED,
    OVERWRITTEN,
    mistake(
        "encoder.repeated_block",
        "Count the parameters of encoders with one layer and with two. How many blocks does `__init__` build?",
        "layers",
        costs=("values",),
    ),
    mistake(
        "encoder.no_last_norm",
        "What does the task put between the last block and the result?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.norm_first",
        "At which end of the stack is a norm missing?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.norm_each",
        "Is the line with the norm inside the loop?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.same_input",
        "In the loop, what goes into a block, and where is its result kept?",
        "source",
        costs=("values",),
    ),
    mistake(
        "encoder.first_to_all",
        "In the loop, what goes into a block, and where is its result kept?",
        "source",
        costs=("values",),
    ),
    mistake(
        "encoder.reversed",
        "In which order does your loop go through the list?",
        "order",
        costs=("values",),
    ),
    mistake(
        "encoder.one_too_few",
        "Where does your loop begin, and where does it end?",
        "layers",
        also=("first_left_out",),
        costs=("values",),
    ),
    mistake(
        "encoder.other_number",
        "Follow `n_layers` through `__init__`.",
        "layers",
        costs=("values",),
    ),
    mistake(
        "encoder.outer_residual",
        "Where are the residual connections, and who has made them already?",
        "outer",
        also=("outer_residual_last",),
        costs=("values",),
    ),
    MASK_IGNORED,
    mistake(
        "encoder.mask_first_only",
        "Look at each call of a block: does it get the mask?",
        "mask",
        also=("mask_last_only",),
        costs=("mask",),
    ),
    MASK_INVERTED,
    *_inside((*BY_HALF, *BLOCK_ONLY), "block"),
    *_inside(IN_FEED_FORWARD, "block", "feed_forward"),
)


# --- The exercises -----------------------------------------------------------------------------------------------


def _equal_tokens_stay_equal(case: Case, output: np.ndarray) -> bool | None:
    if "two tokens equal" not in case.label:
        return None
    return bool(np.allclose(output[0, 0], output[1, 2], atol=1e-9))


def _filler_has_no_say(case: Case, output: np.ndarray) -> bool | None:
    """Of two sequences that differ in what the mask hides, the real tokens come out alike."""
    if len(case.inputs) < 2 or case.inputs[1].shape[2] > 1:
        return None
    x, real = case.inputs[0], case.inputs[1][:, 0, 0]
    if len(x) < 2 or not (real == real[0]).all() or not np.array_equal(x[0, real[0]], x[1, real[0]]):
        return None
    return bool(np.allclose(output[0, real[0]], output[1, real[0]], atol=1e-9))


def feed_forward_stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    hidden = F.linear(inputs[0], weights["expand.weight"], weights["expand.bias"])
    return {"the widened tokens": hidden, "their GELU": F.gelu(hidden)}


def block_stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    none: frozenset[str] = frozenset()
    read = _norm(x, weights, "norm_1", none)
    found = _attention(read, mask, weights, "attention", build[1], none)
    return {
        "the first norm of x": read,
        "its attention": found,
        "their sum": x + found,
        "the second norm of it": _norm(x + found, weights, "norm_2", none),
    }


def encoder_stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    stages = {}
    for layer in range(build[0]):
        x = _block(x, mask, weights, f"blocks.{layer}.", build[2], frozenset())
        stages[f"what block {layer} should return"] = x
    return stages


_LIKE_X = "a tensor of the shape of x, (batch, tokens, d_model)"
_DONE_FOR_YOU = frozenset(
    {
        "multi_head_attention_forward",
        "_native_multi_head_attention",
        "transformer_encoder_layer_forward",
        "_transformer_encoder_layer_fwd",
    }
)
_REASON = "The task is to put the block together yourself, around the attention that is given."

FEED_FORWARD = Exercise(
    name="FeedForward",
    returns="a tensor of the shape of x, (..., d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "widened to d_ff, narrowed to d_model, every token by itself", 0.4),
        Criterion("activation", "GELU between the two maps, and nowhere else", 0.2),
        Criterion("axes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x and both maps", 0.1),
        Criterion("manners", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=FEED_FORWARD_MISTAKES,
    cases=feed_forward_cases,
    axes=FEED_FORWARD_AXES,
    drawn=drawn_feed_forward,
    reference=right_feed_forward,
    variation=feed_forward_variation,
    steps=feed_forward_steps,
    mappings=feed_forward_mappings,
    roles=lambda build: _roles(reference.FeedForward, build, 1),
    needs=frozenset({"expand.weight", "shrink.weight"}),
    properties=(Property("equal tokens give equal results", _equal_tokens_stay_equal),),
    stages=feed_forward_stages,
)

ENCODER_BLOCK = Exercise(
    name="EncoderBlock",
    returns=_LIKE_X,
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("attention", "the attention half: norm, attention, sum", 0.25),
        Criterion("feed_forward", "the feed-forward half: norm, feed-forward network, sum", 0.25),
        Criterion("mask", "padding and causal masks reach the attention", 0.2),
        Criterion("gradients", "gradients reach x and all parameters", 0.1),
        Criterion("manners", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=BLOCK_MISTAKES,
    cases=block_cases,
    axes=BLOCK_AXES,
    drawn=drawn_block,
    reference=right_block,
    variation=block_variation,
    steps=block_steps,
    mappings=block_mappings,
    roles=lambda build: _roles(reference.EncoderBlock, build, build[1]),
    needs=frozenset(f"attention.w_{role}.weight" for role in "qkvo"),
    forbidden=_DONE_FOR_YOU,
    forbidden_reason=_REASON,
    properties=(Property("what the mask hides has no say in the other tokens", _filler_has_no_say),),
    stages=block_stages,
)

ENCODER = Exercise(
    name="Encoder",
    returns=_LIKE_X,
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("block", "a single layer: the block as it should be", 0.1),
        Criterion("values", "several layers, one after the other, each with its own parameters", 0.3),
        Criterion("norm", "one more LayerNorm after the last block", 0.15),
        Criterion("mask", "the mask reaches every block", 0.15),
        Criterion("gradients", "gradients reach x and all parameters", 0.1),
        Criterion("manners", "all blocks registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=ENCODER_MISTAKES,
    cases=encoder_cases,
    axes=ENCODER_AXES,
    drawn=drawn_encoder,
    reference=right_encoder,
    variation=encoder_variation,
    mappings=encoder_mappings,
    roles=lambda build: _roles(reference.Encoder, build, build[2]),
    needs=frozenset(f"blocks.0.attention.w_{role}.weight" for role in "qkvo"),
    forbidden=_DONE_FOR_YOU,
    forbidden_reason=_REASON,
    properties=(Property("what the mask hides has no say in the other tokens", _filler_has_no_say),),
    stages=encoder_stages,
)
