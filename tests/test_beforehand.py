"""`made_beforehand`: kept results, the switch that makes them anew, and what it says."""

import json
from pathlib import Path

import pytest
import torch

from headroom import beforehand
from headroom.beforehand import made_beforehand

RUNS = [("wide", 0), ("wide", 1), ("narrow", 0)]


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of kept results, at full scale."""
    file = tmp_path / "runs.json"
    file.write_text(json.dumps({"width": {"wide, 0": 1.5, "wide, 1": 2.5, "narrow, 0": 0.5}}))
    monkeypatch.setattr(beforehand, "FILE", file)
    monkeypatch.delenv("HEADROOM_SCALE", raising=False)
    return file


def trained(name: str, seed: int) -> list[float]:
    """A run that draws random numbers."""
    torch.manual_seed(seed)
    return [len(name) + torch.rand(()).item(), seed]


def test_by_default_the_kept_results_are_returned_after_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, int]] = []

    def spy(name: str, seed: int) -> float:
        asked.append((name, seed))
        return 0.0

    assert made_beforehand("width", spy, RUNS[:2]) == {("wide", 0): 1.5, ("wide", 1): 2.5}
    assert asked == [("wide", 0)]
    assert "these were made beforehand. (TRAIN = True makes them here.)" in capsys.readouterr().out


@pytest.mark.parametrize("train", [False, True])
def test_no_random_number_is_drawn_outside_of_the_runs(train: bool) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    made_beforehand("width", trained, RUNS, train)
    assert torch.equal(torch.rand(3), expected)


def test_with_train_every_run_is_made_here_and_nothing_is_kept(kept: Path) -> None:
    before = kept.read_text()
    assert made_beforehand("width", trained, RUNS, train=True) == {run: trained(*run) for run in RUNS}
    assert kept.read_text() == before


def test_keep_replaces_this_experiment_alone(kept: Path) -> None:
    made_beforehand("depth", trained, RUNS, "keep")
    found = beforehand.stored()
    assert set(found) == {"width", "depth"} and found["width"]["wide, 0"] == 1.5
    assert made_beforehand("depth", trained, RUNS)["wide", 1] == pytest.approx(trained("wide", 1), rel=1e-4)


def test_at_small_scale_every_run_is_made_and_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_SCALE", "small")
    assert made_beforehand("width", trained, RUNS) == {run: trained(*run) for run in RUNS}
    with pytest.raises(RuntimeError, match="Results are kept at full scale only"):
        made_beforehand("width", trained, RUNS, "keep")


@pytest.mark.parametrize(("name", "run"), [("width", ("wide", 9)), ("height", ("wide", 0))])
def test_a_run_that_was_not_made_is_refused(name: str, run: tuple[str, int]) -> None:
    with pytest.raises(KeyError, match=f"of '{name}' no run .* was made beforehand: with TRAIN = True"):
        made_beforehand(name, trained, [run])
