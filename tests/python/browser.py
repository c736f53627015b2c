"""A real Chromium without a window, driven through its DevTools protocol over a pair of pipes."""

import base64
import json
import os
import select
import shutil
import subprocess

import pytest

LIMIT_S = 120


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One page of a browser with a camera that is made up."""

    def __init__(self, folder, url):
        if find() is None:
            pytest.skip("no Chromium is installed (scripts/deps.sh browser)")
        folder.mkdir(exist_ok=True)
        arguments = [find(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}",
                     "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run", "about:blank"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # which root may not have
        self._log = folder / "chromium.log"
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        with self._log.open("w") as log:  # the browser reads from descriptor 3 and writes to 4
            self._process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *arguments],
                stdout=log, stderr=log, pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self._received = b""
        self._last = 0
        self._session = {}
        self.errors = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self.open(url)

    def _message(self):
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], LIMIT_S + 10)
            piece = os.read(self._in, 1 << 20) if ready else b""
            assert piece, f"Chromium says nothing: {self._log.read_text()}"
            self._received += piece
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _call(self, method, **parameters):
        self._last += 1
        call = {"id": self._last, "method": method, "params": parameters, **self._session}
        os.write(self._out, json.dumps(call).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            if message.get("id") == self._last:
                assert "error" not in message, message
                return message["result"]

    def run(self, script):
        """The value of a script, or of the promise that it gives."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (result, self.errors)
        return result["result"].get("value")

    def wait(self, condition):
        """The value of an expression once it is true; the page looks at each frame that it draws."""
        return self.run(f"""new Promise((found, fail) => {{
            const end = performance.now() + {1000 * LIMIT_S};
            const look = () => {{
                const value = {condition};
                if (value) found(value);
                else if (performance.now() > end) fail(document.body.innerText);
                else requestAnimationFrame(look);
            }};
            look();
        }})""")

    def text(self, id):
        return self.run(shown(id))

    def press(self, key):
        """A key as a person presses it: one letter or sign, or a name such as ArrowLeft."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def open(self, url):
        self._call("Page.navigate", url=url)

    def look(self, width, height, scheme="light"):
        """As on a screen of that size, light or dark."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, whole=True):
        """The whole page as PNG, or what the screen shows of it."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def close(self):
        self._process.terminate()
        self._process.wait(LIMIT_S)
        os.close(self._out)
        os.close(self._in)


def shown(id):
    """The expression of what an element shows."""
    return f"(document.getElementById('{id}')?.textContent ?? '')"
