"""The cross-entropy of logits: how many nats the right class comes as a surprise."""

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_indices, check_shape
from headroom.reference.by_hand.softmax import softmax


def cross_entropy(logits: np.ndarray, targets: np.ndarray) -> np.floating:
    """loss = mean of log Σ_k exp(z_k) − z_target: minus the logarithm of the right class's softmax.

    Args:
        logits: `(..., n_classes)`, before any softmax.
        targets: int `(...)`, the right classes, each 0 … n_classes − 1.

    Returns:
        loss, one number, in nats: the mean over all targets.

    Raises:
        TypeError: logits that are not floating, targets that are not integers.
        ValueError: targets of the wrong shape, out of range, or none at all.

    Source: Bridle 1990, "Training Stochastic Model Recognition Algorithms as Networks".
    """
    check_logits_and_targets(logits, targets)
    shifted = logits - logits.max(axis=-1, keepdims=True)  # (..., n_classes): as in softmax, exp stays ≤ 1
    log_sum = np.log(np.exp(shifted).sum(axis=-1))  # (...)
    right = np.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]  # (...): the right classes' logits
    return (log_sum - right).mean()


def cross_entropy_backward(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """d_logits = (softmax(logits) − one-hot targets) / number of targets: what was said, less what was right.

    log Σ_k exp(z_k) has the softmax for its derivative, z_target a 1 at the target. There is no d_loss to multiply by:
    the loss is where the way back begins, and its derivative by itself is 1.

    Args:
        logits: `(..., n_classes)`.
        targets: int `(...)`.

    Returns:
        d_logits `(..., n_classes)`; each row sums to 0.

    Raises: as `cross_entropy`.

    Source: as `cross_entropy`.
    """
    check_logits_and_targets(logits, targets)
    d_logits = softmax(logits)  # (..., n_classes)
    right = targets[..., None]
    np.put_along_axis(d_logits, right, np.take_along_axis(d_logits, right, axis=-1) - 1, axis=-1)
    return d_logits / targets.size


def check_logits_and_targets(logits: np.ndarray, targets: np.ndarray) -> None:
    """Raise TypeError or ValueError unless `targets` holds one class for each row of `logits`, and at least one."""
    check_floats(logits=logits)
    n_classes = logits.shape[-1]
    check_indices("targets", targets, n_classes, f"n_classes={n_classes}")
    check_shape("targets", targets, logits.shape[:-1])
    if not targets.size:
        raise ValueError(f"targets has shape {targets.shape}, and the mean over no target is undefined")
