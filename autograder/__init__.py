"""What grades the course: `check` tells a student what holds, what does not, and which mistake it is.

A check has two halves. The probe (`autograder.probe`) runs the student's code and returns plain arrays; the judge
(`autograder.judge`) holds the answers and never runs student code. In a notebook both run in one process; under
grading only bytes cross between them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.checking import CheckFailed, CheckInterrupted, Verdict, check

__all__ = ["CheckFailed", "CheckInterrupted", "Verdict", "check"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: nbgrader and JupyterLab load parts of this package that need no PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autograder import checking

    return getattr(checking, name)
