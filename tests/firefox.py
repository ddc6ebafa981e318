"""The system's Firefox, driven by WebDriver BiDi, which it speaks by itself, without a driver."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websocket import WebSocket, create_connection

PATIENCE = 120  # seconds that a busy machine may take


def firefox_path() -> str | None:
    """Return where Firefox is, or None."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Tab:
    """A tab without a window to be seen."""

    def __init__(self, connection: WebSocket) -> None:
        self.connection, self.sent = connection, 0
        self.ask("session.new", capabilities={})
        self.tab = self.ask("browsingContext.create", type="tab")["context"]
        self.errors: list[str] = []
        self.ask("session.subscribe", events=["log.entryAdded"])

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result; what the page logs meanwhile is kept."""
        self.sent += 1
        self.connection.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        while True:
            told = json.loads(self.connection.recv())
            if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                self.errors.append(str(told["params"]["text"]))
            if told.get("id") == self.sent:
                assert told["type"] == "success", told
                return told["result"]

    def open(self, address: str, width: int, height: int) -> None:
        """Load a page, in a window of this size."""
        self.ask("browsingContext.setViewport", context=self.tab, viewport={"width": width, "height": height})
        self.ask("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression that is JSON."""
        said = self.ask(
            "script.evaluate",
            expression=f"JSON.stringify({expression})",
            target={"context": self.tab},
            awaitPromise=True,
        )
        assert said["type"] == "success", said
        return json.loads(said["result"].get("value", "null"))

    def wait_for(self, expression: str, value: Any) -> None:
        """Wait until an expression has this value."""
        end = time.monotonic() + PATIENCE
        while (now := self.evaluate(expression)) != value:
            assert time.monotonic() < end, f"{expression} is {now!r}, not {value!r}"
            time.sleep(0.2)

    def draw(self, points: list[tuple[float, float]], kind: str) -> None:
        """Draw a line, with "mouse" or "touch"."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 30} for x, y in points]
        actions = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        source = {"type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": actions}
        self.ask("input.performActions", context=self.tab, actions=[source])

    def press(self, *keys: str) -> None:
        """Press keys, by their values in WebDriver; those before a "+" are held."""
        actions = []
        for key in keys:
            held = list(key)
            actions += [{"type": "keyDown", "value": one} for one in held]
            actions += [{"type": "keyUp", "value": one} for one in reversed(held)]
        self.ask("input.performActions", context=self.tab, actions=[{"type": "key", "id": "keys", "actions": actions}])

    def screenshot(self, path: Path) -> None:
        """Write a picture of the window."""
        path.write_bytes(base64.b64decode(self.ask("browsingContext.captureScreenshot", context=self.tab)["data"]))


@contextmanager
def firefox() -> Iterator[Tab]:
    """Start it with a profile of its own; it ends with the block."""
    with tempfile.TemporaryDirectory() as profile:
        log = Path(profile, "log")
        command = [
            str(firefox_path()),
            "--headless",
            "--no-remote",
            "--profile",
            profile,
            "--remote-debugging-port",
            "0",
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env={"HOME": profile, "PATH": "/usr/bin:/bin", "MOZ_DISABLE_GPU": "1"}
            )
        try:
            end = time.monotonic() + PATIENCE
            while not (found := re.search(r"ws://[\d.:]+", log.read_text(errors="replace"))):
                assert time.monotonic() < end and process.poll() is None, log.read_text(errors="replace")
                time.sleep(0.2)
            connection = create_connection(f"{found[0]}/session", timeout=PATIENCE, suppress_origin=True)
            yield Tab(connection)
            connection.close()
        finally:
            process.terminate()
            process.wait()
