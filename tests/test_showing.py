"""How a verdict looks: it says the same in a terminal and on a page, and its matrices can be read."""

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from autograder import showing
from autograder.exercise import Mistake
from autograder.verdict import MAX_SIDE, Difference, Picture, Result, Verdict, not_judged
from tests.pages import words

PICTURE = Picture("result[2]", ((1.0, 2.0), (3.0, 4.0)), ((1.0, -2.0), (3.0, 4.5)))
FULL = Verdict(
    "First",
    "2 of 5 cases agree.",
    (
        Result("what holds", 0.4, True),
        Result("what fails", 0.35, False, "as a note says"),
        Result("what is spared", 0.25, False, "for another reason", spared=True),
    ),
    (Mistake("key", "the title", "What it does.", "Where that may be."),),
    Difference("a case", "[0, 1]", "2.0", "-2.0", "how it differs", "how far it was right", PICTURE),
    ("line 3, in forward: return x",),
    "what was printed",
    (("each row sums to 1", True), ("nothing later is seen", False)),
    points=10.0,
)
NOT_SHOWN = {"key", "slot", "trouble", "forbidden"}  # what others than students read


def sentences(value: Any) -> list[str]:
    """All texts in a record, and in the records in it."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, tuple):
        return [text for item in value for text in sentences(item)]
    if is_dataclass(value) and not isinstance(value, (type, Picture)):
        return [
            text for one in fields(value) if one.name not in NOT_SHOWN for text in sentences(getattr(value, one.name))
        ]
    return []


@pytest.mark.parametrize("form", ["in a terminal", "on a page"])
def test_all_that_a_verdict_says_is_shown(form: str) -> None:
    shown = FULL.text() if form == "in a terminal" else words(FULL.html())
    shown = " ".join(shown.split())
    assert len(sentences(FULL)) == 20
    assert [text for text in sentences(FULL) if text not in shown] == []
    assert "6.5 of 10 points" in shown and "Where to look: Where that may be." in shown
    assert re.search(r"✓ ?4 of 4 ?what holds.*✗ ?0 of 3.5 ?what fails – as a note says.*○ ?2.5 of 2.5 ?what is", shown)
    assert "Your code stopped at:" in shown and "our code printed" in shown and "First difference (a case)" in shown
    assert "expected 2.0, got -2.0" in shown and "✓ each row sums to 1 · ✗ nothing later is seen" in shown


def test_what_else_is_known_is_said_only_where_something_is_wrong() -> None:
    right = replace(FULL, results=(Result("what holds", 1.0, True),))
    assert right.passed and "Also checked" not in right.text() + right.html()
    bare = not_judged("First", "not attempted yet.")
    for shown in (bare.text(), words(bare.html())):
        assert not re.search("Also checked|printed|stopped at|First difference|Recognised", shown)


@pytest.mark.parametrize("passed", [True, False])
def test_a_page_shows_by_colour_and_by_mark_whether_an_answer_is_right(passed: bool) -> None:
    page = Verdict("First", "so.", (Result("a", 1.0, passed),)).html()
    red, green = (int(page.split("solid #")[1][at : at + 2], 16) for at in (0, 2))
    assert (green > red) == passed and words(page).startswith("✓" if passed else "✗")


@pytest.mark.parametrize(
    ("results", "points", "said"),
    [
        ((Result("a", 1.0, True),), 1.0, "1 of 1 point"),
        ((Result("a", 0.55, True), Result("b", 0.45, False)), 1.0, "0.55 of 1 point"),
        ((Result("a", 0.6, True), Result("b", 0.4, False)), 5.0, "3 of 5 points"),
        ((Result("a", 0.6, True), Result("b", 0.4, False)), None, "60 % of the points"),
        ((Result("a", 1 / 3, True), Result("b", 2 / 3, False)), 10.0, "3.33 of 10 points"),
        ((Result("a", 0.6, True), Result("b", 0.4, False, spared=True)), 10.0, "9.9 of 10 points"),
        ((), 10.0, "0 of 10 points"),
    ],
)
def test_what_is_earned_in_words(results: tuple[Result, ...], points: float | None, said: str) -> None:
    """All of it only where everything holds."""
    assert Verdict("First", "so.", results, points=points).earned == said
    assert f"Earned: {said}" in Verdict("First", "so.", results, points=points).text()


# --- Two matrices side by side ----------------------------------------------------------------------------------------


def cells(picture: Picture) -> list[tuple[list[tuple[int, ...]], list[str], list[str]]]:
    """Of both matrices: the colours, the inks and the texts of their cells, in order."""
    page = replace(FULL, difference=replace(FULL.difference, picture=picture)).html()
    found = []
    for table in re.findall(r"<table><tbody><tr><td style=\"padding:\.1em.*?</table>", page):
        colours = [tuple(map(int, rgb.split(","))) for rgb in re.findall(r"rgb\(([\d,]+)\)", table)]
        found.append((colours, re.findall(r";color:(#\w+)", table), re.findall(r">([^<>]+)</td>", table)))
    return found


def luminance(colour: tuple[int, ...]) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_a_number_has_a_colour_by_its_sign_and_size_on_which_it_can_be_read() -> None:
    row = tuple(float(value) for value in range(-10, 11))
    (colours, inks, texts), _ = cells(Picture("result", (row, row), (row, row)))
    assert texts[:21] == [f"{value:.0f}" for value in row]
    for value, colour, ink in zip(row, colours, inks, strict=False):
        red, _, blue = colour
        assert (red > blue, red < blue) == (value > 0, value < 0)
        light, dark = sorted((luminance(colour), 1.0 if ink == "#fff" else 0.0), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 4.4, (value, colour, ink)
    assert colours[10] == (255, 255, 255) and sum(colours[0]) < sum(colours[5]) < sum(colours[10])


def test_what_is_no_number_is_named_and_takes_no_part_in_the_scale() -> None:
    given = Picture("result", ((1.0, 2.0), (float("nan"), float("inf"))), ((1.0, 2.0), (float("-inf"), 4.0)))
    expected, got = (texts for _, _, texts in cells(given))
    assert expected == ["1", "2", "nan", "∞"] and got == ["1", "2", "∞", "4"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [((1.0, -20.0), "-20"), ((1.0, 0.125), "0.12"), ((0.001, 0.0025), "2.5e-03"), ((1.5, 20_000.5), "2.0e+04")],
)
def test_numbers_are_as_long_as_they_need_to_be(values: tuple[float, float], shown: str) -> None:
    (_, _, texts), _ = cells(Picture("result", (values, values), (values, values)))
    assert texts[1] == shown


@pytest.mark.parametrize("columns", [2, 8, 9, 12])
def test_what_should_be_is_first_and_wide_matrices_stand_one_below_the_other(columns: int) -> None:
    right, wrong = ((value,) * columns for value in (3.0, 7.0))
    page = showing._side_by_side(Picture("result[2]", (right, right), (wrong, wrong)))
    assert page.index("result[2], expected") < page.index(">3<") < page.index("result[2], yours") < page.index(">7<")
    assert page.count("</tr></tbody></table><table><tbody><tr>") == (columns > 8)


def test_a_picture_is_the_matrix_around_the_first_difference_up_to_a_size() -> None:
    expected = np.arange(2 * 3 * 30 * 40.0).reshape(2, 3, 30, 40)
    shown = Picture.of(expected, expected + 0.5, (1, 2, 20, 30), "weights")
    assert shown is not None and shown.title == "weights[1, 2]"
    assert MAX_SIDE == 12 == len(shown.expected) == len(shown.got[0])
    assert shown.expected[1][2] == expected[1, 2, 1, 2] and shown.got[1][2] == expected[1, 2, 1, 2] + 0.5
    small = Picture.of(np.eye(2), np.eye(2), (0, 1))
    assert small is not None and small.title == "result"
    for of_one in ((3,), (1, 5), (4, 5, 1)):
        assert Picture.of(np.ones(of_one), np.ones(of_one), (0,) * len(of_one)) is None, (
            "it says no more than the place"
        )
