"""A headless browser driven over its own debugging pipe: no driver, no port, nothing but the standard library.

Covers what the report's tests ask: open a local file, evaluate, press keys, move the mouse, take note of console
messages and requests. Does not cover frames, downloads or several windows at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The browser reads commands from descriptor 3 and answers on 4; the descriptors passed are far above both.
_LAUNCHER = "import os,sys; r,w=map(int,sys.argv[1:3]); os.dup2(r,3); os.dup2(w,4); os.execv(sys.argv[3], sys.argv[3:])"
ANSWER_WITHIN_S = 20.0

OVERFLOWING = """[...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('.scroll, .visually-hidden, svg') || e.hidden || !e.getClientRects().length) return false;
  const r = e.getBoundingClientRect();
  return r.left < -0.5 || r.right > innerWidth + 0.5;
}).map(e => e.tagName + '#' + e.id + '.' + e.className)"""
"""A script: everything that sticks out of the window sideways, drawings and what may be scrolled left out."""


def find_browser() -> str | None:
    """Path of an installed browser of the Chromium family, None when there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser reported an error, or did not answer in time."""


class Browser:
    """One browser process with an empty profile; use as a context manager."""

    def __init__(self, executable: str, profile: Path) -> None:
        command_read, self._commands = os.pipe()
        self._answers, answer_write = os.pipe()
        high = [_far(descriptor) for descriptor in (command_read, answer_write)]
        argv = [sys.executable, "-c", _LAUNCHER, *map(str, high), executable, *_FLAGS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            argv, pass_fds=high, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for descriptor in high:
            os.close(descriptor)
        self._buffer = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> Page:
        """A page that shows the file, once it is loaded and drawn."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send("Emulation.setEmulatedMedia", features=[scheme])
        page.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.send("Page.navigate", url=path.as_uri())
        page.wait_for("Page.loadEventFired")
        page.frame()
        return page

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        """The command's result.

        Raises:
            BrowserError: the browser refused it, or did not answer in time.
        """
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self) -> dict[str, Any]:
        """The next message, an answer or an event."""
        give_up = time.monotonic() + ANSWER_WITHIN_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, give_up - time.monotonic()))
            data = os.read(self._answers, 1 << 16) if ready else b""
            if not data:
                raise BrowserError("the browser does not answer" if not ready else "the browser ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


class Page:
    """One open page."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def send(self, method: str, **params: Any) -> Any:
        return self._browser.send(method, self._session, **params)

    def close(self) -> None:
        self._browser.send("Target.closeTarget", targetId=self._target)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What was reported so far under this name."""
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == method
        ]

    def wait_for(self, method: str) -> None:
        while not self.events(method):
            self._browser.events.append(self._browser.receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a script; a promise is awaited.

        Raises:
            BrowserError: the script threw.
        """
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def frame(self) -> None:
        """Wait until what was asked for so far is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def key(self, key: str, *, shift: bool = False) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **text)
        self.frame()

    def move(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.frame()

    def drag(self, x0: float, x1: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x0, y=y, button="left", clickCount=1)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x1, y=y, button="left", buttons=1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x1, y=y, button="left", clickCount=1)
        self.frame()

    def wheel(self, x: float, y: float, delta: float, *, ctrl: bool) -> None:
        modifiers = 2 if ctrl else 0
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta, modifiers=modifiers)
        self.frame()

    def complaints(self) -> list[str]:
        """Everything on the console, script errors and violations of the page's policy included."""
        console = [str(one["args"]) for one in self.events("Runtime.consoleAPICalled")]
        thrown = [one["exceptionDetails"]["text"] for one in self.events("Runtime.exceptionThrown")]
        return console + thrown + [one["entry"]["text"] for one in self.events("Log.entryAdded")]

    def requests(self) -> list[str]:
        return [one["request"]["url"] for one in self.events("Network.requestWillBeSent")]


Show = Callable[..., Page]
"""Opens a page's text in the browser."""


def _far(descriptor: int) -> int:
    """The same pipe end on a descriptor that no fixed number can collide with."""
    far = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)
    os.close(descriptor)
    return far
