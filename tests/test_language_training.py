"""Language models learn: a text that repeats to nearly no bits, code to fewer bits than counting."""

from dataclasses import replace

import pytest
import torch

from headroom import language_training, training
from headroom.data import (
    CHARACTERS,
    PAD,
    Digits,
    as_ids,
    code_tokens,
    embedded_code,
    repeated_sequences,
    written_dates,
)
from headroom.language_training import next_accuracy, repeat_accuracy, train_language_model, train_on_repeats
from headroom.pretrained import checkpoint, dates_transformer, pretrained_language_model
from headroom.recipes import DATES, Distillation, Recipe
from headroom.reference import (
    LanguageModel,
    NGram,
    ViT,
    hard_distillation_loss,
    next_token_loss,
    padding_mask,
    soft_distillation_loss,
    surprise,
)
from headroom.scale import VARIABLE
from headroom.training import seed_everything, train_transformer

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


# What the loop is given, without training


@pytest.fixture
def given(monkeypatch):
    """The arguments of `fit`, which trains nothing here."""
    kept = {}

    def fit(model, **arguments):
        kept.update(arguments, model=model)
        return training.History()

    for module in (training, language_training):
        monkeypatch.setattr(module, "fit", fit)
    return kept


def test_an_epoch_of_text_cuts_it_into_windows_that_begin_elsewhere_for_each_batch(given):
    model = LanguageModel(len(CHARACTERS), d_model=16, n_layers=1, n_heads=2, d_ff=32, max_tokens=24)
    text, val = torch.arange(24 * 10 + 1) % 96, torch.arange(24 * 500) % 96
    train_language_model(model, text, val, QUICK, "cpu")
    assert given["examples"] == 9 and given["divisible"] and given["recipe"] is QUICK and given["model"] is model
    starts = set()
    for _ in range(200):
        (windows,) = given["batch"](torch.tensor([0, 8]), 0.5)
        assert windows.shape == (2, 25) and torch.equal(windows[1, 0], (windows[0, 0] + 8 * 24) % 96)
        assert torch.equal(windows[0], (windows[0, 0] + torch.arange(25)) % 96), "neighbours stay neighbours"
        starts.add(int(windows[0, 0]))
    assert starts == set(range(24))
    (windows,) = given["batch"](torch.tensor([3]), 0.0)
    assert torch.equal(given["loss"](windows), next_token_loss(model, windows))
    cut = val[: language_training.ASKED].unfold(0, 25, 24)
    assert given["validate"]() == next_accuracy(model, cut) and len(cut) == 416


def test_each_batch_of_repeats_has_one_length_and_is_drawn_anew(given):
    model, told = LanguageModel(50, 16, 1, 2, max_tokens=60, feed_forward=None), []
    recipe = Recipe(epochs=2, batch_size=3, lr=1e-2, weight_decay=0.0)
    train_on_repeats(model, recipe, after_epoch=told.append, device="cpu")
    assert told == [0] and given["examples"] == 300 and not given.get("divisible")
    lengths = []
    for _ in range(300):
        (ids,) = given["batch"](torch.arange(3), 0.0)
        half = ids.size(1) // 2
        assert torch.equal(ids[:, :half], ids[:, half:]) and ids.shape == (3, 2 * half)
        assert all(len(set(row.tolist())) == half for row in ids[:, :half]), "its symbols all differ"
        lengths.append(half)
    assert set(lengths) == set(range(8, 31)) == set(language_training.LENGTHS)
    asked = []
    model.register_forward_pre_hook(lambda _, args: asked.append(args[0]))
    reached = [given["validate"]() for _ in range(2)]
    assert told == [0, 100, 200] and reached[0] == reached[1], "the same sequences after every epoch"
    assert [tuple(ids.shape) for ids in asked[:23]] == [(16, 2 * length) for length in range(8, 31)]
    ids = asked[0]
    assert torch.equal(given["loss"](ids), next_token_loss(model, ids)), "over every token"


def test_dates_are_read_to_the_longest_of_a_batch_and_padding_is_hidden(given):
    dates, val = (written_dates(split, n, languages=("en",)) for split, n in (("train", 40), ("val", 5)))
    model, recipe = dates_transformer(), replace(DATES, smoothing=0.1)
    train_transformer(model, dates, val, recipe, "cpu")
    assert given["examples"] == 40 and given["divisible"] and given["recipe"] is recipe
    assert torch.equal(given["lengths"], dates.source_lengths), "batches are made of similar ones"
    rows = dates.source_lengths.argsort()[:3]
    source, mask, target = given["batch"](rows, 0.0)
    longest = int(dates.source_lengths[rows].max())
    assert source.shape == (3, longest) and torch.equal(mask, padding_mask(dates.source_lengths[rows], longest))
    assert torch.equal(source, dates.source[rows, :longest]) and torch.equal(target, dates.target[rows])
    padded = target.clone()
    padded[0, -2:] = PAD
    logits = model(source, padded[:, :-1], mask)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), padded[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
    )
    torch.testing.assert_close(given["loss"](source, mask, padded), expected)
    assert given["validate"]() == training.exact_match(model, val)


@pytest.mark.parametrize("hard", [False, True])
def test_a_student_is_told_the_share_and_the_temperature_of_its_distillation(given, hard):
    images, labels = torch.rand(8, 1, 28, 28), torch.arange(8)
    teacher, student = ViT(dropout=0.5).train(), ViT()
    how = Distillation(temperature=2.0, alpha=0.25, hard=hard)
    training.distill(student, teacher, Digits(images, labels, images, labels), QUICK, how, "cpu")
    assert not teacher.training and given["divisible"]
    said, taught = student(images), teacher(images).detach()
    expected = (
        hard_distillation_loss(said, said, taught, labels, 0.25)
        if hard
        else soft_distillation_loss(said, said, taught, labels, 2.0, 0.25)
    )
    loss = given["loss"](images, labels)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(one.grad is None for one in teacher.parameters()), "the teacher is not trained"
