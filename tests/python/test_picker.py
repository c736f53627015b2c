"""`fermata picker` behind a real Envoy, in front of two servers that know nothing of it."""

import contextlib
import json
import subprocess
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from conftest import FERMATA, Server
from envoy import BINARY, Envoy, Picker
from tensors import tensor
from test_autoscale import write_model

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, executor: emulated}}
services:
  model: {{queue_limit: 1000}}
"""
ROWS = np.ones((1, 2), np.float32)
LIMIT_S = 120


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Two, each of which answers a request after another, in 100 ms."""
    if BINARY is None:
        pytest.skip("Envoy is not there: scripts/deps.sh envoy brings it")
    made = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("server")
        made.append(Server(folder, write_model(folder / "models"), CONFIG))
    yield made
    for server in made:
        assert server.stop() == 0, server.log.read_text()


@contextlib.contextmanager
def gateway(folder, servers, *options, protocol="http", body="NONE"):
    addresses = [getattr(server, protocol) for server in servers]
    with Picker(FERMATA, addresses, *options) as picker:
        kind = {"http": "http_protocol_options", "grpc": "http2_protocol_options"}[protocol]
        with Envoy(folder, addresses, picker.address, kind, body) as envoy:
            yield envoy


def answered(server):
    with tritonclient.http.InferenceServerClient(server.http) as client:
        rows = client.get_inference_statistics("model")["model_stats"]
        return sum(row["inference_stats"]["success"]["count"] for row in rows)


def ask(address, headers=()):
    """Status, headers and body of an infer request."""
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 1]}]}).encode()
    request = urllib.request.Request(f"http://{address}/v2/models/model/infer", body, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


@pytest.mark.parametrize("body", ["NONE", "STREAMED", "FULL_DUPLEX_STREAMED"])
def test_requests_go_to_both_servers_and_come_back_whole(servers, tmp_path, body):
    before = [answered(server) for server in servers]
    with gateway(tmp_path, servers, "--slo-ms", "60000", body=body) as envoy:
        with tritonclient.http.InferenceServerClient(envoy.picked, concurrency=8, network_timeout=LIMIT_S) as client:
            inputs = [tensor(tritonclient.http, "x", ROWS)]
            for pending in [client.async_infer("model", inputs) for _ in range(8)]:
                assert pending.get_result().as_numpy("y").shape == (1, 2)
    shares = [answered(server) - was for server, was in zip(servers, before)]
    assert sum(shares) == 8
    assert min(shares) >= 2  # by what is under way, not by turns


def test_grpc_goes_through_too(servers, tmp_path):
    with gateway(tmp_path, servers, "--slo-ms", "60000", protocol="grpc", body="FULL_DUPLEX_STREAMED") as envoy:
        with tritonclient.grpc.InferenceServerClient(envoy.picked) as client:
            answer = client.infer("model", [tensor(tritonclient.grpc, "x", ROWS)], client_timeout=LIMIT_S)
            assert answer.as_numpy("y").shape == (1, 2)


def test_what_would_be_late_is_shed_with_the_reason(servers, tmp_path):
    with gateway(tmp_path, servers, "--slo-ms", "60000", "--objective", "fast=250") as envoy:
        for _ in range(4):  # both are known now: about 100 ms
            assert ask(envoy.picked)[0] == 200
        found = []
        crowd = [threading.Thread(target=lambda: found.append(ask(envoy.picked, {"x-llm-d-inference-objective": "fast"})))
                 for _ in range(24)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join(LIMIT_S)
        codes = [code for code, _, _ in found]
        assert set(codes) == {200, 429}, codes
        _, headers, text = next(one for one in found if one[0] == 429)
        assert headers["x-llm-d-request-dropped-reason"] == "rejected-saturated"
        assert "250 ms are left, and an answer may take" in text
        assert ask(envoy.picked)[0] == 200  # it is over


def test_a_server_that_dies_costs_few(servers, tmp_path):
    """The third of them is nobody: connections to it are refused."""
    dead = type("Dead", (), {"http": "127.0.0.1:9"})
    with gateway(tmp_path, [*servers, dead], "--slo-ms", "60000") as envoy:
        codes = [ask(envoy.picked)[0] for _ in range(20)]
    assert codes.count(200) >= 17, codes


def test_errors_of_the_command():
    for arguments, words in ((["--server", "nohost"], "'nohost', expected HOST:PORT"),
                             (["--server", "a:1", "--objective", "x"], "--objective x: expected NAME=MILLISECONDS"),
                             (["--server", "a:1", "--tls-key", "x"], "expected both, or none"),
                             (["--server", "127.0.0.1:1", "--tls-key", "no", "--tls-certificate", "no"], "no: it cannot be read")):
        ended = subprocess.run([FERMATA, "picker", *arguments], capture_output=True, text=True, timeout=LIMIT_S)
        assert ended.returncode == 2, ended
        assert words in ended.stderr
