"""The course's data: digits that come with it and the full set when asked for, and dates as people write them."""

from headroom.data.dates import (
    LANGUAGES,
    SOURCE,
    TARGET,
    Dates,
    days_of,
    split_of,
    styles,
    write_date,
    written_dates,
)
from headroom.data.digits import Digits, FullDigits, embedded_digits, mnist
from headroom.data.vocabulary import BOS, EOS, PAD, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "LANGUAGES",
    "PAD",
    "SOURCE",
    "TARGET",
    "Dates",
    "Digits",
    "FullDigits",
    "Vocabulary",
    "days_of",
    "embedded_digits",
    "mnist",
    "split_of",
    "styles",
    "write_date",
    "written_dates",
]
