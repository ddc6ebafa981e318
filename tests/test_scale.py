"""The scale: full unless the variable says small, smaller then in known places only, and never with kept results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from headroom import pretrained, scale
from headroom.data import LANGUAGES, Digits, embedded_digits, some_digits, written_dates
from headroom.recipes import VIT_DIGITS
from headroom.training import train

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, "small")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scale.VARIABLE, raising=False)


@pytest.mark.parametrize("value", [None, "", "full"])
def test_everything_is_as_written_unless_the_variable_says_small(value, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scale.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(scale.VARIABLE, value)
    assert scale.scale() == "full"
    assert [scale.scaled(n) for n in (0, 1, 300)] == [0, 1, 300]
    scale.need_full_scale("A test runs")


def test_small_is_at_most_so_much(small) -> None:
    assert [scale.scaled(n) for n in (0, 1, 3, 300)] == [0, 1, 3, scale.ROUNDS]
    assert scale.scaled(300, most=20) == 20


@pytest.mark.parametrize("value", ["tiny", "Small", "1"])
def test_another_value_is_an_error_that_says_what_would_be_right(value, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, value)
    for ask in (scale.scale, lambda: scale.scaled(3), lambda: scale.claim(True, "it is so"), embedded_digits):
        with pytest.raises(ValueError, match=f"HEADROOM_SCALE='{value}'.*'small' or 'full'"):
            ask()


def test_a_claim_is_asserted_at_full_scale(full, capsys: pytest.CaptureFixture) -> None:
    scale.claim(True, "two is more than one")
    assert capsys.readouterr().out == ""
    with pytest.raises(AssertionError, match="expected, and is not so: one is more than two"):
        scale.claim(False, "one is more than two")
    with pytest.raises(AssertionError):
        scale.claim(torch.tensor(0.4) > 0.9, "the model has learned")


def test_a_claim_is_only_printed_at_small_scale(small, capsys: pytest.CaptureFixture) -> None:
    for holds in (True, False):
        scale.claim(holds, "the model has learned")
        assert capsys.readouterr().out == "Asserted at full scale only: the model has learned.\n"


def test_small_digits_are_the_first_of_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scale.VARIABLE, raising=False)
    all_digits = embedded_digits()
    monkeypatch.setenv(scale.VARIABLE, "small")
    digits = embedded_digits()
    for name, n in (("train", scale.TRAIN_DIGITS), ("val", scale.VAL_DIGITS)):
        for kind in ("images", "labels"):
            few, every = getattr(digits, f"{name}_{kind}"), getattr(all_digits, f"{name}_{kind}")
            assert len(few) == n and torch.equal(few, every[:n])
    assert digits.train_labels.bincount(minlength=10).min() >= scale.DIGITS_PER_CLASS
    assert digits.val_labels.bincount(minlength=10).min() >= 5


def test_some_digits_asks_for_no_more_than_there_are(small) -> None:
    digits = some_digits(embedded_digits(), range(5), per_class=100)
    assert digits.train_labels.bincount().tolist() == [scale.DIGITS_PER_CLASS] * 5
    with pytest.raises(ValueError, match="per_class=0"):
        some_digits(embedded_digits(), range(5), per_class=0)


def test_small_dates_are_in_all_languages(small) -> None:
    dates = written_dates("train", 50_000)
    assert len(dates) == scale.DATES and set(dates.language) == set(LANGUAGES)
    assert len(written_dates("val", 10)) == 10


class Line(nn.Module):
    """The smallest classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(784, 10)

    def forward(self, images):
        return self.head(images.flatten(1))


@pytest.mark.parametrize("value, epochs", [("full", VIT_DIGITS.epochs), ("small", scale.EPOCHS)])
def test_a_training_has_fewer_epochs_and_is_otherwise_whole(value, epochs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scale.VARIABLE, value)
    images, labels = torch.rand(400, 1, 28, 28), torch.arange(400) % 10
    history = train(Line(), Digits(images, labels, images[:10], labels[:10]), VIT_DIGITS, "cpu")
    assert len(history.val_accuracy) == epochs
    assert len(history.losses) == len(history.learning_rates) == 3 * epochs
    assert max(history.learning_rates) == VIT_DIGITS.lr and not history.interrupted


@pytest.mark.full
@pytest.mark.parametrize("value, word", [("small", "unset HEADROOM_SCALE"), ("tiny", "'small' or 'full'")])
def test_what_is_kept_is_not_made_at_small_scale(value: str, word: str) -> None:
    file = pretrained.FOLDER / "vit_digits.pt"
    before = file.stat().st_mtime_ns
    ran = subprocess.run(
        [sys.executable, "-m", "headroom.pretrained", "vit_digits"],
        env=os.environ | {scale.VARIABLE: value},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1 and word in ran.stderr and len(ran.stderr.splitlines()) == 1
    assert file.stat().st_mtime_ns == before


def test_the_small_amounts_are_those_that_every_line_still_runs_with() -> None:
    """Two epochs make a curve, and each language has as many dates; what else they allow stands beside them."""
    assert (scale.EPOCHS, scale.ROUNDS, scale.FILES) == (2, 3, 2)
    assert scale.DATES % len(LANGUAGES) == 0 and scale.TRAIN_DIGITS == 2 * scale.VAL_DIGITS
    said = Path(scale.__file__).read_text(encoding="utf-8")
    assert "seven of each language" in said and 7 * len(LANGUAGES) == scale.DATES
    for name, part in (("TRAIN_DIGITS", "train_labels"), ("VAL_DIGITS", "val_labels")):
        least = int(re.search(rf"^{name} = .*at least (\d+)$", said, re.MULTILINE)[1])
        labels = getattr(embedded_digits(), part)[: getattr(scale, name)]
        assert labels.bincount(minlength=10).min() == least, name
