"""Scores of a head's map, and models in which a head's output is zero or another's."""

import math
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn

from autograder.exercises import attention_only
from headroom.data import repeated_sequences
from headroom.reference import (
    LanguageModel,
    ablate,
    attention_maps,
    induction_score,
    patch,
    previous_token_score,
)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return LanguageModel(20, 16, 2, 4, 8, 24, feed_forward=None).eval()


def test_a_sequence_stands_twice():
    ids = repeated_sequences(5, 7, 20, torch.Generator().manual_seed(1))
    assert ids.shape == (5, 14) and torch.equal(ids[:, :7], ids[:, 7:])
    assert ids.min() >= 0 and ids.max() < 20 and len(ids[:, :7].unique()) > 10


def test_a_model_without_feed_forward_networks_has_no_parameters_but_the_attentions(model):
    assert all("attention" in name or "norm_1" in name for name, _ in model.blocks.named_parameters())
    ids = repeated_sequences(2, 5, 20)
    x = model.positions(model.embed(ids))
    for block in model.blocks:
        x = x + block.attention(block.norm_1(x), torch.ones(10, 10).tril().bool())
    torch.testing.assert_close(model(ids), model.head(model.norm(x)))
    post_norm = LanguageModel(20, 16, 1, 4, 8, 24, feed_forward=None, pre_norm=False)
    assert post_norm(ids).shape == (2, 10, 20)


def test_scores_are_those_of_the_definition(model):
    ids = repeated_sequences(3, 6, 20)
    with attention_maps(model) as maps:
        model(ids)
    weights = maps["blocks.attention"]
    previous, induction = previous_token_score(weights), induction_score(weights, 6)
    for layer in range(2):
        for head in range(4):
            of_head = weights[:, layer, head]
            before = torch.stack([of_head[:, t, t - 1] for t in range(1, 12)]).mean()
            after = torch.stack([of_head[:, t, t - 6 + 1] for t in range(6, 12)]).mean()
            torch.testing.assert_close(previous[layer, head], before)
            torch.testing.assert_close(induction[layer, head], after)


def test_a_head_that_looks_where_it_should_scores_one():
    weights = torch.zeros(1, 1, 2, 8, 8)
    for t in range(8):
        weights[..., 0, t, max(0, t - 1)] = 1
        weights[..., 1, t, t - 3 if t >= 4 else 0] = 1
    assert previous_token_score(weights).tolist()[0][0] == 1
    assert induction_score(weights, 4).tolist()[0] == [0, 1]


@pytest.mark.parametrize("length", (0, 8, -1))
def test_a_length_at_which_nothing_repeats_is_refused(length):
    with pytest.raises(ValueError, match=f"length={length} must be between 1 and 7"):
        induction_score(torch.zeros(1, 1, 1, 8, 8), length)


@pytest.mark.parametrize("layer", (0, 1))
def test_without_a_head_is_as_with_its_columns_of_the_output_map_at_zero(model, layer):
    ids = repeated_sequences(2, 6, 20)
    before = model(ids)
    got = ablate(model, ids, layer, 2)
    torch.testing.assert_close(model(ids), before)  # the model is as it was
    with torch.no_grad():
        model.blocks[layer].attention.w_o.weight[:, 8:12] = 0
        torch.testing.assert_close(got, model(ids))
    assert not torch.allclose(got, before)


def test_patching_all_of_a_one_head_layers_output_hands_over_what_it_adds():
    torch.manual_seed(2)
    model = LanguageModel(20, 16, 1, 1, 8, 24, feed_forward=None).eval()
    ids, donor = repeated_sequences(2, 6, 20), repeated_sequences(2, 6, 20)
    torch.testing.assert_close(patch(model, ids, ids, 0, 0), model(ids))
    block = model.blocks[0]
    x, other = (model.positions(model.embed(one)) for one in (ids, donor))
    added = block.attention(block.norm_1(other), torch.ones(12, 12).tril().bool())
    torch.testing.assert_close(patch(model, ids, donor, 0, 0), model.head(model.norm(x + added)))


def test_bad_input_is_named(model):
    ids = repeated_sequences(2, 6, 20)
    with pytest.raises(IndexError, match="head=4: there are heads 0 to 3"):
        ablate(model, ids, 0, 4)
    with pytest.raises(IndexError):
        ablate(model, ids, 2, 0)
    with pytest.raises(ValueError, match="must have the same shape"):
        patch(model, ids, ids[:1], 0, 0)


def test_symbols_of_a_distinct_sequence_all_differ():
    ids = repeated_sequences(30, 12, 14, torch.Generator().manual_seed(1), distinct=True)
    assert ids.shape == (30, 24) and torch.equal(ids[:, :12], ids[:, 12:])
    assert all(len(row.unique()) == 12 for row in ids) and len(ids[:, :12].unique()) == 14
    with pytest.raises(ValueError, match="length=15 must be at most n_symbols=14"):
        repeated_sequences(1, 15, 14, distinct=True)


def test_lab_11_prints_the_model_that_its_check_asks_about():
    """And the grader's reference works on it: the heads are where the reference looks for them."""
    (lab,) = (Path(__file__).parents[1] / "solutions").glob("lab11_*/*.ipynb")
    cells = {cell.id: cell.source for cell in nbformat.read(lab, as_version=4).cells}
    given = [cells[name] for name in ("given-attention", "given-block", "given-model")]
    assert "\n\n".join(f"{source}\n" for source in given) == attention_only.SOURCE
    space = {"math": math, "torch": torch, "nn": nn, "Tensor": torch.Tensor}
    for name in ("given-attention", "given-block", "given-model", "given-handmade"):
        exec(cells[name], space)
    for seed in range(4):  # each head does what the lab says of it, wherever it stands
        made, wiring = space["made_by_hand"](seed)
        ids = space["repeated"](100, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            whole = (made(ids)[:, 12:-1].argmax(-1) == ids[:, 13:]).float().mean()
            weights = made.weights(ids)
        assert whole > 0.9
        for (layer, head), job in wiring.items():
            lost = whole - (ablate(made, ids, layer, head)[:, 12:-1].argmax(-1) == ids[:, 13:]).float().mean()
            assert (lost > 0.5) == ("nobody" not in job), (layer, head, job)
            assert (induction_score(weights, 12)[layer, head] > 0.8) == ("behind" in job)
            assert (previous_token_score(weights)[layer, head] > 0.8) == ("the token before" in job)
