"""What students write and print, as HTML that stays in its place: bounded before the slow parts, cleaned by allow-list.

Every part here takes time linear in what it is given, or is given little: nbconvert's own filters and Pygments take
minutes for a few hundred kilobytes that somebody chose.
"""

import base64
import binascii
import functools
import html
import io
import keyword
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import nh3
from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markupsafe import Markup, escape
from nbconvert.filters import ansi2html
from PIL import Image

from autograder.pipeline.texts import without_control

MAX_MARKDOWN = 30_000  # characters of one text, pictures apart
MAX_KEPT = 5_000  # likewise, whose HTML is kept for the next page: a thousand times as much at worst, 64 times
MAX_HTML = 200_000
MAX_TAGS = 10_000
MAX_REOPENED = 500_000  # <b> × <p>: an unclosed <b> is opened again in each <p> that follows
MAX_SPANNED = 300  # rows and columns that cells of tables span beside their own; a browser takes minutes for millions
MAX_TEX = 2_000
MAX_TEXT = 20_000
MAX_CODE = 60_000
MAX_PICTURE, MAX_PIXELS = 4_000_000, 40_000_000  # bytes as base64

# Nothing in it is drawn outside of it, is above what follows, or changes how anything around it is laid out.
CONTAINER = "contain:layout paint style;isolation:isolate;overflow:auto;max-width:100%;max-height:60rem"

STYLES = frozenset(
    {"background-color", "color", "font-family", "font-size", "font-style", "font-weight", "list-style-type"}
    | {"border", "border-collapse", "margin", "padding", "text-align", "text-decoration", "vertical-align"}
    | {"max-width", "min-width", "white-space"}
    | {f"{what}-{side}" for what in ("border", "margin", "padding") for side in ("top", "right", "bottom", "left")}
)
# A declaration ends where its semicolon is: no string, bracket, comment or escape may hold one.
DECLARATIONS = re.compile(r"""(?:[\w\s:;,.#%!+-]|\([\w\s,.#%+-]*+\)|'[\w\s,.-]*+'|"[\w\s,.-]*+")*+""")
PLAIN = (
    {"abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "div", "dl", "dt", "em", "figcaption", "figure"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li", "p", "pre", "s", "samp", "small", "span", "strong"}
    | {"sub", "summary", "sup", "tbody", "tfoot", "thead", "tr", "u", "ul", "var"}
    | {"mfrac", "mmultiscripts", "mn", "mphantom", "mprescripts", "mroot", "mrow", "msqrt", "msub", "msubsup", "msup"}
    | {"mtable", "mtd", "mtext", "mtr", "munder", "munderover"}
)
TAGS: dict[str, set[str]] = {tag: set[str]() for tag in PLAIN} | {
    "a": {"href"},
    "details": {"open"},
    "img": {"src", "alt", "width", "height"},
    "math": {"display"},
    "mi": {"mathvariant"},
    "mo": {"stretchy", "fence", "form", "separator", "minsize", "maxsize", "largeop", "movablelimits", "accent"},
    "mover": {"accent"},
    "mpadded": {"width", "height", "depth", "lspace", "voffset"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "ol": {"start"},
    "table": {"border"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}
OF_FORMULAS = {"bold", "left", "monospace", "right"}
OWN_CLASSES = {"span": {"c1", "k", "mi", "nf", "s"}, "table": {"dataframe"}} | {
    tag: OF_FORMULAS for tag in ("mi", "mn", "mtd", "mtext")
}
# What HTML's parser opens again after it was closed by something around it.
REOPENED = re.compile(r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE)
# `//host` would be a file of another machine's in a page that is opened from disk; browsers read `\\` as `/`.
LINK = re.compile(r"https?:|mailto:|#", re.IGNORECASE)  # no path: it would start at the page, not at the notebook
EMBEDDED = re.compile(r"data:(image/(?:png|jpeg|gif));base64,([A-Za-z0-9+/=]*+)", re.IGNORECASE)
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF"}


@dataclass
class Allowance:
    """What a page may still hold: characters read as markup, of HTML, of text and of pictures, and their pixels."""

    markup: int = 200_000
    html: int = 4_000_000  # Markdown may become a thousand times as long
    text: int = 2_000_000
    pictures: int = 12_000_000
    pixels: int = 120_000_000  # which a reader's browser draws

    def take(self, kind: str, size: int) -> bool:
        """Take so much of one kind; False, and nothing taken, if there is less."""
        left = getattr(self, kind) - size
        if left >= 0:
            setattr(self, kind, left)
        return left >= 0


def contained(inside: str) -> Markup:
    """A container that what a student wrote cannot leave."""
    return Markup(f'<div class="own" style="{CONTAINER}">{inside}</div>')


# --- Plain text --------------------------------------------------------------------------------------------------


def breakable(name: str) -> Markup:
    """A name that a narrow column breaks after its underscores."""
    return Markup("_<wbr>").join(map(escape, name.split("_")))


def text(printed: str, allowance: Allowance, end: bool = False) -> Markup:
    """What a program printed, colours included, in a container; its beginning, or else its end."""
    shown, missing = colored(printed, allowance, end)
    note = f"{missing:,} characters {'before these ' if end else ''}are left out."
    return contained(f"{_note(note) if missing else ''}<pre>{shown}</pre>")


def colored(printed: str, allowance: Allowance, end: bool = False) -> tuple[Markup, int]:
    """The beginning or the end of what a program printed, with its colours; how many characters are left out."""
    much = min(MAX_TEXT, allowance.text)
    shown = printed if len(printed) <= much else printed[len(printed) - much :] if end else printed[:much]
    allowance.take("text", len(shown))
    return Markup(without_control(ansi2html(shown))), len(printed) - len(shown)


TOKEN = re.compile(
    r"""(?P<c1>\#[^\n]*+)
    |(?P<s>[rbfuRBFU]{0,2}(?:'''(?:[^'\\]|\\.?|'(?!''))*+(?:''')?|\"{3}(?:[^"\\]|\\.?|"(?!""))*+(?:\"{3})?
        |'(?:[^'\\\n]|\\.?)*+'?|"(?:[^"\\\n]|\\.?)*+"?))
    |(?P<name>[^\W\d]\w*+)
    |(?P<mi>\d[\w.]*+)""",
    re.VERBOSE | re.DOTALL,
)


def code(source: str, allowance: Allowance) -> Markup:
    """Python code with its comments, strings, numbers, keywords and defined names in colour."""
    shown = source[: min(MAX_CODE, allowance.text)]
    allowance.take("text", len(shown))
    note = _note(f"{len(source) - len(shown):,} characters are left out.") if len(shown) < len(source) else ""
    return Markup(f'{note}<div class="highlight"><pre>{_highlighted(without_control(shown))}</pre></div>')


def _highlighted(source: str) -> str:
    parts: list[str] = []
    place, before = 0, ""
    for token in TOKEN.finditer(source):
        parts.append(html.escape(source[place : token.start()], quote=False))
        place, word, kind = token.end(), token[0], str(token.lastgroup)
        if kind == "name":
            kind = "k" if keyword.iskeyword(word) else "nf" if before in ("def", "class") else ""
        before = word
        escaped = html.escape(word, quote=False)
        parts.append(f'<span class="{kind}">{escaped}</span>' if kind else escaped)
    return "".join((*parts, html.escape(source[place:], quote=False)))


# --- Markdown, HTML and TeX --------------------------------------------------------------------------------------


def prose(source: str, allowance: Allowance, attachments: Mapping[str, Any] | None = None) -> Markup:
    """Markdown with formulas and pictures, in a container; as plain text where it is too much.

    Args:
        source: as JupyterLab takes it: CommonMark, tables, HTML; TeX between dollars or in environments.
        allowance: what the page may still hold; what this takes is taken off it.
        attachments: pictures by name, each as base64 by MIME type.
    """
    pictures = Pictures(allowance, attachments)
    short = pictures.take_out(without_control(source))
    if len(short) <= MAX_MARKDOWN and allowance.take("markup", len(short)):
        cleaned = _clean(_rendered(short), pictures)
        if cleaned is not None:
            return contained(cleaned)
    return contained(_note("This is shown as plain text: it is too long, or has too much markup.")) + text(
        short, allowance
    )


def html_output(source: str, allowance: Allowance) -> Markup | None:
    """HTML with harmless elements, attributes and styles only, in a container; None where it is too much."""
    pictures = Pictures(allowance)
    short = pictures.take_out(source)
    if len(short) > MAX_HTML or not allowance.take("markup", len(short)):
        return None
    cleaned = _clean(short, pictures)
    return None if cleaned is None else contained(cleaned)


def latex(source: str, allowance: Allowance) -> Markup:
    """An output in TeX as a formula, in a container."""
    if len(source) > MAX_TEX or not allowance.take("markup", len(source)):
        return text(source, allowance)
    return contained(_clean(mathml(source.strip().strip("$"), display=True), Pictures(allowance)) or "")


def mathml(tex: str, display: bool = False) -> str:
    """A formula as MathML, which browsers draw without any script; as code where it cannot be read."""
    if len(tex) <= MAX_TEX:
        try:
            formula = convert_to_element(tex, display="block" if display else "inline")
            return _serialised(formula)
        except Exception:  # the library's own, and whatever a broken formula leads to: RecursionError, IndexError, …
            pass
    return f"<code>{html.escape(tex)}</code>"


# MathML Core has no mathvariant but "normal", and no columnalign: classes take their place.
AS_CLASS = {"bold": "bold", "bold-italic": "bold", "monospace": "monospace", "left": "left", "right": "right"}


def _serialised(element: Any) -> str:
    """An element of latex2mathml's, which keeps entities and TeX's escapes in its texts, as MathML."""
    given = dict(element.attrib)
    named = [AS_CLASS[value] for key in ("mathvariant", "columnalign") if (value := given.get(key)) in AS_CLASS]
    if named:
        given["class"] = " ".join(named)
    attributes = "".join(f' {key}="{html.escape(value)}"' for key, value in given.items())
    content = re.sub(r"\\([_&%#${}])", r"\1", html.unescape(element.text or ""))
    inside = html.escape(content) + "".join(map(_serialised, element))
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


class Pictures:
    """The pictures of one text: embedded ones are taken out before it is parsed, and put back where an <img> is."""

    def __init__(self, allowance: Allowance, attachments: Mapping[str, Any] | None = None) -> None:
        self.allowance, self._attachments = allowance, attachments or {}
        self._embedded: list[tuple[str, str]] = []
        self._shown: dict[str, str | None] = {}
        self.left_out = 0

    def take_out(self, source: str) -> str:
        """The text with short names in place of embedded pictures."""

        def name(embedded: re.Match[str]) -> str:
            self._embedded.append((embedded[1].lower(), embedded[2]))
            return f"picture:{len(self._embedded) - 1}"

        return EMBEDDED.sub(name, source)

    def address(self, name: str) -> str | None:
        """What an <img> of this name loads: the picture itself, as often as there is room for it, or nothing."""
        address = self._shown.get(name)
        if name not in self._shown:
            address = self._shown[name] = self._find(name)
        elif address is not None and not self.allowance.take("pictures", len(address)):
            address = None
        self.left_out += address is None
        return address

    def _find(self, name: str) -> str | None:
        scheme, _, rest = name.partition(":")
        if scheme == "picture" and rest.isdecimal() and len(rest) < 9 and int(rest) < len(self._embedded):
            return picture(*self._embedded[int(rest)], self.allowance)
        forms = self._attachments.get(unquote(rest)) if scheme == "attachment" else None
        if isinstance(forms, dict):
            for mime, data in forms.items():
                if isinstance(data, str) and (address := picture(mime, data, self.allowance)):
                    return address
        return None


def picture(mime: str, data: str, allowance: Allowance) -> str | None:
    """The address of a picture that stands in the page itself.

    Args:
        mime: what it says it is.
        data: base64.
        allowance: what the page may still hold.

    Returns:
        None if it is no PNG, JPEG or GIF, moves, or is too large to be shown.
    """
    if mime not in FORMATS or len(data) > MAX_PICTURE:
        return None
    try:
        decoded = base64.b64decode(data)
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(decoded), formats=[FORMATS[mime]]) as seen:
            pixels = seen.width * seen.height  # the file's head says it; nothing is decoded
            if getattr(seen, "is_animated", False):  # Attack: a thousand frames, each as large as the first
                return None
    except (binascii.Error, ValueError, OSError, SyntaxError, Image.DecompressionBombError):
        return None
    if pixels > MAX_PIXELS or not (allowance.take("pixels", pixels) and allowance.take("pictures", len(data))):
        return None
    return f"data:{mime};base64,{base64.b64encode(decoded).decode()}"


def _clean(source: str, pictures: Pictures) -> str | None:
    """HTML with what is allowed only; None where there is too much markup to be parsed."""
    tags = source.count("<")
    if tags > MAX_TAGS or tags * len(REOPENED.findall(source)) > MAX_REOPENED:
        return None
    if not pictures.allowance.take("html", len(source)):
        return None

    spanned = 0

    def allowed(tag: str, name: str, value: str) -> str | None:
        nonlocal spanned
        if name in ("colspan", "rowspan"):
            if not re.fullmatch("[0-9]{1,3}", value) or spanned + int(value) > MAX_SPANNED:
                return None
            spanned += int(value)
            return value
        if name == "src":
            return pictures.address(value)
        if name == "href":
            return value if LINK.match(value) else None
        if name == "style":
            return value if DECLARATIONS.fullmatch(value) else None
        return value

    cleaned = nh3.clean(
        source,
        tags=set(TAGS),
        attributes=TAGS | {"*": {"style"}},  # in place of nh3's own, lang and title
        attribute_filter=allowed,
        allowed_classes=OWN_CLASSES,
        filter_style_properties=set(STYLES),
        url_schemes={"http", "https", "mailto", "picture", "attachment"},
    )
    if pictures.left_out:
        many = "A picture is" if pictures.left_out == 1 else f"{pictures.left_out} pictures are"
        cleaned += _note(
            f"{many} left out: shown are PNG, JPEG and GIF that stand in the notebook, up to "
            f"{MAX_PICTURE // 1_000_000} MB each and {Allowance.pictures // 1_000_000} MB together."
        )
    return cleaned


def _note(sentence: str) -> str:
    return f'<p class="note">{html.escape(sentence)}</p>'


# --- Formulas in Markdown ----------------------------------------------------------------------------------------

ENDS = {"$$": "$$", "$": "$", "\\\\(": "\\\\)", "\\\\[": "\\\\]"}
BEGIN = re.compile(r"\\begin\{([A-Za-z]+\*?)\}")
DOLLAR = re.compile(r"(?<!\\)\$")
BLANK = re.compile(r"\n[ \t]*(?:\n|$)")


def _formula(source: str, at: int) -> tuple[str, bool, int] | None:
    """The formula that begins at a place of a text: its TeX, whether it stands apart, and where it ends."""
    if begin := BEGIN.match(source, at):
        end = f"\\end{{{begin[1]}}}"
        until = source.find(end, begin.end())
        return None if until < 0 else (source[at : until + len(end)], True, until + len(end))
    start = next((start for start in ENDS if source.startswith(start, at)), None)
    if start is None:
        return None
    inside = at + len(start)
    closing = DOLLAR.search(source, inside) if start == "$" else None
    until = (closing.start() if closing else -1) if start == "$" else source.find(ENDS[start], inside)
    if until <= inside:
        return None
    return source[inside:until], start in ("$$", "\\\\["), until + len(ENDS[start])


def _inline_math(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    formula = _formula(state.src, state.pos)
    if formula is None or formula[2] > state.posMax:
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content, token.meta = formula[0], {"display": formula[1]}
    state.pos = formula[2]
    return True


def _block_math(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    start = state.bMarks[line] + state.tShift[line]
    if state.is_code_block(line) or not state.src.startswith(("$$", "\\begin{"), start):
        return False
    formula = _formula(state.src, start)
    if formula is None or ((blank := BLANK.search(state.src, start)) and blank.start() < formula[2]):
        return False
    tex, _, end = formula
    until = line
    while until < last and state.eMarks[until] < end:
        until += 1
    if until >= last or state.src[end : state.eMarks[until]].strip() or (state.level and until > line):
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content, token.meta, token.block, token.map = tex, {"display": True}, True, [line, until + 1]
        state.line = until + 1
    return True


def _markdown() -> MarkdownIt:
    def highlight(source: str, language: str, _: str) -> str:
        return f"<pre>{_highlighted(source) if language.startswith('py') else html.escape(source)}</pre>"

    reader = MarkdownIt("commonmark", {"highlight": highlight}).enable(["table", "strikethrough"])
    reader.block.ruler.before("fence", "math", _block_math, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    reader.inline.ruler.before("escape", "math", _inline_math)
    reader.add_render_rule("math", lambda _, tokens, i, *__: mathml(tokens[i].content, tokens[i].meta["display"]))
    return reader


MARKDOWN = _markdown()


def _rendered(source: str) -> str:
    """Markdown as HTML, not cleaned yet. Short texts are kept: most are the instructor's, the same on every page."""
    return _kept(source) if len(source) <= MAX_KEPT else MARKDOWN.render(source)


_kept = functools.lru_cache(maxsize=64)(MARKDOWN.render)
