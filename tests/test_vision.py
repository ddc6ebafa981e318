"""The vision side of the reference: equal to torch, torchvision or slow loops in float64, values and gradients."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headroom import reference as ref
from headroom.data import Digits
from headroom.pretrained import checkpoint, pretrained_vit
from headroom.recipes import Distillation, Recipe
from headroom.reference.patches import to_grid, to_tokens
from headroom.training import distill, seed_everything, train
from tests.peers import assert_same, block_pairs, float64, leaf, quick, seeds, shake, torch_block  # noqa: F401

SMALL = {"image_size": 8, "patch_size": 4, "channels": 2, "n_classes": 3}
CLASSIFIERS = {
    "ViT": ref.ViT,
    "ViT, mean": lambda **options: ref.ViT(**options, pooling="mean"),
    "DeiT": ref.DeiT,
    "CPVT": ref.CPVT,
    "PVT": ref.PVT,
    "Swin": ref.Swin,
    "ConvNet": ref.ConvNet,
}
classifiers = pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)


# Every classifier


@classifiers
def test_a_classifier_returns_logits_and_trains_every_parameter(make):
    model = shake(make())
    images = torch.randn(3, 1, 28, 28)
    logits = model(images)
    assert logits.shape == (3, 10)
    F.cross_entropy(logits, torch.tensor([1, 2, 3])).backward()
    # A key's bias adds the same to all of a query's scores: the softmax does not see it.
    idle = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-12]
    assert all(name.endswith("w_k.bias") for name in idle), idle


@classifiers
def test_an_image_is_classified_by_itself_alone(make):
    model = shake(make(channels=3)).eval()
    images = torch.randn(4, 3, 28, 28)
    torch.testing.assert_close(model(images)[[2]], model(images[[2]]))


@classifiers
@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (1, 28, 28), (28, 28)])
def test_images_of_another_shape_are_refused(make, shape):
    with pytest.raises(ValueError, match=r"images has shape \(.*\); it must be \(batch, 1, ") as caught:
        make()(torch.randn(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("name", ["ViT", "ViT, mean", "DeiT", "PVT", "Swin"])
def test_images_of_another_size_are_refused_where_places_are_fixed(name):
    with pytest.raises(ValueError, match=r"images has shape \(2, 1, 21, 21\); it must be \(batch, 1, 28, 28\)"):
        CLASSIFIERS[name]()(torch.randn(2, 1, 21, 21))


def test_linear_maps_start_as_glorot_and_bengio_say():
    model = nn.Sequential(nn.Linear(300, 500), nn.Conv2d(1, 2, 3), nn.Linear(500, 10, bias=False))
    untouched = model[1].weight.clone()
    ref.glorot(model)
    limit = math.sqrt(6 / 800)
    assert limit * 0.99 < model[0].weight.abs().max().item() <= limit
    assert model[0].weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.01), "uniform"
    assert not model[0].bias.any()
    assert torch.equal(model[1].weight, untouched)


# Patches


@pytest.mark.parametrize("channels", [1, 3])
def test_patchify_cuts_squares_row_by_row(channels):
    images = torch.randn(2, channels, 12, 8)
    patches = ref.patchify(images, 4)
    assert patches.shape == (2, 6, channels * 16)
    for row in range(3):
        for column in range(2):
            square = images[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            assert torch.equal(patches[:, 2 * row + column], square.flatten(1))
    assert torch.equal(ref.patchify_unfold(images, 4), patches)


@pytest.mark.parametrize("channels", [1, 3])
def test_three_patch_embeddings_are_one(channels):
    embed = shake(ref.PatchEmbedding(patch_size=4, channels=channels, d_model=5))
    weight, bias = embed.projection.weight, embed.projection.bias
    images = leaf(2, channels, 12, 8)
    convolution = embed.as_convolution()
    assert_same(
        embed(images),
        to_tokens(convolution(images)),
        [(images, images), (bias, convolution.bias)],
    )
    unfolded = F.linear(ref.patchify_unfold(images, 4), weight, bias)
    assert_same(embed(images), unfolded, [(p, p) for p in (images, weight, bias)])
    direction = torch.randn(2, 6, 5)
    embed(images).backward(direction)
    to_tokens(convolution(images)).backward(direction)
    torch.testing.assert_close(weight.grad, convolution.weight.grad.flatten(1))


def test_the_convolution_has_weights_of_its_own():
    embed = ref.PatchEmbedding(4, 1, 5)
    convolution = embed.as_convolution()
    before = embed.projection.weight.clone()
    with torch.no_grad():
        convolution.weight.zero_()
    assert torch.equal(embed.projection.weight, before)


def test_a_grid_and_its_tokens_are_the_same_numbers():
    grid = torch.randn(2, 5, 3, 4)
    tokens = to_tokens(grid)
    assert tokens.shape == (2, 12, 5) and torch.equal(tokens[:, 4 * 1 + 2], grid[:, :, 1, 2])
    assert torch.equal(to_grid(tokens, rows=3), grid)


@pytest.mark.parametrize("cut", [ref.patchify, ref.patchify_unfold])
def test_images_that_do_not_divide_into_patches_are_refused(cut):
    with pytest.raises(ValueError, match="an image of 28×28 does not divide into patches of patch_size=5"):
        cut(torch.randn(1, 1, 28, 28), 5)
    for make in (ref.ViT, ref.DeiT):
        with pytest.raises(ValueError, match="image_size=28 does not divide into patches of patch_size=5"):
            make(patch_size=5)


# Vision Transformer


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_vit_equals_one_built_from_torchs_layers(pooling):
    vit = shake(ref.ViT(**SMALL, d_model=12, n_layers=2, n_heads=3, d_ff=17, pooling=pooling))
    blocks = [torch_block(block) for block in vit.encoder.blocks]
    images = leaf(5, 2, 8, 8)
    logits = vit(images)

    x = vit.embed.projection(F.unfold(images, kernel_size=4, stride=4).transpose(1, 2))
    if pooling == "class":
        x = torch.cat([vit.class_token.expand(5, 1, 12), x], dim=1)
    x = x + vit.positions.table
    for block in blocks:
        x = block(x)
    x = F.layer_norm(x, (12,), vit.encoder.norm.gamma, vit.encoder.norm.beta)
    pairs = [(p, p) for p in (images, vit.positions.table, vit.head.weight)]
    if pooling == "class":
        pairs.append((vit.class_token, vit.class_token))
    for ours, theirs in zip(vit.encoder.blocks, blocks, strict=True):
        pairs += block_pairs(ours, theirs)
    assert_same(logits, vit.head(x[:, 0] if pooling == "class" else x.mean(1)), pairs)


SHAPES = {
    "ViT": {"encoder.blocks.attention": (3, 2, 4, 17, 17)},
    "ViT, mean": {"encoder.blocks.attention": (3, 2, 4, 16, 16)},
    "DeiT": {"encoder.blocks.attention": (3, 2, 4, 18, 18)},
    "CPVT": {"encoder.blocks.attention": (3, 2, 4, 16, 16)},
    "PVT": {
        "stages.0.encoder.blocks.attention": (3, 1, 2, 64, 4),
        "stages.1.encoder.blocks.attention": (3, 1, 3, 16, 4),
        "stages.2.encoder.blocks.attention": (3, 1, 4, 4, 4),
    },
    "Swin": {"stages.0.blocks.attention": (3, 2, 4, 2, 16, 16), "stages.1.blocks.attention": (3, 2, 1, 4, 16, 16)},
    "ConvNet": {},
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_shows_its_attention_in_the_same_way(name):
    model, images = CLASSIFIERS[name](), torch.randn(3, 1, 28, 28)
    with ref.attention_maps(model.eval()) as maps:
        logits = model(images)
    assert torch.equal(model(images), logits)
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == SHAPES[name]
    for weights in maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match='pooling=\'max\' must be "class" or "mean"'):
        ref.ViT(pooling="max")


def test_without_positions_a_vit_is_blind_to_the_order_of_patches():
    vit = shake(ref.ViT())
    images = torch.randn(2, 1, 28, 28)
    mixed = F.fold(ref.patchify(images, 7)[:, torch.randperm(16)].transpose(1, 2), 28, kernel_size=7, stride=7)
    assert not torch.allclose(vit(mixed), vit(images))
    with torch.no_grad():
        vit.positions.table.zero_()
    torch.testing.assert_close(vit(mixed), vit(images))


def test_the_shipped_weights_fit_the_default_vit():
    torch.set_default_dtype(torch.float32)
    weights = checkpoint("vit_digits")["weights"]
    vit = ref.ViT()
    assert list(vit.state_dict()) == list(weights)
    assert sum(p.numel() for p in vit.parameters()) == sum(w.numel() for w in weights.values()) == 72_074
    assert pretrained_vit()(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


def test_a_new_head_starts_at_zero_and_leaves_the_rest():
    vit = shake(ref.ViT())
    before = copy.deepcopy(vit.encoder.state_dict())
    vit.new_head(4)
    assert not vit(torch.randn(2, 1, 28, 28)).any() and vit.head.out_features == 4
    assert all(torch.equal(value, before[name]) for name, value in vit.encoder.state_dict().items())


# Rollout


@quick
@given(seed=seeds, layers=st.integers(1, 4), heads=st.integers(1, 3), tokens=st.integers(1, 6))
def test_rollout_rows_sum_to_one(seed, layers, heads, tokens):
    torch.manual_seed(seed)
    rollout = ref.attention_rollout(torch.randn(2, layers, heads, tokens, tokens).softmax(-1))
    assert (rollout >= 0).all()
    torch.testing.assert_close(rollout.sum(-1), torch.ones(2, tokens))


def test_rollout_multiplies_layers_from_the_input_upwards():
    first = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    second = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    rollout = ref.attention_rollout(torch.stack([first, second])[None, :, None])
    half = torch.eye(2) / 2
    torch.testing.assert_close(rollout[0], (second / 2 + half) @ (first / 2 + half))


# DeiT and distillation


def test_deit_says_the_mean_of_two_softmaxes():
    deit = shake(ref.DeiT(**SMALL, d_model=12, n_heads=3, d_ff=17))
    images = torch.randn(5, 2, 8, 8)
    logits, distilled = deit.both(images)
    torch.testing.assert_close(deit(images).softmax(-1), (logits.softmax(-1) + distilled.softmax(-1)) / 2)


def test_deit_is_a_vit_with_one_token_more():
    deit = shake(ref.DeiT())
    vit = ref.ViT()
    n_vit, n_deit = (sum(p.numel() for p in model.parameters()) for model in (vit, deit))
    assert n_deit == n_vit + 64 + 64 + 650, "a token, its position and a head"
    # If nobody looks at the distillation token, [class] says what a ViT says.
    weights = deit.state_dict()
    weights["positions.table"] = weights["positions.table"][[0, *range(2, 18)]]
    vit.load_state_dict(weights, strict=False)
    hide = torch.ones(18, dtype=torch.bool)
    hide[1] = False
    x = torch.cat([deit.class_token, deit.distillation_token], dim=1).expand(2, -1, -1)
    images = torch.randn(2, 1, 28, 28)
    x = deit.encoder(deit.positions(torch.cat([x, deit.embed(images)], dim=1)), hide)
    torch.testing.assert_close(deit.head(x[:, 0]), vit(images))


@quick
@given(seed=seeds, temperature=st.floats(0.5, 10), alpha=st.floats(0, 1))
def test_soft_distillation_equals_torchs_divergence(seed, temperature, alpha):
    torch.manual_seed(seed)
    logits, distilled, teacher = leaf(6, 4), leaf(6, 4), 3 * torch.randn(6, 4)
    labels = torch.randint(4, (6,))
    ours = ref.soft_distillation_loss(logits, distilled, teacher, labels, temperature, alpha)
    divergence = F.kl_div(
        F.log_softmax(distilled / temperature, -1), F.softmax(teacher / temperature, -1), reduction="batchmean"
    )
    theirs = (1 - alpha) * F.cross_entropy(logits, labels) + alpha * divergence * temperature**2
    assert_same(ours, theirs, [(logits, logits), (distilled, distilled)])


def test_hard_distillation_asks_for_the_teachers_class():
    logits, distilled, teacher = leaf(6, 4), leaf(6, 4), torch.randn(6, 4)
    labels = torch.randint(4, (6,))
    theirs = (F.cross_entropy(logits, labels) + F.cross_entropy(distilled, teacher.argmax(-1))) / 2
    ours = ref.hard_distillation_loss(logits, distilled, teacher, labels)
    assert_same(ours, theirs, [(logits, logits), (distilled, distilled)])


def test_a_student_that_says_what_the_teacher_says_has_nothing_left_to_learn_from_it():
    teacher, labels = torch.randn(6, 4), torch.randint(4, (6,))
    assert ref.soft_distillation_loss(teacher, teacher, teacher, labels, alpha=1.0).item() == pytest.approx(0)


def test_the_temperature_leaves_the_size_of_the_gradient():
    """For logits that are small beside T, the gradient no longer depends on T (Hinton et al. 2015, section 2.1)."""
    teacher, labels, sizes = torch.randn(6, 4), torch.randint(4, (6,)), []
    for temperature in (50.0, 100.0):
        distilled = torch.zeros(6, 4, requires_grad=True)
        ref.soft_distillation_loss(distilled, distilled, teacher, labels, temperature, alpha=1.0).backward()
        sizes.append(distilled.grad.norm().item())
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05) and sizes[0] > 0.01


def test_distillation_out_of_range_is_refused():
    x, labels = torch.randn(6, 4), torch.randint(4, (6,))
    with pytest.raises(ValueError, match="temperature=0 must be positive"):
        ref.soft_distillation_loss(x, x, x, labels, temperature=0)
    for loss in (ref.soft_distillation_loss, ref.hard_distillation_loss):
        with pytest.raises(ValueError, match=r"alpha=1\.5 must lie between 0 and 1"):
            loss(x, x, x, labels, alpha=1.5)
        with pytest.raises(ValueError, match=r"distilled \(6, 4\) and teacher \(6, 5\) must have equal shapes"):
            loss(x, x, torch.randn(6, 5), labels)


# Learning from a teacher


@pytest.fixture
def stripes():
    """Images whose class says along which edge their ink lies: learned within a few steps."""
    torch.set_default_dtype(torch.float32)
    seed_everything(0)
    labels = torch.arange(80) % 4
    images = 0.1 * torch.rand(80, 1, 28, 28)
    edge = torch.zeros(28, 28)
    edge[:7] = 0.9
    for image, label in zip(images, labels, strict=True):
        image += edge.rot90(int(label))
    return Digits(images[:64], labels[:64], images[64:], labels[64:])


QUICK = Recipe(epochs=12, batch_size=8, lr=5e-3, weight_decay=0.0)


@pytest.mark.full
@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
@pytest.mark.parametrize("student", ["DeiT", "ViT"])
def test_a_student_learns_from_its_teacher_alone(stripes, student, hard):
    teacher = ref.ConvNet(n_classes=4, widths=(8, 8))
    assert train(teacher, stripes, QUICK, "cpu").val_accuracy[-1] == 1
    taught = {name: value.clone() for name, value in teacher.state_dict().items()}
    lies = Digits(stripes.train_images, stripes.train_labels.roll(1), stripes.val_images, stripes.val_labels)
    model = CLASSIFIERS[student](n_classes=4)
    history = distill(model, teacher.train(), lies, QUICK, Distillation(alpha=1.0, hard=hard), "cpu")
    if student == "DeiT":  # its [class] token learned nothing: ask the other one
        right = (model.both(lies.val_images)[1].argmax(-1) == lies.val_labels).float().mean().item()
    else:
        right = history.val_accuracy[-1]
    assert right > 0.9
    assert all(torch.equal(value, taught[name]) for name, value in teacher.state_dict().items()), "the teacher stays"


@pytest.mark.full
@classifiers
def test_a_classifier_learns(stripes, make):
    history = train(make(n_classes=4), stripes, QUICK, "cpu")
    assert history.val_accuracy[-1] > 0.9
