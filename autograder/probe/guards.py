"""What surrounds the student's code while it runs: limits, a watch, and a world that is the same before and after."""

import contextlib
import functools
import io
import os
import signal
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .wire import MAX_LINES, MAX_NAMES, MAX_TEXT, TOO_SLOW, array

MAX_TRACED = 200_000  # numbers on the way that are reported of one call
MAX_TRACED_SIZE = 5_000  # elements of a tensor that is among them
# Where torch keeps an operation's code: in terms of other operations, and for each kind of tensor on the CPU.
IN_TERMS_OF_OTHERS = ("CompositeImplicitAutograd", "CompositeImplicitAutogradNestedTensor", "CompositeExplicitAutograd")
OF_CPU = ("CPU", "MkldnnCPU", "NestedTensorCPU", "SparseCPU", "SparseCsrCPU", "QuantizedCPU")
BACKENDS = (*IN_TERMS_OF_OTHERS, *OF_CPU)


def default_device() -> str:
    """Where PyTorch makes a tensor if nobody says where; its own function for that takes ten times as long."""
    try:
        return str(torch.empty(0).device)
    except Exception:  # a device that is not there
        return str(torch.get_default_device())


SEED = 73_856_093  # of PyTorch's random numbers: one that the student's code will hardly choose itself
# What holds for the whole process: no call may leave another, but that it may draw random numbers.
SETTINGS: dict[str, Callable[[], Any]] = {
    "gradients": torch.is_grad_enabled,
    "dtype": torch.get_default_dtype,
    "device": default_device,
    "seed": torch.initial_seed,
    "random numbers": lambda: torch.default_generator.get_state().numpy().tobytes(),
}
UNHEARD = (signal.SIG_IGN, signal.SIG_DFL)  # an interrupt is not raised as KeyboardInterrupt
AGAIN = 0.5  # seconds from one interrupt to the next
IMPORTING = 60.0  # seconds more for an import: PyTorch's compiler cannot be imported again after an interrupt
WAITING = 3  # times as long it may last: a machine that is busy delays an answer, and some answers only sleep


class Forbidden(RuntimeError):
    """Raised by an operation that would do the student's task. The text is its name."""


@functools.cache
def registered() -> dict[str, list[str]]:
    """All of torch's operations, by name: each with its library and overload, as in aten::add.Tensor."""
    found = dict[str, list[str]]()
    for name in torch._C._dispatch_get_all_op_names():  # pyright: ignore[reportPrivateUsage]  # torch has no public one
        found.setdefault(name.partition("::")[2].partition(".")[0], []).append(name)
    return found


@functools.cache
def kernels(names: frozenset[str]) -> list[list[str]]:
    """What runs torch's operations of these names: library, operation with its overload, kind of tensor.

    For the judge, which finds them once for all requests: it takes longer than to do what one asks for.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore[reportPrivateUsage]  # as above
    return [
        [*operation.split("::"), key]
        for name in sorted(names)
        for operation in registered().get(name, ())
        for key in BACKENDS
        if has_kernel(operation, key)
    ]


@contextlib.contextmanager
def forbidding(forbidden: list[list[str]]) -> Generator[None]:
    """Let these of torch's own operations raise `Forbidden`, whoever calls them: in any thread, by any name of theirs.

    A watch that notes what is called sees one thread only, and can be told to look away; this replaces the operations
    themselves, in torch's dispatcher, and puts them back; what the code does to the filters of warnings, too.

    Args:
        forbidden: what runs them, as `kernels` lists it.
    """

    def stop(name: str) -> Callable[..., Any]:
        def stopped(*_: Any, **__: Any) -> Any:
            raise Forbidden(name)

        return stopped

    scoped_library = torch.library._scoped_library  # pyright: ignore[reportPrivateUsage]  # as above
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every operation that is replaced
        libraries = {}
        for space, operation, key in forbidden:
            if space not in libraries:
                libraries[space] = stack.enter_context(scoped_library(space, "IMPL"))
            libraries[space].impl(operation, stop(operation.partition(".")[0]), key)
        yield


class Watchdog:
    """Interrupts the main thread, again and again, once the time is up; so that a loop without end has one.

    The time is the processor's, so that a busy machine refuses no answer that a quiet one accepts.

    Where the probe runs in another thread nothing can be interrupted, and nothing is.
    """

    def __init__(self, seconds: float):
        self.seconds, self.barked = seconds, False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watchdog":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before in UNHEARD:  # so a shell starts what it runs in the background
                signal.signal(signal.SIGINT, signal.default_int_handler)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.ident is None:
            return
        self.hush()
        if self._before in UNHEARD:
            signal.signal(signal.SIGINT, self._before)

    def hush(self) -> None:
        """Interrupt no more: it has been heard. What the code leaves behind may take long to be given back."""
        self._done.set()
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
        main, latest = threading.main_thread().ident, time.monotonic() + IMPORTING
        while _is_importing(main) and time.monotonic() < latest:
            if self._done.wait(0.05):
                return
        while not self._done.wait(AGAIN if self.barked else 0.0):
            self.barked = True
            if hasattr(signal, "pthread_kill") and main is not None:  # wakes a sleeping call too
                signal.pthread_kill(main, signal.SIGINT)
            else:
                signal.raise_signal(signal.SIGINT)


def _is_importing(thread: int | None) -> bool:
    """Whether a thread is in the middle of an import."""
    frame = sys._current_frames().get(thread or 0)  # pyright: ignore[reportPrivateUsage]  # there is no other way
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def exact() -> Generator[None]:
    """float64 as the default dtype, so that style and order of operations do not matter; one thread, and the CPU: the
    tensors are tiny, and threads would only wait for each other, a GPU for its data. All are put back."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    # Where the CPU is the default anyway, saying so would only slow every operation down.
    device = contextlib.nullcontext() if default_device() == "cpu" else torch.device("cpu")
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

    # Not `use_deterministic_algorithms`: it imports torch's compiler to tell it, which takes over a second.
    set_deterministic = torch._C._set_deterministic_algorithms  # pyright: ignore[reportPrivateUsage]
    set_deterministic(True, warn_only=True)
    memory.fill_uninitialized_memory = True
    np.empty, np.empty_like = map(full, makers)
    try:
        yield
    finally:
        np.empty, np.empty_like = makers
        memory.fill_uninitialized_memory = fills
        set_deterministic(before[0], warn_only=before[1])


@contextlib.contextmanager
def random_numbers_kept() -> Generator[None]:
    """PyTorch's random numbers go on afterwards as if none had been drawn; `fork_rng` takes several times as long."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


@contextlib.contextmanager
def without_compiler() -> Generator[None]:
    """PyTorch's compiler is not imported to be told that it shall leave a function of PyTorch's own alone.

    On the device "meta", an addition is such a function. The import takes seconds, and cannot be made again where an
    interrupt falls into it.
    """
    name, known = "torch._dynamo", torch.__dict__
    if name in sys.modules:
        yield
        return
    stand_in: Any = types.ModuleType(name)
    stand_in.disable = lambda function, *_, **__: function
    sys.modules[name] = known["_dynamo"] = stand_in
    try:
        yield
    finally:
        sys.modules.pop(name, None)
        known.pop("_dynamo", None)


def settings() -> dict[str, Any]:
    """The settings of the process as they are now."""
    return {name: setting() for name, setting in SETTINGS.items()}


def differing(before: dict[str, Any]) -> list[str]:
    """Which settings of the process are not what they were."""
    return [name for name, now in settings().items() if now != before[name]]


@contextlib.contextmanager
def defaulting_to(dtype: torch.dtype) -> Generator[None]:
    """Another default dtype for a while."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def guarded(work: Callable[[], dict[str, Any]], watchdog: Watchdog) -> dict[str, Any]:
    """Run `work` with the outside kept still: no prints, no warnings, torch's global settings put back.

    The filters of warnings, and where PyTorch's random numbers go on, `answer` puts back, once for all it does.
    """
    printed = io.StringIO()
    reply: dict[str, Any] = {"error": {"type": TOO_SLOW, "message": f"{watchdog.seconds:g}", "lines": []}}
    try:
        if not watchdog.barked:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(io.StringIO()),
                torch.enable_grad(),
                exact(),
                filled(),
            ):
                warnings.simplefilter("ignore")
                torch.default_generator.manual_seed(SEED)  # torch.manual_seed asks every device, which takes 1 ms
                reply = work()
    except KeyboardInterrupt as stop:
        _forget_half_imported()
        if not watchdog.barked:
            raise
        watchdog.hush()
        reply["error"]["lines"] = _describe_error(stop)["lines"]
    except BaseException as error:  # SystemExit too: the student's code may raise anything
        if watchdog.barked:
            watchdog.hush()
        reply = {"error": _describe_error(error)}
    return reply | {"printed": printed.getvalue()[:MAX_TEXT]}


def _forget_half_imported() -> None:
    """Forget the parts of packages that are no longer there themselves: an interrupt fell into their import.

    PyTorch imports SymPy when it is first needed. Imported once more, a package lacks those of its parts that are kept.
    """
    for name in sorted(sys.modules):  # a package before its parts
        if (package := name.rpartition(".")[0]) and package not in sys.modules:
            del sys.modules[name]


class _Functions(TorchFunctionMode):
    """Notes the names of torch's functions that are called."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(getattr(func, "__name__", None) or str(func))
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    """Hands on what each of the operations gives to which torch's functions come down."""

    def __init__(self, keep: Callable[[Any], None]) -> None:
        super().__init__()
        self.keep = keep

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to skip it torch imports its compiler, which takes over a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.keep(result)
        return result


class Watch(contextlib.ExitStack):
    """Collects the names of torch's functions that are called; `trace`: all numbers that are computed, too.

    Operations that are forbidden are not watched but replaced: see `forbidding`.
    """

    def __init__(self, trace: bool = False) -> None:
        super().__init__()
        self.seen, self.values = set[str](), list[np.ndarray]()
        self.enter_context(_Functions(self.seen))
        if trace:
            self.enter_context(_Operations(self._keep))

    def _keep(self, result: Any) -> None:
        for tensor in result if isinstance(result, list | tuple) else (result,):
            floats = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
            if floats and tensor.numel() <= min(MAX_TRACED_SIZE, MAX_TRACED - sum(map(len, self.values))):
                self.values.append(array(tensor).flatten())

    def numbers(self) -> np.ndarray:
        """All numbers that were computed on the way, sorted."""
        return np.sort(np.concatenate([np.zeros(0), *self.values]))

    def names(self) -> list[str]:
        return sorted(self.seen)[:MAX_NAMES]


def _describe_error(error: BaseException) -> dict[str, Any]:
    """Type, message and the student's own lines of an error; frames of libraries and of the probe left out."""
    libraries = (os.path.dirname(os.path.abspath(torch.__file__)), os.path.dirname(os.path.abspath(np.__file__)))
    probe = os.path.dirname(_describe_error.__code__.co_filename)
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        path = frame.filename
        if os.path.dirname(path) != probe and not path.startswith((*libraries, "<frozen")):
            lines.append(f"line {frame.lineno}, in {frame.name}: {frame.line or ''}".removesuffix(": "))
    message = str(error) if not isinstance(error, RecursionError) else "the code calls itself without end"
    return {"type": type(error).__name__, "message": message[:MAX_TEXT], "lines": lines[-MAX_LINES:]}
