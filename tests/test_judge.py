"""The judge on exercises of a few lines, each of which needs one thing that it can do."""

import dataclasses
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from autograder import diagnosis
from autograder.exercise import Case, Criterion, Exercise, Mistake, Property
from headroom.mistakes import catalogue
from tests.small_exercises import MASK, NUMPY, held, judged

# --- Several results, and what kind of numbers they are ----------------------------------------------------------


def split_variation(build, inputs, weights, slips):
    (x,) = inputs
    low, high = x.clamp(max=0), x.clamp(min=0)
    return (high, low) if "exchanged" in slips else (low, high * (2 if "doubled" in slips else 1))


SPLIT = Exercise(
    name="split",
    returns="two tensors: what is below zero, and what is above",
    parts=("low", "high"),
    shape=lambda case: (case.inputs[0].shape, case.inputs[0].shape),
    criteria=(
        Criterion("shape", "two results", 0.2),
        Criterion("values", "the right ones", 0.5),
        Criterion("edge", "one number too", 0.2),
        Criterion("gradients", "gradients flow", 0.1),
    ),
    mistakes=(
        Mistake("exchanged", "the two are exchanged", "Low is high.", "Which comes first?", costs=("values",)),
        Mistake("doubled", "high is doubled", "Twice too high.", "Count.", "factor"),
    ),
    cases=lambda rng: [
        Case("values", "the first", (np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]),), None, True, True),
        Case("edge", "one", (rng.normal(size=(1, 1)),)),
    ],
    reference=lambda build, inputs, weights: split_variation(build, inputs, weights, frozenset()),
    variation=split_variation,
    properties=(Property("low is never above zero", lambda case, out: bool((out[0] <= 0).all())),),
    stages=lambda build, inputs, weights: {"the negative part": inputs[0].clamp(max=0), "a third": inputs[0] / 3},
)


def test_several_results_are_compared_each():
    verdict = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x)))
    assert verdict.passed and ("low is never above zero", True) in verdict.properties


def test_one_result_where_two_are_wanted_is_said():
    verdict = judged(SPLIT, lambda x: x.clamp(max=0))
    assert verdict.score == 0 and "it should return two tensors" in verdict.headline and "Tensor" in verdict.headline
    assert "(NoneType, NoneType)" in judged(SPLIT, lambda x: (None, None)).headline
    assert "returns a tuple of 3" in judged(SPLIT, lambda x: (x, x, x)).text()
    assert "returns one result; should return two tensors" in judged(SPLIT, lambda x: (x.clamp(max=0),)).text()


def test_the_first_difference_names_the_part_and_draws_it():
    difference = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x) + 1)).difference
    assert difference.where == "high[0, 0]" and (difference.expected, difference.got) == ("1", "2")
    assert difference.picture.expected == ((1, 0, 3), (0, 5, 0)) and difference.picture.got[0] == (2, 1, 4)
    html = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x) + 1)).html()
    assert "high, expected" in html and "high, yours" in html and html.count("background-color:rgb(") == 12


def test_how_far_the_way_was_right_is_measured():
    """The stages are looked for in what the code computes, in any layout."""
    verdict = judged(SPLIT, lambda x: (x.T.clamp(max=0).T * 1.5, torch.relu(x)))
    assert (
        verdict.difference.way
        == "Your code computes the numbers of the negative part; those of a third it does not compute, "
        "or not all of them."
    )
    assert (
        judged(SPLIT, lambda x: (x * 2, x)).difference.way
        == "Nothing that your code computes equals the negative part."
    )
    after = judged(SPLIT, lambda x: (-torch.relu(-x) * (x / 3).exp(), x)).difference.way
    assert after.endswith("the negative part and a third; what goes wrong is where they stand, or comes after that.")


def test_a_stage_that_only_puts_together_what_was_there_is_not_told():
    exercise = dataclasses.replace(
        SPLIT,
        stages=lambda build, inputs, weights: {
            "the negative part": inputs[0].clamp(max=0),
            "x twice": torch.cat([inputs[0], inputs[0]]),
            "a third": inputs[0] / 3,
        },
    )
    assert (
        judged(exercise, lambda x: (x.T.clamp(max=0).T * 1.5, torch.relu(x))).difference.way
        == "Your code computes the numbers of the negative part; those of a third it does not compute, "
        "or not all of them."
    )


def test_only_the_students_own_line_says_that_nothing_was_written():
    def stub(x):
        raise NotImplementedError

    assert "not attempted yet" in judged(SPLIT, stub).headline
    assert "it raised NotImplementedError: Subtraction" in judged(SPLIT, lambda x: (x, 1 - (x > 0))).headline


def test_a_known_mistake_costs_what_it_breaks_and_no_more():
    verdict = judged(SPLIT, lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert [m.key for m in verdict.mistakes] == ["exchanged"]
    assert held(verdict) == {
        "two results": True,
        "the right ones": False,
        "one number too": True,
        "gradients flow": True,
    }
    assert verdict.score == pytest.approx(0.5)
    assert "○ 20 of 20 %  one number too – follows from what is recognised above" in verdict.text()
    assert ">20\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}20\N{NO-BREAK SPACE}%<" in verdict.html()  # on one line


def test_a_known_mistake_that_says_nothing_of_its_cost_loses_the_weightiest_line_that_disagrees():
    verdict = judged(SPLIT, lambda x: (x.clamp(max=0), 2 * torch.relu(x)))
    assert [m.key for m in verdict.mistakes] == ["doubled"] and not held(verdict)["the right ones"]
    both = judged(SPLIT, lambda x: (x.clamp(min=0), x.clamp(max=0) - 0))
    assert both.score == pytest.approx(0.5)


def test_the_cost_of_a_mistake_is_never_more_than_what_fails():
    """Outputs that agree by themselves stay right: exchanged parts of a single zero would be no mistake there."""
    costly = dataclasses.replace(SPLIT.mistakes[0], costs=("values", "shape"))
    verdict = judged(dataclasses.replace(SPLIT, mistakes=(costly,)), lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert held(verdict)["two results"] and not verdict.passed


def test_a_mistake_whose_cost_holds_anyway_is_not_for_free():
    cheap = dataclasses.replace(SPLIT.mistakes[0], costs=("shape",))
    verdict = judged(dataclasses.replace(SPLIT, mistakes=(cheap,)), lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert not verdict.passed and not held(verdict)["the right ones"]


def test_a_mistake_is_told_apart_by_its_gradients_too():
    """Exchanged, and one of them cut off: the pair explains more than the exchange alone."""

    def variation(build, inputs, weights, slips):
        low, high = split_variation(build, inputs, weights, slips)
        return low, high.detach() if "cut" in slips else high

    cut = Mistake("cut", "cut off", "No gradient flows.", "Look for `detach`.", "gradient", costs=("gradients",))
    exercise = dataclasses.replace(SPLIT, mistakes=(*SPLIT.mistakes, cut), variation=variation)
    verdict = judged(exercise, lambda x: (x.clamp(min=0), x.clamp(max=0).detach()))
    assert {m.key for m in verdict.mistakes} == {"exchanged", "cut"} and verdict.score == pytest.approx(0.4)


def test_numbers_are_not_truth_values():
    assert judged(MASK, lambda x: x > 0).passed
    for wrong in (lambda x: (x > 0).float(), lambda x: (x > 0).long(), lambda x: x <= 0):
        assert not judged(MASK, wrong).passed
    difference = judged(MASK, lambda x: (x > 0).double()).difference
    assert (difference.expected, difference.got) == ("bool", "floating-point numbers")


def test_infinities_equal_themselves():
    log = dataclasses.replace(
        MASK,
        reference=lambda b, i, w: i[0].log(),
        cases=lambda rng: [Case("values", "zero", (np.array([0.0, 1.0, -1.0]),), None, True)],
    )
    assert judged(log, torch.log).passed
    assert not judged(log, lambda x: torch.log(x).nan_to_num()).passed


def test_a_lost_gradient_shows_whatever_the_cases_are_called():
    twins = lambda rng: [  # noqa: E731
        Case("values", "alike", (np.array([[value, -2.0]]),), None, True, True) for value in (1.0, 3.0)
    ]
    exercise = dataclasses.replace(
        SPLIT, cases=twins, criteria=(Criterion("values", "a", 0.5), Criterion("gradients", "b", 0.5))
    )
    cut = lambda x: (x.clamp(max=0), torch.relu(x.detach() if x[0, 0] == 1 else x))  # noqa: E731
    assert held(judged(exercise, cut)) == {"a": True, "b": False}


def test_a_single_number_has_no_place():
    exercise = dataclasses.replace(
        MASK, shape=lambda case: (), reference=lambda build, inputs, weights: inputs[0].sum()
    )
    difference = judged(exercise, lambda x: x.sum() + 1).difference
    assert (difference.where, difference.note, difference.picture) == ("the result", "", None)


def test_numpy_in_numpy_out():
    def softmax(x):
        assert isinstance(x, np.ndarray)
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    assert judged(NUMPY, softmax).passed
    assert "returned a Tensor" in judged(NUMPY, lambda x: torch.from_numpy(softmax(x))).headline


def test_by_which_factor_all_values_differ_is_said():
    answer = lambda x: 3 * np.exp(x) / np.exp(x).sum(-1, keepdims=True)  # noqa: E731
    assert judged(NUMPY, answer).difference.note == "Every value is 3 times the expected one."


def test_numpy_written_in_place_is_seen():
    def softmax(x):
        np.exp(x, out=x)
        x /= x.sum(-1, keepdims=True)
        return x

    exercise = dataclasses.replace(
        NUMPY, criteria=(Criterion("values", "right", 0.5), Criterion("contract", "kept", 0.5))
    )
    assert "the input is changed by the call" in judged(exercise, softmax).headline


# --- The page for whoever adds an exercise -----------------------------------------------------------------------


def test_the_exercise_of_the_page_does_what_the_page_says(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[1] / "docs" / "adding-an-exercise.md"
    blocks = re.findall(r"```(?:toml|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    facts, *files = blocks
    known, others = tomllib.loads(facts), catalogue._table
    monkeypatch.setattr(catalogue, "_table", lambda topic: known if topic == "softmax" else others(topic))
    modules = []
    for name, source in zip(("exercise_of_the_page", "answers_of_the_page"), files, strict=True):
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        modules.append(importlib.util.module_from_spec(spec))
        monkeypatch.setitem(sys.modules, name, modules[-1])
        spec.loader.exec_module(modules[-1])
    exercise, answers = modules[0].SOFTMAX, modules[1]

    def overflowing(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)

    def softmax(x):
        return (x - x.logsumexp(-1, keepdim=True)).exp()

    def with_mistake(key):
        return lambda x: exercise.altered(None, (x,), {}, frozenset({key}))

    assert judged(exercise, softmax).passed and judged(exercise, with_mistake("none")).passed
    for mistake in exercise.mistakes:
        assert judged(exercise, with_mistake(mistake.key)).mistakes == (mistake,)
    assert [m.title for m in judged(exercise, overflowing).mistakes] == ["the exponential overflows"]
    assert [m.key for m in judged(exercise, answers.over_columns).mistakes] == ["wrong_axis"]
    uniform = judged(exercise, answers.uniform)
    assert not uniform.passed and all(mistake.key == diagnosis.KEY for mistake in uniform.mistakes)


def test_a_part_that_no_criterion_measures_counts():
    """Where a criterion looks at one of two results only, the other is not free."""

    def first(cases, outputs):
        return all(np.allclose(o[0], np.minimum(c.inputs[0], 0)) for c, o in zip(cases, outputs, strict=True)), ""

    exercise = dataclasses.replace(SPLIT, criteria=(Criterion("edge", "low", 1.0, first),), mistakes=())
    assert judged(exercise, lambda x: (x.clamp(max=0), x.clamp(min=0))).passed
    verdict = judged(exercise, lambda x: (x.clamp(max=0), x))
    assert verdict.score == 0 and "cases agree in all parts" in verdict.results[0].note


def test_what_raises_in_some_cases_is_said_in_short():
    def of_several(x):
        if x.numel() == 1:
            raise KeyError("one")
        return x.clamp(max=0), x.clamp(min=0)

    assert judged(SPLIT, of_several).in_short == "raises KeyError in some cases"
    assert judged(SPLIT, lambda x: x[7]).in_short == "it raised IndexError"
