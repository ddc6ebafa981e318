"""The numbers that a lecture's text quotes, held against those that its code prints.

A Markdown cell names them in its metadata: `"quotes": {"98.4": 0.3, "3,072": 0}` says that both stand in the cell's
text, that a code cell prints a number at most 0.3 from 98.4, and that one prints what is 3,072 to the digits shown.
Only the last `NEAR` cells above that print numbers count, for in a whole lecture nearly any number is printed
somewhere; another cell is named by its id, `{"98.4": [0.3, "train"]}`.
"""

import re
from html.parser import HTMLParser

import nbformat

NEAR = 2
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


def printed(cell: nbformat.NotebookNode) -> str:
    """What a code cell says in words: what it prints, the values that it shows, and the tables among these."""
    said = []
    for output in cell.get("outputs", []):
        if output.get("name") == "stdout":
            said.append(output.text)
        data = output.get("data", {})
        said.append(re.sub(r"<[^<>]*>", " ", data.get("text/plain", "")))  # such as <Figure size 640x480 with 1 Axes>
        tables = _Tables()
        tables.feed(data.get("text/html", ""))
        said.append(tables.said)
    return "\n".join(said)


def quotes(notebook: nbformat.NotebookNode) -> list[tuple[nbformat.NotebookNode, str, float, str]]:
    """Its quoted numbers: the cell, the number as it stands there, how far from it the printed one may be, and the id
    of the cell that prints it, or ""."""
    return [
        (cell, quote, *(about if isinstance(about, list) and len(about) == 2 else (about, "")))
        for cell in notebook.cells
        for quote, about in cell.metadata.get("quotes", {}).items()
    ]


def ill_formed(notebook: nbformat.NotebookNode) -> list[str]:
    """Quotes that no run could bear out."""
    found, code = [], {cell.id for cell in notebook.cells if cell.cell_type == "code"}
    for cell, quote, tolerance, where in quotes(notebook):
        if cell.cell_type != "markdown":
            found.append(f"cell {cell.id} is no text, and quotes {quote}")
        if not NUMBER.fullmatch(plain(quote)):
            found.append(f"cell {cell.id}: {quote!r} is not one number")
        if type(tolerance) not in (int, float) or tolerance < 0:
            found.append(f"cell {cell.id}: {quote} may be {tolerance!r} off, which is no distance")
        if where and where not in code:
            found.append(f"cell {cell.id}: {quote} is to be printed by {where!r}, which is no code cell")
        if not standing(quote, cell.source):
            found.append(f"cell {cell.id} does not say {quote}, which its metadata quotes: see docs/writing.md")
    return found


def standing(quote: str, text: str) -> re.Match | None:
    """Where a number stands in a text on its own: 2.3 stands in "2.3." and not in 12.3 or 2.31."""
    return re.search(rf"(?<![\d.,]){re.escape(quote)}(?![\d{SUPERSCRIPTS}]|[.,^]\d)(?P<percent>\s?\\?%)?", text)


def misquoted(notebook: nbformat.NotebookNode) -> list[str]:
    """Quotes of a notebook that has run which no number that is printed near or where they say bears out.

    A printed number has to be within the tolerance, or within half a unit of the quote's last digit. What the text
    gives in % may be printed as a share of 1.
    """
    found, said_by = [], {cell.id: [value for value, _ in numbers(printed(cell))] for cell in notebook.cells}
    order = list(said_by)
    for cell, quote, tolerance, where in quotes(notebook):
        above = [name for name in order[: order.index(cell.id)] if said_by[name]]
        places = [where] if where else above[-NEAR:]
        [(said, rounding)] = numbers(quote)
        off = max(tolerance, rounding) * (1 + 1e-9)
        share = (match := standing(quote, cell.source)) and match["percent"]

        def bears_out(value: float, said: float = said, off: float = off, share: str | None = share) -> bool:
            return abs(value - said) <= off or bool(share and abs(100 * value - said) <= off)

        if not any(bears_out(value) for name in places for value in said_by[name]):
            nearest = {name: min(said_by[name], key=lambda value: abs(value - said)) for name in places}
            elsewhere = [name for name in order if any(map(bears_out, said_by[name]))]
            found.append(f"cell {cell.id} says {quote}; the nearest numbers printed by cells are {nearest}")
            if elsewhere:
                found[-1] += f"; if {' or '.join(elsewhere)} is meant, name it, as docs/writing.md says"
    return found
