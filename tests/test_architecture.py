"""What docs/architecture.md says of which file imports which, and how long a file of the tests is."""

import ast
import re
from pathlib import Path

from autograder.pipeline.kernel import PROBE

REPOSITORY = Path(__file__).resolve().parents[1]


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, as dotted names; of `from a import b` also a.b."""
    found, packages = set(), path.relative_to(REPOSITORY).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = packages[: len(packages) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_headroom_never_imports_the_grader() -> None:
    files = [*(REPOSITORY / "headroom").rglob("*.py")]
    wrong = {
        (path.relative_to(REPOSITORY).as_posix(), name)
        for path in files
        for name in imported(path)
        if re.match(r"autograder(\.|$)", name)
    }
    assert len(files) > 30 and wrong == set()


def test_the_engine_imports_neither_headroom_nor_an_exercise() -> None:
    """All of autograder/ but this course's exercises, which it finds by configuration; and the second course alike."""
    course = REPOSITORY / "autograder" / "exercises"
    engine = [path for path in (REPOSITORY / "autograder").rglob("*.py") if not path.is_relative_to(course)]
    wrong = {
        (path.relative_to(REPOSITORY).as_posix(), name)
        for path in (*engine, *(REPOSITORY / "examples").rglob("*.py"))
        for name in imported(path)
        if re.match(r"(headroom|autograder\.exercises)(\.|$)", name)
    }
    assert len(engine) > 30 and wrong == set()
    assert any("headroom" in imported(path) for path in course.glob("*.py")), "or the rule would see nothing"


def test_what_notebooks_build_on_imports_none_of_the_program() -> None:
    """The three tables of docs/architecture.md name every module of headroom/; the first imports none of the others."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page[page.index("## The modules of") : page.index("## A check")]
    built_on, *others = (re.findall(r"`(\w+)\.py`", table) for table in section.split("|---|---|")[1:])
    beyond = {f"headroom.{name}" for names in others for name in names}
    modules = {f"headroom.{path.stem}" for path in (REPOSITORY / "headroom").glob("*.py")} - {"headroom.__init__"}
    assert {f"headroom.{name}" for name in built_on} == modules - beyond and beyond < modules
    for name in built_on:
        assert not imported(REPOSITORY / "headroom" / f"{name}.py") & beyond, name


def test_the_probe_imports_nothing_else_of_the_project() -> None:
    """But for its own files above, in the order of the table in docs/architecture.md, in which they are sent.

    By relative imports, because it has another name where they are sent to.
    """
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("## A check") : page.index("## The judge's phases")]
    assert re.findall(r"^\| `(\w+)\.py`", table, flags=re.MULTILINE) == [*PROBE]
    before: set[str] = set()
    for name in PROBE:
        path = REPOSITORY / "autograder" / "probe" / f"{name}.py"
        assert not re.search(r"^\s*(from|import) autograder\b", path.read_text(), flags=re.MULTILINE), path
        ours = {one for one in imported(path) if re.match(r"(headroom|autograder)(\.|$)", one)}
        assert {".".join(one.split(".")[:3]) for one in ours} <= before, path
        before.add(f"autograder.probe.{name}")
    assert {path.stem for path in (REPOSITORY / "autograder" / "probe").glob("*.py")} == {*PROBE, "__init__"}


def test_a_phase_of_the_judge_imports_only_those_before_it() -> None:
    """In the order of the table in docs/architecture.md, which names each of them."""
    phases = REPOSITORY / "autograder" / "judging"
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("## The judge's phases") : page.index("## The rest of")]
    order = re.findall(r"^\| `(\w+)\.py`", table, flags=re.MULTILINE)
    assert {*order, "__init__"} == {path.stem for path in phases.glob("*.py")}
    for n, name in enumerate(order):
        later = {f"autograder.judging.{other}" for other in order[n:]} | {"autograder.judge"}
        assert not imported(phases / f"{name}.py") & later, name


def test_every_module_of_the_pipeline_is_in_a_table() -> None:
    """Each once, in the last section of docs/architecture.md."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|", page[page.index("`make grade` sends each") :], flags=re.MULTILINE)
    named = sorted(name for row in rows for name in re.findall(r"`(\w+)\.py`", row))
    modules = {path.stem for path in (REPOSITORY / "autograder" / "pipeline").glob("*.py")} - {"__init__"}
    assert named == sorted(modules)


def test_no_python_file_has_more_than_500_lines() -> None:
    """A longer one is split into files that one would look for."""
    folders = ("autograder", "headroom", "benchmarks", "tests", "examples", "docs", "website", "jupyter")
    files = [*REPOSITORY.glob("*.py"), *(path for name in folders for path in (REPOSITORY / name).rglob("*.py"))]
    lengths = {path.relative_to(REPOSITORY).as_posix(): len(path.read_bytes().splitlines()) for path in files}
    assert {name: n for name, n in lengths.items() if n > 500} == {}
