"""Where the weights start.

Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
"""

from torch import nn


def glorot(model: nn.Module) -> None:
    """Draw every linear map's weights anew, uniform in ±√(6 / (inputs + outputs)), and set its bias to 0.

    A signal then keeps its size, to within a small factor, on its way forward and on its way back.

    Source: Glorot & Bengio 2010, equation 16.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]  # torch's stub says never None
                nn.init.zeros_(module.bias)
