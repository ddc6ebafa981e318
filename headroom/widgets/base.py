"""What all widgets are made of in Python: choices that are declared once, and a picture for pages without widgets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any, TypeVar

import anywidget
import traitlets as t

from headroom.figures import as_html
from headroom.widgets.picture import Panel, draw
from headroom.widgets.shared import CHOSEN, Proposal, as_index, trait_errors

Trait = TypeVar("Trait", bound=t.TraitType[Any, Any])
Check = Callable[[Any, str, Any], Any]  # (widget, name, value) → the value to take; ValueError: it cannot be chosen


def choice(trait: Trait, check: Check | None = None) -> Trait:
    """A trait that the reader sets, and Python may: one declaration makes it a field of `selection` as well, has every
    new value checked, and tells the front end its name.

    Args:
        trait: its type and its first value.
        check: called with the widget, the name and a proposed value; returns what to take, and raises a ValueError if
            there is no such thing. It may ask for the other choices: those that change together are all there.
    """
    return trait.tag(**CHOSEN, check=check)


def index(size: Callable[[Any], int]) -> t.Int[int, int]:
    """The choice of one of `size(widget)` things, from 0; negative ones count from the end."""
    return choice(t.Int(0), lambda widget, name, value: as_index(name, value, size(widget)))


def index_or_none(size: Callable[[Any], int]) -> t.Int[int | None, int | None]:
    """The same, where nothing may be chosen too: None."""
    return choice(
        t.Int(None, allow_none=True),
        lambda widget, name, value: None if value is None else as_index(name, value, size(widget)),
    )


@functools.cache
def _record(names: tuple[str, ...]) -> type:
    return make_dataclass("Selection", names, frozen=True)


class Widget(anywidget.AnyWidget):
    """A widget of the course. Its choices are the traits made by `choice` and the like, in the order of the class."""

    _choices = t.List(t.Unicode()).tag(sync=True)  # their names, for the front end

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        traits = {name: trait for name, trait in vars(cls).items() if isinstance(trait, t.TraitType)}
        if names := tuple(name for name, trait in traits.items() if "check" in trait.metadata):
            cls._names = names
            cls._every_choice = t.validate(*names)(_checked)  # anywidget makes further subclasses, which add none

    @t.default("_choices")
    def _default_choices(self) -> list[str]:
        return list(self._names)

    def _choose(self, **start: Any) -> None:
        """Set choices, one after the other, as arguments give them; ValueError if there is no such thing."""
        for name, value in start.items():
            setattr(self, name, _check(self, self.traits()[name], value))

    @property
    def selection(self) -> Any:
        """What is selected now, as the reader sees it: a frozen dataclass with a field for each choice.

        Every index counts from 0 (the screen counts from 1); lists are tuples.
        """
        chosen = {name: _frozen(getattr(self, name)) for name in self._names} | self._derived()
        return _record(tuple(chosen))(**chosen)

    def _derived(self) -> dict[str, Any]:
        """Fields of `selection` that say more than a choice does; they take the place of one of the same name."""
        return {}

    def _panels(self) -> list[Panel]:
        """What the picture shows, from left to right."""
        raise NotImplementedError

    def _says(self) -> str:
        """The picture in a sentence or two."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """As every widget, with a picture beside it of what is shown now, and that picture's description.

        Jupyter takes the picture where it has no widgets, or not this one's state. It is some tens of kilobytes.
        """
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/html"] = as_html(draw(self._panels()), self._says())
        return bundle


def _checked(widget: Widget, proposal: Proposal) -> Any:
    with trait_errors():  # traitlets takes a change back on a TraitError only
        return _check(widget, proposal["trait"], proposal["value"])


def _check(widget: Widget, trait: t.TraitType[Any, Any], value: Any) -> Any:
    check: Check | None = trait.metadata["check"]
    return value if check is None else check(widget, trait.name or "", value)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
