"""The course's widgets, each with its front end beside its Python. No build step, no dependency.

What every widget here keeps to, so that a reader who knows one knows them all:

- **Everything is sent once** and as bytes where it is large; the browser draws on its own, so a saved notebook stays
  alive. Where a model has to compute (DigitPad, DecodingStepper, BugSwitches), its answers are kept and shown again,
  and a sentence says what needs Python; in a page without any, DigitPad computes the course's `ViT` itself. Only what
  the reader chooses travels back, and never while the pointer moves.
- **No pyplot.** ipykernel may run a widget's Python in another thread, in the midst of a cell that draws. (JupyterLab's
  default lets it do so, and then shows and closes the cell's open figures itself, whatever the widget does; the
  course's JupyterLab has that off: `commsOverSubshells` in jupyter/labconfig.)
- **A folder each**: `__init__.py` is the widget in Python; the rest is its front end, ES modules and a style sheet.
  `data.js` (in some under another name) holds the numbers and the arithmetic, `words.js` says what is shown,
  `parts.js` makes the elements, `paint.js` the pictures, and `view.js` binds them to what the reader chooses. What
  several widgets need is in kernel/, base.py, checks.py and shared.py. Data and words need no browser:
  tests/front_ends/ runs them in Node.js. anywidget loads one text as one module, so `shared.front_end` puts a front
  end's files into one. No import is left to be fetched: an import of a `data:` address would need a
  Content-Security-Policy that allows it, and every page has its own.
- **Choices are declared once**, in Python: `layer = index(lambda self: self._n_layers)`. That makes the trait, its
  check, a field of `selection`, and the name in the front end (`_choices`).
- **Without its Python** a widget goes on, says so (`[data-part=lost]`), and is saved as long as an output shows it.
  Where there are no widgets at all, Jupyter shows the still picture that comes with each (`_panels`, `_says`).
- **The same words and colours**: query blue, key orange, value green (`--headroom-q`, `-k`, `-v`), amounts in cividis,
  as in the figures, with a legend in numbers. A colour never says anything alone: a letter, a frame or a number says
  it too.
- **Indices count from 1 on the screen and from 0 in Python.** (PositionExplorer counts positions and dimensions from 0
  on the screen too: they are the formula's p and 2i.)
- **Keyboard**: native labelled controls, focusable pictures with arrow keys, Enter or Space to lock, Esc to
  unlock. No key but Tab (and Ctrl/Cmd+S) reaches the notebook, where `b` would add a cell.
- **A live line** (`[data-part=live]`, `aria-live=polite`) says in a sentence what the picture shows; a table gives
  the numbers.
- **Stable hooks**: the root is `.headroom-widget.headroom-NAME`, each part carries `data-part`. Styles
  follow JupyterLab's theme through `--jp-*` with fallbacks; nothing moves by itself.
- **Arguments are checked at once** and refused in a sentence. A tensor on a GPU, or one that requires gradients, is
  welcome: what students have at hand is their live model's. It is detached and copied.
"""

from headroom.widgets.attention_explorer import AttentionExplorer
from headroom.widgets.attention_stepper import AttentionStepper
from headroom.widgets.bug_switches import BugSwitches
from headroom.widgets.decoding_stepper import DecodingStepper
from headroom.widgets.digit_pad import DigitPad
from headroom.widgets.norm_explorer import NormExplorer
from headroom.widgets.position_explorer import PositionExplorer

__all__ = [
    "AttentionExplorer",
    "AttentionStepper",
    "BugSwitches",
    "DecodingStepper",
    "DigitPad",
    "NormExplorer",
    "PositionExplorer",
]
