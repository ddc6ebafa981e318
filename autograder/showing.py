"""How a verdict looks in a terminal, in a notebook and on a feedback page."""

import html
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from autograder.diagnosis import KEY

if TYPE_CHECKING:
    from autograder.exercise import Mistake
    from autograder.verdict import Difference, Picture, Result, Verdict

HOLDS, FAILS, SPARED = "✓", "✗", "○"
CELL = "padding:.1em .3em;font-size:.75em;text-align:right;min-width:3em;"  # of a picture


def amount(points: float) -> str:
    """Points in words."""
    return f"{round(points, 2):g}"


def _mark(holds: bool) -> str:
    return HOLDS if holds else FAILS


def _label(mistake: "Mistake") -> str:
    """What a mistake is introduced with: what was found by trying is said of what the code does, not of its lines."""
    return "In effect" if mistake.key == KEY else "Recognised"


def _share(verdict: "Verdict", result: "Result") -> str:
    """What a line earned of what it is worth."""
    if verdict.points is None:
        return f"{100 * result.earned:.0f} of {100 * result.share:.0f} %"
    return f"{amount(result.earned * verdict.points)} of {amount(result.share * verdict.points)}"


# --- In a terminal -----------------------------------------------------------------------------------------------


def text(verdict: "Verdict") -> str:
    """The verdict for a terminal."""
    lines = [f"{_mark(verdict.passed)} {verdict.exercise}: {verdict.headline}"]
    for mistake in verdict.mistakes:
        lines += [
            "",
            f"  {_label(mistake)}: {mistake.title}",
            f"    {mistake.sentence}",
            f"    Where to look: {mistake.look}",
        ]
    if verdict.error:
        lines += ["", "  Your code stopped at:", *(f"    {line}" for line in verdict.error)]
    lines += ["", f"  Earned: {verdict.earned}", *_result_lines(verdict)]
    if verdict.difference:
        lines += ["", *_difference_lines(verdict.difference)]
    if verdict.properties and not verdict.passed:
        seen = " · ".join(f"{_mark(holds)}\N{NO-BREAK SPACE}{title}" for title, holds in verdict.properties)
        lines += ["", *textwrap.wrap(seen, 110, initial_indent="  Also checked: ", subsequent_indent="    ")]
    if verdict.printed:
        lines += ["", "  Your code printed:", *(f"    {line}" for line in verdict.printed.splitlines())]
    return "\n".join(lines)


def _result_lines(verdict: "Verdict") -> Iterator[str]:
    """A line for each criterion."""
    shares = [_share(verdict, result) for result in verdict.results]
    for result, share in zip(verdict.results, shares, strict=True):
        note = f" – {result.note}" if result.note else ""
        yield f"  {result.mark} {share:>{max(map(len, shares))}}  {result.title}{note}"


def _difference_lines(first: "Difference") -> Iterator[str]:
    yield f"  First difference ({first.case}), at {first.where}:"
    yield f"    expected {first.expected}, got {first.got}"
    yield from (f"    {words}" for words in (first.note, first.way) if words)


# --- In a notebook or on a feedback page -------------------------------------------------------------------------


def as_html(verdict: "Verdict") -> str:
    """The verdict for a notebook or a feedback page: plain elements that survive sanitising, no script."""
    name = _tag("strong", f"{_mark(verdict.passed)} {_said(verdict.exercise)}")
    parts = [_tag("p", name, f": {_said(verdict.headline)}", style="margin:0 0 .5em"), *_mistakes(verdict)]
    if verdict.error:
        parts.append(_tag("p", "Your code stopped at:", style="margin:.5em 0 0"))
        parts.append(_tag("pre", _said("\n".join(verdict.error)), style="margin:.2em 0 .5em 1em"))
    parts.append(_tag("p", f"Earned: {verdict.earned}", style="margin:.5em 0 0"))
    if verdict.results:
        parts.append(_results(verdict))
    if verdict.difference:
        parts.append(_difference(verdict.difference))
    if verdict.properties and not verdict.passed:
        seen = " · ".join(f"{_mark(holds)} {_said(title)}" for title, holds in verdict.properties)
        parts.append(_tag("p", _tag("em", "Also checked: "), seen, style="margin:.5em 0;font-size:.9em"))
    if verdict.printed:
        parts.append(_tag("details", _tag("summary", "What your code printed"), _tag("pre", _said(verdict.printed))))
    color = "#1a7f4b" if verdict.passed else "#b3401f"
    return _tag("div", *parts, style=f"border-left:4px solid {color};padding:.3em 0 .3em 1em;margin:.3em 0")


def _tag(name: str, *inside: str, style: str = "") -> str:
    attribute = f' style="{style}"' if style else ""
    return f"<{name}{attribute}>{''.join(inside)}</{name}>"


def _said(words: str) -> str:
    """Escaped, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words, quote=False))


def _mistakes(verdict: "Verdict") -> Iterator[str]:
    """A block for each mistake that is recognised."""
    for mistake in verdict.mistakes:
        yield _tag(
            "blockquote",
            _tag("strong", f"{_label(mistake)}: {_said(mistake.title)}."),
            f" {_said(mistake.sentence)}<br>",
            _tag("em", "Where to look: "),
            _said(mistake.look),
            style="margin:.5em 0;padding:.4em .8em;border-left:3px solid #b3401f;font-size:1em",
        )


def _results(verdict: "Verdict") -> str:
    """A table with a row for each criterion."""
    rows = [
        _row(
            "td",
            result.mark,
            _share(verdict, result).replace(" ", "\N{NO-BREAK SPACE}"),
            _said(result.title) + (f" – {_tag('em', _said(result.note))}" if result.note else ""),
        )
        for result in verdict.results
    ]
    head = _row("th", "", "earned", "what is checked")
    return _tag("table", _tag("thead", head), _tag("tbody", *rows), style="margin:.5em 0")


def _row(cell: str, mark: str, share: str, what: str) -> str:
    pad = "padding:.15em .6em;text-align:"
    cells = ((mark, "left"), (share, "right"), (what, "left"))
    return _tag("tr", *(_tag(cell, inside, style=pad + side) for inside, side in cells))


def _difference(first: "Difference") -> str:
    inside = f"First difference ({_said(first.case)}), at {_tag('code', _said(first.where))}: expected "
    inside += f"{_tag('code', _said(first.expected))}, got {_tag('code', _said(first.got))}."
    notes = (f" {_said(words)}" for words in (first.note, first.way) if words)
    return _tag("p", inside, *notes, style="margin:.5em 0") + (_side_by_side(first.picture) if first.picture else "")


def _side_by_side(picture: "Picture") -> str:
    """Two matrices as tables of coloured cells, on one scale: what the result should be, and what it is."""
    values = np.array([picture.expected, picture.got], dtype=float)
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    form = ".0f" if np.array_equal(finite, finite.round()) else ".2f" if 0.05 <= largest < 1000 else ".1e"

    def table(name: str, rows: tuple[tuple[float, ...], ...]) -> str:
        body = "".join(f"<tr>{''.join(_cell(value, largest, form) for value in row)}</tr>" for row in rows)
        title = html.escape(f"{picture.title}, {name}")
        return f'<td style="padding:0 1.5em 0 0;vertical-align:top">{title}<table><tbody>{body}</tbody></table></td>'

    # Wide ones one below the other, in tables of their own: JupyterLab gives every second row a colour.
    beside = "" if len(picture.expected[0]) <= 8 else "</tr></tbody></table><table><tbody><tr>"
    both = table("expected", picture.expected) + beside + table("yours", picture.got)
    return f"<table><tbody><tr>{both}</tr></tbody></table>"


def _cell(value: float, largest: float, form: str) -> str:
    """A number on a colour that says how large it is."""
    if not np.isfinite(value):
        return f'<td style="{CELL}background-color:#888;color:#fff">{"nan" if np.isnan(value) else "∞"}</td>'
    share = abs(value) / largest
    base = (0, 114, 178) if value < 0 else (213, 94, 0)  # blue below zero, vermilion above
    color = ",".join(str(round(255 + (c - 255) * share)) for c in base)
    ink = "#fff" if value < 0 and share > 0.9 else "#000"  # a contrast of 4.4 at least
    return f'<td style="{CELL}background-color:rgb({color});color:{ink}">{value:{form}}</td>'
