"""Training a language model, on text or on sequences that repeat: a few lines around `headroom.training.fit`.

seed_everything(1)
code, tokens = embedded_code(), code_tokens()
train, val = (tokens.encode("".join(files.values())) for files in (code.train, code.val))
model = small_code_model()
history = train_language_model(model, train, val, CODE_MINUTE)
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headroom.data import repeated_sequences
from headroom.modes import looking_at
from headroom.recipes import Recipe
from headroom.reference import LanguageModel, next_token_loss
from headroom.training import History, fit, pick_device

ASKED = 10_000  # tokens of the validation text that the model is asked for after every epoch
LENGTHS = tuple(range(8, 31))  # of random sequences, until they repeat
EPOCH = 100  # batches of them that count as an epoch


def train_language_model(
    model: LanguageModel, train: Tensor, val: Tensor, recipe: Recipe, device: torch.device | str | None = None
) -> History:
    """Train a language model to predict each token of a text from those before it.

    An example is a window of `model.max_tokens` tokens and the one after it. An epoch cuts the text into such windows,
    and each batch begins to cut at another place.

    Args:
        model: as from `LanguageModel(n_vocabulary)`.
        train: the ids of the training text, int64 `(tokens,)`, at least three windows.
        val: those of the validation text, at least a window; after each epoch the first 10,000 are asked for.
        recipe: how to train.
        device: where; by default the fastest there is (see `pick_device`).

    Returns:
        what happened; `val_accuracy` is the share of tokens that were the model's likeliest.

    Raises:
        ValueError: a text is too short.

    What becomes of the model, and other errors: as of `fit`.
    """
    device = pick_device(device)
    length = model.max_tokens
    for name, ids, windows in (("train", train, 3), ("val", val, 1)):
        if len(ids) < windows * length + 1:
            raise ValueError(f"{name} has {len(ids)} tokens; with max_tokens={length}, it needs {windows * length + 1}")
    ids = train.to(device)
    val_windows = val[:ASKED].to(device).unfold(0, length + 1, length)  # (n, length + 1)

    def batch(rows: Tensor, _progress: float) -> tuple[Tensor]:
        first = rows[:, None] * length + int(torch.randint(length, (1,)))  # (batch, 1)
        return (ids[first + torch.arange(length + 1, device=device)],)  # (batch, length + 1)

    return fit(
        model,
        examples=(len(ids) - 1) // length - 1,
        batch=batch,
        loss=lambda ids: next_token_loss(model, ids),
        validate=lambda: next_accuracy(model, val_windows),
        recipe=recipe,
        device=device,
        divisible=True,
    )


def next_accuracy(model: nn.Module, windows: Tensor, batch_size: int = 64) -> float:
    """The share of tokens, 0 … 1, that are the likeliest to a model in eval mode. The model keeps its mode.

    Args:
        model: ids `(batch, tokens)` → logits of the token after each, `(batch, tokens, n_vocabulary)`.
        windows: ids `(n, tokens + 1)`, on the model's device; of each, the first is not asked for.
    """
    with looking_at(model):
        right = [model(some[:, :-1]).argmax(dim=-1) == some[:, 1:] for some in windows.split(batch_size)]
    return torch.cat(right).float().mean().item()


def train_on_repeats(
    model: LanguageModel,
    recipe: Recipe,
    lengths: Sequence[int] = LENGTHS,
    after_epoch: Callable[[int], None] | None = None,
    device: torch.device | str | None = None,
) -> History:
    """Train a language model on random sequences of different symbols that are written twice.

    Each batch is drawn anew, all of it of one length; 100 batches count as an epoch. The loss is over every token.

    Args:
        model: of `n_symbols` tokens, with room for twice the longest length.
        recipe: how to train.
        lengths: from which each batch's length is drawn, the symbols until a sequence repeats.
        after_epoch: is called with the number of steps so far, before the first one and after every epoch.
        device: where; by default the fastest there is (see `pick_device`).

    Returns:
        what happened; `val_accuracy` is `repeat_accuracy` on 16 sequences of each length.

    What becomes of the model, and errors: as of `fit`.
    """
    device = pick_device(device)
    n_symbols = model.embed.num_embeddings
    own = torch.Generator().manual_seed(0)  # the same sequences after every epoch, and from every seed
    held_out = {length: repeated_sequences(16, length, n_symbols, own, distinct=True).to(device) for length in lengths}
    steps = 0

    def batch(rows: Tensor, _progress: float) -> tuple[Tensor]:
        length = lengths[int(torch.randint(len(lengths), (1,)))]
        ids = repeated_sequences(len(rows), length, n_symbols, distinct=True)  # (batch, 2 · length)
        return (ids.to(device),)

    def validate() -> float:
        nonlocal steps
        steps += EPOCH
        if after_epoch:
            after_epoch(steps)
        return sum(repeat_accuracy(model, ids) for ids in held_out.values()) / len(held_out)

    if after_epoch:
        after_epoch(0)
    return fit(
        model,
        examples=EPOCH * recipe.batch_size,
        batch=batch,
        loss=lambda ids: next_token_loss(model, ids),
        validate=validate,
        recipe=recipe,
        device=device,
    )


@torch.no_grad()
def repeat_accuracy(model: nn.Module, ids: Tensor) -> float:
    """The share of tokens of the second half, 0 … 1, that are the likeliest to the model, as it is.

    The half's first token is not asked for: nothing tells that the sequence begins again.

    Args:
        model: ids `(batch, tokens)` → logits of the token after each, `(batch, tokens, n_vocabulary)`.
        ids: sequences that are written twice, `(n, 2 · length)`, on the model's device.
    """
    length = ids.size(1) // 2
    guesses = model(ids)[:, length:-1].argmax(dim=-1)  # (n, length - 1)
    return (guesses == ids[:, length + 1 :]).float().mean().item()
