"""A student's own progress: what `check` said in the labs, kept in a file of theirs, and what comes next.

The file is in the course's state folder, which git ignores, and is sent nowhere: a line for each check. `check` only
adds to it, and does without where it cannot. Whoever reads it believes no line: what is not as `note` writes it is left
out, the file is begun anew with the others, and the old one is kept beside it.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from headroom.lab import STATE, STATE_VARIABLE

FILE, BROKEN = "progress.jsonl", "progress-broken.jsonl"
LABS = "labs"  # the folder in which checks count
LARGEST = 5_000_000  # bytes of the file: some 20,000 checks
LONGEST = 200  # characters of a name or title
MOST = 10  # mistakes of a check


@dataclass
class Done:
    """What is known of one exercise: how often it was checked, whether it passed last, mistakes there and gone."""

    checks: int = 0
    passed: bool = False
    made: list[str] = field(default_factory=list)
    overcome: list[str] = field(default_factory=list)


def file(course: Path) -> Path:
    """Where a student's progress is kept."""
    return Path(os.environ.get(STATE_VARIABLE) or course / STATE) / FILE


def note(course: Path, verdict: Any) -> None:
    """Keep what a check said, if it is one in labs/; where that fails, nothing happens.

    Args:
        course: its folder.
        verdict: has `exercise`, `passed`, `attempted`, and `mistakes` with titles, as the grader's verdicts do.
    """
    with suppress(OSError, ValueError):
        folder = Path.cwd().resolve().relative_to((course / LABS).resolve())
        if not folder.parts:
            return
        told = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "lab": folder.parts[0][:LONGEST],
            "exercise": verdict.exercise[:LONGEST],
            "attempted": bool(verdict.attempted),
            "passed": bool(verdict.passed),
            "mistakes": [_printable(one.title)[:LONGEST] for one in verdict.mistakes[:MOST]],
        }
        path = file(course)
        path.parent.mkdir(exist_ok=True)
        if path.exists() and path.stat().st_size > LARGEST:
            path.replace(path.with_name(BROKEN))
        with path.open("ab") as lines:
            lines.write(f"{json.dumps(told)}\n".encode())


def read(course: Path) -> dict[str, dict[str, Done]]:
    """What a student has done, by lab and exercise.

    A file with something else in it than `note` writes is begun anew with the lines that are as they should be; the old
    one is kept beside it.
    """
    path = file(course)
    try:
        if path.stat().st_size > 2 * LARGEST or not path.is_file():
            raise ValueError("larger than any that `note` writes, or a pipe that never ends")
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        lines, good = [b""], []
    else:
        good = [line for line in lines if _told(line)]
    if len(good) < len(lines):
        with suppress(OSError):
            path.replace(path.with_name(BROKEN))
            if good:
                path.write_bytes(b"".join(line + b"\n" for line in good))
    found: dict[str, dict[str, Done]] = {}
    for told in filter(None, map(_told, good)):
        if not told["attempted"]:
            continue
        done = found.setdefault(told["lab"], {}).setdefault(told["exercise"], Done())
        done.checks += 1
        done.passed = told["passed"]
        seen = dict.fromkeys([*done.overcome, *done.made, *told["mistakes"]])
        done.made = told["mistakes"]
        done.overcome = [title for title in seen if title not in done.made]
    return found


def exercises(course: Path) -> dict[str, list[str]]:
    """The exercises that each lab checks, by the name of its folder, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted((course / LABS).glob("lab*/*.ipynb")):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            cells = json.loads(path.read_bytes())["cells"]
            graded = ("".join(cell["source"]) for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade"))
            names = [match[1] for source in graded if (match := re.fullmatch(r"check\((\w+)\)\s*", source))]
            if names:
                found[path.parent.name] = names
    return found


def rows(asked: dict[str, list[str]], done: dict[str, dict[str, Done]]) -> list[tuple[str, str, str, str]]:
    """For each lab that was begun: its name, exercises passed, mistakes overcome, mistakes still there.

    Args:
        asked: as of `exercises`.
        done: as of `read`.
    """
    found: list[tuple[str, str, str, str]] = []
    for lab, names in asked.items():
        if lab in done:
            those = {name: done[lab][name] for name in names if name in done[lab]}
            passed = sum(one.passed for one in those.values())
            overcome = [title for one in those.values() for title in one.overcome]
            made = [title for one in those.values() for title in one.made]
            counted = f"{passed} of {len(names)} passed"
            found.append((_called(lab), counted, "; ".join(overcome) or "–", "; ".join(made) or "–"))
    return found


def following(asked: dict[str, list[str]], done: dict[str, dict[str, Done]]) -> str:
    """What comes next, as a sentence: the first exercise, in the order of the labs, whose check has not passed."""
    for lab, names in asked.items():
        for name in names:
            if not (lab in done and name in done[lab] and done[lab][name].passed):
                begun = "go on with" if lab in done else "begin"
                return f"Next in the labs: {begun} {_called(lab)}, {name}."
    return "Every check has passed."


HEAD = ("lab", "checks", "mistakes overcome", "still there")


def text(course: Path) -> str:
    """A student's progress, for a terminal."""
    asked, done = exercises(course), read(course)
    lines: list[str] = []
    for lab, passed, overcome, made in rows(asked, done):
        lines.append(f"{lab}: {passed}")
        lines += [f"    no longer made: {overcome}"] if overcome != "–" else []
        lines += [f"    still there: {made}"] if made != "–" else []
    lines = lines or ["No check in a lab yet."]
    return "\n".join(map(_printable, [*lines, following(asked, done)]))


def table(course: Path) -> str:
    """A student's progress as Markdown in which only the table is active."""
    asked, done = exercises(course), read(course)
    found, next_one = rows(asked, done), following(asked, done)
    if not found:
        return f"No check in a lab yet. {next_one}"
    cells = "".join(f"<tr>{''.join(f'<td>{_quiet(cell)}</td>' for cell in row)}</tr>" for row in found)
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>\n\n{_quiet(next_one)}"


def _quiet(words: str) -> str:
    """Without what Markdown or HTML would obey, also where LaTeX is set."""
    return re.sub(r"[\\`*_{}\[\]#|$~]", lambda found: f"&#{ord(found[0])};", escape(words))


def _printable(words: str) -> str:
    return "".join(c for c in words if c.isprintable())


def _called(lab: str) -> str:
    """Such as "Lab 2" of "lab02_multi_head"."""
    number = re.match(r"lab(\d+)", lab)
    return f"Lab {int(number[1])}" if number else lab


def _told(line: bytes) -> dict[str, Any] | None:
    """What a line says; None where it is not as `note` writes it."""
    try:
        told = json.loads(line)
        if not isinstance(told["mistakes"], list):
            return None
        texts = [told["lab"], told["exercise"], *told["mistakes"]]
        # A blank line in a title would end the table, and what follows it would be Markdown.
        right = all(isinstance(one, str) and len(one) <= LONGEST and one.isprintable() for one in texts)
        right = right and len(told["mistakes"]) <= MOST
        return told if right and all(isinstance(told[key], bool) for key in ("passed", "attempted")) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
