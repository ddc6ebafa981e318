"""Language models learn: a text that repeats costs them nearly nothing."""

import pytest
import torch

from headroom.data import CHARACTERS, Code, as_ids
from headroom.language_training import next_accuracy, train_language_model
from headroom.recipes import Recipe
from headroom.reference import LanguageModel, surprise
from headroom.training import seed_everything

REPEATED = Code(*({"count.py": "0123456789\n" * n} for n in (200, 60, 60)))
QUICK = Recipe(epochs=8, batch_size=4, lr=1e-2, weight_decay=0.0)


def learned(seed=1):
    seed_everything(seed)
    model = LanguageModel(len(CHARACTERS), d_model=16, n_layers=1, n_heads=2, d_ff=32, max_tokens=24)
    return model, train_language_model(model, REPEATED, QUICK, "cpu")


def test_a_text_that_repeats_is_learned_and_gone_on_with():
    model, history = learned()
    assert not model.training and len(history.losses) == 8 * -(-90 // 4)
    assert history.val_accuracy[-1] > 0.99
    assert surprise(model, as_ids(REPEATED.test), 24).mean() < 0.1
    written = model.generate(as_ids({"": "0123456789\n012"})[None], 8, top_k=1)
    assert CHARACTERS.decode(written) == ["3456789\n"]


def test_the_same_seed_gives_the_same_model():
    (one, first), (two, second) = learned(), learned()
    assert first.losses == second.losses
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)


def test_accuracy_counts_likeliest_next_tokens_and_leaves_the_models_mode():
    model = LanguageModel(len(CHARACTERS), d_model=16, n_layers=1, n_heads=2, d_ff=32, max_tokens=24)
    windows = torch.randint(len(CHARACTERS), (5, 25))
    with torch.no_grad():
        right = (model(windows[:, :-1]).argmax(dim=-1) == windows[:, 1:]).float().mean()
    assert next_accuracy(model.train(), windows, batch_size=2) == pytest.approx(right.item())
    assert model.training
