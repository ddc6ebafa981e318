"""How the learning rate goes over a training run: up in a straight line, then down along one of two curves."""

import math


def cosine_schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the highest learning rate at a step: up in a line, then half a cosine down to 0.

    Args:
        step: 0 … steps − 1.
        steps: of the whole run.
        warmup: the number of steps that rise; the last of them reaches 1.

    Source: Loshchilov & Hutter 2017, "SGDR", equation 5, one period of it; warm-up as in Goyal et al. 2017.
    """
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps - warmup)))


def inverse_square_root_schedule(step: int, warmup: int) -> float:
    """The share of the highest learning rate at a step: up in a line, then down as 1 / √step, without end.

    Args:
        step: 0, 1, 2, …
        warmup: the number of steps that rise; the last of them reaches 1.

    Source: Vaswani et al. 2017, equation 3, divided by its highest value.
    """
    return min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


def paper_learning_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """The learning rate of the 2017 paper: d_model^(−1/2) · min(n^(−1/2), n · warmup^(−3/2)) at its n-th step.

    Args:
        step: 0, 1, 2, …; the paper counts from n = 1.
        d_model: width of the tokens.
        warmup: the number of steps that rise.

    Source: Vaswani et al. 2017, equation 3.
    """
    return inverse_square_root_schedule(step, warmup) / math.sqrt(d_model * warmup)
