"""Random sequences that repeat: the second half can be known only by looking the first half up."""

import torch
from torch import Tensor


def repeated_sequences(
    n: int, length: int, n_symbols: int = 50, generator: torch.Generator | None = None, *, distinct: bool = False
) -> Tensor:
    """Draw `n` sequences of `length` random symbols, and write each twice in a row.

    Args:
        n: number of sequences.
        length: symbols until the sequence repeats.
        n_symbols: size of the vocabulary; all symbols are equally likely, and each is drawn anew unless `distinct`.
        generator: where the random numbers come from; by default torch's own.
        distinct: whether the symbols of a sequence all differ, so that each has one successor only.

    Returns:
        token ids, int64 `(n, 2 · length)`, each 0 … `n_symbols` − 1.

    Raises:
        ValueError: there are not enough symbols for a distinct sequence.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads", "repeated random tokens".
    """
    if not distinct:
        return torch.randint(n_symbols, (n, length), generator=generator).repeat(1, 2)
    if length > n_symbols:
        raise ValueError(f"length={length} must be at most n_symbols={n_symbols} where all symbols differ")
    return torch.rand(n, n_symbols, generator=generator).argsort(dim=1)[:, :length].repeat(1, 2)
