"""What of a student's HTML reaches a feedback page: text, tables, pictures; nothing that runs, loads or covers.

nbconvert's own sanitising leaves out nbgrader's Markdown cells and takes the paragraphs and table heads out of a
verdict, so nbgrader_config.py puts these two filters in its place.
"""

import re

from bleach import clean
from bleach.css_sanitizer import CSSSanitizer
from nbconvert.filters.markdown import markdown2html as rendered

TAGS = frozenset(
    {"a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "details", "div", "dl", "dt", "em"}
    | {"figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre"}
    | {"s", "samp", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead"}
    | {"tr", "u", "ul", "var"}
)
SIDES = ("top", "right", "bottom", "left")
STYLES = frozenset(
    {
        "background-color",
        "color",
        "font-family",
        "font-size",
        "font-style",
        "font-weight",
        "list-style",
        "max-width",
        "min-width",
    }
    | {"border", "border-collapse", "margin", "padding", "text-align", "text-decoration", "vertical-align"}
    | {"white-space", *(f"{what}-{side}" for what in ("border", "margin", "padding") for side in SIDES)}
)
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=\s]*")
LINK = re.compile(r"(?:https?://|mailto:|#|[\w./-]*(?:[?#]|$))")
PLAIN_ATTRIBUTES = {"alt", "class", "colspan", "height", "open", "rowspan", "scope", "style", "title", "width"}


def _allowed(tag: str, name: str, value: str) -> bool:
    if tag == "img" and name == "src":
        return bool(PICTURE.fullmatch(value))
    if tag == "a" and name == "href":
        return bool(LINK.match(value))
    return name in PLAIN_ATTRIBUTES or (name == "id" and tag in {"h1", "h2", "h3", "h4", "h5", "h6"})


def clean_html(html: str) -> str:
    """HTML with harmless elements, attributes and styles only; what is not allowed is left out, its text stays."""
    css = CSSSanitizer(allowed_css_properties=STYLES)
    protocols = {"http", "https", "mailto", "data"}
    return clean(str(html), tags=TAGS, attributes=_allowed, protocols=protocols, css_sanitizer=css, strip=True)


def markdown2html(source: str) -> str:
    """Markdown as HTML that `clean_html` went over."""
    return clean_html(rendered(source))
