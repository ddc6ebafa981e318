"""Known mistakes as this course's exercises take them, and what PyTorch has ready."""

import re
from typing import Any

from autograder import probe
from autograder.exercise import Mistake
from headroom.mistakes import fact


def mistake(name: str, look: str = "", slot: str = "", **graded: Any) -> Mistake:
    """A known mistake, such as `layer_norm.no_root`, with what a grader adds.

    Args:
        name: in `headroom.mistakes`.
        look: where a student should look.
        slot: what it excludes.
        graded: further attributes of `Mistake`, such as `change` and `costs`.

    Raises:
        LookupError: no such mistake is known.
    """
    known = fact(name)
    return Mistake(known.key, known.title, known.sentence, look, slot, **graded)


def operations(words: str) -> frozenset[str]:
    """The names of all operations of PyTorch, in whatever library of it, in which a regular expression is found."""
    return frozenset(name for name in probe.registered() if re.search(words, name))
