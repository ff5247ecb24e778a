"""A headless Chromium, spoken to over two pipes in its DevTools protocol; nothing but Python."""

import fcntl
import json
import os
import select
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WAIT_S = 40.0  # a page of 1 MB of scripts, on a machine that does other things as well
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """Return a browser's path, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(AssertionError):
    """The browser refused a command, or a script in the page threw."""


class Page:
    """One tab. `complaints` are what stood on its console, and what it tried to load."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self.browser, self.session = browser, session
        self.complaints: list[str] = []

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.do(method, self.session, **params)

    def js(self, script: str) -> Any:
        """Return what an expression comes to; a promise is waited for."""
        found = self.do(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(json.dumps(found["exceptionDetails"])[:800])
        return found["result"].get("value")

    def show(self, file: Path) -> None:
        """Open a file and wait until every chart is drawn by its script."""
        self.complaints.clear()
        self.do("Page.navigate", url=file.resolve().as_uri())
        self.js(f"""new Promise((done, fail) => {{
            const began = performance.now();
            const look = () => {{
                const all = [...document.querySelectorAll('.drawing')];
                const drawn = all.every(d => d.classList.contains('vega-embed')
                    && d.querySelector('svg.marks'));
                if (location.href.startsWith('file:') && document.readyState === 'complete'
                    && drawn) done(true);
                else if (performance.now() - began > {WAIT_S * 1000}) fail('not drawn');
                else setTimeout(look, 50);
            }};
            look();
        }})""")

    def resize(self, width: int, height: int) -> None:
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme: str) -> None:
        """Let the reader like `light` or `dark` pages."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {
                "name": "prefers-reduced-motion",
                "value": "reduce",
            },  # what is linked is there at once
        ]
        self.do("Emulation.setEmulatedMedia", media="screen", features=features)

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.do("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.do("Input.dispatchKeyEvent", type="keyUp", **common)


class Browser:
    """The process and its pipes."""

    def __init__(self, pid: int, to: int, out: int) -> None:
        self.pid, self.to, self.out = pid, to, out
        self.read, self.last = b"", 0
        self.pages: dict[str, Page] = {}

    def do(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Carry out one command and give what it returns."""
        self.last += 1
        message: dict[str, Any] = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self.last:
                if "error" in reply:
                    raise BrowserError(f"{method}: {reply['error']}")
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def open(self) -> Page:
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            page.do(f"{domain}.enable")
        return page

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.read:
            ready, _, _ = select.select([self.out], [], [], WAIT_S)
            if not ready:
                raise BrowserError("the browser is silent")
            found = os.read(self.out, 1 << 20)
            if not found:
                raise BrowserError("the browser has gone")
            self.read += found
        line, _, self.read = self.read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        page, params = self.pages.get(event.get("sessionId", "")), event.get("params", {})
        if page is None:
            return
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                words = [str(a.get("value", a.get("description"))) for a in params["args"]]
                page.complaints.append(f"console.{params['type']}: {' '.join(words)}")
            case "Runtime.exceptionThrown":
                page.complaints.append(json.dumps(params["exceptionDetails"])[:400])
            case "Log.entryAdded":
                page.complaints.append(f"log: {params['entry']['text']}")
            case "Network.requestWillBeSent":
                if not params["request"]["url"].startswith(("file:", "data:")):
                    page.complaints.append(f"it asks for {params['request']['url']}")
            case _:
                pass


@contextmanager
def browser(path: str, profile: Path) -> Iterator[Browser]:
    """Start a browser and end it, whatever happens."""
    (theirs_in, to), (out, theirs_out) = os.pipe(), os.pipe()
    # Away from 3 and 4, which are what the browser reads and writes.
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]
    null = os.open(os.devnull, os.O_RDWR)
    moves = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((null, null, null, *ends))]
    words = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    pid = os.posix_spawn(path, words, dict(os.environ), file_actions=moves, setsid=True)
    for fd in (theirs_in, theirs_out, null, *ends):
        os.close(fd)
    try:
        yield Browser(pid, to, out)
    finally:
        os.close(to)
        os.close(out)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # its own group: setsid
        os.waitpid(pid, 0)
