"""The environment check: true sentences on this machine, and one that helps for each thing that can be missing."""

import sys
import tomllib
from pathlib import Path

import pytest
import torch

from headroom import environment
from headroom.data import digits


def test_a_working_environment_gets_a_tick_for_each_thing(capsys: pytest.CaptureFixture) -> None:
    environment.report()
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["✓"] * 4
    for line, word in zip(lines, ("Python 3.", torch.__version__, "Models", "9,000 digits"), strict=True):
        assert word in line


def test_the_oldest_python_is_the_one_that_the_project_asks_for() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, environment.OLDEST_PYTHON))


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 6))
    first = next(environment.findings())
    assert not first.holds and "3.11 or newer" in first.sentence and "make lab" in first.sentence


def test_without_torch_the_check_says_so_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = list(environment.findings())
    assert [finding.holds for finding in found] == [True, False]
    assert "PyTorch" in found[1].sentence and "make lab" in found[1].sentence


def test_a_device_that_does_not_compute_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's meta device stands for it: tensors can be made there, but nothing can be computed."""
    monkeypatch.setattr("headroom.training.pick_device", lambda: torch.device("meta"))
    device = environment.device()
    assert not device.holds and "meta" in device.sentence and 'device="cpu"' in device.sentence
    assert "\n" not in device.sentence


def test_missing_or_damaged_digits_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(b"PK\x03\x04 cut off")
    for path in (tmp_path / "missing.npz", damaged):
        monkeypatch.setattr(digits, "EMBEDDED", path)
        found = environment.digits()
        assert not found.holds and "mnist_10000.npz" in found.sentence


@pytest.mark.parametrize(("cores", "words"), [(1, "(one core)"), (8, "(8 cores)"), (None, "(one core)")])
def test_the_processor_is_enough_and_its_cores_are_counted(cores, words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headroom.training.pick_device", lambda: torch.device("cpu"))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    found = environment.device()
    assert found.holds and words in found.sentence and "which is enough" in found.sentence


def test_what_is_missing_gets_a_cross(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    found = [environment.Finding(holds, f"It is {holds}.") for holds in (True, False)]
    monkeypatch.setattr(environment, "findings", lambda: found)
    environment.report()
    assert capsys.readouterr().out == "✓ It is True.\n✗ It is False.\n"


def test_a_python_as_old_as_the_oldest_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (*environment.OLDEST_PYTHON, 0))
    assert next(environment.findings()).holds


def test_libraries_of_torch_that_cannot_be_loaded_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "torch":
                raise OSError("libc10.so is gone")

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    found = environment._torch()
    assert not found.holds and "libc10.so is gone" in found.sentence
