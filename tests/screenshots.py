"""Takes the README's pictures in a real JupyterLab, in its light and its dark theme: `make screenshots`.

A pad on which a digit was drawn with the mouse, with the model's attention over it; and the verdict on a wrong answer
to lab 2, with its mistake named. They go to docs/pictures/.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser import REPOSITORY, chromium, chromium_path, copy_course, lab_server
from tests.test_browser import WRONG_ANSWER
from tests.test_digit_pad_in_lab import DRAWN, fresh, trace
from tests.widgets import widget_notebook

PICTURES = REPOSITORY / "docs" / "pictures"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
CHANGE_THEME = "(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })"
COLOURS = 128  # of a picture: enough for text and maps, at a third of the size
CELLS = {
    "pad": """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        from headroom.widgets import DigitPad
        digits = embedded_digits()
        DigitPad(pretrained_vit(), digits.val_images[:10], digits.val_labels[:10])
    """,
    "verdict": f"""
        from torch import nn
        from autograder import check
        from headroom.reference import scaled_dot_product_attention as attention
{WRONG_ANSWER.replace(chr(10), chr(10) + " " * 8)}
        check(MultiHeadSelfAttention)
    """,
}


def write(name: str, theme: str, shown: Locator) -> None:
    """Write what is shown to docs/pictures/NAME-THEME.png, with few colours."""
    taken = Image.open(io.BytesIO(shown.screenshot(animations="disabled"))).convert("RGB")
    path = PICTURES / f"{name}-{theme}.png"
    taken.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(REPOSITORY)}: {taken.width} × {taken.height}, {path.stat().st_size / 1000:.0f} kB")


def main() -> int:
    """Take all of them, and return the exit status."""
    if chromium_path() is None:
        print("There is no Chromium: install the package chromium.", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        course = copy_course(Path(folder) / "headroom")
        with lab_server(course, Path(folder) / "home") as server:
            for theme, named in THEMES.items():
                with widget_notebook(browser, server, f"pictures-{theme}", CELLS) as notebook:
                    expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-name", named)
                    notebook.page.set_viewport_size({"width": 1150, "height": 1400})
                    pad = notebook.widget("pad")
                    trace(notebook, pad, DRAWN[5])
                    fresh(pad)
                    notebook.page.mouse.move(5, 5)
                    write("pad", theme, pad.root)
                    write("verdict", theme, notebook.tab.cell("verdict").locator(".jp-OutputArea-output").last)
                    # The next notebook opens in it.
                    notebook.page.evaluate(CHANGE_THEME, THEMES["dark"])
                    expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-name", THEMES["dark"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
