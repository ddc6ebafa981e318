"""A mistake that can be switched on: what it is called, in which parts it can be made, and how it is made there."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from headroom.mistakes.catalogue import fact

Make = Callable[[Any], None]  # a mistake in a part of a model


@dataclass(frozen=True)
class Switch:
    """A mistake that can be switched on.

    Attributes:
        fact: what is known of it, by its name in `headroom.mistakes`.
        group: the part of the model that it is about, such as "Attention".
        slot: two mistakes of one slot exclude each other: they are two wrong versions of the same line.
        kinds: classes of the parts of a model in which it can be made; exactly these, not what is derived from them.
        make: makes it in such a part.
        possible: whether it would change anything in this part of this model.
        tokens: where tokens are others than in the right model: "no_class", an image has no [class]; "class_last",
            [class] comes after the patches; "own_keys", a decoder's keys are its own tokens.
    """

    fact: str
    group: str
    slot: str
    kinds: tuple[type[nn.Module], ...]
    make: Make
    possible: Callable[[Any, nn.Module], bool] = lambda part, model: True
    tokens: Literal["", "no_class", "class_last", "own_keys"] = ""

    @property
    def name(self) -> str:
        """By which `broken` knows it."""
        return fact(self.fact).key

    @property
    def title(self) -> str:
        """What it is called."""
        return fact(self.fact).title

    @property
    def sentence(self) -> str:
        """What the wrong code does."""
        return fact(self.fact).sentence

    def applies(self, model: nn.Module) -> bool:
        """Whether `model` has a part in which this mistake can be made."""
        return bool(self.parts(model))

    def parts(self, model: nn.Module) -> list[nn.Module]:
        """The parts of `model`, or the model itself, in which this mistake can be made."""
        return [part for part in model.modules() if kind(part) in self.kinds and self.possible(part, model)]


def check_exclusive(chosen: Sequence[Switch]) -> None:
    """Raise a ValueError if two mistakes exclude each other."""
    for one, other in itertools.combinations(chosen, 2):
        if one.slot == other.slot:
            raise ValueError(
                f"{one.name!r} and {other.name!r} exclude each other: both change the same line; choose one"
            )


def become(part: nn.Module, wrong: type) -> None:
    """Give `part` a class of its own, in which the methods of `wrong` come before its own; once is enough."""
    own = type(part)
    if not issubclass(own, wrong):
        part.__class__ = type(f"{own.__name__}_{wrong.__name__}", (wrong, own), {"__module__": __name__})


def becomes(wrong: type) -> Make:
    """Make the mistake in the part itself."""
    return lambda part: become(part, wrong)


def kind(part: nn.Module) -> type[nn.Module]:
    """The class that a part had before any mistake."""
    return next(base for base in type(part).__mro__ if not base.__module__.startswith("headroom.mistakes."))


def on_part(name: str, wrong: type) -> Make:
    """Make the mistake in the part of this name, such as "self_attention.attend"."""
    return lambda whole: become(whole.get_submodule(name), wrong)
