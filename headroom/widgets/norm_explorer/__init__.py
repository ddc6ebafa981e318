"""Look at normalisation: which numbers share a mean and a variance. The front end is view.js."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import traitlets as t
from torch import nn

from headroom import reference
from headroom.figures import ArrayLike
from headroom.widgets.base import Widget, choice, index
from headroom.widgets.checks import check_finite, check_list
from headroom.widgets.picture import Panel
from headroom.widgets.shared import (
    CHOSEN,
    as_array,
    front_end,
    trait_errors,
)

NORMS = {
    "LayerNorm": (reference.LayerNorm, nn.LayerNorm),
    "RMSNorm": (reference.RMSNorm, nn.RMSNorm),
    "BatchNorm": (reference.BatchNorm, nn.BatchNorm1d),
}
NO_NORM = "none"
MAX_SAMPLES, MAX_TOKENS, MAX_FEATURES = 8, 128, 64  # tokens of all samples; more are too small to point at
MAX_SIZE = 1e6  # of a number: beyond it, squares lose the digits that the reader sees
MIN_EPS, MAX_EPS = 1e-12, 100.0


class Numbers(t.TraitType[Any, Any]):
    """Numbers of a fixed shape, as a read-only float64 array: to change one, assign a whole new array."""

    info_text = "an array of finite numbers"

    def validate(self, widget: NormExplorer, value: ArrayLike) -> np.ndarray:
        with trait_errors():
            array = _numbers("x", value)
            if array.shape != widget.shape:
                raise ValueError(
                    f"x has shape {array.shape}; this widget shows {widget.shape}, and a new x must have the same"
                )
        return array


def _to_bytes(array: np.ndarray | None, _widget: NormExplorer) -> bytes:
    return b"" if array is None else array.astype("<f8").tobytes()


def _from_bytes(buffer: memoryview | bytes, widget: NormExplorer) -> np.ndarray:
    return np.frombuffer(buffer, dtype="<f8").reshape(widget.shape)


class NormExplorer(Widget):
    """A small tensor before and after LayerNorm, RMSNorm and BatchNorm, for mouse, keyboard and screen reader.

    The numbers that share a mean and a variance with the chosen one are framed. Any number can be dragged, stepped with
    the arrow keys or typed; the outputs that change are marked, by all norms side by side. The browser does the
    arithmetic, in float64, so the widget answers without Python and goes on working in a saved notebook.

    What the reader does comes back: `x` is the tensor as it stands now, `(batch, tokens, features)` float64 (read-only:
    assign a new one to change it), `output` what the chosen norm makes of it, `selection` what is chosen. Each
    choice can be observed and set. What is hovered or dragged arrives once it rests, never while the
    pointer moves.

    All of `x` is shown, and none of it cut away: the norm of a part is not a part of the norm.

    Args:
        x: `(batch, tokens, features)`, at most 8 samples, 128 tokens in all and 64 features; numbers between −1e6 and
            1e6. On any device, with or without gradients: it is detached and copied.
        norm: what to show first: "LayerNorm", "RMSNorm", "BatchNorm" (over batch and tokens, with the statistics of
            this batch) or "none".
        eps: ε, added to the variance; from 1e-12 to 100.
        gamma, beta: `(features,)`, scale and shift after the normalisation; RMSNorm has no shift. None: 1 and 0.
        tokens: the words that the tokens stand for: a list of `tokens` words, or one such list for each sample.
        module: called once on `x` as it is given, with `x` as a tensor of the module's own type; what it returns is
            compared with ours, and the first index where they differ is named. Its running averages stay as they were.
        sample, token, feature: which number to choose first; negative indices count from the end.

    Raises:
        ValueError: an argument has the wrong shape or values; the message says which, what it got, and what is right.
    """

    _esm, _css = front_end("norm_explorer")

    x = Numbers(None, allow_none=True).tag(**CHOSEN, to_json=_to_bytes, from_json=_from_bytes)
    # Sent once: float64, little-endian, as x. `_theirs` is what the reader's module made of `_start`, or empty.
    _start = t.Bytes().tag(sync=True)
    _theirs = t.Bytes().tag(sync=True)
    _facts = t.Dict().tag(sync=True)  # shape, words, γ and β, and what is known of the module

    norm = choice(t.Enum([*NORMS, NO_NORM], default_value="LayerNorm"))
    sample = index(lambda self: self.shape[0])  # of the chosen number
    token = index(lambda self: self.shape[1])
    feature = index(lambda self: self.shape[2])
    eps = choice(t.Float(1e-5), lambda self, name, value: _check_eps(value))
    affine = choice(t.Bool(True))  # whether γ and β are applied, where there are any
    locked = choice(t.Bool(False))  # True: the pointer no longer moves the choice, and arrow keys change the number

    def __init__(
        self,
        x: ArrayLike,
        *,
        norm: str = "LayerNorm",
        eps: float = 1e-5,
        gamma: ArrayLike | None = None,
        beta: ArrayLike | None = None,
        tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        module: Callable[[torch.Tensor], torch.Tensor] | None = None,
        sample: int = 0,
        token: int = 0,
        feature: int = 0,
    ) -> None:
        if norm not in (*NORMS, NO_NORM):
            names = ", ".join(f'"{name}"' for name in NORMS)
            raise ValueError(f'norm={norm!r} is none of {names} and "{NO_NORM}"')
        array = _numbers("x", x)
        self.shape = _check_shape(array)
        self._scale_and_shift = [
            _per_feature(name, value, self.shape[2]) for name, value in (("gamma", gamma), ("beta", beta))
        ]
        answer, about = (b"", {}) if module is None else _ask(module, array)
        facts = {"shape": self.shape, "words": _words(tokens, *self.shape[:2])}
        facts |= dict(zip(("gamma", "beta"), (_listed(values) for values in self._scale_and_shift), strict=True))
        super().__init__(
            x=array,
            _start=array.tobytes(),
            _theirs=answer,
            _facts=facts | {"module": about},
            norm=norm,
            eps=_check_eps(eps),
        )
        self._choose(sample=sample, token=token, feature=feature)

    @classmethod
    def from_module(cls, module: nn.Module, x: ArrayLike, norm: str | None = None, **start: Any) -> NormExplorer:
        """Show what a live norm does to `x`: with its γ, β and ε, and its own output compared with ours.

        Args:
            module: `LayerNorm`, `RMSNorm` or `BatchNorm` of `headroom.reference`; `LayerNorm`, `RMSNorm` or
                `BatchNorm1d` of `torch.nn`; or any other module with one of these names in its class's name. γ is read
                from its `gamma` or `weight`, β from its `beta` or `bias`, ε from its `eps`.
            x: `(batch, tokens, features)`, what goes into it.
            norm: which norm it is, where its name does not say so.
            start: `tokens`, `sample`, `token`, `feature`, as in the class.

        Raises:
            ValueError: its name says no norm and `norm` is missing; or as the class.
        """
        if norm is None:
            known = [name for name, kinds in NORMS.items() if isinstance(module, kinds)]
            named = [name for name in NORMS if name.lower() in type(module).__name__.lower()]
            if not known + named:
                raise ValueError(
                    f'{type(module).__name__} has none of {", ".join(NORMS)} in its name: say which it is, norm="…"'
                )
            norm = (known + named)[0]
        eps = getattr(module, "eps", cls.eps.default_value)
        if eps is None:  # nn.RMSNorm: the smallest step of the numbers' type
            eps = torch.finfo(torch.float32).eps
        gamma, beta = (_attribute(module, names) for names in (("gamma", "weight"), ("beta", "bias")))
        return cls(x, norm=norm, eps=eps, gamma=gamma, beta=beta, module=module, **start)

    @property
    def output(self) -> np.ndarray:
        """What the chosen norm makes of `x`, as headroom.reference computes it: float64, of the shape of `x`."""
        if self.norm == NO_NORM:
            return self.x.copy()
        module = NORMS[self.norm][0](self.shape[2], self.eps).double()
        with torch.no_grad():
            for name, values in zip(("gamma", "beta"), self._scale_and_shift, strict=True):
                if self.affine and values is not None and hasattr(module, name):
                    getattr(module, name).copy_(torch.tensor(values))
            return module(torch.tensor(self.x)).numpy()

    def _panels(self) -> list[Panel]:
        words = self._facts["words"]
        rows = None if words is None else words[self.sample]
        title = "without a norm" if self.norm == NO_NORM else f"after {self.norm}"
        return [
            Panel(f"x of sample {self.sample + 1}", self.x[self.sample], rows, signed=True),
            Panel(f"Sample {self.sample + 1} {title}", self.output[self.sample], rows, signed=True),
        ]

    def _says(self) -> str:
        samples, tokens, features = self.shape
        return (
            f"{samples} samples of {tokens} tokens with {features} features each, before and after "
            f"{'no norm' if self.norm == NO_NORM else self.norm}. The picture shows sample {self.sample + 1}: tokens "
            "are rows, features columns; purple is above 0, brown below."
        )

    def __repr__(self) -> str:
        samples, tokens, features = self.shape
        return f"NormExplorer({samples} samples × {tokens} tokens × {features} features, {self.norm}, eps={self.eps:g})"


def _numbers(name: str, value: ArrayLike) -> np.ndarray:
    """`value` as a read-only float64 array of finite numbers of a size that can be squared."""
    array = np.array(as_array(name, value), dtype=np.float64)
    check_finite(name, array)
    if array.size and np.abs(array).max() > MAX_SIZE:
        raise ValueError(
            f"{name} has values from {array.min():g} to {array.max():g}; they must lie between −{MAX_SIZE:g} and "
            f"{MAX_SIZE:g}: divide them by a constant"
        )
    array.flags.writeable = False
    return array


def _check_shape(x: np.ndarray) -> tuple[int, int, int]:
    shape = x.shape
    if len(shape) != 3 or 0 in shape:
        hint = "; put one sample in a batch with x[None]" if len(shape) == 2 else ""
        raise ValueError(f"x has shape {shape}; it must be (batch, tokens, features){hint}")
    n_samples, n_tokens, n_features = shape
    if n_samples > MAX_SAMPLES or n_samples * n_tokens > MAX_TOKENS or n_features > MAX_FEATURES:
        cut = (min(n_samples, MAX_SAMPLES, max(1, MAX_TOKENS // n_tokens)), min(n_tokens, MAX_TOKENS), MAX_FEATURES)
        part = ", ".join(f":{most}" if most < size else ":" for most, size in zip(cut, shape, strict=True))
        raise ValueError(
            f"x has shape {shape}; at most {MAX_SAMPLES} samples, {MAX_TOKENS} tokens in all and {MAX_FEATURES} "
            f"features can be shown. Choose a part, such as x[{part}], and norm that: the norm of a part is not a part "
            "of the norm"
        )
    return shape


def _check_eps(eps: float) -> float:
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not MIN_EPS <= eps <= MAX_EPS:
        raise ValueError(f"eps={eps!r} must be a number from {MIN_EPS:g} to {MAX_EPS:g}")
    return float(eps)


def _per_feature(name: str, value: ArrayLike | None, n_features: int) -> np.ndarray | None:
    if value is None:
        return None
    array = _numbers(name, value)
    if array.shape != (n_features,):
        raise ValueError(f"{name} has shape {array.shape}; it must be ({n_features},), one number for each feature")
    return array


def _listed(array: np.ndarray | None) -> list[float] | None:
    return None if array is None else array.tolist()


def _words(
    tokens: Sequence[str] | Sequence[Sequence[str]] | None, n_samples: int, n_tokens: int
) -> list[list[str]] | None:
    """The words of each sample; one list may serve all."""
    if tokens is None:
        return None
    check_list("tokens", tokens)
    same = all(isinstance(word, str) for word in tokens)
    lists: list[Any] = [list(tokens)] * n_samples if same else [list(listed) for listed in tokens]
    if len(lists) != n_samples:
        raise ValueError(f"x has {n_samples} samples, but tokens has {len(lists)} lists of words; give one for each")
    for i, words in enumerate(lists):
        if len(words) != n_tokens or not all(isinstance(word, str) for word in words):
            raise ValueError(f"tokens[{i}] is {words!r}; it must hold {n_tokens} words, one for each token of x")
    return lists


def _attribute(module: nn.Module, names: tuple[str, ...]) -> torch.Tensor | None:
    found = [getattr(module, name) for name in names if isinstance(getattr(module, name, None), torch.Tensor)]
    return found[0] if found else None


def _ask(module: Callable[[torch.Tensor], torch.Tensor], x: np.ndarray) -> tuple[bytes, dict[str, Any]]:
    """What a module makes of x, as float64 bytes, and what there is to say about it; the module is left as it was."""
    network = module if isinstance(module, nn.Module) else None
    first = None if network is None else next(network.parameters(), None)
    given = torch.tensor(x, dtype=torch.get_default_dtype()) if first is None else torch.tensor(x).to(first)
    kept = {} if network is None else {name: buffer.clone() for name, buffer in network.named_buffers()}
    features_in_the_middle = isinstance(module, nn.BatchNorm1d)  # (batch, features, tokens)
    handed_over = given.clone()
    with torch.no_grad():
        try:
            answer = module(handed_over.transpose(1, 2)) if features_in_the_middle else module(handed_over)
        finally:
            if network is not None:
                for name, buffer in kept.items():  # running averages of a batch norm
                    network.get_buffer(name).copy_(buffer)
    if not isinstance(answer, torch.Tensor):
        raise ValueError(f"module(x) is a {type(answer).__name__}; it must be a tensor of the shape of x, {x.shape}")
    answer = answer.transpose(1, 2) if features_in_the_middle else answer
    if answer.shape != x.shape:
        raise ValueError(f"module(x) has shape {tuple(answer.shape)}; it must have that of x, {x.shape}")
    numbers = np.array(as_array("module(x)", answer), dtype="<f8")
    check_finite("module(x)", numbers)
    about = {
        "name": f"your {type(module).__name__ if network is not None else 'function'}",
        "overwrites": not torch.equal(handed_over, given),
        "running": isinstance(network, NORMS["BatchNorm"]) and not network.training,
    }
    return numbers.tobytes(), about
