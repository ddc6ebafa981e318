"""The loss of a model that predicts the next token, with label smoothing.

Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7; Vaswani et al. 2017, section 5.4.
"""

from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0, ignore: int | None = None) -> Tensor:
    """Mean surprise, in nats, at the targets; smoothed, a share of the target is spread evenly over all tokens.

    The smoothed target gives 1 − smoothing + smoothing / n to the right token and smoothing / n to each other one: the
    model is no longer paid for driving a logit to infinity.

    Args:
        logits: `(..., n_tokens)`: logits, not probabilities.
        targets: int64 token ids `(...)`.
        smoothing: the share that is spread, 0 ≤ smoothing < 1.
        ignore: targets with this id (padding) do not count.

    Returns:
        a scalar; NaN if every target is ignored.

    Raises:
        ValueError: the shapes do not go together, or `smoothing` is not in [0, 1).

    Source: Szegedy et al. 2016, section 7, with the uniform distribution over tokens.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} need targets of shape {tuple(logits.shape[:-1])}, "
            f"not {tuple(targets.shape)}"
        )
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing} must be at least 0 and less than 1")
    if ignore is not None:
        logits, targets = logits[targets != ignore], targets[targets != ignore]  # (n, n_tokens), (n,)
    log_probabilities = logits.log_softmax(dim=-1)
    at_target = log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    everywhere = log_probabilities.mean(dim=-1)
    return -((1 - smoothing) * at_target + smoothing * everywhere).mean()
