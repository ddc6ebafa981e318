"""Errors, types and names of the student's code as parts of sentences."""

import re

from autograder import probe
from autograder.judging.replies import StudentError
from autograder.relations import listed

MAX_MESSAGE = 110  # characters of an error's message in a sentence


def difference(error: StudentError | None) -> str:
    """What a call does that it did not do before, as the end of a sentence."""
    if error is None:
        return "gives a different result"
    return f"{trouble(error)}{'' if error.type == probe.TOO_SLOW else f': {gist(error.message)}'}"


def trouble(error: StudentError) -> str:
    """What a call does instead of coming to a result, as the end of a sentence."""
    return f"does not end within {error.message} s" if error.type == probe.TOO_SLOW else f"raises {error.type}"


def gist(message: str) -> str:
    """The part of an error's message that says what is wrong: its first line, and of a long one the beginning."""
    line = message.strip().split("\n")[0]
    for end in (r"(?<=\w\w)\. (?=[A-Z])", r" \(| \[|; ", r": "):
        if len(line) > MAX_MESSAGE:
            line = re.split(end, line)[0]
    line = line.rstrip(" .:")
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE].rsplit(' ', 1)[0]} …"


def error_lines(error: StudentError) -> tuple[str, ...]:
    """The student's own lines of an error, and its message where `gist` gives only a part of it."""
    message = error.message.strip()
    if message.rstrip(" .:") == gist(message):
        return error.lines
    return (*error.lines, f"{error.type}: {message}")


def with_article(kind: str) -> str:
    """A type's name with its article."""
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def in_place_of_result(kind: str) -> str:
    """The type of what came in place of a result that could be compared, as the end of a sentence."""
    return "nothing (None): is the `return` missing?" if kind == "NoneType" else f"{with_article(kind)}."


def as_code(names: list[str], most: int = 4) -> str:
    """Names of the student's code in a sentence."""
    shown = [f"`{name}`" for name in names[:most]]
    return listed([*shown, f"{len(names) - most} more"] if len(names) > most else shown)


def capitalised(sentence: str) -> str:
    """A sentence with a capital letter at its beginning, whatever follows."""
    return sentence[0].upper() + sentence[1:]
