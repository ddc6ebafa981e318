"""Arithmetic, and functions of numbers one by one."""

from __future__ import annotations  # annotations stay the names of their kinds

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.diagnosis.vocabulary.kinds import Exponent, Number


def add(a: Tensor, b: Tensor) -> Tensor:
    """a sum of the two"""
    return a + b


def subtract(a: Tensor, b: Tensor) -> Tensor:
    """a difference"""
    return a - b


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a product of entry by entry"""
    return a * b


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a quotient"""
    return a / b


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a matrix product"""
    return a @ b


def power(a: Tensor, exponent: Exponent) -> Tensor:
    """a power"""
    return a**exponent


def power_of(number: Number, exponents: Tensor) -> Tensor:
    """a power of a constant"""
    return number**exponents


def floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """a division that rounds down"""
    return a // b


def negative(x: Tensor) -> Tensor:
    """a change of sign; change their sign"""
    return -x


def mixed(a: Tensor, b: Tensor, share: Number) -> Tensor:
    """a mixture"""
    return a + share * (b - a)


def at_least(a: Tensor, least: Number) -> Tensor:
    """a lower limit"""
    return torch.clamp(a, min=least)


def less(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with <"""
    return a < b


def at_most(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with ≤"""
    return a <= b


def greater(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with >"""
    return a > b


def at_least_as(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with ≥"""
    return a >= b


def equal(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with =="""
    return a == b


def unlike(a: Tensor, b: Tensor) -> Tensor:
    """a comparison with ≠"""
    return a != b


def detach(x: Tensor) -> Tensor:
    """a cut of the gradient"""
    return x.detach()


def results(*parts: Any) -> tuple[Any, ...]:
    """the results"""
    return parts


def absolute(x: Tensor) -> Tensor:
    """the absolute value; lose their sign"""
    return x.abs()


def square(x: Tensor) -> Tensor:
    """the square; are squared"""
    return x * x


def exp(x: Tensor) -> Tensor:
    """the exponential; are exponentiated"""
    return x.exp()


def log(x: Tensor) -> Tensor:
    """the logarithm"""
    return x.log()


def sin(x: Tensor) -> Tensor:
    """the sine"""
    return x.sin()


def cos(x: Tensor) -> Tensor:
    """the cosine"""
    return x.cos()


def sigmoid(x: Tensor) -> Tensor:
    """the sigmoid; are put through a sigmoid"""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    """the hyperbolic tangent; are put through a hyperbolic tangent"""
    return x.tanh()


def relu(x: Tensor) -> Tensor:
    """ReLU; are put through ReLU"""
    return x.relu()


def silu(x: Tensor) -> Tensor:
    """SiLU; are put through SiLU"""
    return F.silu(x)


def gelu(x: Tensor) -> Tensor:
    """GELU; are put through GELU"""
    return F.gelu(x)


def gelu_by_tanh(x: Tensor) -> Tensor:
    """the approximation of GELU by a hyperbolic tangent"""
    return F.gelu(x, approximate="tanh")


def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """the approximation x σ(1.702 x) of GELU"""
    return x * (1.702 * x).sigmoid()


def hardswish(x: Tensor) -> Tensor:
    """Hardswish; are put through Hardswish"""
    return F.hardswish(x)


def gelu_without_root(x: Tensor) -> Tensor:
    """GELU with erf(x) in place of erf(x / √2)"""
    return x * (1 + x.erf()) / 2


def rounded(x: Tensor) -> Tensor:
    """a rounding; are rounded to whole numbers"""
    return x + (x.round() - x).detach()


def whole_part(x: Tensor) -> Any:
    """a cut to whole numbers; are cut to whole numbers"""
    return x.trunc() if isinstance(x, Tensor) else math.floor(x)


def nearest_whole(x: Tensor) -> Any:
    """a rounding"""
    return x.round() if isinstance(x, Tensor) else round(x)


def logarithm(x: Tensor) -> Any:
    """a logarithm"""
    return x.log() if isinstance(x, Tensor) else math.log(x)
