"""Takes in what students hand in: which of it is looked at, and how much. Nothing is read before its size is known.

A folder in submitted/ may hold anything: links to the gradebook, pipes, files that are holes of a terabyte, millions of
files, names that are patterns. nbgrader copies all of it, through links, and looks for patterns in time that grows with
the square of the number of files. So it gets to see a folder of ours, with empty notebooks and a checked date
(`TakenIn`), and what lies beside a notebook is copied by `copy_beside`, up to bounds.
"""

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
import sys
import weakref
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import dateutil.tz
from nbgrader.coursedir import CourseDirectory

from autograder.pipeline.course import STATE
from autograder.pipeline.integrity import Remark
from autograder.pipeline.texts import letters, printable

MAX_NAME, MAX_NAME_BYTES = 100, 200  # characters and bytes of a student's name, as a folder's
MAX_FILES = 1000  # beside a notebook, folders included
MAX_LOOKED_AT = 10_000  # entries, of which so many may be taken
MAX_PATH, MAX_DEPTH = 300, 10  # of a path within a submission: bytes, folders
MAX_FILE, MAX_SUM = 50_000_000, 100_000_000  # bytes, holes included
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)  # errors that are no submission's doing
MAX_REMARKS = 20  # about files that were left out
MAX_STAMP = 100  # bytes of timestamp.txt
STAMP = "timestamp.txt"
TIME = re.compile(  # a day, a time of day, and a zone: none, Z, an offset, or a name
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(|Z|[+-]\d\d:?\d\d|[A-Za-z][\w+-]*(?:/[\w+-]+)*)", re.ASCII
)
FOLDER = f"{STATE}/taken-in-{{}}"  # in the course folder, {} is the grader's process
# To open a file without waiting for whoever writes to it, and without following a link; not all are known everywhere.
PLAINLY = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
IGNORED = re.compile(r"\..*|.*\.pyc|__pycache__|feedback|.*\.ipynb", re.DOTALL)  # what nbgrader does not copy either


def unusable(student: str) -> str | None:
    """Why no submission can be graded that lies in a folder of this name, as a sentence; None if it can."""
    if student.startswith("."):
        return "The folder's name begins with a dot, and nbgrader looks into no such folder. Rename it."
    if not student.isprintable():
        return "The folder's name cannot be printed. Rename it."
    if student != student.strip():
        return "The folder's name begins or ends with a blank, which nbgrader leaves out. Rename it."
    if set(student) & set("*?["):
        return "nbgrader takes the folder's name for a pattern, because of *, ? or [. Rename it."
    if len(student) > MAX_NAME:
        return f"The folder's name has more than {MAX_NAME} characters. Rename it."
    if len(os.fsencode(student)) > MAX_NAME_BYTES:  # of a note's name it is a part, and 255 bytes is the most
        return f"The folder's name has more than {MAX_NAME_BYTES} bytes. Rename it."
    return None


def meant(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The files of a submission that are meant by the names of a lab's notebooks, those without one left out.

    It is the file of this name; else the only one whose name contains it, as "Multi-Head (1).ipynb" does "multi_head",
    and contains no longer name of these.

    Args:
        folder: submitted/STUDENT/LAB.
        names: of notebooks, without their ending.
    """
    names = list(names)
    chosen = {name: f"{name}.ipynb" for name in names if os.path.lexists(folder / f"{name}.ipynb")}
    if len(chosen) < len(names):
        candidates: dict[str, list[str]] = {}
        for file in _notebooks(folder):
            within = [name for name in names if letters(name) in letters(file)]
            if within and file not in chosen.values():
                candidates.setdefault(max(within, key=len), []).append(file)
        chosen |= {name: files[0] for name, files in candidates.items() if len(files) == 1 and name not in chosen}
    return chosen


def strangers(folder: Path) -> list[str]:
    """Names of the notebooks in a submission, three at most, each short enough for a list."""
    return [file if len(file) <= MAX_NAME else f"{file[:MAX_NAME]}…" for file in _notebooks(folder)[:3]]


def _notebooks(folder: Path) -> list[str]:
    if folder.is_symlink() or folder.parent.is_symlink():
        return []
    try:
        with os.scandir(folder) as listing:
            names = [entry.name for entry in itertools.islice(listing, MAX_LOOKED_AT)]
    except OSError:
        return []
    return sorted(name for name in names if name.lower().endswith(".ipynb") and not name.startswith("."))


def open_plain(path: Path) -> int | None:
    """A descriptor to read a regular file; None if it is anything else, a link, or may not be read.

    A file without the permission to be read gets it, if it is the grader's own.
    """
    if path.is_symlink():  # which Windows would follow below
        return None
    for attempt in range(2):
        try:
            descriptor = os.open(path, PLAINLY)
        except PermissionError:
            with contextlib.suppress(OSError):
                if not attempt and stat.S_ISREG(mode := path.lstat().st_mode):
                    path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
            continue
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        return None
    return None


def read_plain(path: Path, most: int) -> bytes | None:
    """What a regular file holds, if it is no more than `most` bytes; None otherwise."""
    descriptor = open_plain(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most:
            return None
        data = file.read(most + 1)
    return data if len(data) <= most else None


def moment(text: str) -> datetime:
    """The time (UTC) that a text says, such as "2026-11-30 23:59 Europe/Berlin" or "2026-11-30 22:59:00.5 UTC".

    nbgrader's own reading takes a zone that nobody knows for UTC, and +0100 for 100 seconds.

    Raises:
        ValueError: it says no time, or one in a zone that nobody knows.
    """
    parts = TIME.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no time")
    day, clock, zone = parts.groups()
    if zone in ("", "Z") or zone[0] in "+-":
        time = datetime.fromisoformat(f"{day} {clock}{zone or 'Z'}")
    else:
        named: tzinfo | None = dateutil.tz.gettz(zone)
        if named is None:
            raise ValueError(f"{zone!r} is no zone")
        time = datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=named)
    try:
        return time.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError(f"{text!r} is in no year that there is") from None


def handed_in_at(folder: Path) -> tuple[datetime | None, list[Remark]]:
    """When a submission says that it was handed in (UTC), and what is odd about that; None where it says no time."""
    path = folder / STAMP
    if not os.path.lexists(path):
        return None, []
    data = read_plain(path, MAX_STAMP)
    if data is None:
        return None, [Remark(STAMP, f"is no file, or has more than {MAX_STAMP} bytes: no time of handing in is known")]
    text = data.decode("utf-8", "replace").strip()
    try:
        time = moment(text)
        age = datetime.now(UTC).replace(tzinfo=None) - time
    except ValueError:
        return None, [Remark(STAMP, f"holds no time: {text!r}. No time of handing in is known")]
    if age < -timedelta(days=1):
        return time, [Remark(STAMP, f"says {text!r}, which is still to come")]
    if age > timedelta(days=3 * 365):
        return time, [Remark(STAMP, f"says {text!r}, which is long ago")]
    return time, []


class TakenIn(CourseDirectory):
    """A course of which nbgrader sees each submission as empty notebooks and a checked date.

    Args:
        course: the course.
    """

    def __init__(self, course: CourseDirectory, **more: Any) -> None:
        super().__init__(parent=course.parent, **more)
        for name in course.class_trait_names(config=True):
            setattr(self, name, getattr(course, name))
        self.submitted = course
        self.files: dict[tuple[str, str], dict[str, str]] = {}  # of a lab and a student: what is meant by each notebook
        for old in Path(self.root).glob(FOLDER.format("*")):  # of a grader that was killed
            if old.name.rpartition("-")[2] == str(os.getpid()) or not _runs(old.name.rpartition("-")[2]):
                shutil.rmtree(old, ignore_errors=True)
        self.submitted_directory = FOLDER.format(os.getpid())
        self.close = weakref.finalize(self, shutil.rmtree, Path(self.root, self.submitted_directory), True)

    def add(self, assignment: str, student: str, notebooks: dict[str, str]) -> tuple[str, list[str]]:
        """Have nbgrader see a submission; the path of its folder, and those of its notebooks.

        Args:
            assignment: the lab.
            student: whose.
            notebooks: as of `meant`.
        """
        self.files[assignment, student] = notebooks
        folder = self.format_path(self.submitted_directory, student, assignment)  # as it is: nbgrader compares the text
        Path(folder).mkdir(parents=True)
        time, _ = handed_in_at(self.folder(assignment, student))
        if time is not None:
            Path(folder, STAMP).write_text(f"{time.isoformat(' ')} UTC", encoding="utf-8")
        paths = [os.path.join(folder, f"{name}.ipynb") for name in notebooks]
        for path in paths:
            Path(path).touch()
        return folder, paths

    def folder(self, assignment: str, student: str) -> Path:
        """Where a submission really lies."""
        return Path(self.submitted.format_path(self.submitted.submitted_directory, student, assignment))


def _runs(process: str) -> bool:
    if sys.platform == "win32":  # where asking would interrupt it
        return True
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True


def copy_beside(source: Path, target: Path) -> list[Remark]:
    """Copy what lies beside a submission's notebooks, up to bounds; what is there already stays as it is.

    Args:
        source: the submission's folder.
        target: where it is graded.

    Returns:
        what was left out or renamed, for the instructor.
    """
    remarks: list[Remark] = []
    left, count = MAX_SUM, 0
    for path, within, mode in entries(source, remarks):
        if len(within) > MAX_PATH or within.count(b"/") >= MAX_DEPTH:
            _left_out(remarks, within, "lies too deep, or has too long a name, and was left out")
            continue
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            kind = "link" if stat.S_ISLNK(mode) else "pipe, socket or device"
            _left_out(remarks, within, f"is a {kind}, no file, and was left out")
            continue
        to = target / printable(within)
        if count + 1 + _missing(to, target) > MAX_FILES:
            _left_out(remarks, within, f"was left out: too many files, more than {MAX_FILES}")
            continue
        descriptor = open_plain(path)
        if descriptor is None:
            _left_out(remarks, within, "cannot be read, and was left out")
            continue
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if size > min(left, MAX_FILE):
                what = f"is too large and was left out: {MAX_FILE // 10**6} MB for one, {MAX_SUM // 10**6} MB for all"
                _left_out(remarks, within, what)
                continue
            if os.path.lexists(to) and to.name == os.fsdecode(os.path.basename(within)):
                continue  # the instructor's, or of another notebook's turn
            try:
                missing = _missing(to, target)
                to.parent.mkdir(parents=True, exist_ok=True)
                with to.open("wb") as copy:
                    copy.write(file.read(size))
            except OSError as problem:
                if problem.errno in OF_THE_DISK:
                    raise
                _left_out(remarks, within, "cannot be copied, and was left out")  # where a folder is to be, is a file
                continue
            count, left = count + 1 + missing, left - size
        if to.name != os.fsdecode(os.path.basename(within)):
            _left_out(remarks, within, f"was renamed to {to.name!r}: its name cannot be printed")
    return remarks


def entries(source: Path, remarks: list[Remark]) -> Iterator[tuple[Path, bytes, int]]:
    """What lies in a folder and below, in a fixed order, up to a number: path, path within it, mode."""
    looked_at = 0
    waiting = [(source, b"")]
    while waiting:
        folder, prefix = waiting.pop()
        entries = []
        with contextlib.suppress(OSError):
            if stat.S_IMODE(mode := folder.lstat().st_mode) & stat.S_IRWXU != stat.S_IRWXU:
                folder.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    if (looked_at := looked_at + 1) > MAX_LOOKED_AT:
                        break
                    if not IGNORED.fullmatch(entry.name) and (folder != source or entry.name != STAMP):
                        entries.append((os.fsencode(entry.name), entry.stat(follow_symlinks=False).st_mode))
        except OSError:
            _left_out(remarks, prefix, "cannot be read, and was left out")
        for name, mode in sorted(entries):
            path = folder / os.fsdecode(name)
            yield path, prefix + name, mode
            if stat.S_ISDIR(mode) and prefix.count(b"/") < MAX_DEPTH:
                waiting.append((path, prefix + name + b"/"))
        if looked_at > MAX_LOOKED_AT:
            remarks.append(Remark("files beside the notebook", f"are too many: {MAX_LOOKED_AT} were looked at"))
            return


def _missing(path: Path, root: Path) -> int:
    """How many of the folders on the way to a file are still to be made."""
    return sum(not folder.exists() for folder in path.parents if folder != root and folder.is_relative_to(root))


def _left_out(remarks: list[Remark], within: bytes, what: str) -> None:
    if len(remarks) < MAX_REMARKS:
        remarks.append(Remark(printable(within), what))
    elif len(remarks) == MAX_REMARKS:
        remarks.append(Remark("further files", "were left out or renamed"))
