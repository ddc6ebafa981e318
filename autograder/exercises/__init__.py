"""The exercises, by the name of what the student writes."""

from autograder.exercise import Exercise
from autograder.exercises.layer_norm import LAYER_NORM
from autograder.exercises.multi_head import MULTI_HEAD_SELF_ATTENTION
from autograder.exercises.sinusoidal import POSITIONAL_ENCODING, SINUSOIDAL_ENCODING

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (MULTI_HEAD_SELF_ATTENTION, SINUSOIDAL_ENCODING, POSITIONAL_ENCODING, LAYER_NORM)
}


def find(name: str) -> Exercise:
    """The exercise called `name`; LookupError naming those that exist."""
    if name not in EXERCISES:
        raise LookupError(f"no exercise is called {name!r}; there are {', '.join(EXERCISES)}")
    return EXERCISES[name]
