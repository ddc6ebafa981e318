"""What stands out in the results where digits are read wrong."""

import numpy as np

CLEAR = 0.9  # of some digits are read right where they show what is wrong with the others


def percent(right: float) -> str:
    """A share in words, never rounded up."""
    return f"{int(1000 * right + 1e-9) / 10:.1f} %"


def otherwise_alone(n: int, few: int) -> str:
    return f"{n} of {few} {'is' if n == 1 else 'are'} read otherwise when {'it comes' if n == 1 else 'they come'} alone"


def a(digit: int) -> str:
    return f"an {digit}" if digit == 8 else f"a {digit}"


def stands_out(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> tuple[str, bool]:
    """A clause after how many are read right, and whether that explains it.

    Args:
        logits: of all digits, finite.
        alone: those of the first few, each read alone.
        labels: of all.
    """
    for rule in (_same_rows, _renamed, _never_called, _lowest, _sorted, _other_order, _in_part):
        if clause := rule(logits, alone, labels):
            return clause, True
    read, n, few = logits.argmax(1), len(labels), len(alone)
    hits = read == labels
    own, among = int((alone.argmax(1) == labels[:few]).sum()), int(hits[:few].sum())
    otherwise = int((alone.argmax(1) != read[:few]).sum())
    counts = np.bincount(read, minlength=10)
    often, most = int(counts.max()), int(counts.argmax())
    if np.ptp(logits, axis=0).max() <= 1e-6 * np.abs(logits).max():
        return f": every digit is called {a(most)}, and all rows of the result are the same", False
    if often == n:
        return f": every digit is called {a(most)}", False
    if own >= CLEAR * few and among <= own - few // 3:
        return f", but {own} of the first {few} are when they come alone, and {among} of these among the others", True
    if otherwise:
        return f", but {otherwise_alone(otherwise, few)}", 3 * otherwise >= few
    if often > n / 2:
        return f": {often} of them are called {a(most)}", False
    if abs(hits.sum() - n / 10) <= 2.5 * np.sqrt(0.09 * n):
        return ", about as many as by guessing", False
    return "", False


def _same_rows(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """Some rows are all the same, and all others are read."""
    _, kind, counts = np.unique(logits, axis=0, return_inverse=True, return_counts=True)
    same = kind.reshape(-1) == counts.argmax()
    rows, hits = np.flatnonzero(same), logits.argmax(1) == labels
    if not 0.05 * len(labels) <= len(rows) < len(labels) or hits[same].mean() > 0.3 or hits[~same].mean() < CLEAR:
        return ""
    which = f"{len(rows)} rows of the result, such as rows {rows[0]}, {rows[1]} and {rows[2]},"
    if rows[-1] - rows[0] == len(rows) - 1:
        which = f"rows {rows[0]} to {rows[-1]} of the result"
    return f": {which} are all the same; of the {int((~same).sum())} others, {percent(hits[~same].mean())} are right"


def _renamed(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """Most digits of some classes are called another one, and each class is called by one name of its own."""
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, logits.argmax(1)), 1)
    called = counts.argmax(1)
    whose = [d for d in range(10) if counts[d].max() > counts[d].sum() / 2 and counts[:, called[d]].argmax() == d]
    moved = [digit for digit in whose if called[digit] != digit]
    if len(moved) < 2 or counts[whose, called[whose]].sum() < 0.8 * len(labels):
        return ""
    first = moved[0]
    back = f" and {a(int(called[first]))} {a(first)}" if called[called[first]] == first else ""
    return (
        f": {a(first)} is called {a(int(called[first]))}{back}, so the logits do not stand in the order of the labels"
    )


def _never_called(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """No digit is given one of the classes, and all others are read."""
    read = logits.argmax(1)
    for digit in {*labels.tolist()} - {*read.tolist()}:
        others = labels != digit
        if (share := (read == labels)[others].mean()) >= CLEAR:
            return f": no digit is called {a(digit)}; of the other digits, {percent(share)} are right"
    return ""


def _lowest(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """Read by the smallest logit, most are right."""
    right = (logits.argmin(1) == labels).mean() > 0.5
    return ", and most have their lowest logit at the right class" if right else ""


def _sorted(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """The numbers of every row fall from the first to the last, or rise, and the rows are not all the same."""
    steps = np.diff(logits, axis=1)
    for sign, order in ((-1, "from the largest to the smallest"), (1, "from the smallest to the largest")):
        if (sign * steps > 0).all() and np.ptp(logits, axis=0).max() > 0.01 * np.ptp(logits):
            return f": each row of the result is sorted, {order}"
    return ""


def _other_order(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """The rows of digits that were read alone too stand elsewhere."""
    near = 1e-3 * logits.std(0).max()
    places = [np.flatnonzero(np.abs(logits - row).max(1) <= near) for row in alone]
    if not all(len(place) == 1 for place in places):
        return ""
    elsewhere = [(i, int(place[0])) for i, place in enumerate(places) if place[0] != i]
    if len(elsewhere) < len(alone) / 2:
        return ""
    digit, row = elsewhere[0]
    own, order = int((alone.argmax(1) == labels[: len(alone)]).sum()), "stand in another order than the images"
    those = f", but {own} of the first {len(alone)} are when they come alone" if own >= CLEAR * len(alone) else ""
    return f"{those}: the rows of the result {order} (that of digit {digit} is row {row})"


def _in_part(logits: np.ndarray, alone: np.ndarray, labels: np.ndarray) -> str:
    """Digits are read up to some row, or from some row on."""
    hits, n = logits.argmax(1) == labels, len(labels)
    for right, wrong, order in ((hits, "after them", 1), (hits[::-1], "before them", -1)):
        k = int(np.cumsum(2 * right.astype(int) - 1).argmax()) + 1
        if 30 <= k <= n - 30 and right[:k].mean() >= CLEAR and right[k:].mean() <= 0.5:
            which = "first" if order == 1 else "last"
            there, rest = percent(right[:k].mean()), percent(right[k:].mean())
            return f": of the {which} {k} digits {there} are, of the {n - k} {wrong} {rest}"
    return ""


def confidence(logits: np.ndarray) -> float:
    """The softmax of the largest logit, in the mean of all digits."""
    return float((1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)).mean())
