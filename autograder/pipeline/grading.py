"""An instructor's round: autograde, feedback, export, and a list of what was graded and what was not."""

import shutil
import sys
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.utils import parse_utc

from autograder.pipeline import labs
from autograder.pipeline.course import Failed, nbgrader
from autograder.pipeline.integrity import DONE, SaveIntegrityNote


def submitted(course: Path, lab: str) -> list[str]:
    """The students who handed in a lab."""
    everybody = (course / "submitted").glob("*")
    return sorted(one.name for one in everybody if (one / lab).is_dir() or (one / lab).is_symlink())


def grade(course: Path, chosen: list[str], isolated: bool = True) -> list[str]:
    """Grade what lies in submitted/, write feedback/ and grades.csv, and print a list.

    Args:
        course: the course folder.
        chosen: labs; if empty, all that somebody handed in.
        isolated: whether students' code runs in a sandbox, or else with the rights of whoever grades.

    Returns:
        the submissions without a grade or a feedback page, as "student, lab".

    Raises:
        Failed: nothing to grade, or a lab that does not exist.
    """
    known = labs.names(course)
    if unknown := sorted(set(chosen) - set(known)):
        raise Failed(f"There is no lab {unknown[0]}; there are {', '.join(known)}.")
    chosen = chosen or [lab for lab in known if submitted(course, lab)]
    if not any(submitted(course, lab) for lab in chosen):
        raise Failed("There is nothing to grade: hand-ins are expected as submitted/STUDENT/LAB/NOTEBOOK.ipynb.")
    for lab in chosen:
        for student in submitted(course, lab):
            _take_away_traps(course / "submitted" / student / lab)
    how = [] if isolated else ["--JudgedExecute.isolated=False"]
    if not isolated:
        print("WARNING: students' code runs unprotected, with your full permissions.", file=sys.stderr)
    database = f"sqlite:///{course / 'gradebook.db'}"
    missing = []
    for lab in chosen:
        if not _in_gradebook(database, lab):
            labs.generate(course, [lab])
        _forget_half_made(course, lab)
        nbgrader(course, "autograde", lab, *how)  # its status says no more than the list below
        nbgrader(course, "generate_feedback", lab)
        missing += [f"{student}, {lab}" for student in _report(course, database, lab)]
    nbgrader(course, "export")
    return missing


def _take_away_traps(folder: Path) -> None:
    """Take away from a submission what nbgrader stumbles over before it reads any notebook."""
    for link in (folder.parent, folder):
        if link.is_symlink():  # somebody else's work would be graded as this student's
            print(f"{folder.parent.name}, {folder.name}: handed in as a link to {link.readlink()}; nothing is graded.")
            link.unlink()
            folder.mkdir(parents=True)
            for path in (folder.parents[2] / "solutions" / folder.name).glob("*.ipynb"):
                (folder / path.name).touch()
    stamp = folder / "timestamp.txt"
    if stamp.is_symlink() or (stamp.exists() and not stamp.is_file()):
        stamp.unlink()  # nbgrader would wait for a pipe for ever
    elif stamp.exists():
        try:
            parse_utc(stamp.read_text(encoding="utf-8")[:100].strip())
        except (ValueError, OverflowError):
            print(f"{folder.parent.name}, {folder.name}: timestamp.txt holds no time, and is left out.")
            stamp.unlink()


def _forget_half_made(course: Path, lab: str) -> None:
    """Remove what a grader that was killed left in autograded/: nbgrader would take it for graded, and skip it.

    A notebook is written once with the instructor's cells put back, and again with its verdicts; only then it is done.
    Before that the folder is there without any notebook.
    """
    for folder in (course / "autograded").glob(f"*/{lab}"):
        notebooks = list(folder.glob("*.ipynb"))
        if not notebooks or not all(map(_is_done, notebooks)):
            print(f"{folder.parent.name}, {lab}: grading was broken off before, and begins again.")
            shutil.rmtree(folder)


def _is_done(notebook: Path) -> bool:
    try:
        return DONE in nbformat.read(notebook, as_version=4).metadata
    except (ValueError, OSError):
        return False


def _in_gradebook(database: str, lab: str) -> bool:
    if not Path(database.removeprefix("sqlite:///")).exists():
        return False
    with Gradebook(database) as gradebook:
        try:
            return bool(gradebook.find_assignment(lab).notebooks)
        except MissingEntry:
            return False


def _report(course: Path, database: str, lab: str) -> list[str]:
    """Print the scores of a lab; the students who handed it in and have no grade."""
    missing = []
    with Gradebook(database) as gradebook:
        for student in submitted(course, lab):
            graded = course / "autograded" / student / lab
            try:
                submission = gradebook.find_submission(lab, student)
            except MissingEntry:
                submission = None
            if submission is None or not any(graded.glob("*.ipynb")):
                missing.append(student)
                print(f"{lab}  {student:24}  NOT GRADED")
            else:
                note = ", more to be graded by hand" if submission.needs_manual_grade else ""
                if not any((course / "feedback" / student / lab).glob("*.html")):
                    missing.append(student)
                    note += ", NO FEEDBACK PAGE"
                if any((course / SaveIntegrityNote.directory.default_value / lab).glob(f"{student}-*.md")):
                    note += ", see integrity/"
                print(f"{lab}  {student:24}  {submission.score:5.2f} of {submission.max_score:g}{note}")
    return missing
