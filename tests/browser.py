"""A real browser for tests: headless Chromium, spoken to through a pipe (DevTools protocol).

Nothing but a Chromium on this machine is needed: one that is on the PATH, or that Playwright has
installed.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--remote-debugging-pipe"]  # fmt: skip
KEYS = {"+": "Equal", "-": "Minus", ".": "Period", ",": "Comma"}


def find():
    """The path of a Chromium, or None."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    cache = Path.home() / ".cache/ms-playwright"
    return found or next((str(p) for p in sorted(cache.glob("chromium-*/chrome-linux*/chrome"))),
                         None)  # fmt: skip


class Browser:
    """One browser with one page; ``errors`` are what the page complained about."""

    def __init__(self, path, patience=60):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        here, there = os.pipe(), os.pipe()
        command = [path, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"]
        shell = f'exec "$@" 3<&{here[0]} 4>&{there[1]}'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "browser", *command], pass_fds=(here[0], there[1]),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(here[0])
        os.close(there[1])
        self.input, self.output = os.fdopen(here[1], "wb", 0), os.fdopen(there[0], "rb")
        self.watchdog = threading.Timer(patience, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        self.count, self.session, self.errors, self.events = 0, None, [], []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """Call a method of the protocol; its result. What happens meanwhile is noted."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        self.input.write(json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.count:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def receive(self):
        text = bytearray()
        while (character := self.output.read(1)) != b"\0":
            if not character:
                raise RuntimeError("the browser has ended")
            text += character
        message = json.loads(text)
        self.note(message.get("method", ""), message.get("params", {}))
        return message

    def note(self, method, given):
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        if method == "Network.requestWillBeSent":
            url = given["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "blob:")):
                self.errors.append(f"asked for {url}")

    def open(self, path, width=1400, height=1000, dark=False):
        """Load a file, in a window of this size; wait until it has drawn itself."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.events.clear()
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.receive()
        self.frame()

    def frame(self):
        """Wait until what was asked for is on the screen."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)  # fmt: skip
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=KEYS.get(key, key))
        self.frame()

    def mouse(self, kind, x, y, **more):
        """kind: mouseMoved, mousePressed, mouseReleased, mouseWheel."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.frame()

    def click(self, x, y, count=1):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=count)

    def touch(self, kind, *points):
        """kind: touchStart, touchMove, touchEnd; points are (x, y)."""
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        self.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        self.frame()

    def picture(self, **options):
        """A PNG of the whole page, or of the part ``clip``."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True, **options)
        return base64.b64decode(answer["data"])

    def close(self):
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        self.input.close()
        self.output.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
