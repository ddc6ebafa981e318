"""Layers are told apart by shape, name and order: whatever a student calls them, one of the readings fits."""

import itertools

import pytest
import torch
from torch import nn

from autograder import probe, reading
from autograder.exercise import Parameter
from headroom import reference
from tests.answers import right_encoder

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
        self.enc_attn = reference.MultiHeadAttention(D_MODEL, N_HEADS)
        self.masked = reference.MultiHeadAttention(D_MODEL, N_HEADS)
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
    assert torch.allclose(reading.call(module, first, inputs)[0], module(*inputs)[0])


def test_one_of_the_readings_fits_where_names_say_little():
    module = OddBlock()
    readings = list(decoder_readings(module, None))
    inputs = torch.randn(2, 4, D_MODEL).double(), torch.randn(2, 5, D_MODEL).double()
    right = reference.DecoderBlock(D_MODEL, N_HEADS, D_FF).double()
    fitting = [torch.allclose(reading.call(right, weights, inputs)[0], module(*inputs)) for weights in readings]
    assert len(fitting) == 2 * 6 and sum(fitting) == 1


@pytest.mark.parametrize("style", [right_encoder.Encoder, right_encoder.ListsOfParts, right_encoder.FlatList])
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
    assert reading.call(block, without_bias, (x,))[0].shape == x.shape
    with pytest.raises(KeyError, match=r"norm_2\.gamma"):
        reading.call(block, {name: tensor for name, tensor in weights.items() if name != "norm_2.gamma"}, (x,))
    with pytest.raises(RuntimeError, match="should be"):
        reading.call(block, weights | {"feed_forward.expand.weight": torch.zeros(9, D_MODEL).double()}, (x,))
