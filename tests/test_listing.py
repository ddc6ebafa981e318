"""What is said while a class is graded."""

import time
from pathlib import Path
from typing import Any

import pytest

from autograder.pipeline import listing
from autograder.pipeline.listing import Progress
from autograder.pipeline.standing import GRADED, NOT_GRADED, NOT_HANDED_IN, Standing


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


# --- Who got which score ---------------------------------------------------------------------------------------------


def said_of(course: Path, *standings: Standing) -> tuple[list[str], dict[str, float], list[str]]:
    """The lines of a lab's list, what is counted, and who has no grade or no page."""
    told: list[str] = []
    counted, missing = listing.scores(course, "lab1", 10.0, [*standings], told.append)
    return told, dict(counted), missing


@pytest.mark.parametrize(
    ("about", "note"),
    [
        ({}, ""),
        ({"penalty": 1.5, "late": 26 * 3600.0}, ", 1.5 taken: 1 d 2 h late"),
        ({"penalty": 0.0, "late": 60.0}, ""),
        ({"read": "'first (1).ipynb'"}, ", read from 'first (1).ipynb'"),
        ({"ungraded": 3.0, "by_hand": True}, ", 3 more to be graded by hand"),
        ({"by_hand": True}, ", points given by hand to be looked at again"),
        ({"pages": (Path("gone.html"),)}, ", NO FEEDBACK PAGE"),
    ],
)
def test_what_is_to_be_known_of_a_score_stands_beside_it(tmp_path: Path, about: dict[str, Any], note: str) -> None:
    told, counted, missing = said_of(tmp_path, Standing("ann", GRADED, score=7.5, raw=9.0, **about))
    assert told == [f"lab1  {'ann':24}   7.50 of 10{note}"]
    assert missing == (["ann"] if "pages" in about else []) and counted["missing"] == len(missing)
    assert (counted["graded"], counted["points"]) == (1, 7.5)


def test_who_has_no_score_is_told_why_and_who_handed_in_nothing_is_listed_last(tmp_path: Path) -> None:
    told, counted, missing = said_of(
        tmp_path,
        Standing("bo", NOT_HANDED_IN),
        Standing("cy\x1b[2J", NOT_GRADED, "There is no first.ipynb in it."),
        Standing("di", NOT_HANDED_IN),
    )
    name = repr("cy\x1b[2J")
    assert told == [
        f"lab1  {name:24}  NOT GRADED. There is no first.ipynb in it.",
        "lab1  not handed in by 2: bo, di",
    ]
    assert missing == [name] and counted == {"handed in": 1, "missing": 1, "absent": 2}
    assert said_of(tmp_path, Standing("ann", GRADED, score=1.0))[0][-1].startswith("lab1  ann")
