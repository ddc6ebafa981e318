"""The grader's commands: `check` for one notebook; the others for a class, in the order in which a term needs them."""

import argparse
import io
import os
import sys
import sysconfig
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
    labs.add_argument("labs", nargs="*", metavar="LAB", help="such as lab02_multi_head; all when none is named")
    labs.add_argument("--check", action="store_true", help="only say which labs differ; exit status 1 if any does")
    roster = commands.add_parser("roster", help="put a class into the gradebook, from a CSV file")
    roster.add_argument("file", type=Path, help="as Canvas or Moodle exports it, or with student_id,first_name,…")
    copy = commands.add_parser("student-copy", help="make a folder and a zip of what students get, without answers")
    copy.add_argument("folder", type=Path, nargs="?", help="such as build/headroom-students")
    collect = commands.add_parser("collect", help="put what Canvas or Moodle exported into submitted/")
    collect.add_argument("lab", metavar="LAB", help="such as lab02_multi_head")
    collect.add_argument("file", type=Path, help="the zip of all submissions, or the folder that it gives")
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
    scores = commands.add_parser("scores", help="write scores into a CSV file that Canvas or Moodle exported")
    scores.add_argument("file", type=Path, help="a gradebook, a grading worksheet or a list of participants")
    scores.add_argument("labs", nargs="*", metavar="LAB", help="all that were handed out, when none is named")
    scores.add_argument("--to", type=Path, help="the file to write; FILE-scores.csv if not given")
    feedback = commands.add_parser("feedback", help="pack feedback pages for Canvas or Moodle")
    feedback.add_argument("lab", metavar="LAB", help="such as lab02_multi_head")
    feedback.add_argument("file", type=Path, help="the zip of its submissions, as for collect, or its folder")
    feedback.add_argument("--to", type=Path, help="the zip to write; build/feedback-LAB.zip if not given")
    gradescope = commands.add_parser("gradescope", help="make the zip of a lab's autograder for Gradescope")
    gradescope.add_argument("lab", metavar="LAB", help="such as lab02_multi_head")
    gradescope.add_argument("--to", type=Path, help="the file to write; build/gradescope-LAB.zip if not given")
    gradescope.add_argument(
        "--visibility",
        default="visible",
        choices=["visible", "after_due_date", "after_published", "hidden"],
        help="when students see what the checks say",
    )
    gradescope.add_argument(
        "--no-isolation", action="store_true", help="have it run students' code without a sandbox, where answers lie"
    )
    commands.add_parser("report", help="write report/index.html: what to teach again, and why")
    chosen = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that a terminal or a file cannot hold ends nothing
            stream.reconfigure(errors="backslashreplace")

    from autograder.course import NoCourse
    from autograder.pipeline.course import Failed

    try:
        return _run(chosen)
    except (Failed, NoCourse) as problem:
        print(problem, file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace) -> int:
    # nbgrader starts `alembic` by name: also where this Python's environment is not active.
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    # Imported only now: nbgrader takes a second.
    from autograder.pipeline import (
        checking,
        gradescope,
        grading,
        lms_feedback,
        lms_scores,
        lms_submissions,
        people,
        student_copy,
    )
    from autograder.pipeline import labs as making
    from autograder.pipeline.course import course_root, gradebook
    from autograder.pipeline.texts import how_many

    if chosen.command == "check":
        return 0 if checking.check_notebook(chosen.notebook) else 1
    course = course_root(Path.cwd())
    if chosen.command == "grade":
        missing = grading.grade(
            course,
            chosen.labs,
            not chosen.no_isolation,
            chosen.workers,
            chosen.scheduler,
            chosen.regrade,
            grading.Voice(_tell, _warn),
        )
        return _say(missing, "not graded, or without its feedback page")
    if chosen.command == "report":
        from autograder.report.page import report

        print(f"Wrote {report(course, _tell)}, and what it says as CSV files beside it.")
    elif chosen.command == "roster":
        with gradebook(course) as book:
            names = [one.id for one in people.enrol(book, chosen.file, _tell)]
        such_as = f"{', '.join(names[:3])}{', …' * (len(names) > 3)}"
        these = f"{how_many(len(names), 'student')} of this file {'is' if len(names) == 1 else 'are'}"
        print(f"{these} in the gradebook, as {such_as}")
    elif chosen.command == "student-copy":
        print(*student_copy.make(course, chosen.folder), sep="\n")
    elif chosen.command == "collect":
        return _say(lms_submissions.collect(course, chosen.lab, chosen.file, _tell), "left out")
    elif chosen.command == "feedback":
        return _say(lms_feedback.pack(course, chosen.lab, chosen.file, chosen.to, _tell), "without a page in it")
    elif chosen.command == "gradescope":
        isolated = not chosen.no_isolation
        print(gradescope.make(course, chosen.lab, isolated, chosen.visibility, chosen.to, _tell))
    elif chosen.command == "scores":
        return _say(lms_scores.fill(course, chosen.file, chosen.labs, chosen.to, _tell), "the score is in no row")
    elif chosen.check:
        return _say(making.differing(course, _tell), "differs from solutions/; make labs renews it")
    else:
        names = making.chosen(course, chosen.labs)
        making.generate(course, names, say=_tell)
        print(f"Made {', '.join(names)} in labs/, and recorded them in gradebook.db.")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _warn(line: str) -> None:
    print(line, file=sys.stderr)


def _say(names: list[str], what: str) -> int:
    for name in names:
        print(f"{name}: {what}", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("autograder"):
            raise
        sys.exit(
            f"{sys.executable} lacks {missing.name}. Activate the environment first (source .venv/bin/activate; on "
            "Windows .venv\\Scripts\\activate, or conda activate), or put its Python in the place of this one."
        )
