"""Texts that come from outside, made harmless for where they are read: a terminal, a table, a note, a page, UTF-8.

Names, outputs, paths and sentences of students and of other systems may hold what gives orders to whatever shows them.
What is cleaned is cleaned here; `markup` is about what is meant to be HTML.
"""

import os
import re
import unicodedata
from typing import Any

# But for tabs and line breaks, which texts have.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
OF_COLOR = r"\[[0-9;]*m"  # what follows an escape that sets one
COLOR = re.compile(rf"\x1b{OF_COLOR}")
# What a terminal would obey: control characters but for tabs, line breaks, and colours.
ORDERS = re.compile(rf"\x1b(?!{OF_COLOR})|(?!\x1b){CONTROL.pattern}")
ACTIVE = r"\[]*_#<>!|`"  # in Markdown or HTML
CODE = re.compile(r"((?<!`)`[^`]+`(?!`))")  # in Markdown, where nothing within it is active
BRACKETS = str.maketrans("<>", "__")
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # for a character in a note, whose lines are no names of files
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which begins what a spreadsheet would compute
LATER = re.compile(r'(;[\s"]*+)(?=[=+@-])')  # where it is set to a language in which a semicolon parts fields


def encodable(text: str) -> str:
    """A text without lone surrogates, which JSON and the names in a student's code can hold, and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def printable(text: bytes | str, instead: str = "_") -> str:
    """A text on one line, or a path, without what would give orders to the terminal in which a log is read.

    Args:
        text: any; bytes are a path's.
        instead: what takes the place of each such character.
    """
    return "".join(c if c.isprintable() else instead for c in os.fsdecode(text))


def how_many(count: int, what: str) -> str:
    """A number of things whose plural ends in s: "1 student", "2 students", "no students"."""
    return f"{count or 'no'} {what}{'s' * (count != 1)}"


def listed(name: str) -> str:
    """A name as lists have it: as it is; quoted, with escapes, where a terminal would obey it."""
    return name if name.isprintable() else repr(name)


def without_control(text: str) -> str:
    """A text of several lines without control characters."""
    return CONTROL.sub("", text)


def for_terminal(text: str) -> str:
    """A text of several lines in which a terminal finds colours and no other order."""
    return ORDERS.sub("", encodable(text))


def without_colors(text: str) -> str:
    """A text of several lines without a terminal's colours."""
    return COLOR.sub("", text)


def in_markdown(text: str) -> str:
    """A text on one line, with what is active in Markdown or HTML made plain; code between backticks stays code."""
    parts = CODE.split(printable(text, UNPRINTABLE))  # every second one is code
    parts[::2] = ["".join(f"\\{c}" if c in ACTIVE else c for c in part) for part in parts[::2]]
    return "".join(parts)


def in_table(value: Any) -> Any:
    """A field of a CSV file.

    Returns:
        the value as it is; a text without what a terminal would obey, and with an apostrophe before what a spreadsheet
        would compute with, also if it begins a field at each semicolon.
    """
    if not isinstance(value, str):
        return value
    return LATER.sub(r"\1'", "'" * value.startswith(FORMULA) + printable(value))


def without_tags(name: str) -> str:
    """A name, printable, in which no HTML begins.

    Attack: one that is HTML; not all of nbgrader's pages make plain text of it.
    """
    return printable(name).translate(BRACKETS)


def letters(name: str) -> str:
    """What two spellings of one name have in common: small letters with their marks, and digits, composed."""
    composed = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in composed if c.isalnum() or unicodedata.category(c).startswith("M"))  # M: vowel signs
