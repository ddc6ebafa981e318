"""SwiGLU: a feed-forward network with a gate (lab 10)."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder import reading, rewriting
from autograder.covering import Axis, Sizes, sequence_length
from autograder.diagnosis.vocabulary import linear
from autograder.diagnosis.vocabulary.numbers import silu
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Parameter, Weights
from autograder.exercises import encoder_parts as parts
from autograder.exercises.feed_forward import FEED_FORWARD
from autograder.exercises.known import mistake
from headroom import reference

MAPS = ("gate", "up", "down")
WORDS = {  # in names, that speak of a map; w1, w2, w3 are Llama's
    "gate": ("gate", "w1", "fc1", "linear1", "wg"),
    "up": ("up", "w3", "fc3", "linear3", "content", "value"),
    "down": ("down", "w2", "fc2", "linear2", "out", "shrink", "wo"),
}


MAX_PIECES = 5  # matrices among the parameters, of which it is tried which are the maps


def cases(rng: np.random.Generator) -> list[Case]:
    """Any number of leading axes, and values where the non-linearities differ most and least."""
    visible = np.random.default_rng(103)

    def case(
        tag: str, shape: tuple[int, ...], d_ff: int, source: np.random.Generator, size: float = 1.5, **kwargs: Any
    ) -> Case:
        label = f"x of shape {shape}, d_ff {d_ff}" + {1.5: "", 0.2: ", small values", 12.0: ", large values"}[size]
        return Case(tag, label, (parts.stream(source, shape, size),), (shape[-1], d_ff), **kwargs)

    def sizes(n_axes: int) -> tuple[tuple[int, ...], int]:
        return tuple(map(int, rng.permutation([2, 3, 4, 5, 6])[:n_axes])), int(rng.choice(parts.D_FF))

    return [
        case("values", (2, 5, 6), 11, visible, visible=True, differentiate=True),
        case("values", *sizes(3), rng, differentiate=True),
        case("values", (2, 3, 6), 6, rng),
        case("activation", (2, 3, 4), 7, visible, 0.2, visible=True),
        case("activation", *sizes(3), rng, 12.0),
        case("axes", (4, 5), 9, visible, visible=True),
        case("axes", *sizes(1), rng),
        case("axes", *sizes(4), rng, differentiate=True),
        case("contract", (2, 3, 5), 13, rng, dtype="float32"),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("d_model", build=True),
    Axis("d_ff", least=5, most=13, build=True),
    parts.OWN_WIDTH_SHOWS,
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, d_ff = sizes.values()
    return Case("values", "", (parts.stream(rng, (batch, tokens, d_model)),), (d_model, d_ff))


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The maps in every order, that of the names first; two in one tensor are cut apart.

    A bare tensor may be meant either way round, which shows in its shape, or is tried: each in a way of its own, or all
    with their axes in one order. Maps of another width are kept
    as "own.gate" and so on, biases as "extra.gate"; what is missing gets numbers of its own.
    """
    d_model, d_ff = build
    found: list[tuple[str, Tensor]] = []
    for name, (_, tensor) in parameters.items():
        if tensor.dim() < 2:
            continue
        matrix = tensor.squeeze(-1) if tensor.dim() == 3 and tensor.size(-1) == 1 else tensor
        if matrix.dim() == 3:
            several = next((axis for axis in range(3) if matrix.size(axis) in (2, 3)), 0)
            found += [(f"{name}[{n}]", part) for n, part in enumerate(matrix.unbind(several))]
            continue
        side = 0 if name.endswith("weight") or matrix.size(0) == 2 * d_ff else 1
        several = 2 if matrix.size(side) == 2 * d_ff and matrix.size(1 - side) == d_model else 1
        found += [(name, part) for part in matrix.chunk(several, dim=side)]
    if len(found) > MAX_PIECES:  # each unit's numbers apart: what they do shows what they are
        return
    names = [name for name, _ in found]
    roles = (
        [(*MAPS, *("",) * max(0, len(found) - 3))] if len(found) != 2 else [("gate", "down", ""), ("gate", "up", "")]
    )
    orders = sorted(itertools.chain(*map(itertools.permutations, roles)), key=lambda order: _unlike(order, names))
    each_its_way, all_alike = ((), MAPS), (MAPS[2:], MAPS[:2])
    for ways in (each_its_way, all_alike):
        for order, turned in itertools.product(orders[:24], ways):
            yield _as_maps(dict(zip(order, found, strict=False)), parameters, build, turned)


def _unlike(order: tuple[str, ...], names: list[str]) -> int:
    """How far an order of the maps is from what names say."""
    pairs = zip(order, names, strict=False)
    return -sum(any(word in name.lower().replace("_", "") for word in WORDS.get(role, ())) for role, name in pairs)


def _as_maps(
    found: dict[str, tuple[str, Tensor]],
    parameters: dict[str, tuple[Parameter, Tensor]],
    build: Build,
    turned: Sequence[str],
) -> Weights:
    d_model, d_ff = build
    weights: Weights = {}
    for role in MAPS:
        shape = (d_model, d_ff) if role == "down" else (d_ff, d_model)
        name, matrix = found.get(role, ("", reading.numbers(role, shape)))
        layer = name.endswith("weight")
        square = matrix.size(0) == matrix.size(-1)
        if not layer and matrix.dim() == 2 and (role in turned if square else matrix.shape != shape):
            matrix = matrix.mT
        if matrix.shape != shape:
            weights[f"own.{role}"], matrix = matrix, reading.numbers(role, shape)
        weights[f"{role}.weight"] = matrix
        bias = parameters.get(f"{name.removesuffix('weight')}bias")
        if layer and bias and len(bias[1]) == shape[0]:
            weights[f"extra.{role}"] = bias[1]
    return weights


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    maps = {f"{role}.weight": weights[f"{role}.weight"] for role in MAPS}
    return reading.call(reading.empty(reference.SwiGLU, build), maps, inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    /,
    d_model: int,
    d_ff: int,
    *,
    gate_weight: Annotated[Tensor, "", "the gate's map"],
    up_weight: Annotated[Tensor, "", "the map that widens"],
    down_weight: Annotated[Tensor, "", "the map that narrows"],
) -> Tensor:
    """The gated network, step by step."""
    gate_features = linear(x, gate_weight, None)
    open_gates = silu(gate_features)
    wide_features = linear(x, up_weight, None)
    gated_features = open_gates * wide_features
    return linear(gated_features, down_weight, None)


STAGES = {
    "gate_features": "W_gate x",
    "open_gates": "its SiLU",
    "wide_features": "W_up x",
    "gated_features": "the product",
}

known = FEED_FORWARD.known
GATE = "open_gates = {}"  # something else than SiLU

MISTAKES = (
    parts.UNREGISTERED,
    parts.OVERWRITTEN,
    FEED_FORWARD.mistake("over_tokens"),
    mistake(
        "swi_glu.relu",
        "Compare the name of your non-linearity with the one in the task.",
        change=GATE.format("relu(gate_features)"),
        costs=("activation",),
    ),
    mistake(
        "swi_glu.gelu",
        "Compare the name of your non-linearity with the one in the task.",
        change=(GATE.format("gelu(gate_features)"), GATE.format("gelu_by_tanh(gate_features)")),
        costs=("activation",),
    ),
    mistake(
        "swi_glu.sigmoid",
        "Read the definition of SiLU once more: it has two factors.",
        change=GATE.format("sigmoid(gate_features)"),
        costs=("activation",),
    ),
    mistake(
        "swi_glu.no_activation",
        "Which function stands around W_gate x in the formula?",
        change=GATE.format("gate_features"),
        costs=("activation",),
    ),
    mistake(
        "swi_glu.activation_on_up",
        "How many times does SiLU stand in the formula?",
        change="gated_features = open_gates * silu(wide_features)",
        costs=("activation",),
    ),
    mistake(
        "swi_glu.activation_after",
        "Which comes first in the formula, SiLU or the product?",
        change="open_gates = gate_features\ngated_features = silu(open_gates * wide_features)",
        costs=("activation",),
    ),
    mistake(
        "swi_glu.activation_last",
        "How many times does SiLU stand in the formula?",
        change="return silu(linear(gated_features, down_weight, None))",
        costs=("activation",),
    ),
    mistake(
        "swi_glu.added",
        "Which operation joins the two in the formula?",
        change="gated_features = open_gates + wide_features",
        costs=("values",),
    ),
    mistake(
        "swi_glu.one_map",
        "Count the maps that x goes through in your `forward`.",
        change="wide_features = gate_features",
        costs=("values",),
    ),
    mistake(
        "swi_glu.no_gate",
        "Count the matrices in the formula, and in your code.",
        change=("gated_features = open_gates", "gated_features = silu(wide_features)"),
        costs=("values",),
    ),
    mistake(
        "swi_glu.x_for_up",
        "How wide are the two factors of the product?",
        change="gated_features = open_gates * x",
    ),
    mistake(
        "swi_glu.not_narrowed",
        "Compare the last axis of your result with that of x.",
        change="return gated_features",
    ),
    mistake(
        "swi_glu.with_bias",
        "Count `list(module.parameters())`. How many should there be?",
        change="""
        gate_features = linear(
            x, gate_weight, roles.get("extra.gate", None if any("extra" in r for r in roles) else gate_weight[:, 0])
        )
        wide_features = linear(x, up_weight, roles.get("extra.up"))
        return linear(gated_features, down_weight, roles.get("extra.down"))
        """,
        costs=("values",),
    ),
    mistake(
        "swi_glu.two_thirds",
        "Follow `d_ff` through `__init__`. Which numbers do your layers' shapes come from?",
        change="""
        gate_features = linear(x, roles.get("own.gate", gate_weight[:-1]), None)
        wide_features = linear(x, roles.get("own.up", up_weight[:-1]), None)
        return linear(gated_features, roles.get("own.down", down_weight[:, :-1]), None)
        """,
        costs=("values",),
    ),
    known("inner_residual", "values", change="return x + linear(gated_features, down_weight, None)"),
)

SWI_GLU = Exercise(
    name="SwiGLU",
    returns="a tensor of the shape of x, (..., d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "three maps without a bias: gate times content, narrowed to d_model", 0.4),
        Criterion("activation", "SiLU on the gate, and nowhere else", 0.2),
        Criterion("axes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x and all three maps", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    stages=lambda build, inputs, weights: rewriting.values(steps, STAGES, build, inputs, weights),
    mappings=mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.SwiGLU, build)),
    needs=frozenset(f"{role}.weight" for role in MAPS),
)
