"""Under which conditions the probe calls students' code: how often one object, in which mode, with which inputs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from autograder import probe
from autograder.probe.objects import left_behind, moved

X = np.arange(6.0).reshape(2, 3)


def looked(target: Any, *cases: dict[str, Any], **how: Any) -> list[dict[str, Any]]:
    """What is replied of calls that are made once more."""
    made = [{"inputs": [X], "dtype": "float64"} | case for case in cases or ({},)]
    return probe.unpack(probe.answer(probe.pack({"do": "look", "cases": made} | how), target))


def ran(target: Any, **case: Any) -> dict[str, Any]:
    (reply,) = probe.unpack(
        probe.answer(probe.pack({"do": "run", "cases": [{"inputs": [X], "dtype": "float64"} | case]}), target)
    )
    return reply


def numbers(replies: list[dict[str, Any]]) -> list[float]:
    assert not [reply["error"] for reply in replies if "error" in reply]
    return [float(reply["output"][0].ravel()[0]) for reply in replies]


class Layer(nn.Module):
    """Counts its calls, and says in which mode it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.weight = 0, nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tensor([self.calls, self.training, torch.is_grad_enabled(), x.requires_grad], dtype=torch.float64)


LAYER = {"build": [], "weights": {"weight": np.ones(3)}}


# --- One object for all calls, or one for each ------------------------------------------------------------------------


def test_an_object_is_called_again_only_where_that_is_looked_at() -> None:
    assert numbers(looked(Layer, LAYER, LAYER)) == [1, 1]
    assert numbers(looked(Layer, LAYER, LAYER, shared=True)) == [1, 2]
    assert numbers([ran(Layer, **LAYER), ran(Layer, **LAYER)]) == [1, 1]


KEPT: list[int] = []


def in_a_global(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(1)
    return torch.tensor([float(len(KEPT))])


def in_a_default(x: torch.Tensor, kept: list[int] = []) -> torch.Tensor:  # noqa: B006
    kept.append(1)
    return torch.tensor([float(len(kept))])


def by_keyword(x: torch.Tensor, *, kept: dict[int, int] = {}) -> torch.Tensor:  # noqa: B006
    kept[len(kept)] = 1
    return torch.tensor([float(len(kept))])


def on_itself(x: torch.Tensor) -> torch.Tensor:
    on_itself.kept.append(1)
    return torch.tensor([float(len(on_itself.kept))])


on_itself.kept = list[int]()


def around() -> Any:
    kept = list[int]()

    def in_a_closure(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        return torch.tensor([float(len(kept))])

    return in_a_closure


def helper() -> int:
    KEPT.append(1)
    return len(KEPT)


def in_another(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([float(helper())])


@pytest.mark.parametrize("keeps", [in_a_global, in_a_default, by_keyword, on_itself, around(), in_another])
def test_what_a_function_keeps_between_calls_is_new_at_each_and_seen_where_that_is_looked_at(keeps: Any) -> None:
    before = len(KEPT)
    assert numbers([ran(keeps), ran(keeps)]) == [before * (keeps in (in_a_global, in_another)) + 1] * 2
    first, second = numbers(looked(keeps, {}, {}, shared=True))
    assert second == first + 1 and len(KEPT) == before, "and the notebook's own is as it was"


def test_inputs_of_a_shared_object_lie_where_those_of_the_call_before_lay_but_for_new_ones() -> None:
    seen: list[int] = []

    def place(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.data_ptr())
        return x.clone()

    class Places(nn.Module):
        forward = staticmethod(place)

    case = {"build": [], "weights": {}}
    replies = looked(Places, case, case | {"inputs": [2 * X]}, case | {"anew": True}, shared=True)
    assert seen[0] == seen[1] != seen[2]
    assert [reply["output"][0].sum() for reply in replies] == [15, 30, 15]


def test_a_result_that_a_later_call_writes_over_is_told() -> None:
    class Buffer(nn.Module):
        def __init__(self, keeps: bool) -> None:
            super().__init__()
            self.room, self.keeps = [torch.zeros(2, 3)], keeps

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.keeps:
                return 2 * x
            return self.room[0].copy_(2 * x)

    for keeps in (True, False):
        case = {"build": [keeps], "weights": {}}
        replies = looked(Buffer, case, case | {"inputs": [X + 1]}, shared=True)
        assert [reply["rewritten"] for reply in replies] == [False, keeps]


# --- Under which conditions -------------------------------------------------------------------------------------------


def test_a_layer_is_used_as_a_trained_one_is_unless_it_is_to_be_trained() -> None:
    """In evaluation mode and without gradients; or in training mode, with them."""
    assert [[*reply["output"][0]] for reply in looked(Layer, LAYER)] == [[1, 0, 0, 0]]
    assert [[*reply["output"][0]] for reply in looked(Layer, LAYER, training=True)] == [[1, 1, 1, 0]]
    own = looked(Layer, LAYER | {"training": False}, training=True)
    assert [[*reply["output"][0]] for reply in own] == [[1, 0, 0, 0]], "a case may say so itself"
    assert [*ran(Layer, **LAYER)["output"][0]] == [1, 0, 1, 0]
    assert [*ran(Layer, **LAYER, training=True, cotangents=[np.ones(4)])["output"][0]] == [1, 1, 1, 1]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_same_numbers_can_lie_in_memory_in_another_order(library: str) -> None:
    def lies(x: Any) -> Any:
        told = x.flags.c_contiguous if library == "numpy" else x.is_contiguous()
        same = np.array_equal(np.asarray(x), X)
        return np.array([told, same], float) if library == "numpy" else torch.tensor([told, same], dtype=torch.float64)

    for strided in (True, False):
        (reply,) = looked(lies, {"library": library}, strided=strided)
        assert [*reply["output"][0]] == [not strided, True]


@pytest.mark.parametrize(("dtype", "default"), [("float64", "float32"), ("float32", None), ("float64", None)])
def test_the_default_dtype_is_that_of_the_case_or_the_one_that_is_asked_for(dtype: str, default: str | None) -> None:
    def told(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.get_default_dtype()).to(torch.get_default_dtype())

    how = {"default": default} if default else {}
    (reply,) = looked(told, {"dtype": dtype}, **how)
    assert reply["dtypes"] == [default or dtype]


class Holds(nn.Module):
    """Has something beside its weight."""

    def __init__(self, hidden: Any = None) -> None:
        super().__init__()
        self.hidden, self.weight = hidden, nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


ONES = torch.ones(3)


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        (ONES, True),
        ([{"a": (ONES,)}], True),
        (lambda x, kept=ONES: x, True),
        ((lambda kept: lambda x: x + kept)(torch.ones(3)), True),
        ([Holds()], True),
        (torch.tensor(2.0), False),
        (None, False),
        (nn.Linear(2, 2), False),
    ],
)
def test_what_is_not_moved_with_its_layer_is_found(hidden: Any, told: bool) -> None:
    """A number without axes goes wherever it is asked to."""
    assert left_behind(moved(Holds(hidden), "meta"), "meta") == told


def test_a_layer_of_which_all_is_moved_is_not_called_elsewhere() -> None:
    assert looked(Holds, LAYER, device="meta") == [{"printed": ""}]


# --- What is told of a call -------------------------------------------------------------------------------------------


def test_which_input_and_which_weight_a_call_changed_is_told() -> None:
    class Changes(nn.Module):
        def __init__(self, what: str) -> None:
            super().__init__()
            self.what, self.weight = what, nn.Parameter(torch.zeros(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                if self.what == "input":
                    y.add_(1)
                if self.what == "weight":
                    self.weight.mul_(2)
            return x * self.weight

    for what, changed, weight in (("input", 1, ""), ("weight", None, "weight"), ("", None, "")):
        case = LAYER | {"build": [what], "inputs": [X, X]}
        (reply,) = looked(Changes, case)
        assert (reply["changed"], reply["moved"]) == (changed, weight)
        after = ran(Changes, **case)["inputs_after"]
        assert [np.array_equal(one, X) for one in after] == [True, changed is None]


def test_what_mixes_its_own_float32_with_the_default_is_built_all_the_same() -> None:
    class Mixes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 3, dtype=torch.float32) @ torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    reply = ran(Mixes, build=[], weights={})
    assert reply["dtypes"] == ["float64"] and np.array_equal(reply["output"][0], 3 * X)


@pytest.mark.parametrize("count", [probe.MAX_PARTS, probe.MAX_PARTS + 1])
def test_a_result_has_so_many_parts_and_no_more(count: int) -> None:
    reply = ran(lambda x: [x[:1, 0]] * count)
    assert len(reply.get("output", ())) == (count if count <= probe.MAX_PARTS else 0)


def test_in_turns_weights_drift_between_the_calls_and_the_state_goes_on() -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
            state = x.sum() + (0 if state is None else state)
            return self.weight + state + 0 * x, state

    case = {"build": [], "weights": {"weight": np.ones(1)}, "inputs": [np.ones((1, 4))]}
    assert ran(Sums, **case, steps=[1, 2, 1], drift=10.0)["output"][0].tolist() == [[2.0, 13.0, 13.0, 104.0]]
