"""The toy task of lecture 11: the block that is written by hand learns to count."""

import math

import numpy as np
import pytest

from headroom.reference import by_hand


def test_the_task_is_what_it_says_and_no_test_sequence_is_a_rearranged_training_sequence():
    train, test = by_hand.counting_task(seed=1)
    bags = []
    for part in (train, test):
        bags.append(set())
        for tokens, length, counts in zip(*part, strict=True):
            letters = tokens[1:length].tolist()
            assert tokens[0] == 0 and (tokens[1:] > 0).all()
            assert counts[1:length].tolist() == [letters.count(letter) for letter in letters]
            assert not counts[0] and not counts[length:].any()
            bags[-1].add(tuple(sorted(letters)))
        assert len(bags[-1]) == len(part.tokens)
    assert not bags[0] & bags[1]
    # 7 letters in bags of 4 … 7: every bag of more than one letter is in one of the two.
    assert len(bags[0] | bags[1]) == sum(math.comb(n + 6, 6) - 7 for n in range(4, 8))


def without(sequences, valid_length):
    """Every token sees this many tokens, whatever the sequence's length."""
    return sequences._replace(valid_lengths=np.full_like(sequences.valid_lengths, valid_length))


@pytest.mark.full
def test_the_block_learns_to_count():
    train, test = by_hand.counting_task(seed=1)
    parameters, losses = by_hand.train_counter(train, seed=1)
    assert losses[0] > 1.5 and np.mean(losses[-20:]) < 0.05
    assert by_hand.exact(parameters, test) >= 0.99


def test_without_attention_the_block_cannot_count():
    train, test = (without(part, 1) for part in by_hand.counting_task(seed=1))  # every token sees the anchor alone
    parameters, _ = by_hand.train_counter(train, seed=1, steps=150)
    assert by_hand.exact(parameters, test) < 0.1


def test_without_valid_lengths_the_block_counts_the_padding():
    train, test = (without(part, part.tokens.shape[1]) for part in by_hand.counting_task(seed=1))
    ends = 1 + (test.counts > 0).sum(axis=1)
    spared = [not set(tokens[1:end]) & set(tokens[end:]) for tokens, end in zip(test.tokens, ends, strict=True)]
    parameters, _ = by_hand.train_counter(train, seed=1, steps=150)
    assert by_hand.exact(parameters, test) <= np.mean(spared) + 0.05, "right only where the padding repeats no letter"


def test_the_same_seed_trains_the_same():
    train, _ = by_hand.counting_task(seed=1)
    first, again = (by_hand.train_counter(train, seed=2, steps=5) for _ in range(2))
    assert first[1] == again[1]
    assert all(np.array_equal(first[0][name], again[0][name]) for name in first[0])
    assert by_hand.train_counter(train, seed=3, steps=5)[1] != first[1]
