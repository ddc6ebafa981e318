"""The probe's replies, parsed as hostile input: of the expected types and bounded, or refused as malformed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder import probe
from autograder.exercise import Parameter

Ask = Callable[[bytes], bytes]  # carries a packed request to the probe and brings the packed reply
Reply = dict[str, Any]  # what the probe says of one build or case
Arrays = tuple[np.ndarray, ...]  # the parts of a result
MAX_DEPTH = 20  # of modules within modules
MAX_KIND = 80  # characters of the name of a type, an argument or an operation
MAX_TEXT = 500  # characters of any other text
MAX_PRINTED = 1000  # characters that the student's code printed


class Malformed(Exception):
    """The probe's reply is not what a probe would say, or more than is compared; the text says which."""

    def __init__(self, why: str = "the check got an answer that it cannot read, so nothing could be compared.") -> None:
        super().__init__(why)


@dataclass(frozen=True)
class StudentError:
    """An exception in the student's code; `lines`: the student's own."""

    type: str
    message: str
    lines: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the student's code did with one case.

    Attributes:
        error: what it raised.
        type: of what it returned.
        output: the parts of the result; None where it is not what the task wants at all.
        n_parts: how many it has, where it is a list or tuple.
        arguments: their names in the student's code.
        dtypes: of the parts.
        input_gradients, weight_gradients: where they were asked for.
        backward_error: the message of what the backward pass raised.
        called: the names of torch's functions, where the task forbids some.
        traced: all numbers that were computed on the way, where they were asked for.
        printed: what the code printed.
        settings: which of PyTorch's settings the call has left otherwise, as the probe calls them.
        changed: which input is another after a call that is made again.
        moved: which parameter is.
        rewritten: whether such a call has changed what an earlier one returned.
    """

    error: StudentError | None = None
    type: str = ""
    output: Arrays | None = None
    n_parts: int = 0
    arguments: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    input_gradients: tuple[np.ndarray | None, ...] | None = None
    weight_gradients: dict[str, np.ndarray | None] | None = None
    backward_error: str = ""
    called: frozenset[str] = frozenset()
    traced: np.ndarray | None = None
    printed: str = ""
    settings: tuple[str, ...] = ()
    changed: int | None = None
    moved: str = ""
    rewritten: bool = False

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...] | None:
        """The shape of each part; None where there is no output."""
        return None if self.output is None else tuple(part.shape for part in self.output)


def read(ask: Ask, request: dict[str, Any], count: int) -> list[Reply]:
    """Send a request and read its replies, which must be that many.

    Raises:
        Malformed: if they are not.
    """
    packed = ask(probe.pack(request))
    try:
        replies = probe.unpack(packed)
    except ValueError as error:
        raise Malformed from error
    if not isinstance(replies, list) or len(replies) != count or not all(isinstance(r, dict) for r in replies):
        raise Malformed
    return replies


def outcome(reply: Reply, several: bool) -> Outcome:
    """What a reply says of one case; `several`: whether the task wants more than one tensor."""
    printed = text(reply.get("printed"), MAX_PRINTED)
    if "error" in reply:
        return Outcome(error=error_of(reply), printed=printed)
    output = None
    if "output" in reply:
        parts = arrays(reply["output"])
        output = tuple(part for part in parts if part is not None)
        if len(output) < len(parts) or len(output) > probe.MAX_PARTS:
            raise Malformed
        if reply.get("several") is not several or not output or (len(output) > 1 and not several):
            output = None
    inputs, weights = reply.get("input_gradients"), reply.get("weight_gradients")
    if weights is not None and not isinstance(weights, dict):
        raise Malformed
    return Outcome(
        type=text(reply.get("type"), MAX_KIND),
        output=output,
        n_parts=_n_parts(reply),
        arguments=_names(reply.get("arguments", [])),
        dtypes=_dtypes(output, _names(reply.get("dtypes", []))),
        input_gradients=None if inputs is None else arrays(inputs),
        weight_gradients=None if weights is None else dict(zip(weights, arrays(list(weights.values())), strict=True)),
        backward_error=text(reply.get("backward_error")),
        called=frozenset(_names(reply.get("called", []))),
        traced=arrays([reply.get("traced")])[0],
        printed=printed,
        settings=_names(reply.get("settings", [])),
        changed=changed if type(changed := reply.get("changed")) is int and 0 <= changed < probe.MAX_NAMES else None,
        moved=text(reply.get("moved"), MAX_KIND),
        rewritten=reply.get("rewritten") is True,
    )


def dicts(reply: Reply, key: str) -> list[Reply]:
    """The dicts in a list of a reply."""
    items = reply.get(key)
    if not isinstance(items, list) or not all(isinstance(i, dict) for i in items):
        raise Malformed
    if len(items) > probe.MAX_NAMES:
        raise Malformed(f"it has more than {probe.MAX_NAMES} {key}, although it was built for small inputs.")
    return items


def parameter(item: Reply) -> Parameter:
    """One parameter, as a reply describes it."""
    name, shape, trained = _parameter_name(item.get("name")), item.get("shape"), item.get("trained") is True
    if not isinstance(shape, list) or len(shape) > probe.MAX_AXES or not all(type(n) is int for n in shape):
        raise Malformed
    if min(shape, default=0) < 0:
        raise Malformed
    start = _start(item.get("start"), tuple(shape))
    return Parameter(name, tuple(shape), trained, _constant(start), start)


def _parameter_name(value: Any) -> str:
    """A parameter's name, which is used and sent back as it is."""
    if not isinstance(value, str) or not value.isprintable():  # half of a surrogate pair is not
        raise Malformed
    if len(value) > probe.MAX_NAME or value.count(".") > MAX_DEPTH or value.startswith("$"):
        raise Malformed(f"the name of a parameter cannot be used: `{value[:60]}…`")
    return value


def _start(start: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """What a parameter starts from, if that was sent."""
    return start if isinstance(start, np.ndarray) and start.shape == shape and start.dtype.kind == "f" else None


def _constant(start: np.ndarray | None) -> float | None:
    """The number that all entries of a parameter start from, if it is one; computed here from all of them."""
    if start is None:
        return None
    first = float(start.flat[0]) if start.size else 0.0
    return first if bool((start == first).all()) else None


def text(value: Any, limit: int = MAX_TEXT) -> str:
    """Text from the probe: bounded, and without control characters other than line breaks."""
    given = value if isinstance(value, str) else ""
    return "".join(c for c in given[:limit] if c == "\n" or c.isprintable())


def error_of(reply: Reply) -> StudentError:
    """What the student's code raised."""
    error = reply.get("error")
    if not isinstance(error, dict):
        raise Malformed
    lines = error.get("lines")
    lines = tuple(text(line) for line in lines[: probe.MAX_LINES]) if isinstance(lines, list) else ()
    return StudentError(text(error.get("type"), MAX_KIND), text(error.get("message")), lines)


def arrays(values: Any) -> tuple[np.ndarray | None, ...]:
    """A list of arrays, and of None where there is none."""
    if not isinstance(values, list) or len(values) > probe.MAX_NAMES:
        raise Malformed
    if not all(value is None or isinstance(value, np.ndarray) for value in values):
        raise Malformed
    return tuple(values)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > probe.MAX_NAMES:
        raise Malformed
    if not all(isinstance(value, str) for value in values):
        raise Malformed
    return tuple(text(value, MAX_KIND) for value in values)


def _dtypes(output: Arrays | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """The dtypes of a result's parts: what the arrays are, unless one was of a dtype that cannot cross."""
    if output is None:
        return ()
    names = names if len(names) == len(output) else ("",) * len(output)
    crossed = (*probe.DTYPES, "")
    return tuple(a.dtype.name if name in crossed else name for a, name in zip(output, names, strict=True))


def _n_parts(reply: Reply) -> int:
    """How many parts a list or tuple has that was returned."""
    count = reply.get("parts")
    return count if type(count) is int and 0 <= count <= probe.MAX_NAMES else 0
