"""The loss and the schedules of the learning rate."""

import pytest
import torch
import torch.nn.functional as F

from headroom import reference as ref
from tests.peers import assert_same, float64, leaf, quick, seeds, shake, torch_attention, torch_block  # noqa: F401


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignore", [None, 0])
def test_cross_entropy_equals_torchs(smoothing, ignore):
    logits, targets = leaf(3, 5, 7), torch.randint(0, 7, (3, 5))
    targets[0, :3] = 0
    expected = F.cross_entropy(
        logits.flatten(0, 1),
        targets.flatten(),
        label_smoothing=smoothing,
        ignore_index=-100 if ignore is None else ignore,
    )
    assert_same(ref.cross_entropy(logits, targets, smoothing, ignore), expected, [(logits, logits)])


def test_cross_entropy_refuses_what_does_not_go_together():
    with pytest.raises(ValueError, match=r"logits of shape \(3, 5, 7\) need targets of shape \(3, 5\), not \(3, 4\)"):
        ref.cross_entropy(torch.randn(3, 5, 7), torch.zeros(3, 4, dtype=torch.long))
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ValueError, match=f"smoothing={smoothing} must be at least 0 and less than 1"):
            ref.cross_entropy(torch.randn(3, 7), torch.zeros(3, dtype=torch.long), smoothing)


def test_the_papers_schedule_is_its_formula():
    for n in (1, 10, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(n**-0.5, n * 4000**-1.5)
        assert ref.paper_learning_rate(n - 1, d_model=512, warmup=4000) == pytest.approx(expected, rel=1e-12)
    shares = [ref.inverse_square_root_schedule(step, 10) for step in range(40)]
    assert max(shares) == shares[9] == 1.0 and shares[39] == pytest.approx(0.5)


def test_the_cosine_rises_in_a_line_and_falls_to_zero():
    shares = [ref.cosine_schedule(step, steps=110, warmup=10) for step in range(110)]
    assert shares[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert shares[59] == pytest.approx(0.5) and shares[-1] == pytest.approx(0)
