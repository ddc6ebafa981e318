"""What every widget needs in Python: its front end as one text, numbers as bytes, models called."""

import inspect
import operator
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import traitlets as t

from headroom.figures import ArrayLike
from headroom.reference import attention_maps

HERE = Path(__file__).parent
# Comments that have lines to themselves: a browser does not read them, nor the types in them.
COMMENTS = re.compile(r"^ *(?://[^\n]*|/\*(?:(?!\*/).)*\*/)\n", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<file>\.[^"]*)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:function|const|class) (\w+))", re.MULTILINE)
U16_MAX = 2**16 - 1

Proposal = dict[str, Any]  # what traitlets tells a validator: {"trait", "value", …}
Change = dict[str, Any]  # … and an observer: {"name", "old", "new", …}

# For a trait that the reader sets. Without echo: when Python's comes back, the reader may have chosen again, and the
# echo of the earlier choice would take the place of the later one, which has not been sent yet.
CHOSEN = {"sync": True, "echo_update": False}


def front_end(name: str) -> tuple[str, str]:
    """The JavaScript and the style sheet of a widget, those of `kernel/` included, as anywidget takes them.

    anywidget loads one text as one ES module, and a text has no folder from which it could import. So whatever
    NAME/view.js imports, directly or not, comes first, each file as a function that returns what the file exports: the
    files stay ES modules that an editor and Node.js understand, their private names stay private, and nothing is left
    to be fetched. Comments stay behind.

    Args:
        name: of the widget's folder, such as `attention_explorer`.

    Raises:
        ValueError: a file imports in another form than `import {…} from "./FILE.js"`, or what is no file of ours.
    """
    modules: dict[str, str] = {}
    main = _linked(HERE / name / "view.js", modules)
    sheets = (HERE / "kernel" / "kernel.css", HERE / name / "view.css")
    return "\n".join([*modules.values(), main]), "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def _linked(file: Path, modules: dict[str, str]) -> str:
    """A file's text without types, its imports taken from `modules`; those that are not there yet are added."""

    def name_and_add(match: re.Match[str]) -> str:
        path = (file.parent / match["file"]).resolve()
        name = "$" + "_".join(path.relative_to(HERE.resolve()).with_suffix("").parts)
        if name not in modules:
            text = _linked(path, modules)
            body, exported = EXPORT.sub("", text), ", ".join(EXPORT.findall(text))
            modules[name] = f"const {name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"
        return f"const {{{match['names']}}} = {name};\n"

    text = IMPORT.sub(name_and_add, COMMENTS.sub("", file.read_text(encoding="utf-8")))
    if left := re.search(r"^(import\b.*)$", text, flags=re.MULTILINE):
        raise ValueError(
            f'{file.name} has the line {left[1]!r}; a widget imports {{…}} from "./FILE.js" and nothing else'
        )
    return text


def quantise(weights: np.ndarray) -> bytes:
    """Weights in [0, 1] as little-endian unsigned 16-bit integers, `round(65535 * weight)`, in C order.

    Uniform steps suit weights that are drawn and read off as numbers: the error is at most half a step, 7.7e-6.
    """
    steps = weights * np.float32(U16_MAX)  # float32 holds them to 1/256 of a step
    np.rint(steps, out=steps)  # in place: millions of numbers, and new memory costs more than the arithmetic
    return np.clip(steps, 0, U16_MAX, out=steps).astype("<u2").tobytes()


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


@contextmanager
def trait_errors() -> Generator[None]:
    """Within the block a ValueError becomes a TraitError: the only kind on which traitlets takes a change back."""
    try:
        yield
    except ValueError as error:
        raise t.TraitError(str(error)) from None


def call_with_attention(model: torch.nn.Module, images: torch.Tensor) -> Any:
    """What an image classifier says: logits and attention `(n, n_layers, n_heads, tokens, tokens)`, if it has that.

    A model whose `forward` takes `return_attention` is called with it, and answers for itself. Any other one answers
    with its logits, and the attention is that of its one stack of `headroom.reference`'s attentions; where there is no
    such stack, or several, the logits come alone.
    """
    if "return_attention" in inspect.signature(model.forward).parameters:
        return model(images, return_attention=True)
    with attention_maps(model) as maps:
        logits = model(images)
    return (logits, *maps.values()) if len(maps) == 1 else logits


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN where a row has no finite score, and no warning about it."""
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
