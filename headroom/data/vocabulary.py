"""Characters as numbers: what a character-level model reads and writes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2  # the same in every vocabulary: nothing, begin of sequence, end of sequence
SPECIAL = ("<pad>", "<bos>", "<eos>")


@dataclass(frozen=True)
class Vocabulary:
    """A fixed set of characters, numbered from 3 on: 0, 1 and 2 are PAD, BOS and EOS.

    Args:
        characters: all of them, in the order of their numbers; none twice.

    Raises:
        ValueError: a character is there twice.
    """

    characters: str

    def __post_init__(self):
        if twice := [c for i, c in enumerate(self.characters) if c in self.characters[:i]]:
            raise ValueError(f"characters holds {twice[0]!r} twice; each must have one number")

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.characters)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """What each number stands for: `tokens[number]`, for the axis of a figure."""
        return (*SPECIAL, *self.characters)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each character."""
        return {character: number for number, character in enumerate(self.characters, start=len(SPECIAL))}

    def encode(self, texts: Iterable[str], ends: bool = False) -> tuple[Tensor, Tensor]:
        """Texts as rows of numbers, padded with PAD to the longest.

        Args:
            texts: at least one.
            ends: put BOS before and EOS after each text, as a decoder needs them.

        Returns:
            int64 `(n, length)` and int64 `(n,)`: how many numbers of each row are no padding, BOS and EOS included.

        Raises:
            TypeError: `texts` is one string instead of several.
            ValueError: there is no text, or one holds a character that the vocabulary does not have.
        """
        if isinstance(texts, str):
            raise TypeError(f"texts is the string {texts!r}; it must be a list of strings, such as [{texts!r}]")
        rows = []
        for text in texts:
            try:
                row = [self.numbers[character] for character in text]
            except KeyError as error:
                character = error.args[0]
                raise ValueError(
                    f"the character {character!r} (U+{ord(character):04X}) in {text!r} is not one of "
                    f"the vocabulary's {len(self.characters)}"
                ) from None
            rows.append([BOS, *row, EOS] if ends else row)
        if not rows:
            raise ValueError("texts is empty; there must be at least one text to encode")
        lengths = torch.tensor([len(row) for row in rows])
        longest = int(lengths.max())
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], dtype=torch.long), lengths

    def decode(self, rows: Tensor) -> list[str]:
        """Rows of numbers as texts: each ends before its first EOS, and PAD and BOS are left out.

        Args:
            rows: int `(n, length)`, 0 ≤ number < `len(vocabulary)`.

        Raises:
            ValueError: `rows` has another number of dimensions, or holds a number that stands for nothing.
        """
        if rows.dim() != 2:
            raise ValueError(f"rows has shape {tuple(rows.shape)}; it must be (n, length), one row for each text")
        if rows.numel() and not 0 <= rows.min() <= rows.max() < len(self):
            raise ValueError(
                f"rows holds {rows.min()} … {rows.max()}; the vocabulary's numbers are 0 … {len(self) - 1}"
            )
        texts = []
        for row in rows.tolist():
            row = row[: row.index(EOS)] if EOS in row else row
            texts.append("".join(self.tokens[number] for number in row if number not in (PAD, BOS)))
        return texts
