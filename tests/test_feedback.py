"""Feedback pages: what of a student's reaches them, that it stays in its cell, and that nothing makes them endless."""

import base64
import faulthandler
import functools
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image
from playwright.sync_api import Browser
from traitlets.config import Config

from autograder.pipeline import markup
from autograder.pipeline.execute import checked_name
from autograder.pipeline.feedback import FeedbackExporter, write_index
from autograder.pipeline.markup import CONTAINER, MAX_SPANNED, OWN_CLASSES, STYLES, TAGS, Allowance
from autograder.pipeline.submission import read, restore
from autograder.pipeline.unit import POSSIBLE
from autograder.verdict import Difference, Picture, Result, Verdict, not_judged
from tests.pages import words

REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUT_OF_CELL = 1_000_000  # characters; what JudgedExecute lets through


def picture(width: int = 4, height: int = 4, kind: str = "PNG") -> str:
    """A small picture as base64."""
    file = io.BytesIO()
    Image.new("1" if kind == "PNG" else "L", (width, height)).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


PNG = picture()
# Attempts to leave a cell, in HTML that is as good in Markdown.
ESCAPES = {
    "fixed": '<div style="position:fixed;top:0;left:0;width:100vw;height:100vh;background:#f00;z-index:99999">x</div>',
    "half a declaration": '<p style="color:red{;position:fixed">x</p><p style="margin:c(;position:fixed">x</p>',
    "absolute": '<div style="position:absolute;top:-900px;left:0;background:#f00">Score: 18.0 / 18.0</div>',
    "margins": '<div style="margin:-900px -900px 0 -900px;background-color:#f00;padding:900px">15.0 / 18.0</div>',
    "bottom margin": '<p style="margin-bottom:-4000px;background-color:#f00;padding:2000px">x</p>',
    "collapsing": '<div style="margin:-5000px 0"></div><p style="margin:5000px 0">x</p>',
    "huge font": '<p style="font-size:99999px;color:#f00">x</p>',
    "transform": '<p style="transform:translateY(-900px) scale(99);filter:invert(1);color:#f00">x</p>',
    "float": '<div style="float:left;height:5000px;width:100%;background-color:#f00">x</div>',
    "wide": '<table style="min-width:99999px;background-color:#f00" width="99999"><tr><td width=99999>x</table>',
    "outline": '<p style="outline:9999px solid red;box-shadow:0 0 0 9999px red;border:9999px solid #f00">x</p>',
    "style": "<style>* { color: red !important; display: none } @import url(//evil.test/x)</style>",
    "style in svg": "<svg><style>h1{color:red}</style><foreignObject><div style='position:fixed'>x</div></svg>",
    "style in math": "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=alert(1)>--></style></math>",
    "base": "<base href='https://evil.test/' target='_blank'><a href='x'>x</a>",
    "host": "<a href='//evil.test/share'>x</a><a href='\\\\evil.test\\share'>x</a><a href=' /\t/evil.test'>x</a>",
    "form": "<form action='https://evil.test/'><input name=password autofocus><button>Log in</button></form>",
    "refresh": "<meta http-equiv=refresh content='0;url=https://evil.test/'>",
    "link": "<link rel=stylesheet href='https://evil.test/x.css'><link rel=prefetch href='https://evil.test/x'>",
    "picture": "<img src='https://evil.test/x.png'><img srcset='https://evil.test/x.png 1x'><picture>",
    "background": "<td background='https://evil.test/x'><p style='background:url(https://evil.test/x)'>x</p>",
    "list style": "<ul style='list-style:url(https://evil.test/x)'><li style='list-style-image:url(//evil)'>x",
    "variable": "<p style='--ink:red;color:var(--paper);border:1px solid var(--late)'>x</p>",
    "frames": "<iframe srcdoc='<script>alert(1)</script>'></iframe><object data=x></object><embed src=x><video src=x>",
    "script": "<script>document.body.innerHTML=''</script><img src=x onerror='document.body.remove()'>",
    "closing": "</div></div></section></main></body></html><h1>layer_norm (Score: 18.0 / 18.0)</h1>",
    "unclosed": "<table><tr><td><b><i><a href='#top'><div><details><summary><p><ul><li><pre>",
    "not closed at all": "<p title='<div",
    "comment": "<!-- <p>--!> <![CDATA[ <? <!DOCTYPE html><plaintext>",
    "raw text": "<title><textarea><noscript><xmp><noembed><template><select><option>x",
    "fake cell": "<section class='cell of-interest'><h2 id='check' class='panel score'>Score: 9.0 / 9.0</h2></section>",
    "own ids": "<p id='check'>x</p><a name='top'>x</a><p id='top'>x</p>",
    "tooltip": "<p title='Score: 18 of 18' tabindex=1 accesskey=x contenteditable draggable=true>x</p>",
    "popover": "<div popover id=p>x</div><button popovertarget=p>x</button><dialog open>18.0 / 18.0</dialog>",
    "formula": "<math><mspace width='-9999em'/><mpadded voffset='900em' width='-900em'><mi>x</mi></mpadded></math>",
    "formula's style": "<math style='position:fixed'><mrow href='javascript:alert(1)' class='score'><mi>x</mi></math>",
    "huge spans": "<table><tr><td colspan=99999 rowspan=99999>x</td></tr></table>",
    "right to left": "\u202e\u2067 score <bdo dir=rtl>x</bdo>",
    "marks": "x" + "\u0300" * 400,
    "one line": "<p style='white-space:nowrap'>" + "x" * 20_000,
}
TEX = [
    r"$\style{position:fixed}{x}\class{score}{y}\href{javascript:alert(1)}{z}\colorbox{red}{x}$",
    r"$\text{<script>alert(1)</script>}\text{</math><img src=x onerror=alert(1)>}\unicode{x}$",
    r"$$\kern{-9999em}\raise{900em}{x}\rule{9999em}{9999em}\hspace{-9999em}x$$",
]
# Little text that takes some converters minutes, up to what a cell may hold or print.
SLOW_MARKDOWN = [
    "\\begin{a}", "\\begin{a}\n", "$", "$$ ", "$x$ ", "\\\\(", "$${", "[", "![[](", "*a_ ", "**a *b ", "> ", "- ",
    "1. ", "`a``b```", "<", '<a x="', "&", "|", "|a|\n|-|\n", "[a]: u\n", "[a](", "[a](<b", "a\n=", "a\n-", "~~a~",
    "\\", "<b>", "<div>\n", "<!--", "<?", "<![CDATA[", "\t", "# ", "[^1]: a\n", "_", "http://a.", "\n",
    "```\n~~~\n", "$\\frac", "${$", "<b title=1>", "<table>", "</p>", "<p><b>", "<li>", "\x00",
    "![a](attachment:b) ", "data:image/png;base64,",
]  # fmt: skip
SLOW_HTML = [
    "<b>", "<div>", "<p>", "<table>", "<td>", "<a href=x>", "<b><p>", "<i><b><a><em>", "<ul><li>", "<details>", "</p>",
    "<!--", "<", "<a ", "<p style='", "&", "<math><mi>", "<svg>", "<select>", "<pre>\n", "<table><b>", "\x00", "a=b ",
    "<table><tr><td rowspan=9>", "<tr><td colspan=1000 rowspan=65534>",
]  # fmt: skip
SLOW_TEXT = ["\x1b[m", "\x1b[31m", "\x1b[38;5;1m", "\x1b[1;31;42m", "\x1b[", "\x1b[" + "1;" * 99, "<", "\n", "x", "\r"]
SLOW_CODE = [
    "'",
    '"',
    '"""',
    "'''\\\n",
    "\\",
    'f"{',
    "(",
    "a.",
    "a?",
    " \n",
    "#",
    "1",
    '"\\N{',
    "é",
    "\x00",
    "\t",
    "rb",
]


# --- Pages -------------------------------------------------------------------------------------------------------


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


def made(*cells: NotebookNode) -> str:
    """A feedback page with these cells."""
    about = {"notebook": "layer_norm", "score": 9.0, "max_score": 18.0, "late_penalty": 0}
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


class Parsed(HTMLParser):
    """The elements of a page, with their attributes, and what stays open."""

    VOID = frozenset({"meta", "img", "br", "hr"})

    def __init__(self, text: str, whole: bool = True) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.whole = whole
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.whole:
            return
        assert self.open, f"</{tag}> closes what a student did not open"
        assert self.open.pop() == tag


def look_over(shown: str) -> None:
    """Everything in it is on the list of what is allowed, and it ends where it began."""
    assert shown.startswith(f'<div class="own" style="{CONTAINER}">')
    parsed = Parsed(shown)
    assert parsed.open == []
    spans = [int(about[name]) for _, about in parsed.elements for name in ("colspan", "rowspan") if name in about]
    assert sum(spans) <= MAX_SPANNED
    for tag, attributes in parsed.elements[1:]:
        if attributes.get("class") == "own":
            assert attributes["style"] == CONTAINER
            continue
        assert tag in TAGS
        for name, value in attributes.items():
            match name:
                case "style":
                    assert {rule.split(":")[0].strip() for rule in value.split(";") if rule} <= STYLES
                case "class":
                    ansi = all(word.startswith("ansi-") for word in value.split())
                    assert value == "note" or ansi or set(value.split()) <= OWN_CLASSES[tag]
                case "src":
                    assert re.fullmatch(r"data:image/(png|jpeg|gif);base64,[A-Za-z0-9+/=]+", value)
                case "href":
                    assert re.match(r"https?:|mailto:|(?!\s*[/\\]\s*[/\\])[^:]*([/?#]|$)", value)
                case "rel":
                    assert value == "noopener noreferrer"
                case _:
                    assert name in TAGS[tag]


# --- What is allowed, and nothing else -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", [*ESCAPES.values(), *TEX], ids=[*ESCAPES, *map(str, range(len(TEX)))])
def test_only_what_is_allowed_gets_out_of_an_attack(source: str) -> None:
    look_over(markup.prose(source, Allowance()))
    look_over(markup.latex(source, Allowance()))
    look_over(markup.text(source, Allowance()))
    shown = markup.html_output(source, Allowance())
    assert shown is not None
    look_over(shown)


PIECES = st.sampled_from(
    [piece for text in (*ESCAPES.values(), *TEX) for piece in re.findall(r"<[^>]*>?|[^<]+", text[:500])]
    + [*SLOW_MARKDOWN, *SLOW_HTML, *SLOW_TEXT, "\n\n", "    ", "`", "\\", "'", '"', ">", "=", "/>", "</math>", "</div>"]
)


@settings(deadline=None, max_examples=200)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_only_what_is_allowed_gets_out_of_any_mixture(source: str) -> None:
    look_over(markup.prose(source, Allowance()))
    look_over(markup.latex(source, Allowance()))
    look_over(markup.text(source, Allowance()))
    assert Parsed(markup.code(source, Allowance())).open == []
    if (shown := markup.html_output(source, Allowance())) is not None:
        look_over(shown)


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
    assert "default-src 'none'" in policy
    assert "script" not in policy


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


# --- What is kept --------------------------------------------------------------------------------------------------


def test_a_verdict_comes_through_whole() -> None:
    shown = Picture("result", ((1.0, 2.0), (3.0, 4.0)), ((1.0, -2.0), (3.0, float("nan"))))
    difference = Difference("ordinary values", "[0, 1]", "2.0", "-2.0", "All differ.", picture=shown)
    verdict = Verdict("First", "no", (Result("a `b` < c", 1.0, False),), difference=difference, printed="<x>").html()
    kept = markup.html_output(verdict, Allowance())
    assert kept is not None

    def elements(text: str) -> list:
        return [
            (tag, {name: re.sub(r"[\s;]|\b0(?=\.)", "", value) for name, value in attributes.items()})
            for tag, attributes in Parsed(text).elements
        ]

    assert elements(kept)[1:] == elements(verdict)
    assert words(kept) == words(verdict)


def test_every_formula_of_the_course_becomes_mathml() -> None:
    seen = 0
    for folder in ("lectures", "solutions"):
        for path in sorted((REPOSITORY / folder).rglob("*.ipynb")):
            for given_cell in nbformat.read(path, as_version=4).cells:
                if given_cell.cell_type != "markdown":
                    continue
                shown = markup.prose(given_cell.source, Allowance())
                formulas = re.findall(r"<math.*?</math>", shown, re.DOTALL)
                seen += len(formulas)
                assert not [formula for formula in formulas if re.search(r"[\\$]|</?m(?:error|enclose)", formula)], path
                # No dollar and no backslash is left outside of code.
                prose = re.sub(r"<(code|pre|math)\b.*?</\1>", "", str(shown), flags=re.DOTALL)
                assert not re.search(r"\$|\\[a-z]", prose), (path, prose)
    assert seen > 500


@pytest.mark.parametrize(
    "source", ["$x$ costs 3", "a $x$ b $y$ c", "> $x$ and $y$\n> $$z$$", "- a\n\n  $$x$$\n\n- $y$"]
)
def test_formulas_are_found_where_jupyterlab_finds_them(source: str) -> None:
    assert markup.prose(source, Allowance()).count("<math") == len(re.findall(r"\$+[xyz]\$+", source))


@pytest.mark.parametrize("source", ["`$x$`", "```\n$x$\n```", r"\$x\$", "3 $", "$$", "$$ $$", "    $x$", "\\begin{a}"])
def test_what_is_no_formula_stays_text(source: str) -> None:
    assert "<math" not in markup.prose(source, Allowance())


def test_a_formula_over_several_lines_is_one() -> None:
    shown = markup.prose("Text\n$$\n\\begin{aligned}\na &= b \\\\\n- c &= d\n\\end{aligned}\n$$\nmore", Allowance())
    assert shown.count("<math") == 1
    assert "<li>" not in shown


def test_an_unreadable_formula_is_shown_as_it_stands() -> None:
    assert r"<code>\frac{</code>" in markup.prose(r"a $\frac{$ b", Allowance())


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


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_pictures_in_html_and_markdown_come_through(kind: str) -> None:
    address = f"data:image/{kind.lower()};base64,{picture(kind=kind)}"
    assert address in markup.prose(f"![x]({address})", Allowance())
    assert address in str(markup.html_output(f'<figure><img alt="x" src="{address}"></figure>', Allowance()))


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


def test_pictures_are_bounded_in_sum() -> None:
    allowance = Allowance(pictures=3 * len(PNG))
    shown = [markup.picture("image/png", PNG, allowance) for _ in range(5)]
    assert [one is not None for one in shown] == [True, True, True, False, False]


# --- Bounds --------------------------------------------------------------------------------------------------------


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


def test_cells_of_tables_span_few_others_in_sum() -> None:
    """A few thousand that span 65,534 rows each take a browser more than a minute and gigabytes."""
    honest = "<table><tr><th rowspan=30>a</th><td colspan=4>b</td></tr></table>" * 5
    shown = markup.html_output(honest, Allowance())
    assert shown is not None and shown.count('rowspan="30"') == shown.count('colspan="4"') == 5
    look_over(markup.html_output("<table>" + "<tr><td rowspan=99 colspan=٣ rowspan=-1>" * 3_000, Allowance()) or "")


def test_text_says_what_is_missing() -> None:
    shown = words(markup.text("a" * 30_000, Allowance()))
    assert "10,000 characters are left out" in shown
    assert shown.endswith("a" * 20_000)
    assert words(markup.text("x" * 30_000 + "the end", Allowance(), end=True)).endswith("the end")


def test_too_much_markup_is_shown_as_text() -> None:
    assert "<td>" not in markup.prose("<table>" + "<td>" * 20_000, Allowance())
    assert markup.html_output("<b title=1>" * 800 + "<p>" * 800, Allowance()) is None


SLOW = """
import sys
from autograder.pipeline import markup
from tests import test_feedback as t
n = t.OUTPUT_OF_CELL
for unit in t.SLOW_MARKDOWN:
    markup.prose((unit * n)[:markup.MAX_MARKDOWN], markup.Allowance()), markup.prose((unit * n)[:n], markup.Allowance())
for unit in t.SLOW_HTML:
    for much in (markup.MAX_HTML, n):
        markup.html_output((unit * n)[:much], markup.Allowance())
    markup.html_output(unit * (markup.MAX_TAGS // max(1, unit.count("<"))), markup.Allowance())
many = " ".join(f"a{i}=1" for i in range(60_000))
markup.html_output(f"<p {many[:190_000]}>x", markup.Allowance())
markup.html_output("".join(f"<b title={i}>" for i in range(350)) + "<p>" * 350, markup.Allowance())
for unit in t.SLOW_TEXT:
    markup.text((unit * n)[:n], markup.Allowance())
for unit in t.SLOW_CODE:
    markup.code((unit * n)[:n], markup.Allowance())
for unit in ("{", "\\\\frac{", "x_", "\\\\left(", "\\\\sqrt{", "&", "'", "\\\\begin{matrix}", "\\\\overset{a}", "^"):
    markup.mathml((unit * n)[:markup.MAX_TEX]), markup.latex((unit * n)[:n], markup.Allowance())
"""


@pytest.mark.full
def test_nothing_takes_for_ever() -> None:
    """All of it takes seconds; each alone took minutes, or did not end."""
    subprocess.run([sys.executable, "-c", SLOW], cwd=REPOSITORY, check=True, timeout=300)


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


def graded_page(folder: Path, lab: str, name: str, score: str) -> Path:
    path = folder / lab / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<h1>{name} <span class="score">(Score: {score})</span></h1></html>', encoding="utf-8")
    return path


def test_a_student_has_one_list_of_all_pages(tmp_path: Path) -> None:
    student = tmp_path / "Zoë <b>"
    graded_page(student, "lab1", "masks", "3.5 / 8.0")
    graded_page(student, "lab2", "a & b", "-1.0 / 5.0")
    (student / "lab2" / "part.html").write_text("cut off", encoding="utf-8")
    write_index(student)
    index = student / "index.html"
    text = index.read_text(encoding="utf-8")
    assert "<b>" not in text
    rows = [words(row).strip() for row in re.sub("</t[hd]>", " ", text).split("<tr>")[2:]]
    assert rows == ["lab1 masks 3.5 8.0", "lab2 a & b -1.0 5.0", "lab2 part – –", "Sum 2.5 13.0"]
    links = re.findall('href="([^"]*)"', text)
    assert all((student / unquote(link)).is_file() for link in links) and len(links) == 3


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_list_of_pages_can_be_read_on_a_phone(browser: Browser, tmp_path: Path, scheme: str) -> None:
    for lab in ("lab02_multi_head", "lab03_positional_encoding"):
        graded_page(tmp_path, lab, lab[6:], "3.5 / 13.0")
    write_index(tmp_path)
    tab = browser.new_page(viewport={"width": 380, "height": 800}, color_scheme=scheme)
    try:
        tab.goto((tmp_path / "index.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 380
        found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa"]})
        assert found.violations_count == 0, found.generate_report()
        tab.get_by_role("link", name="multi_head").click()
        assert "Score: 3.5" in tab.content()
    finally:
        tab.close()


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
