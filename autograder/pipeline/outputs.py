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
    return {"data": shown, "metadata": {}} | (_count(content) if kind == "execute_result" else {})


def signal(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a message that shows nothing: what is looked at of it, without all else that it may hold."""
    counted = _count(content) if "execution_count" in content else {}
    return {key: content[key] for key in ("execution_state", "wait") if key in content} | counted


def _count(content: dict[str, Any]) -> dict[str, int | None]:
    """The number of a cell. Attack: one that no notebook may hold, for which the whole of it would be refused."""
    count = content.get("execution_count")
    return {"execution_count": count if type(count) is int and 0 <= count < 2**53 else None}
