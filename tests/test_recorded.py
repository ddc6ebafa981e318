"""What lectures quote from long runs, and what they show of runs made beforehand, is what such runs give."""

import ast
import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch

from benchmarks import vision
from headroom import notebooks, recipes
from headroom.beforehand import made_beforehand, stored
from headroom.recipes import CODE_MINUTE
from tests.quotes import plain

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
ROWS = {  # of lecture 13's tables: the name in the record
    "GPT-2's parts": "GPT-2's parts",
    "rotary positions": "rotary positions",
    "untied output matrix": "untied",
    "RMSNorm": "RMSNorm",
    "SwiGLU, without biases": "SwiGLU",
    "rotary positions, untied output matrix": "rotary, untied",
    "rotary, no biases in the attention": "rotary, 4 groups",
    "the same, with 2 groups for the 4 heads": "rotary, 2 groups",
    "the same, with RMSNorm and SwiGLU": "Llama's parts",
    "norm after each sum (post-norm)": "post-norm",
    "sin-cos positions": "sin-cos positions",
}
OUTDATED = {"ViT, [class]", "ViT, mean"}  # in vision.json: measured before VIT_DIGITS became what it is
SAMPLED = 2  # seeds of each setting that are run again
RUNS = json.loads((RESULTS / "language_model.json").read_text(encoding="utf-8"))


def text(number: int) -> str:
    """A lecture's cells, one after the other."""
    (path,) = (REPOSITORY / "lectures").glob(f"{number}_*.ipynb")
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def recorded(name: str, what: str = "bits") -> list[float]:
    """A number of each of the eight runs of a model, by seed."""
    return [RUNS[f"{name}, seed {seed}"][what] for seed in range(1, 9)]


def differences(name: str, base: str, what: str = "bits") -> tuple[float, float]:
    """By how much a model's runs differ from another's, seed by seed: the mean and its standard error."""
    found = [a - b for a, b in zip(recorded(name, what), recorded(base, what), strict=True)]
    return statistics.mean(found), statistics.stdev(found) / len(found) ** 0.5


def close(number: str, recorded: float) -> bool:
    """Whether the number, as it is written, is the recorded one to its two decimals."""
    return float(number) == pytest.approx(recorded, abs=0.00501)


def test_the_tables_of_lecture_13_are_the_record() -> None:
    told = {}
    for line in plain(text(13)).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"\d\.\d\d", cells[1]):
            told[cells[0]] = cells[1:3]
    assert set(told) == set(ROWS)
    for row, (bits, difference) in told.items():
        assert close(bits, statistics.mean(recorded(ROWS[row]))), row
        if difference:
            mean, error = difference.split(" ± ")
            found = differences(ROWS[row], "GPT-2's parts")
            assert close(mean, found[0]) and close(error, found[1]), row


def test_what_lecture_13_says_of_its_tables_holds() -> None:
    said, bits = text(13), {name: recorded(name) for name in ROWS.values()}
    assert "**No row reaches the bar of 2.01 bits**" in said and min(map(min, bits.values())) > 2.0086
    assert "the best of them below every run with GPT-2's parts" in said
    assert min(bits["post-norm"]) < min(bits["GPT-2's parts"])
    assert "end between 2.22 and 3.20 bits" in said
    assert close("2.22", min(bits["post-norm"])) and close("3.20", max(bits["post-norm"]))
    assert "lie within 0.15 bits of one another" in said
    assert all(max(runs) - min(runs) < 0.15 for name, runs in bits.items() if name != "post-norm")
    assert "sin-cos positions need 2.78 bits and rotary ones 2.27" in said
    assert close("2.78", statistics.mean(recorded("sin-cos positions", "longer")))
    assert close("2.27", statistics.mean(recorded("rotary positions", "longer")))
    assert "two groups need 0.05 ± 0.02 bits more than four" in said
    mean, error = differences("rotary, 2 groups", "rotary, 4 groups", "longer")
    assert close("0.05", mean) and close("0.02", error)
    assert "SwiGLU's is within two standard errors" in said
    assert abs(differences("SwiGLU", "GPT-2's parts")[0]) < 2 * differences("SwiGLU", "GPT-2's parts")[1]
    assert "Added to rotary positions, grouped queries, RMSNorm and SwiGLU together save nothing measurable" in said
    mean, error = differences("Llama's parts", "rotary positions")
    assert abs(mean) < 2 * error
    assert "help this model learn faster, and together still more" in said
    for alone in ("rotary positions", "untied"):
        mean, error = differences("rotary, untied", alone)
        assert mean < -2 * error
    assert "It reaches 1.87 on the test files" in said
    assert all(close("1.87", RUNS[f"minute, seed {seed}"]["bits"]) for seed in (1, 2, 3))


def test_the_record_was_made_with_the_recipe_that_lecture_13_trains_with() -> None:
    whole, parts = json.loads(json.dumps([asdict(CODE_MINUTE), asdict(replace(CODE_MINUTE, epochs=2))]))
    for name, run in RUNS.items():
        assert run["recipe"] == (whole if name.startswith("minute, ") else parts), name


def test_image_models_were_measured_with_the_recipes_of_today() -> None:
    """`python benchmarks/vision.py --models …` measures anew those of a recipe that has changed."""
    kept = json.loads((RESULTS / "vision.json").read_text(encoding="utf-8"))
    other = {
        name
        for name, seeds in kept.items()
        if any(result["recipes"] != json.loads(json.dumps(vision.recipes(name))) for result in seeds.values())
    }
    assert other == OUTDATED


def test_a_text_that_names_a_recipe_says_its_epochs() -> None:
    texts = [cell.source for path in notebooks.find(REPOSITORY) for cell in nbformat.read(path, 4).cells]
    said = [found for text in texts for found in re.findall(r"`([A-Z_]+)`[^.`]* (\d+) epochs", text)]
    assert said and {name: int(epochs) for name, epochs in said} == {
        name: getattr(recipes, name).epochs for name, _ in said
    }


def test_the_seeds_of_lecture_14_are_the_record() -> None:
    said, page = text(14), (RESULTS / "induction.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if re.match(r"\| \d \|", line)
    ]
    assert len(rows) == 8
    for kind, column in (("previous-token", 5), ("other", 9), ("induction", 12)):
        (listed,) = re.findall(rf'"{kind}"\]? ?[:=] (\[[\d., ]+\])', said)
        assert json.loads(listed) == [float(row[column]) for row in rows], kind
    for quoted, name in (
        ("two layers", "two layers | 36,864 | 8–30"),
        ("one layer", "one layer | 20,096 | 8–30"),
        ("one layer, every sequence of 20 symbols", "one layer, always 20 symbols | 20,096 | 20–20"),
    ):
        (listed,) = re.findall(rf'"{quoted}": \(([\d., ]+)\)', said)
        assert "| {} | {} ({}–{}) |".format(name, *listed.split(", ")) in page, quoted
    (worst,) = re.findall(r"worst_two = ([\d.]+)", said)
    assert f"({worst}–" in next(line for line in page.splitlines() if line.startswith("| two layers"))
    assert "To take it away costs 91.3 (49.7–97.5) points" in page and "least, most = 49.7, 97.5" in said
    assert "costs more than any other head in 0 of 8 models, and more than any other of its layer in 8" in page
    assert "4 of the models have a head whose induction score is above 0.3 and which costs less than 5 points" in page
    assert "in 4 of 8, a head with an induction score above 0.3\\n  costs less than 5 points" in said


class Lecture:
    """A lecture's code, of which only what is asked for is run: the first cell, a name, and what that needs."""

    def __init__(self, path: Path):
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        self.source, self.lines = "\n".join(cells), [line for cell in cells for line in ast.parse(cell).body]
        self.first, self.names = cells[0], {"__name__": "lecture"}

    def experiments(self) -> list[str]:
        """What it asks `made_beforehand` for."""
        return re.findall(r'made_beforehand\("(\w+)"', self.source)

    def make(self, experiment: str) -> dict[tuple, Any]:
        """The results of the experiment, made anew from the first seeds."""
        found: dict[tuple, Any] = {}
        (asked,) = (n for n, line in enumerate(self.lines) if f"made_beforehand({experiment!r}" in ast.unparse(line))

        def remembered(name: str, train_one: Callable, runs: Iterable[tuple], train: bool) -> dict:
            first = [run for run in runs if run[-1] in range(SAMPLED)]
            found.update(made_beforehand(name, lambda *run: self._defined(asked, lambda: train_one(*run)), first, True))
            return found

        threads = torch.get_num_threads()
        try:
            with torch.enable_grad():  # as it was before
                exec(self.first, self.names)
                self.names["made_beforehand"] = remembered
                self._run(asked)
        finally:
            torch.set_num_threads(threads)
        return found

    def _run(self, number: int) -> None:
        line = compile(ast.Module([self.lines[number]], []), "lecture", "exec")
        self._defined(number, lambda: exec(line, self.names))

    def _defined(self, number: int, action: Callable[[], Any]) -> Any:
        """What the action returns once the names that it misses are made by earlier lines."""
        while True:
            try:
                return action()
            except NameError as error:
                self._run(next(n for n in reversed(range(number)) if error.name in _made(self.lines[n])))


def _made(line: ast.stmt) -> set[str]:
    """The names that a line at the top of a cell defines."""
    if isinstance(line, ast.FunctionDef | ast.ClassDef):
        return {line.name}
    if isinstance(line, ast.Import | ast.ImportFrom):
        return {(name.asname or name.name).split(".")[0] for name in line.names}
    return {node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


EXPERIMENTS = {
    name: path for path in sorted((REPOSITORY / "lectures").glob("*.ipynb")) for name in Lecture(path).experiments()
}


def test_what_is_kept_is_what_lectures_ask_for() -> None:
    assert set(EXPERIMENTS) == set(stored())


@pytest.mark.full
@pytest.mark.parametrize("experiment", sorted(EXPERIMENTS))
def test_what_was_made_beforehand_comes_out_again(experiment: str) -> None:
    """Single runs differ between machines; means over seeds by no more than as many seeds let them."""
    made, kept = Lecture(EXPERIMENTS[experiment]).make(experiment), stored()[experiment]
    by_setting: dict[tuple, list] = {}
    for run, result in made.items():
        by_setting.setdefault(run[:-1], []).append(result)
    for setting, new in by_setting.items():
        old = np.array([kept[", ".join(map(str, (*setting, seed)))] for seed in range(8)])
        near = 5 * old.std(axis=0, ddof=1) / SAMPLED**0.5 + 0.02 * abs(old).max()
        assert (abs(np.mean(new, axis=0) - old[:SAMPLED].mean(axis=0)) <= near).all(), setting
