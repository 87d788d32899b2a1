"""A headless Chromium, driven through its DevTools protocol on a pipe: no package is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 30.0  # for one answer

KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def chromium() -> str | None:
    """The program, if there is one: that of `CHROMIUM`, or one on the path."""
    given = os.environ.get("CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page. What goes wrong in it is in `errors`."""

    def __init__(self, program: str, width: int = 1280, height: int = 720) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # The browser reads from descriptor 3, and writes to 4
        theirs, self.write = os.pipe()
        self.read, answers = os.pipe()
        command = [
            program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
            "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
            f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        shell = f'exec "$0" "$@" 3<&{theirs} 4>&{answers}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, *command], pass_fds=(theirs, answers),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)
        self.errors: list[str] = []
        self.loaded = False
        self.session = ""
        self._number, self._rest = 0, b""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.process.kill()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.folder.cleanup()

    # ---- the protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._event(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self.read], [], [], SECONDS)[0]:
                raise TimeoutError(f"no answer in {SECONDS} s; {self.errors}")
            data = os.read(self.read, 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _event(self, event: dict[str, Any]) -> None:
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in params["args"]]))
        elif name == "Page.loadEventFired":
            self.loaded = True

    # ---- what a user does

    def open(self, path: Path, fragment: str = "") -> float:
        """Seconds until the page has drawn itself."""
        self.load("about:blank")  # else another fragment of the same page loads nothing
        start = time.perf_counter()
        self.load(path.resolve().as_uri() + fragment)
        self.wait("globalThis.app !== undefined")
        self.evaluate("new Promise(requestAnimationFrame)")
        return time.perf_counter() - start

    def load(self, address: str) -> None:
        self.loaded = False
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self._event(self._next())

    def evaluate(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}; {self.errors}")
            time.sleep(0.02)

    def center(self, selector: str) -> tuple[float, float]:
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "if (!e) return null; const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        if box is None:
            raise LookupError(f"there is no {selector}")
        return box[0], box[1]

    def click(self, selector: str) -> None:
        x, y = self.center(selector)
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str) -> None:
        code = KEYS.get(key)
        more: dict[str, Any] = {"text": key} if code is None else {"windowsVirtualKeyCode": code}
        if key == "Enter":
            more["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def write_text(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
