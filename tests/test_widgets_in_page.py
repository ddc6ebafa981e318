"""Every widget in a page without Python, and the scripts of the website and of the course's map in one without both."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from headroom.widgets.shared import front_end
from tests.map_page import OPENED, TOLD, opened, piece, tell
from tests.test_widgets_in_lab import WIDGETS, code, every_widget
from tests.widget_steps import AT_ONCE, answers, named_keys, parsed
from tests.widget_words import KEEP_TEXTS, READ, WORDS
from tests.widgets import EXPORTED, exported

pytestmark = pytest.mark.quick
HOST = Path(__file__).resolve().parents[1] / "website" / "static" / "host.js"


@pytest.mark.full
@every_widget
def test_in_a_page_without_python_it_answers_and_says_what_is_missing(browser, name) -> None:
    """The front end is all there is: no Jupyter, no network. What an exported page gives it, this page gives it too."""
    names: dict = {}
    exec(code(WIDGETS[name]), names)
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name.split()[0]).lower()
    page = browser.new_page(device_scale_factor=2)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.evaluate(EXPORTED, [*front_end(snake), exported(names["widget"])])
    live = page.locator("[data-part=live]")
    said = live.inner_text()
    page.locator(f"[data-part={WIDGETS[name].part}]").first.focus()
    for key in WIDGETS[name].keys:
        page.keyboard.press(key)
    expect(live).not_to_have_text(said)
    for canvas in page.locator("canvas:visible").all():
        pixels, wide, rendering = canvas.evaluate(
            "(canvas) => [canvas.width, canvas.clientWidth, getComputedStyle(canvas).imageRendering]"
        )
        # At the screen's own resolution, but for pictures that show their pixels.
        assert rendering == "pixelated" or abs(pixels - 2 * wide) <= 1
    assert "There is no Python behind this page" in page.locator("[data-part=python]").first.text_content()
    page.close()
    assert wrong == []


def test_the_website_tells_widgets_which_theme_it_has(browser) -> None:
    """As JupyterLab does, by an attribute that the widgets' colours heed; also when it changes."""
    page = browser.new_page()
    page.set_content('<html data-theme="dark"><body></body></html>')
    page.add_script_tag(path=HOST)
    for theme, light in (("dark", "false"), ("light", "true"), ("dark", "false")):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", light)
    page.close()


@pytest.fixture(scope="module")
def shown(browser):
    """Each widget of `WIDGETS` in a page that holds nothing else and paints at once, and what it says at first."""
    pages = {}

    def show(name: str):
        if name not in pages:
            names: dict = {}
            exec(code(WIDGETS[name]), names)
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name.split()[0]).lower()
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.evaluate(AT_ONCE)
            page.evaluate(KEEP_TEXTS)
            page.evaluate(EXPORTED, [*front_end(snake), exported(names["widget"])])
            page.evaluate("() => new Promise((done) => setTimeout(done, 5))")
            pages[name] = page, page.evaluate(READ)
        return pages[name]

    yield show
    for page, _ in pages.values():
        page.close()


@every_widget
def test_its_pictures_have_their_words_and_its_sentences_their_numbers(shown, name) -> None:
    painted, live, labels, notes = WORDS[name]
    _, said = shown(name)
    lacking = {part: {*words} - {*said["painted"].get(part, [])} for part, words in painted.items()}
    assert {part: words for part, words in lacking.items() if words} == {}
    assert said["live"].startswith(live) and said["live"].endswith(".")
    assert {part: said["labels"].get(part) for part in labels} == labels
    assert {*notes} - {*said["notes"]} == set()


# Of the keys that a help names, what does nothing here: heads that these models lack, and what is the browser's own, on
# a checkbox and on a button.
FEW_HEADS, BROWSERS = {"9"}, {"BugSwitches": {"Space"}, "DecodingStepper": {"Enter"}}


@every_widget
def test_each_key_and_control_does_what_it_is_for_and_the_help_names_no_other_key(shown, name) -> None:
    """Every step of `STEPS` changes what is written there, and nothing else; a key changes something at least once."""
    page, _ = shown(name)
    found = answers(page, name)
    assert found == list(parsed(name))
    does = {step[2] for step, changed in found if step[0] == "key" and changed}
    assert named_keys(page) - does - FEW_HEADS == BROWSERS.get(name, set())


# Of what is hidden in a widget, and of an element whose own rule says how it is laid out: what shows all the same.
SHOWN_THOUGH_HIDDEN = """() => {
    const root = document.querySelector(".headroom-widget");
    const one = root.appendChild(Object.assign(document.createElement("div"), { hidden: true }));
    one.style.display = "flex";
    const showing = [...root.querySelectorAll("[hidden]")].filter((e) => getComputedStyle(e).display !== "none");
    one.remove();
    return showing.map((e) => e.outerHTML.slice(0, 80));
}"""


@every_widget
def test_what_is_hidden_does_not_show_whatever_its_layout(shown, name) -> None:
    page, _ = shown(name)
    assert page.evaluate(SHOWN_THOUGH_HIDDEN) == []


FRONT_END = """export default { render({ model, el }) {
    const write = () => { el.textContent = `${model.get("layer")} ${model.get("facts").rows[0].getUint8(1)}`; };
    model.on("change:layer", write);
    model.on("change:layer", () => { window.heard = (window.heard ?? 0) + 1; });
    write();
    window.models = [...(window.models ?? []), [model, write]];
} };"""


def test_the_website_is_to_a_widget_what_anywidget_is_in_a_notebook(browser) -> None:
    """Its state with its bytes in every place that asks for it; changes are heard once, by those who still listen."""
    page = browser.new_page()
    page.set_content('<html><body><i data-widget="a">…</i><i data-widget="a"></i><i data-widget="b"></i></body></html>')
    page.add_script_tag(path=HOST)
    page.evaluate(
        """async (esm) => {
            for (let twice = 0; twice < 2; twice++) headroom.frontEnd("front", esm, "i { color: rgb(1, 2, 3); }");
            for (const [id, layer] of [["a", 1], ["b", 2]]) {
                await headroom.widget(id, "front", { layer, none: null, facts: { rows: [{ $bytes: "AAUC" }] } });
            }
        }""",
        FRONT_END,
    )
    assert page.locator("i").all_text_contents() == ["1 5", "1 5", "2 5"]
    assert page.locator("style").count() == 1
    assert page.locator("i").first.evaluate("(one) => getComputedStyle(one).color") == "rgb(1, 2, 3)"
    mark = 'script[type="application/vnd.jupyter.widget-state+json"]'
    assert page.locator(mark).count() == 1, "by which a front end sees that there is no Python"
    heard = page.evaluate(
        """() => {
            const [[model, write]] = models;
            model.set("layer", 1);
            const same = window.heard ?? 0;
            model.set("layer", 3);
            model.off("change:layer", write);
            model.set("layer", 4);
            return [same, window.heard, model.get("layer")];
        }"""
    )
    assert heard == [0, 4, 4], "two places heard each of two changes"
    assert page.locator("i").all_text_contents() == ["3 5", "4 5", "2 5"]
    page.close()


@pytest.fixture(scope="module")
def course_map(browser):
    page, about = opened(browser)
    assert about == ["headroom:start", True, ["notebooks"], ["launcher"]]
    yield page
    page.close()


def test_the_map_says_of_each_piece_what_it_is_and_how_far_one_is(course_map) -> None:
    pieces = [
        piece("00", 7, 7),
        piece("01", 2, 7, needs=["00"], minutes=""),
        piece("lab01", 1, 3, needs=["01"]),
        piece("02", 0, 5, needs=["00", "01"], place=[1, 2]),
        piece("lab02", 4, 4),
    ]
    tell(course_map, {"pieces": pieces, "next": ["01", "lab01"], "help": "docs/students.md"})
    said = {
        name: course_map.locator(f"[data-piece='{name}']").evaluate(
            "(one) => [...one.children].map((of) => of.textContent)"
        )
        for name in ("00", "01", "lab01", "02", "lab02")
    }
    assert said == {
        "00": ["Lecture 0 · About 00", "30 min", "what 00 builds", "✓ run to the end"],
        "01": ["Lecture 1 · About 01", "", "what 01 builds; after lecture 0", "2 of 7 cells run"],
        "lab01": ["Lab 1 · About lab01", "30 min", "1 of 3 checks passed"],
        "02": ["Lecture 2 · About 02", "30 min", "what 02 builds; after lecture 0 and lecture 1"],
        "lab02": ["Lab 2 · About lab02", "30 min", "✓ all checks passed"],
    }
    places = course_map.locator(".headroom-map > li").evaluate_all(
        "all => all.map((one) => [one.getAttribute('style'), [...one.children].map((of) => of.dataset.piece)])"
    )
    assert places == [
        ["--row: 1; --column: 1", ["00"]],
        ["--row: 2; --column: 1", ["01", "lab01"]],
        ["--row: 2; --column: 3", ["02", "lab02"]],
    ], "a lab is below the lecture before it"
    following = course_map.locator(".headroom-next")
    assert following.text_content() == "Next: Lecture 1, About 01 and Lab 1, About lab01."
    assert course_map.evaluate("() => done") == [["asked", "/user/ann/headroom/course"]]
    tell(course_map, {"pieces": pieces, "next": [], "help": ""})
    assert following.text_content() == "Everything is done." and course_map.locator(".headroom-help").count() == 0


def test_a_click_on_the_map_opens_a_notebook_beside_it_and_one_with_a_key_held_is_the_browsers(course_map) -> None:
    tell(course_map, {"pieces": [piece("00", 0, 1)], "next": ["00"], "help": "docs/students.md"})
    links = course_map.locator("[data-path]")
    assert links.evaluate_all("all => all.map((one) => one.getAttribute('href'))") == [
        *["/user/ann/lab/tree/00.ipynb"] * 2,
        "/user/ann/lab/tree/docs/students.md",
    ]
    kept = course_map.evaluate(
        """() => {
            done.length = 0;
            const [first, , help] = document.querySelectorAll("[data-path]");
            const click = (one, held = {}) => {
                const event = new MouseEvent("click", { bubbles: true, cancelable: true, ...held });
                const stay = (late) => { late.kept = late.defaultPrevented; late.preventDefault(); };
                addEventListener("click", stay, { once: true });
                one.dispatchEvent(event);
                return event.kept;
            };
            const held = ["ctrlKey", "metaKey", "shiftKey"].map((key) => click(first, { [key]: true }));
            return [click(first), click(help), ...held, click(document.body.firstChild)];
        }"""
    )
    assert kept == [True, True, False, False, False, False]
    assert course_map.evaluate("() => done") == [
        ["docmanager:open", {"path": "00.ipynb"}],
        ["docmanager:open", {"path": "docs/students.md", "factory": "Markdown Preview"}],
    ]


def test_the_maps_arrows_lead_from_what_is_needed_where_it_is_laid_out_as_a_map(course_map) -> None:
    pieces = [piece("00", 0, 1), piece("01", 0, 1, needs=["00"]), piece("lab01", 0, 1, needs=["01"])]
    pieces += [piece("02", 0, 1, needs=["00", "01", "gone"], place=[0, 1])]
    tell(course_map, {"pieces": pieces, "next": [], "help": ""})
    assert course_map.locator(".headroom-map svg").count() == 0, "a list is in order anyway"
    course_map.add_style_tag(
        content=".headroom-map { display: grid; gap: 9px } .headroom-map > li { grid-area: var(--row) / var(--column) }"
    )
    for _ in range(2):
        course_map.evaluate("() => start.draw()")
    assert course_map.locator(".headroom-map svg").count() == 1
    paths = course_map.locator(".headroom-map svg g path").evaluate_all(
        "all => all.map((one) => one.getAttribute('d'))"
    )
    assert len(paths) == 3, "labs have none, nor does what is not there"
    level, (x0, y0, x1, y1) = re.fullmatch(r"M([\d.]+) [\d.]+H([\d.]+)", paths[1]), re.findall(r"[\d.]+", paths[0])
    assert float(level[1]) < float(level[2]), "to the right, to what stands beside it"
    assert float(y0) < float(y1) and x0 == x1, "down, to what stands below"


def test_the_map_asks_when_it_is_seen_and_says_what_keeps_it_from_being_shown(course_map) -> None:
    course_map.evaluate("() => { start.pieces = []; }")
    tell(course_map, None)
    assert course_map.locator(".headroom-start").text_content() == "The map cannot be shown: the server answers 404."
    tell(course_map, {"pieces": [piece("00", 0, 1)], "next": [], "help": ""})
    tell(course_map, None)
    assert course_map.locator("[data-piece='00']").count() == 1, "what was shown stays"
    asked = course_map.evaluate(
        """async () => {
            done.length = 0;
            start.isVisible = false;
            start.onAfterShow();
            start.isVisible = true;
            const before = done.length;
            start.onAfterShow();
            dispatchEvent(new Event("focus"));
            return [before, done.length];
        }"""
    )
    assert asked == [0, 2]


def test_the_map_is_added_once_and_comes_back_when_it_was_closed(browser) -> None:
    page, _ = opened(browser)
    assert page.evaluate("() => done") == [["launcher", "Course map"], ["added", "Course map", "main", True]]
    page.evaluate("() => { done.length = 0; bring(); start.onCloseRequest(); bring(); }")
    assert page.evaluate("() => done") == [["activated", "headroom:map"], ["added", "Course map", "main", True]]
    page.close()


@pytest.mark.parametrize(
    ("acts", "changed"),
    [([], False), (["widgets"], False), (["typing"], True), (["pointerdown", "widgets"], True)],
)
def test_a_notebook_counts_as_changed_by_its_reader_alone(course_map, acts: list[str], changed: bool) -> None:
    assert course_map.evaluate(OPENED, acts) == changed


def test_a_kernel_that_tells_its_language_changes_no_notebook(course_map) -> None:
    assert course_map.evaluate(TOLD) == [False, True], "what comes after it counts"
