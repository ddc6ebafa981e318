"""The course's commands: `lab` opens it, `progress` says how far one is, `doctor` what the installation lacks, `clean`
tidies notebooks, `map` draws the course.
"""

import argparse
import os
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headroom", description="Headroom: learn the Transformer by building it."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    lab = commands.add_parser(
        "lab",
        help="open the course in JupyterLab; Ctrl-C stops it",
        epilog="Further arguments go to JupyterLab as they are, such as --debug, with which it logs everything.",
    )
    lab.add_argument("--port", type=int, help="the port to use; when it is taken, the next free one")
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    lab.add_argument("--instructor", action="store_true", help="with solutions/, Formgrader and all other files")
    clean = commands.add_parser("clean", help="strip outputs and machine metadata from notebooks before a commit")
    clean.add_argument("notebooks", nargs="*", type=Path, help="notebook files; all of the course's when none is named")
    clean.add_argument(
        "--check", action="store_true", help="only name those that would change; exit status 1 if any would"
    )
    commands.add_parser("doctor", help="say what is wrong with the installation, and how to mend it")
    commands.add_parser("map", help="draw the map of the course into docs/course_map.png")
    commands.add_parser("progress", help="say which checks have passed, which mistakes are overcome, what comes next")

    chosen, more = parser.parse_known_args(arguments)
    if more and chosen.command != "lab":
        parser.error(f"unknown arguments: {' '.join(more)}")
    if chosen.command is None:
        parser.print_help()
        return 0
    try:
        if chosen.command == "lab":
            from headroom.lab import start

            start(chosen.port, not chosen.no_browser, tuple(more), chosen.instructor)
        elif chosen.command == "progress":
            from headroom.lab import course_folder
            from headroom.progress import text

            print(text(course_folder(Path.cwd())))
        elif chosen.command == "doctor":
            from headroom import doctor

            return doctor.main()
        elif chosen.command == "map":
            from headroom.lab import course_folder, environment

            course = course_folder(Path.cwd())
            os.environ.update(environment(course))  # Matplotlib reads it as it is imported
            from headroom.course_map import write_picture

            print(write_picture(course))
        else:
            return _clean(chosen.notebooks, chosen.check)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _clean(paths: list[Path], check: bool) -> int:
    from headroom import notebooks
    from headroom.lab import course_folder

    paths = paths or notebooks.find(course_folder(Path.cwd()))
    changed = notebooks.clean_files(paths, write=not check)
    if check:
        for path in changed:
            print(f"{path} is not in stored form; python -m headroom clean mends it", file=sys.stderr)
        return 1 if changed else 0
    for path in changed:
        print(f"cleaned {path}")
    print(f"{len(paths)} notebooks, {len(changed)} changed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
