"""What is said while a class is graded."""

import time

import pytest

from autograder.pipeline.listing import Progress


def test_a_submission_that_takes_long_is_named_while_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "every_s", 0.1)
    lines: list[str] = []
    progress = Progress(2, lines.append)
    with progress.reported(lambda: 1):
        progress.begin("lab1", "ada")
        deadline = time.monotonic() + 30
        while not any("lab1: " in line for line in lines) and time.monotonic() < deadline:
            time.sleep(0.01)
        progress.one_more("lab1", "ada", writing=0.0)
        progress.begin("lab1", "ben")
        progress.one_more("lab1", "ben", writing=0.0)
    assert lines[0].startswith("0 of 2 done by 1 worker")
    assert any(line.startswith("0 of 2") and "ada, lab1: " in line and line.endswith(" s so far") for line in lines)
    assert lines[-1].startswith("2 of 2 done by 1 worker, ") and "so far" not in lines[-1]


def test_one_that_does_not_end_does_not_count_for_those_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("autograder.pipeline.listing.time.monotonic", lambda: now)
    progress = Progress(10, lambda line: None)
    with progress.reported(lambda: 1):
        for now in (300.0, 301.0, 302.0, 303.0):
            progress.one_more("lab1", f"{now}", writing=0.0)
        assert "4 of 10 done" in progress.line(1) and ", 0:00:20 left, " in progress.line(1)


def test_what_ends_the_workers_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "every_s", 0.01)

    def gone() -> int:
        raise RuntimeError("no worker can grade")

    progress = Progress(1, lambda line: None)
    with pytest.raises(RuntimeError, match="no worker can grade"), progress.reported(gone):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.02)
            progress.one_more("lab1", "ada", writing=0.0)
