"""Diagnosis by search: steps are the reference once more, and a small change of them explains what is on no list."""

import ast
import inspect
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autograder import diagnosis, probe
from autograder.diagnosis import dataflow, rules, search
from autograder.exercise import Parameter
from autograder.exercises import EXERCISES, find
from autograder.judge import judge
from autograder.judging.comparing import calls
from tests.answers import found

WITH_STEPS = {name: exercise for name, exercise in EXERCISES.items() if exercise.steps}


def of(values):
    return tuple(torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values)


def parts(answer):
    return answer if isinstance(answer, tuple) else (answer,)


def right_parts(exercise, case, inputs, weights):
    """The parts of the right answer; of a text in several calls, those of each call."""
    if case.steps is None:
        return parts(exercise.reference(case.build, inputs, weights))
    outputs, state = [], None
    for x, _ in calls(case, inputs):
        output, state = exercise.reference(case.build, (x, state), weights)
        outputs.append(output)
    return outputs


@pytest.mark.parametrize("exercise", WITH_STEPS.values(), ids=WITH_STEPS)
def test_steps_are_the_reference(exercise):
    """Called as a function and run as dataflow alike, in values and gradients, in every case of three draws."""
    base = next(answer for name, answer in found("right") if name == exercise.name)
    program = dataflow.read(exercise.steps)
    for seed in range(3):
        for case in exercise.cases(np.random.default_rng(seed)):
            if case.dtype != "float64" or case.drift != 1:
                continue
            weights = {}
            if case.build is not None:
                module = base(*case.build).double()
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter.normal_()
                own = {n: (Parameter(n, tuple(p.shape), p.requires_grad), p) for n, p in module.named_parameters()}
                weights = next(exercise.mappings(own, case.build))
            inputs = tuple(
                v.requires_grad_(v.is_floating_point()) if torch.is_tensor(v) else v for v in of(case.inputs)
            )
            want = right_parts(exercise, case, inputs, weights)
            given = [dataflow.bound(exercise.steps, case.build, call, weights) for call in calls(case, inputs)]
            got = [part for call in given for part in parts(dataflow.Machine(program, call).run_again(program.lines))]
            for mine, theirs in zip(got, want, strict=True):
                if theirs.dtype == torch.bool:
                    assert torch.equal(mine, theirs)
                else:  # a table may be in float32: its angles are as exact as that
                    exact = theirs.dtype == torch.float64
                    atol = (2e-6 if exact else 1e-3) * float(theirs.detach().abs().max())
                    torch.testing.assert_close(mine.to(theirs.dtype), theirs, rtol=1e-6, atol=atol)
            if case.differentiate:
                leaves = [v for v in inputs if torch.is_tensor(v) and v.requires_grad]
                gradients = [torch.autograd.grad(sum(p.square().sum() for p in some), leaves) for some in (got, want)]
                for mine, theirs in zip(*gradients, strict=True):
                    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6 * float(theirs.abs().max()))


def test_the_search_knows_no_exercise():
    for file in Path(diagnosis.__file__).parent.rglob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        assert not {
            name for name in imported if name.startswith(("headroom", "autograder.exercises", "autograder.judge"))
        }


# Wrong answers on no list, and what is said of them.
EXPLAINED = [
    ("scaled_dot_product_attention", "softmax_twice", "for the weights, the softmax is taken twice"),
    ("scaled_dot_product_attention", "mask_of_the_first_sample", "the mask of the first sample is used for all"),
    ("attention_scores", "eight_for_every_width", "the scores are divided by 8"),
    ("attention_scores", "scaled_by_an_integer_root", "the scores are divided by √d_k rounded to a whole number"),
    ("sinusoidal_encoding", "relative_position", "the positions are also divided by n_tokens"),
    ("LayerNorm", "GammaTwice", "`gamma` is squared"),
    ("LayerNorm", "MeanDetached", "only a part of the gradient flows back from the centred values to `x`"),
    ("RMSNorm", "EpsSquared", "`eps` is squared"),
    ("softmax_backward", "off_diagonal_twice", "the row terms are also multiplied by 2"),
    ("masked_attention", "over_the_queries", "for the weights, the softmax runs over the last axis but one"),
    ("sequence_loss", "ignores_0", "for the counted tokens, a fixed 0 is used, whatever `pad` is"),
    ("MultiHeadSelfAttention", "ReluOnQueries", "the projected queries are put through ReLU"),
    ("MultiHeadSelfAttention", "DetachedScores", "no gradient flows back through the raw scores"),
    pytest.param(
        "DecoderBlock",
        "AllBranchesAtOnce",
        "the second norm and the third norm are made with `x`",
        marks=pytest.mark.full,
    ),
    pytest.param(
        "DecoderBlock",
        "CrossOfOneHead",
        "in the cross attention, a fixed 1 is used, whatever n_heads is",
        marks=pytest.mark.full,
    ),
]


def judged(exercise, name, seed=0):
    answer = next(a for e, a in found("wrong") if e == exercise and a.__name__ == name)
    return judge(find(exercise), lambda request: probe.answer(request, answer), seed)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize(("exercise", "answer", "words"), EXPLAINED)
def test_a_small_change_explains_what_is_on_no_list(exercise, answer, words, seed):
    (mistake,) = judged(exercise, answer, seed).mistakes
    assert (mistake.key, mistake.title) == (diagnosis.KEY, words)


def test_sizes_name_an_unknown_factor():
    def attention_scores(q, k):
        return q @ k.mT / np.sqrt(q.shape[-1]) * np.sqrt(2 / k.shape[-2])

    verdict = judge(find("attention_scores"), lambda request: probe.answer(request, attention_scores), 0)
    assert "√(2 / n_keys) times the expected one" in verdict.text()


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_what_is_mixed_in_is_named_with_its_share(share):
    """Label smoothing makes each surprise in part the mean over the vocabulary."""

    def sequence_loss(logits, tokens, pad):
        predictions, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        return torch.nn.functional.cross_entropy(predictions, targets, ignore_index=pad, label_smoothing=share)

    verdict = judge(find("sequence_loss"), lambda request: probe.answer(request, sequence_loss), 0)
    assert f"to a share of {share}, the surprise is made with a mean over all entries" in verdict.text()


def test_code_that_raises_is_never_explained():
    def attention_scores(q, k):
        return q @ k

    def raises_for_some(q, k):
        if q.dim() != 3:
            raise ValueError("three axes")
        return q @ k.mT / 8

    for answer in (attention_scores, raises_for_some):
        verdict = judge(find("attention_scores"), lambda request, answer=answer: probe.answer(request, answer), 0)
        assert all(mistake.key != diagnosis.KEY for mistake in verdict.mistakes)


@pytest.mark.parametrize("name", ["LayerNorm", "softmax_backward", "scaled_dot_product_attention"])
def test_what_agrees_on_nothing_but_zeros_is_not_explained(name):
    exercise = find(name)
    program = dataflow.read(exercise.steps)
    seen = []
    for case in exercise.cases(np.random.default_rng(0)):
        weights = {role: torch.ones(case.build[0], dtype=torch.float64) for role in exercise.needs}
        shapes = exercise.shape(case) if exercise.parts else (exercise.shape(case),)
        zeros = tuple(np.zeros(shape) for shape in shapes)
        values = dataflow.bound(exercise.steps, case.build, of(case.inputs), weights)
        near = lambda n, part, zeros=zeros: part.shape == zeros[n].shape and not part.any()  # noqa: E731
        seen.append(diagnosis.Observed(values, zeros, near, lambda answer: True))
    assert diagnosis.explain(program, seen) is None


@pytest.mark.parametrize("exercise", WITH_STEPS.values(), ids=WITH_STEPS)
def test_a_step_that_is_left_out_is_not_named(exercise):
    program = dataflow.read(exercise.steps)
    for edit in rules.edits(program):
        if edit.key[0] == "without":
            line, path, kept = edit.changes[0]
            step = dataflow.at(program.lines[line], path)
            gone = dataflow.names_in(step) - dataflow.names_in(kept) - set(program.inputs)
            told = edit.words.split(" is missing")[0].split(" and the ")[0]
            named = [name for name in gone if f"the {name.replace('_', ' ')} " in f"{told} "]
            assert not named, f"{edit.words!r} names {named}; no step's name may begin as another's does"


def test_the_search_is_bounded_by_tries_and_ends_alike(monkeypatch):
    first = judged("LayerNorm", "Clipped", 0)
    assert first == judged("LayerNorm", "Clipped", 0)
    monkeypatch.setattr(search, "MAX_STEPS", 50)
    assert judged("LayerNorm", "GammaTwice", 0).mistakes == ()


def test_no_time_is_asked_for():
    assert "time" not in inspect.getsource(search).split()


def test_what_was_computed_is_forgotten_where_there_is_no_room_and_computed_again(monkeypatch) -> None:
    """A text of 300 tokens took 14 GB: each change leaves scores of megabytes."""
    steps = find("scaled_dot_product_attention").steps
    program = diagnosis.read(steps)
    values = diagnosis.bound(steps, None, [torch.randn(2, 3, 4, dtype=torch.float64) for _ in range(3)] + [None], {})
    all_at_once, little = dataflow.Machine(program, values), dataflow.Machine(program, values)
    changed = [edit.of(program.lines) for edit in itertools.islice(search.edits(program), 200)]

    def results(machine: dataflow.Machine) -> list[Any]:
        found = list[Any]()
        for lines in (*changed, *changed):
            try:
                found.append(machine.run(lines))
            except Exception as error:
                found.append((type(error), ()))
        return found

    known = results(all_at_once)
    monkeypatch.setattr(dataflow, "MAX_HELD", 2_000)
    for (key, value), (other_key, other) in zip(known, results(little), strict=True):
        assert key == other_key
        assert all(torch.equal(a, b) or (a != a).any() for a, b in zip(value, other, strict=True))
    assert little.held <= 2_000 < all_at_once.held and little.steps > all_at_once.steps
