"""The judge is right: every right answer passes in any style, every wrong one fails, and known mistakes are named."""

import functools
import hashlib
import inspect
import io
import itertools
import re
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from traitlets.config import Config

import autograder
from autograder import CheckInterrupted, check, diagnosis, exercises, probe, reading
from autograder.exercise import hidden_apart
from autograder.exercises import EXERCISES, find
from autograder.judging.asking import leaf
from autograder.judging.comparing import as_parts
from headroom import reference
from tests.answers import found, wrong_layer_norm, wrong_multi_head, wrong_sinusoidal
from tests.judged import first_of_each_mistake, judged, pairs, with_mistakes


def tasks(answers: Iterable[tuple[str, Any]]) -> list:
    """(exercise, answer) for each."""
    return [pytest.param(find(name), answer, id=f"{name}-{answer.__name__}") for name, answer in answers]


RIGHT = tasks(found("right"))
WRONG = tasks(found("wrong"))
NAMED = [task for task in WRONG if task.values[1].mistakes]
UNNAMED = [task for task in WRONG if not task.values[1].mistakes]


STYLES = 8  # in which there is a right answer to each exercise, at least


def first_styles(tasks: list) -> list:
    """So many right answers to each exercise."""
    by_exercise = itertools.groupby(sorted(tasks, key=lambda task: task.values[0].name), lambda task: task.values[0])
    return [task for _, own in by_exercise for task in itertools.islice(own, STYLES)]


def drawn(tasks: list, quick: list, again: list) -> pytest.MarkDecorator:
    """`make test` judges the quick ones; `make test-all` then the others, and some with other hidden cases."""
    now = {task.id for task in quick}
    own = [pytest.param(*t.values, 0, id=f"{t.id}-0", marks=() if t.id in now else pytest.mark.full) for t in tasks]
    other = [pytest.param(*task.values, 1, id=f"{task.id}-1", marks=pytest.mark.full) for task in again]
    return pytest.mark.parametrize(("exercise", "answer", "seed"), own + other)


@functools.cache
def state_of_the_grader() -> str:
    """Changes with any file of the grader."""
    files = sorted(Path(autograder.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@pytest.fixture
def score_before(request):
    """Notes a score, and gives the one that the same answer had with the other seed, if that has been judged.

    `make test-all` begins with `make test`, which leaves its scores here. `python benchmarks/grader.py --draws 40`
    compares forty draws.
    """
    name, cache = request.node.callspec.id.rpartition("-")[0], request.config.cache

    def compared(seed: int, score: float) -> float:
        cache.set(f"headroom/{name}-{seed}", [state_of_the_grader(), score])
        state, other = cache.get(f"headroom/{name}-{1 - seed}", ["", score])
        return other if state == state_of_the_grader() else score

    return compared


@drawn(RIGHT, first_styles(RIGHT), RIGHT[::12])
def test_right_answers_in_any_style_earn_full_marks(exercise, answer, seed):
    verdict = judged(exercise, answer, seed)
    assert verdict.passed and verdict.score == 1.0, verdict.text()


@drawn(NAMED, tasks(first_of_each_mistake()), NAMED[::24])
def test_known_mistakes_fail_and_are_named(exercise, answer, seed, score_before):
    verdict = judged(exercise, answer, seed)
    assert score_before(seed, verdict.score) == verdict.score, "the score is another in another draw"
    assert not verdict.passed and verdict.score < 1, verdict.text()
    assert {mistake.key for mistake in verdict.mistakes} == set(answer.mistakes), verdict.text()


def of_functions(tasks: list) -> list:
    """Those of functions, which are judged soon, and some of modules: benchmarks/grader.py judges all."""
    modules = [task for task in tasks if task.values[0].roles]
    return [task for task in tasks if not task.values[0].roles] + modules[::18]


@pytest.mark.full
@pytest.mark.parametrize(("exercise", "answer"), of_functions(UNNAMED))
def test_mistakes_on_no_list_fail_and_are_given_no_wrong_name(exercise, answer):
    """What search finds is no name of the list: it says what the code does, as tests/test_diagnosis.py demands."""
    verdict = judged(exercise, answer, 1)
    assert not verdict.passed and verdict.score < 1, verdict.text()
    assert all(mistake.key == diagnosis.KEY for mistake in verdict.mistakes), verdict.text()


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_there_are_at_least_eight_styles_of_each(exercise):
    assert sum(task.values[0] is exercise for task in RIGHT) >= STYLES


def test_no_file_of_exercises_has_more_than_300_lines():
    files = Path(exercises.__file__).parent.glob("*.py")
    assert {file.name: n for file in files if (n := len(file.read_text("utf-8").splitlines())) > 300} == {}


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_every_mistake_on_the_list_has_a_wrong_answer_of_its_own(exercise):
    """A module that adds a table may borrow the table's mistakes: those are tried on the table."""
    tried = {key for task in NAMED for key in task.values[1].mistakes if len(task.values[1].mistakes) == 1}
    assert {mistake.key for mistake in exercise.mistakes} <= tried


# --- The exercise files ------------------------------------------------------------------------------------------


COMPARED = {name: exercise for name, exercise in EXERCISES.items() if exercise.reference}


@pytest.mark.parametrize("exercise", COMPARED.values(), ids=COMPARED)
def test_the_variation_without_mistakes_is_the_reference(exercise):
    verdict = with_mistakes(exercise)
    assert verdict.passed, verdict.text()


@pytest.mark.full
@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [
        pytest.param(exercise, mistake, id=f"{name}-{mistake.key}")
        for name, exercise in COMPARED.items()
        for mistake in exercise.mistakes
        if mistake.computed and len(mistake.ways) > 1
    ],
)
def test_another_way_to_make_a_mistake_fails_and_is_named_first(exercise, mistake):
    """The first way is that of the wrong answer of its own; of the others, often one in each half, the last is made."""
    verdict = with_mistakes(exercise, mistake.ways[-1])
    # One that takes parameters of other shapes only raises here; it has a wrong answer of its own.
    assert not verdict.passed and (verdict.mistakes[:1] == (mistake,) or verdict.error), verdict.text()


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_shares_add_up_to_one_and_every_case_counts(exercise):
    """And each criterion has a case: one without would hold of everything."""
    assert sum(criterion.share for criterion in exercise.criteria) == pytest.approx(1.0)
    keys = {criterion.key for criterion in exercise.criteria}
    of_cases = {criterion.key for criterion in exercise.criteria if criterion.measure is None}
    tags = {case.tag for case in exercise.tried(np.random.default_rng(0))}
    assert of_cases - {"shape", "gradients", "contract"} <= tags
    assert {case.tag for case in exercise.cases(np.random.default_rng(0))} <= keys
    assert {key for mistake in exercise.mistakes for key in mistake.costs} <= keys


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_what_a_student_can_see_beforehand_earns_no_criterion(exercise):
    cases = exercise.tried(np.random.default_rng(0))
    assert {case.tag for case in cases if case.visible} <= {case.tag for case in cases if not case.visible}


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_visible_cases_never_change_and_hidden_ones_do(exercise):
    def inputs(seed: int, visible: bool) -> list[bytes]:
        cases = exercise.cases(np.random.default_rng(seed))
        return [probe.pack(list(case.inputs)) for case in cases if case.visible is visible]

    assert inputs(1, visible=True) == inputs(2, visible=True)
    assert inputs(1, visible=False) != inputs(2, visible=False)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_no_hidden_case_looks_like_a_visible_one(exercise):
    for seed in range(12):  # whoever answers by the shape what feedback showed gets no points by luck
        cases = [case for case in exercise.tried(np.random.default_rng(seed)) if case.sizes is None]
        assert hidden_apart(cases)


@pytest.mark.full
@pytest.mark.parametrize("exercise", COMPARED.values(), ids=COMPARED)
def test_pairs_of_mistakes_that_can_be_told_apart_are_both_named(exercise):
    """Pairs made by switching on two mistakes at once. A pair that does what one mistake does cannot be told apart."""
    told_apart, named, missed = 0, 0, []
    for pair in pairs(exercise):
        verdict = with_mistakes(exercise, *pair)
        assert not verdict.passed, pair
        if len(verdict.mistakes) == 1:  # it does exactly what this one does
            continue
        told_apart += 1
        if {way for mistake in verdict.mistakes for way in mistake.ways[:1]} == {*pair}:
            named += 1
        else:
            missed.append(pair)
    assert len(missed) <= max(1, 0.1 * told_apart), f"{named} of {told_apart} pairs are named; not: {missed}"


# --- What a verdict says -----------------------------------------------------------------------------------------


def test_not_attempted_is_said_so():
    class MultiHeadSelfAttention(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            raise NotImplementedError

    verdict = check(MultiHeadSelfAttention)
    assert verdict.score == 0 and "not attempted" in verdict.text()


def test_a_crash_shows_the_students_own_line():
    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

        def forward(self, x):
            return x @ self.missing

    text = check(LayerNorm).text()
    assert "AttributeError" in text and "return x @ self.missing" in text and "site-packages" not in text


def test_nothing_returned_is_said_so():
    assert "is the `return` missing?" in judged(find("sinusoidal_encoding"), wrong_sinusoidal.nothing).text()


def test_the_work_of_others_is_refused_by_what_runs():
    for name, answer in (
        ("LayerNorm", wrong_layer_norm.Real),
        ("MultiHeadSelfAttention", wrong_multi_head.RealMultiheadAttention),
        ("MultiHeadSelfAttention", wrong_multi_head.Fused),
    ):
        verdict = judged(find(name), answer)
        assert verdict.score == 0 and "your code calls" in verdict.headline


def test_the_first_difference_shows_a_visible_case_only():
    verdict = judged(find("LayerNorm"), wrong_layer_norm.TorchVarAsItComes, 7)
    assert verdict.difference and "(2, 3, 7)" in verdict.difference.case
    verdict = judged(find("LayerNorm"), wrong_layer_norm.EpsHardCoded, 7)  # wrong in a hidden case only
    assert verdict.difference is None and not verdict.passed


def test_partial_credit_follows_the_criteria():
    verdict = judged(find("MultiHeadSelfAttention"), wrong_multi_head.MaskForgotten, 0)
    holds = {result.title: result.holds for result in verdict.results}
    assert holds["split, attend, merge, project"] and not holds["padding and causal masks are respected"]
    assert verdict.score == pytest.approx(0.8)


def test_html_escapes_what_the_student_wrote():
    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            raise ValueError("<script>alert(1)</script>")

    assert "<script" not in check(LayerNorm).html()


def test_check_refuses_what_it_cannot_judge():
    with pytest.raises(TypeError, match="function or class itself"):
        check(3)
    with pytest.raises(LookupError, match=r"there are .*MultiHeadSelfAttention"):
        check(len)


def test_check_raises_while_nbgrader_validates(monkeypatch):
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    assert check(reference.LayerNorm).passed
    Wrong = type("LayerNorm", (wrong_layer_norm.Identity,), {})
    with pytest.raises(AssertionError, match="cases agree"):
        check(Wrong)


def test_a_failure_under_nbgrader_is_shown_without_frames(monkeypatch):
    """nbgrader's Validate button shows the traceback: it holds the verdict and nothing of the grader's own code."""
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    shell.user_ns |= {"check": check, "nn": nn}
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    with redirect_stdout(io.StringIO()) as shown:
        shell.run_cell("class LayerNorm(nn.Module):\n    pass\ncheck(LayerNorm)", store_history=False)
    assert shown.getvalue().startswith("✗ LayerNorm")
    assert "File" not in shown.getvalue() and "CheckFailed" not in shown.getvalue()


MASK = "{}def causal_mask(n):\n    return torch.ones(n, n).tril().bool(){}"
NORM = "class LayerNorm(nn.Module):\n    def __init__(self, d_model, eps=1e-5):\n        super().__init__()\n{}"


@pytest.mark.parametrize(
    ("name", "cells", "old"),
    [
        ("causal_mask", [MASK.format("", ""), "1 / 0", "def other(n:"], False),
        ("causal_mask", [MASK.format("", ""), MASK.format("", ")")], True),
        ("causal_mask", [MASK.format("", ""), MASK.format("", " + '")], True),
        ("causal_mask", [MASK.format("", ""), MASK.format("1 / 0\n", "")], True),
        ("causal_mask", [MASK.format("", ""), MASK.format("", "\n1 / 0")], False),  # which it came past
        ("causal_mask", [MASK.format("", ""), MASK.format("", ")"), MASK.format("", "")], False),
        ("causal_mask", [MASK.format("%pdb off\n@torch.no_grad()\n", "")], False),
        ("causal_mask", [MASK.format("%pdb off\n@torch.no_grad()\n", ""), MASK.format("", ")")], True),
        ("causal_mask", ["from headroom.reference import causal_mask", MASK.format("", ")")], False),  # no cell's
        ("causal_mask", [MASK.format("", ""), MASK.format("%%capture\n", "\n# 2")], False),
        ("LayerNorm", [NORM.format("")], False),
        ("LayerNorm", [NORM.format(""), NORM.format("    eps = 1e-5 1\n")], True),
    ],
)
def test_a_check_says_if_the_cell_was_run_again_and_failed(name: str, cells: list[str], old: bool) -> None:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        shell.user_ns |= {"check": check, "nn": nn, "torch": torch}
        for cell in [*cells, f"verdict = check({name})"]:
            shell.run_cell(cell, store_history=True)
        verdict = shell.user_ns["verdict"]
    finally:
        InteractiveShell.clear_instance()
    assert ("ended in an error, so the version before was judged: " in verdict.text()) == old
    assert verdict.passed == (name == "causal_mask")


def test_an_interrupted_check_says_where_the_code_was():
    class LayerNorm(reference.LayerNorm):
        def forward(self, x):
            raise KeyboardInterrupt  # as the stop button does in an endless loop

    with pytest.raises(CheckInterrupted, match=r"while LayerNorm was being checked, at line [0-9]+, in forward: raise"):
        check(LayerNorm)


def test_visible_numbers_are_the_same_at_every_check():
    seen = [judged(find("LayerNorm"), wrong_layer_norm.StdPlusEps, seed).difference for seed in range(4)]
    assert seen[0] is not None and len(set(seen)) == 1


@pytest.mark.parametrize("answer", ["StdPlusEps", "NoEps", "AnotherDefault", "TorchVarAsItComes"])
def test_the_score_does_not_depend_on_luck(answer):
    scores = {judged(find("LayerNorm"), getattr(wrong_layer_norm, answer), seed).score for seed in range(6)}
    assert len(scores) == 1, scores


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20, 26))  # with tokens of two numbers, seed 23 took the norms for each other
def test_what_is_recognised_does_not_depend_on_luck(seed):
    verdict = with_mistakes(find("Encoder"), "repeated_block", "post_norm", seed=seed)
    assert [mistake.key for mistake in verdict.mistakes] == ["repeated_block", "post_norm"]


def test_one_width_that_cannot_be_built_costs_only_what_it_is_worth():
    verdict = judged(find("PositionalEncoding"), wrong_sinusoidal.OddFails, 0)
    assert verdict.score == pytest.approx(0.9)


def test_not_attempted_names_the_function_that_was_not_written():
    def split_heads(x):
        raise NotImplementedError

    class MultiHeadSelfAttention(reference.MultiHeadSelfAttention):
        def split_heads(self, x):
            return split_heads(x)

    assert "`split_heads` still raises" in check(MultiHeadSelfAttention).headline


def test_code_in_a_sentence_is_shown_as_code():
    html = judged(find("MultiHeadSelfAttention"), wrong_multi_head.ViewAfterTranspose).html()
    assert "<code>view</code>" in html and "`" not in html.split("Your code stopped at")[0]


STAGED = {name: exercise for name, exercise in EXERCISES.items() if exercise.stages}


@pytest.mark.full
@pytest.mark.parametrize("exercise", STAGED.values(), ids=STAGED)
def test_right_answers_pass_through_the_stages(exercise):
    """Otherwise the judge would send a student back to where nothing is wrong: all but the last step is right here.

    Where it cannot tell which parameter is which, as nothing comes out right, it says nothing; that is rare.
    """

    def changed(output):
        # In a way that is no known mistake, and that no search finds: then nothing is said of stages.
        parts = output if isinstance(output, tuple | list) else (output,)
        bent = tuple(part + part * part for part in parts)
        return bent if parts is output else bent[0]

    ways, foreseen = {}, []
    for answer in [task.values[1] for task in RIGHT if task.values[0] is exercise][::10]:
        if inspect.isclass(answer):
            forward = {"forward": lambda self, *inputs, answer=answer: changed(answer.forward(self, *inputs))}
            almost = type(answer.__name__, (answer,), forward)
        else:
            almost = lambda *inputs, answer=answer: changed(answer(*inputs))  # noqa: E731
        verdict = judged(exercise, almost, 0)
        ways[answer.__name__] = verdict.difference.way if verdict.difference else ""
        foreseen += [] if answer.__module__.endswith("_layouts") else [answer.__name__]
    wrong = {
        name: way
        for name, way in ways.items()
        if way and not way.endswith("what goes wrong is where they stand, or comes after that.")
    }
    assert not wrong
    silent = [name for name in foreseen if not ways[name]]
    assert len(silent) <= max(1, 0.2 * len(foreseen)), silent


SIZE = re.compile(r"\b(?:result|values?|scores|terms)\b[^.:;]* too (small|large)\b")
OF_SIZE = [
    pytest.param(exercise, mistake.ways[0], said[1], id=f"{exercise.name}-{mistake.key}")
    for exercise in EXERCISES.values()
    for mistake in exercise.mistakes
    if mistake.computed and (said := SIZE.search(mistake.sentence))
]


@pytest.mark.parametrize(("exercise", "way", "said"), OF_SIZE)
def test_what_a_sentence_calls_too_small_or_too_large_comes_out_so(exercise, way, said):
    """By how far results spread, with the mistake and without."""
    ratios = []
    for case in exercise.cases(np.random.default_rng(0)):
        roles = exercise.roles(case.build) if exercise.roles else {}
        weights = {name: reading.numbers(name, role.shape) for name, role in roles.items()}
        given = case.build, tuple(map(leaf, case.inputs)), weights
        right, wrong = as_parts(exercise.reference(*given))[0], as_parts(exercise.altered(*given, frozenset({way})))[0]
        ratios.append(float(wrong.detach().std() / right.detach().std()))
    found = [ratio for ratio in ratios if np.isfinite(ratio) and abs(ratio - 1) > 1e-6]
    assert found and all((ratio < 1) == (said == "small") for ratio in found), ratios
