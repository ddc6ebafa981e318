"""What a judgement says, and how it looks in a notebook, a terminal and a feedback page."""

import html
import re
import textwrap
from dataclasses import dataclass, replace

import numpy as np

from autograder.exercise import Mistake

HOLDS, FAILS, SPARED = "✓", "✗", "○"
MAX_SIDE = 12  # rows and columns of a picture


@dataclass(frozen=True)
class Result:
    """One criterion.

    Attributes:
        title: what is checked.
        share: of the points.
        holds: whether it does.
        note: a sentence, if there is more to say.
        spared: it does not hold, and costs nothing, because another one is lost for the same reason.
    """

    title: str
    share: float
    holds: bool
    note: str = ""
    spared: bool = False

    @property
    def earned(self) -> float:
        return self.share if self.holds or self.spared else 0.0

    @property
    def mark(self) -> str:
        return HOLDS if self.holds else SPARED if self.spared else FAILS


@dataclass(frozen=True)
class Picture:
    """Two matrices side by side, as they are and as they should be: the last two axes around the first difference.

    Attributes:
        title: which part of the result, and which of its matrices.
        expected, got: rows of numbers.
    """

    title: str
    expected: tuple[tuple[float, ...], ...]
    got: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, expected: np.ndarray, got: np.ndarray, at: tuple[int, ...], name: str = "") -> "Picture | None":
        """The matrix that holds the place `at`; None where there is none, or it says no more than the place itself."""
        if expected.ndim < 2 or min(expected.shape[-2:]) < 2:
            return None
        matrix = at[:-2]
        index = f"[{', '.join(map(str, matrix))}]" if matrix else ""
        shown = [tuple(tuple(row[:MAX_SIDE]) for row in a[matrix][:MAX_SIDE].tolist()) for a in (expected, got)]
        return cls(f"{name or 'result'}{index}", *shown)


@dataclass(frozen=True)
class Difference:
    """Where a visible case first differs; `way`: how far the way to the result was right."""

    case: str
    where: str
    expected: str
    got: str
    note: str = ""
    way: str = ""
    picture: Picture | None = None


@dataclass(frozen=True)
class Verdict:
    """The judgement of one exercise.

    Attributes:
        exercise: its name.
        headline: one sentence that says how it went.
        results: the criteria in order; empty if none could be tried.
        mistakes: those recognised, the likeliest first.
        difference: the first difference on a visible case, if there is one to show.
        error: the student's own lines of an exception, if one was raised.
        printed: what the code printed on a visible case.
        properties: what else is known of all results, for no points: a title, and whether it holds.
        points: what the exercise is worth; None where that is not known, and shares are said.
        forbidden: the function that did the exercise for the student, where that is why nothing is given.
        attempted: False where nothing was written yet.
    """

    exercise: str
    headline: str
    results: tuple[Result, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    difference: Difference | None = None
    error: tuple[str, ...] = ()
    printed: str = ""
    properties: tuple[tuple[str, bool], ...] = ()
    forbidden: str = ""
    points: float | None = None
    attempted: bool = True

    def worth(self, points: float) -> "Verdict":
        """The same verdict, of an exercise that is worth so many points."""
        return replace(self, points=points)

    @property
    def earned(self) -> str:
        """What is earned, in words: "6 of 10 points", or "60 % of the points"."""
        if self.points is None:
            return f"{100 * self.score:.0f} % of the points"
        return f"{_amount(self.score * self.points)} of {_amount(self.points)} point{'' if self.points == 1 else 's'}"

    def _share(self, result: Result) -> str:
        """What a line earned of what it is worth."""
        if self.points is None:
            return f"{100 * result.earned:.0f} of {100 * result.share:.0f} %"
        return f"{_amount(result.earned * self.points)} of {_amount(result.share * self.points)}"

    @property
    def passed(self) -> bool:
        return bool(self.results) and all(result.holds for result in self.results)

    @property
    def score(self) -> float:
        """The share of the points earned, from 0 to 1; 1 only if everything holds."""
        earned = sum(result.earned for result in self.results)
        return 1.0 if self.passed else round(min(earned, 0.99), 4)

    def text(self) -> str:
        """The verdict for a terminal."""
        lines = [f"{HOLDS if self.passed else FAILS} {self.exercise}: {self.headline}"]
        for mistake in self.mistakes:
            lines += [
                "",
                f"  Recognised: {mistake.title}",
                f"    {mistake.sentence}",
                f"    Where to look: {mistake.look}",
            ]
        if self.error:
            lines += ["", "  Your code stopped at:"] + [f"    {line}" for line in self.error]
        lines += ["", f"  Earned: {self.earned}"]
        shares = [self._share(result) for result in self.results]
        for result, share in zip(self.results, shares, strict=True):
            note = f" – {result.note}" if result.note else ""
            lines.append(f"  {result.mark} {share:>{max(map(len, shares))}}  {result.title}{note}")
        if self.difference:
            d = self.difference
            lines += ["", f"  First difference ({d.case}), at {d.where}:", f"    expected {d.expected}, got {d.got}"]
            lines += [f"    {words}" for words in (d.note, d.way) if words]
        if self.properties and not self.passed:
            words = " · ".join(
                f"{HOLDS if holds else FAILS}\N{NO-BREAK SPACE}{title}" for title, holds in self.properties
            )
            lines += ["", *textwrap.wrap(words, 110, initial_indent="  Also checked: ", subsequent_indent="    ")]
        if self.printed:
            lines += ["", "  Your code printed:"] + [f"    {line}" for line in self.printed.splitlines()]
        return "\n".join(lines)

    __str__ = text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}

    def html(self) -> str:
        """The verdict for a notebook or a feedback page: plain elements that survive sanitising, no script."""

        def tag(name: str, *inside: str, style: str = "") -> str:
            attribute = f' style="{style}"' if style else ""
            return f"<{name}{attribute}>{''.join(inside)}</{name}>"

        def said(text: str) -> str:
            return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))

        color = "#1a7f4b" if self.passed else "#b3401f"
        mark = HOLDS if self.passed else FAILS
        parts = [
            tag(
                "p", tag("strong", f"{mark} {said(self.exercise)}"), f": {said(self.headline)}", style="margin:0 0 .5em"
            )
        ]
        for mistake in self.mistakes:
            parts.append(
                tag(
                    "blockquote",
                    tag("strong", f"Recognised: {said(mistake.title)}."),
                    f" {said(mistake.sentence)}<br>",
                    tag("em", "Where to look: "),
                    said(mistake.look),
                    style="margin:.5em 0;padding:.4em .8em;border-left:3px solid #b3401f;font-size:1em",
                )
            )
        if self.error:
            parts.append(tag("p", "Your code stopped at:", style="margin:.5em 0 0"))
            parts.append(tag("pre", said("\n".join(self.error)), style="margin:.2em 0 .5em 1em"))
        parts.append(tag("p", f"Earned: {self.earned}", style="margin:.5em 0 0"))
        if self.results:

            def row(name: str, mark: str, share: str, what: str) -> str:
                pad = "padding:.15em .6em;text-align:"
                cells = ((mark, "left"), (share, "right"), (what, "left"))
                return tag("tr", *(tag(name, inside, style=pad + side) for inside, side in cells))

            rows = [
                row(
                    "td",
                    result.mark,
                    self._share(result).replace(" ", "\N{NO-BREAK SPACE}"),
                    said(result.title) + (f" – {tag('em', said(result.note))}" if result.note else ""),
                )
                for result in self.results
            ]
            head = row("th", "", "earned", "what is checked")
            parts.append(tag("table", tag("thead", head), tag("tbody", *rows), style="margin:.5em 0"))
        if self.difference:
            d = self.difference
            inside = f"First difference ({said(d.case)}), at {tag('code', said(d.where))}: expected "
            inside += f"{tag('code', said(d.expected))}, got {tag('code', said(d.got))}."
            notes = "".join(f" {said(text)}" for text in (d.note, d.way) if text)
            parts.append(tag("p", inside, notes, style="margin:.5em 0"))
            if d.picture:
                parts.append(_side_by_side(d.picture))
        if self.properties and not self.passed:
            seen = " · ".join(f"{HOLDS if holds else FAILS} {said(title)}" for title, holds in self.properties)
            parts.append(tag("p", tag("em", "Also checked: "), seen, style="margin:.5em 0;font-size:.9em"))
        if self.printed:
            parts.append(tag("details", tag("summary", "What your code printed"), tag("pre", said(self.printed))))
        return tag("div", *parts, style=f"border-left:4px solid {color};padding:.3em 0 .3em 1em;margin:.3em 0")


def _amount(points: float) -> str:
    return f"{round(points, 2):g}"


def _side_by_side(picture: Picture) -> str:
    """Two matrices as tables of coloured cells, on one scale: what the result should be, and what it is."""
    values = np.array([picture.expected, picture.got], dtype=float)
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    form = ".0f" if np.array_equal(finite, finite.round()) else ".2f" if 0.05 <= largest < 1000 else ".1e"

    def cell(value: float) -> str:
        if not np.isfinite(value):
            return f'<td style="{_CELL}background-color:#888;color:#fff">{"nan" if np.isnan(value) else "∞"}</td>'
        share = abs(value) / largest
        base = (0, 114, 178) if value < 0 else (213, 94, 0)  # blue below zero, vermilion above
        color = ",".join(str(round(255 + (c - 255) * share)) for c in base)
        ink = "#fff" if value < 0 and share > 0.9 else "#000"  # a contrast of 4.4 at least
        return f'<td style="{_CELL}background-color:rgb({color});color:{ink}">{value:{form}}</td>'

    def table(name: str, rows: tuple[tuple[float, ...], ...]) -> str:
        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
        title = html.escape(f"{picture.title}, {name}")
        return f'<td style="padding:0 1.5em 0 0;vertical-align:top">{title}<table><tbody>{body}</tbody></table></td>'

    beside = "" if len(picture.expected[0]) <= 8 else "</tr><tr>"  # wide ones one below the other
    both = table("expected", picture.expected) + beside + table("yours", picture.got)
    return f"<table><tbody><tr>{both}</tr></tbody></table>"


_CELL = "padding:.1em .3em;font-size:.75em;text-align:right;min-width:3em;"


def not_judged(
    exercise: str,
    headline: str,
    error: tuple[str, ...] = (),
    mistakes: tuple[Mistake, ...] = (),
    forbidden: str = "",
    attempted: bool = True,
) -> Verdict:
    """The verdict where nothing could be tried: not attempted, crashed, no answer."""
    return Verdict(exercise, headline, error=error, mistakes=mistakes, forbidden=forbidden, attempted=attempted)
