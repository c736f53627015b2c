"""What `fermata serve` does before it is ready."""

import json
import socket
import subprocess

from conftest import FERMATA, ROOT, START_LIMIT_S, Server

DENSE = ROOT / "tests" / "data" / "repository" / "dense"


def models(folder):
    (folder / "models").mkdir()
    (folder / "models" / "dense").symlink_to(DENSE)
    return folder / "models"


def test_a_taken_port_is_said_before_models_are_loaded(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [FERMATA, "serve", "--models", models(tmp_path), "--host", "127.0.0.1", "--http-port", "0",
             "--grpc-port", port, "--metrics-port", "0"],
            capture_output=True, text=True, timeout=START_LIMIT_S)
    line, = done.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}" in json.loads(line)["message"]
    assert done.returncode == 1


def test_it_says_what_it_loads_and_keeps_nothing_for_others(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    server = Server(tmp_path, models(tmp_path), "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n",
                    {"XDG_CACHE_HOME": str(cache), "HOME": str(cache)})
    assert server.stop() == 0
    said = [json.loads(line)["message"] for line in server.log.read_text().splitlines()]
    assert said[0].startswith("loading 1 models")
    assert "model 'dense' is opened, 1 of 1" in said
    assert list(cache.rglob("*")) == []  # where ONNX Runtime has its device id and what it will send
