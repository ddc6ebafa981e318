"""What is asked of the student's function or class: to construct, call, differentiate, call under other conditions."""

import contextlib
import copy
import inspect
import json
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from .guards import (
    SETTINGS,
    Watch,
    Watchdog,
    defaulting_to,
    differing,
    forbidding,
    guarded,
    random_numbers_kept,
    settings,
    without_compiler,
)
from .objects import in_common, left_behind, loose, moved, unregistered
from .stand_ins import (
    Cache,
    another_text,
    empty_caches,
    made,
    models,
    of_one_class,
    other,
    refilled,
    refusal,
    state,
    writers,
)
from .wire import MAX_ELEMENTS, MAX_NAMES, MAX_PARTS, MAX_TEXT, array, pack, unpack

MAX_STARTS = 100_000  # numbers of a parameter whose start is told
SECONDS = 20.0  # of processor time that all cases of a request may take where it does not say
STILL_EMPTY = "an empty cache is still empty after the call; note that `if cache:` is false for an empty one"
NO_PAIR = "a call returns a {}; the next call needs two things of it, the output and the cache"
KEPT = (dict, list, set, torch.Tensor, np.ndarray)  # in what a function may keep something between calls


def answer(request: bytes, target: Any) -> bytes:
    """Do what a packed request asks with `target`, the student's function or class, and pack what happened.

    Four requests exist. `{"do": "describe", "builds": [arguments…]}` constructs the class with each list of
    arguments and says which parameters it has. `{"do": "run", "cases": […]}` constructs, loads weights, calls,
    and, where a case gives a cotangent, differentiates, every case on an object of its own.
    `{"do": "look", "cases": […]}` only calls, under other conditions: see `_look`. The reply is a list with one dict
    per build or case. `{"do": "each", "asks": […]}` holds several of the others, and the reply is that to the first,
    and then that to the next. Once their time is up, nothing more is done.

    `"forbidden"` lists operations, as `kernels` does, that raise `Forbidden` until the reply's bytes are made.
    """
    ask = unpack(request)
    with (
        forbidding(ask.get("forbidden", [])),
        random_numbers_kept(),
        Watchdog(ask.get("seconds", SECONDS)) as watchdog,
    ):
        replies = list[dict[str, Any]]()
        for one in ask["asks"] if ask["do"] == "each" else [ask]:
            with of_one_class(bool(one.get("shared"))):
                replies += [guarded(task, watchdog) for task in _work(target, one)]
        return pack(replies)


def _work(target: Any, ask: dict[str, Any]) -> list[Callable[[], dict[str, Any]]]:
    """What is to be done for each build or case of a request."""
    if ask["do"] == "describe":
        return [lambda n=n, args=args: _describe(target, args, n == 0) for n, args in enumerate(ask["builds"])]
    if ask["do"] == "look":
        objects: dict[str, Any] = {}
        return [lambda case=case: _look(target, case, objects, ask) for case in ask["cases"]]
    return [lambda case=case: _run(target, case) for case in ask["cases"]]


def _describe(target: Any, args: list[Any], twice: bool) -> dict[str, Any]:
    """The parameters of an object; if `twice`, of two, also the name of one that both have, and where building kept
    something that the next object finds."""
    before = in_common(target) if twice else {}
    module = _built(target, args, torch.float64)
    if not isinstance(module, nn.Module):
        return {"not_a_module": type(module).__name__}
    parameters = []
    for name, parameter in list(module.named_parameters())[: MAX_NAMES + 1]:
        start = array(parameter) if parameter.numel() <= MAX_STARTS else None
        description = {"name": name, "shape": list(parameter.shape), "trained": parameter.requires_grad, "start": start}
        parameters.append(description)
    hidden = [{"name": n, "shape": list(t.shape), "trained": True} for n, t in unregistered(module).items()]
    reply: dict[str, Any] = {"parameters": parameters, "loose": loose(module), "unregistered": hidden[:MAX_NAMES]}
    if twice:
        others = {id(parameter) for parameter in _built(target, args, torch.float64).parameters()}
        reply["kept"] = next((name for name, size in in_common(target).items() if size > before.get(name, 0)), "")
        reply["shared"] = next((name for name, one in module.named_parameters() if id(one) in others), "")
    return reply


def _run(target: Any, case: dict[str, Any]) -> dict[str, Any]:
    dtype = getattr(torch, case["dtype"])
    torch.set_default_dtype(dtype)
    call, weights, before = target, {}, settings()
    if "build" not in case:
        call = _apart(target)
    else:
        call = _built(target, case["build"], dtype).train(bool(case.get("training")))
        weights = _load(call, case)

    inputs = _inputs(case, dtype)
    leaves = [value for value in inputs if isinstance(value, torch.Tensor)]
    # Not the leaves, so that code which writes into its input can be seen doing it.
    inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]

    trace = bool(case.get("trace"))
    watch = Watch(trace) if trace or case.get("watch") else None
    before["random numbers"] = SETTINGS["random numbers"]()  # what is built may draw some
    with watch or contextlib.nullcontext():
        output = _called(call, inputs, weights, case)
    left = differing(before)
    reply, parts = _result(output, case)
    reply |= {"arguments": _arguments(call), "settings": left}
    if watch:
        reply |= {"called": watch.names(), "traced": watch.numbers()}
    if not parts:
        return reply
    arrays = [value for value in inputs if isinstance(value, torch.Tensor | np.ndarray)]
    reply["inputs_after"] = [array(a) if isinstance(a, torch.Tensor) else a for a in arrays]
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
                gradients = list(torch.autograd.grad(weighted(pairs), wanted, allow_unused=True))
            except RuntimeError as error:
                reply["backward_error"] = str(error)[:MAX_TEXT]
        found = [None if gradient is None else array(gradient) for gradient in gradients]
        split = len(found) - len(inside)
        reply["input_gradients"] = found[:split]
        reply["weight_gradients"] = dict(zip(inside, found[split:], strict=True))
    return reply


def _look(target: Any, case: dict[str, Any], objects: dict[str, Any], how: dict[str, Any]) -> dict[str, Any]:
    """Call once more, under other conditions. The result must be that of a fresh object all the same.

    Args:
        objects: those built so far, by their arguments.
        how: `"shared"`: one object for all cases that are built alike, or one function, call after call, with the same
            arrays and tensors filled anew, but for a case that wants new ones, `"anew"`; `"training"`: in training
            mode, where a case does not say itself; `"strided"`: inputs that are not contiguous in memory; `"drawn"`:
            PyTorch's random numbers are others than at the first call; `"device"`: the object and its inputs moved
            there after a first call; `"default"`: PyTorch's default dtype, else that of the case.

    Returns:
        what is replied of a result; also which input, parameter and settings the call has changed, and whether what an
        earlier call on a shared object had returned is `"rewritten"`.
    """
    dtype, device = getattr(torch, case["dtype"]), how.get("device", "cpu")
    torch.set_default_dtype(getattr(torch, how.get("default", case["dtype"])))
    call, weights = target, {}
    inputs = [value.detach() if isinstance(value, torch.Tensor) else value for value in _inputs(case, dtype)]
    if "build" not in case:
        call = objects.setdefault("function", _apart(target)) if how.get("shared") else _apart(target)
    else:
        key = json.dumps([case["build"], case["dtype"]])
        call = objects.get(key) if how.get("shared") else None
        if call is None:
            call = objects[key] = _built(target, case["build"], dtype)
            if device != "cpu":
                with contextlib.suppress(Exception):  # it makes what it makes when it is called for the first time
                    call(*inputs)
                moved(call, device)
        call.train(bool(case.get("training", how.get("training"))))
        weights = _load(call, case)
    if how.get("strided"):
        inputs = [_strided(value) for value in inputs]
    if device != "cpu":
        holds_nothing = not left_behind(call, "anywhere")  # and makes what it needs when it is called
        if not holds_nothing and not left_behind(call, device):
            return {}
        inputs = [value.to(device) if isinstance(value, torch.Tensor | Cache) else value for value in inputs]
        with without_compiler():
            return {"type": _kind(_called(call, inputs, weights, case))}
    if how.get("shared"):
        kept = [] if case.get("anew") else objects.get("inputs", [])
        inputs = objects["inputs"] = refilled(kept, inputs)
        for writer in writers(inputs):
            _called(call, [other(value) for value in inputs], weights, case)  # the same model has written another
            writer.renew()
        if (text := another_text(inputs)) is not None:
            _called(call, text, weights, case)  # whose cache is as long now as the one of this text
    if how.get("shared") and "steps" in case:
        case = case | {"beside": [other(value) for value in inputs[:1]]}
    used = "build" in case and not call.training  # as a trained model is: without gradients
    given = {n: torch.as_tensor(v).clone() for n, v in enumerate(inputs) if isinstance(v, torch.Tensor | np.ndarray)}
    with torch.set_grad_enabled(not used):
        if how.get("drawn"):
            torch.rand(1, dtype=torch.float32)
        before = settings()
        output = _called(call, inputs, weights, case)
        left = differing(before)
        reply, parts = _result(output, case)
    reply["settings"] = left
    if how.get("shared") and empty_caches(inputs):
        raise ValueError(STILL_EMPTY)
    if "steps" not in case:  # between whose calls the probe changes them itself
        loaded = (
            (name, torch.from_numpy(value).to(weights[name].dtype)) for name, value in case.get("weights", {}).items()
        )
        reply["moved"] = next((name for name, before in loaded if not _equal(before, weights[name].detach())), "")
    reply["changed"] = next((n for n, before in given.items() if not _equal(before, torch.as_tensor(inputs[n]))), None)
    if how.get("shared"):
        reply["rewritten"] = not all(_equal(*pair) for pair in objects.get("results", ()))
        others = [*inputs, *weights.values(), *(call.buffers() if isinstance(call, nn.Module) else ())]
        lent = {_storage(value) for value in others if isinstance(value, torch.Tensor)} | {None}
        arrays = [value for value in inputs if isinstance(value, np.ndarray)]
        own = [part for part in parts if _storage(part) not in lent and not _lies_in(part, arrays)]
        objects["results"] = [(part, part.detach().clone()) for part in own]
    return reply


def _storage(tensor: torch.Tensor) -> int | None:
    """Where a tensor's numbers lie; None where that is no single place, as for a sparse one."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError, ValueError):
        return None


def _lies_in(tensor: torch.Tensor, arrays: list[np.ndarray]) -> bool:
    """Whether a tensor may be a view of one of some arrays."""
    return any(np.may_share_memory(tensor.detach().numpy(), given) for given in arrays)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same; NaN is the same as NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def weighted(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """The sum of all numbers of some results, each times its cotangent: its gradients are those with the cotangents.

    torch imports SymPy for cotangents that it is given itself, which takes half a second.
    """
    return sum((result * cotangent).sum() for result, cotangent in pairs)


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
        return moved(target(*arguments), dtype)
    except RuntimeError:  # it mixes its own float32 with torch's default, which it cannot know to be another one
        with defaulting_to(torch.float32):
            return moved(target(*arguments), dtype)


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


def _inputs(case: dict[str, Any], dtype: torch.dtype) -> list[Any]:
    """The arguments of a call: leaves, where gradients are asked for."""
    inputs = []
    for value in case["inputs"]:
        value = made(value)
        if isinstance(value, nn.Module | Cache):
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
    """The result; what a stand-in has refused is raised, even where the student's code has gone on without it."""
    if "steps" in case:
        return _in_turns(call, inputs, weights, case)
    refusal(inputs)
    try:
        output = call(*inputs)
    except RuntimeError:
        floats = any(isinstance(v, torch.Tensor | np.ndarray | dict) for v in inputs)
        if floats or "build" in case or torch.get_default_dtype() == torch.float32:
            raise
        with defaulting_to(torch.float32):  # see `_built`: nothing that it was given says another one
            output = call(*inputs)
    if (error := refusal(inputs)) is not None:
        raise error
    return output


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
    reply["output"] = [array(part) for part in parts]
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
    # Slices, not `split`: what that returns may not be written into.
    cuts = [slice(end - size, end) for end, size in zip(np.cumsum(case["steps"]), case["steps"], strict=True)]
    others = [value[:, cut] for value in case.get("beside", ()) for cut in cuts]
    other_state = None
    for turn, cut in enumerate(cuts):
        if turn and case["drift"] != 1:
            with torch.no_grad():
                for weight in weights.values():
                    weight.mul_(case["drift"])
        if others:
            call(others[turn], *rest, state)
        result = call(first[:, cut], *rest, state)
        if not isinstance(result, list | tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
            if len(cuts) > 1:
                raise TypeError(NO_PAIR.format(_kind(result)))
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
        found = unregistered(module)
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
    if isinstance(part, torch.Tensor):
        return part
    numbers = np.asarray(part)
    # Where it can, the tensor shares the array's memory: so a later call can be seen writing into it.
    return torch.from_numpy(numbers if numbers.flags.c_contiguous and numbers.flags.writeable else numbers.copy())
