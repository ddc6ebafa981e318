"""Adam. Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization"."""

import numpy as np

from headroom.reference.by_hand.arguments import check_shape
from headroom.reference.by_hand.parameters import Parameters


class Adam:
    """Steps of about `lr`, whatever the gradient's size: its mean over the last steps, by the root of its mean square.

    Args:
        parameters: the arrays to train, in place.
        lr: the learning rate; it may be set anew before any step.
        betas: how much of the running mean and mean square is kept at each step.
        eps: added to the root, so that a gradient of 0 does not divide by 0.

    Source: Kingma & Ba 2015, algorithm 1.
    """

    def __init__(self, parameters: Parameters, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        self.parameters, self.lr, self.betas, self.eps = parameters, lr, betas, eps
        self.steps = 0
        self.mean = {name: np.zeros_like(array) for name, array in parameters.items()}
        self.square = {name: np.zeros_like(array) for name, array in parameters.items()}

    def step(self, gradients: Parameters) -> None:
        """Move every parameter against its gradient.

        Raises:
            ValueError: a parameter without a gradient, or a gradient without a parameter or of another shape.
        """
        if gradients.keys() != self.parameters.keys():
            odd = sorted(gradients.keys() ^ self.parameters.keys())
            raise ValueError(
                f"gradients and parameters must have the same names; only one of them has: {', '.join(odd)}"
            )
        self.steps += 1
        keep_1, keep_2 = self.betas
        for name, gradient in gradients.items():
            check_shape(f"gradients[{name!r}]", gradient, self.parameters[name].shape)
            self.mean[name] = keep_1 * self.mean[name] + (1 - keep_1) * gradient
            self.square[name] = keep_2 * self.square[name] + (1 - keep_2) * gradient**2
            # Both start at 0, so for the first steps they are too small: divide by the share that they have seen.
            mean = self.mean[name] / (1 - keep_1**self.steps)
            square = self.square[name] / (1 - keep_2**self.steps)
            self.parameters[name] -= self.lr * mean / (np.sqrt(square) + self.eps)
