"""How right the grader is, and how fast: every answer that the suite knows, and every pair of known mistakes.

    python benchmarks/grader.py [--draws 40] [EXERCISE ...]

Right and wrong answers are those of `tests/answers`, judged with three draws of the hidden cases each, or as many as
are asked for. Pass or fail, names and points should be the same in all of them; those that are not are listed. Pairs
are made by switching on two mistakes at once. Prints a table and, when all exercises were tried with three draws,
writes it to `benchmarks/results/grader-accuracy.md`. Takes some minutes. Times are processor time of this process, in
which the student's code runs too.
"""

import argparse
import itertools
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from autograder import probe  # noqa: E402
from autograder.exercise import Exercise  # noqa: E402
from autograder.exercises import EXERCISES, find  # noqa: E402
from autograder.judge import judge  # noqa: E402
from autograder.verdict import Verdict  # noqa: E402
from tests.answers import found, switched  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "grader-accuracy.md"
DRAWS = 3
PAIRS = 100  # of an exercise at most, evenly spread over all that there are; some have a thousand


@dataclass
class Tally:
    """What became of the answers to one exercise. A wrong or right answer counts only if all draws agree."""

    right: list[bool] = field(default_factory=list)  # accepted
    listed: list[bool] = field(default_factory=list)  # refused, with exactly the right names
    wrong: list[bool] = field(default_factory=list)  # refused
    unlisted: list[bool] = field(default_factory=list)  # on no list: given no name
    pairs: list[bool] = field(default_factory=list)  # of those that can be told apart: both named
    steady: dict[str, bool] = field(default_factory=dict)  # by the answer's name: the same verdict in all draws
    all_pairs: int = 0  # that there are
    names: dict[str, str] = field(default_factory=dict)  # that answers on no list got
    unlike: dict[str, str] = field(default_factory=dict)  # what differs from draw to draw
    alike: int = 0  # pairs that do what one mistake does by itself
    passed_pairs: int = 0
    seconds: list[float] = field(default_factory=list)  # a check of a right answer
    diagnosing: list[float] = field(default_factory=list)  # a check of a pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE", help="all when none is named")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of the hidden cases, for each answer (%(default)s)")
    asked = parser.parse_args()
    chosen = [find(name) for name in asked.exercises] or list(EXERCISES.values())
    tallies = {exercise.name: tallied(exercise, asked.draws) for exercise in chosen}
    text = report(tallies, asked.draws)
    print(f"\n{text}")
    if asked.exercises:
        for name, tally in tallies.items():
            for answer, said in tally.names.items():
                print(f"{name}, {answer}, on no list, is told: {said}")
            for answer, what in tally.unlike.items():
                print(f"{name}, {answer}: {what} depend on the draw. Only names may: say each of them is true.")
    if len(chosen) == len(EXERCISES) and asked.draws == DRAWS:
        RESULTS.write_text(text, encoding="utf-8")


def tallied(exercise: Exercise, draws: int) -> Tally:
    """Try everything on one exercise."""
    tally = Tally()

    def drawn(answer, times: list[float] | None = None) -> list[Verdict]:
        verdicts = [judged(answer, seed, times) for seed in range(draws)]
        seen = {(v.passed, v.score, tuple(mistake.title for mistake in v.mistakes)) for v in verdicts}
        tally.steady[answer.__name__] = len(seen) == 1
        if len(seen) > 1:
            what = zip(("pass or fail", "points", "names"), zip(*seen, strict=True), strict=True)
            tally.unlike[answer.__name__] = ", ".join(word for word, values in what if len({*values}) > 1)
        return verdicts

    def judged(answer, seed: int, times: list[float] | None = None) -> Verdict:
        began = time.process_time()
        verdict = judge(exercise, lambda request: probe.answer(request, answer), seed)
        if times is not None:
            times.append(time.process_time() - began)
        return verdict

    right = [answer for name, answer in found("right") if name == exercise.name]
    wrong = [answer for name, answer in found("wrong") if name == exercise.name]
    judged(right[0], 0)  # the first is slower: torch warms up
    for answer in right:
        tally.right.append(all(verdict.passed for verdict in drawn(answer, tally.seconds)))
    for answer in wrong:
        verdicts = drawn(answer)
        tally.wrong.append(not any(verdict.passed for verdict in verdicts))
        named = all({m.key for m in verdict.mistakes} == set(answer.mistakes) for verdict in verdicts)
        (tally.listed if answer.mistakes else tally.unlisted).append(named)
        if not answer.mistakes and (titles := {m.title for verdict in verdicts for m in verdict.mistakes}):
            tally.names[answer.__name__] = "; ".join(sorted(titles))
    if exercise.alters:
        known = [mistake for mistake in exercise.mistakes if mistake.computed]
        pairs = [(a, b) for a, b in itertools.combinations(known, 2) if not a.excludes(b)]
        tally.all_pairs = len(pairs)
        pairs = [pairs[len(pairs) * n // PAIRS] for n in range(PAIRS)] if len(pairs) > PAIRS else pairs
        for a, b in tqdm(pairs, desc=f"{exercise.name}: pairs", leave=False):
            verdict = judged(switched(exercise, frozenset({a.key, b.key})), 0, tally.diagnosing)
            tally.passed_pairs += verdict.passed
            if len(verdict.mistakes) == 1:
                tally.alike += 1
            else:
                tally.pairs.append({m.key for m in verdict.mistakes} == {a.key, b.key})
    return tally


def report(tallies: dict[str, Tally], draws: int) -> str:
    """The table, in Markdown."""
    head = (
        "exercise",
        "right: accepted",
        "wrong: refused",
        "known mistakes: named",
        "on no list: given no name",
        "the same in all draws",
        "pairs: refused",
        "told apart: both named",
        "a check, ms",
        "naming a pair, ms (longest)",
    )
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    rows += [row(f"`{name}`", tally) for name, tally in tallies.items()]
    total = Tally()
    for of, tally in tallies.items():
        total.steady |= {f"{of}: {name}": steady for name, steady in tally.steady.items()}
        for name in ("right", "listed", "wrong", "unlisted", "pairs", "seconds", "diagnosing"):
            getattr(total, name).extend(getattr(tally, name))
        total.alike += tally.alike
        total.all_pairs += tally.all_pairs
        total.passed_pairs += tally.passed_pairs
    rows.append(row("**all**", total))
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    unsteady = [name for name, steady in total.steady.items() if not steady]
    if unsteady:
        table += f"\n\nNot the same in all draws: {', '.join(f'`{name}`' for name in unsteady)}."
    return f"""# How right the grader is

Made by `python benchmarks/grader.py`. Every answer below is code that the suite holds in `tests/answers`, judged with
{draws} draws of the hidden cases; an answer counts as accepted, refused or named only if all of them agree, and as the
same if pass or fail, names and points are. Wrong answers are those
with known mistakes, alone or two together, and those on no list, which must be refused without a wrong name. Pairs are
made by switching on two known mistakes in a right answer, at most {PAIRS} for each exercise, evenly spread over the
{total.all_pairs:,} that there are; a pair that does in all cases what one mistake does by itself cannot be told apart,
and is left out of the share. Times are medians of processor time, the student's code included;
the first check of a session is left out.

{table}
"""


def row(name: str, tally: Tally) -> tuple[str, ...]:
    """A line of the table."""
    pairs = len(tally.pairs) + tally.alike
    return (
        name,
        share(tally.right),
        share(tally.wrong),
        share(tally.listed),
        share(tally.unlisted),
        share([*tally.steady.values()]),
        f"{pairs - tally.passed_pairs} of {pairs}" if pairs else "–",
        f"{share(tally.pairs)} ({sum(tally.pairs) / len(tally.pairs):.0%})" if tally.pairs else "–",
        f"{1000 * statistics.median(tally.seconds):.0f}",
        f"{1000 * statistics.median(tally.diagnosing):.0f} ({1000 * max(tally.diagnosing):.0f})"
        if tally.diagnosing
        else "–",
    )


def share(answers: list[bool]) -> str:
    return f"{sum(answers)} of {len(answers)}" if answers else "–"


if __name__ == "__main__":
    main()
