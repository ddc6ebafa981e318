"""Builds the website: the course to read, with widgets that live without Python, and a pad on its home page.

    python -m website.build                          everything, into build/book/html
    python -m website.build lectures/02*.ipynb       the home page and these pages alone

Lectures are executed once, and again when they or the package change; what they showed is kept beside the pages. Then
Sphinx makes pages of them. Nothing is fetched, now or by whoever reads the pages.
"""

import argparse
import base64
import hashlib
import html
import json
import os
import re
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headroom.lab import STATE_VARIABLE, environment
from headroom.scale import scale

HERE = Path(__file__).parent
COURSE = HERE.resolve().parent
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
SECTIONS = {
    "lectures": ("Lectures", "Each as it ran from top to bottom; its widgets go on working here."),
    "labs": ("Labs", "To read here. They are filled in, and checked, in JupyterLab: `make lab`."),
    "docs": ("Documents", "For students, instructors and contributors."),
    "benchmarks": ("Measurements", "What the benchmarks found, each with its command."),
}
DOCUMENTS = ("docs/start-here.md", "docs/students.md", "docs/*.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
MEASUREMENTS = "benchmarks/results/*.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)\s#]*)(?:#([^)]*))?\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
FIGURE = re.compile(r'width="(?P<width>\d+)"(?P<style>[^>]*?) src="data:image/png;base64,(?P<png>[^"]+)"')
PAD = """
from headroom.data import embedded_digits
from headroom.pretrained import pretrained_vit
from headroom.widgets import DigitPad

digits = embedded_digits()
DigitPad(pretrained_vit(), digits.val_images[:20], digits.val_labels[:20])
"""


def main(arguments: list[str] | None = None) -> int:
    """Build it, and return the exit status."""
    parser = argparse.ArgumentParser(description="Build the course's website.")
    parser.add_argument("pages", nargs="*", type=Path, help="notebooks and documents; all of them when none is named")
    parser.add_argument("--out", type=Path, default=COURSE / "build" / "book", help="the folder to build in")
    chosen = parser.parse_args(arguments)
    named = {page.resolve().relative_to(COURSE).as_posix() for page in chosen.pages}
    unknown = sorted(named - set(pages()))
    if unknown:
        parser.error(f"no page of the website: {', '.join(unknown)}")
    try:
        Book(chosen.out.resolve(), [page for page in pages() if not named or page in named]).build()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped: run the same command again and it goes on where it was.", file=sys.stderr)
        return 130
    return 0


def pages() -> list[str]:
    """Every page but the home page, as paths within the course."""
    patterns = ("lectures/*.ipynb", "labs/*/*.ipynb", *DOCUMENTS, MEASUREMENTS)
    found = [path.relative_to(COURSE).as_posix() for pattern in patterns for path in sorted(COURSE.glob(pattern))]
    return list(dict.fromkeys(found))


class Book:
    """The website in the making.

    Args:
        out: takes `executed/` (kept from build to build), `source/` and `extra/` (what Sphinx is given), and `html/`.
        chosen: of `pages()`, those that are in it.
    """

    def __init__(self, out: Path, chosen: list[str]) -> None:
        self.out = out
        self.sources = {page: place(page) for page in chosen}
        self.written: set[Path] = set()

    def build(self) -> None:
        """Execute what has changed, lay out the sources, and run Sphinx on them."""
        text, _, more = (HERE / "home.md").read_text(encoding="utf-8").partition("{{ pad }}")
        pad = new_code_cell(PAD.strip(), id="pad", metadata={"tags": ["remove-input"]})
        home = new_notebook(cells=[new_markdown_cell(text, id="what"), pad, new_markdown_cell(more, id="course")])
        self.lay_notebook("index.ipynb", "index.ipynb", self.executed("index.ipynb", home))
        for page, source in self.sources.items():
            if page.endswith(".md"):
                text = (COURSE / page).read_text(encoding="utf-8")
                self.write(source, self.pictured(self.linked(text, page), page))
                continue
            notebook = nbformat.read(COURSE / page, as_version=4)
            self.lay_notebook(page, source, self.executed(page, notebook) if page.startswith("lectures/") else notebook)
        self.lay_indexes()
        for old in {*self.files("source"), *self.files("extra")} - self.written:
            old.unlink()
        self.run_sphinx()

    def files(self, folder: str) -> Iterator[Path]:
        """All files of a folder."""
        return (path for path in (self.out / folder).rglob("*") if path.is_file())

    def write(self, source: str, text: str | bytes, folder: str = "source") -> None:
        """Write a file that Sphinx is given, unless it is there already: what has not changed is not read again."""
        path = self.out / folder / source
        data = text.encode() if isinstance(text, str) else text
        self.written.add(path)
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    # ------------------------------------------------ execution
    def executed(self, name: str, notebook: NotebookNode) -> NotebookNode:
        """The notebook with its outputs: those of the last time, if neither it nor the package has changed since."""
        made_of = [nbformat.writes(notebook), scale(), self.package()]
        key = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
        kept = self.out / "executed" / f"{name.replace('/', '-').removesuffix('.ipynb')}-{key}.ipynb"
        if kept.is_file():
            print(f"{name}: as it ran before", flush=True)
            return nbformat.read(kept, as_version=4)
        print(f"{name}: runs ...", end="", flush=True)
        start = time.monotonic()

        def tell(cell: NotebookNode, cell_index: int) -> None:
            if sys.stdout.isatty():
                print(f"\r{name}: cell {cell_index + 1} of {len(notebook.cells)}", end="", flush=True)

        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            extra_arguments=["--IPKernelApp.log_level=40"],
            store_widget_state=True,
            on_cell_start=tell,
            resources={"metadata": {"path": str((COURSE / name).parent)}},
        )
        # Whoever builds the pages may be a student, too: their own progress does not go into them.
        client.execute(env=os.environ | environment(COURSE) | {STATE_VARIABLE: str(self.out / "nobody")})
        print(f"\r{name}: ran in {time.monotonic() - start:.0f} s        ", flush=True)
        for old in kept.parent.glob(f"{kept.stem.removesuffix(key)}*"):
            old.unlink()
        kept.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, kept)
        return notebook

    def package(self) -> str:
        """A digest of what lectures import, and of the versions that they run with."""
        digest = hashlib.sha256((COURSE / "constraints.txt").read_bytes())
        for path in sorted((COURSE / "headroom").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    # ------------------------------------------------ from notebooks to sources
    def lay_notebook(self, page: str, source: str, notebook: NotebookNode) -> None:
        """Write a notebook as Sphinx takes it: links to pages, figures as files, widgets as places to be filled."""
        up = "../" * source.count("/")
        states: dict[str, Any] = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self.linked(cell.source, page)
            else:
                if cell.metadata.get("jupyter", {}).get("source_hidden"):
                    cell.metadata["tags"] = ["hide-input"]
                cell.outputs = [one for output in cell.outputs for one in self.shown(output, states, up, page)]
        notebook.metadata.pop("widgets", None)
        self.write(source, nbformat.writes(notebook))

    def shown(self, output: NotebookNode, states: dict[str, Any], up: str, page: str) -> Iterator[NotebookNode]:
        """An output as a page without Jupyter shows it, if it shows anything."""
        data = output.get("data", {})
        text = "".join(data.get("text/html", ""))
        if VIEW in data:
            if place := self.widget(data[VIEW]["model_id"], states, up):
                yield new_output("display_data", {"text/html": place})
        elif "application/javascript" in data:
            asked = re.match(r"\s*var questions\w+\s*=\s*(\[.*\]);\n", "".join(data["application/javascript"]))
            if asked:  # the rest of what jupyterquiz writes would be 37 kB for each question
                yield new_output("display_data", {"text/html": "".join(map(question, json.loads(asked[1])))})
        elif "data-shufflequestions" in text or text.startswith("<style>"):
            return
        elif text:
            output.data = {"text/html": FIGURE.sub(self.figure(up), text)}
            yield output
        else:
            if "text/markdown" in data:
                output.data = {"text/markdown": self.linked("".join(data["text/markdown"]), page)}
            yield output

    def figure(self, up: str) -> Any:
        """Replaces a picture within a page by a file of its own, for which the page leaves room until it is loaded."""

        def replace(match: re.Match[str]) -> str:
            png = base64.b64decode(match["png"])
            name = f"_figures/{hashlib.sha256(png).hexdigest()[:16]}.png"
            self.write(name, png, "extra")
            width, height = struct.unpack(">II", png[16:24])
            shown = round(int(match["width"]) * height / width)
            return f'width="{match["width"]}" height="{shown}"{match["style"]} loading="lazy" src="{up}{name}"'

        return replace

    def widget(self, identity: str, states: dict[str, Any], up: str) -> str:
        """The place of one of the course's widgets, and the scripts that fill it; nothing for a progress bar."""
        kept = states.get(identity)
        if kept is None or kept["model_module"] != "anywidget":
            return ""
        state = {name: value for name, value in kept["state"].items() if not name.startswith(("_model_", "_view_"))}
        for buffer in kept.get("buffers", []):
            *path, last = buffer["path"]
            holder: Any = state
            for step in path:
                holder = holder[step]
            holder[last] = {"$bytes": buffer["data"]}
        esm, css = state.pop("_esm"), state.pop("_css")
        front_end = hashlib.sha256((esm + css).encode()).hexdigest()[:12]
        self.write(f"_widgets/{front_end}.js", call("frontEnd", front_end, esm, css), "extra")
        data = json.dumps(state, sort_keys=True)
        name = hashlib.sha256((front_end + data).encode()).hexdigest()[:12]
        self.write(f"_widgets/{name}.js", call("widget", name, front_end, state), "extra")
        scripts = "".join(f'<script defer src="{up}_widgets/{one}.js"></script>' for one in (front_end, name))
        return f'<div class="headroom-mount" data-widget="{name}"></div>{scripts}'

    def linked(self, text: str, page: str) -> str:
        """A page's text, whose links lead to pages of the website; those that lead elsewhere are taken out."""
        folder = (COURSE / page).parent

        def lead(match: re.Match[str]) -> str:
            words, path, heading = match.groups()
            if not path:
                return f"[{words}]({anchor(heading)})"
            target = Path(os.path.normpath(folder / path))
            if page == "index.ipynb":
                return match[0]
            source = self.sources.get(target.relative_to(COURSE).as_posix()) if target.is_relative_to(COURSE) else None
            if source is None:
                return words
            return f"[{words}]({os.path.relpath(source, Path(self.sources[page]).parent)}{anchor(heading)})"

        code = re.compile(r"(```.*?```|`[^`\n]*`(?!\]))", re.DOTALL)
        parts = code.split(text)
        return "".join(part if code.fullmatch(part) else LINK.sub(lead, part) for part in parts)

    def pictured(self, text: str, page: str) -> str:
        """A document's text, whose pictures are those of the course, laid beside it."""

        def lay(match: re.Match[str]) -> str:
            words, path = match.groups()
            target = Path(os.path.normpath((COURSE / page).parent / path))
            name = target.relative_to(COURSE).as_posix()
            self.write(name, target.read_bytes())
            return f"![{words}]({os.path.relpath(name, Path(self.sources[page]).parent)})"

        return PICTURE.sub(lay, text)

    def lay_indexes(self) -> None:
        """Write each section's list of pages, and hang the sections under the home page."""
        for section, (title, sentence) in SECTIONS.items():
            own = [source for source in self.sources.values() if source.startswith(f"{section}/")]
            listed = "\n".join(os.path.relpath(source, section).rsplit(".", 1)[0] for source in own)
            contents = f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n" if own else ""
            self.write(f"{section}/index.md", f"# {title}\n\n{sentence}\n\n{contents}")
        home = nbformat.read(self.out / "source" / "index.ipynb", as_version=4)
        listed = "\n".join(f"{section}/index" for section in SECTIONS)
        home.cells[-1].source += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
        self.write("index.ipynb", nbformat.writes(home))

    def run_sphinx(self) -> None:
        """Make pages of the sources; a warning, such as of a link that leads nowhere, is an error."""
        from sphinx.cmd.build import main as sphinx

        print("Sphinx makes the pages ...", flush=True)
        options = ["-b", "html", "-c", HERE, "-d", self.out / "doctrees", "-D", f"html_extra_path={self.out / 'extra'}"]
        (self.out / "extra").mkdir(exist_ok=True)
        options += ["-q", "-W", "--keep-going", self.out / "source", self.out / "html"]
        status = sphinx([str(one) for one in options])
        if status:
            raise SystemExit(status)
        print(f"The website is in {self.out / 'html'}; python -m http.server -d {self.out / 'html'} shows it.")


def place(page: str) -> str:
    """Where a page's source lies: documents from the course's own folder are among the others."""
    return page if "/" in page else f"docs/{page}"


def anchor(written: str | None) -> str:
    """A heading's anchor as MyST makes it, from one that is written for JupyterLab or for GitHub."""
    return "#" + re.sub(r"[^\w-]", "", unquote(written).lower()) if written else ""


def call(function: str, *arguments: Any) -> str:
    """A script that calls one of static/host.js's functions."""
    return f"headroom.{function}({', '.join(map(json.dumps, arguments))});\n"


def question(asked: dict[str, Any]) -> str:
    """One of a lecture's questions, whose answers unfold what is to be said of them."""
    answers = "".join(
        f"<details><summary>{html.escape(one['answer'])}</summary>"
        f"<p>{'✓ Right.' if one['correct'] else '✗ Not so.'} {html.escape(one['feedback'])}</p></details>"
        for one in asked["answers"]
    )
    return f'<div class="headroom-question"><p>{html.escape(asked["question"])}</p>{answers}</div>'


if __name__ == "__main__":
    sys.exit(main())
