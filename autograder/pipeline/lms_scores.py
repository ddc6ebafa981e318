"""Gives scores out in the tables that Canvas and Moodle export and import."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry

from autograder.pipeline import labs, late
from autograder.pipeline.course import Failed, configuration, gradebook
from autograder.pipeline.people import POINTS, Class, people, read_table
from autograder.pipeline.standing import Standing, released, standings
from autograder.pipeline.texts import how_many


def fill(course: Path, path: Path, chosen: list[str], to: Path | None, say: Callable[[str], None]) -> list[str]:
    """Write scores into a table that Canvas or Moodle exported, for it to import: same rows, columns and spelling.

    A lab's scores go into the column of its name, with or without Canvas's number behind it, or into a new one; those
    of one lab into the column Grade of Moodle's grading worksheet. Who has no score keeps what stands there.

    Args:
        course: the course folder.
        path: the table.
        chosen: labs; all that students have been given if empty.
        to: the file to write; beside the table if None.
        say: called with a line for what is to be known.

    Returns:
        students whose score is in no row, each with the number of rows that may be meant.

    Raises:
        Failed: the table cannot be read, or a worksheet is to hold several labs.
    """
    config = configuration(course)
    labs.chosen(course, chosen)
    table = read_table(path)
    persons = people(table)
    with gradebook(course) as book:
        late.renew(book, config, course, chosen, say)
        names = chosen or released(course, book)
        roster = Class(book)
        try:
            known = {lab: standings(course, book, lab) for lab in names}
            most: dict[str, Any] = {lab: book.find_assignment(lab).max_score for lab in names}
        except MissingEntry as problem:
            raise Failed(f"{problem}: make labs tells the gradebook.") from None
    worksheet = table.place(("grade", "bewertung")) if table.place(("identifier", "id")) else []
    if worksheet and len(names) != 1:
        raise Failed(f"{path} is a worksheet of one lab: name it, one of {', '.join(names)}.")
    about = [(student, n) for n, person in enumerate(persons) if person and (student := roster.find(person))]
    counted = Counter(student for student, _ in about)
    # Attack: a name of one's own choice, so that one's row is taken for somebody else's.
    rows = {student: n for student, n in about if counted[student] == 1}
    found = {n for _, n in about}
    unclear = [roster.namesakes(person) for n, person in enumerate(persons) if person and n not in found]
    counted.update(student for students in unclear for student in students)
    missing: dict[str, None] = {}
    # Attack: such a name of one's own choice.
    of_points = [
        row
        for row, person in zip(table.rows, persons, strict=True)
        if person is None and row[0].strip().casefold() == POINTS
    ]
    for lab in names:
        place = worksheet[0] if worksheet else _column(table.columns, lab)
        if place == len(table.columns):
            table.columns.append(lab)
            for row in table.rows:
                row.append(_points(most[lab]) if row in of_points else "")
        written: list[Standing] = []
        for standing in known[lab]:
            if standing.score is None:
                continue
            if standing.student in rows:
                table.rows[rows[standing.student]][place] = _points(standing.score)
                written.append(standing)
            else:
                missing[standing.student] = None
        say(f"{lab}: {len(written)} scores in the column {table.columns[place]!r}")
        if waiting := sum(standing.ungraded > 0 for standing in written):
            say(f"    {waiting} of them may still rise: answers in the students' own words are not graded yet.")
        maximum = table.place(("maximum grade", "bestwertung")) if worksheet else []
        maxima = {row[n] for n in maximum for row in table.rows} if worksheet else {row[place] for row in of_points}
        if other := _other_maximum(maxima, most[lab]):
            say(f"    The table has {other} points as the maximum, and the lab has {most[lab]:g}. Change the one that")
            say("    is wrong: scores are not converted.")
    to = to or path.with_name(f"{path.stem}-scores.csv")
    to.write_text(table.text(), encoding=table.encoding, errors="xmlcharrefreplace", newline="")
    say(f"Written to {to}")
    return [
        f"{student} ({how_many(count, 'row')} may be meant)" if (count := counted[student]) else f"{student} (no row)"
        for student in missing
    ]


def _column(columns: list[str], lab: str) -> int:
    """The place of a lab's column; after the last, if it has none."""
    return next(
        (n for n, column in enumerate(columns) if re.fullmatch(rf"{re.escape(lab)}( \(\d+\))?", column.strip())),
        len(columns),
    )


def _other_maximum(maxima: set[str], most: float) -> str:
    """What a table says is the maximum of a lab, if it is not the lab's; else ""."""
    numbers = {text: float(text.replace(",", ".")) for text in maxima if re.fullmatch(r"\d+([.,]\d+)?", text)}
    return next((text for text, number in numbers.items() if number != most), "")


def _points(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
