"""nbgrader's exchange, for a machine that the class shares: what is taken in, and what is given back."""

import glob
import itertools
import os
import shutil
import stat
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.utils import notebook_hash

from autograder.pipeline import intake
from autograder.pipeline.files import replacing

SLOW = timedelta(hours=1)  # that may lie between the time that a submission says and that at which it was written
SECRET, MAX_SECRET = "submission_secret.txt", 1_000  # which nbgrader puts into a submission; bytes
NOT_COLLECTED = ("__pycache__", "feedback")  # folders, beside those that begin with a dot


class CollectOwn(ExchangeCollect):
    """nbgrader's, but for what it takes on trust from whoever may write into the exchange, which is everybody.

    Attacks: a submission in the name of somebody else, which nbgrader takes in the place of theirs, with a warning; a
    link to solutions/, which it follows with the instructor's rights, so that the student's code gets what is there.
    """

    def init_src(self) -> None:
        """Find the submissions to collect: of each student the latest that is the student's own."""
        super().init_src()
        self.src_records = [record for record in self.src_records if record["username"]]
        if sys.platform == "win32" or not self.check_owner:  # as where all users are one to the system
            return
        own: dict[str, list[dict[str, Any]]] = defaultdict(list)
        course: Any = self.coursedir
        for entry in sorted(os.scandir(self.inbound_path), key=lambda entry: entry.name):
            if entry.name.count("+") < 2:
                continue
            record: dict[str, Any] = self._path_to_record(entry.path)  # pyright: ignore[reportPrivateUsage]
            student, wanted = record["username"], course.student_id
            if not entry.name.startswith(f"{student}+{course.assignment_id}+") or wanted not in (
                "*",
                "",
                student,
            ):
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # its owner has taken it away
                continue
            if not stat.S_ISDIR(about.st_mode) or _user(about.st_uid) != student:
                self.log.error("%r is left out: it belongs to %r.", entry.name, _user(about.st_uid))
                continue
            written = datetime.fromtimestamp(about.st_ctime, UTC)
            if written - record["timestamp"].replace(tzinfo=UTC) > SLOW:
                self.log.error("%r says another time than that at which it was written, %s UTC.", entry.name, written)
            own[student].append(record)
        self.src_records = [self._latest(records) for records in own.values()]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Whose a folder is, and when it says that it was handed in; nobody's where it says what cannot be read.

        Attack: one such folder, which anybody can make, would end the collecting of all.
        """
        try:
            return super()._path_to_record(path)
        except Exception:  # nbgrader's own, and whatever dateutil raises
            self.log.error("%r is left out: its name does not say whose it is, and since when.", Path(path).name)
            return {"username": "", "filename": Path(path).name, "timestamp": datetime.min}

    def _latest(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """nbgrader's choice: the latest, or, if it is asked to look at the due date, the latest of those in time."""
        due: Any = self.duedate if self.before_duedate else None
        in_time = [record for record in records if due and record["timestamp"] <= due]
        return max(in_time or records, key=lambda record: record["timestamp"])

    def copy_files(self) -> None:
        """Collect what was found. nbgrader reads the times in submitted/, and one that is none would end it for all."""
        course: Any = self.coursedir
        records = self.src_records
        if not records:
            super().copy_files()  # which says so
        for record in records:
            there = Path(course.format_path(course.submitted_directory, record["username"], course.assignment_id))
            if os.path.lexists(there / intake.STAMP) and intake.handed_in_at(there)[0] is None:
                self._remove(there / intake.STAMP)
            try:
                self._copy_one(record)
            except OSError as problem:
                self.log.error("%r is left out: %s.", record["filename"], problem.strerror)

    def _copy_one(self, record: dict[str, Any]) -> None:
        """Collect a submission from its folder as it is opened now.

        Attack: to take it away, or to put somebody else's in its place, after it has been found.
        """
        self._opened = os.open(
            Path(self.inbound_path, record["filename"]), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        )
        try:
            owner = _user(os.fstat(self._opened).st_uid)
            if self.check_owner and owner != record["username"]:
                self.log.error("%r is left out: it belongs to %r now.", record["filename"], owner)
            else:
                self.src_records = [record]
                super().copy_files()
        finally:
            os.close(self._opened)

    def _remove(self, stamp: Path) -> None:
        self.log.error("%s says no time of handing in, and is left out.", stamp)
        if stamp.is_dir() and not stamp.is_symlink():
            shutil.rmtree(stamp)
        else:
            stamp.unlink()

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy the plain files of the opened submission that are its owner's, up to the bounds of what is graded."""
        owner, left, count, left_out = os.fstat(self._opened).st_uid, intake.MAX_SUM, 0, 0
        Path(dest).mkdir(parents=True)
        self._to_look_at, self._too_many = intake.MAX_LOOKED_AT, False
        for path, place in self._walk(self._opened, Path()):
            data = _read(path.name, place, owner, min(left, intake.MAX_FILE)) if count < intake.MAX_FILES else None
            if data is None:
                left_out += 1
                if left_out <= intake.MAX_REMARKS:
                    self.log.error("%r is left out: a link, not its owner's, or too much.", str(Path(src, path)))
                continue
            left, count = left - len(data), count + 1
            (Path(dest) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(dest) / path).write_bytes(data)
        if left_out > intake.MAX_REMARKS:
            self.log.error("%r: %s more files are left out.", src, left_out - intake.MAX_REMARKS)
        if self._too_many:
            self.log.error("%r has too many files: %s were looked at.", src, intake.MAX_LOOKED_AT)
        stamp, record = Path(dest, intake.STAMP), self._path_to_record(src)
        if intake.handed_in_at(Path(dest))[0] is None:
            if os.path.lexists(stamp):
                self._remove(stamp)
            # The folder's name says it, too.
            stamp.write_text(f"{record['timestamp'].isoformat(' ', 'microseconds')} UTC\n", encoding="utf-8")

    def _walk(self, place: int, within: Path) -> Iterator[tuple[Path, int]]:
        """The files in an opened folder and below, up to a number of entries, each with its own folder opened.

        It follows no link, even if one is put there meanwhile. Attack: millions of files, whose names alone would fill
        the memory.
        """
        with os.scandir(place) as listing:
            some = list(itertools.islice(listing, self._to_look_at + 1))
        self._too_many |= len(some) > self._to_look_at
        entries = sorted(some[: self._to_look_at], key=lambda entry: entry.name)
        self._to_look_at -= len(entries)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield within / entry.name, place
        for entry in entries if len(within.parts) < intake.MAX_DEPTH else ():
            name = entry.name
            if entry.is_dir(follow_symlinks=False) and not name.startswith(".") and name not in NOT_COLLECTED:
                try:
                    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
                except OSError:  # it may not be read, or was exchanged
                    continue
                try:
                    yield from self._walk(opened, within / name)
                finally:
                    os.close(opened)


class ReleaseOwn(ExchangeReleaseFeedback):
    """nbgrader's, but for the secret that names a page in the exchange, which is read from what was handed in.

    nbgrader copies it beside the page, with whatever else lies there, and one that cannot be read ends the release for
    all. A submission that did not come by the exchange has none: its page is handed back in another way.
    """

    def copy_files(self) -> None:
        """Put each page where its student's `nbgrader fetch_feedback` looks for it."""
        course: Any = self.coursedir
        excluded = {*course.student_id_exclude.split(",")}
        elsewhere = set[str]()  # who handed in by other ways
        for page in sorted(glob.glob(os.path.join(self.src_path, "*.html"))):
            student = Path(page).parents[1].name
            if student in excluded:
                continue
            folder = course.format_path(course.submitted_directory, student, course.assignment_id)
            if not os.path.lexists(Path(folder, SECRET)):
                elsewhere.add(student)
                continue
            secret = intake.read_plain(Path(folder, SECRET), MAX_SECRET)
            try:
                key = notebook_hash(secret=(secret or b"").decode(), notebook_id=Path(page).stem)
            except (AssertionError, UnicodeDecodeError):  # it is empty, or no text
                self.log.error("%s is not released: %r has no usable %s.", page, folder, SECRET)
                continue
            target = Path(self.dest_path, f"{key}.html")
            with replacing(target) as part:
                shutil.copy(page, part)
            self.log.info("Released the feedback for %r: %s", student, target)
        if elsewhere:
            who = ", ".join(repr(student) for student in sorted(elsewhere))
            self.log.info("Not handed in through the exchange: hand feedback/STUDENT/ back in another way to %s.", who)


def _user(number: int) -> str:
    import pwd  # not on Windows, where there is no exchange

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _read(name: str, place: int, owner: int, most: int) -> bytes | None:
    """What a file in the folder `place` holds, if it is plain, its owner's and no larger than `most`; else None."""
    try:
        descriptor = os.open(name, intake.PLAINLY, dir_fd=place)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != owner or about.st_size > most:
            return None
        data = file.read(most + 1)
    return data if len(data) <= most else None
