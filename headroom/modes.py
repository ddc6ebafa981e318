"""A model that is looked at, and afterwards is as it was."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def looking_at(model: nn.Module) -> Generator[torch.device]:
    """Within the block `model` is in eval mode and keeps no gradients; afterwards all its parts are as they were.

    Yields:
        the device that the model is on.
    """
    modes = [(module, module.training) for module in model.modules()]
    parameter = next(model.parameters(), None)
    try:
        model.eval()
        with torch.no_grad():
            yield parameter.device if parameter is not None else torch.device("cpu")
    finally:
        for module, training in modes:  # one by one: parts of a model may be frozen in a mode of their own
            module.training = training
