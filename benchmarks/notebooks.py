"""How long the course's notebooks take, the first cell once the kernel is up and all cells, and their peak memory.

    python benchmarks/notebooks.py [NOTEBOOK ...]

Each notebook runs three times in a fresh kernel in a copy of the course; the medians count. Beside them stands the
load, the highest of the three: how many processes wanted a core in the minute before a run, on average. Prints a table
and, when all notebooks were measured, writes it to benchmarks/results/notebooks.md.
"""

import ast
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from headroom import notebooks  # noqa: E402
from headroom.lab import private_environment  # noqa: E402
from headroom.scale import need_full_scale  # noqa: E402
from tests.browser import PEAK_MEMORY, copy_course  # noqa: E402

RUNS = 3


def measure(path: Path) -> tuple[float, float, float]:
    """Run a notebook: the seconds of its first code cell and of all, kernel start left out, and its peak memory in MiB.

    The peak is NaN where the system does not tell it.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    first = None
    with client.setup_kernel():
        begun = time.perf_counter()
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
            if first is None and cell.cell_type == "code":
                first = time.perf_counter() - begun
        whole = time.perf_counter() - begun
        notebook.cells.append(new_code_cell(PEAK_MEMORY))
        told = client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        return first or 0.0, whole, ast.literal_eval(told.outputs[0].text) or float("nan")


def main(names: list[str]) -> None:
    """Measure the named notebooks, or all of lectures/ and solutions/, and print a table."""
    need_full_scale("Benchmarks are run")
    with tempfile.TemporaryDirectory() as scratch:
        course = copy_course(Path(scratch) / "headroom")
        state = Path(scratch) / "state"
        state.mkdir()
        os.environ.update(private_environment(state, course / "jupyter"))
        found = [course / name for name in names] or [p for p in notebooks.find(course) if "labs" not in p.parts]
        lines = ["| notebook | first cell (s) | all cells (s) | peak memory (MiB) | load |", "|---|---|---|---|---|"]
        print("\n".join(lines))
        for path in found:
            loads, runs = [], []
            for _ in range(RUNS):
                loads.append(os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"))
                runs.append(measure(path))
            first, whole, peak = (statistics.median(values) for values in zip(*runs, strict=True))
            name = path.relative_to(course).as_posix()
            lines.append(f"| {name} | {first:.2f} | {whole:.1f} | {peak:.0f} | {max(loads):.1f} |")
            print(lines[-1], flush=True)
    if not names:
        head = (
            f"# Notebooks\n\nSeconds in a fresh kernel once it is up, medians of {RUNS} runs, by "
            f"`benchmarks/notebooks.py`, which says what the load is; "
            f"{os.cpu_count()} CPU cores, Python {platform.python_version()}, {platform.system()}.\n\n"
        )
        results = REPOSITORY / "benchmarks" / "results" / "notebooks.md"
        results.parent.mkdir(exist_ok=True)
        results.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
