"""The facts about known mistakes, out of this folder's tables.

A table's `section` is where lectures treat what it is about, as a lecture's number and a heading; `sections` lists the
mistakes that another section treats.
"""

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Fact:
    """What is known of a mistake.

    Attributes:
        key: by which programs know it, such as "no_root".
        title: what it is called.
        sentence: what the wrong code does.
    """

    key: str
    title: str
    sentence: str


def fact(name: str) -> Fact:
    """What is known of a mistake, such as `layer_norm.no_root`: a file of this folder, and a key there.

    Raises:
        LookupError: no such mistake is known.
    """
    topic, _, key = name.partition(".")
    facts = _facts(topic)
    if key not in facts:
        raise LookupError(f"{name!r} is no known mistake; {topic or 'no name'} has {', '.join(facts) or 'none'}")
    return facts[key]


def taught(exercise: str, title: str = "") -> str:
    """Which section of a lecture treats a mistake, such as "Lecture 5, “LayerNorm averages over one token”".

    Args:
        exercise: its name, such as "LayerNorm".
        title: what the mistake is called; "" for what the exercise is about.

    Returns:
        the section, that of the exercise where the mistake has none of its own; "" for an unknown exercise.
    """
    topic = next((name for name in _topics() if name.replace("_", "") == exercise.replace("_", "").lower()), None)
    if topic is None:
        return ""
    table = _table(topic)
    keys = {one.key for one in _facts(topic).values() if one.title == title}
    keys = keys or {one.key for name in _topics() for one in _facts(name).values() if one.title == title}
    found = (section for section, those in table.get("sections", {}).items() if keys & {*those})
    number, _, heading = next(found, table["section"]).partition(" ")
    return f"Lecture {int(number)}, “{re.sub(r'[$`]', '', heading)}”"


@functools.cache
def _topics() -> tuple[str, ...]:
    folder = resources.files("headroom.mistakes")
    return tuple(sorted(one.name.removesuffix(".toml") for one in folder.iterdir() if one.name.endswith(".toml")))


@functools.cache
def _table(topic: str) -> dict[str, Any]:
    file = resources.files("headroom.mistakes") / f"{topic}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


@functools.cache
def _facts(topic: str) -> dict[str, Fact]:
    table = {key: one for key, one in _table(topic).items() if key not in ("section", "sections")}
    return {key: Fact(key, fact["title"], fact["sentence"]) for key, fact in table.items()}
