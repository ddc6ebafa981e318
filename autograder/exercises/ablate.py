"""Ablation: what a model says when the output of one head is zero (lab 11)."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.covering import Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Mistake, Weights
from autograder.exercises.attention_only import HEADS, N_VOCABULARY, drawn_model, place
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Heads of the last layer, whose output nothing reads but the end, and heads that a later layer reads."""
    visible = np.random.default_rng(112)

    def case(tag: str, source: np.random.Generator, layer: int, head: int, *sizes: int, **kwargs: Any) -> Case:
        batch, tokens, n_layers, n_heads, d_head = sizes
        model = drawn_model(source, n_layers, n_heads, d_head)
        label = f"batch {batch}, {tokens} tokens, {n_layers} layers of {n_heads} heads of {d_head}: "
        label += f"layer {layer}, head {head}"
        ids = source.integers(N_VOCABULARY, size=(batch, tokens))
        return Case(tag, label, (model, ids, layer, head), **kwargs)

    return [
        case("values", visible, 1, 1, 2, 5, 2, 3, 4, visible=True),
        case("values", rng, 1, 2, 3, 6, 2, 4, 3),
        case("earlier", visible, 0, 1, 2, 5, 2, 3, 4, visible=True),
        case("earlier", rng, 0, 0, 3, 6, 2, 4, 3),
        case("earlier", rng, 1, 2, 2, 7, 3, 3, 5),
        case("contract", rng, 0, 1, 2, 4, 2, 2, 3, dtype="float32"),
    ]


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_layers, n_heads, d_head, *_ = sizes.values()
    layer, head = place(sizes)
    model = drawn_model(rng, n_layers, n_heads, d_head)
    tag = "values" if layer == n_layers - 1 else "earlier"
    return Case(tag, "", (model, rng.integers(N_VOCABULARY, size=(batch, tokens)), layer, head))


# Each wrong change of an attention layer (and the right one), made in its weights: they say the same.
def _columns(attention: Any, head: int) -> slice:
    d_head = attention.w_o.weight.size(0) // attention.n_heads
    return slice(head * d_head, (head + 1) * d_head)


def _head_off(attention: Any, head: int) -> None:
    attention.w_o.weight[:, _columns(attention, head)] = 0


def _rows_off(attention: Any, head: int) -> None:
    attention.w_o.weight[_columns(attention, head)] = 0


def _outputs_off(attention: Any, head: int) -> None:
    _rows_off(attention, head)
    attention.w_o.bias[_columns(attention, head)] = 0


def _bias_off(attention: Any, head: int) -> None:
    _head_off(attention, head)
    attention.w_o.bias.zero_()


def _value_map_off(attention: Any, head: int) -> None:
    attention.w_v.weight[_columns(attention, head)] = 0


def _scores_off(attention: Any, head: int) -> None:
    attention.w_q.weight[_columns(attention, head)] = 0
    attention.w_q.bias[_columns(attention, head)] = 0


def _next_off(attention: Any, head: int) -> None:
    _head_off(attention, (head + 1) % attention.n_heads)


def _head_before_off(attention: Any, head: int) -> None:
    attention.w_o.weight[:, _columns(attention, head - 1)] = 0  # of head 0, none


def _head_before_off_or_last(attention: Any, head: int) -> None:
    _head_off(attention, (head - 1) % attention.n_heads)


def _interleaved_off(attention: Any, head: int) -> None:
    attention.w_o.weight[:, head :: attention.n_heads] = 0


def _others_off(attention: Any, head: int) -> None:
    kept = attention.w_o.weight[:, _columns(attention, head)].clone()
    attention.w_o.weight.zero_()
    attention.w_o.weight[:, _columns(attention, head)] = kept


def _all_off(attention: Any, head: int) -> None:
    attention.w_o.weight.zero_()


def _layer_off(attention: Any, head: int) -> None:
    attention.w_o.weight.zero_()
    attention.w_o.bias.zero_()


WRONG = {
    "rows_of_w_o": _rows_off,
    "outputs_of_w_o": _outputs_off,
    "bias_too": _bias_off,
    "value_bias_left": _value_map_off,
    "scores_zeroed": _scores_off,
    "another_head": _next_off,
    "heads_from_1": _head_before_off,
    "heads_from_1_or_last": _head_before_off_or_last,
    "interleaved": _interleaved_off,
    "only_that_head": _others_off,
    "every_head": _all_off,
    "whole_layer": _layer_off,
    "nothing_changed": lambda attention, head: None,
}


@torch.no_grad()
def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """Ablation with mistakes switched on."""
    model, ids, layer, head = inputs
    model = copy.deepcopy(probe.made(model))
    change = next((WRONG[key] for key in WRONG if key in slips), _head_off)
    if "only_at_the_end" in slips:
        return _only_at_the_end(model, ids, layer, head, change)
    layer -= "layers_from_1" in slips
    for block in model.blocks if "every_layer" in slips else [model.blocks[layer]]:
        change(block.attention, head)
    return model(ids)


def _only_at_the_end(model: Any, ids: Tensor, layer: int, head: int, change: Any) -> Tensor:
    """What the head adds is taken off the stream at its end, after later layers have read it."""
    x = model.start(ids)
    for block in model.blocks[:layer]:
        x = block(x)
    read = model.blocks[layer].norm(x)
    for block in model.blocks[layer:]:
        x = block(x)
    attention = model.blocks[layer].attention
    with_head = attention(read)
    change(attention, head)
    return model.unembed(model.norm(x - with_head + attention(read)))


def known(key: str, look: str, slot: str = "what", *costs: str, **graded: Any) -> Mistake:
    return mistake(f"ablate.{key}", look, slot, costs=costs, **graded)


HOOK_LEFT = known(
    "hook_left",
    "What does the method that registers a hook return, and what is it good for?",
    sign=lambda seen: any("list of hooks" in name for name in seen.changed),
)
WEIGHTS_LEFT = known(
    "weights_left",
    "List what your function changes in the model. Which line puts each thing back, and is it then what it was?",
    sign=lambda seen: any(name.startswith("`blocks") or name.startswith("`Attention") for name in seen.changed),
)

MISTAKES = (
    HOOK_LEFT,
    WEIGHTS_LEFT,
    known(
        "rows_of_w_o",
        "`nn.Linear` computes `x @ weight.T + bias`. Which axis of its weight belongs to its input?",
        also=("outputs_of_w_o",),
    ),
    known("bias_too", "Does W_O's bias belong to a head?"),
    known("value_bias_left", "Print the head's values. What are they, if not 0?"),
    known("scores_zeroed", "What is the softmax of a row of equal scores?"),
    known("another_head", "Print which columns, or which heads, you set to zero for head 0 and for head 1."),
    known("heads_from_1", "Which columns of W_O's weight belong to head 0?", also=("heads_from_1_or_last",)),
    known("interleaved", "Read `split` again: which columns does head 1 get?"),
    known("only_that_head", "Which of the heads are left when you are done?"),
    known("every_head", "How many heads should be left when you are done, and how many are?"),
    known("whole_layer", "Compare what is added to the stream with what one head contributes to it."),
    known(
        "nothing_changed",
        "Compare your result with `model(ids)`. Does your change reach what W_O computes while the model runs?",
    ),
    known("every_layer", "In how many layers does your change take place?", "where"),
    known("layers_from_1", "Which block is `model.blocks[0]`?", "where"),
    known("only_at_the_end", "Who reads the output of a head in layer 0?", "where", "earlier"),
)

ABLATE = Exercise(
    name="ablate",
    returns="a tensor of logits, (batch, tokens, n_vocabulary)",
    shape=lambda case: (*case.inputs[1].shape, N_VOCABULARY),
    criteria=(
        Criterion("shape", "runs, and the result has shape (batch, tokens, n_vocabulary)", 0.1),
        Criterion("values", "a head of the last layer: its output is zero, all others as they were", 0.4),
        Criterion("earlier", "a head of an earlier layer: later layers read the stream without it", 0.3),
        Criterion("contract", "the model is left as it was, the same call twice gives the same", 0.2),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=HEADS,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.ablate(*inputs),
    variation=variation,
)
