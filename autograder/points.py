"""What a refused answer earns: which of the lines that fail are lost, and which only fail along with them.

A line that fails is not always another mistake: with a wrong scale, the cases with a mask come out wrong too. So what
is explained costs the line that it breaks, whether it has a name or not, each further slip costs a further line, and
what is not explained costs a line more than what is.
"""

from collections.abc import Sequence, Set
from dataclasses import replace

from autograder.exercise import Criterion
from autograder.verdict import Result

ALONE = frozenset({"shape", "gradients", "contract"})  # judged by themselves, whatever the values are


def charged(
    criteria: Sequence[Criterion],
    results: Sequence[Result],
    apart: Sequence[Result] | None,
    slips: Sequence[Sequence[str]],
    uses_all: bool,
    misshapen: Set[str] = frozenset(),
) -> list[Result]:
    """The results, with those marked as spared that fail only along with the ones that are lost.

    Args:
        criteria: of the exercise.
        results: one for each criterion, as they came out.
        apart: the same, judged as if what is explained were right; None where nothing is explained.
        slips: of each slip that is explained, the criteria it breaks by itself; empty where nobody said.
        uses_all: whether the result depends on every input and parameter that it should depend on.
        misshapen: the criteria of the cases whose results are missing or have another shape.
    """
    shares = {criterion.key: criterion.share for criterion in criteria}
    failing = {c.key for c, result in zip(criteria, results, strict=True) if not result.holds}
    weightiest = sorted((key for key in shares if key in failing), key=lambda key: -shares[key])

    def weight(keys: set[str]) -> float:
        return sum(shares[key] for key in keys)

    def more(lost: set[str]) -> set[str]:
        return lost | set([key for key in weightiest if key not in lost][:1])

    base = max((c for c in criteria if c.key not in ALONE), key=lambda c: c.share)
    if apart is None:
        lost = failing & ALONE
        follow = [key for key in weightiest if key not in ALONE]
        # What goes wrong only where a line asks for more than the others do is that line's own.
        lost |= set(follow[:2] if base.key in failing and uses_all else follow)
    else:
        lost = {c.key for c, result in zip(criteria, apart, strict=True) if not result.holds}
        costs = sorted((set(slip) & failing for slip in slips), key=lambda cost: -weight(cost))
        by_itself = [lost | cost if cost else more(lost) for cost in costs]
        for i, cost in enumerate(costs):
            lost = by_itself[0] if i == 0 else lost | cost if cost - lost else more(lost)
        if len(costs) > 1 and any(lost <= alone for alone in by_itself):
            lost = more(lost)
        if not uses_all and not all(costs):
            lost = more(lost)
    if misshapen and misshapen <= lost - {base.key}:  # it runs, but where a line that is lost asks for more
        lost.discard("shape")
    if lost >= shares.keys() - ALONE:  # nothing is left that the gradients could be those of
        lost |= failing
    note = (
        "follows from what is recognised above"
        if apart is not None
        else "may fail for the same reason as the lines that are lost"
    )
    return [
        replace(result, spared=True, note=f"{note}: not counted twice") if c.key in failing - lost else result
        for c, result in zip(criteria, results, strict=True)
    ]
