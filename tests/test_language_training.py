"""Language models learn: a text that repeats to nearly no bits, code to fewer bits than counting."""

import pytest
import torch

from headroom.data import CHARACTERS, as_ids, code_tokens, embedded_code, repeated_sequences
from headroom.language_training import next_accuracy, repeat_accuracy, train_language_model, train_on_repeats
from headroom.pretrained import checkpoint, pretrained_language_model
from headroom.recipes import Recipe
from headroom.reference import LanguageModel, NGram, surprise
from headroom.scale import VARIABLE
from headroom.training import seed_everything

TRAIN, VAL = (as_ids({"count.py": "0123456789\n" * n}) for n in (200, 60))
QUICK = Recipe(epochs=8, batch_size=4, lr=1e-2, weight_decay=0.0)


def learned(seed=1):
    seed_everything(seed)
    model = LanguageModel(len(CHARACTERS), d_model=16, n_layers=1, n_heads=2, d_ff=32, max_tokens=24, dropout=0.05)
    return model, train_language_model(model, TRAIN, VAL, QUICK, "cpu")


def test_a_text_that_repeats_is_learned_and_gone_on_with():
    model, history = learned()
    assert not model.training and len(history.losses) == 8 * -(-90 // 4)
    assert history.val_accuracy[-1] > 0.99
    assert surprise(model, VAL, 24).mean() < 0.1
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


@pytest.mark.parametrize("name, train, val", [("train", TRAIN[:72], VAL), ("val", TRAIN, VAL[:24])])
def test_a_text_that_is_too_short_is_refused(name, train, val):
    model = LanguageModel(len(CHARACTERS), d_model=16, n_layers=1, n_heads=2, d_ff=32, max_tokens=24)
    with pytest.raises(ValueError, match=f"{name} has .* tokens; with max_tokens=24, it needs"):
        train_language_model(model, train, val, QUICK, "cpu")


@pytest.fixture
def full_scale(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def bits_per_character(model):
    text = "".join(embedded_code().test.values())
    with torch.no_grad():
        return (surprise(model, code_tokens().encode(text), model.max_tokens).sum() / len(text)).item()


def best_count():
    """Bits per character of the best n-gram on the test files, with discounts that suit code."""
    code = embedded_code()
    return NGram(as_ids(code.train), len(CHARACTERS), 7).bits(as_ids(code.test))


@pytest.mark.full
def test_the_model_that_comes_with_the_course_beats_counting_by_15_percent(full_scale):
    model = pretrained_language_model()
    assert not model.training and bits_per_character(model) < 0.85 * best_count()
    assert checkpoint("code")["val_accuracy"] > 0.35


def little(seed=1, **changes):
    seed_everything(seed)
    model = LanguageModel(12, 16, 1, 2, max_tokens=16, feed_forward=None)
    recipe = Recipe(**{"epochs": 2, "batch_size": 16, "lr": 1e-2, "weight_decay": 0.0} | changes)
    steps = []
    return model, train_on_repeats(model, recipe, [6, 8], steps.append, "cpu"), steps


@pytest.mark.full
def test_training_on_repeats_tells_how_far_it_is_and_can_be_repeated():
    (one, first, steps), (two, second, _) = little(), little()
    assert steps == [0, 100, 200] and len(first.losses) == 200 and not one.training
    assert first.losses == second.losses and first.losses[-1] < first.losses[0]
    assert len(first.val_accuracy) == 2 and all(0 <= reached <= 1 for reached in first.val_accuracy)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_first_token_of_the_second_half_is_not_asked_for():
    ids = repeated_sequences(4, 5, 9)

    def says(right_from):
        """A model that names the next token from a place on, and another one before it."""
        following = ids.roll(-1, 1)
        wrong = (torch.arange(10) < right_from).long()
        return lambda _: torch.nn.functional.one_hot((following + wrong) % 9, 9).float()

    assert repeat_accuracy(says(5), ids) == 1  # the query at place 5 is the first that can know
    assert repeat_accuracy(says(6), ids) == 0.75
    assert repeat_accuracy(says(10), ids) == 0
