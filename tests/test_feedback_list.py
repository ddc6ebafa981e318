"""The list of a student's feedback pages, and whom pages and list say they are for."""

import os
import re
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_notebook
from playwright.sync_api import Browser
from traitlets.config import Config

from autograder.pipeline.feedback import FeedbackExporter, write_index
from autograder.pipeline.people import called
from tests import small_course
from tests.pages import words
from tests.test_markup import Parsed


def graded_page(folder: Path, lab: str, name: str, score: str) -> Path:
    path = folder / lab / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<h1>{name} <span class="score">(Score: {score})</span></h1></html>', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("Ada", "Lovelace", "Ada Lovelace (ann)"),
        (None, "<b>O'Hara", "<b>O'Hara (ann)"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}Ada", "", "_Ada (ann)"),
        (None, None, "ann"),
    ],
)
def test_a_page_and_the_list_say_whom_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str | None, last: str | None, shown: str
) -> None:
    course = small_course.make(tmp_path, monkeypatch)
    small_course.give(course, "ann", 3.0)
    with small_course.book(course) as gradebook:
        gradebook.update_or_create_student("ann", first_name=first, last_name=last)
        name = called(gradebook.find_student("ann"))
    config = Config(FeedbackExporter={"preprocessors": ["autograder.pipeline.feedback.ReadGrades"]})
    about = {"notebook": "first", "assignment": "lab1", "student": "ann", "db_url": f"sqlite:///{course}/gradebook.db"}
    page, _ = FeedbackExporter(config=config).from_notebook_node(new_notebook(), {"nbgrader": about})
    index = graded_page(tmp_path / "ann", "lab1", "first", "3.0 / 10.0").parents[1] / "index.html"
    write_index(tmp_path / "ann")
    write_index(tmp_path / "ann", name)  # whose name has become known since
    text = index.read_text(encoding="utf-8")
    assert f"{shown}, lab1" in words(page) and f"Feedback for {shown}\n" in words(text)
    assert "<b>" not in page + text


def test_a_student_has_one_list_of_all_pages(tmp_path: Path) -> None:
    student = tmp_path / "Zoë <b>"
    graded_page(student, "lab1", "masks", "3.5 / 8.0")
    graded_page(student, "lab2", "a & b", "-1.0 / 5.0")
    (student / "lab2" / "part.html").write_text("cut off", encoding="utf-8")
    write_index(student)
    index = student / "index.html"
    text = index.read_text(encoding="utf-8")
    assert "<b>" not in text
    (policy,) = (a["content"] for _, a in Parsed(text, whole=False).elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'") and "script" not in policy
    rows = [words(row).strip() for row in re.sub("</t[hd]>", " ", text).split("<tr>")[2:]]
    assert rows == ["lab1 masks 3.5 8.0", "lab2 a & b -1.0 5.0", "lab2 part – –", "Sum 2.5 13.0"]
    links = re.findall('href="([^"]*)"', text)
    assert all((student / unquote(link)).is_file() for link in links) and len(links) == 3


def test_one_page_has_no_sum(tmp_path: Path) -> None:
    graded_page(tmp_path, "lab1", "masks", "3.5 / 8.0")
    write_index(tmp_path)
    assert "Sum" not in words((tmp_path / "index.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("template", ["feedback", "index", "report"])
def test_each_page_names_its_language_fits_a_phone_and_tells_no_other_where_it_was(template: str) -> None:
    """What each template of a page holds, whatever it shows; who follows a link is not followed."""
    page = (files("autograder.report") if template == "report" else files("autograder.pipeline")).joinpath(
        "page.html.j2" if template == "report" else f"{template}.html.j2"
    )
    parsed = Parsed(page.read_text(encoding="utf-8"), whole=False)
    tags = [tag for tag, _ in parsed.elements]
    named = {about["name"]: about["content"] for tag, about in parsed.elements if tag == "meta" and "name" in about}
    assert dict(parsed.elements)["html"] == {"lang": "en"}
    assert named == {"viewport": "width=device-width, initial-scale=1", "referrer": "no-referrer"}
    assert [tag for tag in ("title", "main", "h1") if tag not in tags] == (["h1"] if template == "index" else [])
    (policy,) = (about["content"] for _, about in parsed.elements if about.get("http-equiv"))
    parts = {name: sources for name, *sources in (part.split() for part in policy.split(";"))}
    pictures = {"img-src": ["data:"]} if template == "feedback" else {}
    nothing = {name: ["'none'"] for name in ("default-src", "base-uri", "form-action")}
    assert parts == nothing | {"style-src": ["'unsafe-inline'"]} | pictures


def test_a_list_is_written_again_where_a_page_is_new_or_gone(tmp_path: Path) -> None:
    first, index = graded_page(tmp_path, "lab1", "masks", "3.5 / 8.0"), tmp_path / "index.html"
    write_index(tmp_path)
    os.utime(first, ns=(1, 1))
    index.chmod(0o444)
    before = index.stat().st_mtime_ns
    write_index(tmp_path)
    assert index.stat().st_mtime_ns == before
    graded_page(tmp_path, "lab1", "masks", "4.5 / 8.0")
    os.utime(first, ns=(before + 10**9,) * 2)
    write_index(tmp_path)
    assert "4.5" in index.read_text(encoding="utf-8")
    graded_page(tmp_path, "lab2", "heads", "1.0 / 2.0")
    write_index(tmp_path)
    assert "heads" in index.read_text(encoding="utf-8")
    first.unlink()
    write_index(tmp_path)
    assert "masks" not in index.read_text(encoding="utf-8")
    (tmp_path / "lab2" / "heads.html").unlink()
    write_index(tmp_path)
    assert not index.exists()


def test_an_index_that_a_full_disk_cut_off_is_written_anew(tmp_path: Path) -> None:
    graded_page(tmp_path, "lab1", "masks", "3.5 / 8.0")
    write_index(tmp_path)
    index = tmp_path / "index.html"
    whole = index.read_bytes()
    for cut_off in (whole[:-20], "…".encode()[:2]):
        index.write_bytes(cut_off)
        write_index(tmp_path)
        assert index.read_bytes() == whole


# Words that stand on more than one line; a name has words between its underscores.
BROKEN_WORDS = r"""() => {
    const found = [];
    const texts = document.createTreeWalker(document.querySelector('table'), NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode()); )
        for (const word of text.data.matchAll(/[^\s_]+/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) found.push(word[0]);
        }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_list_of_pages_can_be_read_on_a_phone(browser: Browser, tmp_path: Path, scheme: str) -> None:
    for lab in ("lab02_multi_head", "lab03_positional_encoding"):
        graded_page(tmp_path, lab, lab[6:], "3.5 / 13.0, 3.0 not graded yet")
    write_index(tmp_path)
    tab = browser.new_page(viewport={"width": 380, "height": 800}, color_scheme=scheme)
    try:
        tab.goto((tmp_path / "index.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 380
        assert tab.evaluate(BROKEN_WORDS) == []
        found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa"]})
        assert found.violations_count == 0, found.generate_report()
        tab.get_by_role("link", name="multi_head").click()
        assert "Score: 3.5" in tab.content()
    finally:
        tab.close()
