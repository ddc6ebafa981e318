"""How right the grader is on answers that nobody listed: small changes of every right answer, all judged.

    python benchmarks/mutants.py [EXERCISE ...] [--workers N] [--seeds N] [--sample N] [--fresh] [--again]

Every right answer in `tests/answers` is changed in every way that `mutation/changes.py` knows, one at a time, the
helpers that it calls included. What the judge accepts is judged again with other seeds, then compared with the
original on inputs of many other sizes, in training mode, in float32, in several calls on one object and so on
(`mutation/compare.py`). Equal everywhere: equivalent. Different somewhere: a survivor, which either shows a hole in the
grader or is right by the task's text; the latter stand in `equivalent_mutants.toml` with the reason. The exit status
is 1 while there are others.

Takes one to two hours of processor time. What is done is kept in `build/mutants/`, by the grader's version, and not
done again; Ctrl-C loses nothing. When all exercises were tried, writes `benchmarks/results/mutants.md`.
Needs fork and resource limits: Linux or macOS.
"""

import argparse
import ast
import difflib
import functools
import hashlib
import importlib
import inspect
import json
import multiprocessing
import os
import pkgutil
import platform
import random
import re
import resource
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from autograder import probe  # noqa: E402
from autograder.exercise import Exercise  # noqa: E402
from autograder.exercises import EXERCISES, find  # noqa: E402
from autograder.judge import judge  # noqa: E402
from benchmarks.mutation.changes import Change, changes  # noqa: E402
from benchmarks.mutation.compare import differences  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "mutants.md"
LISTED = Path(__file__).parent / "equivalent_mutants.toml"
SCRATCH = REPOSITORY / "build" / "mutants"
DRAWS = 5
BATCH = 100  # mutants that a child process works through
CPU_SECONDS = 20  # of one draw, or of one comparison
MEMORY = 3 << 30  # bytes that a child may have beside what its parent has
HALTED = "takes too long, or too much memory"

Record = dict[str, Any]  # what became of a mutant, as it is kept


# --- Mutants -----------------------------------------------------------------------------------------------------


class Program:
    """A file of answers: its definitions, which other definitions each one needs, and which exercise it answers."""

    def __init__(self, module: ModuleType):
        self.module = module
        tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
        self.definitions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self.plain = {name: ast.unparse(node) for name, node in self.definitions.items()}

    def answers(self, exercise: str) -> list[str]:
        """Names of the answers to an exercise, in the order of the file."""
        values = ((name, getattr(self.module, name, None)) for name in self.definitions)
        return [name for name, value in values if vars(value or object).get("exercise") == exercise]

    def needed(self, name: str) -> list[str]:
        """The definitions that `name` is made of, itself included, in the order of the file."""
        needed, new = {name}, {name}
        while new:
            used = {n.id for one in new for n in ast.walk(self.definitions[one]) if isinstance(n, ast.Name)}
            new = (used & self.definitions.keys()) - needed
            needed |= new
        return [one for one in self.definitions if one in needed]

    @functools.lru_cache(maxsize=1)  # noqa: B019  # programs live as long as the process
    def original(self, answer: str) -> Any:
        return self.built(answer)

    def built(self, answer: str, changed: str = "", code: str = "") -> Any:
        """An answer, made anew with all that it needs; with the code of one definition replaced."""
        space = dict(vars(self.module))
        for name in self.needed(answer):
            exec(compile(code if name == changed else self.plain[name], f"<{name}>", "exec"), space)
        return space[answer]


@dataclass(frozen=True)
class Mutant:
    """A right answer with one change.

    Attributes:
        exercise: that it answers.
        program: the file that it is from.
        answer: the name of the right answer.
        changed: the name of the definition that the change is in: the answer itself, or a helper.
        change: what was changed.
    """

    exercise: Exercise
    program: Program
    answer: str
    changed: str
    change: Change

    @functools.cached_property
    def key(self) -> str:
        text = "\n".join((self.exercise.name, self.answer, self.changed, self.change.code))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def diff(self) -> str:
        """The lines that differ, with - and +."""
        lines = difflib.ndiff(self.program.plain[self.changed].splitlines(), self.change.code.splitlines())
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in lines if line[0] in "+-")


def programs() -> list[Program]:
    """All files of right answers."""
    import tests.answers

    names = [file.name for file in pkgutil.iter_modules(tests.answers.__path__) if file.name.startswith("right_")]
    return [Program(importlib.import_module(f"tests.answers.{name}")) for name in names]


def mutants(exercise: Exercise, files: Iterable[Program]) -> Iterator[Mutant]:
    """All changes of the right answers to an exercise. A helper is changed in the first answer that needs it."""
    for program in files:
        answers = program.answers(exercise.name)
        done = set(answers)
        for answer in answers:
            helpers = [name for name in program.needed(answer) if name not in done]
            done |= set(helpers)
            for name in (answer, *helpers):
                for change in changes(program.definitions[name]):
                    yield Mutant(exercise, program, answer, name, change)


# --- What becomes of one -----------------------------------------------------------------------------------------


def accepted(exercise: Exercise, answer: Any, seed: int) -> bool:
    """Whether the judge gives full marks. What only names a mistake, and says where it shows, is left out.

    First with two visible cases alone: what is refused there is refused with all of them, and most are.
    """
    signs = tuple(mistake for mistake in exercise.mistakes if mistake.sign)
    quick = replace(exercise, variation=None, varied=None, stages=None, mistakes=signs)
    few = replace(quick, cases=lambda rng: [case for case in exercise.cases(rng) if case.visible][:2], drawn=None)
    asked = (few, quick) if exercise.reference and not seed else (quick,)
    return all(judge(one, lambda request: probe.answer(request, answer), seed).passed for one in asked)


def tried(mutant: Mutant, draws: int) -> Iterator[Record]:
    """What became of a mutant; each record says more than the one before, in case that nothing comes after it."""
    record: Record = {
        "key": mutant.key,
        "exercise": mutant.exercise.name,
        "answer": mutant.answer,
        "kind": mutant.change.kind,
        "diff": mutant.diff,
        "draws": [],
        "where": {},
    }
    yield record
    try:
        answer = mutant.program.built(mutant.answer, mutant.changed, mutant.change.code)
    except Exception:  # a class that cannot even be defined
        yield record | {"draws": [False]}
        return
    for seed in range(draws):
        record = record | {"draws": [*record["draws"], accepted(mutant.exercise, answer, seed)]}
        yield record
        if not record["draws"][0]:
            return
    yield record | {"where": {HALTED: "while it was compared with the original"}}
    yield record | {"where": differences(mutant.exercise, mutant.program.original(mutant.answer), answer)}


def fate(record: Record) -> str:
    """refused, some (accepted at some draws only), equivalent, or survivor."""
    draws = record["draws"]
    if not draws or not draws[0]:
        return "refused"
    if not all(draws):
        return "some"
    return "survivor" if record["where"] else "equivalent"


# --- Many, in child processes ------------------------------------------------------------------------------------


def warm(files: list[Program]) -> None:
    """Judge an answer here, so that what torch sets up at first is there for all children. Without gradients: where
    there is a GPU, these would start threads, which no child has."""
    torch.set_num_threads(1)
    for exercise in EXERCISES.values():
        differentiated = any(case.differentiate for case in exercise.cases(np.random.default_rng(0)))
        for program in [] if differentiated or exercise.library != "torch" else files:
            for name in program.answers(exercise.name)[:1]:
                accepted(exercise, program.original(name), 0)
                return


def work(todo: list[Mutant], draws: int, seconds: int, pipe: Connection) -> None:
    """What a child process does: sends the records of one mutant after the other, each closed by None."""
    with suppress(OSError):
        os.setpgrp()  # Ctrl-C is for the parent alone
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_DATA, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + MEMORY)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    for mutant in todo:
        records = tried(mutant, draws)
        while True:
            used = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds)
            try:
                record = next(records, None)
            except Exception as error:  # of the benchmark, or of the grader: to be seen, not to be counted as refused
                pipe.send({"broken": f"{mutant.answer}: {type(error).__name__}: {error}\n{mutant.diff}"})
                record = None
            pipe.send(record)
            if record is None:
                break
    pipe.close()


def _limit(what: int, value: int) -> None:
    with suppress(ValueError, OSError):  # macOS has not all of them
        resource.setrlimit(what, (value, resource.getrlimit(what)[1]))


class Child:
    """A child process, and the mutants that it has not finished."""

    def __init__(self, todo: list[Mutant], draws: int, seconds: int):
        self.todo, self.last = todo, None
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        self.process = ForkProcess(target=work, args=(todo, draws, seconds, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self) -> tuple[Record | None, bool]:
        """What a finished mutant came to, if one is; and whether the child is at its end."""
        try:
            message = self.pipe.recv()
        except EOFError:  # at its end, or killed at a limit
            self.process.join()
            if not self.todo:
                return None, True
            self.todo = self.todo[1:]
            last, self.last = self.last, None
            if last is not None and not last["where"]:  # halted in a draw, which then does not accept it
                last["draws"].append(False)
            return last, True
        if message is not None:
            if "broken" in message:
                tqdm.write(message["broken"], file=sys.stderr)
                self.last = None
            else:
                self.last = message
            return None, False
        self.todo = self.todo[1:]
        last, self.last = self.last, None
        return last, False

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def run(todo: list[Mutant], draws: int, workers: int, store: Path, seconds: int = CPU_SECONDS) -> Iterator[Record]:
    """Try mutants in child processes; each record is written to `store` before it is given out."""
    batches = [todo[at : at + BATCH] for at in range(0, len(todo), BATCH)]
    random.Random(0).shuffle(batches)  # so that the time that is left is told truly
    children: list[Child] = []
    store.parent.mkdir(parents=True, exist_ok=True)
    try:
        with store.open("a", encoding="utf-8") as file:
            while batches or children:
                while batches and len(children) < workers:
                    children.append(Child(batches.pop(), draws, seconds))
                ready = wait([child.pipe for child in children])
                for child in [child for child in children if child.pipe in ready]:
                    record, ended = child.receive()
                    if record is not None:
                        file.write(json.dumps(record) + "\n")
                        file.flush()
                        yield record
                    if ended:
                        children.remove(child)
                        if child.todo:
                            batches.append(child.todo)
    finally:
        for child in children:
            child.stop()


def sampled(items: list[Mutant], count: int, seed: str) -> list[Mutant]:
    """So many of them, in their order."""
    chosen = random.Random(seed).sample(range(len(items)), min(count, len(items)))
    return [items[at] for at in sorted(chosen)]


def kept(store: Path) -> dict[str, Record]:
    """What an earlier run has finished, by key. A line that it did not finish writing is left out."""
    records = {}
    if store.exists():
        for line in store.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                record = json.loads(line)
                records[record["key"]] = record
    return records


def grader_version() -> str:
    """A name for the grader as it is now: what was judged by another is not mixed with it."""
    files = sorted([*(REPOSITORY / "autograder").rglob("*.py"), *(REPOSITORY / "headroom" / "reference").glob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


# --- Reporting ---------------------------------------------------------------------------------------------------


def reasons() -> list[dict[str, Any]]:
    """The survivors that are right by the task's text: [[equivalent]] tables with `exercise`, `change` and `reason`.

    `exercise` may be a list.

    In place of `change`: `where`, ways in which it may differ, and, if need be, `what`, a pattern of what is said of
    each. Without `exercise` it holds for all but those in `except`.
    """
    return tomllib.loads(LISTED.read_text(encoding="utf-8"))["equivalent"] if LISTED.exists() else []


def excused(record: Record, listed: list[dict[str, Any]]) -> bool:
    """Whether a survivor is listed as equivalent."""
    for entry in listed:
        only = entry.get("exercise", record["exercise"])
        if record["exercise"] not in ([only] if isinstance(only, str) else only):
            continue
        if record["exercise"] in entry.get("except", ()):
            continue
        if "change" in entry:
            if entry["change"].strip() == record["diff"].strip():
                return True
        elif record["where"].keys() <= set(entry["where"]) and all(
            re.search(entry.get("what", ""), what) for what in record["where"].values()
        ):
            return True
    return False


def shown(record: Record) -> str:
    """A survivor, for people."""
    draws = record["draws"]
    title = f"{record['exercise']} · {record['answer']} · {record['kind']}"
    if not all(draws):
        title += f" · accepted at {sum(draws)} of {len(draws)} draws"
    lines = [title, *(f"    {line}" for line in record["diff"].splitlines())]
    return "\n".join([*lines, *(f"  differs: {way} ({what})" for way, what in record["where"].items())])


COLUMNS = ("mutants", "refused", "accepted at some draws only", "equivalent", "survivors: listed as equivalent", "open")


def counted(records: Iterable[Record], listed: list[dict[str, Any]]) -> Counter[str]:
    """How many there are of each of `COLUMNS`."""
    counts: Counter[str] = Counter()
    for record in records:
        became = fate(record)
        counts["mutants"] += 1
        if became == "some":
            counts["accepted at some draws only"] += 1
        elif became == "survivor":
            counts["survivors: listed as equivalent" if excused(record, listed) else "open"] += 1
        else:
            counts[became] += 1
    return counts


def report(records: dict[str, list[Record]], draws: int) -> str:
    """The table, in Markdown."""
    listed = reasons()
    rows = [("exercise", *COLUMNS), ("---", *["---:"] * len(COLUMNS))]
    total: Counter[str] = Counter()
    for name, own in records.items():
        counts = counted(own, listed)
        total += counts
        rows.append((f"`{name}`", *(f"{counts[column]:,}" for column in COLUMNS)))
    rows.append(("**all**", *(f"{total[column]:,}" for column in COLUMNS)))
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"""# How right the grader is on changed answers

Made by `python benchmarks/mutants.py`; Python {platform.python_version()}, torch {torch.__version__.split("+")[0]},
NumPy {np.__version__}. Every right answer in `tests/answers`, changed in one place: a number, a string, an operator, a
comparison, a condition, a keyword or an argument left out or exchanged with its neighbour, a call left out, a name
exchanged with another, a statement left out, a slice, a function exchanged with its twin. One that is accepted is
judged with {draws} draws in all, and compared with the original on other inputs: other sizes, training mode, float32,
several calls on one object, arrays that are not contiguous, extreme numbers, what is a parameter and what it starts
from. "Equivalent": equal everywhere. Survivors differ somewhere; those listed as equivalent are right by the task's
text, and `benchmarks/equivalent_mutants.toml` says why.

{table}
"""


# --- The command -------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE", help="all when none is named")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="child processes (default: all cores)")
    parser.add_argument("--seeds", type=int, default=DRAWS, help=f"draws that an accepted one must pass ({DRAWS})")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of each exercise, the same ones every time")
    parser.add_argument("--fresh", action="store_true", help="discard what earlier runs have finished")
    parser.add_argument("--again", action="store_true", help="only what any earlier grader accepted or halted at")
    parser.add_argument("--equivalent", action="store_true", help="show the equivalent ones too")
    parser.add_argument("--dir", type=Path, default=SCRATCH, help="where finished ones are kept (build/mutants)")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in what it runs in the background
    chosen = [find(name) for name in given.exercises] or list(EXERCISES.values())

    if given.fresh:
        for old in given.dir.glob("*.jsonl"):
            old.unlink()
    store = given.dir / f"{grader_version()}-{given.seeds}.jsonl"
    files = programs()
    every = {exercise.name: list(mutants(exercise, files)) for exercise in tqdm(chosen, desc="changing", leave=False)}
    if given.again:
        earlier = [record for file in given.dir.glob("*.jsonl") for record in kept(file).values()]
        asked = {record["key"] for record in earlier if fate(record) != "refused"}
        every = {name: [mutant for mutant in own if mutant.key in asked] for name, own in every.items()}
    if given.sample is not None:
        every = {n: sampled(own, given.sample, n) for n, own in every.items()}

    warm(files)
    records = kept(store)
    todo = [mutant for own in every.values() for mutant in own if mutant.key not in records]
    total = sum(map(len, every.values()))
    stopped = False
    with tqdm(total=total, initial=total - len(todo), desc="judging", unit=" mutants", smoothing=0.02) as bar:
        try:
            for record in run(todo, given.seeds, given.workers, store):
                records[record["key"]] = record
                bar.update()
        except KeyboardInterrupt:
            stopped = True

    done = {n: [records[m.key] for m in own if m.key in records] for n, own in every.items()}
    listed = reasons()
    survivors = [r for own in done.values() for r in own if fate(r) in ("survivor", "some") and not excused(r, listed)]
    if given.equivalent:
        print(*(shown(r) + "\n" for own in done.values() for r in own if fate(r) == "equivalent"), sep="\n")
    print(*(shown(record) + "\n" for record in survivors), sep="\n")
    text = report(done, given.seeds)
    print(text)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(todo):,} were to be judged; that took {used.ru_utime + used.ru_stime:,.0f} s of processor time.")
    if stopped:
        print(f"Stopped: {total - sum(map(len, done.values())):,} are still to be judged; the same command goes on.")
    elif len(chosen) == len(EXERCISES) and given.sample is None and not given.again:
        RESULTS.write_text(text, encoding="utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
