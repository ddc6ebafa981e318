"""Feedback pages: what of a student's reaches them, that it stays in its cell, and that there always is one."""

import base64
import faulthandler
import functools
import io
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.server_extensions.formgrader import handlers
from PIL import Image
from playwright.sync_api import Browser
from traitlets.config import Config

from autograder.pipeline import markup
from autograder.pipeline.cells import checked_name
from autograder.pipeline.feedback import FeedbackExporter, score_shown, write_index
from autograder.pipeline.markup import TAGS, Allowance
from autograder.pipeline.submission import read, restore
from autograder.pipeline.unit import POSSIBLE, Units
from autograder.verdict import not_judged
from tests import small_course
from tests.pages import words
from tests.test_markup import ESCAPES, OUTPUT_OF_CELL, PNG, TEX, Parsed, picture

REPOSITORY = Path(__file__).resolve().parents[1]


def cell(kind: str, source: str, grade_id: str = "", **about: object) -> NotebookNode:
    made = new_markdown_cell(source) if kind == "markdown" else new_code_cell(source)
    if grade_id:
        about = {"grade": False, "solution": False, "task": False, "locked": False, "points": 9.0, "score": 4.5} | about
        made.metadata.nbgrader = about | {"grade_id": grade_id}
    return made


def check_cell(name: str = "check") -> NotebookNode:
    made = cell("code", "check(First)", name, grade=True, locked=True)
    verdict = not_judged("First", "it raised ValueError: 1 < 2", ("line 3, in forward: x",))
    made.outputs = [new_output("display_data", {"text/plain": verdict.text(), "text/html": verdict.html()})]
    return made


def made(*cells: NotebookNode, late_penalty: float = 0.0) -> str:
    """A feedback page with these cells."""
    about = {"notebook": "layer_norm", "score": 9.0, "max_score": 18.0, "late_penalty": late_penalty}
    page, _ = FeedbackExporter().from_notebook_node(new_notebook(cells=list(cells)), {"nbgrader": about})
    return page


def page_around(prose: str, *outputs: NotebookNode) -> str:
    """A page with a check before and after what a student wrote and printed."""
    printing = cell("code", "show()", "own", solution=True)
    printing.outputs = list(outputs)
    answer = cell("markdown", prose, "prose", grade=True, solution=True)
    return made(check_cell(), answer, check_cell("check-between"), printing, check_cell("check-last"))


def displayed(data: str, mime: str = "text/html") -> NotebookNode:
    return new_output("display_data", {mime: data, "text/plain": "instead"})


# --- What reaches a page ---------------------------------------------------------------------------------------------


def test_a_page_runs_and_loads_nothing() -> None:
    outputs = [displayed(text, kind) for text in ESCAPES.values() for kind in ("text/html", "text/markdown")]
    outputs += [
        displayed("alert(1)", kind) for kind in ("application/javascript", "image/svg+xml", "application/x-evil")
    ]
    page = page_around("\n\n".join((*ESCAPES.values(), *TEX)), *outputs)
    parsed = Parsed(page.removeprefix("<!DOCTYPE html>"))
    ours = {"html", "head", "meta", "title", "style", "body", "header", "main", "section"}
    assert {tag for tag, _ in parsed.elements} <= TAGS.keys() | ours
    assert not [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")]
    assert parsed.open == []
    policy = next(a["content"] for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    allowed = {name: sources for name, *sources in (directive.split() for directive in policy.split(";"))}
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == ["'none'"]
    loaded = {source for name, sources in allowed.items() if name not in ("style-src",) for source in sources}
    assert loaded == {"'none'", "data:"}, "what stands in the page itself, and nothing that tells who reads it"
    assert not [name for name in allowed if "script" in name]


def test_pictures_pasted_into_an_answer_come_through(tmp_path: Path) -> None:
    answer = cell("markdown", "![mine](attachment:my%20picture.png) ![no](attachment:gone.png)", "prose", solution=True)
    answer.attachments = {"my picture.png": {"image/png": PNG}, "x.svg": {"image/svg+xml": "PHN2Zz4="}, "y": "odd"}
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(new_notebook() | {"cells": [answer]}))
    (restored,) = restore(read(path).cells, {"prose": cell("markdown", "released", "prose", solution=True)})
    assert restored.attachments == {"my picture.png": {"image/png": PNG}}
    page = made(restored)
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert "1 picture" not in page
    assert "A picture is left out" in page


@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/png", picture(100_000, 1_000)),
        ("image/jpeg", picture(20_000, 3_000, "JPEG")),
        ("image/png", base64.b64encode(b"<svg onload=alert(1)>").decode()),
        ("image/png", picture(kind="GIF")),
        ("image/svg+xml", PNG),
        ("image/png", PNG + "A" * markup.MAX_PICTURE),
        ("image/png", "=" * 1000),
        ("image/png", '" onerror="alert(1)'),
        ("image/png", "é"),
    ],
)
def test_what_is_no_picture_or_too_large_is_left_out(mime: str, data: str) -> None:
    assert markup.picture(mime, data, Allowance()) is None
    page = page_around("", new_output("display_data", {mime: data, "text/plain": "in words"}))
    assert "in words" in page
    assert "<img" not in page


@pytest.mark.parametrize("unit", ["word ", "<p>x</p>", "\x1b[31mx", "$x$ ", f"![x](data:image/png;base64,{PNG}) "])
@pytest.mark.parametrize("cells", [1, pytest.param(60, marks=pytest.mark.full)])
def test_a_page_has_a_bound_whatever_is_in_it(unit: str, cells: int) -> None:
    """60 cells with all that they may print made 60 MB of page; the verdicts come through in any case."""
    text = unit * (OUTPUT_OF_CELL // len(unit))
    outputs = [displayed(text), displayed(text, "text/markdown"), displayed(text, "text/latex")]
    outputs.append(new_output("stream", text=text))
    flooding = []
    for _ in range(cells):
        flooding.append(cell("code", text))
        flooding[-1].outputs = outputs
    page = made(*flooding, check_cell())
    allowed = Allowance()
    # Markup grows: what becomes of a formula of three characters, or of a colour, is the most.
    assert len(page) < 20 * (allowed.markup + allowed.text) + allowed.pictures
    assert "it raised ValueError: 1 < 2" in words(page)


# --- Formgrader ------------------------------------------------------------------------------------------------------


def test_formgrader_shows_no_more_than_a_page_does() -> None:
    """Its page is nbgrader's, with nbconvert's template; what is a student's goes through the course's own filters."""
    config = Config()
    exec((REPOSITORY / "nbgrader_config.py").read_text(), {"c": config, "__file__": REPOSITORY / "nbgrader_config.py"})
    answer = cell("markdown", "\n\n".join(("![x](attachment:x.png)", *TEX, *ESCAPES.values())))
    answer.attachments = {"x.png": {"image/png": PNG}}
    printing = cell("code", "a." * 20_000)
    printing.outputs = [displayed(text, kind) for text in ESCAPES.values() for kind in ("text/html", "text/markdown")]
    printing.outputs += [displayed("$x$", "text/markdown"), new_output("stream", text="\x1b[31m" * 100_000)]
    page, _ = HTMLExporter(config=config, template_name="basic").from_notebook_node(
        new_notebook(cells=[check_cell(), answer, printing])
    )
    assert f"data:image/png;base64,{PNG}" in page
    assert "it raised ValueError: 1 < 2" in words(page)
    assert "<math" in page
    assert "characters are left out" in page
    containers = re.findall(r'<div class="own".*?(?=<div class="(?:own|output|cell|input|prompt))', page, re.DOTALL)
    assert len(containers) > 50
    allowed = TAGS.keys() | {"div"}
    assert {tag for shown in containers for tag, _ in Parsed(shown, whole=False).elements} <= allowed
    assert not re.search(r"<[^>]*\s(?:on\w+|style=\"[^\"]*(?:position|z-index|url\())", page)


@pytest.mark.parametrize("where", ["student", "last_name"])
def test_a_name_that_is_html_is_text_in_formgrader(where: str) -> None:
    """Attack: the name of one's own choice in the LMS, which nbgrader's template prints as it is."""
    config = Config()
    exec((REPOSITORY / "nbgrader_config.py").read_text(), {"c": config, "__file__": REPOSITORY / "nbgrader_config.py"})
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    name = '"><img src=x onerror=alert(1)>'
    about = {"student": name, "last_name": None, "first_name": None, "notebook_path": f"/{name}/lab1/first.ipynb"}
    if where == "last_name":
        about |= {"last_name": name, "first_name": f"O'{name}"}
    about |= {"submission_id": "1", "assignment_id": "lab1", "notebook_id": "first", "index": 0, "total": 1}
    page, _ = HTMLExporter(config=config, template_name="formgrade").from_notebook_node(new_notebook(), about)
    assert name in words(page)
    assert not [tag for tag, attributes in Parsed(page, whole=False).elements if "onerror" in attributes]


def test_formgrader_shows_the_model_answer_below_a_students_prose() -> None:
    config = Config()
    exec((REPOSITORY / "nbgrader_config.py").read_text(), {"c": config, "__file__": REPOSITORY / "nbgrader_config.py"})
    config.CourseDirectory.root = str(REPOSITORY)
    (path,) = (REPOSITORY / "solutions" / "lab04_layer_norm").glob("*.ipynb")
    (model,) = (one for one in nbformat.read(path, as_version=4).cells if one.id == "prose-answer")
    answer = cell("markdown", "My own view.")
    answer.metadata.nbgrader = model.metadata.nbgrader
    exporter = HTMLExporter(config=config, template_name="basic")
    about = {"submission_id": "1", "assignment_id": "lab04_layer_norm", "notebook_id": path.stem}
    page, _ = exporter.from_notebook_node(new_notebook(cells=[answer, cell("markdown", "Later.")]), about)
    first_words = " ".join(words(markup.prose(model.source, Allowance())).split()[:12])
    said = " ".join(words(page).split())
    assert re.search(f"My own view\\. .*Model answer {re.escape(first_words)}.* Later\\.", said), said[-2000:]
    page, _ = exporter.from_notebook_node(new_notebook(cells=[answer]), {**about, "notebook_id": "gone"})
    assert "My own view" in page and "Model answer" not in page
    page, _ = exporter.from_notebook_node(new_notebook(cells=[answer]))
    assert "Model answer" not in page


# --- Whatever ends the making of a page ------------------------------------------------------------------------------


def obey(source: str, *_: object) -> None:
    if "# does " in source:
        faulthandler.disable()  # pytest's, which would print where it ended
        exec(source.split("# does ")[1], {"os": os, "time": time})


ENDS = {
    "abort": ("os.abort()", "SIGABRT"),
    "exit": ("os._exit(0)", "ended with status 0"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "encodes": ("'\\ud800'.encode()", "UnicodeEncodeError"),
    "unreadable": ("raise OSError('no picture')", "OSError"),
    "memory": ("bytes(10**11)", "MemoryError"),
    "asleep": ("time.sleep(60)", "took longer than 1 s"),
}


@pytest.mark.skipif(not POSSIBLE, reason="there are no units here")
@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_a_page_leaves_the_verdicts_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    line, said = ENDS[how]
    monkeypatch.setattr(markup, "code", obey)  # in place of a part that a student's text may one day break
    monkeypatch.setattr(Units, "_latest", {})  # for a unit that has it
    about = {"nbgrader": {"notebook": "layer_norm", "score": 9.0, "max_score": 18.0, "late_penalty": 0}}
    exporter = FeedbackExporter(page_s=1.0)
    for name, source in (("before", "x"), ("attack", f"# does {line}"), ("after", "x")):
        path = tmp_path / f"{name}.ipynb"
        nbformat.write(new_notebook(cells=[check_cell(), cell("code", source), cell("markdown", "own")]), path)
        page = words(exporter.from_filename(str(path), about)[0])
        assert "9 / 18" in page.replace(".0", "") and "it raised ValueError: 1 < 2" in page
        assert ("own" in page) == (name != "attack")
        broken = f"This page is not whole: the grader.*{said}.*It shows the verdicts only."
        assert bool(re.search(broken, page)) == (name == "attack"), page


def test_a_graded_notebook_that_cannot_be_read_leaves_the_score(tmp_path: Path) -> None:
    about = {"nbgrader": {"notebook": "layer_norm", "score": 9.0, "max_score": 18.0, "late_penalty": 0}}
    path = tmp_path / "layer_norm.ipynb"
    path.write_text("{" * 100)
    page = words(FeedbackExporter().from_filename(str(path), about)[0])
    assert "(Score: 9.0 / 18.0)" in page and "It shows the score only." in page
    with pytest.raises(RuntimeError, match="the grader itself failed"):
        FeedbackExporter().from_filename(str(tmp_path / "missing.ipynb"), about)


def test_points_that_nobody_has_given_yet_are_not_shown_as_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = small_course.make(tmp_path, monkeypatch)
    small_course.give(course, "ann", None)
    config = Config(FeedbackExporter={"preprocessors": ["autograder.pipeline.feedback.ReadGrades"]})
    about = {"notebook": "first", "assignment": "lab1", "student": "ann", "db_url": f"sqlite:///{course}/gradebook.db"}
    page = tmp_path / "ann" / "lab1" / "first.html"
    page.parent.mkdir(parents=True)

    def shown() -> str:
        cells = [cell("markdown", "Because.", "check", grade=True, locked=True)]
        made, _ = FeedbackExporter(config=config).from_notebook_node(new_notebook(cells=cells), {"nbgrader": {**about}})
        page.write_text(made, encoding="utf-8")
        write_index(tmp_path / "ann")
        return words(made)

    text = shown()
    assert "(Score: 0.0 / 10.0, 10.0 not graded yet)" in text and "Not graded yet (of 10.0)" in text and "ann" in text
    assert score_shown(page) == (0.0, 10.0)
    assert "0.0 (10.0 not graded yet)" in words((tmp_path / "ann" / "index.html").read_text(encoding="utf-8"))
    with small_course.book(course) as gradebook:
        grade: Any = gradebook.find_grade("check", "first", "lab1", "ann")
        grade.manual_score, grade.needs_manual_grade = 0.0, False
        gradebook.db.commit()
    text = shown()
    assert text.count("Score: 0.0 / 10.0") == 3 and "not graded" not in text.lower()
    assert score_shown(page) == (0.0, 0.0)


def test_a_page_says_what_being_late_cost() -> None:
    assert "Late submission penalty (Score: -1.5)" in words(made(check_cell(), late_penalty=1.5))
    assert "penalty" not in words(made(check_cell()))


def test_what_a_page_links_to_within_is_on_it() -> None:
    """Its list leads to each graded cell and to each comment, whatever the cells are called."""
    named = [cell("markdown", "Because.", name, grade=True, solution=True, comment="Why?") for name in ("own", "ä 1")]
    page = Parsed(made(check_cell(), *named))
    given = [about for _, about in page.elements]
    links = {unquote(about["href"][1:]) for about in given if about.get("href", "").startswith("#")}
    assert links == {"top", "check", "own", "comment-own", "ä 1", "comment-ä 1"}
    assert links <= {about.get("id") for about in given}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"text/html": "<b>html</b>", "text/markdown": "*md*", "text/latex": "$x$"}, "<b>html</b>"),
        ({"text/markdown": "*md*", "text/latex": "$x$", "image/png": PNG}, "<em>md</em>"),
        ({"text/latex": "$x$", "image/png": PNG}, "<math"),
        (
            {"image/png": PNG, "image/jpeg": picture(kind="JPEG")},
            '<img alt="A picture that this cell shows" src="data:image/png',
        ),
        ({"image/jpeg": picture(kind="JPEG")}, 'src="data:image/jpeg;base64,'),
        ({"application/x-own": "{}"}, "<pre>instead</pre>"),
    ],
)
def test_an_output_is_shown_in_its_richest_form(data: dict[str, str], shown: str) -> None:
    forms = ("<b>html</b>", "<em>md</em>", "<math", "<img", "<pre>instead</pre>")
    page = page_around("", new_output("display_data", {**data, "text/plain": "instead"}))
    assert shown in page
    assert [form for form in forms if page_around("").count(form) < page.count(form)] == [
        form for form in forms if shown.startswith(form) or (form == "<img" and "data:" in shown)
    ]


def test_of_a_long_error_its_end_is_shown_and_of_what_is_printed_its_beginning() -> None:
    lines = [f"line {n}" for n in range(markup.MAX_TEXT // 5)]
    error = new_output("error", ename="ValueError", evalue="no", traceback=lines)
    page = words(page_around("", error))
    assert lines[-1] in page and lines[1] + "\n" not in page and "characters before these are left out." in page
    page = words(page_around("", new_output("stream", text="\n".join(lines))))
    assert lines[1] + "\n" in page and lines[-1] not in page and "characters are left out." in page


def test_a_page_says_whose_each_cell_is_and_what_it_earned() -> None:
    comment = "Look at **q**."
    task = cell("markdown", "Draw it.", "drawing", task=True, points=3.0, score=2.0)
    prose = cell("markdown", "Because.", "why", grade=True, solution=True, comment=comment, points=4.0, score=None)
    code = cell("code", "def f(): ...", "f", solution=True)
    empty, mine = new_markdown_cell(" \n"), nbformat.v4.new_raw_cell("raw <b>")
    page = made(check_cell(), task, prose, code, empty, mine)
    lines = [
        " ".join(words(line.replace("<", " <")).split())
        for line in re.findall(r"<(?:li|h2)\b.*?</(?:li|h2)>", page, re.DOTALL)
    ]
    assert lines == [
        "check Score: 4.5 / 9.0",
        "drawing Score: 2.0 / 3.0",
        "why Not graded yet (of 4.0)",
        "Comment",
        "Grade cell: check Score: 4.5 / 9.0 (Top)",
        "Student's task Score: 2.0 / 3.0 (Top)",
        "Student's answer Not graded yet (of 4.0) (Top)",
        "Student's answer (Top)",
    ]
    assert "Comments:" in page and "<strong>q</strong>" in page
    assert page.count("<section") == 5 and "raw <b>" in words(page), "an empty cell is left out"
    assert page.count('<div class="verdict">') == 1 == page.count("it raised ValueError: 1 &lt; 2")


# --- In a browser --------------------------------------------------------------------------------------------------

# Whatever of the page is not inside a container: where it is, beside what, and how large unless it holds a container.
OUTSIDE = """() => {
    const box = (element) => element.getBoundingClientRect();
    const found = [...document.querySelectorAll('body *')].filter((element) => !element.closest('.own'));
    const sections = [...document.querySelectorAll('section')];
    const style = (element) => { const s = getComputedStyle(element); return [s.color, s.backgroundColor, s.font]; };
    const seen = {
        width: document.documentElement.scrollWidth,
        elements: found.map((element) => [
            element.tagName, element.id, element.className, box(element).x, box(element).width, ...style(element),
            element.querySelector('.own') ? null : box(element).height,
        ]),
        gaps: sections.slice(1).map((section, i) => Math.round(100 * (box(section).top - box(sections[i]).bottom))),
        tallest: Math.max(...[...document.querySelectorAll('.own')].map((own) => box(own).height)),
        containers: document.querySelectorAll('section > .own, .verdict > .own, .output > .own').length,
        title: document.title,
    };
    for (const section of sections)  // on whole pixels, where all are drawn alike
        section.style.marginTop = `${16 + Math.ceil(box(section).top) - box(section).top}px`;
    return seen;
}"""


def inside(screenshot: bytes) -> np.ndarray:
    """The pixels of a picture but for its edge, which parts of pixels above it can move."""
    return np.asarray(Image.open(io.BytesIO(screenshot)).convert("RGB"))[4:-4, 4:-4]


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two pictures are the same but for two rows: what lies on half a pixel is drawn on either side of it."""
    return one.shape == other.shape and (one != other).any(axis=(1, 2)).sum() <= 2


class Seen:
    """A page in a browser: what is outside of the containers, how it looks, and what was asked of the network."""

    def __init__(self, browser: Browser, file: Path, page: str, width: int, scheme: str) -> None:
        file.write_text(page, encoding="utf-8")
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        try:
            asked: list[str] = []
            session = tab.context.new_cdp_session(tab)
            session.on("Network.requestWillBeSent", lambda event: asked.append(event["request"]["url"]))
            session.send("Network.enable")
            dialogs: list[str] = []
            tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
            tab.goto(file.as_uri())
            self.outside = tab.evaluate(OUTSIDE)
            self.tallest = self.outside.pop("tallest")
            parts = tab.locator("header, section:has(.verdict)")
            self.looks = [inside(parts.nth(i).screenshot()) for i in range(parts.count())]
            self.asked = [url for url in asked if not url.startswith("data:") and url != file.as_uri()]
            self.dialogs, self.address = dialogs, tab.url
        finally:
            tab.close()


@functools.cache
def untouched(browser: Browser, width: int, scheme: str) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        return Seen(browser, Path(folder, "page.html"), page_around("x", displayed("x")), width, scheme)


@pytest.mark.parametrize(("width", "scheme"), [(380, "light"), (1400, "dark")])
@pytest.mark.parametrize("attack", [*ESCAPES, "formulas"])
def test_nothing_leaves_its_cell(browser: Browser, tmp_path: Path, attack: str, width: int, scheme: str) -> None:
    """The rest of the page is where it was and looks as it did."""
    source = ESCAPES.get(attack, "\n\n".join(TEX))
    file = tmp_path / "page.html"
    harmless = untouched(browser, width, scheme)
    attacked = Seen(browser, file, page_around(source, displayed(source)), width, scheme)
    assert attacked.asked == []
    assert attacked.dialogs == []
    assert attacked.address == file.as_uri()
    assert attacked.tallest <= 60 * 16
    assert attacked.outside == harmless.outside
    assert attacked.outside["width"] == width
    assert len(attacked.looks) == len(harmless.looks) > 2
    assert all(map(alike, attacked.looks, harmless.looks))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_can_be_read_on_a_phone(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """A whole lab at 380 px: nothing is wider, and text stands out against what is behind it."""
    (path,) = (REPOSITORY / "solutions" / "lab04_layer_norm").glob("*.ipynb")
    lab = nbformat.read(path, as_version=4)
    verdict = check_cell()
    for given_cell in lab.cells:
        if "nbgrader" in given_cell.metadata:
            given_cell.metadata.nbgrader |= {"score": 1.0, "points": 2.0}
            if checked_name(given_cell):
                given_cell.outputs = verdict.outputs
    file = tmp_path / "page.html"
    file.write_text(made(*lab.cells), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 380, "height": 800}, color_scheme=scheme)
    try:
        tab.goto(file.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 380
        for score in tab.locator(".score").all():
            place = score.bounding_box()
            assert place is not None
            assert place["x"] >= 0
            assert place["x"] + place["width"] <= 380
        # Browsers themselves let the keyboard reach what scrolls.
        rules = {"scrollable-region-focusable": {"enabled": False}}
        found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa"], "rules": rules})
        assert found.violations_count == 0, found.generate_report()
    finally:
        tab.close()
