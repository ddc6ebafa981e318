"""What of a kernel's messages is taken in, and in which form it may be shown."""

import re
from typing import Any

from autograder.pipeline.texts import for_terminal

SHOWN = frozenset({"text/plain", "text/html", "text/markdown", "text/latex", "image/png", "image/jpeg"})
OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})
SIGNALS = frozenset({"status", "execute_input", "clear_output"})


def characters(value: Any) -> int:
    """How many characters a message's content has, in sum; 8 for a number."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(characters(k) + characters(v) for k, v in value.items())
    if isinstance(value, list):
        return sum(map(characters, value))
    return 8


def showable(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    """The content of an output message in the form that a feedback page can be made of."""

    def text(value: Any) -> str:
        return for_terminal(value) if isinstance(value, str) else ""

    if kind == "stream":
        return {"name": "stderr" if content.get("name") == "stderr" else "stdout", "text": text(content.get("text"))}
    if kind == "error":
        lines = content.get("traceback")
        lines = [text(line) for line in lines] if isinstance(lines, list) else []
        return {"ename": text(content.get("ename")), "evalue": text(content.get("evalue")), "traceback": lines}
    data = content.get("data")
    images = re.compile(r"[A-Za-z0-9+/=\s]*")
    shown = {
        mime: text(value)
        for mime, value in (data.items() if isinstance(data, dict) else ())
        if mime in SHOWN and isinstance(value, str) and (not mime.startswith("image/") or images.fullmatch(value))
    }
    count = content.get("execution_count")
    counted = {"execution_count": count if type(count) is int else None} if kind == "execute_result" else {}
    return {"data": shown, "metadata": {}, **counted}
