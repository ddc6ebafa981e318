"""What the widgets share in Python: numbers as bytes, a front end as one text."""

import re

import anywidget
import numpy as np
import pytest

from headroom import widgets
from headroom.figures import COLORS
from headroom.widgets import shared
from headroom.widgets.shared import dequantise, front_end, quantise


def test_rounding_is_off_by_at_most_half_a_step_of_65535():
    weights = np.random.default_rng(0).random((100, 100))
    error = np.abs(dequantise(quantise(weights), weights.shape).astype(np.float64) - weights).max()
    assert error <= 0.5 / 65535 + 2**-24  # float32 rounds once more
    assert dequantise(quantise(np.array([0.0, 1.0])), (2,)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", widgets.__all__)
def test_a_front_end_is_one_module_that_fetches_nothing(name):
    esm, css = front_end(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
    lines = esm.splitlines()
    assert not [line for line in lines if line.startswith("import")]
    assert [line for line in lines if line.startswith("export default")] == ["export default { render };"]
    assert not [line for line in lines if re.match(r" *(// @ts-check|/\*\* @.*\*/$)", line)]  # types
    assert "://" not in (esm + css).replace("http://www.w3.org/2000/svg", "")  # the name of SVG: nothing is fetched


def test_a_front_end_that_would_fetch_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "HERE", tmp_path)
    for name in ("shared.js", "shared.css", "other.css"):
        (tmp_path / name).write_text("")
    (tmp_path / "other.js").write_text('import * as d3 from "./d3.js";\nexport default {};\n')
    with pytest.raises(ValueError, match=r"other\.js has the line .*d3"):
        front_end("other")


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
    css = (shared.HERE / "shared.css").read_text(encoding="utf-8")
    assert {name: color.upper() for name, color in re.findall(r"--headroom-([qkv]):\s*(#\w+)", css)} == {
        name: COLORS[name] for name in "qkv"
    }
