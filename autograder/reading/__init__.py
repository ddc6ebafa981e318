"""How the judge reads the parameters of a module as the task's roles, whatever they are called and however they lie.

`names` goes by names, shapes and the order of declaration; where no such reading fits, `effects` finds out what each
parameter is by what it does, among the `places` that a tensor may have in the right answer. Parameters that are less
than a role are put together first (`grouping`), those that are more are cut. What was found in one model, `recipes`
read in others.
"""

from autograder.exercise import Roles
from autograder.reading.effects import EXACT, LIKE, Answers, Behaviour, Gradients, by_effect, cotangent
from autograder.reading.names import (
    BETA,
    GAMMA,
    Parameters,
    Unit,
    absent,
    four_maps,
    gain_and_shift,
    named,
    numbers,
    of_kind,
    orders,
    role_of,
    units,
)
from autograder.reading.places import Place, call, empty, places, roles_of, unsaid
from autograder.reading.recipes import Recipe

__all__ = [
    "BETA",
    "EXACT",
    "GAMMA",
    "LIKE",
    "Answers",
    "Behaviour",
    "Gradients",
    "Parameters",
    "Place",
    "Recipe",
    "Roles",
    "Unit",
    "absent",
    "by_effect",
    "call",
    "cotangent",
    "empty",
    "four_maps",
    "gain_and_shift",
    "named",
    "numbers",
    "of_kind",
    "orders",
    "places",
    "role_of",
    "roles_of",
    "units",
    "unsaid",
]
