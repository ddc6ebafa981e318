"""The grader's commands: `check` a notebook, make the `labs`, `grade` what was handed in, `report` on the class."""

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m autograder", description="Make and grade a course's labs.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check", help="run a lab's notebook and say what its checks say; exit status 0 if all pass"
    )
    check.add_argument("notebook", type=Path, help="such as labs/lab02_multi_head/multi_head.ipynb")
    labs = commands.add_parser("labs", help="make labs/ from solutions/, and tell the gradebook about them")
    labs.add_argument("--check", action="store_true", help="only say which labs differ; exit status 1 if any does")
    grade = commands.add_parser("grade", help="autograde what lies in submitted/, write feedback/ and grades.csv")
    grade.add_argument("labs", nargs="*", metavar="LAB", help="such as lab02_multi_head; all when none is named")
    grade.add_argument(
        "--no-isolation",
        action="store_true",
        help="run students' code without a sandbox, with your full permissions",
    )
    grade.add_argument(
        "--workers", type=int, metavar="N", help="processes that grade; all cores, where Dask is installed"
    )
    grade.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="have the workers of this Dask scheduler grade")
    grade.add_argument(
        "--regrade",
        action="append",
        default=[],
        metavar="NAME",
        help="grade everything of a student, a lab or an exercise again; can be given more than once",
    )
    commands.add_parser("report", help="write report/index.html: what to teach again, and why")
    chosen = parser.parse_args(arguments)

    # Imported only now: nbgrader takes a second.
    from autograder.course import NoCourse
    from autograder.pipeline import checking, grading
    from autograder.pipeline import labs as making
    from autograder.pipeline.course import Failed, course_root

    try:
        if chosen.command == "check":
            return 0 if checking.check_notebook(chosen.notebook) else 1
        course = course_root(Path.cwd())
        if chosen.command == "report":
            from autograder.report.page import report

            print(f"Wrote {report(course)}, and what it says as CSV files beside it.")
            return 0
        if chosen.command == "grade":
            missing = grading.grade(
                course, chosen.labs, not chosen.no_isolation, chosen.workers, chosen.scheduler, chosen.regrade
            )
            return _say(missing, "not graded, or without its feedback page")
        if chosen.check:
            return _say(making.differing(course, _tell), "differs from solutions/; make labs renews it")
        names = making.names(course)
        making.generate(course, names, say=_tell)
        print(f"Made {', '.join(names)} in labs/; gradebook.db knows them.")
    except (Failed, NoCourse) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _say(names: list[str], what: str) -> int:
    for name in names:
        print(f"{name}: {what}", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
