"""Byte-pair encoding: pieces of words as tokens, learned from a text.

Sennrich, Haddow & Birch 2016, "Neural Machine Translation of Rare Words with Subword Units".
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from headroom.data.code import CHARACTERS

LEARNED = Path(__file__).parent / "python_merges.json"
PIECES = re.compile(r" ?\w+|\s+|[^\w\s]+")  # a token never reaches over the end of one of these
Pair = tuple[int, int]


class BytePairEncoding:
    """Texts as numbers of tokens, which are the characters of `CHARACTERS` and what merging two tokens makes.

    Bytes give the algorithm its name; characters are the same here, because the text is ASCII.

    Args:
        merges: pairs of token numbers, in the order in which they were learned; the n-th is token 96 + n.

    Attributes:
        tokens: the text of each token.

    Source: Sennrich, Haddow & Birch 2016, algorithm 1; merging within words and punctuation only as Radford et al.
    2019, section 2.2.
    """

    def __init__(self, merges: Iterable[Pair]):
        self.merges = [(first, second) for first, second in merges]
        self.tokens = list(CHARACTERS.characters)
        for first, second in self.merges:
            self.tokens.append(self.tokens[first] + self.tokens[second])
        self._known: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _numbers(self) -> dict[Pair, int]:
        return {pair: number for number, pair in enumerate(self.merges, start=len(CHARACTERS.characters))}

    @classmethod
    def learn(cls, texts: Iterable[str], n_vocabulary: int) -> "BytePairEncoding":
        """Merge the pair of neighbouring tokens that occurs most often, again and again.

        Args:
            texts: what to count in.
            n_vocabulary: how many tokens there will be, characters included.

        Raises:
            ValueError: there are fewer tokens than characters, or no pair is left before there are so many.
        """
        n_characters = len(CHARACTERS.characters)
        if n_vocabulary < n_characters:
            raise ValueError(f"n_vocabulary={n_vocabulary} must be at least {n_characters}, the characters")
        pieces = Counter(piece for text in texts for piece in PIECES.findall(text))
        words, counts = [_as_characters(piece) for piece in pieces], list(pieces.values())
        pairs: Counter[Pair] = Counter()
        where: defaultdict[Pair, set[int]] = defaultdict(set)  # in which words a pair is, or once was

        def count(word: int, sign: int) -> None:
            for pair in pairwise(words[word]):
                pairs[pair] += sign * counts[word]
                where[pair].add(word)

        for word in range(len(words)):
            count(word, 1)
        merges: list[Pair] = []
        for number in range(n_characters, n_vocabulary):
            best = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]), default=None)
            if best is None or not pairs[best]:
                raise ValueError(f"n_vocabulary={n_vocabulary}: the texts have no pairs left after {number} tokens")
            for word in where.pop(best):
                count(word, -1)
                words[word] = _merged(words[word], best, number)
                count(word, 1)
            merges.append(best)
        return cls(merges)

    def encode(self, text: str) -> Tensor:
        """The numbers of the tokens of a text, int64 `(tokens,)`.

        Raises:
            ValueError: it holds a character that `CHARACTERS` does not have.
        """
        ids: list[int] = []
        for piece in PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._encoded(piece)
            ids += self._known[piece]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, ids: Tensor) -> str:
        """The text of tokens `(tokens,)`."""
        return "".join(self.tokens[number] for number in ids.tolist())

    def _encoded(self, piece: str) -> list[int]:
        word = _as_characters(piece)
        while learned := [self._numbers[pair] for pair in pairwise(word) if pair in self._numbers]:
            earliest = min(learned)
            word = _merged(word, self.merges[earliest - len(CHARACTERS.characters)], earliest)
        return word


def code_tokens() -> BytePairEncoding:
    """The 1,024 tokens that the course's language models read, learned from all training files of `embedded_code`."""
    return BytePairEncoding(json.loads(LEARNED.read_text(encoding="ascii")))


def _as_characters(piece: str) -> list[int]:
    try:
        return [CHARACTERS.characters.index(character) for character in piece]
    except ValueError:
        unknown = next(character for character in piece if character not in CHARACTERS.characters)
        raise ValueError(f"the character {unknown!r} in {piece!r} is not one of CHARACTERS") from None


def _merged(word: list[int], pair: Pair, number: int) -> list[int]:
    """`word` with every occurrence of the pair, from the left, as the one token `number`."""
    merged, i = [], 0
    while i < len(word):
        together = tuple(word[i : i + 2]) == pair
        merged.append(number if together else word[i])
        i += 2 if together else 1
    return merged
