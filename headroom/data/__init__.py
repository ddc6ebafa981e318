"""The course's data: a small set of digits that comes with it, and the full one when asked for."""

from headroom.data.digits import Digits, FullDigits, embedded_digits, mnist

__all__ = ["Digits", "FullDigits", "embedded_digits", "mnist"]
