"""Slips of the hand at a keyboard, of the kind that leaves a date readable."""

import random
import re

LATIN_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
GREEK_KEYS = ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ")
RUSSIAN_KEYS = ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю")
NEIGHBOURS = {
    key: row[max(i - 1, 0) : i] + row[i + 1 : i + 2]
    for row in LATIN_KEYS + GREEK_KEYS + RUSSIAN_KEYS
    for i, key in enumerate(row)
}
WORD = re.compile(r"[^\W\d_]{3,}")  # of fewer letters, a slip leaves too little


class Slips:
    """Makes slips that no reader can take for another month.

    Args:
        months: every month's name as it may be written, and its number. Capitals and small letters count as the same.
        untouched: words in which no slip is made.
    """

    def __init__(self, months: dict[str, int], untouched: tuple[str, ...] = ()):
        self.months = {name.casefold(): month for name, month in months.items()}
        self.untouched = frozenset(untouched)
        self.meant: dict[str, set[int]] = {}  # what is written, rightly or with one slip → the months that it may be
        for name, month in months.items():
            for written in {name} | one_slip(name):
                self.meant.setdefault(written.casefold(), set()).add(month)
        self._choices: dict[tuple[str, int], list[str]] = {}

    def make(self, written: str, month: int, typos: float, rng: random.Random) -> str:
        """Make `typos` slips on average in a written date, in different words, as far as it has so many.

        Args:
            written: a date.
            month: its month, 1 … 12.
            typos: 0.3 is one slip in three of ten dates, 1.3 a second one in three of ten.
            rng: where the random numbers come from.
        """
        count = int(typos) + (rng.random() < typos % 1)
        words = [match for match in WORD.finditer(written) if self.choices(match.group(), month)]
        chosen = rng.sample(words, min(count, len(words)))
        for match in sorted(chosen, key=lambda match: -match.start()):  # from the end: what lies before keeps its place
            slipped = rng.choice(self.choices(match.group(), month))
            written = written[: match.start()] + slipped + written[match.end() :]
        return written

    def choices(self, word: str, month: int) -> list[str]:
        """The slips that may be made in a word of a date of that month, sorted.

        In the month's name: those that no other month's name leads to, rightly written or with one slip. In another
        word: those that make no month's name.
        """
        if (word, month) not in self._choices:
            slips = sorted(one_slip(word)) if word not in self.untouched else []
            if self.months.get(word.casefold()) == month:
                slips = [slip for slip in slips if self.meant.get(slip.casefold()) == {month}]
            else:
                slips = [slip for slip in slips if slip.casefold() not in self.months]
            self._choices[word, month] = slips
        return self._choices[word, month]


def one_slip(word: str) -> set[str]:
    """All that one slip makes of a word: two letters swapped, one left out, one doubled, or the key beside it hit."""
    slips = set()
    for i, letter in enumerate(word):
        before, after = word[:i], word[i + 1 :]
        slips |= {before + after, before + letter + letter + after}
        if after:
            slips.add(before + after[0] + letter + after[1:])
        for key in NEIGHBOURS.get(letter.lower(), ""):
            slips.add(before + (key.upper() if letter.isupper() else key) + after)
    return slips - {word}
