"""Layers are told apart by shape, name and order: whatever a student calls them, one of the readings fits."""

import contextlib
import itertools
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from autograder import probe, reading
from autograder.exercise import Parameter
from autograder.exercises import EXERCISES, find
from autograder.judge import judge
from autograder.judging.matching import MAX_READINGS
from headroom import reference
from tests.answers import right_encoder, right_with_other_layouts
from tests.answers.right_encoder_3_encoder import Encoder, FlatList, ListsOfParts
from tests.answers.right_with_other_model_layouts import StackedOverLayers

D_MODEL, N_HEADS, D_FF = 12, 3, 7


def parameters(module: nn.Module) -> dict[str, tuple[Parameter, torch.Tensor]]:
    """A module's parameters as the judge has them: with random numbers, in float64."""
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter)
    return {n: (Parameter(n, tuple(p.shape)), p.detach()) for n, p in module.named_parameters()}


def kinds(module: nn.Module) -> list[tuple[str, str]]:
    return [(unit.kind, unit.name) for unit in reading.units(parameters(module), D_MODEL, N_HEADS)]


def test_a_model_is_read_as_its_layers_in_declared_order():
    vit = reference.ViT(8, 4, 1, 10, D_MODEL, n_layers=1, n_heads=N_HEADS, d_ff=D_FF)
    assert kinds(vit) == [
        ("tensor", "class_token"),
        ("linear", "embed.projection"),
        ("tensor", "positions.table"),
        ("norm", "encoder.blocks.0.norm_1"),
        ("attention", "encoder.blocks.0.attention"),
        ("norm", "encoder.blocks.0.norm_2"),
        ("feed_forward", "encoder.blocks.0.feed_forward"),
        ("norm", "encoder.norm"),
        ("linear", "head"),
    ]


@pytest.mark.parametrize(
    ("style", "attention", "feed_forward"),
    [
        (right_encoder.MapsInTheBlock, "", "ff"),
        (right_encoder.OwnFusedAttention, "attn", "mlp"),
        (right_encoder.BareFeedForward, "self_attention", ""),
        (right_encoder.PyTorchsNorm, "attn", ""),
    ],
)
def test_layers_written_into_a_block_are_found(style, attention, feed_forward):
    found = kinds(style(D_MODEL, N_HEADS, D_FF))
    assert sorted(kind for kind, _ in found) == ["attention", "feed_forward", "norm", "norm"]
    assert ("attention", attention) in found and ("feed_forward", feed_forward) in found


def decoder_readings(module: nn.Module, layers: int | None):
    """Every way to read a decoder block's, or a decoder's, parameters."""
    found = reading.units(parameters(module), D_MODEL, N_HEADS)
    attentions, norms, networks = (reading.of_kind(found, kind) for kind in ("attention", "norm", "feed_forward"))
    last = "norm" if layers else None
    for orders in itertools.product(
        reading.orders(attentions, ("self_attention", "cross_attention"), layers, among=found),
        reading.orders(norms, ("norm_1", "norm_2", "norm_3"), layers, last, found),
        reading.orders(networks, ("feed_forward",), layers, among=found),
    ):
        yield {name: tensor for order in orders for name, tensor in reading.named(order).items()}


class OddBlock(nn.Module):
    """A decoder block whose layers are declared in an order of their own."""

    def __init__(self):
        super().__init__()
        self.enc_attn = reference.CrossAttention(D_MODEL, N_HEADS)
        self.masked = reference.CrossAttention(D_MODEL, N_HEADS)
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(3))
        self.mlp = reference.FeedForward(D_MODEL, D_FF)

    def forward(self, x, memory):
        third, first, second = self.norms
        n = first(x)
        x = x + self.masked(n, n)
        x = x + self.enc_attn(second(x), memory)
        return x + self.mlp(third(x))


@pytest.mark.parametrize("layers", [1, 2])
def test_decoders_are_read_at_the_first_try_where_names_say_enough(layers):
    module = reference.Decoder(layers, D_MODEL, N_HEADS, D_FF)
    first = next(decoder_readings(module, layers))
    inputs = torch.randn(2, 4, D_MODEL).double(), torch.randn(2, 5, D_MODEL).double()
    assert torch.allclose(reading.call(module, first, inputs), module(*inputs))


def test_one_of_the_readings_fits_where_names_say_little():
    module = OddBlock()
    readings = list(decoder_readings(module, None))
    inputs = torch.randn(2, 4, D_MODEL).double(), torch.randn(2, 5, D_MODEL).double()
    right = reference.DecoderBlock(D_MODEL, N_HEADS, D_FF).double()
    fitting = [torch.allclose(reading.call(right, weights, inputs), module(*inputs)) for weights in readings]
    assert len(fitting) == 2 * 6 and sum(fitting) == 1


@pytest.mark.parametrize("style", [Encoder, ListsOfParts, FlatList])
def test_the_ways_to_read_a_stack_are_the_same_for_every_depth(style):
    """The judge takes the n-th reading of every case: it has to mean the same in all of them."""
    counts = set()
    for layers in (1, 2, 4):
        found = reading.units(parameters(style(layers, D_MODEL, N_HEADS, D_FF)), D_MODEL, N_HEADS)
        ways = reading.orders(reading.of_kind(found, "norm"), ("norm_1", "norm_2"), layers, "norm", found)
        counts.add(len(list(ways)))
    assert len(counts) == 1


def test_what_a_student_left_out_has_numbers_of_its_own():
    one = nn.ModuleDict({"norm": nn.LayerNorm(D_MODEL)})
    found = reading.units(parameters(one), D_MODEL, N_HEADS)
    order = next(reading.orders(found, ("norm_1", "norm_2")))
    assert order["norm_1"] is found[0]
    again = next(reading.orders(found, ("norm_1", "norm_2")))
    assert order["norm_2"].name == "" and not torch.equal(order["norm_2"].tensors["gamma"], found[0].tensors["gamma"])
    assert torch.equal(order["norm_2"].tensors["gamma"], again["norm_2"].tensors["gamma"])


def test_a_block_that_is_used_in_every_layer_is_the_first_one():
    with probe.exact():
        block = right_encoder.EncoderBlock(D_MODEL, N_HEADS, D_FF)
    for nested in (nn.ModuleDict({"blocks": nn.ModuleList([block] * 3)}), nn.ModuleDict({"block": block})):
        nested["norm"] = nn.LayerNorm(D_MODEL)
        found = reading.units(parameters(nested), D_MODEL, N_HEADS)
        order = next(reading.orders(reading.of_kind(found, "norm"), ("norm_1", "norm_2"), 3, "norm", found))
        names = {role: unit.name.rpartition(".")[2] for role, unit in order.items()}
        assert names["blocks.0.norm_1"] == "norm_1" and names["blocks.0.norm_2"] == "norm_2" and names["norm"] == "norm"
        assert {names[f"blocks.{layer}.norm_{n}"] for layer in (1, 2) for n in (1, 2)} == {""}


def test_a_reading_that_does_not_fit_gives_no_answer():
    block = reference.EncoderBlock(D_MODEL, N_HEADS, D_FF).double()
    weights = dict(block.state_dict())
    x = torch.randn(2, 4, D_MODEL).double()
    without_bias = {name: tensor for name, tensor in weights.items() if name != "attention.w_q.bias"}
    assert reading.call(block, without_bias, (x,)).shape == x.shape
    with pytest.raises(KeyError, match=r"norm_2\.gamma"):
        reading.call(block, {name: tensor for name, tensor in weights.items() if name != "norm_2.gamma"}, (x,))
    with pytest.raises(RuntimeError, match="should be"):
        reading.call(block, weights | {"feed_forward.expand.weight": torch.zeros(9, D_MODEL).double()}, (x,))


# --- By effect ---------------------------------------------------------------------------------------------------


def judged(name: str, answer: type[nn.Module]):
    return judge(find(name), lambda request: probe.answer(request, answer), 0)


def places_of(shape: tuple[int, ...]) -> list[reading.Place]:
    roles = reading.roles_of(reference.MultiHeadSelfAttention(D_MODEL, N_HEADS), N_HEADS)
    size = torch.Size(shape).numel()
    return reading.places(roles, {size})[size]


def test_places_are_counted_through_roles_orders_of_axes_and_heads():
    square, of_a_head = places_of((D_MODEL, D_MODEL)), places_of((D_MODEL // N_HEADS, D_MODEL))
    alone = [place for place in square if len(place.kinds) == 1]
    assert len(alone) == 4 * 3  # (heads, d_head, d_model), (heads, d_model, d_head), (d_model, heads, d_head)
    assert {place.head for place in of_a_head} == set(range(N_HEADS))
    fused = [place for place in places_of((3 * D_MODEL, D_MODEL)) if place.kinds[0] == "w_q.weight"]
    assert all(len(set(place.entries.tolist())) == 3 * D_MODEL**2 for place in fused)


def test_features_of_a_head_stay_neighbours():
    """Otherwise heads that get every third feature would be right under another name."""
    of_q = [place for place in places_of((D_MODEL, D_MODEL)) if place.kinds == ("w_q.weight",)]
    rows = torch.arange(D_MODEL**2).view(N_HEADS, -1, D_MODEL).transpose(0, 1).flatten().tolist()
    assert all(place.entries.tolist() != rows for place in of_q)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_recipe_found_in_one_model_reads_models_of_other_sizes(layers):
    style = StackedOverLayers

    def described(n_layers: int):
        with probe.exact():
            module = style(n_layers, D_MODEL, N_HEADS, D_FF)
        own = parameters(module)
        starts = {"g": 1.0, "norm.w": 1.0, "s": 0.0, "b": 0.0, "norm.b": 0.0}
        begun = {n: next((value for words, value in starts.items() if n.startswith(words)), None) for n in own}
        known = {n: (replace(parameter, constant=begun[n]), tensor) for n, (parameter, tensor) in own.items()}
        build = (n_layers, D_MODEL, N_HEADS, D_FF)
        return module, known, reading.roles_of(reading.empty(reference.Encoder, build), N_HEADS), build

    x = torch.randn(2, 4, D_MODEL).double()
    module, own, roles, build = described(2)

    def run(values):
        drawn = {n: torch.from_numpy(v.copy()).requires_grad_() for n, v in values.items()}
        output = functional_call(module, drawn, (x,))
        gradients = torch.autograd.grad(output, list(drawn.values()), reading.cotangent(tuple(output.shape)))
        return output.detach().numpy(), {n: g.numpy() for n, g in zip(drawn, gradients, strict=True)}

    right = reading.empty(reference.Encoder, build)
    recipe = reading.by_effect(own, roles, run, [lambda weights: reading.call(right, weights, (x,))])
    assert recipe is not None
    other, own, roles, build = described(layers)
    weights = recipe.read(own, roles)
    assert torch.allclose(reading.call(reading.empty(reference.Encoder, build), weights, (x,)), other(x))


class SumOfTwo(nn.Module):
    """Right, in a layout that is not read: every matrix is the sum of two."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.m = n_heads, nn.Parameter(torch.randn(2, 4, d_model, d_model))

    def forward(self, x, mask=None):
        def mapped(t, i):
            return t @ self.m[:, i].sum(0)

        q, k, v = (right_with_other_layouts.cut(mapped(x, i), self.n_heads) for i in range(3))
        return mapped(right_with_other_layouts.glue(right_with_other_layouts.attend(q, k, v, mask)), 3)


def test_what_cannot_be_read_is_said_and_not_taken_for_wrong():
    verdict = judged("MultiHeadSelfAttention", SumOfTwo)
    assert verdict.headline.startswith("I cannot tell which of your parameters are w_q, w_k, w_v and w_o")
    assert "0 of 11" not in verdict.headline and not verdict.mistakes


class OwnLayout(nn.Module):
    """An encoder block of which no name tells what is what: heads apart, norms written out, biases in some places."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int):
        super().__init__()

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape) / math.sqrt(d_model))

        self.a, self.b, self.c = (drawn(n_heads, d_model, d_model // n_heads) for _ in range(3))
        self.d = drawn(n_heads, d_model // n_heads, d_model)
        self.e, self.f = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.g = nn.ParameterList(torch.ones(d_model) for _ in range(2))
        self.h = nn.ParameterList(torch.zeros(d_model) for _ in range(2))

    def normalised(self, x, i):
        centred = x - x.mean(-1, keepdim=True)
        return centred * self.over(centred.square().mean(-1, keepdim=True), x.size(-1)) * self.g[i] + self.h[i]

    def over(self, variance, width):
        return torch.rsqrt(variance + 1e-5)

    def width(self, head):
        return head.size(-1)

    def merged(self, heads):
        return torch.einsum("bhte,hed->btd", heads, self.d)

    def forward(self, x, mask=None):
        n = self.normalised(x, 0)
        q, k, v = (torch.einsum("btd,hde->bhte", n, w) for w in (self.a, self.b, self.c))
        scores = q @ k.mT / math.sqrt(self.width(q))
        scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
        x = x + self.merged(scores.softmax(-1) @ v)
        return x + self.f(nn.functional.gelu(self.e(self.normalised(x, 1))))


class SmallEpsilon(OwnLayout):
    def over(self, variance, width):
        return torch.rsqrt(variance + 1e-6)


class EpsilonOutside(OwnLayout):
    def over(self, variance, width):
        return 1 / (variance.sqrt() + 1e-5)


class Unbiased(OwnLayout):
    def over(self, variance, width):
        return torch.rsqrt(variance * width / max(width - 1, 1) + 1e-5)


class WholeWidth(OwnLayout):
    def width(self, head):
        return head.size(1) * head.size(-1)


class HeadsReadOn(OwnLayout):
    def merged(self, heads):
        batch, n_heads, tokens, d_head = heads.shape
        return heads.reshape(batch, tokens, n_heads * d_head) @ self.d.flatten(0, 1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (SmallEpsilon, "the first norm and the second norm are made with a normalisation with an ε of 1e-6"),
        (EpsilonOutside, "the first norm and the second norm are made with a normalisation that adds ε to the dev"),
        (Unbiased, "the first norm and the second norm are made with a normalisation by the unbiased variance"),
        (WholeWidth, "the scores are divided by √d_model"),
        (HeadsReadOn, "the merged heads are made with a merging that reads the memory on"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_wrong_is_found_in_any_layout(answer, says, seed):
    """The reading that comes nearest is believed once it explains all results, or some are right under it."""
    assert judged("EncoderBlock", OwnLayout).passed
    verdict = judge(find("EncoderBlock"), lambda request: probe.answer(request, answer), seed)
    assert not verdict.passed and [m.title for m in verdict.mistakes if says in m.title], verdict.text()


def test_words_for_roles_are_believed():
    """Keys that ask and queries that answer are no other names for the same: the task names its four maps."""

    class Exchanged(reference.MultiHeadSelfAttention):
        def forward(self, x, mask=None):
            self.w_q, self.w_k = self.w_k, self.w_q
            return super().forward(x, mask)

    assert not judged("MultiHeadSelfAttention", Exchanged).passed


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if exercise.roles])
def test_parameters_in_many_pieces_are_not_tried_in_every_order(name: str):
    exercise = find(name)
    build = next(case.build for case in exercise.cases(np.random.default_rng(0)) if case.build is not None)
    shapes = sorted({role.shape for role in exercise.roles(build).values()}, key=len)[-2:]
    pieces = {f"part_{n}.{at}": shape for at, shape in enumerate(shapes) for n in range(9 // len(shapes))}
    for shapes_of in (pieces, {"stacked": (8, *shapes[0]), "other": shapes[-1]}):
        held = {n: (Parameter(n, shape), torch.randn(shape).double()) for n, shape in shapes_of.items()}
        tracemalloc.start()
        with contextlib.suppress(KeyError, IndexError, ValueError, RuntimeError):  # as the judge takes it: no reading
            list(itertools.islice(exercise.mappings(held, build), MAX_READINGS))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 20e6
