"""The numbers that a lecture's text quotes, held against those that its code prints.

A Markdown cell names them in its metadata: `"quotes": {"98.4": 0.3, "3,072": 0}` says that both stand in the cell's
text, that a code cell prints a number at most 0.3 from 98.4, and that one prints what is 3,072 to the digits shown.
"""

import re
from html.parser import HTMLParser

import nbformat

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def plain(text: str) -> str:
    """The text with its numbers as Python writes them: 3,072 is 3072, 4 · 10⁻³ and 4 \\cdot 10^{-3} are 4e-3."""
    text = text.replace("−", "-").replace("{,}", ",")
    lowered = str.maketrans(SUPERSCRIPTS, "0123456789+-")
    text = re.sub(f"[{SUPERSCRIPTS}]+", lambda raised: "^" + raised[0].translate(lowered), text)
    text = re.sub(r"(?<=\d)\s?(?:[·×]|\\cdot|\\times)\s?10\^\{?([-+]?\d+)\}?", r"e\1", text)
    text = re.sub(r"(?<![\w.])10\^\{?([-+]?\d+)\}?", r"1e\1", text)
    return re.sub(r"(?<=\d)[,_\u2009\u202f](?=\d{3}(?!\d))", "", text)


def numbers(text: str) -> list[tuple[float, float]]:
    """The numbers in a text, each with half a unit of its last digit: (3072, 0.5), (0.0041, 5e-5)."""
    found = []
    for one in NUMBER.findall(plain(text)):
        mantissa, _, exponent = one.partition("e")
        decimals = len(mantissa.partition(".")[2])
        found.append((float(one), 0.5 * 10.0 ** (int(exponent or 0) - decimals)))
    return found


class _Tables(HTMLParser):
    """Collects what the cells of a page's tables say."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.said = 0, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag == "table"
        self.said += " "

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "table"

    def handle_data(self, data: str) -> None:
        self.said += data if self.depth else ""


def printed(notebook: nbformat.NotebookNode) -> str:
    """What its code cells say in words: what they print, the values that they show, and the tables among these."""
    said = []
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if output.get("name") == "stdout":
            said.append(output.text)
        data = output.get("data", {})
        said.append(re.sub(r"<[^<>]*>", " ", data.get("text/plain", "")))  # such as <Figure size 640x480 with 1 Axes>
        tables = _Tables()
        tables.feed(data.get("text/html", ""))
        said.append(tables.said)
    return "\n".join(said)


def quotes(notebook: nbformat.NotebookNode) -> list[tuple[nbformat.NotebookNode, str, float]]:
    """Its quoted numbers: the cell, the number as it stands there, and how far from it the printed one may be."""
    return [(cell, *one) for cell in notebook.cells for one in cell.metadata.get("quotes", {}).items()]


def ill_formed(notebook: nbformat.NotebookNode) -> list[str]:
    """Quotes that no run could bear out."""
    found = []
    for cell, quote, tolerance in quotes(notebook):
        if cell.cell_type != "markdown":
            found.append(f"cell {cell.id} is no text, and quotes {quote}")
        if not NUMBER.fullmatch(plain(quote)):
            found.append(f"cell {cell.id}: {quote!r} is not one number")
        if type(tolerance) not in (int, float) or tolerance < 0:
            found.append(f"cell {cell.id}: {quote} may be {tolerance!r} off, which is no distance")
        if not standing(quote, cell.source):
            found.append(f"cell {cell.id} does not say {quote}, which its metadata quotes: see docs/writing.md")
    return found


def standing(quote: str, text: str) -> re.Match | None:
    """Where a number stands in a text on its own: 2.3 stands in "2.3." and not in 12.3 or 2.31."""
    return re.search(rf"(?<![\d.,]){re.escape(quote)}(?![\d{SUPERSCRIPTS}]|[.,^]\d)(?P<percent>\s?\\?%)?", text)


def misquoted(notebook: nbformat.NotebookNode) -> list[str]:
    """Quotes of a notebook that has run which none of its printed numbers bears out.

    A printed number has to be within the tolerance, or within half a unit of the quote's last digit. What the text
    gives in % may be printed as a share of 1.
    """
    results = [value for value, _ in numbers(printed(notebook))]
    found = []
    for cell, quote, tolerance in quotes(notebook):
        [(said, rounding)] = numbers(quote)
        off = max(tolerance, rounding) * (1 + 1e-9)
        share = (match := standing(quote, cell.source)) and match["percent"]
        near = sorted(results, key=lambda value: abs(value - said))[:1]
        if not any(abs(value - said) <= off or (share and abs(100 * value - said) <= off) for value in results):
            found.append(f"cell {cell.id} says {quote}, and the nearest number printed is {near}")
    return found
