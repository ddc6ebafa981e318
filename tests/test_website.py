"""What build.py gives Sphinx: which pages, their links and pictures, and what notebooks show without a Jupyter."""

import ast
import base64
import io
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from headroom.scale import VARIABLE
from website import build

REPOSITORY = Path(__file__).resolve().parents[1]
LECTURE = "lectures/02_attention_scores.ipynb"
LAB = "labs/lab02_multi_head/multi_head.ipynb"
CHOSEN = [LECTURE, LAB, "docs/architecture.md", "docs/students.md", "CONTRIBUTING.md", "benchmarks/results/grader.md"]
UP = "../"


@pytest.fixture
def book(tmp_path: Path) -> build.Book:
    return build.Book(tmp_path, CHOSEN)


def test_every_notebook_and_document_is_a_page_and_what_students_read_comes_first() -> None:
    found = build.pages()
    patterns = ("lectures/*.ipynb", "labs/*/*.ipynb", "docs/*.md", "benchmarks/results/*.md")
    wanted = {path.relative_to(REPOSITORY).as_posix() for one in patterns for path in REPOSITORY.glob(one)}
    assert len(found) == len(set(found))
    assert set(found) == wanted | {"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
    documents = [page for page in found if page.startswith("docs/")]
    assert documents[:2] == ["docs/start-here.md", "docs/students.md"] and documents[2:] == sorted(documents[2:])
    lectures = [page for page in found if page.startswith("lectures/")]
    assert lectures == sorted(lectures) == found[: len(lectures)]


def test_a_page_of_the_courses_own_folder_is_among_the_documents() -> None:
    assert [build.place(page) for page in ("SECURITY.md", "docs/faq.md", LAB)] == [
        "docs/SECURITY.md",
        "docs/faq.md",
        LAB,
    ]
    assert {build.place(page).split("/")[0] for page in build.pages()} == set(build.SECTIONS), "each is in a section"


# --- Links and pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("The-Judge's-Phases", "#the-judges-phases"),
        ("Further:%20Masks", "#furthermasks"),
        ("a_b-c", "#a_b-c"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_anchor_is_written_as_myst_makes_it(written: str | None, expected: str) -> None:
    assert build.anchor(written) == expected


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("docs/architecture.md", "[a](students.md) and [b](students.md)", "[a](students.md) and [b](students.md)"),
        ("docs/architecture.md", "[a](../CONTRIBUTING.md)", "[a](CONTRIBUTING.md)"),
        ("docs/architecture.md", f"[a](../{LECTURE}#Masks!)", f"[a](../{LECTURE}#masks)"),
        ("CONTRIBUTING.md", "[a](docs/students.md#Handing-in)", "[a](students.md#handing-in)"),
        (LECTURE, f"[a](../{LAB})", f"[a](../{LAB})"),
        (LECTURE, "[a](03_multi_head_self_attention.ipynb)", "a"),
        ("docs/architecture.md", "[a](glossary.md), [b](../headroom/lab.py)", "a, b"),
        ("docs/architecture.md", "[a](../../elsewhere.md)", "a"),
        ("docs/architecture.md", "[a](#The-Tables)", "[a](#the-tables)"),
        ("docs/architecture.md", "[a](https://example.org/A#B)", "[a](https://example.org/A#B)"),
        ("docs/architecture.md", "`[a](b.md)` and\n```\n[a](b.md)\n```\n", "`[a](b.md)` and\n```\n[a](b.md)\n```\n"),
        ("docs/architecture.md", "[`a`](students.md)", "[`a`](students.md)"),
        ("docs/architecture.md", "![a](course_map.png)", "![a](course_map.png)"),
        ("index.ipynb", "[a](lectures/index.md)", "[a](lectures/index.md)"),
    ],
)
def test_a_link_leads_to_a_page_of_the_website_or_is_none(
    book: build.Book, page: str, text: str, expected: str
) -> None:
    assert book.linked(text, page) == expected


def test_a_documents_pictures_are_laid_beside_it(book: build.Book, tmp_path: Path) -> None:
    text = book.pictured("![The map](docs/course_map.png), ![b](https://example.org/b.png)", "CONTRIBUTING.md")
    assert text == "![The map](course_map.png), ![b](https://example.org/b.png)"
    laid = tmp_path / "source" / "docs" / "course_map.png"
    assert laid.read_bytes() == (REPOSITORY / "docs" / "course_map.png").read_bytes()


def test_what_has_not_changed_is_not_written_again(book: build.Book, tmp_path: Path) -> None:
    book.write("docs/a.md", "text")
    path = tmp_path / "source" / "docs" / "a.md"
    os.utime(path, (1, 1))
    book.write("docs/a.md", "text")
    assert path.stat().st_mtime == 1 and path in book.written
    book.write("docs/a.md", "other")
    assert path.read_text() == "other"


# --- What a notebook shows -------------------------------------------------------------------------------------------


def shown(book: build.Book, data: dict, states: dict | None = None) -> list[str]:
    """The HTML or Markdown of what remains of an output."""
    made = book.shown(new_output("display_data", data), states or {}, UP, LECTURE)
    return ["".join(one.data.get("text/html") or one.data.get("text/markdown") or "") for one in made]


QUESTION = {
    "question": "Is 1 < 2?",
    "answers": [
        {"answer": "Yes & no", "correct": False, "feedback": "It is <one> of them."},
        {"answer": "Yes", "correct": True, "feedback": "It is."},
    ],
}


def test_a_question_unfolds_what_is_to_be_said_of_each_answer(book: build.Book) -> None:
    script = f"var questionsAbc = {json.dumps([QUESTION])};\nlet more = 1;\n"
    [made] = shown(book, {"application/javascript": script})
    assert "<p>Is 1 &lt; 2?</p>" in made and "let more" not in made
    answers = re.findall(r"<details><summary>(.*?)</summary><p>(.*?)</p></details>", made)
    assert answers == [("Yes &amp; no", "✗ Not so. It is &lt;one&gt; of them."), ("Yes", "✓ Right. It is.")]


@pytest.mark.parametrize(
    "data",
    [
        {"application/javascript": "element.closest('.jp-OutputArea');"},
        {"text/html": "<style>.MCButton {}</style>"},
        {"text/html": '<div data-shufflequestions="False"></div>'},
        {build.VIEW: {"model_id": "unknown"}},
    ],
    ids=["script", "style", "quiz", "lost widget"],
)
def test_what_needs_a_jupyter_is_left_out(book: build.Book, data: dict) -> None:
    assert shown(book, data) == []


def test_printed_lines_and_other_markup_stay(book: build.Book) -> None:
    printed = new_output("stream", name="stdout", text="12\n")
    assert list(book.shown(printed, {}, UP, LECTURE)) == [printed]
    assert shown(book, {"text/html": "<table></table>"}) == ["<table></table>"]
    assert shown(book, {"text/markdown": f"[a](../{LAB}), [b](../SECURITY.md)"}) == [f"[a](../{LAB}), b"]


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "png")
    return file.getvalue()


def test_a_figure_becomes_a_file_for_which_the_page_leaves_room(book: build.Book, tmp_path: Path) -> None:
    picture = png(400, 100)
    data = base64.b64encode(picture).decode()
    markup = (
        f'<figure><img alt="A line" width="200" style="max-width: 100%" src="data:image/png;base64,{data}"></figure>'
    )
    [made] = shown(book, {"text/html": markup})
    [file] = (tmp_path / "extra" / "_figures").iterdir()
    assert file.read_bytes() == picture
    assert made == (
        '<figure><img alt="A line" width="200" height="50" style="max-width: 100%" loading="lazy" '
        f'src="../_figures/{file.name}"></figure>'
    )


def kept(**more) -> dict:
    """A widget as a notebook keeps it."""
    state = {"_esm": "export default {};", "_css": "a {}", "_model_name": "AnyModel", "_view_module": "anywidget"}
    buffers = [{"path": ["_facts", "weights"], "encoding": "base64", "data": "AAEC"}]
    state |= {"layer": 1, "_facts": {"rows": 2}} | more
    return {"model_module": "anywidget", "state": state, "buffers": buffers}


def test_a_widgets_state_and_front_end_are_scripts_that_fill_its_place(book: build.Book, tmp_path: Path) -> None:
    states = {"one": kept(), "two": kept(layer=0), "bar": kept() | {"model_module": "@jupyter-widgets/controls"}}
    assert shown(book, {build.VIEW: {"model_id": "bar"}}, states) == [], "a progress bar"
    places = [shown(book, {build.VIEW: {"model_id": one}}, states)[0] for one in ("one", "two")]
    names = [re.search(r'data-widget="(\w+)"', place)[1] for place in places]
    scripts = [re.findall(r'<script defer src="\.\./_widgets/(\w+)\.js">', place) for place in places]
    front_end = scripts[0][0]
    assert scripts == [[front_end, names[0]], [front_end, names[1]]] and names[0] != names[1], (
        "the front end comes first"
    )
    folder = tmp_path / "extra" / "_widgets"
    assert (
        folder / f"{front_end}.js"
    ).read_text() == f'headroom.frontEnd("{front_end}", "export default {{}};", "a {{}}");\n'
    called, state = re.fullmatch(
        r"headroom\.widget\((.*?, .*?), (\{.*\})\);\n", (folder / f"{names[0]}.js").read_text()
    ).groups()
    assert called == f'"{names[0]}", "{front_end}"'
    assert json.loads(state) == {"layer": 1, "_facts": {"rows": 2, "weights": {"$bytes": "AAEC"}}}


def test_a_notebook_is_laid_with_its_links_outputs_and_folded_cells(book: build.Book, tmp_path: Path) -> None:
    hidden = new_code_cell("ask('…')", metadata={"jupyter": {"source_hidden": True}})
    hidden.outputs = [new_output("display_data", {"text/html": "<style></style>"})]
    cells = [new_markdown_cell("[a](03_multi_head_self_attention.ipynb)"), hidden, new_code_cell("1 + 1")]
    notebook = new_notebook(cells=cells, metadata={"widgets": {build.STATE: {"state": {}}}})
    book.lay_notebook(LECTURE, LECTURE, notebook)
    laid = nbformat.read(tmp_path / "source" / LECTURE, as_version=4)
    assert laid.cells[0].source == "a" and laid.cells[1].outputs == []
    assert [cell.metadata.get("tags") for cell in laid.cells[1:]] == [["hide-input"], None]
    assert "widgets" not in laid.metadata


# --- The whole -------------------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course: a lecture, a lab, two documents, and a module of the package."""
    root = tmp_path / "course"
    texts = {"docs/students.md": "# For students\n", "SECURITY.md": "# Security\n", "headroom/one.py": "1\n"}
    for name in ("lectures/00_start.ipynb", "labs/lab01_first/first.ipynb"):
        texts[name] = nbformat.writes(
            new_notebook(cells=[new_code_cell("1", id="one"), new_markdown_cell("", id="two")])
        )
    for name, text in (texts | {"constraints.txt": "torch==2\n"}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(build, "COURSE", root)
    return root


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In the place of kernels and of Sphinx: what was run."""
    done: list[str] = []

    class Client:
        def __init__(self, notebook, **options):
            self.notebook, self.options = notebook, options

        def execute(self, env):
            done.append(self.options["resources"]["metadata"]["path"])
            self.notebook.cells[0].outputs = [new_output("stream", name="stdout", text=f"run {len(done)}")]

    monkeypatch.setattr(build, "NotebookClient", Client)
    monkeypatch.setattr(build.Book, "run_sphinx", lambda book: done.append("Sphinx"))
    return done


def test_lectures_and_the_home_page_are_run_and_labs_are_shown_as_they_are(
    course: Path, ran: list, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for left in ("source/docs/gone.md", "extra/_figures/gone.png", "executed/kept.ipynb"):
        (out / left).parent.mkdir(parents=True, exist_ok=True)
        (out / left).touch()
    build.Book(out, build.pages()).build()
    assert ran == [str(course), str(course / "lectures"), "Sphinx"]
    laid = {path.relative_to(out / "source").as_posix() for path in (out / "source").rglob("*.*")}
    pages = {"lectures/00_start.ipynb", "labs/lab01_first/first.ipynb", "docs/students.md", "docs/SECURITY.md"}
    assert laid == pages | {"index.ipynb", *(f"{section}/index.md" for section in build.SECTIONS)}
    assert not (out / "extra" / "_figures" / "gone.png").exists() and (out / "executed" / "kept.ipynb").exists()
    home = nbformat.read(out / "source" / "index.ipynb", as_version=4)
    assert home.cells[1].metadata.tags == ["remove-input"] and "DigitPad(" in home.cells[1].source
    assert "{{" not in home.cells[0].source + home.cells[2].source.split("```{{toctree")[0]
    hidden = re.search(r"```\{toctree\}\n:hidden:\n\n(.*?)\n```", home.cells[-1].source, re.DOTALL)[1]
    assert hidden.split("\n") == [f"{section}/index" for section in build.SECTIONS]
    documents = (out / "source" / "docs" / "index.md").read_text()
    assert documents.startswith("# Documents\n\nFor students") and documents.endswith("\n\nstudents\nSECURITY\n```\n")
    assert "toctree" not in (out / "source" / "benchmarks" / "index.md").read_text(), "it has no page here"


def test_a_lecture_runs_again_when_it_or_what_it_uses_has_changed(
    course: Path, ran: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    book, name = build.Book(tmp_path / "out", []), "lectures/00_start.ipynb"

    def run(source: str = "1") -> str:
        return book.executed(name, new_notebook(cells=[new_code_cell(source, id="one")])).cells[0].outputs[0].text

    assert [run(), run()] == ["run 1", "run 1"]
    (course / "headroom" / "__pycache__").mkdir()
    (course / "headroom" / "__pycache__" / "one.pyc").touch()
    assert run() == "run 1" and "as it ran before" in capsys.readouterr().out
    (course / "headroom" / "one.py").write_text("2\n")
    assert run() == "run 2"
    (course / "headroom" / "one.py").rename(course / "headroom" / "two.py")
    assert run() == "run 3"
    (course / "constraints.txt").write_text("torch==3\n")
    assert run() == "run 4"
    assert run("2") == "run 5"
    monkeypatch.setenv(VARIABLE, "full" if os.environ.get(VARIABLE) == "small" else "small")
    assert run("2") == "run 6"
    assert len(list((tmp_path / "out" / "executed").iterdir())) == 1, "what was kept before is gone"


@pytest.mark.parametrize(
    ("problem", "status", "said"),
    [
        (None, 0, ""),
        (CellExecutionError("The cell raised", "NameError", "x"), 1, "The cell raised"),
        (KeyboardInterrupt(), 130, "run the same command again"),
    ],
)
def test_the_command_builds_what_is_named_and_says_how_it_ended(
    problem: BaseException | None, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    built = []

    def make(book: build.Book) -> None:
        built.append((book.out, list(book.sources)))
        if problem is not None:
            raise problem

    monkeypatch.setattr(build.Book, "build", make)
    assert build.main([str(REPOSITORY / LECTURE), "--out", "somewhere"]) == status
    assert built == [(Path("somewhere").resolve(), [LECTURE])] and said in capsys.readouterr().err
    if not status:
        assert build.main([]) == 0
        assert built[1] == (REPOSITORY / "build" / "book", build.pages())


def test_what_is_no_page_is_refused(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        build.main([str(REPOSITORY / "README.md")])
    assert "no page of the website: README.md" in capsys.readouterr().err


@pytest.mark.parametrize("status", [0, 2])
def test_a_warning_of_sphinx_is_an_error(
    status: int, book: build.Book, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    asked: list[list[str]] = []
    module = ModuleType("sphinx.cmd.build")
    module.main = lambda options: asked.append(options) or status
    for name, one in {
        "sphinx": ModuleType("sphinx"),
        "sphinx.cmd": ModuleType("cmd"),
        "sphinx.cmd.build": module,
    }.items():
        monkeypatch.setitem(sys.modules, name, one)
    if status:
        with pytest.raises(SystemExit) as ended:
            book.run_sphinx()
        assert ended.value.code == status
    else:
        book.run_sphinx()
    said = capsys.readouterr().out
    assert ("The website is in" in said) == (not status)
    [options] = asked
    assert {"-W", "--keep-going"} <= set(options) and options[-2:] == [
        str(book.out / one) for one in ("source", "html")
    ]
    assert options[options.index("-c") + 1] == str(REPOSITORY / "website")
    assert f"html_extra_path={book.out / 'extra'}" in options and (book.out / "extra").is_dir()


def test_sphinx_runs_nothing_and_its_pages_fetch_nothing() -> None:
    """What conf.py says, read without Sphinx."""
    tree = ast.parse((REPOSITORY / "website" / "conf.py").read_text(encoding="utf-8"))
    said = SimpleNamespace(
        **{one.targets[0].id: ast.literal_eval(one.value) for one in tree.body if isinstance(one, ast.Assign)}
    )
    assert said.nb_execution_mode == "off" and said.nb_ipywidgets_js == {} and said.html_math_renderer == "mathml"
    assert said.myst_heading_anchors >= 4 and {"dollarmath", "amsmath"} <= set(said.myst_enable_extensions)
    assert said.html_context["default_mode"] == "auto", "the reader's own theme"
    static = REPOSITORY / "website" / "static"
    scripts = [name for name, _ in said.html_js_files]
    assert {*said.html_css_files, *scripts, Path(said.html_favicon).name} <= {path.name for path in static.iterdir()}
    assert "look.css" in said.html_css_files and "host.js" in scripts and said.html_static_path == ["static"]
    assert all(options == {"defer": "defer"} for _, options in said.html_js_files), (
        "in the order of the widgets' scripts"
    )
    assert "CC BY-SA 3.0" in said.copyright and "MIT" in said.copyright
