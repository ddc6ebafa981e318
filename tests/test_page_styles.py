"""The style sheets of feedback pages and of the report: what they colour can be read, by day and by night."""

import re
from importlib.resources import files

import pytest
from nbconvert.filters import ansi

from autograder.pipeline import markup
from tests.test_showing import luminance

SHEETS = {
    "feedback": files("autograder.pipeline").joinpath("feedback.css").read_text(encoding="utf-8"),
    "report": files("autograder.report").joinpath("page.css").read_text(encoding="utf-8"),
}
INKS = {"feedback": ("ink", "faint", "link", "late", "k", "s", "c", "n"), "report": ("ink", "faint", "link", "late")}
PAPERS = {"feedback": ("paper", "code", "bar"), "report": ("paper", "card", "code")}
sheets = pytest.mark.parametrize("name", SHEETS)


def colours(name: str, scheme: str) -> dict[str, str]:
    """The named colours of a sheet in a scheme, or in print."""
    start = {"light": ":root", "dark": "(prefers-color-scheme: dark)", "print": "@media print"}[scheme]
    block = SHEETS[name].partition(start)[2].partition("}")[0]
    return dict(re.findall(r"--(\w+): (#\w+)", block))


def contrast(one: str, other: str) -> float:
    def value(text: str) -> float:
        digits = text[1:] if len(text) == 7 else "".join(2 * digit for digit in text[1:])
        return luminance(tuple(int(digits[at : at + 2], 16) for at in (0, 2, 4)))

    light, dark = sorted((value(one), value(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@sheets
def test_each_colour_is_there_by_day_and_by_night_and_used(name: str) -> None:
    light, dark = colours(name, "light"), colours(name, "dark")
    assert light.keys() == dark.keys() == {*re.findall(r"var\(--(\w+)\)", SHEETS[name])}
    assert "color-scheme: light dark" in SHEETS[name]


@sheets
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_against_what_is_behind_it(name: str, scheme: str) -> None:
    named = colours(name, scheme)
    weak = {
        (ink, paper): ratio
        for ink in INKS[name]
        for paper in PAPERS[name]
        if (ratio := contrast(named[ink], named[paper])) < 4.5
    }
    assert weak == {}
    assert (contrast(named["paper"], "#000") > 10) == (scheme == "light")


def test_the_colours_of_a_terminal_are_those_of_the_page() -> None:
    sheet, by_scheme = SHEETS["feedback"], [colours("feedback", scheme) for scheme in ("light", "dark")]
    for name in ansi._ANSI_COLORS:
        assert re.search(rf"\.{name}-fg\b[^{{]*{{ color: (light-dark\(|var\(--faint\)|inherit)", sheet), name
    pairs = re.findall(r"\.ansi-(\w+)-(fg|bg), [^{]*\{ (?:color|background): light-dark\((#\w+), (#\w+)\)", sheet)
    assert len(pairs) == 12
    for colour, kind, *of_schemes in pairs:
        for shown, named in zip(of_schemes, by_scheme, strict=True):
            assert contrast(shown, named["paper" if kind == "fg" else "ink"]) >= 4.5, (colour, kind)


def test_what_code_and_formulas_are_marked_with_has_its_looks() -> None:
    marked = {name for names in markup.OWN_CLASSES.values() for name in names}
    assert marked == {"c1", "k", "mi", "nf", "s", "dataframe", "bold", "left", "monospace", "right"}
    assert [name for name in marked if not re.search(rf"\.{name}\b", SHEETS["feedback"])] == []


def test_on_paper_nothing_is_cut_off() -> None:
    assert "@media print { .own { max-height: none !important; } }" in SHEETS["feedback"]
    printed = SHEETS["report"].partition("@media print")[2]
    assert colours("report", "print")["paper"] == "#fff" and "details::details-content" in printed


@sheets
def test_what_is_wider_than_a_phone_breaks_or_scrolls(name: str) -> None:
    body = re.findall(r"^body \{([^}]*)\}", SHEETS[name], re.MULTILINE)[0]
    pre = " ".join(re.findall(r"^pre(?:, code)? \{([^}]*)\}", SHEETS[name], re.MULTILINE))
    assert "overflow-wrap: break-word" in body
    assert "white-space: pre-wrap" in pre and "overflow-wrap: anywhere" in pre
