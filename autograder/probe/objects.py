"""The objects that the student's class makes: what hangs on them, registered or not, and how they are moved."""

import contextlib
import functools
import types
from typing import Any

import torch
from torch import nn

from .wire import MAX_NAMES

CACHED = type(functools.cache(len))  # a function with a cache
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # which `to` leaves as they are
MOVES, HELD = "_apply", ("_parameters", "_buffers")  # what `to` calls of each module, and what of a module it moves


def unregistered(module: nn.Module) -> dict[str, torch.Tensor]:
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


def in_common(target: Any) -> dict[str, int]:
    """How much is in what all objects of a class have in common: containers of it or of its module, and caches."""
    found: dict[str, int] = {}
    for owner in target.__mro__ if isinstance(target, type) else ():
        if owner.__module__ != target.__module__:
            continue
        own = {f"{owner.__name__}.{name}": value for name, value in vars(owner).items()}
        for function in [value for value in vars(owner).values() if isinstance(value, types.FunctionType)]:
            space = function.__globals__
            own |= {name: space[name] for name in function.__code__.co_names if name in space}
        for name, value in own.items():
            if isinstance(value, dict | list | set):
                found[name] = len(value)
            elif isinstance(value, CACHED):
                found[name] = value.cache_info().currsize
    return found


def loose(module: nn.Module) -> list[dict[str, str]]:
    """Tensors and layers that hang on the module where `parameters()` cannot see them."""
    registered = {id(parameter) for parameter in module.parameters()}
    found = []
    for owner in module.modules():
        for name, value in vars(owner).items():
            if name in ("_parameters", "_buffers", "_modules") or name.endswith("_hooks"):
                continue
            if isinstance(value, list | tuple | dict) and _holds_weights(value, registered):
                found.append({"name": name, "kind": type(value).__name__})
            elif isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():  # 0 axes: a number
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


def moved(module: Any, where: Any) -> Any:
    """The same object, moved as a part of a model is: what hangs on it, but not by a `to` of its own."""
    if isinstance(module, nn.Module) and not (isinstance(where, torch.dtype) and _is_all(module, where)):
        nn.ModuleList([module]).to(where)
    return module


def _is_all(module: nn.Module, dtype: torch.dtype) -> bool:
    """Whether a module is of a dtype already, and moving it there would do nothing: no part has a way of its own."""
    for part in module.modules():
        if MOVES in vars(part) or getattr(type(part), MOVES) is not getattr(nn.Module, MOVES):
            return False
        for held in HELD:
            tensors = vars(part).get(held)
            if tensors is None or any(t is not None and t.dtype not in (dtype, *WHOLE) for t in tensors.values()):
                return False
    return True


def left_behind(value: Any, device: str, depth: int = 5) -> bool:
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
    return any(left_behind(item, device, depth - 1) for item in items)
