"""What goes to a worker and comes back, as bytes: a submission, its lab, what the gradebook knows of both; the result.

A worker has neither the course's folders nor its gradebook. It gets a submission as it lies in submitted/, up to the
bounds of `intake` (of what is larger, the size alone; of a link, that it is one), and the rows of the gradebook that
concern it.
"""

import json
import os
import stat
import struct
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Base
from sqlalchemy import ColumnElement, Connection, DateTime, Interval, Select, Table, select

from autograder.pipeline import intake
from autograder.pipeline import submission as reading

LINK, OTHER, FOLDER, FILE = "link", "other", "folder", "file"  # what an entry of a submission is
Entry = tuple[str, str, int, int]  # path within, kind, size, place among the contents or -1
Rows = dict[str, list[dict[str, Any]]]  # of the gradebook, by table
Part = tuple[str, str, str]  # of a submission: table, notebook and cell that a row of it is about; the latter may be ""


def pack(about: dict[str, Any], contents: Iterable[bytes] = ()) -> bytes:
    """A record and the contents of files in one piece."""
    contents = list(contents)
    head = json.dumps({"about": about, "sizes": [len(content) for content in contents]}).encode()
    return b"".join([struct.pack("!Q", len(head)), head, *contents])


def unpack(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """What `pack` was given."""
    end = 8 + struct.unpack("!Q", data[:8])[0]
    head = json.loads(data[8:end])
    contents = []
    for size in head["sizes"]:
        contents.append(data[end : end + size])
        end += size
    return head["about"], contents


# --- A submission ---------------------------------------------------------------------------------------------------


def snapshot(folder: Path, notebooks: list[str]) -> bytes:
    """A submission as the grader would look at it: its notebooks, the time of handing in, what lies beside.

    Args:
        folder: submitted/STUDENT/LAB.
        notebooks: the names that the lab's notebooks have.
    """
    linked = next((name for name, place in (("student", folder.parent), ("lab", folder)) if place.is_symlink()), "")
    entries: list[Entry] = []
    contents: list[bytes] = []
    left, count = intake.MAX_SUM, 0

    def add(path: Path, within: str, mode: int, most: int) -> int:
        kind = FILE if stat.S_ISREG(mode) else FOLDER if stat.S_ISDIR(mode) else LINK if stat.S_ISLNK(mode) else OTHER
        data = None if kind != FILE or linked else intake.read_plain(path, most)
        size = 0 if kind != FILE or linked else path.lstat().st_size if data is None else len(data)
        entries.append((within, kind, min(size, intake.MAX_FILE + 1), -1 if data is None else len(contents)))
        if data is not None:
            contents.append(data)
        return 0 if data is None else len(data)

    if os.path.lexists(stamp := folder / intake.STAMP):
        add(stamp, intake.STAMP, stamp.lstat().st_mode, intake.MAX_STAMP)
    files = intake.meant(folder, notebooks)
    for name in (notebook for notebook in notebooks if notebook in files):
        add(path := folder / files[name], f"{name}.ipynb", path.lstat().st_mode, reading.MAX_FILE)
    if not linked:
        for path, within, mode in intake.entries(folder, []):
            wanted = count < intake.MAX_FILES
            size = add(path, os.fsdecode(within), mode, min(left, intake.MAX_FILE) if wanted else -1)
            left, count = left - size, count + stat.S_ISREG(mode)
    return pack({"linked": linked, "entries": entries}, contents)


def without_time(data: bytes) -> bytes:
    """What `snapshot` gave, without the time of handing in."""
    about, contents = unpack(data)
    kept = [
        (*entry, contents[place] if place >= 0 else b"")
        for *entry, place in about["entries"]
        if entry[0] != intake.STAMP
    ]
    return pack(about | {"entries": [entry for *entry, _ in kept]}, [content for *_, content in kept])


def lay_out(data: bytes, student: Path, lab: str) -> None:
    """Make a submission's folder again: `student`/`lab`, of which the former must not be there."""
    about, contents = unpack(data)
    real = {"": student, "student": student.with_name(f".{student.name}"), "lab": student}[about["linked"]]
    folder = real / (lab if about["linked"] != "lab" else f".{lab}")
    folder.mkdir(parents=True)
    if about["linked"] == "student":
        student.symlink_to(real.name)
    elif about["linked"] == "lab":
        (student / lab).symlink_to(folder.name)
    for within, kind, size, place in about["entries"]:
        path = folder / within
        if kind == FOLDER:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == LINK:
            path.symlink_to("nowhere")
        elif kind == OTHER:
            os.mkfifo(path)
        elif place >= 0:
            path.write_bytes(contents[place])
        else:
            with path.open("wb") as file:
                file.truncate(size)


# --- Rows of the gradebook ------------------------------------------------------------------------------------------


def rows_of_lab(connection: Connection, lab: str, released: Path) -> Rows:
    """What the gradebook knows of a lab: the assignment, its notebooks and their cells.

    Args:
        connection: to the gradebook.
        lab: which it knows.
        released: the lab's folder in labs/. Rows have no order of their own; cells get that of the notebooks there.
    """
    tables = Base.metadata.tables
    rows: Rows = {}

    def take(name: str, of: str, among: Iterable[Any]) -> list[dict[str, Any]]:
        table = tables[name]
        rows[name] = _plain(connection, select(table).where(table.c[of].in_(list(among))), table)
        return rows[name]

    (assignment,) = take("assignment", "name", [lab])
    take("course", "id", [assignment["course_id"]])
    notebooks = {row["id"]: row["name"] for row in take("notebook", "assignment_id", [assignment["id"]])}
    cells = {row["id"] for row in take("base_cell", "notebook_id", notebooks)}
    for kind in ("grade_cells", "solution_cells", "task_cells"):
        take(kind, "id", cells)
    order = {key: _order(released / f"{name}.ipynb") for key, name in notebooks.items()}
    take("source_cell", "notebook_id", notebooks).sort(
        key=lambda row: order[row["notebook_id"]].get(row["name"], len(order[row["notebook_id"]]))
    )
    return rows


def rows_of_submission(connection: Connection, lab: str, student: str) -> Rows:
    """What the gradebook knows of a student's submission of a lab: scores and comments, those by hand included."""
    tables = Base.metadata.tables
    rows: Rows = {}

    def take(name: str, *conditions: ColumnElement[bool]) -> list[str]:
        rows[name] = _plain(connection, select(tables[name]).where(*conditions), tables[name])
        return [row["id"] for row in rows[name]]

    def take_of(name: str, of: str, keys: list[str]) -> list[str]:
        if keys:  # mostly there are none yet, and to ask would take as long
            return take(name, tables[name].c[of].in_(keys))
        rows[name] = []
        return []

    of_lab = select(tables["assignment"].c.id).where(tables["assignment"].c.name == lab)
    about = tables["submitted_assignment"].c
    take("student", tables["student"].c.id == student)
    submissions = take("submitted_assignment", about.assignment_id.in_(of_lab), about.student_id == student)
    notebooks = take_of("submitted_notebook", "assignment_id", submissions)
    for name in ("grade", "comment"):
        take_of(name, "notebook_id", notebooks)
    return rows


def parts_of_lab(connection: Connection, lab: str) -> set[Part]:
    """What rows a submission of a lab has, beside that of the submission itself."""
    assignment, notebook, cell = (Base.metadata.tables[name].c for name in ("assignment", "notebook", "base_cell"))
    of_lab = select(notebook.id).where(notebook.assignment_id.in_(select(assignment.id).where(assignment.name == lab)))
    parts = {("submitted_notebook", key, "") for key in connection.execute(of_lab).scalars()}
    cells = select(cell.type, cell.notebook_id, cell.id).where(cell.notebook_id.in_(of_lab))
    tables = {"GradeCell": ("grade",), "SolutionCell": ("comment",), "TaskCell": ("grade", "comment")}
    return parts | {(name, of, key) for kind, of, key in connection.execute(cells) for name in tables.get(kind, ())}


def notebooks_of(connection: Connection, lab: str) -> list[str]:
    """The names of a lab's notebooks; none where the gradebook does not know the lab."""
    assignment, notebook = (Base.metadata.tables[name].c for name in ("assignment", "notebook"))
    of_lab = select(assignment.id).where(assignment.name == lab)
    return sorted(connection.execute(select(notebook.name).where(notebook.assignment_id.in_(of_lab))).scalars())


def students_of(connection: Connection, lab: str) -> set[str]:
    """The students of whom the gradebook has a submission of a lab."""
    assignment, submission = (Base.metadata.tables[name].c for name in ("assignment", "submitted_assignment"))
    of_lab = select(assignment.id).where(assignment.name == lab)
    return set(connection.execute(select(submission.student_id).where(submission.assignment_id.in_(of_lab))).scalars())


def put_rows(connection: Connection, rows: Rows) -> None:
    """Write rows into a gradebook that has none of them."""
    for table in Base.metadata.sorted_tables:
        if given := rows.get(table.name):
            connection.execute(table.insert(), [_typed(row, table) for row in given])


def set_row(connection: Connection, table: Table, key: str, **values: Any) -> None:
    """Change a row of the gradebook."""
    connection.execute(table.update().where(table.c.id == key).values(_typed(values, table)))


def _plain(connection: Connection, wanted: Select[Any], table: Table) -> list[dict[str, Any]]:
    """Rows as JSON has them: moments as text, spans of time as seconds."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        return value.total_seconds() if isinstance(value, timedelta) else value

    names = [column.name for column in table.columns]
    return [{name: plain(value) for name, value in zip(names, row, strict=True)} for row in connection.execute(wanted)]


def _typed(row: dict[str, Any], table: Table) -> dict[str, Any]:
    def typed(name: str, value: Any) -> Any:
        if value is not None and isinstance(table.c[name].type, Interval):
            return timedelta(seconds=value)
        return datetime.fromisoformat(value) if value and isinstance(table.c[name].type, DateTime) else value

    return {name: typed(name, value) for name, value in row.items()}


def _order(notebook: Path) -> dict[str, int]:
    """The place of each cell of a released notebook, by its grade_id; nothing where it is not there."""
    if not notebook.is_file():
        return {}
    cells = nbformat.read(notebook, as_version=4).cells
    return {cell.metadata.get("nbgrader", {}).get("grade_id", ""): place for place, cell in enumerate(cells)}
