"""What every widget needs in Python: its front end as one text, numbers as bytes, arguments checked in sentences."""

import operator
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import traitlets as t

HERE = Path(__file__).parent
# A line that only the type checker reads; what else a comment says stays where it is.
TYPES = re.compile(r"^ *(?:// @ts-check|/\*\* @(?:(?!\*/).)*\*/)\n", re.MULTILINE)
U16_MAX = 2**16 - 1

ArrayLike = np.ndarray | torch.Tensor | Sequence[Any]
Proposal = dict[str, Any]  # what traitlets tells a validator: {"trait", "value", …}
Change = dict[str, Any]  # … and an observer: {"name", "old", "new", …}

# For a trait that the reader sets. Without echo: when Python's comes back, the reader may have chosen again, and the
# echo of the earlier choice would take the place of the later one, which has not been sent yet.
CHOSEN = {"sync": True, "echo_update": False}


def front_end(name: str) -> tuple[str, str]:
    """The JavaScript and the style sheet of a widget, shared.js and shared.css included, as anywidget takes them.

    anywidget loads one text as one ES module, and a text has no folder from which it could import. So shared.js comes
    first, without its `export`s, and the widget's own file follows, without the line that imports from shared.js:
    both files stay ES modules that an editor understands, and nothing is left to be fetched. Lines that hold only the
    types of what follows, a fifteenth of the text, stay behind: a browser does not read them.

    Args:
        name: of the widget's files, such as `attention_explorer`.

    Raises:
        ValueError: the widget's file imports something else: it would be missing in an exported page.
    """
    shared = re.sub(r"^export (?=function|const|class)", "", _read("shared.js"), flags=re.MULTILINE)
    own = re.sub(r'^import \{[^}]*\} from "\./shared\.js";\n', "", _read(f"{name}.js"), flags=re.MULTILINE)
    if left := re.search(r"^(import\b.*)$", shared + own, flags=re.MULTILINE):
        raise ValueError(
            f'{name}.js has the line {left[1]!r}; a widget imports {{…}} from "./shared.js" and nothing else'
        )
    return TYPES.sub("", f"{shared}\n{own}"), f"{_read('shared.css')}\n{_read(f'{name}.css')}"


def quantise(weights: np.ndarray) -> bytes:
    """Weights in [0, 1] as little-endian unsigned 16-bit integers, `round(65535 * weight)`, in C order.

    Uniform steps suit weights that are drawn and read off as numbers: the error is at most half a step, 7.7e-6.
    """
    steps = weights * np.float32(U16_MAX)  # float32 holds them to 1/256 of a step
    np.rint(steps, out=steps)  # in place: millions of numbers, and new memory costs more than the arithmetic
    return np.clip(steps, 0, U16_MAX, out=steps).astype("<u2").tobytes()


def dequantise(buffer: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The weights that the browser sees: `quantise`'s buffer as float32 of the given shape."""
    return (np.frombuffer(buffer, dtype="<u2").reshape(shape) / U16_MAX).astype(np.float32)


def as_array(name: str, value: ArrayLike) -> np.ndarray:
    """`value` as an array on the CPU, whatever device, gradient or floating-point width it comes with.

    Raises:
        ValueError: it holds something else than numbers, or lists of different lengths.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; it must be an array or tensor of numbers")
    return array


def check_finite(name: str, array: np.ndarray) -> None:
    """Raise a ValueError that says where the first NaN or infinite value is, if there is one."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is what is looked for here
        if np.isfinite(array.sum()):  # far quicker than looking at each; a finite sum has finite terms
            return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at index {where}; "
            "every value must be finite"
        )


def as_index(name: str, value: int, size: int) -> int:
    """`value` as an index from 0, negative ones counted from the end as in a list.

    Raises:
        ValueError: it is no whole number, or there is no such thing.
    """
    try:
        index = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r} is not an index; give a whole number from 0 to {size - 1}") from None
    if not -size <= index < size:
        raise ValueError(f"{name}={index} does not exist; there are {size}: 0 to {size - 1}")
    return index % size


def check_unit(name: str, array: np.ndarray) -> None:
    """Raise a ValueError unless every value lies in [0, 1], as pixels do here; it guesses what was forgotten."""
    check_finite(name, array)
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        hint = "; divide bytes by 255" if low >= 0 and high > 2 else "; undo the normalisation first"
        raise ValueError(f"{name} has values from {low:g} to {high:g}; they must lie in [0, 1]{hint}")


@contextmanager
def trait_errors() -> Generator[None]:
    """Within the block a ValueError becomes a TraitError: the only kind on which traitlets takes a change back."""
    try:
        yield
    except ValueError as error:
        raise t.TraitError(str(error)) from None


@contextmanager
def looking_at(model: torch.nn.Module) -> Generator[torch.device]:
    """Within the block `model` is in eval mode and keeps no gradients; afterwards all its parts are as they were.

    Yields:
        the device that the model is on.
    """
    modes = [(module, module.training) for module in model.modules()]
    parameter = next(model.parameters(), None)
    try:
        model.eval()
        with torch.no_grad():
            yield parameter.device if parameter is not None else torch.device("cpu")
    finally:
        for module, training in modes:  # one by one: parts of a model may be frozen in a mode of their own
            module.training = training


def _read(file: str) -> str:
    return (HERE / file).read_text(encoding="utf-8")
