"""What the documents tell readers to type exists: targets of make, commands with their options, nbgrader's parts."""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from nbgrader.apps import NbGraderApp

from autograder.__main__ import main as autograder
from headroom.__main__ import main as headroom

REPOSITORY = Path(__file__).resolve().parents[1]
# The changelog names commands as they were.
PAGES = sorted({*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")} - {REPOSITORY / "CHANGELOG.md"})
PROGRAMS = ("make", "python", "python3", "nbgrader", "pip", "conda", "git", "source", "nice")
RESULTS = REPOSITORY / "benchmarks" / "results"


def commands(page: Path) -> list[str]:
    """What stands in a page's code, in blocks and within lines, and begins with a program's name."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|bash)?\n(.*?)```", text, re.DOTALL)
    within = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line.split(" #")[0].strip() for block in blocks for line in re.sub(r"\\\n", "", block).splitlines()]
    return [line for line in (*lines, *within) if line.split(" ")[0] in PROGRAMS and " " in line]


FOUND = sorted({(page.name, command) for page in PAGES for command in commands(page)})


class Parsed(Exception):
    """A command's arguments were understood."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end once their arguments are understood."""
    parse = argparse.ArgumentParser.parse_known_args

    def parse_only(parser: argparse.ArgumentParser, *arguments, **more):
        found, rest = parse(parser, *arguments, **more)
        if parser.prog in ("python -m headroom", "python -m autograder"):
            raise Parsed
        return found, rest

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse_only)


def test_the_documents_hold_commands() -> None:
    assert len(FOUND) > 60
    assert {command.split(" ")[0] for _, command in FOUND} >= {"make", "python", "nbgrader"}


@pytest.mark.parametrize(("page", "command"), FOUND)
def test_what_a_page_tells_to_type_is_understood(page: str, command: str, parsed) -> None:
    program, *words = shlex.split(command.replace("…", "X"), comments=True)
    if program == "make":
        files = "".join((REPOSITORY / name).read_text() for name in ("Makefile", "development.mk"))
        targets = [word for word in words if "=" not in word and not word.startswith("-")]
        for target in targets:
            assert re.search(rf"^(?:[a-z -]+ )?{re.escape(target)}(?: [a-z -]+)?::?", files, re.MULTILINE), command
        for name in (word.split("=")[0] for word in words if "=" in word):
            assert name == "UV_TORCH_BACKEND" or re.search(rf"\$[({{]{name}\b", files) or f"{name} ?=" in files, command
    elif program.startswith("python") and words[0] == "-m" and words[1] in ("headroom", "autograder"):
        with pytest.raises(Parsed):
            {"headroom": headroom, "autograder": autograder}[words[1]](words[2:])
    elif program.startswith("python") and words[0].endswith(".py"):
        script = REPOSITORY / words[0]
        assert script.is_file(), command
        text = script.read_text(encoding="utf-8")
        assert all(option in text for option in words[1:] if option.startswith("--")), command
    elif program.startswith("python") and words[0] == "-m" and "." in words[1]:
        assert (REPOSITORY / f"{words[1].replace('.', '/')}.py").is_file(), command
    elif words[:2] == ["-m", "pytest"]:
        assert all((REPOSITORY / word).exists() for word in words if word.startswith("tests/")), command
    elif program == "nbgrader":
        assert words[0] in NbGraderApp.subcommands, command


TOLD = sorted({command for _, command in FOUND if re.match(r"make [a-z-]+ [A-Z]+=", command)})


@pytest.mark.skipif(sys.platform == "win32", reason="there is no make")
@pytest.mark.parametrize("command", TOLD)
def test_what_make_is_told_reaches_the_command_that_it_runs(command: str) -> None:
    _, target, told, *_ = shlex.split(command.replace("…", "X"))
    if told.startswith("UV_"):  # which uv reads for itself
        return
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    with_it, without = (
        subprocess.run(["make", "-n", target, *more], cwd=REPOSITORY, env=own, capture_output=True, text=True).stdout
        for more in ([told], [])
    )
    assert without and with_it != without, with_it


ALONE = sorted(
    {words for page in PAGES for words in re.findall(r"`(--[a-z][^`\n]*)`", page.read_text(encoding="utf-8"))}
)
OF_OTHERS = {"--force", "--root", "--sample 50"}  # of nbgrader and of benchmarks


@pytest.mark.parametrize("words", sorted(set(ALONE) - OF_OTHERS))
def test_an_option_that_stands_alone_is_one_of_ours_and_takes_that_value(words: str, monkeypatch) -> None:
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser, *_: object) -> None:
        parsers.append(parser)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", keep)
    for main in (autograder, headroom):
        with pytest.raises(Parsed):
            main([])
    commands = [
        one for parser in parsers for made in parser._subparsers._group_actions for one in made.choices.values()
    ]
    option, *values = words.split(" ")
    actions = [action for command in commands for action in command._actions if option in action.option_strings]
    assert actions
    assert all((action.nargs == 0) == (not values) for action in actions)
    assert all(value in action.choices for action in actions for value in values if action.choices)


def test_what_is_released_has_one_version_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    headings = re.findall(
        r"^## ([\d.]+) – (\S+)$", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0] == (project, str(cited["date-released"])) and cited["version"] == project


def test_the_first_page_counts_lectures_and_labs() -> None:
    lectures, labs = (len(list((REPOSITORY / name).glob("[0-9l]*"))) for name in ("lectures", "labs"))
    assert f"in {lectures} lectures and {labs} labs" in (REPOSITORY / "docs" / "start-here.md").read_text("utf-8")


def test_each_benchmark_is_on_its_page_with_its_result_and_a_picture() -> None:
    page = (REPOSITORY / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    scripts = {path.name for path in REPOSITORY.glob("benchmarks/*.py")}
    assert {match for match in re.findall(r"`python benchmarks/(\w+\.py)`", page)} == scripts
    results = {path.name for path in RESULTS.glob("*.md")} - {"blind-answers.md"}
    assert set(re.findall(r"results/([\w-]+\.md)\)", page)) == results
    pictures = re.findall(r"!\[([^]]{40,})\]\(\.\./benchmarks/results/([\w-]+\.png)\)", page)
    assert {name for _, name in pictures} == {path.name for path in RESULTS.glob("*.png")}
