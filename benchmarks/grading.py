"""Seconds for each submission: stock nbgrader against the course's isolated grading, side by side in one run.

    python benchmarks/grading.py [--submissions 10] [--compare]

The same hand-ins to labs 2 and 4 are graded with nbgrader's own defaults (a cold kernel each; the check cell asserts in
it) and with the course's configuration (isolated kernels; the judge outside). Times are wall times of the whole command
`nbgrader autograde LAB`; the time of one submission is the slope between few and many, so that what a command pays once
is told apart. `--compare` grades 60 honest hand-ins both ways and lists where the scores differ. Writes
benchmarks/results/grading.md (and grading-scores.md).
"""

import argparse
import ast
import contextlib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from headroom.lab import private_environment  # noqa: E402
from tests.answers import found  # noqa: E402

RESULTS = Path(__file__).parent / "results"
LABS = {
    "lab02_multi_head": ("multi-head", "MultiHeadSelfAttention"),
    "lab04_layer_norm": ("layer-norm", "LayerNorm"),
}
FEW = 2
MARK = "answers = lambda *about: lambda answer: answer"  # what tests.answers marks answers with
STOCK = """
c.CourseDirectory.course_id = "headroom"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
c.ExecutePreprocessor.timeout = 240
"""


def alone(text: str) -> str:
    """The text of a file of `tests.answers` with what it imports from there written out."""
    text = re.sub(r"^from tests\.answers import (?:\([^)]*\)|.*)\n", "", text, flags=re.MULTILINE)

    def included(found: re.Match) -> str:
        return alone(inspect.getsource(importlib.import_module(f"tests.answers.{found[1]}")))

    return re.sub(r"^from tests\.answers\.(\w+) import (?:\([^)]*\)|.*)\n", included, text, flags=re.MULTILINE)


def needed(text: str, name: str) -> str:
    """Of a file's text, what a name needs, as a student would hand it in; "" where the file makes it in a loop."""
    defining: dict[str, list[ast.stmt]] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef():
                names = [statement.name]
            case ast.Import() | ast.ImportFrom():
                names = [(one.asname or one.name).split(".")[0] for one in statement.names]
            case ast.Assign():
                names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            case _:
                names = []
        for one in names:
            defining.setdefault(one, []).append(statement)
    found, ahead = dict[str, int](), [name] if name in defining else []
    while ahead:
        for statement in defining.pop(ahead.pop(), ()):
            found[ast.unparse(statement)] = statement.lineno
            ahead += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return "\n\n".join(sorted(found, key=lambda one: found[one]))


def written(exercise: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Name and text of a cell for each of the suite's answers to an exercise."""
    for kind in kinds:
        for name, answer in found(kind):
            if name == exercise and inspect.isclass(answer) and "by_a_stranger" not in answer.__module__:
                text = needed(f"{MARK}\n{alone(inspect.getsource(sys.modules[answer.__module__]))}", answer.__name__)
                if not text:
                    continue
                yield (
                    f"{kind}-{answer.__name__.lower()}",
                    f"{text}\n\nclass {exercise}({answer.__name__}):\n    pass\n",
                )


def course(folder: Path, lab: str, cells: dict[str, str], stock: bool, shown: bool = True) -> Path:
    """A course folder with one lab, and a hand-in for each of `cells` (student → text of the solution cell)."""
    for name in ("solutions", "labs"):
        shutil.copytree(REPOSITORY / name / lab, folder / name / lab, ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(REPOSITORY / "jupyter", folder / "jupyter")
    config = STOCK if stock else (REPOSITORY / "nbgrader_config.py").read_text(encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(config, encoding="utf-8")
    (released,) = (folder / "labs" / lab).glob("*.ipynb")
    (source,) = (folder / "solutions" / lab).glob("*.ipynb")
    if not shown:
        for path in (released, source):
            notebook = nbformat.read(path, as_version=4)
            notebook.cells = [cell for cell in notebook.cells if not grade_id(cell).startswith(("picture-", "reward-"))]
            nbformat.write(notebook, path)
    run(folder, "generate_assignment", lab, "--force", "--create")
    for student, text in cells.items():
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            if grade_id(cell) == LABS[lab][0]:
                cell.source = text
        (folder / "submitted" / student / lab).mkdir(parents=True)
        nbformat.write(notebook, folder / "submitted" / student / lab / released.name)
    return folder


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def environment(folder: Path) -> dict[str, str]:
    state = folder / ".headroom"
    state.mkdir(exist_ok=True)
    return {**os.environ, **private_environment(state, folder / "jupyter")}


def run(folder: Path, *arguments: str) -> float:
    """Run an nbgrader command in a course; the seconds that it took."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return time.perf_counter() - begun


def scores(folder: Path, lab: str) -> dict[str, float]:
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        submissions: list[Any] = gradebook.assignment_submissions(lab)  # rows: SQLAlchemy hides their types
        return {one.student.id: one.score for one in submissions}


def reasons(folder: Path) -> dict[str, str]:
    """What the first verdict that is not all right says, for each student: the mistake's name, or else its headline."""
    found = {}
    for path in (folder / "autograded").glob("*/*/*.ipynb"):
        outputs = [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", [])]
        texts = [output.data["text/plain"] for output in outputs if "text/plain" in output.get("data", {})]
        wrong = next((text for text in texts if text.startswith("✗")), "")
        named = re.search(r"Recognised: (.*?)\.(?:\s|$)", wrong, re.DOTALL)
        found[path.parts[-3]] = named[1].replace("\n", " ") if named else wrong.split("\n")[0]
    return found


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
        yield Path(folder)


def slope(lab: str, cells: dict[str, str], *options: str, **how: bool) -> tuple[float, float]:
    """Seconds that one submission takes, and that the command takes for all."""
    few = dict(list(cells.items())[:FEW])
    with scratch() as a, scratch() as b:
        less = run(course(a, lab, few, **how), "autograde", lab, *options)
        more = run(course(b, lab, cells, **how), "autograde", lab, *options)
    return (more - less) / (len(cells) - FEW), more


IN_ONE_PROCESS = """
import contextlib, json, os, statistics, sys, time
from collections import Counter
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader
import autograder.judge
from autograder.kernels.launch import warm_parent
from autograder.kernels.provisioner import IsolatedProvisioner
from autograder.pipeline import execute, kernel, messenger, running

config = PyFileConfigLoader("nbgrader_config.py", path=".").load_config()
api = NbGraderAPI(CourseDirectory(config=config), config=config)
begun = time.perf_counter()
warm_parent()
warming = time.perf_counter() - begun
STEPS = os.path.abspath("steps.jsonl")  # a submission is graded in a process that is forked from this one


def note(step, seconds):
    with open(STEPS, "a") as file:
        print(json.dumps([step, seconds]), file=file)


def noted():
    # What was noted since the last time: seconds by step, summed.
    spent = Counter()
    with contextlib.suppress(FileNotFoundError), open(STEPS) as file:
        for line in file:
            step, seconds = json.loads(line)
            spent[step] += seconds
        os.remove(STEPS)
    return spent


def timed(owner, name, step):
    plain = getattr(owner, name)

    def call(*arguments, **named):
        begun = time.perf_counter()
        try:
            return plain(*arguments, **named)
        finally:
            note(step, time.perf_counter() - begun)

    setattr(owner, name, call)


timed(execute.JudgedExecute, "preprocess", "all of running and judging")
timed(running.Cells, "_open", "kernel: one that came up ahead gets its files, first answer")
timed(kernel.Kernel, "close", "kernel: end")
timed(running.Cells, "run", "the notebook's own cells")
timed(messenger.Messenger, "ask", "the student's code, asked by the checks")
timed(autograder.judge, "judge", "checks in all")
launch = IsolatedProvisioner.launch_kernel


async def launched(self, *arguments, **named):
    info = await launch(self, *arguments, **named)
    for step, seconds in self.took.items():
        note("meanwhile, of the next kernel: " + step, seconds)
    return info


IsolatedProvisioner.launch_kernel = launched
rows = []
for student in sys.argv[2:]:
    noted()
    begun = time.perf_counter()
    result = api.autograde(sys.argv[1], student, force=True, create=True)
    assert result["success"], result
    took = time.perf_counter() - begun
    rows.append(noted() | {"in all": took})
rows = rows[2:]
middle = {step: statistics.median(row.get(step, 0.0) for row in rows) for step in {s: 0 for row in rows for s in row}}
print(json.dumps({"warming": warming, "middle": middle}))
"""


def in_one_process(lab: str, cells: dict[str, str], shown: bool) -> dict:
    """The course's grading with many submissions in one process: medians of the steps of one submission."""
    with scratch() as folder:
        course(folder, lab, cells, stock=False, shown=shown)
        done = subprocess.run(
            [sys.executable, "-c", IN_ONE_PROCESS, lab, *cells],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def time_lab(lab: str, count: int) -> list[str]:
    """The tables of one lab, as lines of Markdown."""
    texts = [text for _, text in written(LABS[lab][1], ("right",))]
    cells = {f"s{i:03d}": texts[i % len(texts)] for i in range(count)}
    # What takes a third of a second is measured ten times as often, or the noise of a command would decide.
    more = {f"s{i:03d}": texts[i % len(texts)] for i in range(FEW + 10 * (count - FEW))}
    like = {}
    like["stock nbgrader"] = slope(lab, cells, stock=True)
    like["stock nbgrader, without the cells that only show something"] = slope(lab, cells, stock=True, shown=False)
    like["the course's configuration, cold kernel, no isolation"] = slope(
        lab, cells, "--JudgedExecute.isolated=False", stock=False
    )
    like["the course's configuration, isolated kernels"] = slope(lab, more, stock=False)
    one = in_one_process(lab, more, shown=True)
    like["the same, many submissions in one process"] = (one["middle"]["in all"], float("nan"))
    base = like["stock nbgrader"][0]
    fair = like["stock nbgrader, without the cells that only show something"][0]
    lines = [f"## {lab}, {count} submissions, {len(more)} in isolated kernels", ""]
    lines += [
        "| | s for each submission | s for the command | stock takes … times as long | … without what only shows |"
    ]
    lines += ["|---|---|---|---|---|"]
    for name, (each, whole) in like.items():
        command = "" if whole != whole else f"{whole:.1f}"
        lines.append(f"| {name} | {each:.2f} | {command} | {base / each:.1f} | {fair / each:.1f} |")
    lines += [
        "",
        f"Starting the warm parent, once for each command: {one['warming']:.1f} s. Where the time of one goes:",
        "",
    ]
    lines += ["| step, in one process | median ms |", "|---|---|"]
    lines += [f"| {step} | {1000 * seconds:.0f} |" for step, seconds in one["middle"].items()]
    return [*lines, ""]


def compare(count: int = 30) -> str:
    """Grade honest hand-ins both ways: for each lab `count`, right and wrong ones from the suite's answers."""
    lines = ["# Scores: stock nbgrader and the course's grading", ""]
    for lab, (_, exercise) in LABS.items():
        right, wrong = (list(written(exercise, (kind,))) for kind in ("right", "wrong"))
        chosen = right[: count // 2]
        chosen += wrong[:: max(1, len(wrong) // (count - len(chosen)))][: count - len(chosen)]
        graded = []
        for stock in (True, False):
            with scratch() as folder:
                run(course(folder, lab, dict(chosen), stock=stock, shown=False), "autograde", lab)
                graded.append(scores(folder, lab))
                why = reasons(folder)
        stock_scores, ours = graded
        same = [s for s in ours if ours[s] == stock_scores.get(s)]
        partial = {s for s in ours if s not in same and stock_scores.get(s) == 0 < ours[s]}
        lines += [f"## {lab}: {len(ours)} hand-ins", ""]
        full = sum(ours[s] == max(ours.values()) for s in same)
        lines += [
            f"Full marks both ways: {full}. None both ways: {len(same) - full}. A share of the points where stock "
            f"(its check is an assertion) knows only all or nothing: {len(partial)}. "
            f"Anything else: {len(ours) - len(same) - len(partial)}."
        ]
        lines += ["", "| hand-in | stock | the course's | because |", "|---|---|---|---|"]
        lines += [f"| {s} | {stock_scores.get(s)} | {ours[s]} | {why[s]} |" for s in sorted(ours) if s not in same]
        lines += [""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=10, help=f"more than {FEW}")
    parser.add_argument("--lab", choices=LABS, action="append", help="one lab; both when none is named")
    parser.add_argument("--compare", action="store_true", help="compare scores instead of times")
    chosen = parser.parse_args()
    if chosen.submissions <= FEW:
        parser.error(f"--submissions {chosen.submissions}: more than {FEW} are needed")
    if chosen.compare:
        name, text = "grading-scores.md", compare()
    else:
        who = "root" if os.geteuid() == 0 else "an ordinary user"
        text = f"# Grading\n\nBy `benchmarks/grading.py`, as {who}, on {os.cpu_count()} CPU cores.\n\n"
        text += "\n".join(line for lab in chosen.lab or LABS for line in time_lab(lab, chosen.submissions))
        name = "grading.md"
    print(text)
    if chosen.lab:
        return
    (RESULTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
