"""Takes in what Canvas and Moodle export of submissions.

Names and files in such an export are students' own. Nothing is unpacked: members that belong to somebody in the
roster are read up to bounds, and written under names that were looked at.
"""

import errno
import functools
import lzma
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from autograder.pipeline import intake, labs
from autograder.pipeline.course import Failed, gradebook, state
from autograder.pipeline.people import Class, Person
from autograder.pipeline.standing import handed_in
from autograder.pipeline.texts import how_many, letters, printable

MAX_MEMBERS = 200_000  # of an export
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM}  # not of a file's name
MAX_PART = 255  # bytes of a file's or a folder's name that file systems take
SHOWN = 300  # characters of a name in a list
NEW, REPLACED, THERE, LEFT_OUT = "new", "replaced", "there", "left out"  # what becomes of what somebody handed in
# What stands between a student's name and a file's, both of which are the student's own. In Moodle, the name is that of
# a folder, or begins the file's; in Canvas, files lie in no folders, and it made those of a text and of a link itself.
MOODLE = re.compile(r"_(?P<number>\d{1,18})_assignsubmission_[a-z]+(?:_?/|_)")
CANVAS = re.compile(
    r"(?<!_LATE)_(?P<late>LATE_)?(?P<user>\d{1,18})_(?:(?P<number>\d{1,18})_|(?=(?:text|link)\.html\Z))"
)
ATTEMPT = re.compile(r"-(\d+)(?=\.\w+$)")  # as Canvas numbers what is handed in once more: multi_head-1.ipynb


@dataclass(frozen=True)
class Member:
    """A file of an export.

    Args:
        path: within it, with /.
        size: bytes, as it says itself.
        time: when it was written (UTC), as far as it says so.
        read: its content, if that is no more than so many bytes; None otherwise.
    """

    path: str
    size: int
    time: datetime | None
    read: Callable[[int], bytes | None]


@dataclass(frozen=True)
class Piece:
    """A file that belongs to somebody: what it is to be called, which of two is later, and whose."""

    member: Member
    name: str
    time: datetime | None
    order: tuple[int, int]
    late: bool
    user: str  # the LMS's own number of whoever handed it in, "" where it says none
    called: str  # the name that its student gave it, where another is wanted; else ""
    group: str  # what stood before the name and was taken for a group's
    before: str  # what stands in the export before the name of the student's own file


@contextmanager
def members(source: Path) -> Generator[Iterator[Member]]:
    """The files of a zip, or of the folder that it gives; they can be read until the block ends.

    Raises:
        Failed: it is neither, or has too many.
    """
    if source.is_dir():
        yield _of_folder(source)
        return
    try:
        archive = zipfile.ZipFile(source)
    except (*DAMAGED, OSError, ValueError, RuntimeError, EOFError) as problem:
        raise Failed(f"{source} is no folder, and no zip that can be read: {problem}.") from None
    with archive:
        yield _of_zip(archive)


def _of_folder(source: Path) -> Iterator[Member]:
    walk = ((Path(folder), file) for folder, _, files in os.walk(source) for file in sorted(files))
    for count, (folder, file) in enumerate(walk):
        if count >= MAX_MEMBERS:
            raise Failed(f"{source} has more than {MAX_MEMBERS} files.")
        path = folder / file
        about = path.lstat()
        if stat.S_ISREG(about.st_mode):
            time = datetime.fromtimestamp(about.st_mtime, UTC).replace(tzinfo=None)
            read = functools.partial(intake.read_plain, path)
            yield Member(path.relative_to(source).as_posix(), about.st_size, time, read)


def _of_zip(archive: zipfile.ZipFile) -> Iterator[Member]:
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise Failed(f"{archive.filename} has more than {MAX_MEMBERS} files.")
    for entry in entries:
        if not entry.is_dir() and stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG):
            yield Member(_name(entry), entry.file_size, _time(entry), functools.partial(_content, archive, entry))


def _name(entry: zipfile.ZipInfo) -> str:
    """The name of a member; zips that do not say so mostly write UTF-8 all the same."""
    if entry.flag_bits & 0x800:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return entry.filename


def _time(entry: zipfile.ZipInfo) -> datetime | None:
    """When a member was written (UTC): a zip has this machine's time, and 1980 where it does not know."""
    try:
        return datetime(*entry.date_time).astimezone(UTC).replace(tzinfo=None) if entry.date_time[0] > 1980 else None
    except (ValueError, OverflowError, OSError):
        return None


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes | None:
    """What a member holds, if it is no more than `most` bytes, whatever it says of its size; None otherwise."""
    if entry.file_size > most:
        return None
    try:
        with archive.open(entry) as file:
            data = file.read(most + 1)
    except (*DAMAGED, OSError, ValueError, RuntimeError, EOFError):  # a RuntimeError is a password
        return None
    return data if len(data) <= most else None


@contextmanager
def handed_in_by(
    course: Path, lab: str, source: Path
) -> Generator[tuple[Class, dict[str, list[Piece]], dict[str, None]]]:
    """The files of an export, which can be read until the block ends.

    Returns:
        the roster; its students' files; what was left out, and why, in order and each once.

    Raises:
        Failed: there is no such lab, no roster, or nothing that can be read.
    """
    labs.chosen(course, [lab])
    wanted = sorted(path.stem for path in (course / "solutions" / lab).glob("*.ipynb"))
    pieces: dict[str, list[Piece]] = defaultdict(list)
    left_out: dict[str, None] = {}
    with gradebook(course) as book:
        roster = Class(book)
    if not roster.everybody:
        raise Failed("The gradebook knows no students: python -m autograder roster FILE puts them in.")
    with members(source) as files:
        listed = list(files)
        form = _form([member.path for member in listed], source)
        groups = _groups([member.path for member in listed], roster) if form is MOODLE else Counter()
        for member in listed:
            whose, piece = _piece(member, form, roster, wanted, groups)
            if piece is None:
                left_out[whose] = None
            else:
                pieces[whose].append(piece)
        if not pieces:
            raise Failed(f"{source} holds no submission of anybody in the roster. {'; '.join(list(left_out)[:3])}")
        for student in sorted(pieces):
            # Attack: a name of one's own choice in the LMS, under which one's file would be taken for somebody else's.
            if (users := len({piece.user for piece in pieces[student]})) > 1:
                why = f"{users} users of the LMS go by this name, and it does not say which is meant"
                left_out[f"{student}: {why}"] = None
                del pieces[student]
        yield roster, pieces, left_out


def collect(course: Path, lab: str, source: Path, say: Callable[[str], None]) -> list[str]:
    """Put an export of a lab's submissions into submitted/.

    Canvas's and Moodle's exports are known, and folders STUDENT/FILE. Of two files for one notebook the later counts;
    so does what lies in submitted/, if it has a later time of handing in.

    Args:
        course: the course folder.
        lab: whose submissions.
        source: a zip or a folder.
        say: called with a line for what is to be known.

    Returns:
        what was left out, and why.

    Raises:
        Failed: there is no such lab, no roster, or nothing that can be read.
    """
    with handed_in_by(course, lab, source) as (roster, pieces, left_out):
        became: dict[str, list[str]] = defaultdict(list)  # whose hand-ins are NEW, REPLACED, THERE
        for student in sorted(pieces):
            what, why = _put(course, lab, student, pieces[student], source)
            became[what].append(student)
            if what == LEFT_OUT:
                left_out[f"{student}: {why}"] = None
            elif why:
                say(f"{student}: {why}.")
    taken = sorted(who for what in (NEW, REPLACED) for who in became[what])
    # Attack: a name of one's own choice that ends as somebody else's.
    for student, group in sorted(
        {(who, piece.group) for who, of_student in pieces.items() for piece in of_student if piece.group}
    ):
        say(f"{student}: what stands before the name, {_shown(group)!r}, is taken for a group.")
    for student in taken:
        for line in _renamed(pieces[student]):
            say(f"{student}: {line}.")
    not_gradable = handed_in(course, lab)
    for student in taken:
        if why := not_gradable[student]:
            say(f"{student}: {why}")
    there = sorted(person.id for person in roster.everybody if person.id in not_gradable)
    say(
        f"{lab}: {how_many(len(taken), 'submission')} taken, {len(became[THERE])} there already. submitted/ has those "
        f"of {len(there)} of {how_many(len(roster.everybody), 'student')} in the roster."
    )
    if became[REPLACED]:
        say(f"Replaced in submitted/, which held other files: {', '.join(became[REPLACED])}.")
    late_ones = sorted(
        who
        for who in (*taken, *became[THERE])
        if any(piece.late for piece in pieces[who])
        and not os.path.lexists(course / "submitted" / who / lab / intake.STAMP)
    )
    if late_ones:
        say(
            f"Canvas says LATE, but not when: {', '.join(late_ones)}. submitted/STUDENT/{lab}/timestamp.txt can say it."
        )
    if left_out:
        say(f"What is left out can be put into submitted/STUDENT/{lab} by hand.")
    return list(left_out)


def in_order(pieces: list[Piece]) -> list[Piece]:
    """The files of a student, of two for one name the later one last."""
    return sorted(pieces, key=lambda piece: (piece.time or datetime.min, *piece.order))


def _renamed(pieces: list[Piece]) -> list[str]:
    """Which file was taken for which name, as clauses, where it is another's or there were others."""
    of_name: dict[str, list[str]] = defaultdict(list)
    for piece in in_order(pieces):
        of_name[piece.name].append(piece.called or piece.name)
    lines: list[str] = []
    for name, (*others, called) in sorted(of_name.items()):
        others = sorted({other for other in others if other != called})
        but = f", and not {', '.join(repr(_shown(other)) for other in others)}" if others else ""
        if called != name:
            lines.append(f"{_shown(called)!r} is taken for {name}{but}")
        elif others:
            lines.append(f"{name} is taken{but}")
    return lines


def _form(paths: list[str], source: Path) -> re.Pattern[str] | None:
    """CANVAS or MOODLE, as most of an export's files are called; None if most lie in folders STUDENT/FILE.

    All files of an export are called as its LMS calls them, whatever students call themselves and their files: with
    that they can have theirs called as another LMS would as well, but not instead, and not those of the others.

    Raises:
        Failed: as many are called as one calls them as another does.
    """
    votes = Counter[re.Pattern[str] | None]()
    for path in paths:
        if not path.startswith((".", "__MACOSX/")):
            fitting: list[re.Pattern[str] | None] = [form for form in (CANVAS, MOODLE) if _splits(form, path)]
            votes.update(fitting or [None] * ("/" in path))
    (first, most), (_, second) = [*votes.most_common(2), (None, 0), (None, 0)][:2]
    if most and most == second:
        raise Failed(f"{source}: the names in it do not say whether Canvas or Moodle made it, or neither.")
    return first


def _splits(form: re.Pattern[str], path: str) -> list[re.Match[str]]:
    """What may be meant to stand between a student's name and a file's: once, unless one of them has it in it."""
    top, slash, _ = path.partition("/")
    if slash and form is CANVAS:
        return []
    return [split for at in range(1, len(top)) if path[at] == "_" and (split := form.match(path, at))]


def _groups(paths: list[str], roster: Class) -> Counter[str]:
    """What stands before how many students' names as a group's; nothing where most names stand alone.

    Moodle puts a group before every name, or before none: "Group 1-Ann Ek". Attack: a name of one's own choice that
    ends as somebody else's.
    """
    alone, grouped = set[str](), dict[str, str]()
    for path in paths:
        if len(splits := _splits(MOODLE, path)) == 1:
            name, number = path[: splits[0].start()], splits[0]["number"]
            if roster.find(Person("", name)):
                alone.add(number)
            elif (in_group := _grouped(name, roster))[1]:
                grouped[number] = in_group[0]
    return Counter(grouped.values() if len(grouped) > len(alone) else ())


def _grouped(text: str, roster: Class) -> tuple[str, str | None]:
    """What stands before the longest end of a text that is the name of somebody in the roster, and whose it is."""
    for n, character in enumerate(text):
        if character == "-" and (student := roster.find(Person("", text[n + 1 :]))):
            return text[:n], student
    return "", None


def _piece(
    member: Member, form: re.Pattern[str] | None, roster: Class, wanted: list[str], groups: Counter[str]
) -> tuple[str, Piece | None]:
    """Whose a file is, and what it is; or what to say of one that is left out."""
    shown = _shown(member.path)
    owner, slash, name = member.path.partition("/")
    before = owner + slash
    about: dict[str, str] = {}
    group, where = "", ""
    if form is None:
        named = Person(owner)
        student = roster.find(named)
    else:
        splits = _splits(form, member.path)
        if not splits:
            return f"{_shown(owner)}: not called as the other files of this export are", None
        if len(splits) > 1:
            # Attack: a name of one's own, or a file's, with somebody else's in it. Canvas's numbers can tell; whose is
            # not in the roster may be its sender's all the same, and only the first is not of the sender's choice.
            users = [roster.find(Person("", lms_user_id=split.groupdict("").get("user", ""))) for split in splits]
            splits = splits[:1]
            if users[0] is None or any(users[1:]):
                return f"{shown}: nothing says where the student's name ends and the file's begins", None
        before, name = member.path[: splits[0].end()], member.path[splits[0].end() :]
        owner = before[: splits[0].start()]
        about = splits[0].groupdict("")
        named = Person("", owner, lms_user_id=about.get("user", ""))
        student = roster.find(named)
        # Up to the LMS's number of whoever it is, which is the same for all files of one hand-in.
        where = f" ({_shown(member.path[: splits[0].end('user' if form is CANVAS else 'number')])}_…)"
        if student is None and groups:
            group, student = _grouped(owner, roster)
            # "Group 1-x-Ann Ek" may be a name in Group 1, unless there are others in Group 1-x.
            other = next((name for name in groups if group.startswith(f"{name}-")), None)
            if student and groups[group] < 2 and other is not None:
                return (
                    f"{_shown(owner)}: two may be meant by this name: {student} in the "
                    f"group {_shown(group)!r}, in which is nobody else, or another one in the group {_shown(other)!r}",
                    None,
                )
    if student is None:
        return f"{_shown(owner)}: {roster.why_not(named)}{where}", None
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not _usable(parts, name):
        return f"{shown}: no file can be called so", None
    attempt, called = ATTEMPT.search(name), ""
    if name.lower().endswith(".ipynb") and len(parts) == 1:
        within = [notebook for notebook in wanted if letters(notebook) in letters(name)]
        own = ATTEMPT.sub("", name) if form is CANVAS else name
        name = f"{max(within, key=len)}.ipynb" if within else name
        called = own if own != name else ""
    where = PurePosixPath(*PurePosixPath(name.replace("\\", "/")).parts).as_posix()
    stamp, *below = PurePosixPath(where.casefold()).parts
    if stamp == intake.STAMP and (form or below):  # Attack: to say oneself when one handed in, or that nobody can
        return f"{shown}: a student's own file does not say when something was handed in", None
    # Canvas writes a zip as it is asked for, and files are copied: only Moodle's times are those of handing in.
    time = member.time if form is MOODLE else None
    order = int(about.get("number") or 0), int(attempt[1]) if attempt else 0
    user = about.get("user") or about.get("number", "")
    return student, Piece(member, where, time, order, bool(about.get("late")), user, called, group, before)


def _shown(text: str) -> str:
    return printable(text)[:SHOWN]


def _usable(parts: tuple[str, ...], name: str) -> bool:
    """Whether a path lies within its folder, on every system, and is one that the grader would look at."""
    if not parts or len(parts) > intake.MAX_DEPTH or len(os.fsencode(name)) > intake.MAX_PATH or not name.isprintable():
        return False
    if any(len(os.fsencode(part)) > MAX_PART for part in parts):
        return False
    return not any(part.startswith(".") or part.endswith((".", " ")) or set(part) & set(':/\\*?"<>|') for part in parts)


def _put(course: Path, lab: str, student: str, pieces: list[Piece], source: Path) -> tuple[str, str]:
    """Have submitted/STUDENT/LAB hold these files and nothing else, unless what it holds is the same or counts more.

    What lies there may have been put there by hand: it counts if it was handed in later, or has a time of handing in
    where these files have none.

    Returns:
        NEW or REPLACED; THERE, and what is to be known of its time, as a clause; LEFT_OUT, and why, as a clause.
    """
    target = course / "submitted" / student / lab
    if (link := next((folder for folder in (target.parent, target) if folder.is_symlink()), None)) is not None:
        return LEFT_OUT, f"{link.relative_to(course)} is a link"
    if len(pieces) > intake.MAX_FILES:
        return LEFT_OUT, f"more than {intake.MAX_FILES} files"
    with tempfile.TemporaryDirectory(prefix="collect-", dir=state(course)) as folder:
        fresh = Path(folder) / lab
        fresh.mkdir()
        if why := _write(fresh, pieces, source):
            return LEFT_OUT, why
        (when, _), (before, _) = intake.handed_in_at(fresh), intake.handed_in_at(target)
        stamped = os.path.lexists(target / intake.STAMP)
        if _same(fresh, target):
            if when and not stamped:
                (fresh / intake.STAMP).rename(target / intake.STAMP)
                return THERE, f"the same files are in submitted/, and get the time {when} UTC"
            if when and when != before:
                return THERE, f"the same files are in submitted/; their {intake.STAMP} stays, not {when} UTC"
            return THERE, ""
        wanted = {Path(path.name) for path in (course / "solutions" / lab).glob("*.ipynb")}
        mended = not wanted & _files(fresh) and bool(wanted & _files(target))  # by hand, to have it graded
        if mended and _contents(fresh) == _contents(target):
            return THERE, f"the same files are in submitted/{student}/{lab}, under other names, and stay as they are"
        if before and when and before >= when:
            how = "later" if before > when else "at the same time"
            return LEFT_OUT, f"what lies in submitted/ differs, and was handed in {how}, at {before} UTC"
        if stamped and when is None:
            return LEFT_OUT, (
                f"the export does not say when this was handed in, and submitted/ has other files with a "
                f"{intake.STAMP}, which stay; to have the export's, delete submitted/{student}/{lab} and collect again"
            )
        replaced = REPLACED if target.exists() else NEW
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    return replaced, ""


def _same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files, but for the time of handing in and what graders do not look at."""
    files = _files(one)
    return files == _files(other) and all(_plain(one / name) == _plain(other / name) for name in files)


def _contents(folder: Path) -> Counter[bytes | None]:
    """What a folder holds, whatever its files are called."""
    return Counter(_plain(folder / name) for name in _files(folder))


def _files(folder: Path) -> set[Path]:
    paths = {path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {path for path in paths if not any(part.startswith(".") for part in path.parts)} - {Path(intake.STAMP)}


def _plain(path: Path) -> bytes | None:
    return intake.read_plain(path, intake.MAX_FILE)


def _write(folder: Path, pieces: list[Piece], source: Path) -> str:
    """Write files into a new folder, and the time of handing in if they have one; why not, as a clause, or ""."""
    left = intake.MAX_SUM
    for piece in {piece.name: piece for piece in in_order(pieces)}.values():
        data = piece.member.read(min(left, intake.MAX_FILE))
        if data is None:
            return f"{piece.name[:SHOWN]} of {source.name} cannot be read, or is too large"
        left -= len(data)
        path = folder / piece.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            return f"{piece.name[:SHOWN]} is both a file and a folder"
        except OSError as problem:
            if problem.errno in OF_THE_DISK:
                raise Failed(f"{path} cannot be written: {problem.strerror}.") from None
            return f"{piece.name[:SHOWN]} cannot be written: {problem.strerror}"
    if times := [piece.time for piece in pieces if piece.time]:
        (folder / intake.STAMP).write_text(f"{max(times).isoformat(' ', 'seconds')} UTC\n", encoding="utf-8")
    return ""
