"""The benchmark of changed answers makes every kind of change, finds where the judge is blind, and goes on later."""

import ast
import importlib.util
import itertools

import pytest

pytest.importorskip("resource", reason="the benchmark needs fork and resource limits")

from autograder.exercise import Case, Criterion, Exercise
from benchmarks.mutants import Mutant, Program, counted, excused, fate, kept, mutants, run, shown
from benchmarks.mutation.changes import changes

TOY = '''
class Toy(nn.Module):
    """Not changed."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        print("not changed")
        y = self.a(x)[:, 1:].sum(-1, keepdim=True) + self.b(x)
        if mask is not None:
            y = y.masked_fill(mask < 3, float("-inf"))
        return F.cross_entropy(y @ x, x, reduction="mean", flag=True)
'''
EXPECTED = {
    "number": "mask < 4",
    "string": "reduction='sum'",
    "boolean": "keepdim=False",
    "operator": "- self.b(x)",
    "operand": "y = self.b(x)",
    "comparison": "mask <= 3",
    "condition": "if not mask is not None",
    "keyword": "sum(-1)",
    "argument": "masked_fill(mask < 3)",
    "order": "masked_fill(float('-inf'), mask < 3)",
    "call": "y = x[:, 1:]",
    "name": "self.b(x)[:, 1:]",
    "statement": "pass",
    "slice": "[:, :]",
    "function": ".mean(-1, keepdim=True)",
}

ANSWERS = """
import torch
from tests.answers import answers

@answers("softmax_rows")
def shifted(x):
    x = x - x.max(dim=-1, keepdim=True).values
    powers = torch.exp(x)
    return powers / powers.sum(dim=-1, keepdim=True)

def endless(x):
    while len(x) > 99:
        pass
    return x

@answers("softmax_rows")
def with_a_helper(x):
    return torch.softmax(endless(x), -1)
"""


def cases(rng):
    return [Case("values", "small numbers", (rng.normal(size=(2, 3)),), visible=True, differentiate=True)]


SOFTMAX = Exercise(
    name="softmax_rows",
    returns="shares",
    shape=lambda case: case.inputs[0].shape,
    criteria=(Criterion("values", "values agree", 0.5), Criterion("gradients", "gradients agree", 0.5)),
    mistakes=(),
    cases=cases,
    reference=lambda build, inputs, weights: inputs[0].softmax(-1),
    variation=None,
)


@pytest.fixture
def toys(tmp_path) -> list[Mutant]:
    file = tmp_path / "right_toy.py"
    file.write_text(ANSWERS)
    spec = importlib.util.spec_from_file_location("right_toy", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(mutants(SOFTMAX, [Program(module)]))


def test_every_kind_of_change_is_made_one_at_a_time():
    definition = ast.parse(TOY).body[0]
    made = changes(definition)
    for kind, code in EXPECTED.items():
        assert any(change.kind == kind and code in change.code for change in made), kind
    assert {change.kind for change in made} == EXPECTED.keys()
    assert len({change.code for change in made}) == len(made) and ast.unparse(definition) not in made
    assert all('"""Not changed."""' in change.code and "print('not changed')" in change.code for change in made)


def test_a_change_that_the_judge_does_not_see_is_found_and_can_be_listed(toys, tmp_path):
    unshifted = [m for m in toys if m.changed == "shifted" and "- x = x - x.max" in m.diff and "+ pass" in m.diff]
    assert len(unshifted) == 1
    (survivor,) = run(unshifted, 3, 1, tmp_path / "kept.jsonl")
    assert fate(survivor) == "survivor" and survivor["draws"] == [True] * 3
    assert any("extreme numbers" in way for way in survivor["where"]) and "+ pass" in shown(survivor)
    assert counted([survivor], [])["open"] == 1
    listed = [{"exercise": "softmax_rows", "change": survivor["diff"], "reason": "numbers are small"}]
    assert excused(survivor, listed) and not excused(survivor | {"exercise": "another"}, listed)
    assert counted([survivor], listed)["survivors: listed as equivalent"] == 1


def test_what_is_done_is_kept_and_not_done_again(toys, tmp_path):
    """A run that is cut off after two; in what is left, one never ends, and is stopped."""
    store = tmp_path / "kept.jsonl"
    endless = [m for m in toys if "+ while True" in m.diff]
    few = [m for m in toys if m.change.kind == "operator"] + endless
    assert len(endless) == 1 and len(few) == 3
    first = run(few, 2, 1, store)
    done = [record["key"] for record in itertools.islice(first, 2)]
    first.close()
    assert list(kept(store)) == done
    with store.open("a") as file:
        file.write('{"key": "a line that is cut o')
    rest = [m for m in few if m.key not in kept(store)]
    assert len(rest) == len(few) - 2
    again = [record["key"] for record in run(rest, 2, 1, store, seconds=1)]
    assert sorted(done + again) == sorted(m.key for m in few)
    assert all(fate(r) == "refused" for r in kept(store).values() if "while True" in r["diff"])
