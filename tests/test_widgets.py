"""What the widgets share in Python: numbers as bytes, a front end as one text."""

import html
import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import anywidget
import numpy as np
import pytest

from headroom import widgets
from headroom.figures import COLORS
from headroom.widgets import shared
from headroom.widgets.checks import check_unit
from headroom.widgets.shared import front_end, quantise
from tests.widgets import dequantise


def in_node(module: str) -> object:
    """What a module exports as default, which JSON must be able to hold; the test is skipped without Node.js."""
    if not (node := shutil.which("node")):
        pytest.skip("there is no Node.js")
    url = "data:text/javascript," + urllib.parse.quote(module)
    script = f"const {{ default: made }} = await import({json.dumps(url)}); console.log(JSON.stringify(made));"
    done = subprocess.run([node, "--input-type=module", "--eval", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_rounding_is_off_by_at_most_half_a_step_of_65535():
    weights = np.random.default_rng(0).random((100, 100))
    error = np.abs(dequantise(quantise(weights), weights.shape).astype(np.float64) - weights).max()
    assert error <= 0.5 / 65535 + 2**-24  # float32 rounds once more
    assert dequantise(quantise(np.array([0.0, 1.0])), (2,)).tolist() == [0.0, 1.0]


def test_the_front_ends_functions_that_need_no_browser():
    if not (node := shutil.which("node")):
        pytest.skip("there is no Node.js")
    files = sorted(map(str, (Path(__file__).parent / "front_ends").glob("*.test.js")))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True)
    assert files
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", widgets.__all__)
def test_a_front_end_is_one_module_that_fetches_nothing(name):
    esm, css = front_end(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
    lines = esm.splitlines()
    assert not [line for line in lines if line.startswith("import")]
    assert [line for line in lines if line.startswith("export default")] == ["export default frontEnd(View);"]
    assert not [line for line in lines if re.match(r" *(//|/\*)", line)]  # comments
    assert "://" not in (esm + css).replace("http://www.w3.org/2000/svg", "")  # the name of SVG: nothing is fetched


def test_a_front_end_that_would_fetch_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "HERE", tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "view.js").write_text('import { draw } from "./draw.js";\nexport default {};\n')
    (tmp_path / "other" / "draw.js").write_text('import * as d3 from "https://d3js.org";\nexport const draw = d3;\n')
    with pytest.raises(ValueError, match=r"draw\.js has the line .*d3"):
        front_end("other")


def test_modules_keep_their_private_names_apart_and_are_run_once(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "HERE", tmp_path)
    files = {
        "kernel/count.js": "let count = 0;\nexport function next() {\n  return ++count;\n}\n",
        "other/words.js": 'import { next } from "../kernel/count.js";\nconst count = next();\n'
        "export const said = count;\n",
        "other/view.js": 'import {\n  next,\n} from "../kernel/count.js";\nimport { said } from "./words.js";\n'
        "const count = [said, next()];\nexport default count;\n",
        "kernel/kernel.css": "a {}",
        "other/view.css": "b {}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    esm, css = front_end("other")
    assert css == "a {}\nb {}"
    assert in_node(esm) == [1, 2]


@pytest.mark.parametrize("name", widgets.__all__)
def test_the_types_of_a_front_end_are_the_traits_of_its_widget(name):
    text = (shared.HERE / "types.d.ts").read_text(encoding="utf-8")
    (namespace,) = re.findall(rf"^export namespace {name} \{{\n(.*?)^\}}", text, flags=re.MULTILINE | re.DOTALL)

    def members(interface: str) -> set[str]:
        pattern = rf"^  interface {interface}(?: extends (\w+))? \{{\n(.*?)^  \}}"
        ((parent, body),) = re.findall(pattern, namespace, flags=re.MULTILINE | re.DOTALL)
        return set(re.findall(r"^    (\w+)\??:", body, flags=re.MULTILINE)) | (members(parent) if parent else set())

    base = set(anywidget.AnyWidget.class_traits(sync=True))
    assert members("Traits") == set(getattr(widgets, name).class_traits(sync=True)) - base - {"_esm", "_css"}


def test_queries_keys_and_values_have_the_colours_of_the_figures():
    css = (shared.HERE / "kernel" / "kernel.css").read_text(encoding="utf-8")
    assert {name: color.upper() for name, color in re.findall(r"--headroom-([qkv]):\s*(#\w+)", css)} == {
        name: COLORS[name] for name in "qkv"
    }


REPOSITORY = Path(__file__).parents[1]
OWN = {  # style sheet → what may begin its selectors; of a widget, its name
    "kernel/kernel.css": {".headroom-widget", ".headroom-frame"},
    "static/start.css": {".headroom-start", ".jp-InputPlaceholder", ".jp-RenderedMarkdown", "#filebrowser"},
}
SHEETS = sorted(
    [*REPOSITORY.glob("headroom/widgets/*/*.css"), *REPOSITORY.glob("jupyter/labextensions/*/static/*.css")]
)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: "/".join(sheet.parts[-2:]))
def test_a_style_sheet_is_about_its_own_elements_alone(sheet: Path) -> None:
    """JupyterLab is one page: what the course map's sheet says of a name held for a widget's part of that name."""
    text = re.sub(r"/\*.*?\*/|@[^;{]*[;{]", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = [one.strip() for many in re.findall(r"([^{}]+)\{", text) for one in re.split(r",(?![^(]*\))", many)]
    own = OWN.get("/".join(sheet.parts[-2:]), {f".headroom-{sheet.parent.name.replace('_', '-')}"})
    assert selectors and [one for one in selectors if re.split(r"[\s:>\[]|(?<=.)\.", one)[0] not in own] == []


@pytest.mark.parametrize(
    ("values", "hint"),
    [([0, 255], "from 0 to 255.*divide bytes by 255"), ([0, 1.5], "undo the norm"), ([-1, 255], "undo the norm")],
)
def test_pixels_out_of_range_are_refused_with_what_was_forgotten(values: list[float], hint: str) -> None:
    with pytest.raises(ValueError, match=f"images has values .*{hint}"):
        check_unit("images", np.array(values, dtype=float))
    check_unit("images", np.array([0.0, 1.0]))


def test_where_there_are_no_widgets_a_picture_says_what_it_shows() -> None:
    widget = widgets.NormExplorer(np.arange(6.0).reshape(1, 2, 3))
    shown = widget._repr_mimebundle_()[0]["text/html"]
    assert shown.startswith("<figure") and f'alt="{html.escape(widget._says())}"' in shown and "image/png" in shown
