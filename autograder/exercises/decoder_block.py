"""DecoderBlock: self-attention, cross-attention and a feed-forward network, pre-norm (lab 6)."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from autograder import reading, rewriting
from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import Mask, normalise
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Mistake, Parameter, Weights
from autograder.exercises import cross_attention, feed_forward, multi_head
from autograder.exercises.attention import FORBIDDEN, masked, tolerance
from autograder.exercises.cross_attention import SOURCES, known, padding
from autograder.exercises.decoder_steps import steps
from autograder.exercises.encoder_parts import NORM_SHOWS, OWN_WIDTH_SHOWS, of_layer
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """No mask, a causal mask, a mask of the source, both; last with equal lengths, where the masks can be mixed up."""
    visible = np.random.default_rng(62)

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, masks: str = "", **kwargs: Any) -> Case:
        batch, tokens, source_tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        x, memory = (source.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
        mask = masked("causal", batch, tokens, tokens, source) if "causal" in masks else None
        memory_mask = padding(source, batch, source_tokens) if "padding" in masks else None
        if memory_mask is not None and "scale" in kwargs:  # then a hidden −10⁴ wins somewhere
            memory_mask[:2] = np.arange(source_tokens) == 0
        inputs = (x, memory, mask, memory_mask)
        label = f"batch {batch}, {tokens} tokens, {source_tokens} source tokens, d_model {d_model}, {n_heads} heads"
        label += ", no mask" if not masks else f", {masks} mask" + ("s" if "and" in masks else "")
        label += ", large weights" if "scale" in kwargs else ""
        return Case(tag, label, inputs, (d_model, n_heads, d_model + 1 + batch), **kwargs)

    def sizes(equal: bool = False) -> tuple[int, ...]:
        batch, n_heads = map(int, rng.permutation([2, 3]))
        tokens, source_tokens = map(int, rng.choice([4, 5, 7], size=2, replace=False))
        return batch, tokens, tokens if equal else source_tokens, 3 if n_heads == 2 else 2, n_heads

    return [
        case("values", (2, 4, 5, 2, 3), visible, visible=True, differentiate=True),
        case("values", sizes(), rng, differentiate=True),
        case("mask", (2, 4, 5, 2, 3), visible, "causal", visible=True, differentiate=True),
        case("mask", sizes(), rng, "causal"),
        case("mask", sizes(equal=True), rng, "causal"),
        case("memory_mask", (2, 4, 5, 2, 3), visible, "padding", visible=True),
        case("memory_mask", sizes(), rng, "causal and padding", differentiate=True),
        case("memory_mask", sizes(equal=True), rng, "causal and padding"),
        case("memory_mask", (4, 5, 6, 2, 4), rng, "causal and padding", scale=30.0, single=False),  # scores of ±40,000
        case("contract", (3, 2, 5, 4, 2), rng, "causal and padding", dtype="float32"),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    sequence_length("source_tokens"),
    *multi_head.HEADS,
    Axis("d_ff", least=5, most=17, build=True),
    Choice("mask", (None, "causal", "random")),
    Choice("memory_mask", (None, "padding", "random")),
    OWN_WIDTH_SHOWS,
    NORM_SHOWS,
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, source_tokens, n_heads, _, d_model, d_ff, mask, memory_mask = sizes.values()
    x, memory = (rng.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
    tag = "memory_mask" if memory_mask else "mask" if mask else "values"
    own = masked(mask, 1, tokens, tokens, rng).reshape(tokens, tokens) if mask else None
    hidden = multi_head.with_heads(masked(memory_mask, batch, tokens, source_tokens, rng)) if memory_mask else None
    return Case(tag, "", (x, memory, own, hidden), (d_model, n_heads, d_ff))


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The student's layers as two attentions, three norms and a feed-forward network, by kind, name and order."""
    d_model, n_heads, _ = build
    found = reading.units(parameters, d_model, n_heads)
    attentions, norms, networks = (reading.of_kind(found, kind) for kind in ("attention", "norm", "feed_forward"))
    for order in itertools.product(
        reading.orders(attentions, ("self_attention", "cross_attention")),
        reading.orders(norms, ("norm_1", "norm_2", "norm_3")),
        reading.orders(networks, ("feed_forward",)),
    ):
        yield reading.named({role: unit for kind in order for role, unit in kind.items()})


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.DecoderBlock, build), weights, inputs)


# --- The block in steps, and the mistakes ------------------------------------------------------------------------


def norm(x: Tensor, roles: Weights, number: int) -> Tensor:
    return normalise(x, -1) * roles[f"norm_{number}.gamma"] + roles[f"norm_{number}.beta"]


def attend(x: Tensor, memory: Tensor, mask: Mask, n_heads: int, roles: Weights, name: str, *changes: str) -> Tensor:
    """Cross-attention with the maps of the attention called `name`."""
    maps = {role[2:].replace(".", "_"): tensor for role, tensor in of_layer(roles, name).items()}
    return rewriting.run(cross_attention.steps, changes, (x.size(-1), n_heads), (x, memory, mask), maps)


def network(x: Tensor, roles: Weights) -> Tensor:
    return rewriting.run(feed_forward.steps, (), (), (x,), of_layer(roles, "feed_forward"))


def exchanged(roles: Weights, first: int, second: int) -> Weights:
    """The roles with two norms in each other's place."""
    names = {f"norm_{first}": f"norm_{second}", f"norm_{second}": f"norm_{first}"}
    return {names.get(role[:6], role[:6]) + role[6:]: tensor for role, tensor in roles.items()}


def branches(
    x: Tensor,
    memory: Tensor,
    mask: Mask,
    memory_mask: Mask,
    /,
    d_model: int,
    n_heads: int,
    d_ff: int,
    *,
    roles: Weights,
) -> Tensor:
    """The block, branch by branch: what it reads, what it writes, what that is added to."""
    read_1 = norm(x, roles, 1)
    wrote_1 = attend(read_1, read_1, mask, n_heads, roles, "self_attention")
    kept_1 = x
    stream_1 = kept_1 + wrote_1
    read_2 = norm(stream_1, roles, 2)
    wrote_2 = attend(read_2, memory, memory_mask, n_heads, roles, "cross_attention")
    kept_2 = stream_1
    stream_2 = kept_2 + wrote_2
    read_3 = norm(stream_2, roles, 3)
    wrote_3 = network(read_3, roles)
    kept_3 = stream_2
    stream_3 = kept_3 + wrote_3
    return stream_3


OWN = 'attend(read_{0}, read_{0}, mask, n_heads, roles, "self_attention")'
CROSS = 'attend(read_{0}, memory, memory_mask, n_heads, roles, "cross_attention")'
CROSS_FIRST = f"wrote_1 = {CROSS.format(1)}\nwrote_2 = {OWN.format(2)}"
NETWORK_SECOND = f"wrote_2 = network(read_2, roles)\nwrote_3 = {CROSS.format(3)}"
BARE = ("read_1 = x", "read_2 = stream_1", "read_3 = stream_2")
OF_NORM = ("kept_1 = read_1", "kept_2 = read_2", "kept_3 = read_3")
REPLACED = ("kept_1 = 0", "kept_2 = 0", "kept_3 = 0")
NORMED = tuple(f"stream_{n} = norm(stream_{n}, roles, {n})" for n in (1, 2, 3))


def _own(key: str, look: str, *changes: str, costs: tuple[str, ...] = ("values",)) -> Mistake:
    return mistake(f"decoder_block.{key}", look, change=changes, costs=costs)


own_memory, memory_asks = SOURCES
COUNT = "Count the branches of the task's table, and those that reach what your `forward` returns."
ORDER = "Read the task's table from top to bottom."

MISTAKES = (
    known("unregistered"),
    known("overwritten", "contract"),
    replace(
        own_memory,
        change=("memory = read_2", "memory = stream_1", "memory = read_2\nmemory_mask = None"),
    ),
    replace(memory_asks, change='wrote_2 = attend(memory, read_2, memory_mask, n_heads, roles, "cross_attention")'),
    _own(
        "no_cross_attention",
        COUNT,
        "stream_2 = stream_1",
        "stream_2 = stream_1\nroles = exchanged(roles, 2, 3)",
        costs=("values", "memory_mask"),
    ),
    _own(
        "no_self_attention",
        COUNT,
        "stream_1 = x",
        "stream_1 = x\nroles = exchanged(exchanged(roles, 2, 3), 1, 2)",
        costs=("values", "mask"),
    ),
    _own("no_feed_forward", COUNT, "stream_3 = stream_2"),
    _own("cross_first", ORDER, f"{CROSS_FIRST}\nroles = exchanged(roles, 1, 2)", CROSS_FIRST),
    _own("feed_forward_first", ORDER, f"{NETWORK_SECOND}\nroles = exchanged(roles, 2, 3)", NETWORK_SECOND),
    _own(
        "no_causal_mask",
        "Follow `mask` from the signature to the branch that it belongs to.",
        "mask = None",
        costs=("mask",),
    ),
    _own(
        "always_causal",
        "Where does the mask come from?",
        "mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()",
    ),
    _own(
        "memory_mask_ignored",
        "Follow `memory_mask` from the signature to the branch that it belongs to.",
        "memory_mask = None",
        costs=("memory_mask",),
    ),
    _own(
        "masks_exchanged",
        "One mask counts source tokens, the other target tokens. Which attention has which for keys?",
        """
        wrote_1 = attend(read_1, read_1, memory_mask, n_heads, roles, "self_attention")
        wrote_2 = attend(read_2, memory, mask, n_heads, roles, "cross_attention")
        """,
        costs=("mask", "memory_mask"),
    ),
    _own(
        "causal_memory",
        "Which mask do you pass to the cross-attention?",
        "memory_mask = mask",
        "memory_mask = memory_mask if mask is None else mask if memory_mask is None else mask & memory_mask",
        costs=("mask", "memory_mask"),
    ),
    _own(
        "memory_mask_on_both",
        "Which mask do you pass to the self-attention?",
        "mask = memory_mask",
        "mask = mask if mask is None or memory_mask is None else mask & memory_mask",
        costs=("mask", "memory_mask"),
    ),
    _own(
        "memory_normed",
        "What does the table say that the cross-attention reads beside the normalised x?",
        "memory = norm(memory, roles, 2)",
    ),
    _own(
        "no_residual", "What does each row of the task's table do with the x that it started from?", "\n".join(REPLACED)
    ),
    *(
        _own(f"no_residual_{number}", "Compare the three lines with each other.", change)
        for number, change in enumerate(REPLACED, 1)
    ),
    _own("residual_of_norm", "What exactly stands on the left of each plus?", "\n".join(OF_NORM), *OF_NORM),
    _own("post_norm", "Look at what the norm is given in each row of the task's table.", "\n".join(BARE + NORMED)),
    _own("no_norm", "Look at what each branch is given in the task's table.", "\n".join(BARE), *BARE),
    _own(
        "shared_norm",
        "How many norms does the task list?",
        "read_2 = norm(stream_1, roles, 1)\nread_3 = norm(stream_2, roles, 1)",
    ),
    _own(
        "shared_attention",
        "How many attentions does the task list?",
        'wrote_2 = attend(read_2, memory, memory_mask, n_heads, roles, "self_attention")',
    ),
    known(
        "no_output",
        "values",
        change=f"wrote_2 = {CROSS.format(2)[:-1]}, 'output = merged_heads')",
    ),
    known("mask_inverted", "memory_mask", change="memory_mask = inverted(memory_mask)"),
    known("mask_on_queries", "memory_mask", change="memory_mask = mask_transposed(memory_mask)"),
)

DECODER_BLOCK = Exercise(
    name="DecoderBlock",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "three branches in their order, each added to what it started from", 0.4),
        Criterion("mask", "the mask hides target tokens from the self-attention", 0.15),
        Criterion("memory_mask", "the memory mask hides source tokens from the cross-attention", 0.15),
        Criterion("gradients", "gradients reach x, the memory and all layers", 0.1),
        Criterion("contract", "all layers registered, inputs stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    varied=branches,
    steps=steps,
    mappings=mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.DecoderBlock, build), build[1]),
    needs=frozenset(
        {
            *(f"{name}_attention.w_{role}.weight" for name in ("self", "cross") for role in "qkvo"),
            *(f"norm_{number}.{part}" for number in (1, 2, 3) for part in ("gamma", "beta")),
            "feed_forward.expand.weight",
            "feed_forward.shrink.weight",
        }
    ),
    tolerance=tolerance,
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to build the block from the layers that are given and from your CrossAttention.",
)
