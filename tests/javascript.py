"""Checks the widgets' JavaScript: its types, as the JSDoc says them, and the linter's rules.

    .venv/bin/python tests/javascript.py

The tools are those of package-lock.json, in node_modules/; they are installed anew only when that file has changed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def is_installed(root: Path) -> bool:
    """Whether `root`/node_modules holds what package-lock.json asks for: npm's own list in it is as new."""
    installed = root / "node_modules" / ".package-lock.json"
    return installed.is_file() and installed.stat().st_mtime >= (root / "package-lock.json").stat().st_mtime


def main() -> int:
    """Install what is missing, check, and return the exit status."""
    npm = shutil.which("npm")
    if npm is None:
        print("The widgets' JavaScript is checked with Node.js 20.19 or newer, which is not here.", file=sys.stderr)
        return 1
    if not is_installed(REPOSITORY):
        installing = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        if status := subprocess.run(installing, cwd=REPOSITORY).returncode:
            return status
        (REPOSITORY / "node_modules" / ".package-lock.json").touch()
    return subprocess.run([npm, "run", "--silent", "check"], cwd=REPOSITORY).returncode


if __name__ == "__main__":
    sys.exit(main())
