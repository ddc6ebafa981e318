"""Texts that come from outside, made harmless for a terminal, a table, a note and a page; and what counts in words."""

import pytest

from autograder.pipeline import texts
from autograder.pipeline.texts import encodable, for_terminal, in_markdown, in_table, letters, listed, printable

OVERRIDE = "\N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m \x1b[1;4mbold", "\x1b[31mred\x1b[0m \x1b[1;4mbold"),
        ("\x1b[2Jgone\x1b]0;title\x07", "[2Jgone]0;title"),
        ("ab\x08c\x00\x7f\x9b1m", "abc1m"),
        ("\ud800", "?"),
    ],
)
def test_a_terminal_gets_colours_and_no_other_order(given: str, shown: str) -> None:
    assert for_terminal(given) == shown
    assert texts.without_colors("\x1b[31mred\x1b[0m") == "red" and texts.without_control("a\x1b\n\tb") == "a\n\tb"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("müller 码", "müller 码"),
        ("a\nb\t", "a_b_"),
        (f"{OVERRIDE}evil", "_evil"),
        (b"not \xff text", "not _ text"),
        ("", ""),
    ],
)
def test_a_line_of_a_log_holds_what_can_be_printed(given: bytes | str, shown: str) -> None:
    assert printable(given) == shown
    assert printable("a\nb", "") == "ab"


def test_a_name_in_a_list_is_quoted_only_where_it_would_do_something() -> None:
    assert listed("Zoë O'Hara") == "Zoë O'Hara" and listed("a\x1b[2J") == r"'a\x1b[2J'"
    assert texts.without_tags("<b>Zoë</b>\n") == "_b_Zoë_/b__"


def test_whatever_a_text_holds_it_can_be_written() -> None:
    assert encodable("a\ud800b é") == "a?b é"
    encodable("\udcff").encode("utf-8")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a_b *c* #d", r"a\_b \*c\* \#d"),
        ("calls `f_g`", "calls `f_g`"),
        ("``a_b``", r"\`\`a\_b\`\`"),
        ("<i>[x](y)|!", r"\<i\>\[x\](y)\|\!"),
        ("a\nb", "a\N{REPLACEMENT CHARACTER}b"),
    ],
)
def test_nothing_in_a_line_of_a_note_is_active(given: str, shown: str) -> None:
    assert in_markdown(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a; =1", "a; '=1"), ('a;" @x', "a;\" '@x"), ("a;b", "a;b"), ("-", "'-"), (None, None), (2, 2), ("1-2", "1-2")],
)
def test_a_spreadsheet_computes_with_nothing_that_somebody_wrote(given: object, shown: object) -> None:
    assert in_table(given) == shown


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Multi-Head (1)", "multi_head1", True),
        ("STRASSE", "straße", True),
        ("ﬁrst", "first", True),
        ("u\N{COMBINING DIAERESIS}bung", "Übung", True),
        ("first", "firsts", False),
        ("é", "e", False),
    ],
)
def test_two_spellings_of_a_name_have_their_letters_and_digits_in_common(one: str, other: str, same: bool) -> None:
    assert (letters(one) == letters(other)) == same


def test_things_are_counted_in_words() -> None:
    assert [texts.how_many(n, "worker") for n in (0, 1, 2)] == ["no workers", "1 worker", "2 workers"]
