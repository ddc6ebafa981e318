"""A whole class: submissions a second of stock nbgrader and of this course on one core and on all, in one run.

    python benchmarks/class_grading.py [--submissions 600] [--stock 3] [--workers 2] [--seed 0]
    python benchmarks/class_grading.py --whole 10000 [--workers 2] [--seed 0]
    python benchmarks/class_grading.py --recorded 10000 [--submissions 600] [--workers 2] [--seed 0]

The class hands in labs 2 to 4: right answers in many styles, known mistakes, small changes of the model answer
(`mutation/changes.py`), and files that are no notebooks. Stock nbgrader grades right answers to labs 2 and 4; what it
pays once for each command is told apart, as in `grading.py`. Ours is `python -m autograder grade` for
the whole class, start included, with one worker and with several; both must give the same scores. Meanwhile the memory
of the command's own process is looked at. Writes benchmarks/results/class_grading.md.

`--whole` grades a class of any size with several workers: how many submissions a second, and whether the command's
memory stays as it is. Writes benchmarks/results/class_grading-whole.md.

`--recorded` looks at the command alone, with more hand-ins than there is time to grade: a hand-in that another student
has handed in too gets the answer that a worker gave for that one, with this student's name and ids. It tells how many
submissions a second one command can hand out and write down, and whether its memory stays as it is. Writes
benchmarks/results/class_grading-recorded.md.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import psutil
from nbgrader.api import Gradebook

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from autograder.pipeline import parcel, worker  # noqa: E402
from benchmarks import grading  # noqa: E402
from benchmarks.mutation.changes import changes  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "class_grading.md"
RECORDED, WHOLE = (RESULTS.with_name(f"class_grading-{name}.md") for name in ("recorded", "whole"))
# Of each lab, the exercises that a hand-in answers, by the cell that holds the answer.
LABS = {
    "lab02_multi_head": {"multi-head": "MultiHeadSelfAttention"},
    "lab03_positional_encoding": {"positional-encoding": "PositionalEncoding"},
    "lab04_layer_norm": {"layer-norm": "LayerNorm", "rms-norm": "RMSNorm"},
}
KINDS = {"right": 58, "wrong": 30, "changed": 8, "broken": 4}  # of a hundred hand-ins
BROKEN = (b"", b"{", b"not a notebook", b'{"cells": 3}', b"\x80\x00")


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


def hand_in_again(folder: Path, count: int) -> None:
    """Have more students hand in what others have handed in, until there are `count` hand-ins."""
    made = {lab: sorted((folder / "submitted").glob(f"*/{lab}")) for lab in LABS}
    for number in range(sum(map(len, made.values())), count):
        lab = list(LABS)[number % len(LABS)]
        student = number // len(LABS)
        shutil.copytree(made[lab][student % len(made[lab])], folder / "submitted" / f"s{student:05d}" / lab)


class Recorded(worker.Grader):
    """A process that grades, of which a hand-in is asked for once, whoever hands it in."""

    answers: ClassVar[dict[bytes, tuple[str, bytes]]] = {}  # by a hash of lab and hand-in: of which student, and which

    def ask(self, request: bytes) -> bytes:
        """The process's answer to the same hand-in, as if it were this student's."""
        wanted, contents = parcel.unpack(request)
        key = hashlib.sha256(wanted["lab"].encode() + contents[1]).digest()
        if key not in self.answers:
            self.answers[key] = wanted["student"], super().ask(request)
        student, answer = self.answers[key]
        return answer if student == wanted["student"] else _of_another(answer, student, wanted["student"])


def _of_another(answer: bytes, student: str, other: str) -> bytes:
    about, contents = parcel.unpack(answer)
    text = json.dumps(about).replace(student, other)
    for table in ("submitted_assignment", "submitted_notebook", "grade", "comment"):
        for row in about["rows"].get(table, ()):
            text = text.replace(row["id"], hashlib.md5(f"{row['id']} {other}".encode()).hexdigest())
    return parcel.pack(json.loads(text), [content.replace(student.encode(), other.encode()) for content in contents])


def grade_from_records(workers: int) -> int:
    """`python -m autograder grade` in the current folder, whose workers answer as `Recorded` does."""
    from autograder import __main__ as command
    from autograder.pipeline import cluster

    cluster.Grader = Recorded
    return command.main(["grade", "--workers", str(workers)])


def grade(folder: Path, workers: int, recorded: bool = False) -> dict[str, Any]:
    """Grade the class.

    Returns:
        the seconds; submissions a second once workers had started, and how much of that time was for writing, in per
        cent; and how many submissions were graded when the command's process took how many MiB.
    """
    command = [sys.executable, *([__file__, "--as-recorded"] if recorded else ["-m", "autograder", "grade"])]
    command += ["--workers", str(workers)]
    begun = time.perf_counter()
    with (folder / "said.txt").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, cwd=folder, env=grading.environment(folder), stdout=said, stderr=said)
        memory: list[tuple[int, float]] = []
        while process.poll() is None:
            if taken := _memory(process.pid):
                done = re.findall(r"(\d+) of \d+ done by", (folder / "said.txt").read_text(encoding="utf-8"))
                memory.append((int(done[-1]) if done else 0, taken))
            time.sleep(0.5)
        seconds = time.perf_counter() - begun
        said.seek(0)
        text = said.read()
    if not (told := re.findall(r" done by.*?([\d.]+) a second.*?(\d+)% of the time for writing", text)):
        raise SystemExit(f"the class could not be graded:\n{text[-3000:]}")
    rate, writing = map(float, told[-1])
    return {"seconds": seconds, "rate": rate, "writing": writing, "memory": memory}


def measure_whole(count: int, workers: int, seed: int) -> None:
    """What `--whole` does."""
    load = os.getloadavg()[0]
    with grading.scratch() as folder:
        made = make_class(folder, count, seed)
        done = grade(folder, workers)
        graded = sum(score is not None for score in scores(folder).values())
    text = f"""# A whole class

By `benchmarks/class_grading.py --whole {count}`, on {os.cpu_count()} CPU cores (load before: {load:.1f}): {count:,}
hand-ins to {len(LABS)} labs ({_kinds(made)}), each graded. {graded:,} have a score
afterwards.

{done["seconds"]:.0f} s with {workers} workers; {done["rate"]:.1f} a second once they had started, with
{done["writing"]:.0f} % of that time for writing.

{_memory_table(done["memory"], count)}"""
    print(text)
    WHOLE.write_text(text, encoding="utf-8")


def measure_command(count: int, different: int, workers: int, seed: int) -> None:
    """What `--recorded` does."""
    load = os.getloadavg()[0]
    with grading.scratch() as folder:
        make_class(folder, different, seed)
        hand_in_again(folder, count)
        done = grade(folder, workers, recorded=True)
        graded = sum(score is not None for score in scores(folder).values())
    writing = done["writing"] / 100 / done["rate"]
    text = f"""# What the command itself can take

By `benchmarks/class_grading.py --recorded {count}`, on {os.cpu_count()} CPU cores (load before: {load:.1f}): {count:,}
hand-ins to {len(LABS)} labs, {different} of them different; one that was handed in before gets the same answer again.
{graded:,} have a score afterwards.

{done["seconds"]:.0f} s with {workers} workers; {done["rate"]:.1f} a second once they had started, with
{done["writing"]:.0f} % of that time for writing. The one writer takes {1000 * writing:.0f} ms for each, which limits
the course to {1 / writing:.0f} a second, however many workers there are.

{_memory_table(done["memory"], count)}"""
    print(text)
    RECORDED.write_text(text, encoding="utf-8")


def _kinds(made: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in made.items())


def _memory_table(memory: list[tuple[int, float]], count: int) -> str:
    """What the command's process took when so many submissions were graded."""
    rows = ""
    for wanted in sorted({100, 1_000, *range(2_000, count, 2_000), count}):
        if at := next((look for look in memory if look[0] >= wanted), None):
            rows += f"| {at[0]:,} | {at[1]:.0f} |\n"
    return f"| graded | MiB of the command's process |\n|--:|--:|\n{rows}"


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
    parser.add_argument("--whole", type=int, metavar="N", help="only ours, with several workers, for N hand-ins")
    parser.add_argument("--recorded", type=int, metavar="N", help="N hand-ins, most of them answered from records")
    parser.add_argument("--as-recorded", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.as_recorded:
        sys.exit(grade_from_records(chosen.workers))
    if chosen.whole is not None:
        measure_whole(chosen.whole, chosen.workers, chosen.seed)
        return
    if chosen.submissions < 100:
        parser.error(
            f"--submissions {chosen.submissions}: with fewer than 100, starting would count for more than work"
        )
    if chosen.recorded is not None:
        if chosen.recorded < chosen.submissions:
            parser.error(f"--recorded {chosen.recorded}: fewer than the {chosen.submissions} of --submissions")
        measure_command(chosen.recorded, chosen.submissions, chosen.workers, chosen.seed)
        return
    rows, found, made = [], [], dict[str, int]()
    load = os.getloadavg()[0]
    for workers in sorted({1, chosen.workers}):
        with grading.scratch() as folder:
            made = make_class(folder, chosen.submissions, chosen.seed)
            done = grade(folder, workers)
            found.append(scores(folder))
        each = done["seconds"] / chosen.submissions
        memory = [taken for _, taken in done["memory"]]
        early, late = max(memory[: len(memory) // 4]), max(memory[-len(memory) // 4 :])
        rows.append((f"ours, {workers} worker{'s' * (workers > 1)}", each, f"{done['writing']:.0f} %", early, late))
        print(f"{workers} workers: {done['seconds']:.0f} s, {1 / each:.2f} a second, {done['writing']:.0f} % writing, "
              f"memory {early:.0f} MiB in the first quarter, {late:.0f} in the last")  # fmt: skip
    differing = [one for one in found[0].keys() | found[-1].keys() if found[0].get(one) != found[-1].get(one)]
    plain = stock(chosen.stock)
    text = f"""# A class on one core and on all

By `benchmarks/class_grading.py`, on {os.cpu_count()} CPU cores (load before: {load:.1f}): {chosen.submissions} hand-ins
to {len(LABS)} labs ({_kinds(made)}); stock nbgrader as the slope
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
