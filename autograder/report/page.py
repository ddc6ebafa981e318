"""Writes the report: one page that works offline and runs nothing, and beside it what it says as CSV files."""

import csv
import datetime
import io
import os
import re
import urllib.parse
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from autograder.course import course_of
from autograder.pipeline.files import replacing
from autograder.pipeline.markup import breakable
from autograder.pipeline.texts import in_table
from autograder.report import findings
from autograder.report.findings import Findings, Mistaken
from autograder.report.gather import HandIn, Lab, gather
from autograder.report.likeness import WHOLE, Group

FOLDER = "report"  # in the course folder
FIRST, SHOWN = 3, 20  # of what to teach again in full; of the mistakes before what is folded
LONGEST = 6000  # characters of a student's code, or of a note
MEMBERS = 4  # students of a group whose code is shown
BINS = 10
HERE = files("autograder.report")
ENVIRONMENT = jinja2.Environment(
    autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
)
CODE = re.compile(r"`([^`]+)`")


def _marked(text: str) -> Markup:
    """A sentence of a verdict, with what stands between backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))


ENVIRONMENT.filters |= {"marked": _marked, "breakable": breakable}
PAGE = ENVIRONMENT.from_string(HERE.joinpath("page.html.j2").read_text(encoding="utf-8"))
STYLE = Markup(HERE.joinpath("page.css").read_text(encoding="utf-8"))


def report(course: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """Write the report of a class into report/, and return the page's path.

    Args:
        course: the course folder, in which something was graded.
        say: called with a line before what takes seconds.

    Raises:
        Failed: nothing was graded yet, or the gradebook cannot be read.
        OSError: the folder cannot be written.
    """
    about = course_of(course)
    taught = about.function(about.taught) if about.taught else lambda exercise, title: ""
    found = findings.find(gather(course, say), taught, say)
    say("Writing the page ...")
    folder = course / FOLDER
    folder.mkdir(exist_ok=True)
    for name, rows in tables(found).items():
        with replacing(folder / f"{name}.csv") as part:
            part.write_text(_csv(rows), encoding="utf-8")
    with replacing(folder / "index.html") as part:
        part.write_text(html(found), encoding="utf-8")
    return folder / "index.html"


def html(found: Findings) -> str:
    """The page."""
    hand_ins = sum(len(lab.handed_in) for lab in found.of.labs)
    tools = {"median": findings.median, "shares": findings.shares, "earned": findings.earned, "histogram": _histogram}
    return PAGE.render(
        found=found,
        labs=found.of.labs,
        name=lambda student: found.of.students.get(student, student),
        hand_ins=hand_ins,
        again=found.again[:FIRST],
        more=found.again[FIRST:],
        mistakes=[found.mistakes[:SHOWN], found.mistakes[SHOWN:]],
        groups=[(lab, group, _said(group), _codes(lab, group)) for lab, group in found.alike],
        notes=_notes(found.of.labs),
        page=_link,
        today=f"{datetime.date.today():%-d %B %Y}" if os.name != "nt" else datetime.date.today().isoformat(),
        style=STYLE,
        short=_short,
        **tools,
    )


def tables(found: Findings) -> dict[str, list[dict[str, Any]]]:
    """What the page says, as tables: rows by column for each file's name."""
    scores = [
        {
            "student": student,
            "name": found.of.students.get(student, student),
            "lab": lab.name,
            "exercise": exercise,
            "points": round(points * check.share, 2),
            "of": points,
            "passed": check.passed,
            "attempted": check.attempted,
            "hand_ins": len(one.attempts),
            "mistakes": "; ".join(check.mistakes),
        }
        for lab in found.of.labs
        for student, one in sorted(lab.handed_in.items())
        for exercise, points in lab.exercises.items()
        if (check := one.checks.get(exercise))
    ]
    again = [
        {"section": one.section, "students": len(one.students), "of": one.of, "who": " ".join(one.students)}
        for one in found.again
    ]
    mistakes = [
        {
            "lab": one.lab.name,
            "exercise": one.exercise,
            "mistake": one.title,
            "now": len(one.now),
            "ever": len(one.ever),
            "of": one.of,
            "after_each_hand_in": " ".join(map(str, one.after)),
            "section": one.section,
            "section_is_on": "" if not one.section else "the mistake" if one.treated else "the exercise",
            "who_now": " ".join(one.now),
        }
        for one in found.mistakes
    ]
    exercises = [
        {
            "lab": one.lab.name,
            "exercise": one.exercise,
            "points": one.points,
            "handed_in": one.handed_in,
            "attempted": one.attempted,
            "passed": one.passed,
            "mean_share": round(one.mean, 3),
            "correlation_with_the_rest": "" if one.correlation is None else round(one.correlation, 3),
            "in_words": one.words,
        }
        for one in found.exercises
    ]
    stopped = [
        {
            "student": one.student,
            "last_lab": one.last.name,
            "share_of_its_points": round(one.share, 3),
            "missed": " ".join(lab.name for lab in one.missed),
            "left_with": "; ".join(one.left_with),
        }
        for one in found.stopped
    ] + [
        {"student": student, "last_lab": "", "share_of_its_points": "", "missed": "", "left_with": ""}
        for student in found.never
    ]
    alike = [
        {
            "group": number,
            "lab": lab.name,
            "what": group.what,
            "student": student,
            "likeness": round(group.likeness, 3),
            "unusual_pieces": group.pieces,
        }
        for number, (lab, group) in enumerate(found.alike, 1)
        for student in group.students
    ]
    notes = [
        {"lab": lab.name, "student": student, "note": _plain(text)} for lab, student, text in _notes(found.of.labs)
    ]
    return {
        "teach_again": again,
        "scores": scores,
        "mistakes": mistakes,
        "exercises": exercises,
        "stopped": stopped,
        "alike": alike,
        "notes": notes,
    }


def _notes(labs: Iterable[Lab]) -> list[tuple[Lab, str, str]]:
    """The integrity notes."""
    return [(lab, student, one.note) for lab in labs for student, one in sorted(lab.handed_in.items()) if one.note]


def _plain(note: str) -> str:
    """What an integrity note says, without its Markdown and without the differences, in a line."""
    lines = [re.sub(r"\*\*|\\(?=\W)", "", line[2:]) for line in note.splitlines() if line.startswith("- ")]
    return _short("; ".join(lines))


def _said(group: Group) -> str:
    """How alike the members of a group are."""
    what = "all that they wrote" if group.what == WHOLE else "this cell"
    if group.likeness > 0.999:
        return f"the same program in {what}, but for names, comments and texts"
    return f"{group.likeness:.0%} of what is unusual in {what} is the same"


def _codes(lab: Lab, group: Group) -> list[tuple[str, str]]:
    """The texts to look at: those that a student changed, of the first members of a group."""
    given = {text.strip() for texts in lab.given for text in texts.values()}

    def code(one: HandIn) -> str:
        wanted = one.cells.items() if group.what == WHOLE else [(group.what, one.cells.get(group.what, ""))]
        return "\n\n".join(f"# {name}\n{text}" for name, text in wanted if text.strip() not in given)

    return [(student, _short(code(lab.handed_in[student]))) for student in group.students[:MEMBERS]]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… {len(text) - LONGEST:,} characters are left out."


def _histogram(values: list[float]) -> list[int]:
    """How many values lie in each tenth from 0 to 1."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, max(0, int(value * BINS)))] += 1
    return counts


def _link(lab: Lab, student: str) -> str:
    """The address of a feedback page, from the report; "" where there is none."""
    one = lab.handed_in.get(student)
    return f"../{urllib.parse.quote(one.page)}" if one and one.page else ""


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    if rows:
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: in_table(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


__all__ = ["FOLDER", "Mistaken", "html", "report", "tables"]
