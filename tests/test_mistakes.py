"""The mistakes that can be switched on: each does what it says, no more, and nothing to the model that was copied."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from autograder.exercise import Exercise
from autograder.exercises import find
from headroom.data import BOS, EOS
from headroom.mistakes import MISTAKES, Switch, broken, wrong_attention, wrong_layers
from headroom.mistakes.switch import become
from headroom.reference import (
    CPVT,
    PVT,
    Attention,
    CachedCrossAttention,
    CachedSelfAttention,
    ConvNet,
    CrossAttention,
    Decoder,
    DecoderBlock,
    DeiT,
    Encoder,
    EncoderBlock,
    FeedForward,
    KeyValueCache,
    LayerNorm,
    MultiHeadSelfAttention,
    PatchEmbedding,
    PositionalEncoding,
    RotarySelfAttention,
    Swin,
    Transformer,
    ViT,
    attention_maps,
    beam_decode,
    causal_mask,
    cross_entropy,
    greedy_decode,
    padding_mask,
)

BATCH, TOKENS, D_MODEL, HEADS = 3, 5, 12, 4


def shaken(model: nn.Module) -> nn.Module:
    """In float64, with weights away from what they start with: no bias at 0, no gain at 1."""
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model.double().eval()


def tokens(seed: int = 0) -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def vit() -> ViT:
    torch.manual_seed(3)
    return shaken(ViT(image_size=12, patch_size=4, d_model=D_MODEL, n_heads=HEADS, d_ff=20, n_classes=5))


def transformer(**options) -> Transformer:
    torch.manual_seed(4)
    return shaken(Transformer(9, 7, d_model=D_MODEL, n_heads=HEADS, d_ff=20, max_tokens=10, **options))


IMAGES = torch.rand(BATCH, 1, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SOURCE = torch.tensor([[3, 4, 5, 6, 0], [7, 8, 3, 0, 0], [4, 4, 5, 8, 6]])  # no row's keys are all hidden
SOURCE_MASK = padding_mask(torch.tensor([4, 3, 5]), 5)
TARGET = torch.tensor([[1, 3, 4, 5], [1, 6, 6, 3], [1, 4, 3, 3]])

MODELS = {
    "ViT": (vit, (IMAGES,)),
    "Transformer": (transformer, (SOURCE, TARGET, SOURCE_MASK)),
}


def outputs(name: str, model: nn.Module) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits, and the weights by name."""
    with attention_maps(model) as maps:
        logits = model(*MODELS[name][1])
    return logits, maps


def those_of(model: nn.Module) -> list[str]:
    return [name for name, mistake in MISTAKES.items() if mistake.applies(model)]


IN_VIT, IN_TRANSFORMER = those_of(vit()), those_of(transformer())
SINGLE = [("ViT", name) for name in IN_VIT] + [("Transformer", name) for name in IN_TRANSFORMER]


# --- One mistake in a whole model --------------------------------------------------------------------------------


def test_every_mistake_can_be_made_in_a_whole_model():
    assert set(IN_VIT) | set(IN_TRANSFORMER) == set(MISTAKES)
    for mistake in MISTAKES.values():
        assert mistake.title and mistake.sentence.endswith(".") and mistake.group, mistake.name


@pytest.mark.parametrize(("kind", "name"), SINGLE)
def test_a_mistake_changes_the_copy_and_not_the_model(kind, name):
    model = MODELS[kind][0]()
    before = outputs(kind, model)[0]
    wrong = broken(model, name)
    logits, attention = outputs(kind, wrong)
    assert logits.isfinite().all()
    for weights in attention.values():
        assert weights.isfinite().all() and weights.dim() == 5
    assert torch.allclose(logits, before, rtol=1e-6) == (name == "unregistered")
    assert torch.equal(outputs(kind, model)[0], before), "the model itself has changed"
    fresh = MODELS[kind][0]()
    assert torch.equal(outputs(kind, fresh)[0], before), "a model made afterwards has changed"


@pytest.mark.parametrize(("kind", "name"), SINGLE)
def test_a_broken_model_trains(kind, name):
    wrong = broken(MODELS[kind][0](), name).train()
    logits = outputs(kind, wrong)[0]
    targets = torch.zeros(logits.shape[:-1], dtype=torch.long)
    cross_entropy(logits, targets).backward()
    norms = [parameter.grad.norm() for parameter in wrong.parameters() if parameter.grad is not None]
    assert len(norms) > 10 and all(norm.isfinite() for norm in norms)
    optimizer = torch.optim.SGD(wrong.parameters(), lr=1e-2)
    optimizer.step()
    assert not torch.equal(outputs(kind, wrong)[0], logits)


@pytest.mark.parametrize(("kind", "name"), SINGLE)
def test_weights_load_both_ways(kind, name):
    model = MODELS[kind][0]()
    wrong = broken(model, name)
    if name == "unregistered":
        missing = set(model.state_dict()) - set(wrong.state_dict())
        assert missing and all(one.split(".")[-2] in ("w_q", "w_k", "w_v") for one in missing)
        return
    state = {key: value + 0.1 for key, value in wrong.state_dict().items()}
    model.load_state_dict(state)
    if name != "repeated_block":  # there, several names stand for one tensor
        wrong.load_state_dict(model.state_dict())
        assert all(torch.equal(value, state[key]) for key, value in wrong.state_dict().items())


# Pairs of which one leaves nothing for the other to do.
MOOT = [
    ("shared_qk", "transposed"),  # the scores are symmetric already
    ("shared_qkv", "transposed"),
    ("over_batch", "no_positions"),  # what is the same in all samples, as a position is, goes off with the mean
    ("over_batch", "floored"),
    ("over_batch", "class_without_position"),
    ("no_positions", "floored"),
    ("root_mean_square", "unbiased"),  # no variance is taken
    ("over_heads", "filled_with_0"),  # hidden from all heads alike: the same share for each, whatever the score
    ("own_memory", "causal_memory"),  # the decoder's own tokens are under the causal mask already
]


@pytest.mark.full
@pytest.mark.parametrize("kind", MODELS)
def test_two_mistakes_are_both_made_in_any_order_or_refused(kind):
    model = MODELS[kind][0]()
    names = [name for name in those_of(model) if name != "unregistered"]
    alone = {name: outputs(kind, broken(model, name))[0] for name in names}
    moot = set()
    for first, second in itertools.combinations(names, 2):
        if MISTAKES[first].slot == MISTAKES[second].slot:
            with pytest.raises(ValueError, match="exclude each other"):
                broken(model, first, second)
            continue
        both = outputs(kind, broken(model, second, first))[0]
        if any(equal(both, alone[name]) for name in (first, second)):
            moot.add(frozenset((first, second)))
        if MISTAKES[first].group == MISTAKES[second].group:  # in one part, one could come before the other
            in_turn = outputs(kind, broken(broken(model, second), first))[0]
            assert equal(in_turn, both), f"{second}, then {first}: not the same as both at once"
    assert moot == {frozenset(pair) for pair in MOOT if set(pair) <= set(names)}


def equal(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """To within rounding. NaN too: without ε, over a batch whose [class] tokens are all the same, 0 is divided by 0."""
    return torch.allclose(ours, theirs, rtol=0, atol=1e-10, equal_nan=True)


# --- The same in words and numbers as the graders' ---------------------------------------------------------------

EXERCISES = {
    MultiHeadSelfAttention: ("MultiHeadSelfAttention",),
    LayerNorm: ("LayerNorm",),
    PositionalEncoding: ("sinusoidal_encoding", "PositionalEncoding"),
}


def shared() -> list:
    """(mistake, exercise, part) wherever an exercise knows the mistake."""
    return [
        pytest.param(mistake, find(exercise), part, id=f"{exercise}-{mistake.name}")
        for mistake in MISTAKES.values()
        for part, exercises in EXERCISES.items()
        for exercise in exercises
        if part in mistake.kinds and mistake.name in {one.key for one in find(exercise).mistakes}
    ]


@pytest.mark.parametrize(("mistake", "exercise", "part"), shared())
def test_the_graders_call_it_the_same(mistake: Switch, exercise: Exercise, part: type):
    theirs = exercise.mistake(mistake.name)
    assert (mistake.title, mistake.sentence) == (theirs.title, theirs.sentence)


def roles(exercise: Exercise, module: nn.Module, name: str) -> dict[str, torch.Tensor]:
    """The module's weights under the exercise's names; only as much of them as the mistake uses."""
    if exercise.name == "LayerNorm":
        return {"gamma": module.gamma, "beta": module.beta}
    if exercise.name != "MultiHeadSelfAttention":
        return {}
    maps = {role: getattr(module, f"w_{role}") for role in "qkvo"}
    weights = {f"{role}_weight": one.weight for role, one in maps.items()}
    weights |= {f"{role}_bias": one.bias for role, one in maps.items()}
    n_heads = module.n_heads
    if name == "averaged":  # one head's width goes in
        weights["o_weight"] = weights["o_weight"].unflatten(1, (n_heads, -1)).sum(1)
    if name == "sliced":  # each head's map has the columns of its own slice
        for role in "qkv":
            blocks = weights[f"{role}_weight"].unflatten(0, (n_heads, -1)).unflatten(-1, (n_heads, -1))
            weights[f"{role}_weight"] = torch.cat([blocks[h, :, h] for h in range(n_heads)])
    return weights


def inputs_of(exercise: Exercise) -> list[tuple[tuple, tuple]]:
    """(constructor's arguments, call's arguments) to compare on."""
    if exercise.name == "MultiHeadSelfAttention":
        padding = padding_mask(torch.tensor([4, 3, 5]), TOKENS)
        masks = [(), (causal_mask(TOKENS),), (padding,)]
        return [((D_MODEL, HEADS), (tokens(), *mask)) for mask in masks]
    return [((D_MODEL,), (3 * tokens() + 1,)), ((D_MODEL, 30.0), (tokens(),))]


@pytest.mark.parametrize(("mistake", "exercise", "part"), shared())
def test_the_graders_compute_the_same(mistake: Switch, exercise: Exercise, part: type):
    theirs = exercise.mistake(mistake.name)
    if not theirs.computed:
        pytest.skip("it shows in the list of parameters, not in numbers: see the test of `unregistered`")
    if part is PositionalEncoding:
        wrong = broken(PositionalEncoding(D_MODEL, 9).double(), mistake.name)
        table = exercise.name == "sinusoidal_encoding"
        build, given = (None, (9, D_MODEL)) if table else ((D_MODEL, 9), (tokens(),))
        ours = wrong.table if table else wrong(*given)
        expected = exercise.altered(build, given, {}, frozenset({mistake.name}))
        torch.testing.assert_close(ours, expected.double(), rtol=1e-5, atol=1e-5)
        return
    compared = 0
    for build, given in inputs_of(exercise):
        module = shaken(part(*build))
        expected = exercise.altered(build, given, roles(exercise, module, mistake.name), frozenset({mistake.name}))
        ours = broken(module, mistake.name)(*given)
        finite = expected.isfinite()  # a query that sees no key: NaN there, here a finite fill
        compared += int(finite.sum())
        torch.testing.assert_close(ours[finite], expected[finite])
    assert compared > 100


def test_steps_without_a_mistake_compute_what_the_reference_computes():
    """One mistake that changes nothing in a part shows that taking it apart changes nothing either."""
    x, memory = tokens(), tokens(1)[:, :3]
    mask = causal_mask(TOKENS)
    for part, steps, arguments in [
        (Attention(), wrong_attention.WeightSteps, (x, x, x, mask)),
        (MultiHeadSelfAttention(D_MODEL, HEADS), wrong_attention.AttentionSteps, (x, mask)),
        (CachedSelfAttention(D_MODEL, HEADS), wrong_attention.AttentionSteps, (x, mask)),
        (RotarySelfAttention(24, 2), wrong_attention.AttentionSteps, (x.repeat(1, 1, 2), mask)),
        (CrossAttention(D_MODEL, HEADS), wrong_attention.AttentionSteps, (x, memory)),
        (CachedCrossAttention(D_MODEL, HEADS), wrong_attention.AttentionSteps, (x, memory)),
        (LayerNorm(D_MODEL), wrong_layers.NormSteps, (x,)),
        (EncoderBlock(D_MODEL, HEADS, 20), wrong_layers.BlockSteps, (x, mask)),
        (EncoderBlock(D_MODEL, HEADS, 20, pre_norm=False), wrong_layers.BlockSteps, (x, mask)),
        (DecoderBlock(D_MODEL, HEADS, 20), wrong_layers.BlockSteps, (x, memory, mask)),
        (DecoderBlock(D_MODEL, HEADS, 20, pre_norm=False), wrong_layers.BlockSteps, (x, memory, mask)),
        (vit(), wrong_layers.ViTSteps, (IMAGES,)),
    ]:
        right = shaken(part)
        taken_apart = copy.deepcopy(right)
        become(taken_apart, steps)
        torch.testing.assert_close(taken_apart(*arguments), right(*arguments))


@pytest.mark.parametrize("attention", [CachedSelfAttention, RotarySelfAttention, CachedCrossAttention])
def test_steps_without_a_mistake_keep_a_cache_as_the_reference_does(attention):
    right = shaken(attention(24, 4))
    taken_apart = copy.deepcopy(right)
    become(taken_apart, wrong_attention.AttentionSteps)
    memory = (tokens(1).repeat(1, 1, 2),) if attention is CachedCrossAttention else ()
    caches = KeyValueCache(), KeyValueCache()
    for x in tokens().repeat(1, 1, 2).split(2, dim=1):
        ours, theirs = (part(x, *memory, None, cache) for part, cache in zip((taken_apart, right), caches, strict=True))
        torch.testing.assert_close(ours, theirs)


# --- What single mistakes are known by ---------------------------------------------------------------------------


def test_unregistered_maps_are_used_and_never_trained():
    model = vit()
    wrong = broken(model, "unregistered")
    lost = 2 * 3 * (D_MODEL**2 + D_MODEL)  # two layers, three maps
    count = [sum(parameter.numel() for parameter in one.parameters()) for one in (model, wrong)]
    assert count[0] - count[1] == lost
    torch.testing.assert_close(wrong(IMAGES), model(IMAGES))


def test_a_repeated_block_is_one_block():
    wrong = broken(vit(), "repeated_block")
    assert wrong.encoder.blocks[0] is wrong.encoder.blocks[1]


def test_one_frequency_makes_a_table_of_rank_2():
    model = transformer()
    assert np.linalg.matrix_rank(model.positions.table) == D_MODEL - 2, "10 positions"
    assert np.linalg.matrix_rank(broken(model, "floored").positions.table) == 2


def test_without_a_causal_mask_an_earlier_token_sees_later_ones():
    later = TARGET.clone()
    later[:, -1] = 6
    for names, leaks in (((), False), (("no_causal_mask",), True), (("mask_ignored",), True)):
        model = broken(transformer(), *names)
        same = torch.allclose(model(SOURCE, TARGET)[:, :-1], model(SOURCE, later)[:, :-1])
        assert same != leaks, names


def test_cross_attention_to_the_decoder_ignores_the_source():
    model = broken(transformer(), "own_memory")
    torch.testing.assert_close(model(SOURCE, TARGET), model(SOURCE.flip(1), TARGET))


def test_a_class_token_in_the_wrong_place_is_not_read():
    for name in ("no_class_token", "class_at_the_end"):
        model = broken(vit(), name, "no_positions")
        model.encoder = nn.Module()
        model.encoder.forward = lambda x: x  # nothing moves between the tokens
        torch.testing.assert_close(model(IMAGES), model.head(model.embed(IMAGES)[:, 0]))


def test_a_plain_reshape_reads_strips_of_rows():
    rows = torch.arange(12.0).repeat_interleave(12).reshape(1, 1, 12, 12).double()  # every pixel says its row
    embed = PatchEmbedding(4, 1, 16).double()
    nn.init.eye_(embed.projection.weight)
    nn.init.zeros_(embed.projection.bias)
    strips = broken(embed, "plain_reshape")(rows)
    assert strips[0, 0].unique().tolist() == [0, 1], "16 pixels: a row of 12 and 4 of the next"
    assert embed(rows)[0, 0].unique().tolist() == [0, 1, 2, 3]


def test_softmax_twice_has_a_floor():
    """The best that a probability can do: 1 for the right class, and e / (e + n − 1) of the second softmax."""
    model = vit()
    labels = model(IMAGES).argmax(dim=-1)
    model.head.weight.data *= 1e4  # as sure as can be
    wrong = broken(model, "softmax_twice")
    torch.testing.assert_close(wrong(IMAGES).sum(-1), torch.ones(BATCH).double())
    assert cross_entropy(model(IMAGES), labels) < 1e-6
    floor = np.log(np.e + 4) - 1
    assert cross_entropy(wrong(IMAGES), labels).item() == pytest.approx(floor, abs=1e-6)
    probabilities = broken(transformer(scale="prj"), "softmax_twice")(SOURCE, TARGET).sum(-1)
    torch.testing.assert_close(probabilities, torch.ones_like(probabilities))


# --- Decoding ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unscaled", "over_tokens", "view_split", "transposed", "no_causal_mask"])
def test_a_broken_transformer_writes_what_it_would_write_without_a_cache(name):
    wrong = broken(transformer(), name)
    written = greedy_decode(wrong, SOURCE, BOS, EOS, 5, SOURCE_MASK)
    tokens = torch.full((BATCH, 1), BOS)
    with torch.no_grad():
        for _ in range(written.size(1)):
            last = wrong(SOURCE, tokens, SOURCE_MASK)[:, -1].argmax(dim=-1)
            ended = (tokens == EOS).any(dim=1)
            tokens = torch.cat([tokens, last.masked_fill(ended, EOS)[:, None]], dim=1)
    assert torch.equal(written, tokens[:, 1:])
    one_beam, _ = beam_decode(wrong, SOURCE, BOS, EOS, 5, SOURCE_MASK, beams=1)
    assert torch.equal(one_beam[:, : written.size(1)], written)
    beam_decode(wrong, SOURCE, BOS, EOS, 5, SOURCE_MASK, beams=3)


# --- Which models, and what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "can", "cannot"),
    [
        (ConvNet(), {"softmax_twice"}, {"unscaled", "no_eps"}),
        (DeiT(), {"unscaled", "class_without_position"}, {"no_class_token", "floored"}),
        (CPVT(), {"unscaled", "softmax_twice"}, {"no_positions", "mask_after"}),
        (PVT(), {"no_eps", "softmax_twice"}, {"unscaled"}),
        (Swin(), {"no_eps", "plain_reshape"}, {"unscaled"}),
        (ViT(pooling="mean"), {"unscaled"}, {"no_class_token", "class_without_position"}),
        (Encoder(1, 8, 1, 8), {"unscaled", "mask_after"}, {"by_d_model", "view_split", "repeated_block"}),
        (Encoder(2, 8, 2, 8, pre_norm=False), {"repeated_block"}, {"residual_of_norm", "no_final_norm"}),
        (Decoder(2, 8, 2, 8), {"no_causal_mask", "own_memory"}, {"no_positions"}),
        (CrossAttention(8, 2), {"k_for_v", "mask_after"}, {"q_for_v", "transposed", "no_eps"}),
        (LayerNorm(8), {"no_eps"}, {"unscaled"}),
        (FeedForward(8, 8), {"no_feed_forward"}, {"no_eps"}),
        (Transformer(5, 5, rotary=True, d_model=8), {"unscaled"}, {"no_positions", "floored"}),
        (nn.Linear(3, 3), set(), set(MISTAKES)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_mistake_is_offered_where_it_can_be_made(model, can, cannot):
    offered = set(those_of(model))
    assert can <= offered
    assert not cannot & offered
    for name in offered:
        broken(model, name)


def test_images_of_other_models_pass_through_broken_ones():
    images = torch.rand(2, 1, 28, 28)
    for model in (ConvNet(), DeiT(), CPVT(), PVT(), Swin(), ViT(pooling="mean")):
        for name in those_of(model):
            assert broken(model.eval(), name)(images).isfinite().all(), (type(model).__name__, name)


def test_what_cannot_be_broken_is_refused_with_what_can():
    with pytest.raises(ValueError, match=r"'unscalled' is not a known mistake; .* unscaled, by_d_head"):
        broken(vit(), "unscalled")
    with pytest.raises(ValueError, match=r"'no_causal_mask' cannot be made in a ViT; .* unscaled,"):
        broken(vit(), "unscaled", "no_causal_mask")
    with pytest.raises(ValueError, match=r"cannot be made in a Linear; those that can be made there: none"):
        broken(nn.Linear(2, 2), "unscaled")
    with pytest.raises(ValueError, match=r"'unscaled' and 'by_d_head' exclude each other"):
        broken(vit(), "unscaled", "by_d_head")


def test_no_mistake_is_a_plain_copy():
    model = vit()
    assert torch.equal(broken(model)(IMAGES), model(IMAGES))
    assert broken(model) is not model
