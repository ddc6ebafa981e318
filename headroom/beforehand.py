"""Results of the lectures' many short trainings: made beforehand and kept with the course, or made here.

    TRAIN = False  # True: train them here
    known = made_beforehand("parts", lambda task, name, seed: accuracy(task, models[name], seed), runs, TRAIN)

A lecture that compares eight seeds of five models shows their results without the minutes that they take. The switch
trains them where one reads; `TRAIN = "keep"` also writes the results over the kept ones, which is how they were made.
A test runs every such cell again with `TRAIN = True` (tests/test_recorded.py).
"""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from headroom.scale import need_full_scale, scale

FILE = Path(__file__).parent / "checkpoints" / "runs.json"
DIGITS = 5  # significant ones that are kept of a number

Result = Any  # a number, or a list of results


def made_beforehand(
    name: str, train_one: Callable[..., Result], runs: Iterable[tuple[Any, ...]], train: bool | str = False
) -> dict[tuple[Any, ...], Result]:
    """The result of every run: the kept ones, or by training.

    Either way one run is made here first, and the time that all would take is printed: at most, as what PyTorch does
    once is in it. At small scale (`headroom.scale`) all are made.

    Args:
        name: of the experiment, under which its results are kept.
        train_one: makes a run, called with its parts, and seeds what it draws; returns a number or lists of numbers.
        runs: each a tuple of strings and numbers, such as a model's name and a seed.
        train: True: make all runs here; "keep": and keep their results.

    Returns:
        The results by run, in the order of `runs`. Outside of `train_one`, no random number is drawn.

    Raises:
        KeyError: a run is not among the kept ones.
        RuntimeError: "keep" at small scale.
    """
    runs, here = list(runs), bool(train) or scale() == "small"
    if train == "keep":
        need_full_scale("Results are kept")
    results = {} if here else stored().get(name, {})
    for run in runs:
        if not here and _key(run) not in results:
            raise KeyError(f"of {name!r} no run {run} was made beforehand: with TRAIN = True it is made here")
    with torch.random.fork_rng(devices=[]):
        start = time.perf_counter()
        made = {runs[0]: train_one(*runs[0])}
        seconds = (time.perf_counter() - start) * len(runs)
        print(f"{len(runs)} trainings, up to {seconds:.0f} s here", end="")
        print("." if here else ";\nthese were made beforehand. (TRAIN = True makes them here.)")
        if not here:
            return {run: results[_key(run)] for run in runs}
        for run in tqdm(runs[1:], desc="training"):
            made[run] = train_one(*run)
    if train == "keep":
        _keep(name, {_key(run): _rounded(result) for run, result in made.items()})
    return made


def stored() -> dict[str, dict[str, Result]]:
    """The kept results: of every experiment, by run (its parts, joined by commas)."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def _keep(name: str, results: dict[str, Result]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted((stored() | {name: results}).items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _key(run: tuple[Any, ...]) -> str:
    return ", ".join(map(str, run))


def _rounded(result: Result) -> Result:
    return [_rounded(part) for part in result] if isinstance(result, (list, tuple)) else float(f"{result:.{DIGITS}g}")
