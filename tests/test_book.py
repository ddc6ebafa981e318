"""The website: its home page, a lecture, a lab and documents, built at the small scale and looked at in Chromium.

Where HEADROOM_BOOK names a folder in which `make book` has built, such as build/book, all of that is crawled instead.
"""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.widgets import Widget

pytest.importorskip("myst_nb", reason="what makes the website is not installed: make book does that")
pytest.importorskip("pydata_sphinx_theme")

pytestmark = pytest.mark.full
REPOSITORY = Path(__file__).resolve().parents[1]
LECTURE = "lectures/02_attention_scores"  # with a widget, questions, formulas and figures
PAGES = ("index", LECTURE, "docs/architecture")
OTHERS = ("labs/lab02_multi_head/multi_head.ipynb", "docs/architecture.md", "docs/benchmarks.md", "docs/students.md")
LARGEST = 3_000_000  # bytes of a page without a lecture's own figures and widgets
SEVEN = [(6, 5), (21, 5), (17, 13), (13, 23)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def build(out: Path) -> str:
    """Build the small book, and return what was printed."""
    command = [sys.executable, "-m", "website.build", "--out", str(out), f"{LECTURE}.ipynb", *OTHERS]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | {"HEADROOM_SCALE": "small"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if built := os.environ.get("HEADROOM_BOOK"):
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("book")
    assert "ran in" in build(out)
    return out


@pytest.fixture(scope="module")
def address(book: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(book / "html")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def watched(page: Page, address: str) -> list[str]:
    """What goes wrong in a page from now on: errors in the console, failed requests, requests to other hosts."""
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)

    def requested(request) -> None:
        if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(address):
            wrong.append(f"another host: {request.url}")

    page.on("request", requested)
    return wrong


def broken_links(page: Page, html: Path, address: str) -> list[str]:
    """Links of the page to a page or an anchor of the website that is not there."""
    broken = []
    for link in page.locator("a[href]").evaluate_all("all => all.map((one) => one.href)"):
        parts = urlsplit(link)
        if not link.startswith(address):
            continue
        file = html / (unquote(parts.path).lstrip("/") or "index.html")
        found = file.is_file() and (not parts.fragment or f'id="{unquote(parts.fragment)}"' in file.read_text())
        broken += [] if found else [link]
    return broken


def loaded(page: Page) -> None:
    """Wait for the page's pictures and widgets."""
    if page.locator("[data-widget]").count():
        page.locator(".headroom-widget").first.wait_for()
    page.locator("img").evaluate_all(
        "all => Promise.all(all.map((one) => { one.loading = 'eager'; return one.decode(); }))"  # refused: not loaded
    )


def flaws(page: Page, html: Path, address: str) -> list[str]:
    """What is wrong with a loaded page: pictures without words, width, links, and what axe-core finds serious."""
    found = page.locator("img").evaluate_all("all => all.filter((one) => !one.alt.trim()).map((one) => one.src)")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    found += [f"{wide} pixels wider than the window"] if wide > 0 else []
    found += broken_links(page, html, address)
    said = Axe().run(page, options={"preload": False}).response["violations"]
    return found + [
        f"{one['id']}: {one['nodes'][0]['html']}" for one in said if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 380)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_fit_for_everybody(book, address, browser, name, theme, width) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    wrong = watched(page, address)
    page.goto(f"{address}{name}.html")
    if name != "docs/architecture":
        page.locator(".headroom-widget").first.wait_for()
    assert page.locator("html").get_attribute("data-theme") == theme
    loaded(page)
    assert flaws(page, book / "html", address) == []
    if folder := os.environ.get("HEADROOM_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/book-{name.replace('/', '-')}-{theme}-{width}.png", full_page=True)
    assert wrong == []
    context.close()


@pytest.mark.parametrize(("theme", "width"), [("dark", 1400), ("light", 380)])
def test_every_other_page_is_whole_too(book, address, browser, theme, width) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    wrong = watched(page, address)
    found = {}
    for path in sorted((book / "html").rglob("*.html")):
        name = path.relative_to(book / "html").as_posix()
        page.goto(f"{address}{name}")
        loaded(page)
        if seen := [*flaws(page, book / "html", address), *wrong]:
            found[name] = seen
        wrong.clear()
    assert found == {}
    context.close()


def test_a_page_is_light_before_a_lectures_own_data(book, address, browser) -> None:
    page = browser.new_page()
    page.goto(f"{address}{LECTURE}.html")
    loaded(page)
    weights = page.evaluate(
        """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
            .filter((one) => !/_figures|_widgets/.test(one.name)).map((one) => one.decodedBodySize)"""
    )
    assert 0 < sum(weights) < LARGEST
    page.close()


def test_a_lecture_is_shown_as_it_ran(address, browser) -> None:
    page = browser.new_page()
    page.goto(f"{address}{LECTURE}.html")
    assert page.locator("math").count() > 10
    assert page.locator("figure img").count() > 0
    widget = page.locator(".headroom-attention-stepper")
    before = widget.locator("[data-part=live]").inner_text()
    widget.locator("[tabindex='0']").first.press("ArrowDown")
    expect(widget.locator("[data-part=live]")).not_to_have_text(before)
    answer = page.locator(".headroom-question details").first
    answer.locator("summary").click()
    expect(answer).to_contain_text("Not so." if "Not so." in (answer.text_content() or "") else "Right.")
    page.close()


def drawn_with_mouse(page: Page, points: list[tuple[float, float]]) -> None:
    page.mouse.move(*points[0])
    page.mouse.down()
    for x, y in points[1:]:
        page.mouse.move(x, y, steps=6)
    page.mouse.up()


def drawn_with_a_finger(page: Page, points: list[tuple[float, float]]) -> None:
    finger = page.context.new_cdp_session(page)
    for kind, at in (("touchStart", points[0]), *(("touchMove", point) for point in points[1:]), ("touchEnd", None)):
        places = [] if at is None else [{"x": at[0], "y": at[1]}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})


@pytest.mark.parametrize("draw", [drawn_with_mouse, drawn_with_a_finger])
def test_what_is_drawn_on_the_home_page_is_read_there(address, browser, draw) -> None:
    context = browser.new_context(has_touch=True, viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.goto(f"{address}index.html")
    pad = Widget(page.locator(".headroom-digit-pad"))
    pad.root.wait_for()
    box = pad.part("pad").bounding_box()
    unit = box["width"] / 28
    draw(page, [(box["x"] + x * unit, box["y"] + y * unit) for x, y in SEVEN])
    expect(pad.root).to_have_attribute("data-guess", "7")
    expect(pad.part("map").first).to_be_visible()
    context.close()


def test_keys_draw_on_the_home_page_too(address, browser) -> None:
    page = browser.new_page()
    page.goto(f"{address}index.html")
    pad = Widget(page.locator(".headroom-digit-pad"))
    pad.part("pad").focus()
    for key in (*["Shift+ArrowUp"] * 2, "Space", *["Shift+ArrowDown"] * 4, "Space"):
        page.keyboard.press(key)
    expect(pad.root).to_have_attribute("data-guess", "1")
    pad.part("mistake-select").select_option("no_positions")
    expect(pad.part("live")).to_contain_text("With the mistake “no positions” it reads")
    page.close()


def test_the_search_finds_a_page(address, browser) -> None:
    page = browser.new_page()
    wrong = watched(page, address)
    page.goto(f"{address}search.html?q=softmax")
    expect(page.locator("#search-results a").first).to_contain_text("scores", ignore_case=True)
    assert wrong == []
    page.close()


@pytest.mark.skipif("HEADROOM_BOOK" in os.environ, reason="HEADROOM_BOOK's is not built again")
def test_a_second_build_executes_nothing(book) -> None:
    said = build(book)
    assert said.count("as it ran before") == 2
    assert "ran in" not in said
