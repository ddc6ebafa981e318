"""Decoding: greedy, by sampling and with beams."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headroom import reference as ref
from tests.peers import assert_same, float64, leaf, quick, seeds, shake, torch_attention, torch_block  # noqa: F401
from tests.test_transformer import END, START, VARIANTS, pairs, transformer


def free_running(model, source, mask, max_tokens, choose):
    """Decoding as slowly as it can be written: one sentence at a time, everything recomputed at every step."""
    rows = []
    for i in range(len(source)):
        tokens = [START]
        while len(tokens) <= max_tokens and tokens[-1] != END:
            logits = model(source[i : i + 1], torch.tensor([tokens]), mask[i : i + 1])
            tokens.append(choose(logits[0, -1]))
        rows.append(tokens[1:])
    longest = max(map(len, rows))
    return torch.tensor([row + [END] * (longest - len(row)) for row in rows])


@quick
@given(seed=seeds, variant=st.sampled_from(list(VARIANTS)), max_tokens=st.integers(1, 9))
def test_greedy_decoding_equals_recomputing_one_sentence_at_a_time(seed, variant, max_tokens):
    torch.manual_seed(seed)
    model, (source, _, mask) = transformer(**VARIANTS[variant]), pairs(batch=4)
    expected = free_running(model, source, mask, max_tokens, lambda logits: int(logits.argmax()))
    got = ref.greedy_decode(model, source, START, END, max_tokens, mask)
    assert torch.equal(got, expected)
    with_one_beam, _ = ref.beam_decode(model, source, START, END, max_tokens, mask, beams=1)
    assert torch.equal(with_one_beam, expected)


def test_sampling_follows_the_models_distribution():
    model, source = transformer(), torch.randint(0, 9, (1, 6))
    logits = model(source, torch.tensor([[START]]))[0, -1]
    generator = torch.Generator().manual_seed(0)
    for temperature in (0.5, 1.0, 2.0):
        tokens = ref.sample_decode(
            model, source.expand(4000, -1), START, END, 1, temperature=temperature, generator=generator
        )
        shares = tokens[:, 0].bincount(minlength=7) / 4000
        torch.testing.assert_close(shares, (logits / temperature).softmax(-1), rtol=0, atol=0.03)


def test_sampling_cold_is_greedy_and_needs_a_temperature():
    model, (source, _, mask) = transformer(), pairs()
    cold = ref.sample_decode(model, source, START, END, 6, mask, temperature=1e-6)
    assert torch.equal(cold, ref.greedy_decode(model, source, START, END, 6, mask))
    with pytest.raises(ValueError, match=r"temperature=0 must be greater than 0; greedy_decode is its limit at 0"):
        ref.sample_decode(model, source, START, END, 6, temperature=0)


def log_probability(model, source, mask, tokens):
    """Of a whole target, computed in one pass."""
    target = torch.tensor([[START, *tokens]])
    steps = model(source, target[:, :-1], mask).log_softmax(-1)
    return steps.gather(-1, target[:, 1:, None]).sum().item()


@pytest.mark.parametrize("lean", [pytest.param(0.0, marks=pytest.mark.full), 3.0])  # 3: the best is then the shortest
@pytest.mark.parametrize("length_penalty", [pytest.param(0.0, marks=pytest.mark.full), 1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(length_penalty, lean):
    model, (source, _, mask) = transformer(), pairs(batch=2)
    model.head.register_forward_hook(lambda head, x, logits: logits + lean * (torch.arange(7) == END))
    every = [
        tokens
        for length in (1, 2, 3)
        for tokens in itertools.product(range(7), repeat=length)
        if END not in tokens[:-1] and (tokens[-1] == END or length == 3)
    ]
    got, scores = ref.beam_decode(model, source, START, END, 3, mask, beams=7**3, length_penalty=length_penalty)
    for i in range(2):
        row = slice(i, i + 1)
        found = {tokens: log_probability(model, source[row], mask[row], tokens) for tokens in every}
        best = max(every, key=lambda tokens: found[tokens] / len(tokens) ** length_penalty)
        assert got[i].tolist() == [*best, *[END] * (got.size(1) - len(best))]
        assert scores[i].item() == pytest.approx(found[best], abs=1e-10)


def test_beams_keep_to_their_own_sentence():
    model, (source, _, mask) = transformer(), pairs(batch=4)
    together, scores = ref.beam_decode(model, source, START, END, 6, mask, beams=3)
    for i in range(4):
        alone, score = ref.beam_decode(model, source[i : i + 1], START, END, 6, mask[i : i + 1], beams=3)
        assert torch.equal(together[i, : alone.size(1)], alone[0])
        torch.testing.assert_close(scores[i], score[0])
    with pytest.raises(ValueError, match="beams=0 must be at least 1"):
        ref.beam_decode(model, source, START, END, 6, beams=0)
