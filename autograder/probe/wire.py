"""What crosses between probe and judge, as bytes: plain values and typed arrays, bounded in size and number.

Only `pack`ed bytes cross: a JSON header and raw arrays of a few known types. No pickle.
"""

import json
import math
import struct
from typing import Any

import numpy as np
import torch

DTYPES = ("float64", "float32", "int64", "bool")  # what may cross; everything else is converted or refused
OF_TORCH = frozenset(getattr(torch, name) for name in DTYPES)
OF_NAMES = {name: np.dtype(name) for name in DTYPES}
NAMES = {dtype: name for name, dtype in OF_NAMES.items()}  # NumPy takes longer to make a name than JSON to write it
NESTED = (dict, list)  # what of a message may hold an array
MAX_ELEMENTS = 1_000_000  # of one array
MAX_AXES = 16  # of one array
MAX_ARRAYS = 50_000  # of one message
MAX_HEADER = 4_000_000  # bytes of a message beside its arrays
MAX_MESSAGE = 64_000_000  # bytes of a message
MAX_PARTS = 100  # of one result
MAX_TEXT = 4_000  # characters of one error message, traceback or printed text
MAX_NAMES = 500  # parameters, operations and the like in one list
MAX_NAME = 300  # characters of a parameter's name
MAX_LINES = 6  # of the student's own code that an error shows
TOO_SLOW = "TooSlow"  # the type of error of what did not end; the message is after how many seconds


def pack(message: Any) -> bytes:
    """Bytes of a message: nested dicts, lists, strings, numbers, booleans, None, and arrays of `DTYPES`."""
    arrays: list[np.ndarray] = []
    places: dict[int, int] = {}  # an array that several calls are given crosses once

    def numbered(value: Any) -> dict[str, int]:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"no {type(value).__name__} can cross")
        if id(value) not in places:
            places[id(value)] = len(arrays)
            arrays.append(np.asarray(value, order="C"))
        return {"$array": places[id(value)]}

    body = json.dumps(message, default=numbered)  # JSON itself goes through all that is plain
    kinds = [[NAMES.get(a.dtype) or a.dtype.name, a.shape] for a in arrays]
    header = f'{{"body": {body}, "arrays": {json.dumps(kinds)}}}'.encode()
    return struct.pack("!I", len(header)) + header + b"".join(a.tobytes() for a in arrays)


def is_shape(value: Any) -> bool:
    """Whether it is a list of few sizes, of which those that are not 0 do not multiply to too much."""
    if not isinstance(value, list) or len(value) > MAX_AXES:
        return False
    count = 1
    for n in value:
        if type(n) is not int or not 0 <= n <= MAX_ELEMENTS:
            return False
        count *= n or 1
    return count <= MAX_ELEMENTS


def unpack(data: bytes) -> Any:
    """The message that `pack` wrote. Reads hostile bytes: ValueError on anything but a well-formed message.

    All of it is bounded before any of it is made: what it holds takes a small multiple of `MAX_MESSAGE` at most.
    """
    try:
        (size,) = struct.unpack_from("!I", data)
        if len(data) > MAX_MESSAGE or size > MAX_HEADER:
            raise ValueError(f"{len(data)} bytes, {size} of them a header")
        header = json.loads(data[4 : 4 + size])
        kinds, body, at = header["arrays"], header["body"], 4 + size
        if len(kinds) > MAX_ARRAYS:
            raise ValueError(f"{len(kinds)} arrays")
        arrays = []
        for name, shape in kinds:
            if name not in DTYPES or not is_shape(shape):
                raise ValueError("an array of another kind or shape")
            dtype, count = OF_NAMES[name], math.prod(shape)
            if at + count * dtype.itemsize > len(data):
                raise ValueError(f"an array of {count} elements")
            raw = data[at : at + count * dtype.itemsize]
            if name == "bool" and raw.strip(b"\x00\x01"):
                raise ValueError("a bool array with bytes other than 0 and 1")
            arrays.append(np.frombuffer(raw, dtype).reshape(shape))
            at += count * dtype.itemsize
        if at != len(data):
            raise ValueError("bytes left over")

        def restore(value: Any) -> Any:
            if isinstance(value, dict) and "$array" in value:
                return arrays[value["$array"]]
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, item in items:
                if isinstance(item, NESTED):
                    value[key] = restore(item)
            return value

        return restore(body)
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error, RecursionError, AttributeError) as error:
        raise ValueError(f"not a message of the probe: {str(error)[:200]}") from None


def array(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor as they are now, in memory that nobody else has, and as no subclass of an array."""
    tensor = tensor.detach().cpu()
    if tensor.dtype not in OF_TORCH:
        tensor = tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)
    return np.array(tensor.numpy(), order="C")
