"""The embedded code: what its page says, split by files; and language models learn from it."""

import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import torch

from headroom.data import CHARACTERS, as_ids, embedded_code
from headroom.data import code as module
from headroom.data.make_embedded_code import LONGEST, SHORTEST, select

README = Path(module.__file__).with_name("README.md")


@pytest.fixture(scope="module")
def code():
    return embedded_code()


def test_the_embedded_code_is_what_its_page_says(code):
    every = code.train | code.val | code.test
    assert module.content_sha256(every) == module.EMBEDDED_SHA256
    page = README.read_text()
    assert module.EMBEDDED_SHA256 in page
    for part in (code.train, code.val, code.test):
        assert f"{sum(map(len, part.values())):,}" in page
    assert f"{len(every)} modules" in page and f"{sum(map(len, every.values())):,}" in page
    for text in every.values():
        assert SHORTEST <= len(text) <= LONGEST
        assert "opyright" not in text and "icense" not in text, "the PSF's licence is the only one"


def test_the_licence_comes_with_it():
    text = " ".join(module.EMBEDDED.with_name("PYTHON-LICENSE.txt").read_text().split())
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in text
    assert "2023 Python Software Foundation; All Rights Reserved" in text


def test_no_file_is_on_two_sides_and_the_rule_is_the_pages(code):
    parts = (list(code.train), list(code.val), list(code.test))
    assert [len(part) for part in parts] == [86, 11, 10]
    names = sorted(name for part in parts for name in part)
    assert len(set(names)) == 107
    assert parts[1] == names[4::10] and parts[2] == names[9::10]


@pytest.mark.skipif(sys.version_info[:3] != (3, 11, 7), reason="the embedded code is of Python 3.11.7")
def test_the_script_finds_the_same_files_in_an_installed_python(code):
    found = select(Path(sysconfig.get_path("stdlib")))
    assert found == dict(sorted((code.train | code.val | code.test).items()))


def test_the_script_takes_what_the_page_says(tmp_path):
    line = "x = 1  # some code\n"
    plain = line * (SHORTEST // len(line) + 1)
    for name, text in {
        "plain.py": plain,
        "inside/plain.py": plain,
        "short.py": line,
        "long.py": plain * 4,
        "tab.py": plain + "\t\n",
        "greek.py": plain + "# α\n",
        "other.py": plain + "# Copyright 1999 Someone Else\n",
        "test/plain.py": plain,
        "_sysconfigdata_linux.py": plain,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert select(tmp_path) == {"inside/plain.py": plain, "plain.py": plain}


def test_texts_become_ids_and_back(code):
    some = dict(list(code.val.items())[:2])
    ids = as_ids(some)
    assert ids.dtype == torch.long and len(ids) == sum(map(len, some.values()))
    assert CHARACTERS.decode(ids[None]) == ["".join(some.values())]
    with pytest.raises(ValueError, match="files is empty"):
        as_ids({})
    with pytest.raises(ValueError, match=r"'α' \(U\+03B1\)"):
        as_ids({"greek.py": "α"})


def test_at_small_scale_there_are_two_files_of_each(monkeypatch, code):
    monkeypatch.setenv("HEADROOM_SCALE", "small")
    small = embedded_code()
    for few, all_ in ((small.train, code.train), (small.val, code.val), (small.test, code.test)):
        assert list(few) == list(all_)[:2]


def test_the_wheel_has_the_code_and_its_licence():
    """By the patterns of pyproject.toml; an editable installation shows the folder itself."""
    project = tomllib.loads((README.parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    assert {"*.npz", "PYTHON-LICENSE.txt"} <= set(patterns)
    assert "headroom/data/PYTHON-LICENSE.txt" in project["project"]["license-files"]
