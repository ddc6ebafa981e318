"""What the student's code gets beside arrays and plain values: functions, models, caches, made from plain data."""

import contextlib
import functools
import itertools
import math
import types
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from .wire import array

PLAIN = (bool, int, float, str, type(None))  # values of attributes that can be told apart
GIVEN = "given"  # the module that the classes of a model among the inputs say they are from


def _ids(tokens: Any, who: str) -> torch.Tensor:
    """Token ids as an embedding takes them: int32 or int64; TypeError if it is nothing of the kind."""
    if not isinstance(tokens, torch.Tensor) or tokens.dtype not in (torch.int32, torch.int64):
        kind = tokens.dtype if isinstance(tokens, torch.Tensor) else type(tokens).__name__
        if isinstance(tokens, torch.Tensor) and tokens.is_floating_point():  # of the probe's default dtype, often
            kind = "floating-point numbers"
        raise TypeError(f"{who} a tensor of token ids, whose dtype is torch.int64; it got {kind}")
    return tokens.long()


def _next_logits(
    rows: np.ndarray, before: np.ndarray, end: int | None = None, most: int | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A stand-in for a decoder: what comes next depends on the row, the place, and every token so far and its place.

    Args:
        rows: `(batch, places, n_target)`, what each row adds at each place.
        before: `(places, n_target, n_target)`, what a token at a place adds there and at all places after it.
        end: the id after which a row is done; if given, it refuses texts that were written on when all rows were done
            or had `most` tokens after their first one.
    """
    own, added = torch.from_numpy(rows.copy()), torch.from_numpy(before.copy())
    batch, places, _ = own.shape
    lengths = list[int]()  # of the texts that it got; one with filler in it tells nothing of what is written

    def logits_of(tokens: torch.Tensor) -> torch.Tensor:
        tokens = _ids(tokens, "next_logits takes")
        if tokens.dim() != 2 or len(tokens) != batch or not 1 <= tokens.size(1) <= 8 * places:
            raise ValueError(
                f"next_logits takes token ids of shape (batch, t), here with batch {batch} and t from 1 to "
                f"{8 * places}; it got shape {tuple(tokens.shape)}"
            )
        if tokens.size(1) == 1:  # texts begin
            lengths.clear()
        lengths.append(tokens.size(1))
        if end is not None and lengths[0] == 1 and all(later - n in (0, 1) for n, later in itertools.pairwise(lengths)):
            if bool((tokens[:, 1:-1] == end).any(1).all()):
                raise ValueError("next_logits got a token that was written after every row had written its end token")
            if tokens.size(1) > 1 + (most or places):
                raise ValueError(f"next_logits got more than max_tokens={most} tokens that were written")
        place = torch.arange(tokens.size(1)) % places
        return own[:, place] + added[place, tokens].cumsum(1)

    def next_logits(tokens: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, t) → logits (batch, t, n_target) of what follows each of them."""
        return _firmly(next_logits, logits_of, tokens)

    return next_logits


def _firmly(who: Any, call: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    """Call it, and keep what it raises: `refusal` finds it even if the student's code goes on."""
    try:
        return call(*args)
    except Exception as error:
        who.refused = error
        raise


def refusal(inputs: Iterable[Any]) -> Exception | None:
    """What a stand-in among the inputs has refused to do since this was last asked; None if nothing."""
    for value in inputs:
        if (error := getattr(value, "refused", None)) is not None:
            value.refused = None
            return error
    return None


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
        return _firmly(self, self._logits_of, ids, cache)

    def _logits_of(self, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        ids = _ids(ids, "the model takes")
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


class Cache:
    """A stand-in for `headroom.reference.KeyValueCache` that holds tokens already.

    Args:
        keys, values: of earlier tokens, `(batch, groups, tokens, d_head)`.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray):
        self.earlier = self.keys, self.values = torch.from_numpy(keys.copy()), torch.from_numpy(values.copy())

    def __len__(self) -> int:
        return self.keys.size(-2)

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep those of new tokens. Returns all, the new ones last."""
        batch, groups, _, d_head = self.keys.shape
        for name, given in (("keys", keys), ("values", values)):
            if given.dim() != 4 or (given.size(0), given.size(1), given.size(3)) != (batch, groups, d_head):
                raise ValueError(
                    f"the cache keeps {name} of shape (batch, n_groups, tokens, d_head), here ({batch}, {groups}, "
                    f"tokens, {d_head}); it got {tuple(given.shape)}"
                )
        new, n_before = keys.size(2), self.keys.size(2)
        if n_before - new >= self.earlier[0].size(2) and torch.equal(self.keys[:, :, n_before - new :], keys):
            raise ValueError("the cache was given the same tokens twice in one call")
        self.keys = torch.cat((self.keys.to(keys.dtype), keys), dim=2)
        self.values = torch.cat((self.values.to(values.dtype), values), dim=2)
        return self.keys, self.values

    def to(self, where: Any) -> "Cache":
        """With all that it holds of another dtype, or on another device."""
        self.earlier = self.keys, self.values = self.keys.to(where), self.values.to(where)
        return self

    def kept(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of all tokens so far."""
        return self.keys, self.values


@functools.lru_cache(maxsize=8)
def _compiled(source: str) -> types.CodeType:
    """As if it were in this file, so that an error shows no lines of it."""
    return compile(source, made.__code__.co_filename, "exec")


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
    for n, parameter in enumerate(module.parameters()):
        parameter.requires_grad_(n > 0)  # not all of a model need be trained
        parameter.grad = torch.ones_like(parameter) if n == 1 else None  # of a step that somebody has begun
        vars(parameter)[GIVEN] = True
    return module.train(training)


_alike: dict[str, dict[str, Any]] | None = None  # what sources of classes define, while all calls of a request share it


@contextlib.contextmanager
def of_one_class(shared: bool) -> Generator[None]:
    """Let models whose classes come as the same source be of the same class meanwhile, if they are to share it."""
    global _alike
    _alike = {} if shared else None
    try:
        yield
    finally:
        _alike = None


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
    "cache": Cache,
    "module": _module,
}


def made(value: Any) -> Any:
    """An input as the target gets it: plain data `{"$make": name, …}` becomes what `MADE[name]` makes of the rest."""
    if not isinstance(value, dict):
        return value
    rest = dict(value)
    return MADE[rest.pop("$make")](**rest)


def models(inputs: Iterable[Any]) -> list[nn.Module]:
    """The models among the inputs whose class came with them; a stand-in of this file is none of those."""
    return [value for value in inputs if isinstance(value, nn.Module) and type(value).__module__ == GIVEN]


def writers(inputs: Iterable[Any]) -> list[_Writer]:
    """The stand-ins among the inputs that write texts."""
    return [value for value in inputs if isinstance(value, _Writer)]


def empty_caches(inputs: Iterable[Any]) -> list[Cache]:
    """The caches among the inputs that hold no token."""
    return [value for value in inputs if isinstance(value, Cache) and not len(value)]


def other(value: Any) -> Any:
    """Another input of the same shape that makes sense wherever this one does: for the judge as well, as an array."""
    if isinstance(value, np.ndarray):
        return other(torch.from_numpy(value.copy())).numpy()
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bool:
        return torch.ones_like(value)  # a mask that hides nothing
    return -value if value.is_floating_point() else value.flip(int(len(value) == 1 < value.dim()))


def another_text(inputs: list[Any]) -> list[Any] | None:
    """The inputs of a call after which another text's cache has as many tokens as the one among these has before it.

    None where there is no cache, or one of fewer tokens than are new.
    """
    cache = next((value for value in inputs if isinstance(value, Cache)), None)
    if cache is None or len(cache) < (new := inputs[0].size(1)):
        return None
    shorter, keys = (-part[:, :, new:].numpy() for part in cache.earlier), len(cache) + new
    others = [other(value) for value in inputs]
    masks = [isinstance(value, torch.Tensor) and value.dtype == torch.bool for value in inputs]
    others = [o[..., new:] if mask and o.size(-1) == keys else o for o, mask in zip(others, masks, strict=True)]
    return [Cache(*shorter) if value is cache else value for value in others]


def refilled(kept: list[Any], inputs: list[Any]) -> list[Any]:
    """The inputs, in the arrays, tensors and models of the call before wherever these are laid out alike."""
    filled = list(inputs)
    for i, (old, new) in enumerate(zip(kept, inputs, strict=False)):
        if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
            if (old.shape, old.dtype, old.strides) == (new.shape, new.dtype, new.strides):
                old[...] = new
                filled[i] = old
        elif isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            alike = (old.shape, old.dtype, old.stride()) == (new.shape, new.dtype, new.stride())
            filled[i] = old.copy_(new) if alike and not old.requires_grad else new
        elif models([new]) and isinstance(old, nn.Module) and _laid_out(old) == _laid_out(new):
            old.load_state_dict(new.state_dict())  # as after a step of training
            filled[i] = old
    return filled


def _laid_out(model: nn.Module) -> list[Any]:
    """What two models have in common of which one can take the other's parameters: classes, attributes and shapes."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    return [
        *((type(part), {n: v for n, v in vars(part).items() if isinstance(v, PLAIN)}) for part in model.modules()),
        *((name, value.shape, value.dtype, value.requires_grad) for name, value in tensors),
    ]


def state(module: nn.Module) -> dict[str, Any]:
    """What a call may leave behind on a model that it was given: arrays and plain values, by what they are.

    That is every parameter with its gradient, buffer, hook and attribute, and each method of its classes that is no
    longer the one they came with.
    """
    found: dict[str, Any] = {}
    for path, owner in module.named_modules():
        at, within = (f"`{path}`", f"{path}.") if path else ("all of it", "")
        found[f"the class of {at}"] = type(owner).__name__
        for name, value in vars(owner).items():
            if "_hooks" in name:
                for hook in value.values() if isinstance(value, dict) else ():
                    known = hook is _somebody_elses
                    hooks = f"the earlier hook on {at}" if known else f"the list of hooks on {at}"
                    found[hooks] = found.get(hooks, 0) + 1
            elif name not in ("_parameters", "_buffers", "_modules"):
                found[f"`{within}{name}`"] = value if isinstance(value, PLAIN) else type(value).__name__
        for name, parameter in owner.named_parameters(recurse=False):
            found |= {f"`{within}{name}`": array(parameter), f"`{within}{name}.requires_grad`": parameter.requires_grad}
            found[f"`{within}{name}` (as an object)"] = GIVEN in vars(parameter)
            if parameter.grad is not None:
                found[f"`{within}{name}.grad`"] = array(parameter.grad)
        for name, buffer in owner.named_buffers(recurse=False):
            found[f"`{within}{name}`"] = array(buffer)
        for kind in type(owner).__mro__:
            for name, value in vars(kind).items() if kind.__module__ == GIVEN else ():
                if isinstance(value, types.FunctionType):
                    own = value.__code__.co_filename == made.__code__.co_filename
                    found[f"`{kind.__name__}.{name}`"] = "as it came" if own else "another"
    return found
