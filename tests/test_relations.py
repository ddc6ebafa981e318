"""What is said of wrong results that nothing explains: how they depend on their inputs, and where they are wrong."""

import dataclasses

import numpy as np
import pytest
import torch

from autograder import probe
from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises import find
from autograder.judge import judge
from autograder.relations import OF_ROWS, looks
from autograder.written import Written, first_wrong


def drawn(rng, *shape):
    return rng.normal(size=shape)


def causal_means(x, mask=None):
    """Each token becomes the mean of itself and all earlier ones, of those that the mask allows."""
    allowed = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    if mask is not None:
        allowed = allowed & (mask | torch.eye(x.size(1), dtype=torch.bool))
    weights = allowed / allowed.sum(-1, keepdim=True)
    return weights.to(x.dtype) @ x


def masked(rng):
    return rng.random((4, 4)) < 0.5


MEANS = Exercise(
    name="causal_means",
    returns="a tensor of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(Criterion("values", "right", 1.0),),
    mistakes=(),
    cases=lambda rng: [
        *(Case("values", f"{n} samples", (drawn(rng, n, 4, 3), None)) for n in (2, 3, 5)),
        *(Case("values", f"{n} samples, masked", (drawn(rng, n, 4, 3), masked(rng))) for n in (2, 3, 5)),
    ],
    reference=lambda build, inputs, weights: causal_means(*inputs),
    variation=None,
)


def said(exercise: Exercise, answer) -> str:
    verdict = judge(exercise, lambda request: probe.answer(request, answer), 0)
    assert not verdict.passed
    return verdict.headline


def test_a_right_answer_breaks_no_relation():
    assert judge(MEANS, lambda request: probe.answer(request, causal_means), 0).passed


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x, mask=None: causal_means(x, mask) + x.mean(0), "One sample's result depends on the other samples"),
        (
            lambda x, mask=None: causal_means(x, mask) + x.mean(1, keepdim=True),
            "A token's result depends on later tokens",
        ),
        (lambda x, mask=None: causal_means(x), "All 3 cases without `mask` are right, and 3 of 3 with it are not"),
        (lambda x, mask=None: causal_means(x) + 1, "Inverting `mask` does not change the result"),
        (
            lambda x, mask=None: causal_means(x, mask) ** 2,
            "With `x` twice as large, the result should be twice as large, but is not",
        ),
        (lambda x, mask=None: torch.ones_like(x), "The result does not depend on `x`"),
        (lambda x, mask=None: -causal_means(x, mask), "The result has the opposite sign"),
        (lambda x, mask=None: causal_means(x, mask) / 0, "holds NaN or ∞ where there should be numbers"),
        (
            lambda x, mask=None: torch.cat([causal_means(x, mask)[:, :3], x[:, 3:] * 0.5], 1),
            "wrong, along its last but one axis only `[..., -1, :]` is",
        ),
    ],
)
def test_what_wrong_code_does_is_seen_by_how_its_results_change(answer, says):
    assert says in said(MEANS, answer)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda out: out.flatten(0, 1), "The result has all its axes but the last merged into one; its numbers are"),
        (lambda out: out.flatten(), "The result has all its axes merged into one; its numbers are right"),
        (lambda out: out.mT + 1, "The result has its last two axes exchanged."),
        (lambda out: out.unsqueeze(1), "The result has an axis of length 1 too many, before the second; its numbers"),
        (lambda out: out[:, 1:], "The result has one too few along its second axis."),
        (lambda out: out.sum(1), "The result lacks the second axis of the right one."),
    ],
)
def test_what_became_of_the_shape_is_said(change, says):
    verdict = judge(MEANS, lambda request: probe.answer(request, lambda x, mask: change(causal_means(x, mask))), 0)
    assert says in f"{verdict.headline}", verdict.text()


def test_what_has_two_axes_has_rows_and_columns_and_no_samples():
    headline = said(find("causal_mask"), lambda n: torch.ones(n, n).tril().bool() & (torch.arange(n) < n - 1)[:, None])
    assert "only `[..., -1, :]` is wrong" in headline and "[-1]" not in headline


def test_shapes_that_have_nothing_in_common_say_nothing():
    cut = lambda x, mask: causal_means(x, mask)[:, len(x) % 2 + 1 :]  # noqa: E731
    assert "axis" not in judge(MEANS, lambda request: probe.answer(request, cut), 0).headline


def test_nothing_is_said_that_the_right_answer_breaks_too():
    """A mean over the batch that is asked for is no slip: then it is another one that is looked for."""
    over_all = dataclasses.replace(MEANS, reference=lambda build, inputs, weights: inputs[0] - inputs[0].mean(0))
    assert "other samples" not in said(over_all, lambda x, mask=None: 2 * (x - x.mean(0)))


def test_what_is_seen_in_one_case_alone_is_not_said():
    once = lambda x, mask=None: causal_means(x, mask) + (x.mean(0) if len(x) == 5 and mask is None else 0)  # noqa: E731
    headline = said(MEANS, once)
    assert "other samples" not in headline and "Only these cases are wrong: 5 samples." in headline


def test_weights_that_cannot_be_read_do_not_matter():
    """The right answer is asked with other weights then: what it does with its inputs is the same."""

    class Mixing(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.ones(width + 1, 2))

        def forward(self, x):
            return x * self.anything[:-1, 0] + x.mean(0)

    from autograder.exercise import Role

    scaled = dataclasses.replace(
        MEANS,
        cases=lambda rng: [Case("values", f"{n}", (drawn(rng, n, 4, 3),), (3,)) for n in (2, 3)],
        reference=lambda build, inputs, weights: weights["gain"] * inputs[0],
        roles=lambda build: {"gain": Role("gain", (3,), ((3,),))},
        needs=frozenset({"gain"}),
    )
    assert "One sample's result depends on the other samples of the batch" in said(scaled, Mixing)


def test_which_part_is_wrong_and_what_rows_sum_to():
    weights = np.array([[0.25, 0.75], [0.5, 0.5]])
    columns = weights.T.copy()
    values = np.ones((2, 2))
    wrong = [((values, columns), (values, weights), (values != values, columns != weights))] * 2
    told = list(looks(wrong, ("output", "weights")))
    assert told[0] == "output is right in every case, weights are not"
    assert "Each row of weights should sum to 1; here each column does" in told
    assert list(looks(wrong[:1], ("output", "weights"))) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: np.roll(e, 1, -1), "All values of the result are there, but in the wrong places"),
        (lambda e: e.clip(0), "Where the result is wrong, every wrong value is 0"),
        (lambda e: e.round(), "All values of the result are whole numbers, and should not be"),
        (
            lambda e: e / e.shape[0],
            "Where the result is wrong, all values are the right ones times a number: 0.333, 0.25 …",
        ),
        (lambda e: np.zeros_like(e), "All numbers of the result are equal, and should not be"),
    ],
)
def test_what_wrong_numbers_have_in_common_is_said(change, says):
    right = [np.random.default_rng(0).normal(size=shape) for shape in ((3, 4), (4, 5))]
    pairs = [((change(e),), (e,), (~np.isclose(change(e), e),)) for e in right]
    assert says in list(looks(pairs, ()))


def test_a_single_wrong_number_has_nothing_in_common_with_others():
    pairs = [((np.array(got),), (np.array(1.0),), (np.array(True),)) for got in (2.0, 5.0)]
    assert list(looks(pairs, ())) == []


@pytest.mark.parametrize("words", OF_ROWS)
def test_rows_that_follow_from_the_right_ones_are_told_how(words: str) -> None:
    rng = np.random.default_rng(3)
    right = [rng.uniform(0.5, 2.0, size) for size in ((2, 3, 5), (4, 2, 3))]
    pairs = [((OF_ROWS[words](rows),), (rows,), (np.ones(rows.shape, dtype=bool),)) for rows in right]
    assert f"Where the result is wrong, each row is {words}" in [*looks(pairs, ())]
    other = [((got + rng.normal(size=got[0].shape),), e, off) for (got,), e, off in pairs]
    assert not any("each row is" in sentence for sentence in looks(other, ()))


@pytest.mark.parametrize(
    ("places", "words", "asked"),
    [
        (np.arange(12).reshape(3, 4) % 7 == 1, "less than half of its values are off", 0),
        (np.arange(12).reshape(3, 4) != 5, "nearly every value is off", 0.8),
    ],
)
def test_how_much_is_off_is_said_where_it_is_so_in_all_draws(places, words, asked):
    right = [np.random.default_rng(n).normal(size=(3, 4)) for n in range(2)]
    pairs = [((e + places * right[0] ** 2,), (e,), (places,)) for e in right]
    assert list(looks(pairs, (), steady=lambda least: least == asked)) == [f"Where the result is wrong, {words}"]
    assert list(looks(pairs, (), wrong_shape=True)) == [f"Where only the numbers of the result are wrong, {words}"]
    assert list(looks(pairs, (), steady=lambda least: False)) == []


def written(*wrong: list[int], begun: int = 0) -> list[Written]:
    """A case with rows that should all be [3, 1, 2, 0]; 0 is their end."""
    right = np.array([[3, 1, 2, 0]] * len(wrong))
    return [Written(np.array(wrong), right, begun, {"end": 0, "pad": 9}, right[:, :0])]


@pytest.mark.parametrize(
    ("row", "begun", "says"),
    [
        ([3, 0, 0, 0], 0, ["goes wrong first with `end`, where another id is right", "the first id is right"]),
        (
            [3, 1, 2, 4],
            0,
            ["goes wrong first where `end` is right", "the first 3 ids are right, and the next is wrong"],
        ),
        ([3, 1, 4, 0], 2, ["already the first id that is added is wrong"]),
        ([3, 1, 2, 4], 2, ["goes wrong first where `end` is right"]),
    ],
)
def test_where_what_is_written_goes_wrong_first_is_said(row, begun, says):
    said = list(first_wrong("the result", written(row, row, begun=begun) + written(row, row, begun=begun)))
    assert len(said) == len(says) and all(words in sentence for words, sentence in zip(says, said, strict=True)), said


def test_of_rows_that_go_wrong_first_at_an_end_and_before_one_both_are_said():
    early, late = [3, 0, 0, 0], [3, 1, 2, 4]
    (said,) = first_wrong("the result", written(early, late) + written(late, early))
    assert said == "Each wrong row of the result goes wrong first with `end`, or where `end` is right"


@pytest.mark.parametrize(
    ("right", "got", "n_rows", "says"),
    [
        ([3, 3, 1, 1], [3, 1, 1, 1], 2, "where the same id is right again"),
        ([3, 1, 3, 3], [3, 1, 2, 2], 6, "where an id is right that has come before"),
        ([3, 1, 3, 3], [3, 1, 2, 2], 2, ""),  # by chance, perhaps
    ],
)
def test_ids_that_are_not_written_again_are_seen(right, got, n_rows, says):
    rows, nothing = np.array([right] * n_rows), np.empty((n_rows, 0), int)
    cases = [Written(np.array([got] * n_rows), rows, 0, {}, nothing) for _ in range(2)]
    said = [sentence for sentence in first_wrong("the result", cases) if "first where" in sentence]
    assert (says in said[0] and len(said) == 1) if says else not said


def test_ids_that_stand_one_place_later_are_seen():
    right = np.array([[3, 7, 2, 4], [4, 7, 5, 6]])
    cases = [Written(np.roll(right, 1, 1) * [9, 1, 1, 1], right, 0, {}, right[:, :0]) for _ in range(2)]
    assert "Each wrong row of the result holds the right ids, one place later" in list(first_wrong("the result", cases))
    cases = [Written(np.roll(right, -1, 1) * [1, 1, 1, 0], right, 0, {}, right[:, :0]) for _ in range(2)]
    assert "Each wrong row of the result holds the right ids, one place earlier" in list(
        first_wrong("the result", cases)
    )


def test_rows_that_are_too_short_are_held_against_what_they_should_begin_with():
    """A row that is only cut off, as the third is, says nothing about ids."""
    right, got = np.array([[3, 7, 2, 2], [4, 7, 5, 5], [4, 5, 5, 5]]), np.array([[3, 7, 0], [4, 7, 0], [4, 5, 5]])
    cases = [Written(got, right, 0, {"end": 0}, right[:, :0]) for _ in range(2)]
    said = list(first_wrong("the result", cases))
    assert said[0] == "Each row of the result with a wrong id goes wrong first with `end`, where another id is right"


def test_few_rows_or_rows_of_one_case_have_nothing_in_common():
    assert not list(first_wrong("it", written([3, 0, 0, 0]) + written([3, 0, 0, 0])))
    assert not list(first_wrong("it", written(*[[3, 0, 0, 0]] * 4)))
    assert not list(first_wrong("it", written([3, 1, 2, 0], [3, 1, 2, 0]) + written([3, 1, 2, 0])))
