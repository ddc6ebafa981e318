"""The half of a check that runs where the student's code lives: it does what it is asked and knows no answers.

A request names a function or a class, arguments, weights and inputs; the reply says what came out: plain arrays,
names and shapes, or how it failed. This file stands alone (standard library, NumPy, torch), so that it can be
sent into a kernel where nothing else of the grader exists. What it returns is evidence, not truth: the judge
believes none of it that it has not compared with what it knows.

Only `pack`ed bytes cross between probe and judge: a JSON header and raw arrays of a few known types. No pickle.
"""

import contextlib
import copy
import functools
import inspect
import io
import json
import math
import os
import signal
import struct
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = ("float64", "float32", "int64", "bool")  # what may cross; everything else is converted or refused
MAX_ELEMENTS = 1_000_000  # of one array
MAX_AXES = 16  # of one array
MAX_ARRAYS = 50_000  # of one message
MAX_HEADER = 4_000_000  # bytes of a message beside its arrays
MAX_MESSAGE = 64_000_000  # bytes of a message
MAX_PARTS = 100  # of one result
MAX_TEXT = 4_000  # characters of one error message, traceback or printed text
MAX_NAMES = 500  # parameters, operations and the like in one list
MAX_STARTS = 100_000  # numbers of a parameter whose start is told
MAX_NAME = 300  # characters of a parameter's name
MAX_TRACED = 200_000  # numbers on the way that are reported of one call
MAX_TRACED_SIZE = 5_000  # elements of a tensor that is among them
COMPOSITE = "CompositeImplicitAutograd"  # torch's word for operations that are written in terms of others
UNHEARD = (signal.SIG_IGN, signal.SIG_DFL)  # an interrupt is not raised as KeyboardInterrupt
SECONDS = 20.0  # of processor time that all cases of a request may take where it does not say
WAITING = 3  # times as long it may last: a machine that is busy delays an answer, and some answers only sleep
GIVEN = "given"  # the module that the classes of a model among the inputs say they are from


def _next_logits(rows: np.ndarray, before: np.ndarray) -> Callable[[torch.Tensor], torch.Tensor]:
    """A stand-in for a decoder: what comes next depends on the row, the place, and every token so far and its place.

    Args:
        rows: `(batch, places, n_target)`, what each row adds at each place.
        before: `(places, n_target, n_target)`, what a token at a place adds there and at all places after it.
    """
    own, added = torch.from_numpy(rows.copy()), torch.from_numpy(before.copy())
    batch, places, _ = own.shape

    def next_logits(tokens: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, t) → logits (batch, t, n_target) of what follows each of them."""
        if not isinstance(tokens, torch.Tensor) or tokens.dtype != torch.int64:
            kind = tokens.dtype if isinstance(tokens, torch.Tensor) else type(tokens).__name__
            raise TypeError(f"next_logits takes a tensor of token ids, whose dtype is torch.int64; it got {kind}")
        if tokens.dim() != 2 or len(tokens) != batch or not 1 <= tokens.size(1) <= 8 * places:
            raise ValueError(
                f"next_logits takes token ids of shape (batch, t), here with batch {batch} and t from 1 to "
                f"{8 * places}; it got shape {tuple(tokens.shape)}"
            )
        place = torch.arange(tokens.size(1)) % places
        return own[:, place] + added[place, tokens].cumsum(1)

    return next_logits


class _Writer(nn.Module):
    """A stand-in for a language model with a cache: called as `headroom.reference.LanguageModel` is.

    What comes next depends on the row, the place, every token so far and its place; with a drift also on the call in
    which a token was read: what is computed again is another number than what was kept.

    Args:
        rows: `(batch, max_tokens, n_vocabulary)`, what each row adds at each place.
        before: `(blocks, max_tokens, n_vocabulary, n_vocabulary)`, what a token at a place adds there and at all places
            after it, in each block.
        drift: what a token adds grows by this share of it from call to call with one cache.
        calls: how often it may be called for one text.
    """

    def __init__(self, rows: np.ndarray, before: np.ndarray, drift: float = 0.0, calls: int | None = None):
        super().__init__()
        self.calls = calls
        self.renew()
        self.rows, self.before, self.drift = torch.from_numpy(rows.copy()), torch.from_numpy(before.copy()), drift
        self.blocks = nn.ModuleList(nn.Identity() for _ in before)
        self.max_tokens = rows.shape[1]

    def renew(self) -> None:
        """Begin with another text."""
        self.n_calls = 0

    def forward(self, ids: torch.Tensor, cache: Any = None) -> torch.Tensor:
        """Token ids (batch, tokens), without those in the cache → logits of what follows each of them."""
        if not isinstance(ids, torch.Tensor) or ids.dtype != torch.int64:
            kind = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise TypeError(f"the model takes a tensor of token ids, whose dtype is torch.int64; it got {kind}")
        if ids.dim() != 2 or len(ids) != len(self.rows) or not ids.size(1):
            raise ValueError(
                f"the model takes token ids of shape (batch, tokens), here with batch {len(self.rows)}; it got shape "
                f"{tuple(ids.shape)}"
            )
        if cache is not None and (not isinstance(cache, list | tuple) or len(cache) != len(self.blocks)):
            raise ValueError(f"cache must be a list of {len(self.blocks)} caches, one for each of the model's blocks")
        start = 0 if cache is None else len(cache[0])
        end = start + ids.size(1)
        if end > self.max_tokens:
            raise ValueError(f"a sequence of {end} tokens is longer than max_tokens={self.max_tokens}")
        self.n_calls += 1
        if self.calls is not None and self.n_calls > self.calls:
            raise RuntimeError(f"the model is called more than {self.calls} times, once for each token to write")
        places = torch.arange(start, end)
        logits = self.rows[:, places]
        for number, table in enumerate(self.before):
            added = table[places, ids]  # (batch, tokens, n_vocabulary)
            if cache is not None:
                if len(cache[number]) != start:
                    raise ValueError(
                        f"block {number + 1} finds {len(cache[number])} tokens in its cache, block 1 found {start}: "
                        "each block needs a cache of its own"
                    )
                begins = torch.zeros(len(ids), 1, ids.size(1), 1)
                begins[:, :, 0] = 1.0
                keys, values = cache[number].append(begins, added[:, None])
                added = (values * (1 + self.drift * (keys.cumsum(2) - 1)))[:, 0]  # of all tokens
            logits = logits + added.cumsum(1)[:, -ids.size(1) :]
        return logits


class _Cache:
    """A stand-in for `headroom.reference.KeyValueCache` that holds tokens already, and can only be appended to.

    Args:
        keys, values: of earlier tokens, `(batch, groups, tokens, d_head)`.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray):
        self._kept = self.earlier = torch.from_numpy(keys.copy()), torch.from_numpy(values.copy())

    def __len__(self) -> int:
        return self._kept[0].size(-2)

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep those of new tokens. Returns all, the new ones last."""
        batch, groups, _, d_head = self._kept[0].shape
        for name, new in (("keys", keys), ("values", values)):
            if new.dim() != 4 or (new.size(0), new.size(1), new.size(3)) != (batch, groups, d_head):
                raise ValueError(
                    f"the cache keeps {name} of shape (batch, n_groups, tokens, d_head), here ({batch}, {groups}, "
                    f"tokens, {d_head}); it got {tuple(new.shape)}"
                )
        before = (tensor.to(keys.dtype) for tensor in self._kept)
        all_keys, all_values = (torch.cat(pair, dim=2) for pair in zip(before, (keys, values), strict=True))
        self._kept = all_keys, all_values
        return self._kept


@functools.lru_cache(maxsize=8)
def _compiled(source: str) -> types.CodeType:
    """As if it were in this file, so that an error shows no lines of it."""
    return compile(source, _describe_error.__code__.co_filename, "exec")


def _module(
    source: str, kind: str, build: list[Any], weights: dict[str, np.ndarray], training: bool = True
) -> nn.Module:
    """A model of a class that comes as source, in float64.

    Args:
        source: the class `kind`, and those that it needs; `math`, `torch`, `nn` and `Tensor` are there.
        build: the arguments of its constructor.
        weights: all its parameters, by name.
        training: in training mode, as PyTorch makes it. Its classes must do the same in both modes, so that the mode
            itself is all that a call can change.
    """
    module = _classes(source)[kind](*build).double()
    module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
    for part in module.modules():
        part.register_forward_pre_hook(_somebody_elses)
    return module.train(training)


_alike: dict[str, dict[str, Any]] | None = None  # what sources of classes define, while all calls of a request share it


def _classes(source: str) -> dict[str, Any]:
    """What the source of classes defines: where one object is called again and again, two models are of one class."""
    if _alike is not None and source in _alike:
        return _alike[source]
    space: dict[str, Any] = {"__name__": GIVEN, "math": math, "torch": torch, "nn": nn, "Tensor": torch.Tensor}
    exec(_compiled(source), space)
    if _alike is not None:
        _alike[source] = space
    return space


def _somebody_elses(*_: Any) -> None:
    """A hook that is on a model before it is given to the target. It does nothing, and has to stay."""


# What an input may be beside arrays and plain values: made by name from plain data, here and by the judge alike.
MADE: dict[str, Callable[..., Any]] = {
    "next_logits": _next_logits,
    "writer": _Writer,
    "cache": _Cache,
    "module": _module,
}


# --- The wire: plain values and typed arrays, as bytes -----------------------------------------------------------


def pack(message: Any) -> bytes:
    """Bytes of a message: nested dicts, lists, strings, numbers, booleans, None, and arrays of `DTYPES`."""
    arrays: list[np.ndarray] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(np.asarray(value, order="C"))
            return {"$array": len(arrays) - 1}
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    body = plain(message)
    kinds = [[a.dtype.name, list(a.shape)] for a in arrays]
    header = json.dumps({"body": body, "arrays": kinds}).encode()
    return struct.pack("!I", len(header)) + header + b"".join(a.tobytes() for a in arrays)


def is_shape(value: Any) -> bool:
    """Whether it is a list of few sizes, of which those that are not 0 do not multiply to too much."""
    if not isinstance(value, list) or len(value) > MAX_AXES:
        return False
    if not all(type(n) is int and 0 <= n <= MAX_ELEMENTS for n in value):
        return False
    return math.prod(n for n in value if n) <= MAX_ELEMENTS


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
            dtype, count = np.dtype(name), math.prod(shape)
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
            if isinstance(value, dict):
                return arrays[value["$array"]] if "$array" in value else {k: restore(v) for k, v in value.items()}
            return [restore(item) for item in value] if isinstance(value, list) else value

        return restore(body)
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error, RecursionError, AttributeError) as error:
        raise ValueError(f"not a message of the probe: {str(error)[:200]}") from None


# --- Answering a request -----------------------------------------------------------------------------------------


def answer(request: bytes, target: Any) -> bytes:
    """Do what a packed request asks with `target`, the student's function or class, and pack what happened.

    Three requests exist. `{"do": "describe", "builds": [arguments…]}` constructs the class with each list of
    arguments and says which parameters it has. `{"do": "run", "cases": […]}` constructs, loads weights, calls,
    and, where a case gives a cotangent, differentiates, every case on an object of its own.
    `{"do": "look", "cases": […]}` only calls, under other conditions: see `_look`. The reply is a list with one dict
    per build or case.

    `"forbidden"` names operations that raise `Forbidden` meanwhile.
    """
    ask = unpack(request)
    if ask["do"] == "describe":
        work = [lambda args=args: _describe(target, args) for args in ask["builds"]]
    elif ask["do"] == "look":
        objects: dict[str, Any] = {}
        work = [lambda case=case: _look(target, case, objects, ask) for case in ask["cases"]]
    else:
        work = [lambda case=case: _run(target, case) for case in ask["cases"]]
    with _Watch():
        # What torch imports at the first watched call shall not count as the student's time.
        torch.zeros(1, device="cpu").add(1)
    global _alike
    _alike = {} if ask.get("shared") else None
    try:
        with forbidding(ask.get("forbidden", [])), _Watchdog(ask.get("seconds", SECONDS)) as watchdog:
            replies = [_guarded(task, watchdog) for task in work]
    finally:
        _alike = None
    return pack(replies)


class Forbidden(RuntimeError):
    """Raised by an operation that would do the student's task. The text is its name."""


@contextlib.contextmanager
def forbidding(names: list[str]) -> Generator[None]:
    """Let these of torch's own operations raise `Forbidden`, whoever calls them: in any thread, by any name of theirs.

    A watch that notes what is called sees one thread only, and can be told to look away; this replaces the operations
    themselves, in torch's dispatcher, and puts them back. Names that are no operation are left to the watch.
    """

    def stop(name: str) -> Callable[..., Any]:
        def stopped(*_: Any, **__: Any) -> Any:
            raise Forbidden(name)

        return stopped

    scoped_library = torch.library._scoped_library  # pyright: ignore[reportPrivateUsage]  # torch has no public one
    with scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every operation that is replaced
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore[reportPrivateUsage]  # as above
        for name in names:
            packet = getattr(torch.ops.aten, name, None)
            for overload in packet.overloads() if packet else ():
                operation = getattr(packet, overload)
                with contextlib.suppress(RuntimeError):  # a name that torch.jit has, and the dispatcher has not
                    composite = has_kernel(operation.name(), COMPOSITE)
                    library.impl(operation, stop(name), COMPOSITE if composite else "CPU")
        yield


def made(value: Any) -> Any:
    """An input as the target gets it: plain data `{"$make": name, …}` becomes what `MADE[name]` makes of the rest."""
    if not isinstance(value, dict):
        return value
    rest = dict(value)
    return MADE[rest.pop("$make")](**rest)


def models(inputs: Iterable[Any]) -> list[nn.Module]:
    """The models among the inputs whose class came with them; a stand-in of this file is none of those."""
    return [value for value in inputs if isinstance(value, nn.Module) and type(value).__module__ == GIVEN]


def state(module: nn.Module) -> dict[str, Any]:
    """What a call may leave behind on a model that it was given: arrays and plain values, by what they are.

    That is every parameter, hook and attribute, and each method of its classes that is no longer the one they came
    with.
    """
    found: dict[str, Any] = {}
    for path, owner in module.named_modules():
        at = f"`{path}`" if path else "all of it"
        found[f"the class of {at}"] = type(owner).__name__
        for name, value in vars(owner).items():
            whole = f"{path}.{name}".removeprefix(".")
            if "_hooks" in name:
                for hook in value.values() if isinstance(value, dict) else ():
                    known = hook is _somebody_elses
                    hooks = f"the earlier hook on {at}" if known else f"the list of hooks on {at}"
                    found[hooks] = found.get(hooks, 0) + 1
            elif name not in ("_parameters", "_buffers", "_modules"):
                plain = isinstance(value, bool | int | float | str | None)
                found[f"`{whole}`"] = value if plain else type(value).__name__
        for name, parameter in owner.named_parameters(recurse=False):
            whole = f"{path}.{name}".removeprefix(".")
            found |= {f"`{whole}`": _array(parameter), f"`{whole}.requires_grad`": parameter.requires_grad}
        for kind in type(owner).__mro__:
            for name, value in vars(kind).items() if kind.__module__ == GIVEN else ():
                if isinstance(value, types.FunctionType):
                    own = value.__code__.co_filename == _describe_error.__code__.co_filename
                    found[f"`{kind.__name__}.{name}`"] = "as it came" if own else "another"
    return found


class _Watchdog:
    """Interrupts the main thread, again and again, once the time is up; so that a loop without end has one.

    The time is the processor's, so that a busy machine refuses no answer that a quiet one accepts.

    Where the probe runs in another thread nothing can be interrupted, and nothing is.
    """

    def __init__(self, seconds: float):
        self.seconds, self.barked = seconds, False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Watchdog":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before in UNHEARD:  # so a shell starts what it runs in the background
                signal.signal(signal.SIGINT, signal.default_int_handler)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread.ident is None:
            return
        self._await_last_bark()
        if self._before in UNHEARD:
            signal.signal(signal.SIGINT, self._before)

    def _await_last_bark(self) -> None:
        while self._thread.is_alive() or self.barked:  # a last bark may still be on its way
            try:
                self._thread.join()
                time.sleep(0.01 if self.barked else 0.0)
                return
            except KeyboardInterrupt:
                continue

    def _watch(self) -> None:
        end, last = time.process_time() + self.seconds, time.monotonic() + WAITING * self.seconds
        while (left := min(end - time.process_time(), last - time.monotonic())) > 0:
            if self._done.wait(left):
                return
        while not self._done.wait(0.5 if self.barked else 0.0):
            self.barked = True
            main = threading.main_thread().ident
            if hasattr(signal, "pthread_kill") and main is not None:  # wakes a sleeping call too
                signal.pthread_kill(main, signal.SIGINT)
            else:
                signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def exact() -> Generator[None]:
    """float64 as the default dtype, so that style and order of operations do not matter; one thread, and the CPU: the
    tensors are tiny, and threads would only wait for each other, a GPU for its data. All are put back."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        on_cpu = torch.empty(0).device.type == "cpu"
    except Exception:  # the default is a device that is not there
        on_cpu = False
    # Where the CPU is the default anyway, saying so would only slow every operation down.
    device = contextlib.nullcontext() if on_cpu else torch.device("cpu")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        with device:
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


@contextlib.contextmanager
def filled() -> Generator[None]:
    """What is made without values (`torch.empty`, `np.empty`) is NaN or the largest number, at every run the same.

    Uninitialised memory often happens to be 0, and then wrong code happens to be right.
    """
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills, makers = memory.fill_uninitialized_memory, (np.empty, np.empty_like)

    def full(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def made_full(*args: Any, **kwargs: Any) -> np.ndarray:
            array = make(*args, **kwargs)
            if array.dtype.kind in "fciub":
                kind = array.dtype.kind
                array.fill(np.nan if kind in "fc" else True if kind == "b" else np.iinfo(array.dtype).max)
            return array

        return made_full

    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = True
    np.empty, np.empty_like = map(full, makers)
    try:
        yield
    finally:
        np.empty, np.empty_like = makers
        memory.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _guarded(work: Callable[[], dict[str, Any]], watchdog: _Watchdog) -> dict[str, Any]:
    """Run `work` with the outside kept still: no prints, no warnings, torch's global settings put back."""
    printed = io.StringIO()
    reply: dict[str, Any] = {"error": {"type": "TooSlow", "message": f"{watchdog.seconds:g}", "lines": []}}
    try:
        if not watchdog.barked:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(io.StringIO()),
                warnings.catch_warnings(),
                torch.random.fork_rng(devices=[]),
                torch.enable_grad(),
                exact(),
                filled(),
            ):
                warnings.simplefilter("ignore")
                torch.default_generator.manual_seed(0)  # manual_seed itself asks every kind of device, which takes 1 ms
                reply = work()
    except KeyboardInterrupt as stop:
        if not watchdog.barked:
            raise
        reply["error"]["lines"] = _describe_error(stop)["lines"]
    except BaseException as error:  # SystemExit too: the student's code may raise anything
        reply = {"error": _describe_error(error)}
    return reply | {"printed": printed.getvalue()[:MAX_TEXT]}


def _describe(target: Any, args: list[Any]) -> dict[str, Any]:
    module = _built(target, args, torch.float64)
    if not isinstance(module, nn.Module):
        return {"not_a_module": type(module).__name__}
    parameters = []
    for name, parameter in list(module.named_parameters())[: MAX_NAMES + 1]:
        start = _array(parameter) if parameter.numel() <= MAX_STARTS else None
        description = {"name": name, "shape": list(parameter.shape), "trained": parameter.requires_grad, "start": start}
        parameters.append(description)
    hidden = [{"name": n, "shape": list(t.shape), "trained": True} for n, t in _unregistered(module).items()]
    return {"parameters": parameters, "loose": _loose(module), "unregistered": hidden[:MAX_NAMES]}


def _unregistered(module: nn.Module) -> dict[str, torch.Tensor]:
    """What may have been meant as parameters: tensors of several numbers where `parameters()` cannot see them."""
    registered = {id(parameter) for parameter in module.parameters()}
    found: dict[str, torch.Tensor] = {}

    def collect(path: str, value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.is_leaf and value.numel() > 1 and id(value) not in registered:
                registered.add(id(value))
                found[path] = value
        elif isinstance(value, nn.Module):
            for name, parameter in value.named_parameters():
                collect(f"{path}.{name}", parameter, 0)
        elif isinstance(value, list | tuple | dict) and depth:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                collect(f"{path}.{key}", item, depth - 1)

    for owner_name, owner in module.named_modules():
        for name, value in (vars(owner) | dict(owner.named_buffers(recurse=False))).items():
            if name not in ("_parameters", "_buffers", "_modules") and not name.endswith("_hooks"):
                collect(f"{owner_name}.{name}".removeprefix("."), value, 4)
    return found


def _loose(module: nn.Module) -> list[dict[str, str]]:
    """Tensors and layers that hang on the module where `parameters()` cannot see them."""
    registered = {id(parameter) for parameter in module.parameters()}
    found = []
    for owner in module.modules():
        for name, value in vars(owner).items():
            if name in ("_parameters", "_buffers", "_modules") or name.endswith("_hooks"):
                continue
            if isinstance(value, list | tuple | dict) and _holds_weights(value, registered):
                found.append({"name": name, "kind": type(value).__name__})
            elif isinstance(value, torch.Tensor) and value.is_floating_point():
                found.append({"name": name, "kind": "Tensor"})
    return found[:MAX_NAMES]


def _holds_weights(value: Any, registered: set[int], depth: int = 4) -> bool:
    """Whether a container holds a tensor, or a layer with one, that is not registered elsewhere as well."""
    if isinstance(value, list | tuple | dict) and depth:
        items = value.values() if isinstance(value, dict) else value
        return any(_holds_weights(item, registered, depth - 1) for item in items)
    if isinstance(value, nn.Module):
        return any(id(parameter) not in registered for parameter in value.parameters())
    return isinstance(value, torch.Tensor) and id(value) not in registered


def _run(target: Any, case: dict[str, Any]) -> dict[str, Any]:
    dtype = getattr(torch, case["dtype"])
    torch.set_default_dtype(dtype)
    call, weights = target, {}
    if "build" not in case:
        call = _apart(target)
    else:
        call = _built(target, case["build"], dtype).eval()
        weights = _load(call, case)

    inputs = _inputs(case, dtype)
    leaves = [value for value in inputs if isinstance(value, torch.Tensor)]
    # Not the leaves, so that code which writes into its input can be seen doing it.
    inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]

    watch = _Watch(case.get("trace", False)) if case.get("watch") else None
    with watch or contextlib.nullcontext():
        output = _called(call, inputs, weights, case)
    reply, parts = _result(output, case)
    reply["arguments"] = _arguments(call)
    if watch:
        reply |= {"called": watch.names(), "traced": watch.numbers()}
    if not parts:
        return reply
    arrays = [value for value in inputs if isinstance(value, torch.Tensor | np.ndarray)]
    reply["inputs_after"] = [_array(a) if isinstance(a, torch.Tensor) else a for a in arrays]
    reply["models_after"] = [state(model) for model in models(inputs)]
    cotangents = case.get("cotangents", [])
    if cotangents and [list(part.shape) for part in parts] == [list(c.shape) for c in cotangents]:
        inside = {name: weight for name, weight in weights.items() if weight.requires_grad}
        wanted = [*(leaf for leaf in leaves if leaf.requires_grad), *inside.values()]
        gradients: list[torch.Tensor | None] = [None] * len(wanted)
        pairs = [
            (part, torch.from_numpy(c.copy()).to(part.dtype))
            for part, c in zip(parts, cotangents, strict=True)
            if part.requires_grad
        ]
        if pairs:
            try:
                outputs, given = zip(*pairs, strict=True)
                gradients = list(torch.autograd.grad(outputs, wanted, given, allow_unused=True))
            except RuntimeError as error:
                reply["backward_error"] = str(error)[:MAX_TEXT]
        found = [None if gradient is None else _array(gradient) for gradient in gradients]
        split = len(found) - len(inside)
        reply["input_gradients"] = found[:split]
        reply["weight_gradients"] = dict(zip(inside, found[split:], strict=True))
    return reply


def _look(target: Any, case: dict[str, Any], objects: dict[str, Any], how: dict[str, Any]) -> dict[str, Any]:
    """Call once more, under other conditions. The result must be that of a fresh object all the same.

    Args:
        objects: those built so far, by their arguments.
        how: `"shared"`: one object for all cases that are built alike, or one function, call after call; `"training"`:
            in training mode, where a case does not say itself; `"strided"`: inputs that are not contiguous in memory;
            `"device"`: the object and its inputs moved there after it was built; `"default"`: PyTorch's default dtype,
            else that of the case.
    """
    dtype, device = getattr(torch, case["dtype"]), how.get("device", "cpu")
    torch.set_default_dtype(getattr(torch, how.get("default", case["dtype"])))
    call, weights = target, {}
    if "build" not in case:
        call = objects.setdefault("function", _apart(target)) if how.get("shared") else _apart(target)
    else:
        key = json.dumps([case["build"], case["dtype"]])
        call = objects.get(key) if how.get("shared") else None
        if call is None:
            call = objects[key] = _moved(_built(target, case["build"], dtype), device)
        call.train(bool(case.get("training", how.get("training"))))
        weights = _load(call, case)
    inputs = [value.detach() if isinstance(value, torch.Tensor) else value for value in _inputs(case, dtype)]
    if how.get("strided"):
        inputs = [_strided(value) for value in inputs]
    if device != "cpu":
        if not _left_behind(call, device):
            return {}
        inputs = [value.to(device) if isinstance(value, torch.Tensor) else value for value in inputs]
        return {"type": _kind(_called(call, inputs, weights, case))}
    if how.get("shared"):
        for writer in [value for value in inputs if isinstance(value, _Writer)]:
            _called(call, [_reversed(value) for value in inputs], weights, case)  # the same model has written another
            writer.renew()
    if how.get("shared") and "steps" in case:
        case = case | {"beside": [-value if value.is_floating_point() else value for value in inputs[:1]]}
    used = "build" in case and not call.training  # as a trained model is: without gradients
    with torch.set_grad_enabled(not used):
        result = _result(_called(call, inputs, weights, case), case)[0]
    if how.get("shared") and any(isinstance(value, _Cache) and not len(value) for value in inputs):
        raise ValueError("an empty cache is still empty after the call; note that `if cache:` is false for it")
    return result


def _reversed(value: Any) -> Any:
    """Another text of the same shape, where a value is token ids."""
    return value.flip(*range(value.dim())) if isinstance(value, torch.Tensor) else value


def _arguments(call: Callable[..., Any]) -> list[str]:
    """The names that positional arguments have in the student's code."""
    try:
        signature = inspect.signature(call.forward if isinstance(call, nn.Module) else call)
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in positional][:MAX_NAMES]


def _built(target: Any, arguments: list[Any], dtype: torch.dtype) -> nn.Module:
    """A new object. Moved to float64, because code that computes in float32 is right too; else as it was built."""
    if dtype == torch.float32:
        return target(*arguments)
    try:
        return _moved(target(*arguments), dtype)
    except RuntimeError:  # it mixes its own float32 with torch's default, which it cannot know to be another one
        torch.set_default_dtype(torch.float32)
        module = _moved(target(*arguments), dtype)
        torch.set_default_dtype(dtype)
        return module


def _moved(module: Any, where: Any) -> Any:
    """The same object, moved as a part of a model is: what hangs on it, but not by a `to` of its own."""
    if isinstance(module, nn.Module):
        nn.ModuleList([module]).to(where)
    return module


KEPT = (dict, list, set, torch.Tensor, np.ndarray)  # in what a function may keep something between calls


def _apart(target: Any) -> Any:
    """A function with copies of what it may keep something in between calls, so that it finds all of it as it is now.

    That is: names of its module, variables around it, defaults and attributes, and those of other functions of the
    module that it names. What is no plain function is returned as it is.
    """
    if not isinstance(target, types.FunctionType):
        return target
    space, done = dict(target.__globals__), dict[int, types.FunctionType]()

    def twin(function: types.FunctionType) -> types.FunctionType:
        if id(function) in done:
            return done[id(function)]
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        new = types.FunctionType(function.__code__, space, function.__name__, _copied(function.__defaults__), cells)
        done[id(function)] = new
        new.__kwdefaults__ = _copied(function.__kwdefaults__)
        new.__dict__.update({name: _copied(value) for name, value in vars(function).items()})
        for name in _names_of(function.__code__) & space.keys():
            space[name] = own(space[name])
        for cell, old in zip(cells, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # nothing is in it yet
                cell.cell_contents = own(old.cell_contents)
        return new

    copies: dict[int, Any] = {}

    def own(value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return twin(value) if value.__globals__ is target.__globals__ else value
        if not isinstance(value, KEPT) or id(value) in copies:
            return value
        made_now = _copied(value)
        copies[id(made_now)] = made_now
        return made_now

    return twin(target)


def _names_of(code: types.CodeType) -> set[str]:
    """The names that code looks up, with those of the functions in it."""
    return {*code.co_names}.union(*(_names_of(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _copied(value: Any) -> Any:
    """A copy of a container or an array; of what cannot be copied, or is large, the thing itself."""
    small = (value.size if isinstance(value, np.ndarray) else len(value) if isinstance(value, KEPT[:3]) else 0) < 10_000
    if isinstance(value, torch.Tensor):
        small = value.numel() < 100_000
    if isinstance(value, (*KEPT, tuple)) and small:
        with contextlib.suppress(Exception):
            return copy.deepcopy(value)
    return value


def _left_behind(value: Any, device: str, depth: int = 5) -> bool:
    """Whether a tensor hangs on a module, or in a container or function on it, that was not moved to the device."""
    if isinstance(value, torch.Tensor):
        return value.device.type != device and value.dim() > 0
    if not depth:
        return False
    if isinstance(value, nn.Module):
        value = [*vars(value).values()]
    elif isinstance(value, types.FunctionType):
        cells, value = value.__closure__ or (), [*(value.__defaults__ or ())]
        for cell in cells:
            with contextlib.suppress(ValueError):  # a name that has no value yet
                value.append(cell.cell_contents)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(_left_behind(item, device, depth - 1) for item in items)


def _inputs(case: dict[str, Any], dtype: torch.dtype) -> list[Any]:
    """The arguments of a call: leaves, where gradients are asked for."""
    inputs = []
    for value in case["inputs"]:
        value = made(value)
        if isinstance(value, nn.Module):
            value = value.to(dtype)
        elif isinstance(value, np.ndarray) and case.get("library") == "numpy":
            value = value.astype(case["dtype"]) if value.dtype.kind == "f" else value.copy()
        elif isinstance(value, np.ndarray):
            value = torch.from_numpy(value.copy())
            if value.is_floating_point():
                value = value.to(dtype).requires_grad_("cotangents" in case)
        inputs.append(value)
    return inputs


def _strided(value: Any) -> Any:
    """The same numbers, in memory in another order: as a transposed array or tensor has them."""
    if isinstance(value, np.ndarray):
        return np.asfortranarray(value)
    if isinstance(value, torch.Tensor) and value.dim() > 1:
        return value.transpose(0, -1).contiguous().transpose(0, -1)
    return value


def _called(call: Callable[..., Any], inputs: list[Any], weights: dict[str, torch.Tensor], case: dict[str, Any]) -> Any:
    if "steps" in case:
        return _in_turns(call, inputs, weights, case)
    try:
        return call(*inputs)
    except RuntimeError:
        floats = any(isinstance(v, torch.Tensor | np.ndarray | dict) for v in inputs)
        if floats or "build" in case or torch.get_default_dtype() == torch.float32:
            raise
        torch.set_default_dtype(torch.float32)  # see `_built`: nothing that it was given says another one
        return call(*inputs)


def _result(output: Any, case: dict[str, Any]) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """What is replied of a result, and its parts as tensors; no parts where it is not what is compared at all."""
    reply: dict[str, Any] = {"type": _kind(output)}
    if "taken" in case and isinstance(output, list | tuple):
        taken = tuple(output[n] for n in case["taken"] if n < len(output))
        output = taken if case["several"] else taken[0] if taken else None
    several = isinstance(output, list | tuple)
    if several and len(output) > MAX_PARTS:
        return reply, []
    if several:
        reply["parts"] = len(output)
    kind = (np.ndarray, np.generic, int, float) if case.get("library") == "numpy" else torch.Tensor
    tensors = [_tensor(part, kind) for part in (output if several else [output])]
    parts = [tensor for tensor in tensors if tensor is not None]
    if not parts or len(parts) < len(tensors):
        return reply, []
    if sum(part.numel() for part in parts) > MAX_ELEMENTS:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(f"the result has {sum(part.numel() for part in parts)} elements, shape {shapes}")
    reply["several"] = several
    reply["dtypes"] = [str(part.dtype).removeprefix("torch.") for part in parts]
    reply["output"] = [_array(part) for part in parts]
    return reply, parts


def _in_turns(
    call: Callable[..., Any], inputs: list[Any], weights: dict[str, torch.Tensor], case: dict[str, Any]
) -> Any:
    """Call with one piece of the first input after the other, handing on the state; the outputs side by side.

    Where there is something to be called with `beside` it, the two take turns, and each state is continued with pieces
    of both, before and after it is with its own.
    """
    first, *rest = inputs
    outputs, state = [], None
    others = [piece for value in case.get("beside", ()) for piece in value.split(case["steps"], dim=1)]
    other_state = None
    for turn, piece in enumerate(first.split(case["steps"], dim=1)):
        if turn and case["drift"] != 1:
            with torch.no_grad():
                for weight in weights.values():
                    weight.mul_(case["drift"])
        if others:
            call(others[turn], *rest, state)
        result = call(piece, *rest, state)
        if not isinstance(result, list | tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
            return result
        outputs.append(result[0])
        if others:
            call(others[turn], *rest, state)
            other_state = call(others[turn], *rest, other_state)[1]
        state = result[1]
    return torch.cat(outputs, dim=1)


def _load(module: nn.Module, case: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Give a module's parameters, and others that are named, the case's values; all of them by name."""
    weights: dict[str, torch.Tensor] = dict(module.named_parameters())
    if not case["weights"].keys() <= weights.keys():
        found = _unregistered(module)
        weights |= {name: found[name].requires_grad_() for name in case["weights"] if name in found}
    with torch.no_grad():
        for name, value in case["weights"].items():
            weights[name].copy_(torch.from_numpy(value.copy()))
    return weights


def _kind(output: Any) -> str:
    """The type of a result, and of what is in it."""
    if isinstance(output, list | tuple):
        inside = ", ".join(type(item).__name__ for item in output[:6])
        return f"{type(output).__name__} of {len(output)} ({inside})"
    return type(output).__name__


def _tensor(part: Any, kind: Any) -> torch.Tensor | None:
    """A part of a result as a tensor; None if it is not of that kind, or no numbers."""
    if not isinstance(part, kind) or (kind is not torch.Tensor and np.asarray(part).dtype.kind not in "fiub"):
        return None
    return part if isinstance(part, torch.Tensor) else torch.from_numpy(np.array(part))


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype not in (torch.float64, torch.float32, torch.int64, torch.bool):
        tensor = tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)
    return tensor.numpy()


class _Watch(contextlib.ExitStack):
    """Collects the names of torch functions called and of the operations they dispatch to; `trace`: numbers too."""

    def __init__(self, trace: bool = False) -> None:
        super().__init__()
        seen = self.seen = set[str]()
        values: list[np.ndarray] = []
        self.values = values

        def keep(result: Any) -> None:
            for tensor in result if isinstance(result, list | tuple) else (result,):
                floats = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
                if floats and tensor.numel() <= min(MAX_TRACED_SIZE, MAX_TRACED - sum(map(len, values))):
                    values.append(_array(tensor).flatten())

        class Functions(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.add(getattr(func, "__name__", str(func)))
                return func(*args, **(kwargs or {}))

        class Operations(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.add(func.overloadpacket.__name__)
                result = func(*args, **(kwargs or {}))
                if trace:
                    keep(result)
                return result

        self.enter_context(Functions())
        self.enter_context(Operations())

    def numbers(self) -> np.ndarray:
        """All numbers that were computed on the way, sorted."""
        return np.sort(np.concatenate([np.zeros(0), *self.values]))

    def names(self) -> list[str]:
        return sorted(self.seen)[:MAX_NAMES]


def _describe_error(error: BaseException) -> dict[str, Any]:
    """Type, message and the student's own lines of an error; frames of libraries and of this file left out."""
    libraries = (os.path.dirname(os.path.abspath(torch.__file__)), os.path.dirname(os.path.abspath(np.__file__)))
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        path = frame.filename
        if path != _describe_error.__code__.co_filename and not path.startswith((*libraries, "<frozen")):
            lines.append(f"line {frame.lineno}, in {frame.name}: {frame.line or ''}".removesuffix(": "))
    message = str(error) if not isinstance(error, RecursionError) else "the code calls itself without end"
    return {"type": type(error).__name__, "message": message[:MAX_TEXT], "lines": lines[-6:]}
