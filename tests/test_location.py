"""Where code goes wrong that is right elsewhere: what is said is what was tried."""

import math

import pytest
import torch

from autograder import location, options, probe
from autograder.covering import Axis, Choice, covering
from autograder.exercises import find
from autograder.judge import judge
from headroom import reference
from tests.judged import judged

AXES = (Axis("batch", most=4), Axis("tokens", long=70), Axis("width", most=5), Choice("mask", (None, "causal")))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda s: s["batch"] == 1, "batch = 1"),
        (lambda s: s["tokens"] == 70, "tokens = 70"),
        (lambda s: s["tokens"] > 1, "tokens > 1"),
        (lambda s: s["mask"] is not None, "mask = causal"),
        (lambda s: s["tokens"] == s["width"], "tokens = width"),
        (lambda s: s["batch"] == 1 or s["width"] == 1, "batch = 1 or width = 1"),
        (lambda s: s["tokens"] == s["width"] and s["mask"] is None, "there is no mask and tokens = width"),
    ],
)
def test_what_holds_of_all_wrong_ones_and_of_no_other(wrong, words):
    sets = covering(AXES)
    assert words in [where.words for where in location.found(AXES, sets, [wrong(sizes) for sizes in sets])]


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("attention_backward", lambda s: s["keys are hidden"] is not None, "keys are hidden"),
        ("attention_backward", lambda s: s["keys are hidden"] is None, "no keys are hidden"),
        ("attention_backward", lambda s: s["keys are hidden"] == "from some", "keys are hidden from some"),
        ("attention_backward", lambda s: s["scores"] is not None, "scores are of ±10³"),
        ("CachedSelfAttention", lambda s: s["the text comes"] == "in two calls", "the text comes in two calls"),
        ("CachedSelfAttention", lambda s: s["the text comes"] != "in one call", "the text does not come in one call"),
        ("letters_right", lambda s: s["end"] != "the last id", "end ≠ the last id"),
        ("induction_score", lambda s: s["repeated"] >= s["length"], "repeated ≥ length"),
    ],
)
def test_what_is_chosen_is_said_in_the_tasks_words(name, wrong, words):
    axes = find(name).axes
    sets = covering(axes)
    assert words in [where.words for where in location.found(axes, sets, [wrong(sizes) for sizes in sets])]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: True,
        lambda s: False,
        lambda s: sum(n for n in s.values() if type(n) is int) % 3 == 1,
    ],
)
def test_often_nothing_simple_does(wrong):
    sets = covering(AXES)
    assert list(location.found(AXES, sets, [wrong(sizes) for sizes in sets])) == []


def test_it_is_tried_on_sizes_that_are_new_on_both_sides():
    sets = covering(AXES)
    where = location.Where("batch = 1", lambda sizes: sizes["batch"] == 1)
    further = location.further(AXES, where, sets)
    assert [where.holds(sizes) for sizes in further] == [True] * 4 + [False] * 4
    assert not any(sizes in sets for sizes in further)


def scores(q, k):
    return q @ k.mT / math.sqrt(q.size(-1))


def fifty_at_most(q, k):
    return scores(q, k) * torch.ones(50)[: k.size(-2)]


def for_a_batch_of_one(q, k):
    return scores(q, k) * (2 if q.dim() == 3 and len(q) == 1 else 1)


def as_if_by_chance(q, k):
    """Right for some numbers only: no size has a part in it."""
    return scores(q, k) * (1 if q.flatten()[0] > 0 else 2)


@pytest.mark.parametrize(
    ("answer", "says"),
    [(fifty_at_most, "only where keys ≥ 51"), (for_a_batch_of_one, "only where batch = 1")],
)
def test_a_verdict_says_where(answer, says):
    verdict = judge(find("attention_scores"), lambda request: probe.answer(request, answer), 0)
    assert says in verdict.headline, verdict.text()


def test_it_is_not_said_of_code_that_fails_elsewhere_too():
    """In a case without a batch, which is not among those that are drawn."""

    def in_batches_only(q, k):
        assert q.dim() > 2
        return fifty_at_most(q, k)

    verdict = judge(find("attention_scores"), lambda request: probe.answer(request, in_batches_only), 0)
    assert "AssertionError" in verdict.headline and "only where" not in verdict.headline


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_hold_of_further_sizes_is_not_said(seed):
    verdict = judge(find("attention_scores"), lambda request: probe.answer(request, as_if_by_chance), seed)
    assert not verdict.passed and "only where" not in verdict.headline, verdict.text()


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_result_are_told_apart(seed):
    """Each goes wrong where its own map is square, whatever the others are."""

    def turned(x, *maps):
        return tuple(x @ (one.T if one.size(0) == one.size(1) else one) for one in maps)

    verdict = judge(find("project_qkv"), lambda request: probe.answer(request, turned), seed)
    says = "q and k go wrong only where d_model > 1 and d_model = d_k, and v goes wrong only where d_model > 1 and "
    assert f"{says}d_model = d_v." in verdict.headline, verdict.text()


@pytest.mark.parametrize("seed", range(3))
def test_of_parts_nothing_is_said_if_one_goes_wrong_without_a_condition(seed):
    def turned(x, w_q, w_k, w_v):
        return x @ (w_q.T if w_q.size(0) == w_q.size(1) else w_q), x @ w_k + x.sum() ** 2, x @ w_v

    verdict = judge(find("project_qkv"), lambda request: probe.answer(request, turned), seed)
    assert not verdict.passed and "only where" not in verdict.headline, verdict.text()


def test_a_condition_that_always_holds_is_not_said():
    sets = [{"heads": heads, "d_head": d_head} for heads in (1, 2, 3) for d_head in (2, 3, 4)]
    axes = (Axis("heads", most=3), Axis("d_head", least=2, most=4))
    found = [where.words for where in location.found(axes, sets, [sizes["heads"] > 1 for sizes in sets])]
    assert found[0] == "heads > 1" and not any("d_head > 1" in words for words in found)


def test_further_sizes_tell_what_is_a_condition_from_what_is_not():
    """Of what holds where d_model > 2, one set has a single token: code that is right there is told from other code."""
    axes = (Axis("n_tokens", most=6), Axis("d_model", most=9))
    where = location.from_on("d_model", 3)
    there = [sizes for sizes in location.further(axes, where, []) if where.holds(sizes)]
    assert len(there) == location.MAX_TRIED and {1} < {sizes["n_tokens"] for sizes in there}


# --- Options -------------------------------------------------------------------------------------------------------


def unchanged_by_a_low_temperature(logits, temperature=1.0, top_k=None, top_p=1.0):
    return reference.next_probabilities(logits, max(temperature, 1.0), top_k, top_p)


def divided_after_the_softmax(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Of what the temperature does to the probabilities, the last division leaves nothing."""
    return reference.next_probabilities(logits, 1.0, top_k, min(1.0, top_p * temperature))


def all_for_a_top_k_of_1(logits, temperature=1.0, top_k=None, top_p=1.0):
    return reference.next_probabilities(logits, temperature, None if top_k == 1 else top_k, top_p)


def no_top_p_beside_top_k(logits, temperature=1.0, top_k=None, top_p=1.0):
    return reference.next_probabilities(logits, temperature, top_k, top_p if top_k is None else 1.0)


def two_at_least(logits, temperature=1.0, k=None, p=1.0):
    """Of those that `p` leaves, which are seldom fewer; the options have names of its own."""
    kept = reference.next_probabilities(logits, temperature, k, p)
    two = reference.next_probabilities(logits, temperature, min(k or 2, 2), 1.0)
    return two.where((kept > 0).sum(1, keepdim=True) < 2, kept) if p < 1 else kept


def minus_ten_thousand(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Too little to hide what stands beside logits of -30,000: what is wrong has no option in common."""
    right = reference.next_probabilities(logits, temperature, top_k, top_p)
    return torch.full_like(right, 0.5) if logits.amax() < -1e4 or logits.amin() > 1e4 else right


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (unchanged_by_a_low_temperature, "only where `temperature` < 1"),
        (divided_after_the_softmax, "only where `temperature` ≠ 1"),
        (all_for_a_top_k_of_1, "only where `top_k` = 1."),
        (no_top_p_beside_top_k, "only where `top_k` is given and `top_p` < 1"),
        (two_at_least, "only where `p` < 1, in"),
    ],
)
def test_a_verdict_says_at_which_options(answer, says, seed):
    said = judged(find("next_probabilities"), answer, seed).headline
    assert f"Of all values that were tried, it goes wrong {says}" in said
    assert answer is two_at_least or "Only these cases" not in said, said


@pytest.mark.parametrize("seed", range(3))
def test_what_lies_in_the_numbers_is_said_of_no_option(seed):
    said = judged(find("next_probabilities"), minus_ten_thousand, seed).headline
    assert "cases agree" in said and "it goes wrong" not in said, said


def test_a_call_that_leaves_options_out_has_their_defaults():
    calls = [(None, 0.5), (None,), (None, 1.0, 3)]
    assert options.read(calls, {1: 1.0, 2: None}) == [{1: 0.5, 2: None}, {1: 1.0, 2: None}, {1: 1.0, 2: 3}]
    assert options.read(calls, {}) == [{}, {}, {}], "what is left out is not known"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda o: o[0] is not None, "k is given"),
        (lambda o: o[0] is None, "k is not given"),
        (lambda o: o[0] == 3, "k = 3"),
        (lambda o: o[1] < 1, "p < 1"),
        (lambda o: o[1] != 1, "p ≠ 1"),
        (lambda o: o[2], "causal is True"),
        (lambda o: o[0] is not None and o[1] > 1, "k is given and p > 1"),
    ],
)
def test_what_holds_of_the_options_of_all_wrong_calls(wrong, words):
    sets = [{0: k, 1: p, 2: causal} for k in (None, 3, 5) for p in (0.5, 1.0, 1.5) for causal in (True, False)]
    kinds = list(options.simple(sets, {0: "k", 1: "p", 2: "causal"}, {1: 1.0}))
    single, joined = options.fitting(kinds, sets, [bool(wrong(own)) for own in sets])
    assert next(condition.words for condition in single or joined) == words
