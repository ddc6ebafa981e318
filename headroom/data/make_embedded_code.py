"""Make the file of embedded code again from an installed Python 3.11.7, and refuse any other content; learn its tokens.

    python -m headroom.data.make_embedded_code FOLDER

FOLDER: its standard library, which `python3.11 -c "import sysconfig; print(sysconfig.get_path('stdlib'))"` prints; or
`Lib` of its source, https://www.python.org/ftp/python/3.11.7/.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from headroom.data.byte_pairs import LEARNED, BytePairEncoding
from headroom.data.code import CHARACTERS, EMBEDDED, EMBEDDED_SHA256, content_sha256, embedded_code
from headroom.scale import need_full_scale

SHORTEST, LONGEST = 4_000, 16_000  # characters
N_TOKENS = 1024
# Tests, what installs packages, and programs and tables that are more than a library.
LEFT_OUT = {
    *("test", "tests", "idlelib", "lib2to3", "site-packages", "ensurepip", "turtledemo", "pydoc_data", "encodings"),
    *("distutils", "tkinter", "__pycache__"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    files = select(parser.parse_args().folder)
    found = content_sha256(files)
    if found != EMBEDDED_SHA256:
        parser.error(f"this is not the library of Python 3.11.7: SHA-256 {found} instead of {EMBEDDED_SHA256}")
    arrays: dict[str, Any] = {name: np.frombuffer(text.encode(), np.uint8) for name, text in files.items()}
    np.savez_compressed(EMBEDDED, **arrays)
    print(f"{EMBEDDED}: {len(files)} files, {EMBEDDED.stat().st_size} bytes")
    tokens = learn_tokens()
    LEARNED.write_text(json.dumps(tokens.merges) + "\n", encoding="ascii")
    print(f"{LEARNED}: {len(tokens)} tokens")


def learn_tokens() -> BytePairEncoding:
    """The tokens of the training files, `N_TOKENS` with the characters."""
    need_full_scale("Tokens are learned from all training files,")
    return BytePairEncoding.learn(embedded_code().train.values(), N_TOKENS)


def select(folder: Path) -> dict[str, str]:
    """The text of each module, by its name: of middling length, plain ASCII, with no copyright notice of its own."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        made_by_the_build = name.name.startswith("_sysconfigdata") or name.parts[0].startswith("config-")
        if LEFT_OUT.intersection(name.parts) or made_by_the_build:
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        plain = SHORTEST <= len(text) <= LONGEST and not set(text) - set(CHARACTERS.characters)
        if plain and "opyright" not in text and "icense" not in text:
            files[name.as_posix()] = text
    return files


if __name__ == "__main__":
    main()
