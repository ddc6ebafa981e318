"""Training a language model on code: a few lines around `headroom.training.fit`.

seed_everything(1)
model = LanguageModel(len(CHARACTERS))
history = train_language_model(model, embedded_code(), Recipe(epochs=4, batch_size=8, lr=6e-3, weight_decay=0.1))
"""

import torch
from torch import Tensor, nn

from headroom.data import Code, as_ids
from headroom.recipes import Recipe
from headroom.reference import LanguageModel, next_token_loss
from headroom.training import History, fit, pick_device

ASKED = 20_000  # characters of the validation files that the model is asked for after every epoch


def train_language_model(
    model: LanguageModel, code: Code, recipe: Recipe, device: torch.device | str | None = None
) -> History:
    """Train a language model to predict each character of code from those before it.

    An example is a window of `model.max_tokens` characters and the one after it. An epoch cuts the training files, put
    one after the other, into such windows; each batch begins to cut at another place.

    Args:
        model: with the vocabulary's size, as from `LanguageModel(len(CHARACTERS))`.
        code: training files, and validation files, of which the first 20,000 characters are asked for after each epoch.
        recipe: how to train.
        device: where; by default the fastest there is (see `pick_device`).

    Returns:
        what happened; `val_accuracy` is the share of characters that were the model's likeliest.

    What becomes of the model, and errors: as of `fit`.
    """
    device = pick_device(str(device) if device else None)
    ids, length = as_ids(code.train).to(device), model.max_tokens
    val_windows = as_ids(code.val)[:ASKED].to(device).unfold(0, length + 1, length)  # (n, length + 1)

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


@torch.no_grad()
def next_accuracy(model: nn.Module, windows: Tensor, batch_size: int = 64) -> float:
    """The share of tokens, 0 … 1, that are the likeliest to a model in eval mode. The model keeps its mode.

    Args:
        model: ids `(batch, tokens)` → logits of the token after each, `(batch, tokens, n_vocabulary)`.
        windows: ids `(n, tokens + 1)`, on the model's device; of each, the first is not asked for.
    """
    was_training = model.training
    model.eval()
    try:
        right = [model(some[:, :-1]).argmax(dim=-1) == some[:, 1:] for some in windows.split(batch_size)]
        return torch.cat(right).float().mean().item()
    finally:
        model.train(was_training)
