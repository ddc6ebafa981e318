"""Checks the widgets' JavaScript: its types, as the JSDoc says them, the linter's rules, and tests/front_ends/.

    .venv/bin/python tests/javascript.py

The tools are those of package-lock.json, in node_modules/; they are installed anew only when that file has changed.
Without Node.js nothing is checked, and that is said in one line.
"""

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
OLDEST = (20, 19)  # Node.js that the tools run on


def is_installed(root: Path) -> bool:
    """Whether `root`/node_modules holds what package-lock.json asks for: npm's own list in it is as new."""
    installed = root / "node_modules" / ".package-lock.json"
    return installed.is_file() and installed.stat().st_mtime >= (root / "package-lock.json").stat().st_mtime


def why_not() -> str:
    """Why it cannot be checked here; empty if it can."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return "there is no Node.js with npm"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(map(int, version.lstrip("v").split(".")[:2])) < OLDEST:
        return f"this is Node.js {version}"
    return ""


def main() -> int:
    """Install what is missing, check, and return the exit status."""
    if reason := why_not():
        needed = ".".join(map(str, OLDEST))
        print(
            f"Skipped: the widgets' JavaScript, because {reason} and the check needs {needed} or newer "
            "(from Debian 13 on: apt-get install nodejs npm)."
        )
        return 0
    npm = str(shutil.which("npm"))
    if not is_installed(REPOSITORY):
        installing = [npm, "ci", "--no-update-notifier", "--no-audit", "--no-fund", "--ignore-scripts"]
        if status := subprocess.run(installing, cwd=REPOSITORY).returncode:
            return status
        (REPOSITORY / "node_modules" / ".package-lock.json").touch()
    checked = subprocess.run([npm, "run", "--silent", "check"], cwd=REPOSITORY, capture_output=True, encoding="utf-8")
    if checked.returncode:  # else it is a page of tests that have passed
        print(checked.stdout, checked.stderr, sep="")
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
