"""Five broken programs to mend (lab 8). Each comes with two slips, and earns nothing until one of them is mended.

The two slips that a program comes with are on its list like every other mistake, but they are named by what one sees
of them, not by their line: finding that is the exercise. What students are given stands in the lab's notebook.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Choice, Only, Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from headroom import reference
from headroom.mistakes import mistake

Slips = frozenset[str]

KEPT = Criterion("manners", "the tensors that you are given stay as they were, float32 stays float32", 0.0)
OVERWRITTEN = mistake(
    "sequence_loss.overwritten",
    "Look for an assignment into a slice, `+=`, or a method whose name ends in an underscore.",
    sign=lambda seen: seen.input_changed,
)


# --- The loss of a language model --------------------------------------------------------------------------------


def loss_cases(rng: np.random.Generator) -> list[Case]:
    """Whole sequences, for which only the shift counts; padded ones; a pad that is not 0; logits in the hundreds."""
    visible = np.random.default_rng(81)

    def case(tag: str, label: str, source: np.random.Generator, lengths: list[int], pad: int, **kwargs: Any) -> Case:
        tokens = source.integers(1, 7, (len(lengths), max(lengths)))
        tokens[tokens == pad] = 7
        tokens[np.arange(tokens.shape[1]) >= np.array(lengths)[:, None]] = pad
        size = kwargs.pop("size", 2.0)
        logits = source.normal(0.0, size, (*tokens.shape, 8))
        about = f"{label}, tokens of shape {tokens.shape}"
        return Case(tag, about, (logits, tokens, pad), differentiate=kwargs.pop("differentiate", True), **kwargs)

    return [
        case("shift", "no padding", visible, [5, 5, 5], 0, visible=True),
        case("shift", "no padding, logits in the hundreds", rng, [6, 6], 0, size=400.0),
        case("padding", "lengths 6, 3 and 2", visible, [6, 3, 2], 0, visible=True),
        case(
            "padding", "lengths 7, 4, 1 and 2, the padding has another id", rng, [7, 4, 1, 2], int(rng.integers(1, 7))
        ),
        case("manners", "float32", rng, [4, 2, 3], 0, differentiate=False, dtype="float32"),
    ]


LOSS_AXES = (
    Axis("batch", most=4),
    Axis("tokens", least=2, long=70),
    Axis("n_tokens", least=4, most=9),
    Choice("padding", (None, "longest first", "longest last")),
)


def drawn_loss(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_tokens, padding = sizes.values()
    ids = rng.integers(1, n_tokens, (batch, tokens))
    if padding:
        lengths = np.sort(rng.integers(2, tokens + 1, batch))[:: -1 if padding == "longest first" else 1]
        ids[np.arange(tokens) >= lengths[:, None]] = 0
    return Case("padding" if padding else "shift", "", (rng.normal(0.0, 2.0, (batch, tokens, n_tokens)), ids, 0))


def right_loss(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    logits, tokens, pad = inputs
    return reference.cross_entropy(logits[:, :-1], tokens[:, 1:], ignore=pad)


def wrong_loss(build: None, inputs: Inputs, weights: Weights, slips: Slips) -> Tensor:
    """The loss with mistakes switched on."""
    logits, tokens, pad = inputs
    if "softmax_twice" in slips:
        logits = logits.softmax(dim=-1)
    if "not_shifted" in slips:
        targets, read = tokens, tokens
    elif "rolled" in slips:
        targets, read = tokens.roll(-1, dims=1), tokens
    elif "shifted_back" in slips:
        logits, targets, read = logits[:, 1:], tokens[:, :-1], tokens[:, 1:]
    else:
        logits, targets, read = logits[:, :-1], tokens[:, 1:], tokens[:, :-1]
    surprise = -logits.log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0]  # (batch, tokens)
    if "detached" in slips:
        surprise = surprise.detach() + 0.0 * logits[..., 0]
    counted = (read if "mask_of_read" in slips else targets) != pad
    if "padding_counted" in slips:
        counted = torch.ones_like(counted)
    surprise = surprise * counted
    if "divided_by_all" in slips:
        return surprise.mean()
    if "per_sequence" in slips:
        return (surprise.sum(dim=1) / counted.sum(dim=1)).mean()
    if "summed" in slips:
        return surprise.sum()
    if "by_batch" in slips:
        return surprise.sum() / len(tokens)
    return surprise.sum() / counted.sum()


SEQUENCE_LOSS = Exercise(
    name="sequence_loss",
    returns="one number, a tensor of shape ()",
    shape=lambda case: (),
    criteria=(
        Criterion("shift", "a model is asked for what comes next", 0.5),
        Criterion("padding", "padding changes nothing", 0.4),
        Criterion("gradients", "gradients reach the logits", 0.1),
        KEPT,
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "sequence_loss.not_shifted",
            "Take a sequence of four tokens. Write down which row of logits is held against which token.",
            "shift",
            costs=("shift", "gradients"),
        ),
        mistake(
            "sequence_loss.divided_by_all",
            "A loss is a mean. Of how many numbers is this one the mean, with padding and without?",
            "mean",
            costs=("padding",),
        ),
        mistake(
            "sequence_loss.shifted_back",
            "Which of the two loses its first entry, and which its last?",
            "shift",
        ),
        mistake(
            "sequence_loss.rolled",
            "What is the answer at the last place? Should it be asked for at all?",
            "shift",
        ),
        mistake(
            "sequence_loss.padding_counted",
            "Which targets must have no part in the loss?",
            "counted",
            costs=("padding",),
        ),
        mistake(
            "sequence_loss.mask_of_read",
            "Two lists of tokens are in play now. Of which of them do you have to know whether it is padding?",
            "counted",
            costs=("padding",),
        ),
        mistake(
            "sequence_loss.per_sequence",
            "The task wants one mean. Over what?",
            "mean",
            costs=("padding",),
        ),
        mistake(
            "sequence_loss.summed",
            "What is a sum divided by to become the mean of the tokens that count?",
            "mean",
        ),
        mistake(
            "sequence_loss.by_batch",
            "What is a sum divided by to become the mean of the tokens that count?",
            "mean",
        ),
        mistake(
            "sequence_loss.softmax_twice",
            "What does `cross_entropy` expect: logits or probabilities?",
            "softmax",
        ),
        mistake(
            "sequence_loss.detached",
            "Look for `.item()`, `detach`, `no_grad`, `.data` or a new tensor made from numbers.",
            "gradient",
        ),
    ),
    cases=loss_cases,
    axes=LOSS_AXES,
    drawn=drawn_loss,
    reference=right_loss,
    variation=wrong_loss,
)


# --- A training loop ---------------------------------------------------------------------------------------------


def training_cases(rng: np.random.Generator) -> list[Case]:
    """Batches of one, where a mean is a sum; one batch, where nothing can pile up; a last batch that is short."""
    visible = np.random.default_rng(82)

    def case(tag: str, label: str, source: np.random.Generator, images: int, batch_size: int, **kwargs: Any) -> Case:
        features, classes = (int(n) for n in source.choice([3, 4, 5, 6], 2, replace=False))
        inputs = (
            source.normal(0.0, 0.5, (features, classes)),
            source.normal(0.0, kwargs.pop("size", 1.0), (images, features)),
            source.integers(0, classes, images),
            float(np.round(source.uniform(0.2, 0.6), 2)),
            batch_size,
        )
        about = f"{label}, {images} images of {features} features, {classes} classes"
        return Case(tag, about, inputs, single=False, **kwargs)

    return [
        case("alone", "batches of 1", visible, 4, 1, visible=True),
        case("alone", "batches of 1", rng, 6, 1),
        case("alone", "batches of 3, 3 and 2", rng, 8, 3),
        case("length", "a single batch of 4", visible, 4, 4, visible=True),
        case("length", "a single batch of 5, batch_size = 7", rng, 5, 7),
        case("length", "a single batch of 6, bright", rng, 6, 6, size=40.0),
        case("manners", "float32", rng, 5, 2, dtype="float32"),
    ]


def right_training(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    start, images, labels, learning_rate, batch_size = inputs
    at, losses = start.detach(), []
    with torch.enable_grad():
        for rows in torch.arange(len(images)).split(batch_size):
            at = at.detach().requires_grad_()
            loss = reference.cross_entropy(images[rows] @ at, labels[rows])
            (gradient,) = torch.autograd.grad(loss, at)
            at = at - learning_rate * gradient
            losses.append(loss)
    return at.detach(), torch.stack(losses).detach()


def wrong_training(build: None, inputs: Inputs, weights: Weights, slips: Slips) -> tuple[Tensor, Tensor]:
    """A pass of gradient descent with mistakes switched on; the gradient of the mean cross-entropy by its formula."""
    at, images, labels, learning_rate, batch_size = inputs
    start = at = at.detach()
    images, kept, losses = images.detach(), torch.zeros_like(at), []
    batches = torch.arange(len(images)).split(batch_size)
    if "drop_last" in slips:
        batches = [rows for rows in batches if len(rows) == batch_size]
    for rows in batches:
        logits = images[rows] @ (start if slips & {"one_step", "not_stepped"} else at)
        probability = logits.softmax(dim=-1)  # (batch, classes)
        wanted = torch.nn.functional.one_hot(labels[rows], logits.size(-1)).to(logits)
        off = probability - wanted
        if "softmax_twice" in slips:
            second = probability.softmax(dim=-1) - wanted
            off = probability * (second - (second * probability).sum(dim=-1, keepdim=True))
        gradient = images[rows].T @ off / len(rows)
        surprise = -logits.log_softmax(dim=-1)
        if "softmax_twice" in slips:
            surprise = -probability.log_softmax(dim=-1)
        loss = (surprise * wanted).sum(dim=-1).mean()
        by = 1.0
        if slips & {"divided_again", "divided_recorded"}:
            by = len(rows)
        elif "by_batch_size" in slips:
            by = batch_size
        elif slips & {"summed", "summed_recorded"}:
            by = 1 / len(rows)
        elif "by_batches" in slips:
            by = len(batches)
        kept = (kept if slips & {"piled_up", "one_step"} else 0.0) + gradient / by
        if not slips & {"one_step", "not_stepped"}:
            at = at + (learning_rate if "uphill" in slips else -learning_rate) * kept
        if slips & {"divided_recorded", "summed_recorded"}:
            loss = loss / by
        if "recorded_after" in slips:
            surprise = -(images[rows] @ at).log_softmax(dim=-1)
            loss = (surprise * wanted).sum(dim=-1).mean()
        losses.append(loss)
        if "first_only" in slips:
            break
    if "one_step" in slips:
        at = at - learning_rate * kept
    return at, torch.stack(losses) if losses else torch.zeros(0).to(at)


TRAIN_ONE_PASS = Exercise(
    name="train_one_pass",
    returns="two tensors: the weights, (features, classes), and the losses, (batches,)",
    shape=lambda case: (case.inputs[0].shape, (math.ceil(len(case.inputs[1]) / case.inputs[4]),)),
    parts=("the weights", "the losses"),
    criteria=(
        Criterion("alone", "each step follows the gradient of its own batch alone", 0.5),
        Criterion("length", "a step is the learning rate times the gradient, for any batch size", 0.5),
        KEPT,
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "train_one_pass.piled_up",
            "Print the gradient before each step, and that of the batch alone. Who adds to it?",
            "pile",
            costs=("alone",),
        ),
        mistake(
            "train_one_pass.divided_again",
            "Follow one number, the loss, from where it is made to `backward`. How often is it made smaller?",
            "length",
            also=("by_batch_size", "divided_recorded"),
            costs=("length",),
        ),
        mistake(
            "train_one_pass.not_stepped",
            "In which order do the gradient's three lines stand: emptied, computed, used?",
            "pile",
        ),
        mistake(
            "train_one_pass.one_step",
            "How many steps should a pass of five batches make? Look at what belongs into the loop.",
            "pile",
        ),
        mistake(
            "train_one_pass.first_only",
            "Look at how far the `return` is indented.",
            "batches",
        ),
        mistake(
            "train_one_pass.drop_last",
            "How many batches do 8 images make, 3 at a time?",
            "batches",
        ),
        mistake(
            "train_one_pass.summed",
            "Four copies of an image: how long should the step be, compared with that of the image alone?",
            "length",
            also=("summed_recorded",),
            costs=("length",),
        ),
        mistake(
            "train_one_pass.by_batches",
            "The learning rate times the gradient: does it say anything about how many batches there are?",
            "length",
            costs=("alone",),
        ),
        mistake(
            "train_one_pass.uphill",
            "In which direction does the gradient point?",
            "sign",
        ),
        mistake(
            "train_one_pass.softmax_twice",
            "What does `cross_entropy` expect: logits or probabilities?",
            "softmax",
        ),
        mistake(
            "train_one_pass.recorded_after",
            "The task wants the loss of each batch before its step. When is yours taken?",
            "record",
        ),
    ),
    cases=training_cases,
    reference=right_training,
    variation=wrong_training,
)


# --- Attention with two masks ------------------------------------------------------------------------------------


def attention_cases(rng: np.random.Generator) -> list[Case]:
    """An encoder and a decoder; with padding and without; all sizes different."""
    visible = np.random.default_rng(83)

    def case(
        tag: str, label: str, source: np.random.Generator, lengths: list[int], causal: bool, **kwargs: Any
    ) -> Case:
        size, spread = (len(lengths), max(lengths)), kwargs.pop("size", 1.5)
        q, k = (source.normal(0.0, spread, (*size, 7)) for _ in range(2))
        if spread > 1.5:
            q[..., 0], k[..., 0] = math.sqrt(7), -600.0
        v = source.normal(0.0, 1.0, (*size, 4))
        about = f"{label}, lengths {', '.join(map(str, lengths))}, causal={causal}"
        inputs = (q, k, v, np.array(lengths), causal)
        return Case(tag, about, inputs, differentiate=kwargs.pop("differentiate", True), **kwargs)

    return [
        case("future", "decoder, no padding", visible, [5, 5], True, visible=True),
        case("future", "decoder, no padding", rng, [6, 6, 6], True),
        case("padding", "encoder, padded", visible, [3, 5], False, visible=True),
        case("padding", "encoder, padded", rng, [6, 2, 1], False),
        case("padding", "decoder, padded", rng, [3, 6], True),
        case("padding", "a single sentence", rng, [6], True),
        case("padding", "decoder, padded, scores far below 0", rng, [7, 4, 7, 6, 5], True, size=9.0, single=False),
        case("manners", "float32", rng, [2, 5], True, differentiate=False, dtype="float32"),
    ]


ATTENTION_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    Axis("d_k", most=5),
    Axis("d_v", most=5),
    Choice("padding", (None, "longest first", "longest last")),
    Choice("causal", (False, True)),
)


def drawn_attention(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_k, d_v, padding, causal = sizes.values()
    lengths = np.full(batch, tokens)
    if padding:
        lengths = np.sort(rng.integers(1, tokens + 1, batch))[:: -1 if padding == "longest first" else 1].copy()
        lengths[0 if padding == "longest first" else -1] = tokens
    q, k, v = (rng.normal(size=(batch, tokens, width)) for width in (d_k, d_k, d_v))
    return Case("padding" if padding else "future", "", (q, k, v, lengths, causal))


def right_attention(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    q, k, v, lengths, causal = inputs
    tokens = q.size(1)
    mask = reference.padding_mask(lengths, tokens)[:, 0]  # (batch, 1, tokens)
    if causal:
        mask = mask & reference.causal_mask(tokens)
    return reference.scaled_dot_product_attention(q, k, v, mask)


def wrong_attention(build: None, inputs: Inputs, weights: Weights, slips: Slips) -> tuple[Tensor, Tensor]:
    """Attention under two masks, with mistakes switched on."""
    q, k, v, lengths, causal = inputs
    tokens = q.size(1)
    place = torch.arange(tokens)
    real = place < lengths[:, None] + int("one_more" in slips)  # (batch, tokens)
    if "real_inverted" in slips:
        real = ~real
    scores = q @ k.mT
    if "unscaled" not in slips:
        scores = scores / math.sqrt(q.size(-1))
    keys = real[:, None, :]
    if slips & {"on_queries", "on_queries_inf", "on_queries_mixed"}:
        keys = real[:, :, None]
    elif slips & {"on_both", "on_both_inf"}:
        keys = real[:, :, None] & real[:, None, :]
    elif "padding_ignored" in slips or (causal and "either" in slips):
        keys = torch.ones_like(keys)
    future = place[None, :] > place[:, None] - int("itself_hidden" in slips)  # (tokens, tokens): query, key
    if "future_inverted" in slips:
        future = ~future
    if "future_seen" in slips or not (causal or "always" in slips):
        future = torch.zeros_like(future)
    infinite = {"on_queries_inf", "on_both_inf", "real_inverted", "itself_hidden", "future_inverted"}
    fill_padding = fill_future = 0.0 if "filled_with_0" in slips else -math.inf if slips & infinite else -1e9
    if "on_queries_mixed" in slips:
        fill_future = -math.inf
    if "mask_after" in slips:
        attention = scores.softmax(dim=-1) * keys * ~future
    elif "future_after" in slips:
        attention = scores.masked_fill(~keys, fill_padding).softmax(dim=-1) * ~future
    else:
        attention = scores.masked_fill(~keys, fill_padding).masked_fill(future, fill_future).softmax(dim=-1)
    return attention @ v, attention


def _rows_sum_to_1(case: Case, outputs: tuple[Any, ...]) -> bool:
    return bool(np.allclose(outputs[1].sum(-1), 1.0, atol=1e-5))


def _padding_hidden(case: Case, outputs: tuple[Any, ...]) -> bool | None:
    real = np.arange(outputs[1].shape[-1]) < case.inputs[3][:, None]
    return None if real.all() else not np.any(outputs[1] * ~real[:, None, :])


def _future_hidden(case: Case, outputs: tuple[Any, ...]) -> bool | None:
    return not np.any(np.triu(outputs[1], 1)) if case.inputs[4] else None


MASKED_ATTENTION = Exercise(
    name="masked_attention",
    returns="two tensors: the output, (batch, tokens, d_v), and the weights, (batch, tokens, tokens)",
    shape=lambda case: (
        (*case.inputs[0].shape[:2], case.inputs[2].shape[-1]),
        (*case.inputs[0].shape[:2], case.inputs[0].shape[1]),
    ),
    parts=("the output", "the weights"),
    criteria=(
        Criterion("future", "in a decoder, no token sees what comes after it", 0.5),
        Criterion("padding", "no query sees padding, in an encoder and in a decoder", 0.4),
        Criterion("gradients", "gradients reach q, k and v", 0.1),
        KEPT,
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "masked_attention.future_seen",
            "Print the scores right before the softmax. Do they know of the mask?",
            "future",
            costs=("future", "gradients"),
        ),
        mistake(
            "masked_attention.on_queries",
            "Weights have a row per query and a column per key. Which is hidden here, and which should be?",
            "padding",
            also=("on_queries_mixed", "on_queries_inf"),
            costs=("padding",),
        ),
        mistake(
            "masked_attention.on_both",
            "The task hides keys. Which of your two masks hides queries?",
            "padding",
            also=("on_both_inf",),
            costs=("padding",),
        ),
        mistake(
            "masked_attention.padding_ignored",
            "Follow the padding mask to the softmax. Is what it makes of the scores used?",
            "padding",
            costs=("padding",),
        ),
        mistake(
            "masked_attention.either",
            "Is your second mask an alternative to the first, or does it come on top?",
            "padding",
            costs=("padding",),
        ),
        mistake(
            "masked_attention.one_more",
            "A sentence of length 3 has tokens 0, 1 and 2. What does your comparison say of 3?",
            "lengths",
            costs=("padding",),
        ),
        mistake(
            "masked_attention.real_inverted",
            "Which value of the mask does `masked_fill` replace?",
            "lengths",
            costs=("padding",),
        ),
        mistake(
            "masked_attention.itself_hidden",
            "Which diagonal does `triu` begin with?",
            "future",
            costs=("future",),
        ),
        mistake(
            "masked_attention.future_inverted",
            "Which value of the mask does `masked_fill` replace?",
            "future",
            costs=("future",),
        ),
        mistake(
            "masked_attention.always",
            "Who asks for `causal` in your program?",
            "future",
        ),
        mistake(
            "masked_attention.future_after",
            "Where must a hidden key be hidden, so that the others share its weight?",
            "future",
            costs=("future",),
        ),
        mistake(
            "masked_attention.mask_after",
            "Where must a hidden key be hidden, so that the others share its weight?",
            "fill",
        ),
        mistake(
            "scaled_dot_product_attention.filled_with_0",
            "Which score has the exponential 0?",
            "fill",
        ),
        mistake(
            "attention_scores.unscaled",
            "Compare the line of the scores with the one that you were given.",
            "scale",
        ),
    ),
    cases=attention_cases,
    axes=ATTENTION_AXES,
    drawn=drawn_attention,
    reference=right_attention,
    variation=wrong_attention,
    properties=(
        Property("each row of the weights sums to 1", _rows_sum_to_1),
        Property("with causal=True, later keys get weight 0", _future_hidden),
        Property("padding gets weight 0", _padding_hidden),
    ),
)


# --- Tokens with their positions ---------------------------------------------------------------------------------


def embedding_cases(rng: np.random.Generator) -> list[Case]:
    """A table of zeros, which shows the positions alone; one late token, which shows the sum; batches of all sizes."""
    visible = np.random.default_rng(84)

    def case(
        tag: str, label: str, source: np.random.Generator, size: tuple[int, ...], start: int, **kwargs: Any
    ) -> Case:
        d_model = kwargs.pop("d_model", 6)
        table = source.normal(0.0, kwargs.pop("spread", 0.7), (9, d_model))
        ids = source.integers(0, 9, size)
        about = f"{label}, ids of shape {size}, d_model={d_model}, start={start}"
        return Case(tag, about, (table, ids, start), differentiate=kwargs.pop("differentiate", True), **kwargs)

    late = int(rng.integers(3, 30))
    return [
        case("places", "all embeddings 0", visible, (3, 4), 0, spread=0.0, visible=True),
        case("places", "a batch", rng, (2, 5), 0, d_model=8),
        case("places", "a batch that goes on", rng, (4, 3), late),
        case("sum", "one token", visible, (1, 1), 7, visible=True),
        case("sum", "one token", rng, (1, 1), late, d_model=10),
        case("manners", "float32", rng, (2, 3), 0, differentiate=False, dtype="float32"),
    ]


EMBEDDING_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    Axis("d_model", least=2, most=8),
    Choice("start", (0, 1, 30)),
    Only(lambda sizes: sizes["d_model"] % 2 == 0),
)


def drawn_embedding(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, start = sizes.values()
    return Case("sum", "", (rng.normal(0.0, 0.7, (9, d_model)), rng.integers(0, 9, (batch, tokens)), start))


def _positions(tokens: int, d_model: int, start: int, like: Tensor) -> Tensor:
    return reference.sinusoidal_encoding(start + tokens, d_model)[start:].to(like)


def right_embedding(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    table, ids, start = inputs
    d_model = table.size(1)
    return math.sqrt(d_model) * table[ids] + _positions(ids.size(1), d_model, start, table)


def wrong_embedding(build: None, inputs: Inputs, weights: Weights, slips: Slips) -> Tensor:
    """Embedding with mistakes switched on."""
    table, ids, start = inputs
    batch, tokens = ids.shape
    d_model = table.size(1)
    scale = {"not_scaled": 1.0, "divided": d_model**-0.5, "by_d_model": float(d_model)}
    x = next((s for key, s in scale.items() if key in slips), math.sqrt(d_model)) * table[ids]
    start = 0 if "start_ignored" in slips else start
    if "by_batch" in slips:
        places = _positions(batch, d_model, start, table)[:, None].expand_as(x)
    elif "scrambled" in slips:
        places = _positions(tokens, d_model, start, table)[:, None].expand(tokens, batch, d_model).reshape(x.shape)
    else:
        places = _positions(tokens, d_model, start, table).expand_as(x)
    if "positions_lost" in slips:
        places = torch.zeros_like(places)
    if "token_lost" in slips:
        x = torch.zeros_like(x)
    if "both_scaled" in slips:
        places = math.sqrt(d_model) * places
    if "positions_twice" in slips:
        places = 2 * places
    if "x_twice" in slips:
        x = 2 * x
    if "all_twice" in slips:
        x, places = 2 * x, 2 * places
    if "table_detached" in slips:
        x = x.detach() + 0.0 * table[ids]
    return (x + places).transpose(0, 1) if "not_turned_back" in slips else x + places


EMBED_TOKENS = Exercise(
    name="embed_tokens",
    returns="a tensor of shape (batch, tokens, d_model)",
    shape=lambda case: (*case.inputs[1].shape, case.inputs[0].shape[1]),
    criteria=(
        Criterion("places", "each token gets the position of its own place", 0.5),
        Criterion("sum", "a token is its embedding once and its position once", 0.4),
        Criterion("gradients", "gradients reach the table", 0.1),
        KEPT,
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "embed_tokens.by_batch",
            "`add_positions` says which shape it takes, and what its axes mean. Which shape does it get?",
            "places",
            costs=("places", "gradients"),
        ),
        mistake(
            "embed_tokens.x_twice",
            "What does `add_positions` return: positions, or something that already holds more?",
            "sum",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.all_twice",
            "How many times is each of the two in what you return?",
            "sum",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.positions_twice",
            "Count the additions between the table and the result.",
            "sum",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.token_lost",
            "Take the same place with two different words. What should differ?",
            "sum",
        ),
        mistake(
            "embed_tokens.positions_lost",
            "Follow what `add_positions` returns.",
            "sum",
        ),
        mistake(
            "embed_tokens.not_turned_back",
            "You have turned the axes on the way in.",
            "axes",
        ),
        mistake(
            "embed_tokens.scrambled",
            "What is the difference between `view` or `reshape` and `transpose`?",
            "places",
            costs=("places",),
        ),
        mistake(
            "embed_tokens.start_ignored",
            "Follow `start` from the signature to where the positions are made.",
            "start",
        ),
        mistake(
            "embed_tokens.both_scaled",
            "What is multiplied: the embedding, or the sum?",
            "scale",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.not_scaled",
            "Compare your first line with the one that you were given.",
            "scale",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.divided",
            "Compare your first line with the one that you were given.",
            "scale",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.by_d_model",
            "Compare your first line with the one that you were given.",
            "scale",
            costs=("sum",),
        ),
        mistake(
            "embed_tokens.table_detached",
            "Look for `detach`, `no_grad`, `.data`, `.tolist()` or NumPy between the table and the result.",
            "gradient",
        ),
    ),
    cases=embedding_cases,
    axes=EMBEDDING_AXES,
    drawn=drawn_embedding,
    reference=right_embedding,
    variation=wrong_embedding,
)


# --- A report on what a model writes -----------------------------------------------------------------------------


def report_cases(rng: np.random.Generator) -> list[Case]:
    """Models that are sometimes right. Words of one length, for which only the writing counts, and words of several."""
    visible = np.random.default_rng(85)

    def case(
        tag: str, label: str, source: np.random.Generator, lengths: list[int], n_tokens: int, **kwargs: Any
    ) -> Case:
        end = int(source.integers(0, n_tokens))
        letters = [token for token in range(n_tokens) if token != end]
        after = source.permutation(letters)  # what the model writes after each letter: a circle through all of them
        table = source.normal(0.0, 1.0, (n_tokens, n_tokens))
        table[after, np.roll(after, -1)] += 6.0
        table[end, after[0]] += 6.0  # what it would write after an end, if it were asked
        table[after[-1], end] += 12.0
        following = {int(token): int(table[token].argmax()) for token in range(n_tokens)}
        words = np.full((len(lengths), max(lengths)), end)
        for row, length in enumerate(lengths):
            words[row, 0] = after[row % 3]
            for place in range(1, length - 1):
                usual = following[int(words[row, place - 1])]
                words[row, place] = usual if usual != end and source.random() < 0.6 else source.choice(letters)
        about = f"{label}, words of shape {words.shape}, end={end}"
        return Case(tag, about, (table, words, end), single=False, **kwargs)

    return [
        case("alone", "words of one length", visible, [6, 6, 6, 6], 7, visible=True),
        case("alone", "words of one length", rng, [7, 7, 7, 7, 7], 9),
        case("counted", "words of several lengths", visible, [7, 3, 4, 5], 8, visible=True),
        case("counted", "words of several lengths", rng, [9, 3, 6, 4, 2], 9),
        case("counted", "words of several lengths", rng, [5, 8, 3], 6),
    ]


def right_report(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    table, words, end = inputs
    after = table.detach().argmax(dim=-1)
    after[end] = end
    written = [words[:, 0]]
    while len(written) < words.size(1):
        written.append(after[written[-1]])
    written = torch.stack(written, dim=1)
    asked = words[:, :-1] != end
    return written, (written == words)[:, 1:][asked].to(table).mean()


def wrong_report(build: None, inputs: Inputs, weights: Weights, slips: Slips) -> tuple[Tensor, Tensor]:
    """The report with mistakes switched on."""
    table, words, end = inputs
    after = (table.mT if "columns" in slips else table).detach().argmax(dim=-1)
    if "not_stopped" not in slips:
        after[end] = end
    written = words[:, :1]
    for place in range(1, words.size(1)):
        read = written[:, 0] if "first_again" in slips else written[:, -1]
        if "answers_read" in slips:
            read = words[:, place - 1]
        written = torch.cat([written, after[read][:, None]], dim=1)
    right = written == words
    asked = torch.cat([torch.zeros_like(right[:, :1]), words[:, :-1] != end], dim=1)
    if "filler_counted" in slips:
        asked[:, 1:] = True
    elif "end_not_counted" in slips:
        asked = words != end
        asked[:, 0] = False
    elif "as_written" in slips:
        asked[:, 1:] = written[:, :-1] != end
    if "first_counted" in slips:
        asked[:, 0] = True
    if "whole_words" in slips:
        return written, (right | ~asked).all(dim=1).to(table).mean()
    if "per_word" in slips:
        return written, ((right & asked).sum(dim=1) / asked.sum(dim=1)).to(table).mean()
    if "summed" in slips:
        return written, right[asked].to(table).sum()
    if "by_all" in slips:
        return written, (right & asked)[:, 1:].to(table).mean()
    return written, right[asked].to(table).mean()


LETTERS_RIGHT = Exercise(
    name="letters_right",
    returns="two tensors: what the model wrote, (batch, length), and a share of shape ()",
    shape=lambda case: (case.inputs[1].shape, ()),
    parts=("what was written", "the share"),
    criteria=(
        Criterion("alone", "the model writes on its own", 0.5),
        Criterion("counted", "only letters that were asked for are counted", 0.5),
        KEPT,
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "letters_right.answers_read",
            "At every letter, ask: what has been written so far, and what is read?",
            "read",
            costs=("alone",),
        ),
        mistake(
            "letters_right.filler_counted",
            "How many letters does a word of three letters ask for, in a batch of width nine? Count what you count.",
            "count",
            costs=("counted",),
        ),
        mistake(
            "letters_right.by_all",
            "A share has two counts. Which of yours still knows about the width of the batch?",
            "mean",
            costs=("counted",),
        ),
        mistake(
            "letters_right.end_not_counted",
            "Which is the last place that belongs to a word?",
            "count",
            costs=("counted",),
        ),
        mistake(
            "letters_right.as_written",
            "Whose length says what was asked for?",
            "count",
            costs=("counted",),
        ),
        mistake(
            "letters_right.first_counted",
            "Which letters did the model write?",
            "first",
            costs=("counted",),
        ),
        mistake(
            "letters_right.per_word",
            "The task wants the share of all letters. Over what is your mean?",
            "mean",
            costs=("counted",),
        ),
        mistake(
            "letters_right.whole_words",
            "The task asks for the share of letters.",
            "mean",
        ),
        mistake(
            "letters_right.summed",
            "Right letters out of how many?",
            "mean",
        ),
        mistake(
            "letters_right.not_stopped",
            "Compare with the program that you were given: what did it do with an ended word?",
            "stop",
        ),
        mistake(
            "letters_right.first_again",
            "Which letter has just been written?",
            "read",
        ),
        mistake(
            "letters_right.columns",
            "What does a row of the table hold?",
            "table",
        ),
    ),
    cases=report_cases,
    reference=right_report,
    variation=wrong_report,
)
