"""What a student gets in place of a solution: a program to be mended, where nbgrader's empty stub would not do."""

import re

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions as NbgraderClearSolutions

REGION = re.compile(
    r"^[ \t]*### BEGIN SOLUTION\n"
    r"(?:(?![ \t]*### END SOLUTION).*\n)*?"
    r"(?P<indent>[ \t]*)### STUDENTS GET\n"
    r"(?P<given>(?:[ \t]*#(?!##).*\n)+)"
    r"[ \t]*### END SOLUTION(?=\n|$)",
    re.MULTILINE,
)
MARK = "STUDENTS GET"
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class ClearSolutions(NbgraderClearSolutions):
    """nbgrader's ClearSolutions, which hands out a given program where a solution says so.

    A solution may end with the lines that students get in its place, as comments:

        ### BEGIN SOLUTION
        return total / count
        ### STUDENTS GET
        # return total
        ### END SOLUTION

    Every other solution becomes nbgrader's stub. Comments in a text, which say what checks it, are left out.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: ResourcesDict, cell_index: int
    ) -> tuple[NotebookNode, ResourcesDict]:
        if cell.cell_type == "markdown":
            cell.source = COMMENT.sub("", cell.source)
        return super().preprocess_cell(cell, resources, cell_index)

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        cell.source, given = REGION.subn(_uncommented, cell.source)
        if MARK in cell.source:
            raise RuntimeError(
                f"'{MARK}' needs comment lines after it, up to the END SOLUTION of its region:\n{cell.source}"
            )
        return super()._replace_solution_region(cell, language) or given > 0


def _uncommented(region: re.Match[str]) -> str:
    """The lines after the mark, without their `# `, as far indented as the mark."""
    lines = (line.strip().removeprefix("#").removeprefix(" ") for line in region["given"].splitlines())
    return "\n".join((region["indent"] + line).rstrip() for line in lines)
