"""The facts about known mistakes, out of this folder's tables."""

import functools
import tomllib
from importlib import resources
from typing import Any

from autograder.exercise import Mistake


def mistake(name: str, look: str = "", slot: str = "", **graded: Any) -> Mistake:
    """A known mistake, such as `layer_norm.no_root`, with what a grader adds.

    Args:
        name: the file of this folder that knows it, and its key there.
        look: where a student should look.
        slot: what it excludes.
        graded: further attributes of `Mistake`, such as `change` and `costs`.

    Raises:
        LookupError: no such mistake is known.
    """
    topic, _, key = name.partition(".")
    facts = _facts(topic)
    if key not in facts:
        raise LookupError(f"{name!r} is no known mistake; {topic or 'no name'} has {', '.join(facts) or 'none'}")
    return Mistake(key, facts[key]["title"], facts[key]["sentence"], look, slot, **graded)


@functools.cache
def _facts(topic: str) -> dict[str, dict[str, str]]:
    file = resources.files("headroom.mistakes") / f"{topic}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
