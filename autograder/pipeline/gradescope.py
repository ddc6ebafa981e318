"""Gradescope: the zip that it builds an autograder from, and what grades a submission in its container.

    python -m autograder.pipeline.gradescope /autograder     # as run_autograder does, in the folder of the course

Its protocol: setup.sh is run once, as root, where the zip lies unpacked in /autograder/source; run_autograder once for
each submission, which lies in /autograder/submission; /autograder/results/results.json is what it shows
(https://gradescope-autograders.readthedocs.io/en/latest/specs/). What grades is a worker like any other (worker.py), so
scores, limits and sandbox are those of `grade`. The lab travels as that worker gets it: no solution is in the zip.
"""

import json
import secrets
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from nbgrader.coursedir import CourseDirectory

from autograder.course import INSTALLED, course_of
from autograder.pipeline import intake, labs
from autograder.pipeline.cells import checked_in
from autograder.pipeline.course import Failed, configuration
from autograder.pipeline.grading import in_gradebook
from autograder.pipeline.kernel import AT_YOUR_RISK
from autograder.pipeline.parcel import Rows, pack, snapshot, unpack
from autograder.pipeline.plan import Plan
from autograder.pipeline.texts import without_colors
from autograder.pipeline.worker import Died, Grader, Refused, code, versions

FILE = "build/gradescope-{}.zip"  # in the course folder, {} is the lab
# Of the folder that this package was installed from: what installing it again needs, beside its code.
INSTALLER = ("pyproject.toml", "README.md", "LICENSE", "bootstrap.py", "constraints.txt")
LEFT_OUT = (".", "__pycache__")
STUDENT = "student"  # in the container there is but one
UNPROTECTED = "An autograder made by `python -m autograder gradescope LAB --no-isolation` runs it unprotected."
LONGEST = 20_000  # characters of what a check says
# Ubuntu has another Python in each version: the newest of those that it has. PyTorch's build for processors is small.
SETUP = """\
#!/usr/bin/env bash
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap libseccomp2 ca-certificates
for python in python3.13 python3.12 python3.11; do
    if apt-get install -y --no-install-recommends $python $python-venv; then break; fi
done
cd /autograder/source/grader
UV_TORCH_BACKEND=${UV_TORCH_BACKEND:-cpu} $python bootstrap.py
rm -rf .headroom/downloads
"""
RUN = """\
#!/usr/bin/env bash
cd /autograder/source/{folder}
exec /autograder/source/grader/.venv/bin/python -m autograder.pipeline.gradescope /autograder
"""


def make(
    course: Path,
    lab: str,
    isolated: bool = True,
    visibility: str = "visible",
    to: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Make the zip of a lab's autograder.

    Args:
        course: the course folder.
        lab: one of `labs.names`.
        isolated: whether students' code runs in a sandbox or not at all; or else with the rights of whoever grades.
        visibility: when students see what the checks say, in Gradescope's words.
        to: the file; build/gradescope-LAB.zip in the course if None.
        say: called with a line for what takes seconds.

    Raises:
        Failed: there is no such lab, labs/ is older than its source, or this package cannot be installed elsewhere.
    """
    labs.chosen(course, [lab])
    if labs.changed(course, [lab]):
        raise Failed(f"solutions/ has changed since labs/ was made from it: make labs LAB={lab}, then this again.")
    if missing := next((name for name in INSTALLER if not (INSTALLED / name).is_file()), None):
        raise Failed(f"There is no {missing} in {INSTALLED}: install this grader from its repository (make setup).")
    config, about = configuration(course), course_of(course)
    if not in_gradebook(CourseDirectory(config=config).db_url, lab):
        labs.generate(course, [lab], say=say)
    parcel = Plan(course, config, lab, [], versions(about)).packed
    folder = "grader" if about.folder == INSTALLED else "course"
    to = to or course / FILE.format(lab)
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (("setup.sh", SETUP), ("run_autograder", RUN.format(folder=folder))):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
        archive.writestr("lab.parcel", pack({"lab": lab, "isolated": isolated, "visibility": visibility}, [parcel]))
        trees = {"grader": [*(INSTALLED / name for name in INSTALLER), *code(course_of(INSTALLED)).values()]}
        if folder == "course":
            trees[folder] = [about.folder / "pyproject.toml", *code(about).values()]
        for tree, paths in trees.items():
            for file in (file for path in paths for file in _files(path)):
                root = INSTALLED if tree == "grader" else about.folder
                if file.is_relative_to(root):  # a course's code includes the grader's, which is there already
                    archive.write(file, f"{tree}/{file.relative_to(root).as_posix()}")
    return to


def _files(path: Path) -> Iterator[Path]:
    """A file, or the files of a folder, without caches and what is hidden."""
    if not path.name.startswith(LEFT_OUT):
        if path.is_dir():
            for entry in sorted(path.iterdir()):
                yield from _files(entry)
        else:
            yield path


# --- What follows runs in Gradescope's container --------------------------------------------------------------------


def grade(folder: Path, say: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Grade the submission that Gradescope has put there; what results.json is to hold.

    Args:
        folder: /autograder.
        say: called with a line that only instructors see.

    Raises:
        Failed: the grader itself could not go on. No score is known then, and none is to be written.
    """
    about, (lab_data,) = unpack((folder / "source" / "lab.parcel").read_bytes())
    lab = about["lab"]
    rows: Rows = unpack(lab_data)[0]["rows"]
    names = sorted(row["name"] for row in rows["notebook"])
    handed_in = _handed_in(folder / "submission", names)
    files = intake.meant(handed_in, names)
    sentences = [f"Read from {file!r}." for name, file in files.items() if file != f"{name}.ipynb"]
    if missing := [f"{name}.ipynb" for name in names if name not in files]:
        there = " and ".join(map(repr, intake.strangers(handed_in))) or "no notebook"
        sentences.append(f"There is {there} in what was handed in: {' and '.join(missing)} is expected.")
    outputs: dict[tuple[str, str], str] = {}  # of a notebook's cell
    scores: dict[str, float] = {}  # of a cell, by its key in the gradebook
    if files:
        request = {"lab": lab, "student": STUDENT, "seed": secrets.randbits(62), "rows": {}}
        answer, contents = _answer(pack(request, [lab_data, snapshot(handed_in, names)]), about["isolated"], say)
        for name, data in zip(answer["files"], contents, strict=True):
            if name.startswith("integrity/"):
                say(data.decode(errors="replace"))
            elif name.startswith("autograded/") and name.endswith(".ipynb"):
                outputs |= {(Path(name).stem, cell): text for cell, text in _outputs(data)}
        scores = {row["cell_id"]: row["auto_score"] or 0.0 for row in answer["rows"]["grade"]}
    notebooks = {row["id"]: row["name"] for row in rows["notebook"]}
    keys = {(row["notebook_id"], row["name"]): row["id"] for row in rows["base_cell"] if row["type"] == "GradeCell"}
    by_hand = {(row["notebook_id"], row["name"]) for row in rows["base_cell"] if row["type"] == "SolutionCell"}
    most = {row["id"]: row["max_score"] for row in rows["grade_cells"]}
    tests, rest = [], 0.0
    for row in rows["source_cell"]:  # in the order of the notebook
        cell = (row["notebook_id"], row["name"])
        if cell not in keys or not most[keys[cell]]:
            continue
        if cell in by_hand:
            rest += most[keys[cell]]
            continue
        score, points = scores.get(keys[cell], 0.0), most[keys[cell]]
        tests.append(
            {
                "name": checked_in(row["source"]) or row["name"],
                "score": round(score, 4),
                "max_score": points,
                "status": "passed" if score >= points else "failed",
                "output": outputs.get((notebooks[cell[0]], cell[1]), "It was not handed in."),
                "output_format": "text",
                "visibility": about["visibility"],
            }
        )
    if rest:
        sentences.append(f"{rest:g} more points are given by hand, for the answer in your own words.")
    return {"output": "\n".join(sentences), "stdout_visibility": "hidden", "tests": tests}


def _handed_in(folder: Path, names: list[str]) -> Path:
    """Where in a submission the notebooks lie: in a folder of it, if that is how it was zipped."""
    inside = [place for place in sorted(folder.iterdir()) if place.is_dir() and not place.is_symlink()]
    return next((place for place in (folder, *inside) if intake.meant(place, names)), folder)


def _answer(request: bytes, isolated: bool, say: Callable[[str], None]) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of a worker, which is asked this one time."""
    try:
        with closing(Grader(versions(course_of()), isolated)) as grader:
            grader.start()
            if grader.weaker:
                say(f"WARNING: {grader.weaker}")
            answer, contents = unpack(grader.ask(request))
    except (Refused, Died) as problem:
        raise Failed(f"Nothing is graded: {str(problem).replace(AT_YOUR_RISK, UNPROTECTED)}") from None
    if not answer["ok"]:
        raise Failed(f"Nothing is graded: {answer['why']}")
    return answer, contents


def _outputs(notebook: bytes) -> Iterator[tuple[str, str]]:
    """What each graded cell says, as text."""
    for cell in json.loads(notebook)["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and about.get("grade"):
            texts = (_text(output) for output in cell["outputs"])
            yield about["grade_id"], without_colors("\n".join(text for text in texts if text))[:LONGEST]


def _text(output: dict[str, Any]) -> str:
    text = output.get("data", {}).get("text/plain") or output.get("text") or output.get("traceback") or ""
    return text if isinstance(text, str) else "".join(text)


def main(arguments: list[str]) -> int:
    """Grade what /autograder/submission holds."""
    folder = Path(arguments[0])
    try:
        results = grade(folder, print)
    except Failed as problem:  # no results.json: Gradescope says that the autograder failed, and gives no score
        print(problem)
        return 1
    (folder / "results" / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
