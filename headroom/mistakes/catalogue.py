"""The facts about known mistakes, out of this folder's tables."""

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources


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


@functools.cache
def _facts(topic: str) -> dict[str, Fact]:
    file = resources.files("headroom.mistakes") / f"{topic}.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {key: Fact(key, fact["title"], fact["sentence"]) for key, fact in table.items()}
