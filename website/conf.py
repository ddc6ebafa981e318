"""Sphinx's configuration of the website. build.py lays out the pages and says where the rest lies."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "Headroom"
author = "the Headroom authors"
extensions = ["myst_nb"]

# Pages are executed before Sphinx sees them. Widgets are shown by static/host.js, and mathematics is MathML, which
# browsers draw themselves: no require.js, no MathJax, nothing from another host.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_render_markdown_format = "myst"
nb_merge_streams = True
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "Headroom: learn the Transformer by building it"
html_theme_options = {
    "logo": {"text": "Headroom"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["look.css"]
html_js_files = [("host.js", {"defer": "defer"})]
html_copy_source = False
html_context = {"default_mode": "auto"}
html_show_sphinx = False
html_last_updated_fmt = None
copyright = "the Headroom authors. MIT licence; the handwritten digits are from MNIST, CC BY-SA 3.0"


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    self.body.append(f'<div class="headroom-formula">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what draws mathematics."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
