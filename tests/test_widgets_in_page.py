"""Every widget in a page without Python."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from headroom.widgets.shared import front_end
from tests.test_widgets_in_lab import WIDGETS, code, every_widget
from tests.widget_steps import AT_ONCE, answers, named_keys, parsed
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


@pytest.fixture
def shown(browser):
    """Shows a widget of `WIDGETS` in a page that holds nothing else, and paints at once."""
    pages = []

    def show(name: str):
        names: dict = {}
        exec(code(WIDGETS[name]), names)
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name.split()[0]).lower()
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        pages.append(page)
        page.evaluate(AT_ONCE)
        page.evaluate(EXPORTED, [*front_end(snake), exported(names["widget"])])
        return page

    yield show
    for page in pages:
        page.close()


# Of the keys that a help names, what does nothing here: heads that these models lack, and what is the browser's own, on
# a checkbox and on a button.
FEW_HEADS, BROWSERS = {"9"}, {"BugSwitches": {"Space"}, "DecodingStepper": {"Enter"}}


@every_widget
def test_each_key_and_control_does_what_it_is_for_and_the_help_names_no_other_key(shown, name) -> None:
    """Every step of `STEPS` changes what is written there, and nothing else; a key changes something at least once."""
    page = shown(name)
    found = answers(page, name)
    assert found == list(parsed(name))
    does = {step[2] for step, changed in found if step[0] == "key" and changed}
    assert named_keys(page) - does - FEW_HEADS == BROWSERS.get(name, set())
