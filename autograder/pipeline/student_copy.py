"""Makes what students get of a course: a folder and a zip, without solutions, tests and what is for instructors."""

import re
import shutil
import zipfile
from pathlib import Path

from autograder.course import course_of
from autograder.pipeline import labs
from autograder.pipeline.course import Failed

FOLDER = "build/headroom-students"
# Of Markdown files, what stands between these marks is for instructors and contributors.
NOT_FOR_STUDENTS = re.compile(r"<!-- not for students -->.*?<!-- for students -->\n*", re.DOTALL)
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "*.pyc", "node_modules")


def make(course: Path, target: Path | None = None) -> tuple[Path, Path]:
    """Copy what the course's pyproject.toml lists under `students`, and its labs, to a folder, and zip it.

    Args:
        course: the course folder.
        target: the folder, which is made anew, but for what is hidden in it, such as the environment of those who
            work with it; build/headroom-students in the course if None.

    Returns:
        the folder and the zip beside it.

    Raises:
        Failed: the course lists nothing, or something that is not there; or the folder holds something else.
    """
    about = course_of(course)
    if not about.students:
        raise Failed(f"{about.folder / 'pyproject.toml'} does not say what students get, as students = [...].")
    target = target or course / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    before = [path for path in target.iterdir() if not path.name.startswith(".")]
    if before and not (target / about.students[0]).exists():
        raise Failed(f"{target} holds something else. Name a new folder.")
    for path in before:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    made = [f"labs/{lab}" for lab in labs.names(course)]
    for name in (*about.students, *made):
        source, to = course / name, target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, to, ignore=shutil.ignore_patterns(*LEFT_OUT, *(["feedback"] * (name in made))))
        elif source.is_file():
            shutil.copy2(source, to)
        elif name in made:
            raise Failed(f"There is no {name}: make labs makes it.")
        else:
            raise Failed(f"{about.folder / 'pyproject.toml'} lists {name!r} for students, which is not there.")
    for page in (*target.glob("*.md"), *target.glob("docs/*.md")):
        page.write_text(NOT_FOR_STUDENTS.sub("", page.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
    zipped = target.with_name(f"{target.name}.zip")
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(target.rglob("*")):
            within = path.relative_to(target)
            if path.is_file() and not within.parts[0].startswith("."):
                archive.write(path, f"{target.name}/{within.as_posix()}")
    return target, zipped
