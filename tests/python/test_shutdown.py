"""Signals: what is under way ends first, a second signal ends the server, and nothing holds it."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from closed_loops import ClosedLoops
from conftest import FERMATA, ROOT, START_LIMIT_S, Server

HOUR_MS = 3_600_000
EMULATED = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, executor: emulated}}
"""
MODEL = """
max_batch_size: 1
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""


def write_slow(folder, ms):
    at = folder / "slow"
    (at / "1").mkdir(parents=True)
    (at / "config.pbtxt").write_text(MODEL)
    times = {"runs": 1} | {f"{which}_ms": ms for which in ("p50", "p90", "p99", "mean")}
    (at / "profile.json").write_text(json.dumps(
        {"format": 1, "version": 1, "model": "slow", "model_version": "1", "batches": {"1": times},
         "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
         "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0}}))
    return folder


@pytest.fixture
def models(tmp_path):
    """A repository whose only model takes an hour."""
    return write_slow(tmp_path / "models", HOUR_MS)


def stop_while_it_runs(server):
    """The connection of a request that is under way when the server begins to stop."""
    request = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                                      "data": [1, 2]}]})
    busy = http.client.HTTPConnection(server.http, timeout=START_LIMIT_S)
    busy.request("POST", "/v2/models/slow/infer", request)
    idle = http.client.HTTPConnection(server.http, timeout=START_LIMIT_S)
    for _ in range(3):  # the server has read the request when it has answered some others
        idle.request("GET", "/v2/health/live")
        idle.getresponse().read()
    server.process.send_signal(signal.SIGTERM)
    assert idle.sock.recv(1) == b""  # it has begun to stop, and waits for what runs
    return busy


def test_a_second_signal_ends_it_at_once(tmp_path, models):
    server = Server(tmp_path, models, EMULATED)
    stop_while_it_runs(server)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(START_LIMIT_S) == 1


def test_one_that_is_paused_while_it_stops_goes_on_with_that(tmp_path):
    server = Server(tmp_path, write_slow(tmp_path / "models", 3000), EMULATED)
    busy = stop_while_it_runs(server)
    server.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)
    server.process.send_signal(signal.SIGCONT)
    assert busy.getresponse().status == 200
    assert server.process.wait(START_LIMIT_S) == 0


def test_signals_that_mean_nothing_end_nothing_and_a_hangup_drains(tmp_path, models):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the server is to ignore it
    try:
        server = Server(tmp_path, models, EMULATED)
    finally:
        signal.signal(signal.SIGHUP, before)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        server.process.send_signal(number)
    client = http.client.HTTPConnection(server.http, timeout=START_LIMIT_S)
    client.request("GET", "/v2/health/live")
    assert client.getresponse().read()
    server.process.send_signal(signal.SIGHUP)
    assert server.process.wait(START_LIMIT_S) == 0


def test_a_signal_while_it_starts_ends_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as store:  # that never answers
        store.settimeout(START_LIMIT_S)
        access = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        process = subprocess.Popen(
            [FERMATA, "serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0",
             "--models", f"s3://127.0.0.1:{store.getsockname()[1]}/models/zoo"],
            env={**os.environ, **access, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)})
        connection, _ = store.accept()
        with connection:
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(START_LIMIT_S) == 0
            finally:
                process.kill()


class LongDrainServer(Server):
    """Waits an hour for what is under way."""

    @staticmethod
    def start(command, **how):
        return subprocess.Popen(command + ["--drain", "3600"], **how)


def test_half_a_request_does_not_hold_it(tmp_path, models):
    server = LongDrainServer(tmp_path, models, EMULATED)
    host, port = server.http.split(":")
    clients = [socket.create_connection((host, int(port)), START_LIMIT_S) for _ in range(2)]
    # What comes with the end of a request has been read when that is answered.
    clients[0].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\nPOST /v2/models/slow/infer HT")
    assert clients[0].recv(1000).startswith(b"HTTP/1.1 200 ")
    clients[1].sendall(b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n"
                       b"Expect: 100-continue\r\n\r\n")
    assert clients[1].recv(1000).startswith(b"HTTP/1.1 100 ")  # it has read this far
    clients[1].sendall(b"{")
    server.process.send_signal(signal.SIGTERM)
    assert clients[1].recv(1000).startswith(b"HTTP/1.1 503 ")
    assert server.process.wait(START_LIMIT_S) == 0
    for client in clients:
        client.close()


class MuteServer(Server):
    """Its standard error is a pipe that is full and that nobody reads."""

    @staticmethod
    def start(command, stderr, **how):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        process = subprocess.Popen(command + ["--log-level", "debug"], stderr=writer, **how)
        os.close(writer)
        process.unread = reader  # open as long as the process is known
        return process


def test_a_log_that_nobody_reads_holds_nothing(tmp_path, models):
    server = MuteServer(tmp_path, models, EMULATED)
    for _ in range(20):
        client = http.client.HTTPConnection(server.http, timeout=START_LIMIT_S)
        client.request("POST", "/v2/repository/models/slow/load", "{}")
        assert client.getresponse().status == 200
    assert server.stop() == 0
    os.close(server.process.unread)


IDENTITY = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1}}
"""


@pytest.mark.parametrize("delay_s", ["0", "0.2"])
def test_clients_in_closed_loops_see_no_call_fail_but_as_unavailable(tmp_path, delay_s):
    models = tmp_path / "models"
    shutil.copytree(ROOT / "tests" / "data" / "repository" / "identity-fp32", models / "identity-fp32")

    class Restarted(Server):
        @staticmethod
        def start(command, **how):
            return subprocess.Popen(command + ["--drain-delay", delay_s], **how)

    for _ in range(3):
        server = Restarted(tmp_path, models, IDENTITY)
        clients = ClosedLoops(server.grpc, server.http, "identity-fp32", 6)
        clients.wait_for(300)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(START_LIMIT_S) == 0
        ends = clients.stop()
        assert set(ends) <= {"grpc OK", "grpc UNAVAILABLE", "http 200", "http 503"}, ends
        assert ends["grpc OK"] > 0 and ends["http 200"] > 0
