"""What a language model has to beat: counting what followed the last few tokens.

Shannon 1951, "Prediction and Entropy of Printed English"; smoothing after Kneser & Ney 1995, as Chen & Goodman 1999,
"An Empirical Study of Smoothing Techniques", modified it.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Whole = NDArray[np.int64]
Discounts = tuple[float, float, float]


class NGram:
    """The probability of the next token, from how often it followed the last `order − 1` tokens, and fewer of them.

    With N(h c) the number of times that token c followed the context h, and N(h) that of all tokens,

        p(c | h) = (N(h c) − D) / N(h)  +  what all the D of h add up to / N(h) · p(c | h without its first token).

    Every count is lowered by a discount, and what that sets free goes to the shorter context; the shortest gives all
    tokens the same probability. A context that never occurred leaves everything to the shorter one. Shorter sequences
    than `order` count once for each different token that stood before them, not for each time that they occurred.

    Args:
        ids: the text to count in, int64 `(tokens,)`, each 0 … `n_vocabulary` − 1.
        n_vocabulary: size of the vocabulary.
        order: the longest sequence that is counted: 1 looks at no context, 2 at one token.

    Attributes:
        discounts: D of what occurs once, twice, and more often, up to 1, 2 and 3; to be chosen on held-out text.

    Raises:
        ValueError: the order is less than 1, its counts do not fit into 63 bits, or the text is shorter than it.

    Source: Chen & Goodman 1999, section 3, equations 23–25, with the discounts chosen and not computed.
    """

    def __init__(self, ids: Tensor, n_vocabulary: int, order: int):
        if order < 1 or n_vocabulary**order >= 2**63:
            raise ValueError(f"order={order} must be at least 1, and {n_vocabulary}^order less than 2^63")
        if len(ids) < order:
            raise ValueError(f"ids has {len(ids)} tokens; order={order} needs at least as many")
        self.n_vocabulary, self.order = n_vocabulary, order
        self.discounts: Discounts = (0.85, 1.3, 1.8)
        # Of each order, the longest first: sequences as sorted numbers, and their counts; contexts as sorted numbers,
        # N(h), and how many tokens followed h once, twice, and more often, (contexts, 3).
        self.tables: list[tuple[Whole, Whole, Whole, Whole, Whole]] = []
        longer = self._numbers(ids.numpy(), order)
        for n in range(order, 0, -1):
            sequences, counts = np.unique(longer, return_counts=True)
            contexts, first = np.unique(sequences // n_vocabulary, return_index=True)
            kinds = np.stack([counts == 1, counts == 2, counts > 2], axis=1).astype(np.int64)
            totals = np.add.reduceat(counts, first)
            self.tables.append((sequences, counts, contexts, totals, np.add.reduceat(kinds, first)))
            longer = sequences % n_vocabulary ** (n - 1)  # each sequence without its first token

    def probabilities(self, ids: Tensor) -> Tensor:
        """The probability of each token of `ids`, `(tokens,)`, given those before it; float64 `(tokens,)`."""
        text = ids.numpy()
        p = np.full(len(text), 1 / self.n_vocabulary)
        discount = np.array([0.0, *self.discounts])
        for n, (sequences, counts, contexts, totals, kinds) in enumerate(reversed(self.tables), start=1):
            if n > len(text):
                break
            numbers = self._numbers(text, n)  # of the sequence that ends at each token from n − 1 on
            at, known = _find(sequences, numbers)
            count = np.where(known, counts[at], 0)
            at, seen = _find(contexts, numbers // self.n_vocabulary)
            share = (count - discount[count.clip(max=3)]) / totals[at]
            passed_on = kinds[at] @ discount[1:] / totals[at]
            p[n - 1 :] = np.where(seen, share + passed_on * p[n - 1 :], p[n - 1 :])
        return torch.from_numpy(p)

    def bits(self, ids: Tensor) -> float:
        """Bits per token of a text `(tokens,)`: the mean of −log2 of its tokens' probabilities."""
        return -self.probabilities(ids).log2().mean().item()

    def _numbers(self, text: Whole, n: int) -> Whole:
        """Each sequence of `n` tokens in a row as one number, whose digits they are."""
        windows = np.lib.stride_tricks.sliding_window_view(text, n)  # (tokens − n + 1, n)
        return windows @ self.n_vocabulary ** np.arange(n)[::-1]


def _find(keys: Whole, wanted: Whole) -> tuple[Whole, NDArray[np.bool_]]:
    """Where each wanted number is among the sorted `keys`, and whether it is there at all."""
    at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return at, keys[at] == wanted
