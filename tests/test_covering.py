"""Which sizes are tried: what a rule says, and not somebody's list."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from autograder import location
from autograder.covering import Axis, Choice, Derived, Only, Sizes, covering, longest, possible, sequence_length
from autograder.exercise import Case, Mistake, differentiated, with_large_weights, with_outlier, with_zeros
from autograder.exercises import EXERCISES
from autograder.judging.locating import form

HEADS = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("n_heads", most=4, build=True),
    Axis("d_head", most=5, build=True),
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
    Choice("mask", (None, "causal", "padding")),
)
NUMBERS = ("batch", "tokens", "n_heads", "d_head", "d_model")


def test_each_axis_is_1_where_no_other_is_and_all_are_1_in_one():
    sets = covering(HEADS)
    for name in ("batch", "tokens", "n_heads", "d_head"):
        assert any(s[name] == 1 and all(s[other] > 1 for other in NUMBERS if other != name) for s in sets), name
    assert any(all(s[name] == 1 for name in NUMBERS) for s in sets)


@pytest.mark.parametrize("name", ["batch", "tokens", "d_model"])
def test_each_axis_is_larger_than_all_others_in_one(name):
    assert any(all(s[name] > s[other] for other in NUMBERS if other != name) for s in covering(HEADS))


def test_every_two_axes_are_equal_in_one_and_different_in_one():
    for i, one in enumerate(NUMBERS):
        for other in NUMBERS[:i]:
            assert any(s[one] == s[other] > 1 for s in covering(HEADS)), (one, other)
            assert any(1 < s[one] != s[other] > 1 for s in covering(HEADS)), (one, other)


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if exercise.axes])
def test_what_is_long_is_long_among_sizes_of_more_than_1_where_it_can_be(name):
    axes = EXERCISES[name].axes

    def among_others(sets):
        long = {axis.name: axis.long for axis in axes if isinstance(axis, Axis) and axis.long}
        more = [s for s in sets if min(n for n in s.values() if type(n) is int) > 1]
        return {name for name, size in long.items() if any(s[name] == size for s in more)}

    assert among_others(covering(axes)) == among_others(possible(axes))


def test_each_choice_is_tried_with_what_is_long():
    assert {s["mask"] for s in covering(HEADS) if s["tokens"] == 70} == {None, "causal", "padding"}
    for exercise in filter(lambda exercise: exercise.axes, EXERCISES.values()):
        sets, every = covering(exercise.axes), possible(exercise.axes)
        long = {axis.name: axis.long for axis in exercise.axes if isinstance(axis, Axis) and axis.long}
        chosen = [(axis.name, value) for axis in exercise.axes if isinstance(axis, Choice) for value in axis.values]
        for (name, value), (other, most) in itertools.product(chosen, long.items()):
            both = {name: value, other: most}
            if any(both.items() <= sizes.items() for sizes in every):
                assert any(both.items() <= sizes.items() for sizes in sets), (exercise.name, both)


def test_one_object_gets_calls_of_all_kinds_and_two_of_the_same_shape():
    sets = [tuple(s.values()) for s in covering(HEADS)]
    assert len(set(sets)) == len(sets) - 2
    ours = [s for s in covering(HEADS) if s["d_model"] == sets[0][4] and s["n_heads"] == sets[0][2]]
    assert {s["mask"] for s in ours} == {None, "causal", "padding"}
    assert {1, 70} <= {s["tokens"] for s in ours} and 1 in {s["batch"] for s in ours}


def test_what_takes_long_is_tried_once_by_the_object_that_has_met_all_else():
    longer = (*HEADS, Derived("numbers", lambda sizes: sizes["batch"] * sizes["tokens"]))
    assert longest(longer) == covering(longer)[-1] | {"batch": 1, "tokens": 300, "mask": None, "numbers": 300}
    assert longest((Axis("tokens", long=70), Axis("n_heads", long=9, build=True))) is None
    cases = EXERCISES["MultiHeadSelfAttention"].tried(np.random.default_rng(0))
    assert [case.once for case in cases] == [False] * (len(cases) - 1) + [True]
    assert cases[-1].inputs[0].shape[:2] == (1, 300)


def test_what_is_excluded_is_not_drawn():
    sets = covering(
        (Axis("tokens", most=8), Axis("max_tokens", most=8), Only(lambda s: s["tokens"] <= s["max_tokens"]))
    )
    assert len(sets) > 3 and all(s["tokens"] <= s["max_tokens"] for s in sets)


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if exercise.axes])
def test_every_exercise_is_covered_by_few_cases_of_bounded_size(name):
    exercise = EXERCISES[name]
    sets = covering(exercise.axes)
    assert 2 <= len(sets) <= 20
    drawn = [case for case in exercise.tried(np.random.default_rng(0)) if case.sizes]
    assert len(drawn) == len(sets) + (longest(exercise.axes) is not None)
    assert {case.tag for case in drawn} <= {criterion.key for criterion in exercise.criteria}
    for case in drawn:
        assert all(value.size <= 100_000 for value in case.inputs if isinstance(value, np.ndarray))
        assert not case.visible


def test_every_two_axes_are_1_together_where_all_must_not_be():
    few = Only(lambda sizes: sum(n == 1 for n in sizes.values()) < 3)
    sets = covering((*(Axis(name, most=4) for name in "abc"), few))
    for pair in ("ab", "ac", "bc"):
        assert any(all(s[name] == 1 for name in pair) for s in sets), pair


def test_the_last_drawn_case_has_one_token_that_is_far_larger_than_all_others():
    plain = Case("values", "x", (3, np.ones((2, 3, 4)), np.ones((2, 2))))
    changed = with_outlier(plain)
    assert changed.inputs[1].sum() == 4 * 1000 + 20 and (plain.inputs[1] == 1).all() and not changed.single
    assert with_outlier(Case("values", "ids", (np.arange(6).reshape(2, 3),))).label == "ids"
    for name in ("LayerNorm", "scaled_dot_product_attention"):
        cases = EXERCISES[name].tried(np.random.default_rng(0))
        (told,) = [case for case in cases if "1,000 times as large" in case.label]
        rows = np.abs(told.inputs[0]).max(-1).ravel()
        assert rows[0] == rows.max() and not any(
            value.dtype.kind == "b" for value in told.inputs if isinstance(value, np.ndarray)
        )


def test_an_object_has_large_weights_in_one_drawn_case():
    assert with_large_weights(Case("values", "x", (np.ones(2),))).scale == 1, "there are none"
    for name in ("FeedForward", "ViT"):
        drawn = [case for case in EXERCISES[name].tried(np.random.default_rng(0)) if case.sizes]
        assert sorted({case.scale for case in drawn}) == [1, 30] and sum(case.scale == 30 for case in drawn) == 1
        (large,) = [case for case in drawn if case.scale == 30]
        assert large.label.endswith("weights 30 times as large") and not large.differentiate


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if exercise.axes])
def test_the_outlier_is_one_of_several_rows_where_nothing_is_hidden(name):
    cases = [case for case in EXERCISES[name].tried(np.random.default_rng(0)) if "1,000 times as large" in case.label]
    assert len(cases) <= 1
    for case in cases:
        assert case.sizes is not None and not any(case.sizes.get(key) for key in ("mask", "padding", "memory_mask"))
        assert any(np.ndim(value) > 1 and np.shape(value)[-2] > 1 for value in case.inputs)


# --- What becomes of a case -------------------------------------------------------------------------------------------


def numbers(*shape: int) -> Case:
    return Case("values", "ordinary", (np.arange(1.0, 1 + np.prod(shape)).reshape(shape),))


@pytest.mark.parametrize(("shape", "zero"), [((2, 3, 4), (0, 0)), ((3, 4), (0,)), ((2, 1, 3, 3), -1)])
def test_where_zeros_must_not_matter_one_token_is_0_or_a_whole_image(shape, zero):
    case = with_zeros(numbers(*shape))
    (before,), (after,) = numbers(*shape).inputs, case.inputs
    assert not after[zero].any() and (after == 0).sum() == before[zero].size
    assert case.label == "ordinary, some of it zeros"


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 3, 4)])
def test_of_one_token_or_one_sample_nothing_is_made_0(shape):
    assert with_zeros(case := numbers(*shape)) is case


@pytest.mark.parametrize(
    ("change", "compared"),
    [
        ({}, True),
        ({"scale": 30.0}, False),
        ({"dtype": "float32"}, False),
        ({"single": False}, False),
        ({"refuses": True}, False),
        ({"steps": (1, 1), "drift": 2.0}, False),
        ({"steps": (1, 1)}, True),
        ({"inputs": (np.full((2, 2), 101.0),)}, False),
        ({"inputs": (np.array([[1.0, 2.0], [0.0, 0.0]]),)}, False),
    ],
)
def test_gradients_are_compared_beside_where_numbers_are_ordinary(change, compared):
    case = differentiated(replace(numbers(2, 2), **change))
    assert (case.differentiate, case.beside) == (compared, True)
    assert differentiated(replace(numbers(2, 2), differentiate=True, scale=30.0)).differentiate


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("It keeps no mean: in training, nothing is learnt.", "In evaluation mode: it keeps no mean."),
        ("It drops. All of it goes.", "In evaluation mode: it drops."),
        ("It drops", "In evaluation mode: it drops."),
    ],
)
def test_of_a_mistake_in_evaluation_mode_only_the_fact_is_said(sentence, said):
    assert Mistake("key", "title", sentence).in_evaluation().sentence == said


def test_what_excludes_another_mistake_is_a_slot_or_the_same_step():
    def made(slot="", change=""):
        return Mistake("key", "title", "It is so.", slot=slot, change=change)

    assert made("a").excludes(made("a")) and not made("a").excludes(made("b"))
    assert made().excludes(made()), "of what is written as a variation, one at a time"
    assert made(change="y = x").excludes(made(change="y = 2 * x"))
    assert not made(change="y = x").excludes(made(change="z = x")) and made("a", "y = x").excludes(made("a", "z = x"))


def test_the_ways_to_make_a_mistake_have_switches_of_their_own():
    assert Mistake("key", "t", "s.", change=("y = x", "y = 2 * x")).ways == ("key", "key (2)")
    assert Mistake("key", "t", "s.", also=("other",)).ways == ("key", "other")
    assert (
        not Mistake("key", "t", "s.", sign=bool).computed
        and Mistake("key", "t", "s.", "", "", "y = x", (), bool).computed
    )


def test_what_is_longest_is_called_once_and_visible_numbers_are_not_drawn_again():
    exercise = next(one for one in EXERCISES.values() if one.drawn and longest(one.axes))
    first, second = (exercise.tried(np.random.default_rng(seed)) for seed in (0, 1))
    assert [case.once for case in first].count(True) == 1 and first[-1].once and not first[-1].differentiate
    for one, other in zip(first, second, strict=True):
        assert one.visible == other.visible and (not one.visible or repr(one.inputs) == repr(other.inputs))
    assert all(case.label.count(" ") and case.sizes for case in first[-3:])


def test_the_sizes_of_a_case_can_be_read_off_its_numbers() -> None:
    """An axis that is the sum of two among them."""
    axes = (Axis("batch"), Axis("length"), Axis("repeated"), Choice("mask", (None, "causal")))

    def form_of(sizes: Sizes) -> list[int]:
        return [sizes["batch"], sizes["length"] + sizes["repeated"], sizes["length"]]

    sizes = {"batch": 2, "length": 3, "repeated": 4}
    assert location.likely(axes, form_of, [2, 7, 3]) == [sizes | {"mask": None}, sizes | {"mask": "causal"}]
    assert location.likely(axes, lambda sizes: [], [2, 7, 3]) == []
    many = tuple(Axis(f"axis {n}") for n in range(1 + len(location.UNLIKE)))
    assert location.likely(many, lambda sizes: [*sizes.values()], [1] * len(many)) == []


@pytest.mark.parametrize("name", EXERCISES)
def test_the_sizes_of_a_drawn_case_are_among_those_that_it_may_have(name: str) -> None:
    """Or none are: that is where they cannot be told."""
    exercise = EXERCISES[name]
    if not exercise.axes:
        return

    def form_of(sizes: Sizes) -> list[int]:
        try:
            return form(exercise.of(sizes, np.random.default_rng(0)))
        except Exception:
            return []

    for sizes in covering(exercise.axes)[:3]:
        likely = location.likely(exercise.axes, form_of, form_of(sizes))
        assert not likely or sizes in likely


@pytest.mark.parametrize("name", EXERCISES)
def test_each_value_of_a_choice_meets_each_of_another(name: str) -> None:
    """As far as such sizes are possible: a mask, say, with and without a cache."""
    axes = EXERCISES[name].axes
    choices = [axis.name for axis in axes if isinstance(axis, Choice)]
    for one, other in itertools.combinations(choices, 2):
        met = {(sizes[one], sizes[other]) for sizes in covering(axes)}
        assert met == {(sizes[one], sizes[other]) for sizes in possible(axes)}


def test_axes_that_are_declared_alike_are_exchanged_in_one():
    """What is kept by a product of sizes, such as the number of pixels, goes wrong for one of the two."""
    axes = (Axis("batch", most=4), Axis("rows", most=4, long=12), Axis("columns", most=4, long=12))
    sizes = [(s["batch"], s["rows"], s["columns"]) for s in covering(axes)]
    assert any((batch, columns, rows) in sizes for batch, rows, columns in sizes if rows != columns > 1 < rows)
    made = (*axes, Derived("pixels", lambda s: s["rows"] * s["columns"]), Derived("wide", lambda s: s["columns"] + 1))
    assert all(s["wide"] == s["columns"] + 1 for s in covering(made))
    assert all(s["rows"] <= s["columns"] for s in covering((*axes, Only(lambda s: s["rows"] <= s["columns"]))))
