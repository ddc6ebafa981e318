"""A task that one encoder block can solve by attention alone: how often does each letter occur in its sequence?

    anchor b a b c b (a c c)    →    3 1 3 1 3

The letters in brackets are padding: random letters too, so that only the valid length tells them from real ones. A
letter by itself doesn't know its count, and no positions are told. It must look at its equals, and weigh them against
the anchor, which begins every sequence: a mean over equals alone is the same for one as for many.

    train, test = counting_task(seed=1)
    parameters, losses = train_counter(train, seed=1)
    exact(parameters, test)

What attention and valid lengths are worth shows when they are taken away, from training and test alike. With valid
lengths of 1 every token sees the anchor alone: about 2 % of the test sequences are right, not 100 % (seeds 1, 2, 3).
With N_TOKENS the padding is counted too: about 33 % are right, those whose padding repeats none of their letters.

    blind = train._replace(valid_lengths=np.ones_like(train.valid_lengths))

Weiss, Goldberg & Yahav 2021, "Thinking Like Transformers", section 3: the histogram with a beginning-of-sequence token.
"""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm.auto import trange

from headroom.reference.by_hand.adam import Adam
from headroom.reference.by_hand.cross_entropy import cross_entropy, cross_entropy_backward
from headroom.reference.by_hand.embedding import embedding, embedding_backward
from headroom.reference.by_hand.encoder_block import encoder_block, encoder_block_backward, encoder_block_parameters
from headroom.reference.by_hand.linear import linear, linear_backward
from headroom.reference.by_hand.parameters import Parameters, Saved, linear_parameters, named, part

ANCHOR, N_LETTERS = 0, 7  # the letters are tokens 1 … 7
MIN_LETTERS, MAX_LETTERS = 4, 7  # in a sequence
N_TOKENS = 9  # the anchor, the letters, and padding: at least one
D_MODEL, N_HEADS, D_FF = 32, 4, 32
STEPS, BATCH_SIZE, HIGHEST_LR = 700, 64, 1e-2


class Sequences(NamedTuple):
    """Sequences to count in.

    Attributes:
        tokens: int `(n, N_TOKENS)`: the anchor, the letters, and random letters for padding.
        valid_lengths: int `(n,)`: how many tokens may be attended to, here the anchor and the letters.
        counts: int `(n, N_TOKENS)`: how often each letter occurs; 0, for nothing to say, at anchor and padding.
    """

    tokens: np.ndarray
    valid_lengths: np.ndarray
    counts: np.ndarray

    def take(self, which: np.ndarray) -> "Sequences":
        """Some of the sequences, by their indices."""
        return Sequences(*(array[which] for array in self))


def counting_task(seed: int) -> tuple[Sequences, Sequences]:
    """Training and test sequences: every bag of 4 to 7 letters that are not all the same, each in one random order.

    The block is told no positions, so to it a sequence and its rearrangements are the same. Every bag occurs once: no
    test sequence, one in five, is a rearrangement of a training sequence.
    """
    rng = np.random.default_rng(seed)
    lengths, letters = range(MIN_LETTERS, MAX_LETTERS + 1), range(1, 1 + N_LETTERS)
    bags = [bag for n in lengths for bag in combinations_with_replacement(letters, n) if len(set(bag)) > 1]
    tokens = rng.integers(1, 1 + N_LETTERS, (len(bags), N_TOKENS))
    tokens[:, 0] = ANCHOR
    counts = np.zeros_like(tokens)
    for row, bag in enumerate(bags):
        here = slice(1, 1 + len(bag))
        tokens[row, here] = rng.permutation(bag)
        counts[row, here] = [bag.count(letter) for letter in tokens[row, here]]
    everything = Sequences(tokens, np.array([1 + len(bag) for bag in bags]), counts)
    order = rng.permutation(len(bags))
    n_test = len(bags) // 5
    return everything.take(order[n_test:]), everything.take(order[:n_test])


def counter_parameters(rng: np.random.Generator) -> Parameters:
    """New parameters: an embedding, one encoder block, and a head with a class for each count from 1 to 7."""
    table = {"embedding": rng.normal(size=(1 + N_LETTERS, D_MODEL))}
    block = named("block", encoder_block_parameters(D_MODEL, D_FF, rng))
    return table | block | named("head", linear_parameters(D_MODEL, MAX_LETTERS, rng))


def counter(parameters: Parameters, tokens: np.ndarray, valid_lengths: np.ndarray | None) -> tuple[np.ndarray, Saved]:
    """Logits `(batch, tokens, MAX_LETTERS)` of each token's count, class 0 meaning 1, and what the backward needs."""
    x = embedding(tokens, parameters["embedding"])  # (batch, tokens, d_model)
    x, saved_block = encoder_block(part(parameters, "block"), x, N_HEADS, valid_lengths)
    logits = linear(x, parameters["head.weight"], parameters["head.bias"])
    return logits, {"tokens": tokens, "block": saved_block, "x": x}


def counter_backward(d_logits: np.ndarray, parameters: Parameters, saved: Saved) -> Parameters:
    """Every parameter's gradient."""
    d_x, head_weight, head_bias = linear_backward(d_logits, saved["x"], parameters["head.weight"])
    d_embedded, block = encoder_block_backward(d_x, part(parameters, "block"), saved["block"])
    d_table = embedding_backward(d_embedded, saved["tokens"], parameters["embedding"])
    return {"embedding": d_table, **named("block", block), "head.weight": head_weight, "head.bias": head_bias}


@threadpool_limits.wrap(limits=1, user_api="blas")  # with more, matrices this small mostly wait for a busy core
def train_counter(train: Sequences, seed: int, steps: int = STEPS) -> tuple[Parameters, list[float]]:
    """Train a new counter with Adam; the learning rate rises for a tenth of the steps, then falls to 0, both in a line.

    Returns:
        parameters, and the loss of each step, in nats. The same seed gives the same.
    """
    rng = np.random.default_rng(seed)
    parameters = counter_parameters(rng)
    adam = Adam(parameters, HIGHEST_LR)
    losses = []
    with trange(steps, unit="step", desc="counting") as bar:
        for step in bar:
            batch = train.take(rng.integers(len(train.tokens), size=BATCH_SIZE))
            logits, saved = counter(parameters, batch.tokens, batch.valid_lengths)
            asked = batch.counts > 0  # (batch, tokens)
            targets = batch.counts[asked] - 1  # (letters,)
            losses.append(float(cross_entropy(logits[asked], targets)))
            d_logits = np.zeros_like(logits)  # where nothing is asked, no gradient
            d_logits[asked] = cross_entropy_backward(logits[asked], targets)
            adam.lr = HIGHEST_LR * min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
            adam.step(counter_backward(d_logits, parameters, saved))
            bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return parameters, losses


def exact(parameters: Parameters, sequences: Sequences) -> float:
    """The share of sequences, 0 … 1, in which every letter's count is right."""
    logits, _ = counter(parameters, sequences.tokens, sequences.valid_lengths)
    right = logits.argmax(axis=-1) + 1 == sequences.counts  # (n, tokens)
    return float((right | (sequences.counts == 0)).all(axis=-1).mean())
