"""The training loop: it learns, repeats, can be interrupted, and says what went wrong."""

import copy
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from headroom import training
from headroom.data import Dates, Digits, embedded_digits, written_dates
from headroom.pretrained import dates_transformer, pretrained_transformer
from headroom.recipes import DATES, VIT_DIGITS, Recipe
from headroom.reference import ViT, cross_entropy, padding_mask
from headroom.training import (
    accuracy,
    augment,
    exact_match,
    learning_rate,
    pick_device,
    predict,
    seed_everything,
    train,
    train_transformer,
    translate,
)

SHORT = Recipe(epochs=2, batch_size=64, lr=4e-3, weight_decay=0.1, shift=1.0)
PLAIN = Recipe(epochs=1, batch_size=4, lr=1e-3, weight_decay=0.1)


@pytest.fixture(scope="module")
def digits():
    return embedded_digits()


@pytest.fixture(scope="module")
def few(digits):
    """300 digits to train on, 100 to validate on."""
    return Digits(
        digits.train_images[:300], digits.train_labels[:300], digits.val_images[:100], digits.val_labels[:100]
    )


def trained(few, seed, recipe=SHORT, drop_path=0.1):
    seed_everything(seed)
    model = ViT(drop_path=drop_path)
    return model, train(model, few, recipe, device="cpu")


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_vit_learns_digits(few):
    seed_everything(1)
    model = ViT()
    history = train(model, few, replace(SHORT, epochs=12, batch_size=32), device="cpu")
    assert len(history.losses) == len(history.learning_rates) == 12 * math.ceil(300 / 32)
    assert len(history.val_accuracy) == 12
    assert history.val_accuracy[-1] == accuracy(model, few.val_images, few.val_labels) > 0.5
    assert sum(history.losses[-5:]) < 0.7 * sum(history.losses[:5])
    assert history.seconds > 0 and not history.interrupted
    assert not model.training, "ready to predict"


@pytest.mark.parametrize("drop_path", [0.0, 0.1])  # in parts side by side, and whole
def test_the_same_seed_gives_the_same_model_and_another_gives_another(few, drop_path):
    (first, one), (second, two), (third, _) = (trained(few, seed, drop_path=drop_path) for seed in (1, 1, 2))
    assert same(first, second) and one.losses == two.losses and one.val_accuracy == two.val_accuracy
    assert not same(first, third)


def test_training_spares_the_data_and_the_thread_count(few):
    before, threads = few.train_images.clone(), torch.get_num_threads()
    trained(few, 1, replace(SHORT, epochs=1))
    assert torch.equal(few.train_images, before)
    assert torch.get_num_threads() == threads


class Interrupting(ViT):
    """Presses Ctrl-C from a given call on, while training or while validating."""

    calls = 0

    def __init__(self, at, training=True):
        super().__init__()
        self.at, self.when = at, training

    def forward(self, images):
        self.calls += self.training == self.when
        if self.calls >= self.at and self.training == self.when:
            raise KeyboardInterrupt
        return super().forward(images)


def test_an_interrupted_training_keeps_what_it_learned(few, capsys):
    seed_everything(1)
    model = Interrupting(at=1 + 6 * training.PARTS + 1)  # the first step calls it once, the others once for each part
    before = copy.deepcopy(model)
    history = train(model, few, SHORT, device="cpu")
    assert history.interrupted
    assert len(history.losses) == 7 and len(history.val_accuracy) == 1
    assert not same(model, before)
    assert not model.training
    assert (
        "Stopped after 7 of 10 steps, in epoch 2 of 2. The model keeps what it has learned." in capsys.readouterr().out
    )


def test_an_interruption_while_validating_ends_as_cleanly(few, capsys):
    history = train(Interrupting(at=1, training=False), few, SHORT, device="cpu")
    assert history.interrupted and len(history.losses) == 5 and history.val_accuracy == []
    assert "Stopped after 5 of 10 steps" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_stops_with_a_sentence_and_spares_the_model(few):
    class Breaking(ViT):
        calls = 0

        def forward(self, images):
            self.calls += 1
            return super().forward(images) * (float("nan") if self.calls >= 1 + training.PARTS + 1 else 1.0)

    model = Breaking()
    with pytest.raises(FloatingPointError, match=r"the loss is nan at step 3 of 10: lr=0.004 may be too high"):
        train(model, few, SHORT, device="cpu")
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_another_classifier_trains_as_well(few):
    seed_everything(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 5, stride=3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    history = train(model, few, replace(SHORT, epochs=4), device="cpu")
    assert history.val_accuracy[-1] > 0.5


def test_the_progress_bar_shows_loss_and_accuracy(few, capsys, monkeypatch):
    monkeypatch.setattr(training, "tqdm", partial(training.tqdm, disable=False))  # whatever TQDM_DISABLE says
    trained(few, 1, SHORT)
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown and "10/10" in shown and "loss=" in shown and "validation=" in shown


# Dates


@pytest.fixture(scope="module")
def few_dates():
    """English dates only, and only a few hundred: enough to see that the loop learns."""
    return written_dates("train", 400, languages=("en",)), written_dates("val", 50, languages=("en",))


def test_a_transformer_learns_dates(few_dates):
    seed_everything(1)
    model = dates_transformer()
    history = train_transformer(model, *few_dates, replace(DATES, epochs=3), device="cpu")
    assert len(history.losses) == 3 * math.ceil(400 / DATES.batch_size) and len(history.val_accuracy) == 3
    assert sum(history.losses[-3:]) < 0.8 * sum(history.losses[:3])
    assert history.val_accuracy[-1] == exact_match(model, few_dates[1])
    assert not model.training


def test_exact_match_counts_whole_dates_decoded_freely(few_dates):
    dates = replace(few_dates[1], iso=list(few_dates[1].iso))
    model = pretrained_transformer().train()
    written = translate(model, dates, batch_size=7)
    assert model.training, "the mode is restored"
    assert written == translate(model, dates), "batches do not matter"
    right = sum(got == iso for got, iso in zip(written, dates.iso, strict=True))
    assert exact_match(model, dates) == right / 50
    dates.iso[written.index(dates.iso[3])] = "1999-12-3"
    assert exact_match(model, dates) == (right - 1) / 50


def test_padding_costs_nothing_in_the_dates_loss(few_dates):
    """A short date's loss is the same beside a long one as alone."""
    train = few_dates[0]
    order = train.source_lengths.argsort()
    model = dates_transformer()
    losses = []
    for rows in ([int(order[0])], [int(order[0]), int(order[-1])]):
        pair = Dates(*[[column[row] for row in rows] for column in (train.written, train.iso, train.language)])
        mask = padding_mask(pair.source_lengths, pair.source.size(1))
        logits = model(pair.source, pair.target[:, :-1], mask)
        losses.append(cross_entropy(logits[0], pair.target[0, 1:]))
    torch.testing.assert_close(losses[0], losses[1])


def test_batches_of_similar_lengths_hold_every_example_once():
    seed_everything(0)
    lengths = torch.randint(1, 30, (1003,))
    batches = training.shuffled_batches(1003, 10, lengths)
    assert sorted(torch.cat(batches).tolist()) == list(range(1003))
    assert len(batches) == 101 and sorted(map(len, batches))[:2] == [3, 10]
    padding = sum(int((lengths[b].max() - lengths[b]).sum()) for b in batches)
    plain = sum(int((lengths[b].max() - lengths[b]).sum()) for b in training.shuffled_batches(1003, 10))
    assert padding < 0.2 * plain
    firsts = [float(lengths[b].float().mean()) for b in batches[:20]]
    assert firsts != sorted(firsts), "short ones do not come first"
    assert not torch.equal(batches[0], training.shuffled_batches(1003, 10, lengths)[0])


# Optimizer and schedule


def test_the_learning_rate_rises_in_a_line_and_falls_as_a_cosine_to_zero():
    recipe = replace(PLAIN, lr=2.0, warmup=0.1)
    rates = [learning_rate(step, 100, recipe) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * (step + 1) for step in range(10)])
    assert rates[9] == max(rates) == 2.0
    assert rates[54] == pytest.approx(1.0), "half-way down"
    assert rates[-1] == pytest.approx(0.0)
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_the_papers_schedule_falls_as_one_over_the_root():
    recipe = replace(PLAIN, lr=2.0, warmup=0.1, schedule="inverse_square_root")
    rates = [learning_rate(step, 100, recipe) for step in range(100)]
    assert rates[9] == max(rates) == 2.0
    assert rates[39] == pytest.approx(1.0) and rates[-1] == pytest.approx(2 * 0.1**0.5)


def test_label_smoothing_is_in_the_recipe(few):
    for smoothing in (0.0, 0.2):
        seed_everything(1)
        model = ViT()
        untrained = copy.deepcopy(model)
        recipe = replace(SHORT, epochs=1, batch_size=300, shift=0.0, smoothing=smoothing)
        history = train(model, few, recipe, device="cpu")
        expected = cross_entropy(untrained(few.train_images), few.train_labels, smoothing)
        assert history.losses[0] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_shortest_runs_have_a_learning_rate(steps):
    rates = [learning_rate(step, steps, PLAIN) for step in range(steps)]
    assert all(math.isfinite(rate) and 0 <= rate <= PLAIN.lr for rate in rates)


def test_only_weights_of_linear_maps_decay():
    model = ViT()
    decayed, spared = training.adamw(model, PLAIN).param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert decayed["weight_decay"] == 0.1 and spared["weight_decay"] == 0
    assert all(names[id(p)].endswith(".weight") for p in decayed["params"])
    spared = {names[id(p)] for p in spared["params"]}
    assert {"class_token", "positions.table", "encoder.norm.gamma", "head.bias"} <= spared
    assert len(decayed["params"]) + len(spared) == len(names)


def test_the_optimizer_is_the_recipes_and_convolutions_decay_too():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 2))
    decayed, spared = training.adamw(model, replace(PLAIN, lr=0.25, betas=(0.8, 0.95))).param_groups
    assert decayed["lr"] == spared["lr"] == 0.25 and decayed["betas"] == spared["betas"] == (0.8, 0.95)
    assert [id(one) for one in decayed["params"]] == [id(model[0].weight), id(model[2].weight)]


def loss_of(model):
    return lambda images, labels: cross_entropy(model(images), labels)


@pytest.mark.parametrize("examples", [8, 7, 1])
def test_parts_side_by_side_take_the_step_of_the_whole_batch(few, examples):
    model = ViT()
    apart = copy.deepcopy(model)
    batch = few.train_images[:examples], few.train_labels[:examples]
    whole = training.take_step(model, training.adamw(model, PLAIN), loss_of(model), batch, lr=0.0, clip=1e9)
    with ThreadPoolExecutor(training.PARTS) as pool:
        parts = training.take_step(apart, training.adamw(apart, PLAIN), loss_of(apart), batch, 0.0, 1e9, pool)
    assert parts == pytest.approx(whole)
    for one, other in zip(model.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad)


def test_a_parameter_without_a_part_in_the_loss_is_left_alone(few):
    model = ViT()
    model.idle = nn.Parameter(torch.ones(3))
    train(model, few, PLAIN, device="cpu")
    assert torch.equal(model.idle, torch.ones(3))


@pytest.mark.parametrize("options, apart", [({}, True), ({"dropout": 0.1}, False), ({"drop_path": 0.1}, False)])
def test_only_models_without_chance_or_memory_are_computed_in_parts(few, options, apart):
    sizes = []
    model = ViT(**options)
    model.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])) if module.training else None)
    train(model, few, replace(SHORT, batch_size=100), device="cpu")
    assert sizes == ([100] + [50] * 10 if apart else [100] * 6)


def test_a_model_with_batch_norm_is_never_computed_in_parts(few):
    sizes = []
    norm = nn.BatchNorm2d(1)
    norm.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])) if module.training else None)
    train(nn.Sequential(norm, nn.Flatten(), nn.Linear(784, 10)), few, replace(SHORT, batch_size=100), device="cpu")
    assert sizes == [100] * 6


def test_a_step_follows_its_own_batch_at_its_own_rate_and_clips(few):
    model = ViT()
    optimizer = training.adamw(model, PLAIN)
    images, labels = few.train_images[:8], few.train_labels[:8]
    before = copy.deepcopy(model)

    def step(lr, clip):
        training.take_step(model, optimizer, loss_of(model), (images, labels), lr, clip)

    def gradient(clip):
        step(lr=0.0, clip=clip)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    once, again = gradient(clip=1e9), gradient(clip=1e9)
    assert same(model, before), "a rate of 0 changes nothing"
    assert torch.equal(once, again), "the gradient of the batch before is forgotten"
    torch.testing.assert_close(gradient(clip=0.5), 0.5 * once / once.norm())
    step(lr=1e-3, clip=1.0)
    assert not same(model, before)


# Augmentation


def test_augmentation_without_amounts_changes_nothing():
    images = torch.rand(3, 1, 28, 28)
    assert torch.equal(augment(images, PLAIN), images)


def test_augmentation_differs_between_images_and_calls():
    images = torch.rand(1, 1, 28, 28).expand(2, -1, -1, -1)
    once, twice = augment(images, VIT_DIGITS), augment(images, VIT_DIGITS)
    assert once.shape == images.shape
    assert not torch.allclose(once[0], once[1]) and not torch.allclose(once, twice)


def extremes(monkeypatch, recipe, value):
    """A soft blob right of the centre, augmented with every random amount at −1 or +1: its centre and growth."""
    monkeypatch.setattr(torch, "rand", lambda *shape: torch.full(shape, (value + 1) / 2))
    rows, columns = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    image = torch.exp(-((rows - 13.5) ** 2 + (columns - 19.5) ** 2) / (2 * 1.5**2))
    out = augment(image[None, None], recipe)[0, 0]
    mass = out.sum()
    return ((out * rows).sum() / mass).item(), ((out * columns).sum() / mass).item(), (mass / image.sum()).item()


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_shift_is_in_pixels(monkeypatch, sign):
    row, column, mass = extremes(monkeypatch, replace(PLAIN, shift=2.0), sign)
    assert (row, column) == pytest.approx((13.5 - 2 * sign, 19.5 - 2 * sign), abs=0.01)
    assert mass == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_rotation_is_in_degrees(monkeypatch, sign):
    row, column, _ = extremes(monkeypatch, replace(PLAIN, rotation=30.0), sign)
    assert math.hypot(row - 13.5, column - 13.5) == pytest.approx(6, abs=0.05), "the distance from the centre stays"
    assert math.degrees(math.atan2(row - 13.5, column - 13.5)) == pytest.approx(-30 * sign, abs=0.5)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_scale_is_a_share(monkeypatch, sign):
    row, column, mass = extremes(monkeypatch, replace(PLAIN, scale=0.15), sign)
    assert row == pytest.approx(13.5, abs=0.01)
    assert column - 13.5 == pytest.approx(6 / (1 + 0.15 * sign), abs=0.05)
    assert mass == pytest.approx(1 / (1 + 0.15 * sign) ** 2, rel=0.04)


def test_a_faded_augmentation_shrinks_the_amounts_to_nothing(monkeypatch):
    recipe = replace(PLAIN, shift=2.0, augmentation_fade=0.5)
    monkeypatch.setattr(torch, "rand", lambda *shape: torch.ones(shape))
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, 10, 10] = 1
    peaks = {progress: augment(image, recipe, progress).argmax().item() for progress in (0.0, 0.5, 0.75, 1.0)}
    assert peaks == {0.0: 8 * 28 + 8, 0.5: 8 * 28 + 8, 0.75: 9 * 28 + 9, 1.0: 10 * 28 + 10}
    torch.testing.assert_close(augment(image, recipe, 1.0), image)


def test_a_training_ends_on_images_nearly_as_they_are(few, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *shape: torch.ones(shape))  # each image moves as far as it may

    class Seeing(nn.Linear):
        def forward(self, images):
            if self.training:
                seen.append(images[:, 0].sum(dim=(0, 1)) @ torch.arange(28.0) / images.sum())
            return super().forward(images.flatten(1))

    def moved(recipe):
        """By how many pixels each step's images were moved, compared with those of a training that moves none."""
        seed_everything(0)
        seen.clear()
        train(Seeing(784, 10), few, recipe, device="cpu")
        return list(seen)

    seen = []
    monkeypatch.setattr(training, "PARTS", 1)  # a step sees its batch once
    recipe = replace(PLAIN, epochs=1, batch_size=30, shift=2.0)
    still, always, fading = (
        moved(one) for one in (replace(recipe, shift=0.0), recipe, replace(recipe, augmentation_fade=0.5))
    )
    shifts = [[round(abs(x - at).item(), 1) for x, at in zip(one, still, strict=True)] for one in (always, fading)]
    assert shifts == [[2.0] * 10, [*[2.0] * 6, 1.6, 1.2, 0.8, 0.4]]


def test_augmentation_looks_where_torchs_grid_does(monkeypatch):
    grids = []
    monkeypatch.setattr(F, "grid_sample", lambda images, grid, **options: grids.append(grid) or images)
    images = torch.rand(3, 2, 12, 20)
    augment(images, replace(PLAIN, scale=1e-30))  # nothing but the identity
    identity = torch.eye(2, 3).expand(3, -1, -1)
    torch.testing.assert_close(grids[0], F.affine_grid(identity, list(images.shape), align_corners=False))


def test_augmentation_works_in_other_dtypes():
    assert augment(torch.rand(2, 1, 28, 28, dtype=torch.float64), VIT_DIGITS).dtype == torch.float64


# Predicting


def test_predicting_in_batches_is_predicting_at_once_and_restores_the_mode(few):
    model = ViT(dropout=0.5).train()
    logits = predict(model, few.val_images, batch_size=7)
    assert model.training
    with torch.no_grad():
        torch.testing.assert_close(logits, model.eval()(few.val_images))
    predict(model, few.val_images)
    assert not model.training


def test_predicting_leaves_frozen_parts_frozen(few):
    model = nn.Sequential(nn.Conv2d(1, 8, 5, stride=3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    model.train()
    model[1].eval()
    predict(model, few.val_images)
    assert [part.training for part in model] == [True, False, True, True, True]


def test_the_mode_is_restored_when_predicting_fails():
    model = ViT().train()
    with pytest.raises(ValueError, match="images has shape"):
        predict(model, torch.zeros(1, 3, 28, 28))
    assert model.training


def test_accuracy_counts_the_k_best_guesses():
    logits = torch.tensor([[3.0, 2, 1], [1, 2, 3], [2, 3, 1], [1, 3, 2]])
    model, labels = nn.Linear(3, 3, bias=False), torch.tensor([0, 1, 2, 1])
    nn.init.eye_(model.weight)
    assert accuracy(model, logits, labels) == 0.5
    assert accuracy(model, logits, labels, top_k=2) == 0.75
    assert accuracy(model, logits, labels, top_k=3) == 1.0


@pytest.mark.parametrize("images, labels", [(0, 0), (3, 2)])
def test_accuracy_of_nothing_is_refused(images, labels):
    with pytest.raises(ValueError, match=f"got {images} and {labels}"):
        accuracy(ViT(), torch.zeros(images, 1, 28, 28), torch.zeros(labels, dtype=torch.long))


# Devices


@pytest.mark.parametrize("cuda, mps, picked", [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_the_fastest_device_is_picked(monkeypatch, cuda, mps, picked):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device().type == picked
    assert pick_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "abacus"])
def test_a_device_that_is_not_there_is_refused(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"device '{name}' is not available on this machine, which has: cpu"):
        pick_device(name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_on_a_gpu_starts_as_on_the_cpu(few):
    histories = []
    for device in ("cpu", "cuda"):
        seed_everything(1)
        model = ViT()
        histories.append(train(model, few, SHORT, device=device))
    assert next(model.parameters()).device.type == "cuda"
    assert predict(model, few.val_images).device.type == "cpu"
    assert histories[1].losses[0] == pytest.approx(histories[0].losses[0], rel=1e-3), (
        "the same batches, the same digits"
    )
