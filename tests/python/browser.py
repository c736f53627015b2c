"""A real Chromium without a window, driven through its DevTools protocol."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request

import pytest
from websockets.sync.client import connect

START_LIMIT_S = 60


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One page of a browser with a camera that is made up. `read` waits for what it wants."""

    def __init__(self, folder, url):
        if find() is None:
            pytest.skip("no Chromium is installed (scripts/deps.sh browser)")
        arguments = [find(), "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}",
                     "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run", "about:blank"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # which root may not have
        self._log = (folder / "chromium.log").open("w")
        self._process = subprocess.Popen(arguments, stdout=self._log, stderr=self._log)
        self._stack = contextlib.ExitStack()
        self._socket = self._stack.enter_context(connect(self._target(folder), max_size=None, compression=None))
        self._last = 0
        self.errors = []
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.navigate", url=url)

    def _target(self, folder):
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            try:
                port = (folder / "DevToolsActivePort").read_text().split()[0]
                targets = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list"))
                return next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            except (OSError, IndexError, StopIteration):
                assert self._process.poll() is None, (folder / "chromium.log").read_text()
                time.sleep(0.05)
        raise RuntimeError("Chromium did not start")

    def _call(self, method, **parameters):
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=START_LIMIT_S))
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            if message.get("id") == self._last:
                assert "error" not in message, message
                return message["result"]

    def run(self, script):
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def text(self, id):
        return self.run(f"document.getElementById('{id}')?.textContent ?? ''")

    def wait(self, condition, limit_s=120):
        """Until `condition()` is true; what it gave."""
        limit = time.monotonic() + limit_s
        while not (value := condition()):
            assert time.monotonic() < limit, (self.run("document.body.innerText"), self.errors)
            time.sleep(0.05)
        return value

    def close(self):
        self._stack.close()
        self._process.terminate()
        self._process.wait(START_LIMIT_S)
        self._log.close()
