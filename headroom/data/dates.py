"""Dates as people write them, in ten languages, each with its ISO 8601 form: "4 de marzo de 2021" → "2021-03-04".

The names of months and weekdays, and the patterns where it has them, come from the Unicode consortium's Common Locale
Data Repository (CLDR) through Babel; see `README.md`. Where people write otherwise (ordinals, articles, capitals,
Roman months, fewer full stops), the patterns are this file's own.

No written date stands for two days:

- Years have four digits. They run from 1950 to 2049, the span of birthdays and appointments: two centuries, so that all
  four digits have to be read.
- A date in digits alone that begins with the year goes year, month, day; every other goes day, month, year, whatever
  stands between them ("/", ".", "-"). So "03/04/2021" is the 3rd of April. The American month-first order, the only
  one that contradicts this, is written with the month's name and never in digits.
- A month's name, or its abbreviation, means the same month in all ten languages.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from headroom.data.slips import Slips
from headroom.data.vocabulary import Vocabulary
from headroom.scale import DATES, scaled

if TYPE_CHECKING:
    from babel import Locale

FIRST_YEAR, LAST_YEAR = 1950, 2049
SPLITS = ("train", "val", "test")
LOCALES = {  # the languages, and whose habits they follow where several countries share one
    "de": "de_DE",
    "el": "el_GR",
    "en": "en_GB",
    "es": "es_ES",
    "fr": "fr_FR",
    "it": "it_IT",
    "nl": "nl_NL",
    "pl": "pl_PL",
    "pt": "pt_BR",
    "ru": "ru_RU",
}
LANGUAGES = tuple(LOCALES)

# The patterns' letters are CLDR's (y, M, d, E, text between quotes), and two of our own: o, the ending of an ordinal
# day, and R, the month in Roman numerals.
OWN_STYLES = {
    "de": {
        "article": "'den' d. MMMM y",
        "full_article": "EEEE, 'den' d. MMMM y",
        "abbreviated": "d. MMM y",
        "year_first": "y-MM-dd",
    },
    "el": {"ordinal": "do MMMM y", "article": "'την' do MMMM y", "dashes": "d-M-y"},
    "en": {
        "american": "MMMM d, y",
        "american_abbreviated": "MMM d, y",
        "american_full": "EEEE, MMMM d, y",
        "ordinal": "do MMMM y",
        "american_ordinal": "MMMM do, y",
        "article": "'the' do 'of' MMMM y",
        "no_comma": "MMM d y",
        "dashes": "dd-MMM-y",
        "year_first": "y-MM-dd",
    },
    "es": {"article": "'el' d 'de' MMMM 'de' y", "dashes": "dd-MM-y", "abbreviated": "d 'de' MMM 'de' y"},
    "fr": {"ordinal": "do MMMM y", "article": "'le' do MMMM y", "full_ordinal": "EEEE do MMMM y", "dots": "dd.MM.y"},
    "it": {"ordinal": "do MMMM y", "article": "'il' d MMMM y", "dashes": "dd-MM-y"},
    "nl": {"article": "'op' d MMMM y", "padded": "dd-MM-y", "year_first": "y-MM-dd"},
    "pl": {"year_word": "d MMMM y 'r.'", "roman": "d R y", "year_first": "y-MM-dd"},
    "pt": {
        "full": "EEEE, d 'de' MMM 'de' y",  # with the month in full, CLDR's is the longest of all dates: 38 characters
        "ordinal": "do 'de' MMMM 'de' y",
        "article": "'em' d 'de' MMMM 'de' y",
        "dashes": "dd-MM-y",
    },
    "ru": {"plain": "d MMMM y", "year_word": "d MMMM y 'года'", "full_plain": "EEEE, d MMMM y"},
}
ENGLISH_ENDINGS = ["th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") for day in range(1, 32)]
# What makes 1, 2, 3, … 31 an ordinal. In French, Italian and Portuguese, only the first day of a month is one.
ENDINGS = {"en": ENGLISH_ENDINGS, "el": ["η"] * 31} | {
    language: [ending, *[""] * 30] for language, ending in (("fr", "er"), ("it", "º"), ("pt", "º"))
}
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")

LATIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖŒÙÚÛÜÝĄĆĘŁŃŚŹŻ"
GREEK = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ" + "ΆΈΉΊΌΎΏΪΫ"
CYRILLIC = "АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
# The whole alphabets, not only the letters of today's names: a date of yours, or of a later CLDR, can be read as well.
SOURCE = Vocabulary(
    "0123456789 .,/-'º"
    + "".join(capitals + capitals.lower() for capitals in (LATIN, GREEK, CYRILLIC))
    + "ßςΐΰ"  # these have no capital of their own
)
TARGET = Vocabulary("0123456789-")


Field = tuple[str, list[str]]  # what of a day decides (the "month", …), and the texts that it chooses from


@dataclass(frozen=True)
class Dates:
    """Written dates, and what they mean.

    Attributes:
        written: as people write them, such as "4 de marzo de 2021".
        iso: the same days in ISO 8601, such as "2021-03-04".
        language: the language of each, such as "es".
    """

    written: list[str]
    iso: list[str]
    language: list[str]

    def __len__(self) -> int:
        return len(self.written)

    @property
    def source(self) -> Tensor:
        """The written dates in the numbers of `SOURCE`: int64 `(n, S)`, padded with PAD to the longest."""
        return self._source[0]

    @property
    def source_lengths(self) -> Tensor:
        """How many characters each written date has: int64 `(n,)`."""
        return self._source[1]

    @cached_property
    def target(self) -> Tensor:
        """The ISO dates in the numbers of `TARGET`, from BOS to EOS: int64 `(n, 12)`; they are all equally long."""
        return TARGET.encode(self.iso, ends=True)[0]

    @cached_property
    def _source(self) -> tuple[Tensor, Tensor]:
        return SOURCE.encode(self.written)


def written_dates(
    split: str, n: int, seed: int = 0, typos: float = 0.0, languages: tuple[str, ...] | None = None
) -> Dates:
    """Random dates of a split, each in one of the languages and in one of its styles.

    The languages take turns before the dates are shuffled, so that their numbers differ by at most one. Days and styles
    are drawn, each as likely as the next, and may come again. No day of "val" or "test" occurs in "train", in
    whatever language or style: see `split_of`.

    Args:
        split: "train", "val" or "test".
        n: how many. At small scale (see `headroom.scale`) there are fewer.
        seed: of the random numbers. The same arguments give the same dates on every machine (until a later CLDR spells
            a name otherwise).
        typos: how many slips of the hand a date has on average: two letters swapped, one left out, one doubled, or the
            key beside it. They fall on words of three letters and more, at most one on each, so that a date in
            digits alone has none. Digits stay as they are, and a month's name stays readable: no slip is made that
            another month's name could also have led to.
        languages: some of `LANGUAGES`; by default all.

    Raises:
        TypeError: `languages` is one string.
        ValueError: there is no such split or language, `languages` is empty, `n` < 1, or `typos` < 0.
    """
    _check_split(split)
    if n < 1:
        raise ValueError(f"n={n}: it must be at least 1 date")
    if not 0 <= typos < float("inf"):
        raise ValueError(f"typos={typos}: it must be at least 0 slips a date, and finite")
    if isinstance(languages, str):
        raise TypeError(f"languages is the string {languages!r}; it must be a tuple, such as ({languages!r},)")
    n = scaled(n, DATES)
    languages = LANGUAGES if languages is None else tuple(languages)
    if not languages:
        raise ValueError(f"languages is empty; it must hold some of {', '.join(LANGUAGES)}")
    menus = {language: list(_forms(language).values()) for language in languages}
    days = days_of(split)
    rng = random.Random(seed)
    drawn = []
    for i in range(n):
        language = languages[i % len(languages)]
        day = rng.choice(days)
        written = rng.choice(menus[language])(day)
        if typos:
            written = _slips().make(written, day.month, typos, rng)
        drawn.append((written, day.isoformat(), language))
    rng.shuffle(drawn)
    written, iso, language = (list(column) for column in zip(*drawn, strict=True))
    return Dates(written, iso, language)


def write_date(day: date, language: str, style: str = "long") -> str:
    """One day, in one language and style: `write_date(date(2021, 3, 4), "es")` is "4 de marzo de 2021".

    Args:
        day: any day.
        language: one of `LANGUAGES`.
        style: one of `styles(language)`.

    Raises:
        ValueError: there is no such language, or no such style in it.
    """
    return _form(language, style)(day)


def where_written(day: date, language: str, style: str = "long") -> dict[str, slice]:
    """Which characters of `write_date(day, language, style)` say the year, the month and the day.

    For `date(2021, 3, 4)` in "es" that is `{"day": slice(0, 1), "month": slice(5, 10), "year": slice(14, 18)}`: "4",
    "marzo" and "2021" in "4 de marzo de 2021". An ordinal's ending belongs to the day.

    Args and errors: as of `write_date`.
    """
    form, end, places = _form(language, style), 0, {}
    for (which, _), text in zip(form.parts, form.texts(day), strict=True):
        if which in ("year", "month", "day"):
            start = places[which].start if which in places else end
            places[which] = slice(start, end + len(text))
        end += len(text)
    return places


def styles(language: str) -> tuple[str, ...]:
    """The names of the styles in which `language` writes dates. ValueError if there is no such language."""
    return tuple(_forms(language))


def split_of(day: date) -> str:
    """The split of a day: counted from the 1st of January of the year 1, every tenth is "test", the one before "val".

    A rule and no random numbers: it never changes, and holds for all languages and styles, as it knows only the day.
    Ten and the week's seven have no common factor, so that each split has every weekday alike.
    """
    return {0: "test", 9: "val"}.get(day.toordinal() % 10, "train")


@cache
def days_of(split: str) -> tuple[date, ...]:
    """All days of a split, from 1950 to 2049 in order. ValueError if there is no such split."""
    _check_split(split)
    first = date(FIRST_YEAR, 1, 1)
    every = (first + timedelta(days=i) for i in range((date(LAST_YEAR + 1, 1, 1) - first).days))
    return tuple(day for day in every if split_of(day) == split)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"split={split!r}: it must be one of {', '.join(SPLITS)}")


@cache
def _forms(language: str) -> dict[str, "_Form"]:
    """A function for each style of a language, from a day to its written form."""
    locale = _locale(language)
    patterns = {name: locale.date_formats[name].pattern for name in ("full", "long", "medium")}
    patterns["weekday"] = locale.datetime_skeletons["yMMMEd"].pattern
    patterns["numeric"] = locale.datetime_skeletons["yMd"].pattern
    patterns |= OWN_STYLES[language]
    fields = _fields(language)
    forms = {name: _compile(pattern, fields, str) for name, pattern in patterns.items()}
    names_are_small = locale.months["format"]["wide"][1].islower()
    variant, change = ("capital", _capital) if names_are_small else ("small", str.lower)
    for name in ("long", "full"):
        forms[f"{name}_{variant}"] = _compile(patterns[name], fields, change)
    forms["long_upper"] = _compile(patterns["long"], fields, _upper)
    return forms


def _locale(language: str) -> "Locale":
    """Babel's knowledge of a language."""
    if language not in LOCALES:
        raise ValueError(f"language={language!r} is not one of {', '.join(LANGUAGES)}")
    from babel import Locale  # here, so that only who wants dates waits for it

    return Locale.parse(LOCALES[language])


@cache
def _fields(language: str) -> dict[str, Field]:
    """The fields of a language's patterns, and what they may become."""
    locale = _locale(language)
    months, weekdays = locale.months["format"], locale.days["format"]
    days = range(1, 32)
    fields: dict[str, Field] = {
        "y": ("year", [f"{year:04}" for year in range(1, date.max.year + 1)]),
        "M": ("month", [f"{month}" for month in range(1, 13)]),
        "MM": ("month", [f"{month:02}" for month in range(1, 13)]),
        "MMM": ("month", [months["abbreviated"][month] for month in range(1, 13)]),
        "MMMM": ("month", [months["wide"][month] for month in range(1, 13)]),
        "R": ("month", list(ROMAN)),
        "d": ("day", [f"{day}" for day in days]),
        "dd": ("day", [f"{day:02}" for day in days]),
        "o": ("day", ENDINGS.get(language, [])),
        "E": ("weekday", [weekdays["abbreviated"][i] for i in range(7)]),
        "EEEE": ("weekday", [weekdays["wide"][i] for i in range(7)]),
    }
    return fields | {"EEE": fields["E"]}


@dataclass(frozen=True)
class _Form:
    """One style of one language: a function from a day to its written form.

    Attributes:
        parts: what follows what, each with all the texts it may become.
    """

    parts: list[Field]

    def texts(self, day: date) -> list[str]:
        """What each part becomes on that day."""
        at = {
            "always": 0,
            "year": day.year - 1,
            "month": day.month - 1,
            "day": day.day - 1,
            "weekday": day.weekday(),
        }
        return [texts[at[which]] for which, texts in self.parts]

    def __call__(self, day: date) -> str:
        return "".join(self.texts(day))


def _form(language: str, style: str) -> _Form:
    """That style; ValueError if there is no such language, or no such style in it."""
    forms = _forms(language)
    if style not in forms:
        raise ValueError(f"style={style!r} is not one of language {language!r}: {', '.join(forms)}")
    return forms[style]


def _compile(pattern: str, fields: dict[str, Field], change: Callable[[str], str]) -> _Form:
    """The form of a pattern: names and words go through `change` here, once and for all."""
    parts: list[Field] = []
    for quoted, field, _, other in re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", pattern):
        which, texts = fields[field] if field else ("always", [quoted or re.sub(r"\s", " ", other)])
        parts.append((which, [change(text) for text in texts]))

    return _Form(parts)


def _upper(text: str) -> str:
    """Capitals throughout; Greek ones go without their accents."""
    return text.translate(str.maketrans("άέήίόύώΐΰ" + "ΆΈΉΊΌΎΏ", "αεηιουωϊϋ" + "ΑΕΗΙΟΥΩ")).upper()


def _capital(text: str) -> str:
    """A name with the capital that its language does not ask for, as many write it all the same: "4 Mars 2021"."""
    return text[:1].upper() + text[1:] if len(text) > 2 else text


@cache
def _slips() -> Slips:
    """The slips that leave a month readable, in all languages at once: the reader is not told the language."""
    months = {}
    for language in LANGUAGES:
        fields = _fields(language)
        for month, names in enumerate(zip(fields["MMM"][1], fields["MMMM"][1], ROMAN, strict=True), start=1):
            for name in names:
                for word in re.findall(r"[^\W\d_]+", f"{name} {_upper(name)}"):
                    months[word] = month
    return Slips(months, untouched=ROMAN)
