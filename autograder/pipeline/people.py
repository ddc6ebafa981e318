"""Who is in the class: a roster from Canvas, Moodle or a plain list, and whom a name in another file means."""

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder.pipeline.course import Failed
from autograder.pipeline.intake import unusable
from autograder.pipeline.texts import letters, printable, without_tags

MAX_TABLE = 20_000_000  # bytes
# What the columns are called, in small letters: in nbgrader and plain lists, in Canvas, in Moodle (English, German).
# The first that a table has, and a row fills, counts.
NAMES = {
    "id": ("student_id", "sis login id", "username", "anmeldename", "sis user id", "id number", "id-nummer", "student"),
    "first_name": ("first_name", "first name", "vorname"),
    "last_name": ("last_name", "last name", "surname", "nachname"),
    "email": ("email", "email address", "e-mail", "e-mail-adresse"),
    "whole_name": ("full name", "vollständiger name", "name"),
}
POINTS, TEST = "points possible", "student, test"  # in Canvas's first column: of rows that are nobody
OF_NO_ID = '/\\"'  # which lead to another folder, or end a text in one of nbgrader's scripts
TESTER = re.compile(r"[0-9a-f]{10,}")  # the login that Canvas gives its test student, a hash


@dataclass
class Table:
    """A CSV file as its rows, and how it was written, so that it can be written alike.

    Args:
        columns: its header.
        rows: the others, each as long as the header.
        delimiter: between two fields.
        encoding: of the file.
    """

    columns: list[str]
    rows: list[list[str]]
    delimiter: str
    encoding: str

    def text(self) -> str:
        """The file's text."""
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=self.delimiter).writerows([self.columns, *self.rows])
        return out.getvalue()

    def place(self, names: Iterable[str]) -> list[int]:
        """The columns with one of these names (in small letters), in the order of the names."""
        known = [column.strip().casefold() for column in self.columns]
        return [known.index(name) for name in names if name in known]


def delimiter(text: str) -> str:
    """What stands between the fields of a CSV file: a comma, a semicolon or a tab, as most often in its first line."""
    return max(",;\t", key=text.partition("\n")[0].count)


def read_table(path: Path) -> Table:
    """Read a CSV file as spreadsheets, Canvas and Moodle write it: UTF-8, UTF-16 or Windows-1252; , ; or tabs.

    Raises:
        Failed: it cannot be read, or is no table.
    """
    try:
        if path.stat().st_size > MAX_TABLE:
            raise Failed(f"{path} is larger than {MAX_TABLE // 10**6} MB: it is no list of a class.")
        data = path.read_bytes()
    except OSError as problem:
        raise Failed(f"{path} cannot be read: {problem.strerror}.") from None
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig" if data[:1] == b"\xef" else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = data.decode(encoding, "replace")
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter(text)) if any(row)]
    except csv.Error as problem:
        raise Failed(f"{path} is no CSV file: {problem}.") from None
    if not rows:
        raise Failed(f"{path} is empty.")
    width = max(map(len, rows))
    columns, *rows = [row + [""] * (width - len(row)) for row in rows]
    return Table(columns, rows, delimiter(text), encoding)


@dataclass(frozen=True)
class Person:
    """A student. `id` is also the name of their folder in submitted/, if they are in the gradebook; all may be ""."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""


def people(table: Table) -> list[Person | None]:
    """The person that each row is about; None for a row that is about none, as Canvas's "Points Possible".

    Raises:
        Failed: there is no column by which a student could be called.
    """
    canvas = "sis login id" in [column.strip().casefold() for column in table.columns]
    places = {what: table.place(names) for what, names in NAMES.items()}
    ids = table.place(("lms_user_id",))
    if canvas:
        ids, places["whole_name"] = table.place(("id",)), table.place(("student",))
        places["id"] = table.place(("sis login id", "sis user id", "id"))
    elif not places["id"]:
        places["id"] = table.place(("id",))
    if not any(places[what] for what in ("id", "email", "whole_name")):
        wanted = "student_id, or as Canvas and Moodle call it: SIS Login ID, Username, ID number, Email address"
        raise Failed(f"None of the columns {', '.join(table.columns)} says what a student is called. Needed: {wanted}.")

    def person(row: list[str]) -> Person | None:
        texts = {
            what: next((row[column].strip() for column in of if row[column].strip()), "") for what, of in places.items()
        }
        whole = texts.pop("whole_name")
        lms = next((row[column].strip() for column in ids), "")
        # Attack: such a name of one's own choice. Who has a number is somebody; the test student has one, too.
        nobody = not any(texts.values()) and not lms and whole.casefold() in ("", POINTS)
        unknown = (texts["id"] in ("", lms) and not texts["email"]) or TESTER.fullmatch(texts["id"])
        if nobody or (whole.casefold() == TEST and unknown):
            return None
        if whole and not texts["last_name"]:
            last, comma, first = whole.rpartition(",")  # the last comma, as of "Smith, Jr., Robert"
            texts["first_name"], texts["last_name"] = (first, last) if comma else whole.rpartition(" ")[::2]
        plain = {name: without_tags(text.strip()) for name, text in texts.items()}
        return Person(**plain, lms_user_id=lms)

    return [person(row) for row in table.rows]


def enrol(gradebook: Gradebook, path: Path, say: Callable[[str], None] = lambda line: None) -> list[Person]:
    """Put everybody whom a table lists into the gradebook. Those who are in it are renewed, nobody is removed.

    Args:
        gradebook: which is open.
        path: the table.
        say: called with a line for each row that is of Canvas's test student.

    Returns:
        who is listed.

    Raises:
        Failed: the table cannot be read, lists nobody, or somebody twice, or under a name that no folder can have.
    """
    table = read_table(path)
    persons = people(table)
    for row in (row for row, person in zip(table.rows, persons, strict=True) if person is None):
        if any(field.strip().casefold() == TEST for field in row):
            say(f"Canvas's test student is left out: {printable(', '.join(filter(None, row)))}")
    listed = [replace(person, id=person.id or _local(person.email)) for person in persons if person]
    seen: dict[str, Person] = {}
    for person in listed:
        if not person.id:
            raise Failed(f"{path}: {person.first_name} {person.last_name} has no student_id, login or e-mail address.")
        if why := unusable(person.id) or (
            f"It contains one of {OF_NO_ID}." if set(person.id) & set(OF_NO_ID) else None
        ):
            raise Failed(f"{path}: no folder can be called {person.id!r}. {why}")
        if seen.setdefault(person.id, person) != person:
            raise Failed(f"{path}: two students are called {person.id!r}.")
    if not seen:
        raise Failed(f"{path} lists nobody.")
    for person in seen.values():
        about = {name: text for name, text in vars(person).items() if name != "id" and text}
        gradebook.update_or_create_student(person.id, **about)
    return list(seen.values())


def whole_name(first: str | None, last: str | None) -> str:
    """A first and a last name as one; "" where the gradebook has neither."""
    return printable(" ".join(filter(None, (first, last))))


def called(student: Any) -> str:
    """What a student of the gradebook is called: "Ada Lovelace (ada)", or the login alone where there is no name."""
    name, login = whole_name(student.first_name, student.last_name), printable(student.id)
    return f"{name} ({login})" if name else login


class Class:
    """Finds the student that another file means: by id, by the LMS's number, by e-mail address, or by name.

    Args:
        gradebook: which is open, and has the roster.
    """

    def __init__(self, gradebook: Gradebook) -> None:
        # Any: to a type checker the rows hold SQLAlchemy's columns, in truth their values.
        students: list[Any] = list(gradebook.students)
        self.everybody = [
            Person(
                student.id,
                student.first_name or "",
                student.last_name or "",
                student.email or "",
                student.lms_user_id or "",
            )
            for student in students
        ]
        self._known = {person.id: person for person in self.everybody}
        self._by: dict[tuple[str, str], set[str]] = {}
        for person in self.everybody:
            names = (f"{person.last_name} {person.first_name}", f"{person.first_name} {person.last_name}")
            for kind, text in (
                ("id", person.id),
                ("lms", person.lms_user_id),
                ("email", person.email.casefold()),
                *(("name", letters(name)) for name in names),
                ("words", _words(person)),
            ):
                if text:
                    self._by.setdefault((kind, text), set()).add(person.id)

    def find(self, person: Person) -> str | None:
        """The id of the only student whom this may mean; None if there is none, or several."""
        students, _ = self._meant(person)
        return students[0] if len(students) == 1 else None

    def why_not(self, person: Person) -> str:
        """Why this means no student, as a clause; only where `find` finds none."""
        return self._meant(person)[1]

    def namesakes(self, person: Person) -> list[str]:
        """The ids of those whom this may mean where they are several; else none."""
        students, _ = self._meant(person)
        return students if len(students) > 1 else []

    def _meant(self, person: Person) -> tuple[list[str], str]:
        """The ids of those whom this may mean, and why it does not mean one of them, "" where it does."""
        several: list[str] = []
        names = (f"{person.last_name} {person.first_name}", f"{person.first_name} {person.last_name}")
        email = person.email.casefold()
        given = [("lms", person.lms_user_id), ("id", person.id)]
        chosen = [("email", email), ("id", _local(person.email)), *(("name", letters(name)) for name in names)]
        # Last, a name in whatever order: the LMSs do not put "Jr." at the same place.
        for kind, text in (*given, *chosen, ("words", _words(person))):
            students = sorted(self._by.get((kind, text), ())) if text else []
            if len(students) != 1:
                several = several or students
                continue
            known = self._known[students[0]]
            # Attack: the name of somebody else, or what stands before the @ in their address, with a number in the LMS
            # or an address of one's own. A login is not of one's own choice, and needs no address that agrees.
            other_number = known.lms_user_id and person.lms_user_id not in ("", known.lms_user_id)
            other_email = known.email and email not in ("", known.email.casefold()) and known.id != person.id
            if other_number or other_email:
                other = "number in the LMS" if other_number else "e-mail address"
                return [], f"{known.id} goes by this name in the roster, with another {other}"
            return [known.id], ""
        if several:
            return several, f"{len(several)} students in the roster go by this name: {', '.join(several)}"
        return [], "nobody in the roster goes by this name"


def _words(person: Person) -> str:
    """The words of a name, in an order that does not depend on theirs; of a single one, none."""
    words = sorted(filter(None, map(letters, f"{person.first_name} {person.last_name}".split())))
    return " ".join(words) if len(words) > 1 else ""


def _local(email: str) -> str:
    """What stands before the @: "ann" of ann@uni.edu."""
    return email.partition("@")[0]
