"""Activation patching: a head's output on one text, put into the run on another (lab 11)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.covering import Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Mistake, Weights
from autograder.exercises.ablate import HOOK_LEFT, WEIGHTS_LEFT
from autograder.exercises.attention_only import HEADS, N_VOCABULARY, drawn_model, merged, place, run
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Heads of the first layer, which read the texts themselves, and of later ones, which read the stream."""
    visible = np.random.default_rng(113)

    def case(
        tag: str, source: np.random.Generator, layer: int, head: int, *sizes: int, alike: int = 0, **kwargs: Any
    ) -> Case:
        """`alike`: with how many tokens in common the two texts begin."""
        batch, tokens, n_layers, n_heads, d_head = sizes
        model = drawn_model(source, n_layers, n_heads, d_head)
        label = f"batch {batch}, {tokens} tokens, {n_layers} layers of {n_heads} heads of {d_head}: "
        label += f"layer {layer}, head {head}"
        ids, donor_ids = source.integers(N_VOCABULARY, size=(2, batch, tokens))
        donor_ids[:, :alike] = ids[:, :alike]
        return Case(tag, label, (model, ids, donor_ids, layer, head), **kwargs)

    return [
        case("values", visible, 0, 1, 2, 5, 2, 3, 4, visible=True),
        case("values", rng, 0, 2, 3, 6, 2, 4, 3),
        case("later", visible, 1, 1, 2, 5, 2, 3, 4, visible=True),
        case("later", rng, 1, 0, 3, 6, 2, 4, 3),
        case("later", rng, 1, 2, 2, 7, 3, 3, 5, alike=2),
        case("contract", rng, 0, 1, 2, 4, 2, 2, 3, dtype="float32"),
    ]


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_layers, n_heads, d_head, *_ = sizes.values()
    layer, head = place(sizes)
    model = drawn_model(rng, n_layers, n_heads, d_head)
    ids = rng.integers(N_VOCABULARY, size=(batch, tokens))
    donor_ids = (ids + rng.integers(1, N_VOCABULARY, size=ids.shape)) % N_VOCABULARY  # another token at each place
    return Case("later" if layer else "values", "", (model, ids, donor_ids, layer, head))


def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """Patching with mistakes switched on."""
    model, ids, donor_ids, layer, head = inputs
    model = probe.made(model)
    if "exchanged" in slips:
        ids, donor_ids = donor_ids, ids
    if "donor_alone" in slips or "nothing_changed" in slips:
        return run(model, donor_ids if "donor_alone" in slips else ids, lambda at, outputs, *_: outputs)
    n_heads = model.blocks[0].attention.n_heads
    layer = (layer - ("layers_from_1" in slips)) % len(model.blocks)
    donors: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def keep(at: int, *seen: Tensor) -> Tensor:
        donors[at] = (seen[0], seen[1], seen[2])
        return seen[0]

    def change(at: int, outputs: Tensor, attended: Tensor, values: Tensor) -> Tensor:
        if at != layer and "every_layer" not in slips:
            return outputs
        own, (theirs, their_weights, their_values) = outputs.clone(), donors[at]
        if "weights_alone" in slips:
            theirs = their_weights @ values
        elif "values_alone" in slips:
            theirs = attended @ their_values
        if "every_head" in slips:
            return theirs
        if "interleaved" in slips:
            columns, others = merged(own).clone(), merged(theirs)
            columns[..., head::n_heads] = others[..., head::n_heads]
            return columns.unflatten(-1, (n_heads, -1)).transpose(1, 2)
        which = (head + 1) % n_heads if "another_head" in slips else head
        if "added" in slips:
            own[:, which] += theirs[:, which]
        elif "zero" in slips:
            own[:, which] = 0
        elif "last_token" in slips:
            own[:, which, -1] = theirs[:, which, -1]
        elif "only_that_head" in slips:
            own[:] = torch.where(torch.arange(n_heads)[:, None, None] == which, own, theirs)
        else:
            own[:, which] = theirs[:, which]
        return own

    if "donor_unlayered" in slips:
        _read_embeddings(model, donor_ids, keep)
    else:
        run(model, donor_ids, keep)
    return run(model, ids, change)


@torch.no_grad()
def _read_embeddings(model: Any, ids: Tensor, keep: Any) -> None:
    """Every layer reads the embeddings, as if no layer stood before it."""
    x = model.start(ids)
    for at, block in enumerate(model.blocks):
        attention, normalised = block.attention, block.norm(x)
        weights, values = attention.weights(normalised), attention.split(attention.w_v(normalised))
        keep(at, weights @ values, weights, values)


def known(key: str, look: str, slot: str = "what", *costs: str) -> Mistake:
    return mistake(f"patch.{key}", look, slot, costs=costs)


MISTAKES = (
    HOOK_LEFT,
    WEIGHTS_LEFT,
    known("exchanged", "Which of the two texts do the logits say something about?", "texts"),
    known("donor_alone", "How many heads of the donor's run does your result depend on?", "texts"),
    known(
        "nothing_changed", "Compare your result with `model(ids)`. Is the donor's output in place when it is called?"
    ),
    known("every_head", "Which columns do you replace? How many of them are the head's?"),
    known("interleaved", "Read `split` again: which columns does head 1 get?"),
    known("another_head", "Print which columns you replace for head 0 and for head 1."),
    known("only_that_head", "Which of the heads come from the donor?"),
    known("weights_alone", "A head's output is weights @ values. Which of the two comes from the donor?", "part"),
    known("values_alone", "A head's output is weights @ values. Which of the two comes from the donor?", "part"),
    known("added", "How often is the head's output in what W_O reads?"),
    known("zero", "Print what you put in the head's place. If it is a view of a tensor, it changes with that tensor."),
    known("last_token", "At how many positions do you replace the output?"),
    known("every_layer", "In how many layers do you replace something?", "where"),
    known("layers_from_1", "Which block is `model.blocks[0]`?", "where"),
    known(
        "donor_unlayered",
        "What does a head of layer 1 read? Has the donor's text gone through layer 0?",
        "donor",
        "later",
    ),
)

PATCH = Exercise(
    name="patch",
    returns="a tensor of logits, (batch, tokens, n_vocabulary)",
    shape=lambda case: (*case.inputs[1].shape, N_VOCABULARY),
    criteria=(
        Criterion("shape", "runs, and the result has shape (batch, tokens, n_vocabulary)", 0.1),
        Criterion("values", "a head of the first layer: its output is the donor's, all others as they were", 0.4),
        Criterion("later", "a head of a later layer: what it gives when the whole model reads the donor", 0.3),
        Criterion("contract", "the model is left as it was, the same call twice gives the same", 0.2),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=HEADS,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.patch(*inputs),
    variation=variation,
)
