"""What comes from students, changed at random in every way that its form allows: replies, notebooks, dates, texts.

There is always a verdict, a notebook, a date or none, a page, within seconds, and no point that was not earned. Each
test goes on for `SECONDS`; what fails is named by the number of its round, which comes out the same again.
"""

import json
import logging
import os
import random
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_notebook
from nbgrader.coursedir import CourseDirectory

from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from autograder.pipeline import integrity, markup
from autograder.pipeline.intake import STAMP, TakenIn, handed_in_at
from autograder.pipeline.integrity import what_is_restored
from autograder.pipeline.markup import TAGS, Allowance
from autograder.pipeline.submission import Unreadable, read, restore
from autograder.verdict import Verdict
from headroom import reference
from tests.answers import right_backprop
from tests.answers.right_decoder_3_cached_self_attention import Cached
from tests.test_feedback import made
from tests.test_markup import (
    ESCAPES,
    PNG,
    SLOW_CODE,
    SLOW_HTML,
    SLOW_MARKDOWN,
    SLOW_TEXT,
    TEX,
    Parsed,
    look_over,
)

SECONDS = float(os.environ.get("HEADROOM_FUZZ_SECONDS", "10"))  # of each test in the full half; longer by hand
fuzzed = pytest.mark.parametrize("seconds", [0.5, pytest.param(SECONDS, marks=pytest.mark.full)], ids=["quick", "full"])
MOST = 30  # seconds of processor time of one round


def fuzz(name: str, seconds: float, once: Callable[[random.Random], None]) -> None:
    """Do something again and again, each time with other draws."""
    end, number = time.monotonic() + seconds, 0
    while not number or time.monotonic() < end:
        began = time.process_time()
        try:
            once(random.Random(f"{name} {number}"))
            assert time.process_time() - began < MOST
        except BaseException as problem:
            problem.add_note(f"{name}, round {number}")
            raise
        number += 1


EARNED: dict[str, list[Any]] = {  # a right answer, and one that earns some points
    "LayerNorm": [reference.LayerNorm, torch.nn.Identity],
    "attention_scores": [lambda q, k: q @ k.mT / q.size(-1) ** 0.5, lambda q, k: q @ k.mT],
    "layer_norm_backward": [right_backprop.as_in_the_lecture, lambda d_out, x, gamma, eps=1e-5: (d_out, gamma, gamma)],
    "CachedSelfAttention": [Cached, lambda d_model, n_heads: _Uncached(d_model, n_heads)],
}


class _Uncached(Cached):
    def forward(self, x, cache=None):
        return super().forward(x)


ARRAYS = [
    *(np.zeros(0), np.zeros(()), np.zeros((0, 7)), np.zeros((2, 3, 7)), np.ones((2, 3, 7), np.float32)),
    *(np.full((2, 3, 7), value) for value in (np.nan, np.inf, 1e308, True, -(2**63))),
    *(np.zeros((1,) * 16), np.ones((100_000,)), np.array([[1]]), np.array(False)),
]
PLAIN = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e308, float("nan"), float("inf"), -0.0),
    *("", "x" * 100_000, "gamma", "a.b.c", "a." * 12_000 + "b", "\ud800", "\0\x1b[31m\u202e", "float64", "$array"),
    *([], {}, [[]], [None], [0, *[100_000] * 6], [0] * 17, [1] * 70, [10**30, 0], [-1], [True], [["a"]] * 600),
    *({"a": 1}, {"$array": 0}, {"$array": -1}, {"$array": 10**9}, {"error": {}}, {"type": 1, "lines": 7}),
]


def changed(value: Any, chance: random.Random, often: float) -> Any:
    """A reply in which pieces are replaced, exchanged, left out, or there twice; arrays in all that they consist of."""
    if chance.random() < often:
        return chance.choice(PLAIN + ARRAYS)
    if isinstance(value, np.ndarray) and chance.random() < often:
        kind = chance.choice(["other numbers", "another shape", "another dtype", "one more axis", "a part"])
        if kind == "other numbers":
            return value * chance.choice([0, -1, 1 + 1e-9, 1e300])
        if kind == "another dtype":
            return value.astype(chance.choice(probe.DTYPES))
        return {"another shape": value.ravel(), "one more axis": value[None], "a part": value.ravel()[:1]}[kind]
    if isinstance(value, dict):
        items = [(key, changed(one, chance, often)) for key, one in value.items() if chance.random() > often / 2]
        if len(items) > 1 and chance.random() < often:
            (a, one), (b, other) = chance.sample(items, 2)
            items += [(a, other), (b, one)]
        return dict(items)
    if isinstance(value, list):
        kept = [changed(one, chance, often) for one in value if chance.random() > often / 4]
        if chance.random() < often:
            chance.shuffle(kept)
        return kept * 2 if chance.random() < often / 4 else kept
    return value


def rewritten(reply: bytes, chance: random.Random) -> bytes:
    """A message whose header says something else than what follows it, or whose bytes are others."""
    (size,) = struct.unpack_from("!I", reply)
    header, rest = json.loads(reply[4 : 4 + size]), bytearray(reply[4 + size :])
    what = chance.randrange(5)
    if what == 0 and header["arrays"]:
        one = chance.choice(header["arrays"])
        one[chance.randrange(2)] = chance.choice([*PLAIN, "object", "float16", "complex128", "datetime64", [0, 0, 3]])
    elif what == 1:
        header["arrays"] *= chance.choice([0, 2, 300])
    elif what == 2:
        header = chance.choice([*PLAIN, {"arrays": [], "body": header}, {"body": 1}])
    elif what == 3:
        for _ in range(5 * bool(rest)):
            rest[chance.randrange(len(rest))] = chance.randrange(256)
    text = json.dumps(header).encode()
    size = len(text) if what != 4 else chance.choice([0, 1, 2**32 - 1, len(text) - 1, len(text) + 8])
    return struct.pack("!I", size) + text + bytes(rest)


def verdict_on(name: str, answer: Any, chance: random.Random | None = None, seed: int = 0) -> Verdict:
    """The verdict on an answer whose replies are changed at random, where there is a chance."""
    often, which = (chance.choice([0.002, 0.01, 0.05, 0.2]), chance.randrange(1, 5)) if chance else (0.0, 0)
    asked = 0

    def ask(request: bytes) -> bytes:
        nonlocal asked
        asked += 1
        reply = probe.answer(request, answer)
        if chance is None or asked < which:
            return reply
        if chance.random() < 0.2:
            return rewritten(reply, chance)
        try:
            return probe.pack(changed(probe.unpack(reply), chance, often))
        except (ValueError, TypeError):
            return b""

    return judge(find(name), ask, seed)


@fuzzed
@pytest.mark.parametrize("name", EARNED)
def test_whatever_a_reply_says_there_is_a_verdict_and_no_point_for_it(name, seconds, caplog):
    honest = [verdict_on(name, answer).score for answer in EARNED[name]]

    def once(chance: random.Random) -> None:
        which = chance.randrange(len(honest))
        with caplog.at_level(logging.ERROR):
            verdict = verdict_on(name, EARNED[name][which], chance)
        assert not caplog.records, caplog.text
        assert 0.0 <= verdict.score <= honest[which], verdict.text()
        json.dumps(verdict.html())
        verdict.text().encode()  # a lone surrogate could not be written into a notebook

    fuzz(name, seconds / len(EARNED), once)


def describes(parameters: list[dict[str, Any]]) -> Any:
    """What carries requests to a probe that describes these parameters for every object, and runs honest code."""

    def ask(request: bytes) -> bytes:
        asked = probe.unpack(request)
        if asked["do"] == "describe":
            return probe.pack([{"parameters": parameters, "loose": []}] * len(asked["builds"]))
        return probe.answer(request, reference.LayerNorm)

    return ask


@pytest.mark.parametrize(
    "shape", [[0, *[100_000] * 6], [0] * 16, [0, 3], [1] * 16, [0, *[5] * 15]], ids=["huge", "no", "0", "1", "many"]
)
def test_no_shape_of_a_parameter_ends_the_judge(shape, caplog):
    described = {"shape": shape, "trained": True, "start": np.zeros(0)}
    verdict = judge(find("LayerNorm"), describes([described | {"name": "gamma"}, described | {"name": "beta"}]))
    assert verdict.headline and not verdict.passed and not caplog.records


@pytest.mark.full
@pytest.mark.parametrize("name", ["EncoderBlock", "LayerNorm", "MultiHeadSelfAttention"])
@pytest.mark.parametrize(
    "names",
    [
        lambda i: ".".join("ab" * 6) + f".{i}.weight",
        lambda i: f"{i}." * 19 + "w",
        lambda i: "a." * 12_000 + f"{i}",
        lambda i: f"\ud800{i}",
        lambda i: "$array",
    ],
    ids=["nested", "each in modules of its own", "12,000 deep", "half a pair", "a word of the wire"],
)
def test_names_of_parameters_cost_no_more_than_their_number(name, names):
    began = time.process_time()
    one = {"shape": [8, 8], "trained": True, "start": np.zeros((8, 8))}
    verdict = judge(find(name), describes([one | {"name": names(i)} for i in range(probe.MAX_NAMES)]))
    verdict.text().encode()
    assert not verdict.passed and time.process_time() - began < 30


PARTS = [*("", "a", "b", "0", "weight", "bias", "gamma", "q_proj", "\ud800", "\u202e", " ", "\0", "$array", "é" * 90)]


@fuzzed
def test_whatever_parameters_are_called_there_is_a_verdict(seconds, caplog):
    shapes = ([4], [4, 4], [], [0, 4], [4, 1], [2, 2, 2])

    def once(chance: random.Random) -> None:
        parts = chance.sample(PARTS, chance.randrange(1, 6))
        parameters = []
        for _ in range(chance.choice([1, 2, 9, 60, probe.MAX_NAMES])):
            name = ".".join(chance.choices(parts, k=chance.choice([1, 2, 5, 25, 300])))
            shape = chance.choice(shapes)
            parameters.append({"name": name, "shape": shape, "trained": chance.random() < 0.8, "start": np.ones(shape)})
        verdict = judge(find(chance.choice(["EncoderBlock", "LayerNorm", "ViT"])), describes(parameters), 0)
        verdict.text().encode()
        assert not verdict.passed and not caplog.records, caplog.text

    fuzz("names", seconds, once)


def test_a_message_is_bounded_before_it_is_read():
    nested = b'{"arrays":[],"body":[' + b"[]," * (probe.MAX_HEADER // 3) + b"[]]}"
    for data in (struct.pack("!I", len(nested)) + nested, b"\0" * (probe.MAX_MESSAGE + 1)):
        with pytest.raises(ValueError):
            probe.unpack(data)


def test_what_honest_code_says_too_much_of_has_a_sentence():
    class Wide(reference.LayerNorm):
        def __init__(self, d_model: int, eps: float = 1e-5) -> None:
            super().__init__(d_model, eps)
            self.vocabulary = torch.nn.Parameter(torch.zeros(50_257, 24))

    class Many(reference.LayerNorm):
        def __init__(self, d_model: int, eps: float = 1e-5) -> None:
            super().__init__(d_model, eps)
            self.layers = torch.nn.ParameterList(torch.zeros(1) for _ in range(probe.MAX_NAMES + 1))

    for answer, says in ((Wide, "more than 100,000 numbers"), (Many, "more than 500 parameters")):
        verdict = judge(find("LayerNorm"), lambda request, answer=answer: probe.answer(request, answer), 0)
        assert says in verdict.headline and verdict.score == 0


# --- Notebooks and dates -----------------------------------------------------------------------------------------

LAB = Path(__file__).resolve().parents[1] / "labs" / "lab04_layer_norm" / "layer_norm.ipynb"
PIECES_OF_MARKUP = [piece for text in (*ESCAPES.values(), *TEX) for piece in re.findall(r"<[^>]*>?|[^<]+", text[:500])]
PIECES_OF_MARKUP += [
    *SLOW_MARKDOWN,
    *SLOW_HTML,
    *SLOW_TEXT,
    "\n\n",
    "    ",
    "`",
    "\\",
    "'",
    '"',
    ">",
    "/>",
    "</math>",
    "</div>",
]
SOURCES = [*PIECES_OF_MARKUP, "check(LayerNorm)", "%%bash\n:", "\ud800", "\x1b[2J", "\u202e", "x" * 50_000]
ODD: list[Any] = [
    *(None, True, -1, 10**400, 1e308, "", "\ud800", "x" * 50_000, [], {}, [[]], [{}], ["\ud800", 1], {"": {"": ""}}),
    *("code", "markdown", "raw", "heading", "stream", "error", "display_data", 2, 3, 5, {"nbgrader": 1}),
    *({"nbgrader": {"grade_id": "layer-norm", "grade": True, "points": 1e9}}, {"a.png": {"image/png": PNG}}),
    *({"output_type": "stream", "name": "stdout", "text": "x"}, {"output_type": "display_data", "data": {}}),
]


def misshapen(value: Any, chance: random.Random, often: float) -> Any:
    """JSON in which pieces are replaced, exchanged, left out, there twice, or nested in themselves."""
    if chance.random() < often:
        return chance.choice([*ODD, chance.choice(SOURCES), [value], {"metadata": value}])
    if isinstance(value, dict):
        items = [(key, misshapen(one, chance, often)) for key, one in value.items() if chance.random() > often / 2]
        if len(items) > 1 and chance.random() < often:
            (a, one), (b, other) = chance.sample(items, 2)
            items += [(a, other), (b, one)]
        return dict(items)
    if isinstance(value, list):
        kept = [misshapen(one, chance, often) for one in value if chance.random() > often / 4]
        return kept * 2 if chance.random() < often / 4 else kept
    if isinstance(value, str) and chance.random() < 3 * often:
        return "".join(chance.choices(SOURCES, k=chance.choice([1, 3, 30])))
    return value


@fuzzed
def test_whatever_a_notebook_holds_it_is_refused_or_becomes_one_with_the_instructors_cells(seconds, tmp_path):
    released = {cell.metadata.nbgrader.grade_id: cell for cell in read(LAB).cells if "nbgrader" in cell.metadata}
    given = json.loads(LAB.read_text(encoding="utf-8"))
    path = tmp_path / LAB.name

    def once(chance: random.Random) -> None:
        text = json.dumps(misshapen(given, chance, chance.choice([0.0005, 0.003, 0.02, 0.1])))
        data = text.encode()
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)] + chance.randbytes(chance.choice([0, 1, 50]))
        path.write_bytes(data)
        try:
            notebook = read(path)
        except Unreadable as why:
            str(why).encode()
            return
        remarks = what_is_restored(notebook.cells, released)
        integrity.text("ann", LAB.stem, remarks).encode()
        notebook = new_notebook(cells=restore(notebook.cells, released))
        nbformat.validate(notebook)
        nbformat.writes(notebook).encode()
        ids = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]
        wanted = [
            name for name, cell in released.items() if cell.metadata.nbgrader.grade or cell.metadata.nbgrader.task
        ]
        assert len(ids) == len(set(ids)) and set(ids) >= set(wanted)
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata and cell.metadata.nbgrader.locked:
                assert cell.source == released[cell.metadata.nbgrader.grade_id].source
        Parsed(made(*notebook.cells).removeprefix("<!DOCTYPE html>"))

    fuzz("notebooks", seconds, once)


@fuzzed
def test_whatever_a_date_says_nbgrader_gets_one_or_none(seconds, tmp_path):
    pieces = [*"0123456789", *"-:. TZ+", "\n", "UTC", "2026-11-22 10:00:00", "0001", "9999", "99", "00", "٣", "é", "\0"]
    pieces += ["+14:00", "-23:59", "Europe/Berlin", "EST", "AM", "1e9", "12:30", "2026-02-30", "[x]", "½", "\ud800"]
    course = CourseDirectory(root=str(tmp_path))
    folder = tmp_path / "submitted" / "ann" / "lab"
    folder.mkdir(parents=True)

    def once(chance: random.Random) -> None:
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 12)))
        if chance.random() < 0.5:
            start = (
                f"{chance.choice([0, 1, 99, 1969, 2026, 9999]):04}-{chance.randrange(14):02}-{chance.randrange(33):02} "
            )
            text = f"{start}{chance.randrange(26):02}:{chance.randrange(62):02}{text}"
        (folder / STAMP).write_bytes(text.encode("utf-8", "surrogatepass") + chance.randbytes(chance.choice([0, 0, 2])))
        when, remarks = handed_in_at(folder)
        integrity.text("ann", "lab", remarks).encode()
        taken = TakenIn(course)
        seen, _ = taken.add("lab", "ann", ["first"])
        assert taken.get_existing_timestamp(seen) == when
        assert when is not None or remarks
        taken.close()

    fuzz("dates", seconds, once)


# --- Texts and outputs, as they are shown ------------------------------------------------------------------------

ATTRIBUTES = ["style", "class", "id", "href", "src", "onclick", "title", "colspan", "width", "data-x", "xlink:href", ""]
VALUES = [
    "javascript:alert(1)",
    "//evil.test",
    "attachment:x",
    "picture:0",
    "x",
    "score",
    "9" * 400,
    "'",
    '"',
    ">",
    "&#",
]
PROPERTIES = [*("position:fixed", "margin:-999px", "background:url(//evil.test)", "color:red", "--x:1", "z-index:9")]
PROPERTIES += [*("margin-top:calc(-1*9px)", "width:expression(1)", "co\\6cor:red", "/**/color:red", "color:var(--x)")]
PROPERTIES += [*("font:9px x", "display:none", "white-space:nowrap", "padding:9e9px", "@import '//x'", "}", "{", "\\")]
ELEMENTS = sorted(TAGS)  # or no round could be made again
ELEMENTS += [
    *("script", "style", "svg", "iframe", "form", "input", "template", "noscript", "title", "plaintext"),
    *("mglyph", "foreignObject", "annotation-xml", "select", "font", "body", "html", "base", "x-y", "!--", "?"),
]


def element(chance: random.Random, depth: int = 0) -> str:
    """HTML of nested elements, some of them broken."""
    tag = chance.choice(ELEMENTS)
    said = chance.choice(PIECES_OF_MARKUP)
    for _ in range(chance.randrange(4)):
        name, value = chance.choice(ATTRIBUTES), chance.choice(VALUES)
        if name == "style":
            value = ";".join(chance.choices(PROPERTIES, k=chance.randrange(1, 4)))
        mark = chance.choice(['"', '"', "'", ""])
        tag += f"{chance.choice([' ', ' ', '/', chr(10)])}{name}={mark}{value}{mark}"
    inside = "".join(element(chance, depth + 1) for _ in range(chance.randrange(3))) if depth < 6 else ""
    end = chance.choice([f"</{tag.split()[0]}>"] * 3 + ["", f"</{chance.choice(ELEMENTS)}>"])
    return f"<{tag}{chance.choice(['>'] * 9 + ['/>', '', '<'])}{said}{inside}{end}"


@fuzzed
@pytest.mark.parametrize("kind", ["HTML", "Markdown", "text"])
def test_whatever_is_shown_stays_in_its_place(kind, seconds):
    def once(chance: random.Random) -> None:
        if kind == "HTML":
            source = "".join(element(chance) for _ in range(chance.choice([1, 3, 20])))
        elif kind == "Markdown":
            source = "".join(chance.choices(PIECES_OF_MARKUP, k=chance.choice([2, 10, 60])))
        else:
            source = "".join(chance.choices(SLOW_TEXT + SLOW_CODE, k=chance.choice([2, 10, 60])))
        if chance.random() < 0.2:  # and much of it
            source *= chance.choice([10, 300, 1 + 300_000 // (1 + len(source))])
        attachments = {"x": {"image/png": PNG}}
        for shown in (
            markup.prose(source, Allowance(), attachments),
            markup.latex(source, Allowance()),
            markup.text(source, Allowance()),
            markup.html_output(source, Allowance()),
        ):
            if shown is not None:
                look_over(shown)
        assert Parsed(markup.code(source, Allowance())).open == []

    fuzz(kind, seconds / 3, once)
