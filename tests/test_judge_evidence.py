"""What decides points is computed by the judge, and neither believed nor kept between calls."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from torch import nn

from autograder import probe
from autograder.exercise import Case, Criterion, Mistake
from autograder.judge import judge
from tests.small_exercises import NUMPY, SCALE, forging, held, judged, looked_at

# --- Evidence: what decides points is computed here, and not believed ---------------------------------------------


GAIN = dataclasses.replace(
    SCALE,
    name="Gain",
    criteria=(
        Criterion("values", "scaled", 0.5),
        Criterion("gradients", "gradients reach the gain", 0.3),
        Criterion("contract", "x stays as it was", 0.2),
    ),
    cases=lambda rng: [
        looked_at(np.random.default_rng(1).normal(size=(2, 3)), visible=True, differentiate=True),
        looked_at(rng.normal(size=(4, 3)), differentiate=True),
    ],
    reference=lambda build, inputs, weights: weights["gain"] * inputs[0],
    mappings=lambda parameters, build: iter([{"gain": parameters["gain"][1]}]),
    needs=frozenset({"gain"}),
)


class Gain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * x


class Frozen(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.gain.requires_grad_(False)


class Cut(Gain):
    def forward(self, x):
        return self.gain.detach() * x


class AThousandthMore(Gain):
    """The right numbers, and gradients that are 0.1 % too large."""

    def forward(self, x):
        result = super().forward(x)
        return result + 0.001 * (result - result.detach())


class InPlace(Gain):
    def forward(self, x):
        x *= self.gain
        return x


class Decays(Gain):
    def forward(self, x):
        with torch.no_grad():
            self.gain.mul_(1.0 if not self.training else 0.5)
        return super().forward(x)


class InHundredsOfParts(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.more = nn.ParameterList(torch.zeros(width) for _ in range(400))

    def forward(self, x):
        return super().forward(x) + sum(self.more) + 1


class AsShown(Gain):
    """Right for the numbers that everybody sees."""

    def forward(self, x):
        return super().forward(x) if len(x) == 2 else x


def test_an_answer_of_hundreds_of_parameters_is_judged():
    assert judged(GAIN, InHundredsOfParts).score < 0.5


def test_a_call_that_changes_the_weights_is_seen():
    assert "in training mode it gives a different result" in judged(GAIN, Decays).headline


@pytest.mark.parametrize("answer", [Gain, Frozen, Cut, InPlace, AsShown])
@pytest.mark.parametrize(
    "said",
    [
        {"trained": True},
        {"trained": False},
        {"constant": 1.0, "input_changed": False, "repeats": True},
        {"dtypes": ["float64"]},
        {"dtypes": []},
        {"loose": []},
        {"called": []},
        {"inputs_after": []},
        {"weight_gradients": {}},
        {"input_gradients": [None]},
    ],
    ids=str,
)
def test_what_a_reply_says_of_itself_earns_nothing(answer, said):
    assert judge(GAIN, forging(answer, **said), 0).score <= judged(GAIN, answer).score


def test_no_control_character_gets_into_a_verdict():
    """Neither of what the code prints nor of what it raises: a terminal would do what they say."""

    def loud(x):
        print("pr\x1b[2Jin\x07ted\x9b31m")
        raise ValueError("ra\x1b]0;i\x08sed\x00")

    def printing(x):
        print("pr\x1b[2Jin\x07ted\x9b31m")
        return x * 3

    raised, printed = (judged(dataclasses.replace(NUMPY, library="torch"), answer) for answer in (loud, printing))
    assert "ra]0;ised" in raised.headline and "pr[2Jinted31m" in printed.printed
    for verdict in (raised, printed):
        assert not [c for c in verdict.text() + verdict.html() if c != "\n" and not c.isprintable() and c != "\xa0"]


def test_what_is_trained_and_what_is_changed_show_in_arrays():
    assert judged(GAIN, Gain).passed
    assert held(judged(GAIN, Frozen)) == {"scaled": True, "gradients reach the gain": False, "x stays as it was": True}
    assert not held(judged(GAIN, AThousandthMore))["gradients reach the gain"]
    verdict = judged(GAIN, InPlace)
    assert "the input is changed by the call" in verdict.headline and not held(verdict)["x stays as it was"]


def test_numbers_that_everybody_sees_earn_nothing():
    assert not any(judged(GAIN, AsShown).results[n].holds for n in (0, 1))
    shown_only = dataclasses.replace(
        GAIN,
        cases=lambda rng: [dataclasses.replace(case, tag=tag) for case, tag in zip(GAIN.cases(rng), "ab", strict=True)],
        criteria=(Criterion("a", "what is shown", 0.5), Criterion("b", "what is not", 0.5)),
    )
    assert judged(shown_only, AsShown).score == 0 and judged(shown_only, Gain).passed


def test_the_start_of_a_parameter_is_computed_from_all_its_numbers():
    seen = []
    sign = Mistake(
        "start", "starts wrongly", "It.", "There.", sign=lambda e: bool(seen.append(e.parameters[0].constant))
    )

    class Uneven(Gain):
        def __init__(self, width):
            super().__init__(width)
            self.gain.data[-1] = 2

    for answer in (Gain, Uneven):
        judged(dataclasses.replace(GAIN, mistakes=(sign,)), answer)
    assert seen[0] == 1.0 and seen[-1] is None


# --- What a plain function keeps between calls, and what it never wrote -------------------------------------------


DOUBLED = dataclasses.replace(
    SCALE,
    name="doubled",
    cases=lambda rng: [
        Case("values", f"case {n}", (rng.normal(size=shape),)) for n, shape in enumerate([(2, 3), (2, 3), (4, 3)])
    ],
)
CACHE: dict = {}
CALLS = 0
FIRST = None


def kept_by_shape(x):
    if x.shape not in CACHE:
        CACHE[x.shape] = 2 * x
    return CACHE[x.shape]


def helped(x):
    return kept_by_shape(x)


def counted(x):
    global CALLS
    CALLS += 1
    return 2 * x * (1 if CALLS < 3 else 5)


def in_a_default(x, seen=[]):  # noqa: B006  # the slip
    seen.append(x)
    return 2 * seen[0] if len(seen[0]) == len(x) else 2 * x


def on_itself(x):
    on_itself.first = getattr(on_itself, "first", x)
    return 2 * (on_itself.first if len(on_itself.first) == len(x) else x)


def first_kept(x):
    global FIRST
    if FIRST is None:
        FIRST = x.mean()
    return 2 * x + (x.mean() - FIRST)


def around():
    seen = []

    def inner(x):
        seen.append(1)
        return 2 * x * len(seen)

    return inner


@pytest.mark.parametrize("answer", [kept_by_shape, helped, counted, in_a_default, on_itself, first_kept, around()])
def test_a_function_that_keeps_something_is_told_so_and_loses_the_cases_that_it_breaks(answer):
    for _ in range(2):  # a check leaves nothing behind that changes the next
        verdict = judged(DOUBLED, answer)
        told = "right at first, but called after other calls, it gives a different result: something is kept from"
        assert told in verdict.headline
        assert not held(verdict)["twice"]


TWO = {"factor": 2}


def recursive(x, depth=3):
    return TWO["factor"] * x if depth == 0 else mutual(x, depth)


def mutual(x, depth):
    return recursive(x, depth - 1)


@pytest.mark.parametrize("answer", [recursive, torch.no_grad()(recursive), functools.partial(recursive, depth=0)])
def test_functions_that_name_each_other_and_wrapped_ones_are_called_as_they_are(answer):
    assert judged(DOUBLED, answer).passed


def half_written(x):
    out = torch.empty_like(x)
    out[1:] = x[1:]
    return 2 * out


def summed_into_nothing(x):
    return torch.empty(x.shape) + 2 * x


def test_memory_that_was_never_written_shows_in_every_run():
    for answer in (half_written, summed_into_nothing):
        assert all(not judged(DOUBLED, answer).passed for _ in range(3))
    assert not torch.are_deterministic_algorithms_enabled() and np.empty is NP_EMPTY

    def softmax(x, exp=np.exp):
        e = np.empty_like(x)
        e[..., :1] = exp(x[..., :1])
        return e / e.sum(-1, keepdims=True)

    assert np.isnan(probe.unpack(probe.answer(asked_of(NUMPY), softmax))[0]["output"][0]).any()


NP_EMPTY = np.empty


def asked_of(exercise):
    requests = []
    judge(exercise, lambda request: requests.append(request) or probe.pack([{}]), 0)
    return requests[0]


class Unset(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.gain.data[:] = torch.nan


class LeavesGradientsOff(Gain):
    def forward(self, x):
        result = super().forward(x)
        torch.set_grad_enabled(False)
        return result


@pytest.mark.parametrize(
    ("answer", "said"), [(Unset, {"start": np.ones(3)}), (LeavesGradientsOff, {"settings": []})], ids=str
)
def test_what_these_lies_earn_is_the_line_on_the_contract(answer, said):
    """As docs/security.md has it in its table."""
    honest = held(judged(GAIN, answer))
    assert not honest["x stays as it was"]
    assert held(judge(GAIN, forging(answer, **said), 0)) == honest | {"x stays as it was": True}
