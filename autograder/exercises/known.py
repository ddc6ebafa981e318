"""Known mistakes as this course's exercises take them, and what PyTorch has ready."""

import re
from typing import Any

from autograder import probe
from autograder.exercise import Evidence, Mistake
from headroom.mistakes import fact

IN_PLACE = "Look for an assignment into a slice, `+=`, `-=` and the like, or a method whose name ends in an underscore."


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


def overwritten(*costs: str, look: str = IN_PLACE, topic: str = "multi_head_self_attention") -> Mistake:
    """The mistake of changing an argument in place, under the title that a table of `headroom.mistakes` gives it.

    Args:
        costs: the criteria that it breaks by itself.
        look: where a student should look.
        topic: the table.
    """
    return mistake(f"{topic}.overwritten", look, sign=_input_changed, costs=costs)


def _input_changed(seen: Evidence) -> bool:
    return seen.input_changed


def operations(words: str) -> frozenset[str]:
    """The names of all operations of PyTorch, in whatever library of it, in which a regular expression is found."""
    return frozenset(name for name in probe.registered() if re.search(words, name))
