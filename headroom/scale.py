"""How much the notebooks compute: as much as they say, or so little that all of them can be tried within minutes.

The environment variable `HEADROOM_SCALE` decides, and nothing else does. At full scale, which needs no variable, every
amount is the one that is written. With `HEADROOM_SCALE=small` it is at most the one below: every line still runs, on
the same code and with results of the same kind, but no model learns much and no time that is measured means much.

Asked where amounts are decided: in `headroom.training.fit` (epochs), in `headroom.data` (digits and dates), and in
those loops of a notebook's own that would cost more than about a second: `for _ in range(scaled(300))`. What depends on
accuracy or time a notebook states with `claim`, which asserts it at full scale only. Everything else is asserted at
both scales.

Never smaller: the models that come with the course, the questions of the labs' checks, and notebooks under grading,
whose kernels do not get the variable. Benchmarks and `python -m headroom.pretrained` refuse to run at small scale.
"""

import os

VARIABLE = "HEADROOM_SCALE"
SCALES = ("full", "small")

# At most so many at small scale.
EPOCHS = 2  # of a training: two points make a curve
TRAIN_DIGITS = 200  # each class has at least 13
VAL_DIGITS = 100  # each class has at least 9
DIGITS_PER_CLASS = 10
DATES = 70  # seven of each language
FILES = 2  # of code, in each part
ROUNDS = 3  # of a notebook's loop: steps, repetitions, or the seeds 1, 2 and 3


def scale() -> str:
    """The scale at which everything runs: "full" or "small".

    Raises:
        ValueError: the environment variable has another value.
    """
    value = os.environ.get(VARIABLE) or "full"
    if value not in SCALES:
        raise ValueError(f"{VARIABLE}={value!r}: it must be 'small' or 'full'; unset, it counts as 'full'")
    return value


def scaled(n: int, most: int = ROUNDS) -> int:
    """`n`; at small scale (`HEADROOM_SCALE=small`, which the course's quick tests set) at most `most`."""
    return n if scale() == "full" else min(n, most)


def claim(holds: object, statement: str) -> None:
    """Assert a statement about accuracy or time; at small scale only print that it is asserted at full scale.

    Args:
        holds: whether it is true of what was measured; a tensor of one element will do.
        statement: the statement in words, without a full stop.

    Raises:
        AssertionError: at full scale, it is not true.
    """
    if scale() == "small":
        print(f"Asserted at full scale only: {statement}.")
    elif not holds:
        raise AssertionError(f"This was expected, and is not so: {statement}.")


def need_full_scale(what: str) -> None:
    """Refuse at small scale what would be worth nothing then, such as results that are kept.

    Raises:
        RuntimeError: it is small.
    """
    if scale() == "small":
        raise RuntimeError(f"{what} at full scale only: unset {VARIABLE}, which is 'small'")
