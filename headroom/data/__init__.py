"""The course's data: digits and code that come with it, more when asked for, and dates as people write them."""

from headroom.data.byte_pairs import BytePairEncoding, code_tokens
from headroom.data.code import CHARACTERS, Code, as_ids, embedded_code
from headroom.data.dates import (
    LANGUAGES,
    SOURCE,
    TARGET,
    Dates,
    days_of,
    split_of,
    styles,
    where_written,
    write_date,
    written_dates,
)
from headroom.data.digits import Digits, FullDigits, embedded_digits, mnist, some_digits, ten_digits
from headroom.data.pictures import FullPictures, Pictures, cifar10, image_folder
from headroom.data.repeats import repeated_sequences
from headroom.data.vocabulary import BOS, EOS, PAD, Vocabulary

__all__ = [
    "BOS",
    "CHARACTERS",
    "EOS",
    "LANGUAGES",
    "PAD",
    "SOURCE",
    "TARGET",
    "BytePairEncoding",
    "Code",
    "Dates",
    "Digits",
    "FullDigits",
    "FullPictures",
    "Pictures",
    "Vocabulary",
    "as_ids",
    "cifar10",
    "code_tokens",
    "days_of",
    "embedded_code",
    "embedded_digits",
    "image_folder",
    "mnist",
    "repeated_sequences",
    "some_digits",
    "split_of",
    "styles",
    "ten_digits",
    "where_written",
    "write_date",
    "written_dates",
]
