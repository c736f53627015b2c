"""docs/tutorial.md is followed to the letter: its files are written, its commands run, in their order."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import FERMATA, ROOT, Server

pytest.importorskip("skl2onnx", reason="scikit-learn and skl2onnx are not installed: scripts/deps.sh test brings them")

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
PREPARES = ("export PATH", "mkdir ", "python3 -m venv ")  # what this test's own folder and Python stand for


class Reader:
    """Someone who follows the page in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.server, self.replies = folder, None, []

    def write(self, text):
        name = re.match(r"# (\S+)\n", text)[1]
        (self.folder / name).write_text(text)
        if name == "fermata.yaml" and self.server:  # "stop the server and make a service of both"
            self.stop()
            self.serve()

    def serve(self):
        text = (self.folder / "fermata.yaml").read_text()
        text = re.sub(r"^listen: .*$", "listen: {http: 0, grpc: 0, metrics: 0}", text, flags=re.M)
        text = text.replace("slo_ms: 50", "slo_ms: 60000")  # which a busy machine keeps, too
        self.server = Server(self.folder, "models", text.replace("{", "{{").replace("}", "}}"))

    def stop(self):
        assert self.server.stop() == 0, self.server.log.read_text()

    def run(self, command):
        if command.startswith("fermata serve"):
            return self.serve()
        command = command.replace("venv/bin/python", f"{sys.executable} -W ignore")
        if self.server:
            command = command.replace("localhost:8000", self.server.http)
            command = re.sub(r"^fermata load", f"fermata load --url {self.server.grpc}", command)
        command = command.replace("--duration 5", "--duration 0.5")
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{FERMATA.parent}:{os.environ['PATH']}"})
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if "curl" in command:
            self.replies.append(json.loads(done.stdout))
        return done.stdout

    def follow(self, language, text):
        if language in ("python", "yaml") or text.startswith("# "):
            self.write(text)
        elif language == "console":
            for command in re.findall(r"^\$ (.*)$", text, re.M):
                if not command.startswith(PREPARES):
                    self.run(command)


@pytest.mark.timeout(600)
def test_the_tutorial_does_what_it_says(tmp_path: pathlib.Path):
    reader = Reader(tmp_path)
    # Server writes the configuration that it is given, with free ports, into the same folder.
    try:
        for language, text in BLOCKS:
            reader.follow(language, text)
    finally:
        if reader.server:
            reader.stop()
    answered, rejected, explained = reader.replies
    assert answered["outputs"][0]["name"] == "label"
    assert "cannot end in time" in rejected["error"]
    assert explained["parameters"]["variant"] in ("digits-small", "digits-large")
