"""Of what kind an argument is, so that edits know what may stand there."""

from torch import Tensor

Axis = int  # one axis
Axes = int | tuple[int, ...] | str | None  # several; the words are those of `axes`, None is all
Number = float  # a constant
Exponent = float
Fill = float  # what is put where a mask hides
Start = int  # where counting starts
Step = int
Size = int  # of a tensor along an axis
Mask = Tensor | None  # True = visible; None: everything is
Bias = Tensor | None
Weight = Tensor  # of a linear map, (out, in)
