"""What a judgement says, and how it looks in a notebook, a terminal and a feedback page."""

import html
import re
from dataclasses import dataclass

from autograder.exercise import Mistake

HOLDS, FAILS = "✓", "✗"


@dataclass(frozen=True)
class Result:
    """One criterion: whether it holds, and a sentence if there is more to say."""

    title: str
    share: float
    holds: bool
    note: str = ""


@dataclass(frozen=True)
class Difference:
    """Where a visible case first differs."""

    case: str
    where: str
    expected: str
    got: str
    note: str = ""


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
    """

    exercise: str
    headline: str
    results: tuple[Result, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    difference: Difference | None = None
    error: tuple[str, ...] = ()
    printed: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.results) and all(result.holds for result in self.results)

    @property
    def score(self) -> float:
        """The share of the points earned, from 0 to 1; 1 only if everything holds."""
        earned = sum(result.share for result in self.results if result.holds)
        return 1.0 if self.passed else round(min(earned, 0.99), 4)

    def text(self) -> str:
        """The verdict for a terminal."""
        lines = [f"{HOLDS if self.passed else FAILS} {self.exercise}: {self.headline}"]
        for mistake in self.mistakes:
            lines += ["", f"  Recognised: {mistake.name}", f"    {mistake.does}", f"    Where to look: {mistake.look}"]
        if self.error:
            lines += ["", "  Your code stopped at:"] + [f"    {line}" for line in self.error]
        if self.results:
            lines.append("")
        for result in self.results:
            note = f" – {result.note}" if result.note else ""
            lines.append(f"  {HOLDS if result.holds else FAILS} {result.share:4.0%}  {result.title}{note}")
        if self.difference:
            d = self.difference
            lines += ["", f"  First difference ({d.case}), at {d.where}:", f"    expected {d.expected}, got {d.got}"]
            lines += [f"    {d.note}"] if d.note else []
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
                    tag("strong", f"Recognised: {said(mistake.name)}."),
                    f" {said(mistake.does)}<br>",
                    tag("em", "Where to look: "),
                    said(mistake.look),
                    style="margin:.5em 0;padding:.4em .8em;border-left:3px solid #b3401f;font-size:1em",
                )
            )
        if self.error:
            parts.append(tag("p", "Your code stopped at:", style="margin:.5em 0 0"))
            parts.append(tag("pre", said("\n".join(self.error)), style="margin:.2em 0 .5em 1em"))
        if self.results:

            def row(name: str, mark: str, share: str, what: str) -> str:
                pad = "padding:.15em .6em;text-align:"
                cells = ((mark, "left"), (share, "right"), (what, "left"))
                return tag("tr", *(tag(name, inside, style=pad + side) for inside, side in cells))

            rows = [
                row(
                    "td",
                    HOLDS if result.holds else FAILS,
                    f"{result.share:.0%}",
                    said(result.title) + (f" – {tag('em', said(result.note))}" if result.note else ""),
                )
                for result in self.results
            ]
            head = row("th", "", "share", "what is checked")
            parts.append(tag("table", tag("thead", head), tag("tbody", *rows), style="margin:.5em 0"))
        if self.difference:
            d = self.difference
            inside = f"First difference ({said(d.case)}), at {tag('code', said(d.where))}: expected "
            inside += f"{tag('code', said(d.expected))}, got {tag('code', said(d.got))}."
            parts.append(tag("p", inside, f" {said(d.note)}" if d.note else "", style="margin:.5em 0"))
        if self.printed:
            parts.append(tag("details", tag("summary", "What your code printed"), tag("pre", said(self.printed))))
        return tag("div", *parts, style=f"border-left:4px solid {color};padding:.3em 0 .3em 1em;margin:.3em 0")


def not_judged(
    exercise: str, headline: str, error: tuple[str, ...] = (), mistakes: tuple[Mistake, ...] = ()
) -> Verdict:
    """The verdict where nothing could be tried: not attempted, crashed, no answer."""
    return Verdict(exercise, headline, error=error, mistakes=mistakes)
