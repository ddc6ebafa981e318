"""The models that come with the course: as good as their files say, and made by today's recipes."""

import re

import pytest
import torch

from headroom import pretrained
from headroom.data import LANGUAGES, Dates, days_of, embedded_digits, repeated_sequences, write_date, written_dates
from headroom.language_training import repeat_accuracy
from headroom.recipes import CODE, DATES, REPEATS, VIT_DIGITS, Recipe
from headroom.reference import attention_maps, padding_mask
from headroom.training import History, accuracy, exact_match

REMAKE = "remake it: python -m headroom.pretrained"


@pytest.mark.parametrize(
    "name, recipe, bytes_",
    [
        ("vit_digits", VIT_DIGITS, 400_000),
        ("dates", DATES, 900_000),
        ("dates_seed_2", DATES, 500_000),
        ("code", CODE, 4_100_000),
        ("repeats", REPEATS, 900_000),
        ("repeats_one_layer", REPEATS, 100_000),
    ],
)
def test_a_checkpoint_was_made_with_todays_recipe(name, recipe, bytes_):
    stored = pretrained.checkpoint(name)
    assert Recipe(**stored["recipe"]) == recipe, REMAKE
    seeds = {"repeats": pretrained.REPEATS_SEEDS[2], "repeats_one_layer": pretrained.REPEATS_SEEDS[1]}
    seeds |= pretrained.DATES_SEEDS
    assert stored["seed"] == seeds.get(name, pretrained.SEED)
    assert (pretrained.FOLDER / f"{name}.pt").stat().st_size < bytes_


def test_the_pretrained_vit_is_as_good_as_its_file_says():
    digits, model = embedded_digits(), pretrained.pretrained_vit()
    assert not model.training
    reached = accuracy(model, digits.val_images, digits.val_labels)
    assert reached >= 0.98
    assert reached == pytest.approx(pretrained.checkpoint("vit_digits")["val_accuracy"], abs=0.0015), REMAKE


def test_the_pretrained_transformer_reads_unseen_dates_by_itself():
    """Free-running: nothing of the answer is shown, and every character must be right."""
    test, model = written_dates("test", 1000, seed=7), pretrained.pretrained_transformer()
    assert not model.training
    assert exact_match(model, test) >= 0.99
    assert pretrained.checkpoint("dates")["val_accuracy"] >= 0.99


def test_the_second_transformer_has_the_history_of_its_training():
    stored = pretrained.checkpoint("dates_seed_2")
    assert len(stored["losses"]) == DATES.epochs * 782
    assert len(stored["epochs"]) == DATES.epochs and stored["epochs"][-1] == stored["val_accuracy"] >= 0.99
    assert exact_match(pretrained.pretrained_transformer(2), written_dates("test", 1000, seed=7)) >= 0.99
    with pytest.raises(ValueError, match="seed is 3: there are models from the seeds 1 and 2"):
        pretrained.pretrained_transformer(3)


PARTS = {  # where a long date says it, and which characters of YYYY-MM-DD are asked for it
    "year": (lambda written: re.search(r"\d{4}", written), [0, 1, 2, 3]),
    "month": (lambda written: max(re.finditer(r"[^\W\d]+", written), key=lambda word: len(word[0])), [5, 6]),
    "day": (lambda written: re.search(r"\b\d{1,2}\b", written), [8, 9]),
}


@pytest.mark.parametrize("part", PARTS)
def test_cross_attention_reads_each_part_where_it_is_written(part):
    """In every language, most of the first layer's attention lies on the characters that say year, month or day."""
    model, (find, asked) = pretrained.pretrained_transformer(), PARTS[part]
    for language in LANGUAGES:
        days = days_of("test")[::60]
        written = [write_date(day, language) for day in days]
        dates = Dates(written, [day.isoformat() for day in days], [language] * len(days))
        with torch.no_grad():
            mask = padding_mask(dates.source_lengths, dates.source.size(1))
            with attention_maps(model) as maps:
                model(dates.source, dates.target[:, :-1], mask)
        weights = maps["decoder.blocks.cross_attention"][:, 0].mean(dim=1)  # (dates, 11, source tokens)
        mass = [weights[i, asked, slice(*find(text).span())].sum(dim=-1).mean() for i, text in enumerate(written)]
        share = [len(find(text)[0]) / len(text) for text in written]
        assert sum(mass) / len(mass) > 0.6, language
        assert sum(mass) > 1.5 * sum(share), language


@pytest.mark.parametrize("interrupted", [True, False])
def test_only_a_training_that_came_to_its_end_replaces_a_file(tmp_path, monkeypatch, capsys, interrupted):
    history = History(losses=[2.3], val_accuracy=[0.1], seconds=1.0, interrupted=interrupted)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setattr(pretrained, "train", lambda *_, **__: history)
    (tmp_path / "vit_digits.pt").write_bytes(b"as it was")
    pretrained._remake_vit_digits()
    said = capsys.readouterr().out
    if interrupted:
        assert (tmp_path / "vit_digits.pt").read_bytes() == b"as it was" and "is left as it was" in said
    else:
        assert pretrained.checkpoint("vit_digits")["val_accuracy"] == 0.1 and "validation accuracy 10.0 %" in said


def test_another_models_file_is_not_mistaken():
    with pytest.raises(RuntimeError, match="state_dict"):
        pretrained._load(torch.nn.Linear(2, 2), "dates")


def test_the_model_of_two_layers_looks_up_and_the_one_of_one_layer_does_not():
    for length in (8, 20, 30):
        ids = repeated_sequences(100, length, generator=torch.Generator().manual_seed(length), distinct=True)
        with torch.no_grad():
            assert repeat_accuracy(pretrained.pretrained_repeats(), ids) >= 0.98
            assert repeat_accuracy(pretrained.pretrained_repeats(1), ids) <= 0.4


def test_the_stages_of_the_model_lead_from_nothing_to_what_it_is():
    stages = pretrained.repeats_stages()
    assert tuple(stages) == pretrained.STAGES
    ids = repeated_sequences(100, 20, generator=torch.Generator().manual_seed(1), distinct=True)
    with torch.no_grad():
        reached = [repeat_accuracy(model, ids) for model in stages.values()]
    assert reached[0] < 0.05 and reached[-1] >= 0.98
    for kept, loaded in zip(
        stages[pretrained.STAGES[-1]].parameters(), pretrained.pretrained_repeats().parameters(), strict=True
    ):
        assert torch.equal(kept, loaded)
    assert list(pretrained.repeats_stages(1)) == [pretrained.STAGES[-1]]


# How they are made


def test_models_have_the_sizes_that_their_names_stand_for():
    """Dropout and the untrained small model leave no trace in a file; the others are loaded above."""
    large, small, repeats = pretrained.code_model(), pretrained.small_code_model(), pretrained.repeats_model(1)
    assert large.dropout.p == 0.2 and [block.dropout.p for block in large.blocks] == [0.2] * 4
    assert small.dropout.p == 0 and small.max_tokens == 64 and len(small.blocks) == 2
    assert small.embed.weight.shape == (1024, 128) and small.blocks[0].attention.n_heads == 4
    assert small.blocks[0].feed_forward.expand.out_features == 256
    assert repeats.embed.weight.shape == (50, 64) and repeats.max_tokens == 60 and len(repeats.blocks) == 1
    for model in (large, small, repeats):
        assert model.positions is None and type(model.blocks[0].attention).__name__ == "RotarySelfAttention"
        assert model.head.weight is model.embed.weight


def test_only_the_stages_are_kept_of_a_training_on_repeats(tmp_path, monkeypatch):
    told, seeds = [], []

    def train(model, recipe, after_epoch, device):
        told.append((recipe, device))
        for step in range(0, 3001, 100):
            torch.nn.init.constant_(model.head.weight, step / 4096)
            after_epoch(step)
        return History(val_accuracy=[0.5], seconds=1.0)

    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setattr(pretrained, "train_on_repeats", train)
    monkeypatch.setattr(pretrained, "seed_everything", seeds.append)
    for layers, steps in ((2, list(pretrained.STAGES)), (1, [3000])):
        pretrained._remake_repeats(layers)
        stages = pretrained.repeats_stages(layers)
        assert list(stages) == steps and not any(model.training for model in stages.values())
        for step, model in stages.items():
            assert model.head.weight[0, 0] == step / 4096
    assert told == [(REPEATS, "cpu")] * 2 and seeds == [pretrained.REPEATS_SEEDS[2], pretrained.REPEATS_SEEDS[1]]


@pytest.mark.parametrize(("name", "seed", "dtype"), [("dates", 1, torch.float32), ("dates_seed_2", 2, torch.float16)])
def test_the_models_of_dates_are_trained_alike_from_two_seeds(name, seed, dtype, tmp_path, monkeypatch):
    told, seeds = [], []
    history = History(losses=[2.0, 1.0], val_accuracy=[0.25, 0.5], seconds=1.0)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setattr(pretrained, "written_dates", lambda split, n: (split, n))
    monkeypatch.setattr(pretrained, "train_transformer", lambda model, *more, device: told.append(more) or history)
    monkeypatch.setattr(pretrained, "seed_everything", seeds.append)
    pretrained._remake_dates(name)
    assert told == [(("train", 50_000), ("val", 500), DATES)] and seeds == [seed]
    stored = pretrained.checkpoint(name)
    assert stored["seed"] == seed and stored["losses"].tolist() == [2, 1] and stored["epochs"] == [0.25, 0.5]
    assert {one.dtype for one in stored["weights"].values()} == {dtype} and stored["val_accuracy"] == 0.5


def test_the_language_model_reads_training_files_and_is_validated_on_others(tmp_path, monkeypatch):
    told = []
    history = History(val_accuracy=[0.5], seconds=1.0)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setattr(
        pretrained, "train_language_model", lambda model, *more, device: told.append((*more, device)) or history
    )
    pretrained._remake_code()
    [(train, val, recipe, device)] = told
    code, tokens = pretrained.embedded_code(), pretrained.code_tokens()
    assert tokens.decode(train) == "".join(code.train.values()) and tokens.decode(val) == "".join(code.val.values())
    assert recipe == CODE and device == "cpu"
    weights = pretrained.checkpoint("code")["weights"]
    assert weights["head.weight"].data_ptr() == weights["embed.weight"].data_ptr(), "one matrix, kept once"
    assert {one.dtype for one in weights.values()} == {torch.float16}
