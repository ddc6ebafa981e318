"""The page that JupyterLab opens beside the first notebook: the map, with what is done; each notebook is a link.

This is the server's half: it answers /headroom/course with what is known. jupyter/labextensions/headroom/ draws it.
"""

import asyncio
import functools
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado import web

from headroom import progress
from headroom.course import cells, core, existing, minutes, needed

HELP = "docs/students.md"


def standing(course: Path) -> dict[str, Any]:
    """The pieces that exist, in reading order, with what is done of each; and which lecture and lab come next.

    Of each piece, `done` of `of` are done: checks that passed in a lab, code cells that were run in a lecture's saved
    notebook. The next lecture is the first after the last that was run to its end. The next lab is the first that has a
    check which has not passed, once its lecture was run; or whichever it is, where only labs are done.
    `help` is the page for students, if it is there.
    """
    asked, passed = progress.exercises(course), progress.read(course)
    pieces: list[dict[str, Any]] = []
    for piece in existing(course):
        path = piece.notebook(course)
        assert path is not None  # it exists
        if piece.is_lab:
            names, known = asked.get(path.parent.name, []), passed.get(path.parent.name, {})
            done, of = sum(name in known and known[name].passed for name in names), len(names)
        else:
            done, of = _cells(path, path.stat().st_mtime_ns)
        pieces.append(
            {
                "name": piece.name,
                "lab": piece.is_lab,
                "title": piece.title,
                "builds": piece.builds,
                "minutes": minutes(piece, course),
                "path": path.relative_to(course).as_posix(),
                "needs": [one.name for one in needed(piece, course)],
                "place": piece.place,
                "done": done,
                "of": of,
            }
        )
    lectures, labs = ([piece for piece in pieces if piece["lab"] is lab] for lab in (False, True))
    read = max((i for i, piece in enumerate(lectures, 1) if _whole(piece)), default=0)
    following = [piece["name"] for piece in lectures[read:] if not _whole(piece)][:1]
    run = {piece["name"] for piece in lectures if _whole(piece)}
    only_labs = not run and any(piece["done"] for piece in labs)
    for lab in [piece for piece in labs if not _whole(piece)][:1]:
        following += [lab["name"]] if only_labs or run.issuperset(lab["needs"]) else []
    return {"pieces": pieces, "next": following, "help": HELP if (course / HELP).is_file() else ""}


def _whole(piece: dict[str, Any]) -> bool:
    return 0 < piece["of"] == piece["done"]


@functools.lru_cache
def _cells(path: Path, changed: int) -> tuple[int, int]:
    """How many of a lecture's code cells were run, of how many on its core path; `changed` is when it was saved."""
    with suppress(LookupError, TypeError, AttributeError):
        code = [cell for cell in core(cells(path)) if cell["cell_type"] == "code"]
        run = [cell["execution_count"] is not None for cell in code if "".join(cell["source"]).strip()]
        return sum(run), len(run)
    return 0, 0


class Standing(APIHandler):
    """Answers with `standing`."""

    @web.authenticated
    async def get(self) -> None:
        """Read the notebooks in a thread: they may be large."""
        course = Path(str(self.settings["server_root_dir"])).expanduser()
        await self.finish(json.dumps(await asyncio.to_thread(standing, course)))


# Jupyter Server calls these two by name.
def _jupyter_server_extension_points() -> list[dict[str, str]]:  # pyright: ignore[reportUnusedFunction]
    return [{"module": "headroom.start_page"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:  # pyright: ignore[reportUnusedFunction]
    address = url_path_join(app.web_app.settings["base_url"], "headroom", "course")
    app.web_app.add_handlers(".*$", [(address, Standing)])
