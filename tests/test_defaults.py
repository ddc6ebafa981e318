"""What one gets without asking: defaults of the reference and of recipes, and how large weights start.

Lectures, checks and benchmarks build on these, and none of them would fail if one changed.
"""

import dataclasses
import inspect
from typing import Any

import pytest
import torch

from headroom import recipes
from headroom import reference as ref
from headroom.reference import CausalBlock
from headroom.reference.patches import add_border

# What an argument of this name is by default wherever it has one …
USUAL: dict[str, Any] = {
    **{"image_size": 28, "channels": 1, "n_classes": 10, "d_model": 64, "n_layers": 2, "n_heads": 4, "d_ff": 128},
    **{"dropout": 0.0, "drop_path": 0.0, "pre_norm": True, "norm": ref.LayerNorm, "eps": 1e-5, "patch_size": 7},
    **{"feed_forward": ref.FeedForward, "temperature": 1.0, "top_p": 1.0, "smoothing": 0.0, "alpha": 0.5, "start": 0},
    **{"attention": ref.CachedSelfAttention, "batch_size": 64},
}
PYRAMID = {"patch_size": 4, "widths": (32, 48, 64), "n_layers": (1, 1, 1), "n_heads": (2, 3, 4)}
# … and where it is another.
OTHER: dict[str, dict[str, Any]] = {
    "BatchNorm": {"momentum": 0.1},
    "ConvNet": {"widths": (16, 32, 64)},
    "Encoder": {"attention": ref.MultiHeadSelfAttention},
    "EncoderBlock": {"attention": ref.MultiHeadSelfAttention},
    "LanguageModel": {"d_ff": 256, "max_tokens": 128, "positions": ref.LearnedPositionalEncoding, "tied": True},
    "LearnedPositionalEncoding": {"std": 0.02},
    "PVT": PYRAMID | {"reductions": (4, 2, 1)},
    "PositionalEncoding": {"max_tokens": 1000},
    "Swin": {"patch_size": 4, "d_model": 24, "n_layers": (2, 2), "n_heads": (2, 4), "window": 4},
    "Transformer": {
        **{"max_tokens": 100, "share_source_target": False, "share_target_output": False, "scale": "emb"},
        "rotary": False,
    },
    "ViT": {"pooling": "class"},
    "WindowAttention": {"shift": 0},
    "beam_decode": {"beams": 4, "length_penalty": 0.0},
    "paper_learning_rate": {"warmup": 4000},
    "soft_distillation_loss": {"temperature": 3.0},
}


def given(thing) -> dict[str, Any]:
    """The defaults of what can be called, but for those that stand for nothing."""
    parameters = inspect.signature(thing).parameters.values()
    return {one.name: one.default for one in parameters if one.default not in (inspect.Parameter.empty, None)}


@pytest.mark.parametrize("name", ref.__all__)
def test_a_default_is_the_usual_one_or_is_written_down(name: str) -> None:
    wanted = USUAL | OTHER.get(name, {})
    assert given(getattr(ref, name)) == {argument: wanted.get(argument) for argument in given(getattr(ref, name))}


def test_a_recipe_that_says_no_more_than_it_must_augments_and_smooths_nothing() -> None:
    said = {one.name: one.default for one in dataclasses.fields(recipes.Recipe)}
    nothing = dict.fromkeys(("smoothing", "shift", "rotation", "scale", "shear", "augmentation_fade"), 0.0)
    must = dict.fromkeys(("epochs", "batch_size", "lr", "weight_decay"), dataclasses.MISSING)
    usual = {"betas": (0.9, 0.99), "warmup": 0.1, "schedule": "cosine", "clip": 1.0}
    assert said == must | usual | nothing
    assert dataclasses.asdict(recipes.Distillation()) == {"temperature": 3.0, "alpha": 0.5, "hard": False}


def test_recipes_of_what_is_compared_are_equal() -> None:
    """What differs between these is the model, so that a difference is the model's."""
    assert recipes.CPVT_DIGITS == recipes.DEIT_DIGITS and recipes.SWIN_DIGITS == recipes.PVT_DIGITS
    assert recipes.DATES_TRAIN == {"split": "train", "n": 50_000} and recipes.DATES_VAL == {"split": "val", "n": 500}
    mnist, digits = dataclasses.asdict(recipes.VIT_MNIST), dataclasses.asdict(recipes.VIT_DIGITS)
    differ = {name for name in mnist if mnist[name] != digits[name]}
    assert differ == {"epochs", "lr", "weight_decay", "shear"} and mnist["weight_decay"] < digits["weight_decay"]


STARTS = {
    "[class] of a ViT": (lambda: ref.ViT(d_model=4096, n_layers=0).class_token, 0.02),
    "positions of a ViT": (lambda: ref.ViT(d_model=1024, n_layers=0).positions.table, 0.02),
    "tokens of a DeiT": (lambda: ref.DeiT(d_model=4096, n_layers=0).distillation_token, 0.02),
    "[class] of a DeiT": (lambda: ref.DeiT(d_model=4096, n_layers=0).class_token, 0.02),
    "positions of a PVT": (lambda: ref.PVT().stages[0].positions.table, 0.5),
    "bias of windows": (lambda: ref.WindowAttention(64, 64, side=8, window=4).bias, 1.0),
    "tokens of a language model": (lambda: ref.LanguageModel(500, n_layers=0).embed.weight, 0.02),
    "untied head": (lambda: ref.LanguageModel(500, n_layers=0, tied=False).head.weight, (2 / 564) ** 0.5),
    "tokens of a Transformer": (lambda: ref.Transformer(500, 9).embed_source.weight, 1 / 8),
    "scaled at its output": (lambda: ref.Transformer(500, 9, scale="prj").embed_source.weight, 1.0),
    "not scaled": (lambda: ref.Transformer(500, 9, scale="none").embed_target.weight, 1 / 8),
}


@pytest.mark.parametrize("name", STARTS)
def test_weights_start_as_large_as_it_is_said(name: str) -> None:
    torch.manual_seed(0)
    make, deviation = STARTS[name]
    few = 0.15 if make().numel() < 2000 else 0.05
    assert make().std().item() == pytest.approx(deviation, rel=few)


def test_drop_path_grows_with_depth_up_to_the_last_blocks_rate() -> None:
    assert [block.drop_path.rate for block in ref.Encoder(4, 8, 2, 8, drop_path=0.4).blocks] == pytest.approx(
        [0.1, 0.2, 0.3, 0.4]
    )


def test_what_counts_is_discounted_by_what_suits_code() -> None:
    assert ref.NGram(torch.tensor([0, 1, 0]), 2, 1).discounts == (0.85, 1.3, 1.8)


# Bounds, and what only an odd size or a rate of one shows


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_p": 0}, "top_p=0"),
        ({"top_p": 2}, "top_p=2"),
        ({"top_k": 0}, "top_k=0"),
        ({"temperature": 0}, "temperature=0"),
    ],
)
def test_what_keeps_no_token_is_refused_and_what_keeps_all_is_not(wrong: dict[str, float], message: str) -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=message):
        ref.next_probabilities(logits, **wrong)
    torch.testing.assert_close(ref.next_probabilities(logits, top_k=3, top_p=1.0), logits.softmax(-1))
    assert (ref.next_probabilities(logits, top_p=1e-6) > 0).tolist() == [[False, False, True]]


def test_an_odd_border_has_its_larger_half_below_and_to_the_right() -> None:
    framed = add_border(torch.ones(1, 1, 5, 7), 4)
    assert framed.shape == (1, 1, 8, 8)
    assert framed[0, 0].any(dim=1).tolist() == [False] + [True] * 5 + [False] * 2
    assert framed[0, 0].any(dim=0).tolist() == [True] * 7 + [False]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_dropout_falls_on_both_branches_of_a_causal_block(pre_norm: bool) -> None:
    block, x = CausalBlock(8, 2, 16, dropout=1.0, pre_norm=pre_norm).train(), torch.randn(1, 3, 8)
    torch.testing.assert_close(block(x), x if pre_norm else block.norm_2(block.norm_1(x)))
    assert not torch.allclose(block.eval()(x), x)
