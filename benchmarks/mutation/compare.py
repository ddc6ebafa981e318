"""Whether a changed answer still does what the original does, on far more than the judge tries."""

import functools
import inspect
import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder import probe
from autograder.exercise import Case, Criterion, Exercise
from autograder.judge import judge
from benchmarks.mutation.inputs import further

NEAR = {"float64": 5e-6, "float32": 1e-3}  # differences up to this share of the largest number are rounding
SEEDS = range(1000, 1002)  # of further cases like the judge's
VARIED = 1  # of these, how many are tried in other ways too
LARGEST = 1e4  # number that an input holds; beyond, even hidden scores may exceed 10⁹
# Which two parts of an object are exchanged in the changed one: the object (numbers in its name as *), and the two.
Layout = tuple[tuple[tuple[str, ...], str, str], ...]


@dataclass(frozen=True)
class Try:
    """Calls of one object, or of the function, and under which conditions.

    Attributes:
        way: what is tried, in a few words; differences are listed by it.
        calls: cases of the same constructor's arguments.
        dtype: "float64", with all parameters and buffers made float64; "float32": the object as it was built.
        train: in training mode.
        contiguous: False: arrays lie in memory in another order.
        differentiate: gradients are compared too.
    """

    way: str
    calls: tuple[Case, ...]
    dtype: str = "float64"
    train: bool = False
    contiguous: bool = True
    differentiate: bool = False


@dataclass
class _Done:
    """What came of a try: per call its arrays and what else can be seen of it; or what was raised."""

    arrays: list[np.ndarray] = field(default_factory=list)
    gradients: list[dict[str, np.ndarray]] = field(default_factory=list)  # per call that is differentiated, by name
    seen: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    error: str = ""


def differences(exercise: Exercise, original: Any, changed: Any) -> dict[str, str]:
    """Ways in which the two differ, each with the first input where they do; empty: the same wherever it was tried."""
    with torch.random.fork_rng(devices=[]), probe.exact():
        if exercise.reference is None:
            return _measured(exercise, changed)
        layout: Layout | None = ()
        found: dict[str, str] = {}
        if inspect.isclass(original):
            layout = _layout(exercise, original, changed)
            if layout is None:
                return _judged(exercise, original, changed)
            found = _at_the_start(exercise, original, changed, layout)
        for one, wanted in _wanted(exercise, original):
            if one.way in found:
                continue
            got = _done(exercise, changed, one, layout)
            if how := _different(wanted, got, one.dtype):
                found[one.way] = f"{one.calls[-1].label}: {how}"
            elif wanted.dtypes != got.dtypes:
                how = f"{', '.join(got.dtypes)}, not {', '.join(wanted.dtypes)}"
                found.setdefault(f"dtype of the result, {one.dtype} in", f"{one.calls[-1].label}: {how}")
        return found


@functools.lru_cache(maxsize=1)
def _wanted(exercise: Exercise, original: Any) -> list[tuple[Try, _Done]]:
    """All tries that the original can do, and what it does."""
    done = ((one, _done(exercise, original, one)) for one in _tries(exercise))
    return [(one, it) for one, it in done if not it.error and _finite(it)]


def _finite(done: _Done) -> bool:
    arrays = itertools.chain(done.arrays, *(gradients.values() for gradients in done.gradients))
    return all(np.isfinite(array).all() for array in arrays)


def _tries(exercise: Exercise) -> Iterator[Try]:
    differentiate = any(case.differentiate for case in exercise.cases(np.random.default_rng(0)))
    for seed in SEEDS:
        cases = [case for case in exercise.tried(np.random.default_rng(seed)) if case.dtype == "float64"]
        for case in cases:
            yield Try("other cases of the same sizes", (case,), differentiate=differentiate)
            if seed - SEEDS[0] < VARIED:
                yield from _varied(case, differentiate)
        if seed - SEEDS[0] < VARIED:
            for one, other in itertools.pairwise(cases):
                if one.build == other.build:
                    yield Try("calls in turn", (one, other, one))
    for group in further(exercise.name, np.random.default_rng(2000)):
        for case in group:
            yield Try("other sizes", (case,), differentiate=differentiate)
            yield Try("other sizes, float32", (case,), dtype="float32")
        yield Try("calls in turn", (*group, group[0]))
        yield Try("calls in turn, training mode", (*group, group[0]), train=True)


def _varied(case: Case, differentiate: bool) -> Iterator[Try]:
    yield Try("training mode", (case,), train=True, differentiate=differentiate)
    if case.single:
        yield Try("float32", (case,), dtype="float32")
    yield Try("not contiguous", (case,), contiguous=False, differentiate=differentiate)
    another = replace(case, inputs=tuple(_flipped(value) for value in case.inputs))
    yield Try("calls in turn", (case, another, case))
    if _holds_shares(case) or not case.single:
        return
    masked = any(isinstance(v, np.ndarray) and v.dtype.kind == "b" for v in case.inputs)
    largest = max((float(np.abs(v).max(initial=0.0)) for v in case.inputs if _floats(v)), default=0.0)
    for factor in (30.0 if masked else 1e3, 1e-3, 0.0):
        if factor * largest > LARGEST:
            continue
        inputs = tuple(factor * v if _floats(v) else v for v in case.inputs)
        label = f"{case.label}, times {factor:g}"
        yield Try("extreme numbers", (replace(case, inputs=inputs, label=label),), differentiate=differentiate)
        yield Try("extreme numbers, float32", (replace(case, inputs=inputs, label=label),), dtype="float32")


def _holds_shares(case: Case) -> bool:
    """Whether an input holds rows of weights that add up to 1, and must go on doing so."""
    return any(_floats(v) and v.ndim and v.shape[-1] > 1 and np.allclose(v.sum(-1), 1) for v in case.inputs)


def _floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _flipped(value: Any) -> Any:
    return value[::-1].copy() if _floats(value) and value.ndim else value


# --- Running -----------------------------------------------------------------------------------------------------


def _done(exercise: Exercise, target: Any, one: Try, layout: Layout = ()) -> _Done:
    done = _Done()
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, one.dtype))
    try:
        call = _built(target, one, layout) if inspect.isclass(target) else target
        for number, case in enumerate(one.calls):
            _called(exercise, call, case, one, number, layout, done)
    except Exception as error:
        done.error = f"raises {type(error).__name__}"
    finally:
        torch.set_default_dtype(before)
    return done


def _built(target: Any, one: Try, layout: Layout) -> nn.Module:
    """An object with parameters that are the same for all who have them."""
    torch.default_generator.manual_seed(0)  # manual_seed itself asks every kind of device, which takes 3 ms
    module = target(*one.calls[0].built_with)
    if one.dtype == "float64":
        module.double()
    module.train(one.train)
    named = dict(module.named_parameters())
    with torch.no_grad():
        for name in named:
            parameter = named.get(_exchanged(name, layout), named[name])
            shape, rng = parameter.shape, np.random.default_rng(zlib.crc32(name.encode()))
            if len(shape) > 1:
                values = rng.normal(0.0, 1.5 / np.sqrt(shape[-1] or 1), shape)
            else:
                values = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
            if parameter.requires_grad:  # others are tables and constants of the student's own
                parameter.copy_(torch.from_numpy(np.asarray(values)))
    return module


def _called(exercise: Exercise, call: Any, case: Case, one: Try, number: int, layout: Layout, done: _Done) -> None:
    inputs, leaves, before = [], [], []
    for value in case.inputs:
        value = probe.made(value)
        if isinstance(value, np.ndarray):
            value = value.astype(one.dtype) if value.dtype.kind == "f" else value.copy()
            if not one.contiguous:
                value = np.asfortranarray(value)
            before.append(value.copy())
            if exercise.library == "torch":
                value = torch.from_numpy(value)
                if value.is_floating_point() and one.differentiate:
                    leaves.append(value.requires_grad_())
                    value = value.view_as(value)
        inputs.append(value)
    torch.default_generator.manual_seed(number)
    output = _in_turns(call, inputs, case)
    parts = list(output) if isinstance(output, list | tuple) else [output]
    done.seen.append(f"{len(parts)} results")
    for part in parts:
        array = part.detach().numpy() if isinstance(part, Tensor) else part
        if not isinstance(array, np.ndarray | np.generic):
            done.seen.append(type(part).__name__)
            continue
        done.arrays.append(np.array(array))
        done.dtypes.append(str(array.dtype))
    arrays = [value for value in inputs if isinstance(value, Tensor | np.ndarray)]
    now = [value.detach().numpy() if isinstance(value, Tensor) else value for value in arrays]
    changed = not all(np.array_equal(a, b) for a, b in zip(now, before, strict=True))
    done.seen.append("its input changed" if changed else "its input unchanged")
    if not one.differentiate:
        return
    own = dict(call.named_parameters()) if isinstance(call, nn.Module) else {}
    named = {name: own[there] for name in own if (there := _exchanged(name, layout)) in own}
    wanted = {f"input {n}": leaf for n, leaf in enumerate(leaves)}
    wanted |= {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    gradients = {name: np.zeros(tensor.shape) for name, tensor in wanted.items()}
    rng = np.random.default_rng(9)
    pairs = [(p, torch.from_numpy(rng.normal(size=p.shape)).to(p.dtype)) for p in parts if isinstance(p, Tensor)]
    pairs = [(part, given) for part, given in pairs if part.requires_grad and part.is_floating_point()]
    if pairs and wanted:
        outputs, given = zip(*pairs, strict=True)
        tensors = torch.autograd.grad(outputs, list(wanted.values()), given, allow_unused=True, materialize_grads=True)
        gradients = {name: gradient.numpy() for name, gradient in zip(wanted, tensors, strict=True)}
    done.gradients.append(gradients)


def _in_turns(call: Any, inputs: list[Any], case: Case) -> Any:
    if case.steps is None:
        return call(*inputs)
    outputs, state = [], None
    for piece in inputs[0].split(case.steps, dim=1):
        output, state = call(piece, *inputs[1:], state)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def _different(wanted: _Done, got: _Done, dtype: str) -> str:
    if got.error:
        return got.error
    if wanted.seen != got.seen:
        return next(f"{b} in place of {a}" for a, b in itertools.zip_longest(wanted.seen, got.seen) if a != b)
    if len(wanted.arrays) != len(got.arrays):
        return "more or fewer arrays"
    for a, b in zip(wanted.arrays, got.arrays, strict=True):
        if how := _unlike(a, b, dtype):
            return how
    for ours, theirs in zip(wanted.gradients, got.gradients, strict=True):
        for name, a in ours.items():
            if how := _unlike(a, theirs.get(name, np.zeros(a.shape)), dtype):
                return f"gradient of {name} {how}"
    return ""


def _unlike(a: np.ndarray, b: np.ndarray, dtype: str) -> str:
    """How b is not a, up to rounding; "" if it is."""
    if a.shape != b.shape:
        return f"shape {b.shape} in place of {a.shape}"
    if a.dtype.kind != b.dtype.kind:
        return f"{b.dtype} in place of {a.dtype}"
    if a.dtype.kind != "f":
        return "" if np.array_equal(a, b) else "other values"
    size = max(1e-3, float(np.abs(a).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b)
        return "" if np.all(off <= NEAR[dtype] * size) else f"off by {off.max():.2g} of {size:.2g}"


# --- Parameters --------------------------------------------------------------------------------------------------


def _layout(exercise: Exercise, original: Any, changed: Any) -> Layout | None:
    """Which parts of its objects the changed one has exchanged; None if it does not do the same however they lie."""
    case = next(c for c in exercise.cases(np.random.default_rng(SEEDS[0])) if c.dtype == "float64")
    ours, theirs = (_shapes(target, case) for target in (original, changed))
    if not ours.keys() <= theirs.keys():
        return None
    one = Try("", (case,))
    wanted = _done(exercise, original, one)
    for layout in _layouts(ours):
        if all(shape == theirs[_exchanged(name, layout)] for name, shape in ours.items()):
            got = _done(exercise, changed, one, layout)
            if not _different(wanted, got, "float64"):
                return layout
    return None


def _shapes(target: Any, case: Case) -> dict[str, tuple[int, ...]]:
    """Of all that is trained; a table that is not may be kept in any way."""
    named = target(*case.built_with).named_parameters()
    return {name: tuple(parameter.shape) for name, parameter in named if parameter.requires_grad}


def _layouts(names: Iterable[str]) -> Iterator[Layout]:
    """Nothing exchanged; then two parts of one object, of the same make; then two such exchanges."""
    yield ()
    members: dict[tuple[str, ...], dict[str, set[tuple[str, ...]]]] = {}
    for name in names:
        parts = tuple(name.split("."))
        for n, part in enumerate(parts):
            owner = tuple("*" if one.isdigit() else one for one in parts[:n])
            members.setdefault(owner, {}).setdefault(part, set()).add(parts[n + 1 :])
    swaps = [
        (owner, one, other)
        for owner, inside in members.items()
        for one, other in itertools.combinations(inside, 2)
        if inside[one] == inside[other]
    ]
    for swap in swaps:
        yield (swap,)
    yield from itertools.islice(itertools.permutations(swaps, 2), 600)


def _exchanged(name: str, layout: Layout) -> str:
    """The name of what stands in a parameter's place."""
    parts = name.split(".")
    for owner, one, other in layout:
        n = len(owner)
        if len(parts) > n and all(b in ("*", a) for a, b in zip(parts, owner, strict=False)):
            parts[n] = {one: other, other: one}.get(parts[n], parts[n])
    return ".".join(parts)


def _at_the_start(exercise: Exercise, original: Any, changed: Any, layout: Layout) -> dict[str, str]:
    """Differences of the objects as they were built: values that parameters start from, and what is trained."""
    found: dict[str, str] = {}
    case = next(iter(exercise.cases(np.random.default_rng(SEEDS[0]))))
    built = []
    try:
        torch.use_deterministic_algorithms(True)  # what is never set is then NaN
        for target in (original, changed):
            torch.default_generator.manual_seed(0)
            built.append(dict(target(*case.built_with).named_parameters()))
    finally:
        torch.use_deterministic_algorithms(False)
    more = [name for name, p in built[1].items() if p.requires_grad and name not in built[0]]
    if more:
        found["more parameters"] = f"{more[0]} is trained too"
    for name, a in built[0].items():
        own = _exchanged(name, layout)
        b = built[1].get(own)
        if b is None:
            continue  # a table that is kept in another way
        if a.requires_grad != b.requires_grad:
            found["what is trained"] = f"{own} {'is' if b.requires_grad else 'is not'} trained"
        x, y = (t.detach().double().flatten() for t in (a, b))
        if not x.numel() or torch.equal(x, y):
            continue
        if bool(y.isnan().any()):
            found["uninitialised"] = f"{own} starts from whatever lies in memory"
            continue
        flat = [bool((t == t[0]).all()) for t in (x, y)]
        spread = [float(t.pow(2).mean().sqrt()) for t in (x, y)]
        if flat != [False, False] or not 0.5 < spread[1] / max(spread[0], 1e-12) < 2:
            found["start values"] = f"{own} starts from {_said(y)}, not {_said(x)}"
    return found


def _said(values: Tensor) -> str:
    if bool((values == values[0]).all()):
        return f"{float(values[0]):.4g}"
    return f"numbers of about {float(values.pow(2).mean().sqrt()):.2g}"


# --- Without an original to equal --------------------------------------------------------------------------------


def _judged(exercise: Exercise, original: Any, changed: Any) -> dict[str, str]:
    """Where the parameters are others, such as one bias more: whether the judge, who can read them in many ways,
    accepts further sizes as it does from the original."""
    differentiate = any(case.differentiate for case in exercise.cases(np.random.default_rng(0)))
    for group in further(exercise.name, np.random.default_rng(2000)):
        cases = [replace(case, tag="values", differentiate=differentiate) for case in group]
        asked = replace(
            exercise,
            cases=lambda rng, cases=cases: cases,
            drawn=None,
            criteria=(Criterion("values", "values", 0.5), Criterion("gradients", "gradients", 0.5)),
            mistakes=(),
            variation=None,
            stages=None,
            properties=(),
        )
        first, second = (
            judge(asked, lambda request, target=target: probe.answer(request, target), 0)
            for target in (original, changed)
        )
        if first.passed and not second.passed:
            return {"other parameters": f"{cases[0].label}: {second.headline}"}
    return {}


def _measured(exercise: Exercise, changed: Any) -> dict[str, str]:
    """Where every criterion measures, there is no original to equal: few inputs at a time must be measured as well."""
    found: dict[str, str] = {}
    for seed in SEEDS[:2]:
        cases = exercise.cases(np.random.default_rng(seed))
        wholes = [call for call in (_whole(changed, case, len(case.answer)) for case in cases)]
        for case, whole in zip(cases, wholes, strict=True):
            for size in (1, 2, 7):
                part = _whole(changed, case, size)
                if whole is None or part is None or not np.array_equal(part.argmax(-1), whole[:size].argmax(-1)):
                    found["other sizes"] = f"{size} at a time"
    return found


def _whole(target: Any, case: Case, count: int) -> np.ndarray | None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        return target(torch.from_numpy(case.inputs[0][:count].copy())).detach().numpy()
    except Exception:
        return None
    finally:
        torch.set_default_dtype(before)
