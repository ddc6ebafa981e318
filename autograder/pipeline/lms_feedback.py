"""Packs feedback pages for Canvas and Moodle, under the names by which these find whose each is."""

import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from autograder.pipeline.course import Failed
from autograder.pipeline.files import replacing
from autograder.pipeline.lms_submissions import handed_in_by, in_order


def pack(course: Path, lab: str, source: Path, to: Path | None, say: Callable[[str], None]) -> list[str]:
    """Write a zip with the feedback pages of those whose hand-ins an export has.

    Each page is called as the student's hand-in is in the export, up to the name of the student's own file, with the
    numbers by which the LMS knows them; then comes NOTEBOOK.html.

    Args:
        course: the course folder.
        lab: whose pages.
        source: the export of its submissions: a zip, or the folder that it gives.
        to: the zip to write; build/feedback-LAB.zip if None.
        say: called with a line for what is to be known.

    Returns:
        whose page is not in it, and why.

    Raises:
        Failed: there is no such lab, no roster, no page, or nothing that can be read.
    """
    to = to or course / "build" / f"feedback-{lab}.zip"
    pages: dict[str, Path] = {}
    with handed_in_by(course, lab, source) as (_, pieces, left_out):
        missing = list(left_out)
        for student, of_student in sorted(pieces.items()):
            found = sorted((course / "feedback" / student / lab).glob("*.html"))
            if not found:
                missing.append(f"{student}: no page in feedback/{student}/{lab}; make grade writes it")
            named = {piece.name: piece.before for piece in in_order(of_student)}
            for page in found:
                before = named.get(f"{page.stem}.ipynb") or in_order(of_student)[-1].before
                if before.startswith("/") or ".." in PurePosixPath(before).parts:
                    missing.append(f"{student}: the export's name for the hand-in leads out of the zip")
                else:
                    pages[before + page.name] = page
    if not pages:
        raise Failed(f"There is nothing to pack. {'; '.join(missing[:3])}")
    to.parent.mkdir(parents=True, exist_ok=True)
    with replacing(to) as fresh, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, page in sorted(pages.items()):
            archive.write(page, name)
    say(f"{len(pages)} pages in {to}.")
    return missing
