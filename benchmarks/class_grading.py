"""A whole class: submissions a second of stock nbgrader and of this course on one core and on all, in one run.

    python benchmarks/class_grading.py [--submissions 600] [--stock 3] [--workers 2] [--seed 0] [--only-ours]

The class hands in labs 2 to 4: right answers in many styles, known mistakes, small changes of the model answer
(`mutation/changes.py`), and files that are no notebooks. Stock nbgrader grades right answers to labs 2 and 4; what it
pays once for each command is told apart, as in `grading.py`. Ours is `python -m autograder grade` for
the whole class, start included, with one worker and with several; both must give the same scores. Meanwhile the memory
of the command's own process is looked at. Writes benchmarks/results/class_grading.md.
"""

import argparse
import ast
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbgrader.api import Gradebook

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from benchmarks import grading  # noqa: E402
from benchmarks.mutation.changes import changes  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "class_grading.md"
# Of each lab, the exercises that a hand-in answers, by the cell that holds the answer.
LABS = {
    "lab02_multi_head": {"multi-head": "MultiHeadSelfAttention"},
    "lab03_positional_encoding": {"positional-encoding": "PositionalEncoding"},
    "lab04_layer_norm": {"layer-norm": "LayerNorm", "rms-norm": "RMSNorm"},
}
KINDS = {"right": 58, "wrong": 30, "changed": 8, "broken": 4}  # of a hundred hand-ins
BROKEN = (b"", b"{", b"not a notebook", b'{"cells": 3}', b"\x80\x00")
SAMPLES = 20  # looks at the memory, spread over the run


def source_of(lab: str, name: str) -> nbformat.NotebookNode:
    (path,) = (REPOSITORY / name / lab).glob("*.ipynb")
    return nbformat.read(path, as_version=4)


def pools(lab: str) -> dict[str, dict[str, list[str]]]:
    """For each kind of answer and each of the lab's cells, the texts to choose from."""
    model = {grading.grade_id(cell): cell.source for cell in source_of(lab, "solutions").cells}
    found: dict[str, dict[str, list[str]]] = {"right": {}, "wrong": {}, "changed": {}}
    for grade_id, exercise in LABS[lab].items():
        for kind in ("right", "wrong"):
            found[kind][grade_id] = [text for _, text in grading.written(exercise, (kind,))]
        tree = ast.parse(model[grade_id])
        (place,) = (i for i, part in enumerate(tree.body) if getattr(part, "name", "") == exercise)
        before = "\n".join(ast.unparse(part) for part in tree.body[:place])
        found["changed"][grade_id] = [f"{before}\n{change.code}" for change in changes(tree.body[place])]
    return found


def make_class(folder: Path, count: int, seed: int) -> dict[str, int]:
    """A course folder with `count` hand-ins; how many there are of each kind."""
    for lab in LABS:
        for name in ("solutions", "labs"):
            shutil.copytree(REPOSITORY / name / lab, folder / name / lab, ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(REPOSITORY / "jupyter", folder / "jupyter")
    shutil.copy(REPOSITORY / "nbgrader_config.py", folder)
    draw = random.Random(seed)
    texts = {lab: pools(lab) for lab in LABS}
    made = dict.fromkeys(KINDS, 0)
    for number in range(count):
        lab = list(LABS)[number % len(LABS)]
        (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
        made[kind] += 1
        path = folder / "submitted" / f"s{number // len(LABS):05d}" / lab / next((folder / "labs" / lab).iterdir()).name
        path.parent.mkdir(parents=True)
        if kind == "broken":
            path.write_bytes(draw.choice(BROKEN))
            continue
        notebook = source_of(lab, "labs")
        for cell in notebook.cells:
            if choice := texts[lab][kind].get(grading.grade_id(cell)):
                cell.source = draw.choice(choice)
        nbformat.write(notebook, path)
    return made


def grade(folder: Path, workers: int) -> dict[str, Any]:
    """Grade the class: seconds, share of the time for writing, and the memory of the command's process, in MiB."""
    command = [sys.executable, "-m", "autograder", "grade", "--workers", str(workers)]
    begun = time.perf_counter()
    with (folder / "said.txt").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, cwd=folder, env=grading.environment(folder), stdout=said, stderr=said)
        memory: list[float] = []
        while process.poll() is None:
            memory.append(_memory(process.pid))
            time.sleep(0.5)
        seconds = time.perf_counter() - begun
        said.seek(0)
        text = said.read()
    if not (shares := re.findall(r"(\d+) of \d+ done by.*?(\d+)% of the time for writing", text)):
        raise SystemExit(f"the class could not be graded:\n{text[-3000:]}")
    step = max(1, len(memory) // SAMPLES)
    return {"seconds": seconds, "writing": int(shares[-1][1]), "memory": [m for m in memory[::step] if m]}


def _memory(pid: int) -> float:
    try:
        return psutil.Process(pid).memory_info().rss / 2**20
    except psutil.Error:
        return 0.0


def scores(folder: Path) -> dict[tuple[str, str], float | None]:
    """The score of each submission in the gradebook."""
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        rows: list[Any] = [one for lab in LABS for one in gradebook.assignment_submissions(lab)]
        return {(one.assignment.name, one.student.id): one.score for one in rows}


def stock(count: int) -> float:
    """Seconds that stock nbgrader takes for one submission: the median of labs 2 and 4."""
    taken = []
    for lab, (_, exercise) in grading.LABS.items():
        texts = [text for _, text in grading.written(exercise, ("right",))]
        cells = {f"s{i:03d}": texts[i % len(texts)] for i in range(grading.FEW + count)}
        taken.append(grading.slope(lab, cells, stock=True)[0])
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=600)
    parser.add_argument("--stock", type=int, default=3, help="submissions of each lab that stock nbgrader grades")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0, help="of the class")
    parser.add_argument(
        "--only-ours", action="store_true", help="only the run with several workers; nothing is written"
    )
    chosen = parser.parse_args()
    if chosen.submissions < 100:
        parser.error(
            f"--submissions {chosen.submissions}: with fewer than 100, starting would count for more than work"
        )
    rows, found, made = [], [], dict[str, int]()
    load = os.getloadavg()[0]
    counts = [chosen.workers] if chosen.only_ours else sorted({1, chosen.workers})
    for workers in counts:
        with grading.scratch() as folder:
            made = make_class(folder, chosen.submissions, chosen.seed)
            done = grade(folder, workers)
            found.append(scores(folder))
        each = done["seconds"] / chosen.submissions
        memory = done["memory"]
        early, late = max(memory[: len(memory) // 4]), max(memory[-len(memory) // 4 :])
        rows.append((f"ours, {workers} worker{'s' * (workers > 1)}", each, f"{done['writing']} %", early, late))
        print(f"{workers} workers: {done['seconds']:.0f} s, {1 / each:.2f} a second, {done['writing']} % for writing, "
              f"memory {early:.0f} MiB in the first quarter, {late:.0f} in the last")  # fmt: skip
    if chosen.only_ours:
        return
    differing = [one for one in found[0].keys() | found[-1].keys() if found[0].get(one) != found[-1].get(one)]
    plain = stock(chosen.stock)
    text = f"""# A class on one core and on all

By `benchmarks/class_grading.py`, on {os.cpu_count()} CPU cores (load before: {load:.1f}): {chosen.submissions} hand-ins
to {len(LABS)} labs ({", ".join(f"{number} {kind}" for kind, number in made.items())}); stock nbgrader as the slope
between {grading.FEW} and {grading.FEW + chosen.stock} right ones of each lab.

| | s for each | a second | stock takes … times as long | of it for writing | MiB, first quarter | MiB, last |
|---|--:|--:|--:|--:|--:|--:|
| stock nbgrader | {plain:.2f} | {1 / plain:.2f} | 1.0 | – | – | – |
"""
    for name, each, writing, early, late in rows:
        text += (
            f"| {name} | {each:.3f} | {1 / each:.2f} | {plain / each:.1f} | {writing} | {early:.0f} | {late:.0f} |\n"
        )
    if len(rows) > 1:
        text += f"\n{rows[0][1] / rows[-1][1]:.2f} times as fast with {chosen.workers} workers as with one.\n"
    text += f"\nScores that differ between the two: {len(differing)} of {len(found[0])}.\n"
    for lab, student in sorted(differing)[:10]:
        text += f"- {student}, {lab}: {' and '.join(str(one.get((lab, student))) for one in found)}\n"
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
