"""Random sequences that repeat: the second half can be known only by looking the first half up."""

import torch
from torch import Tensor


def repeated_sequences(n: int, length: int, n_symbols: int = 50, generator: torch.Generator | None = None) -> Tensor:
    """Draw `n` sequences of `length` random symbols, and write each twice in a row.

    Args:
        n: number of sequences.
        length: symbols until the sequence repeats.
        n_symbols: size of the vocabulary; all symbols are equally likely, each is drawn anew.
        generator: where the random numbers come from; by default torch's own.

    Returns:
        token ids, int64 `(n, 2 · length)`, each 0 … `n_symbols` − 1.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads", "repeated random tokens".
    """
    return torch.randint(n_symbols, (n, length), generator=generator).repeat(1, 2)
