"""A server with few descriptors outlives clients that take more connections than it can have."""

import contextlib
import http.client
import resource
import socket
import struct
import subprocess

import pytest
import tritonclient.grpc
from tritonclient.grpc import service_pb2

from conftest import FERMATA, ROOT, Server
from http2 import (DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PREFACE, RST_STREAM, SETTINGS, field,
                   frame)

DESCRIPTORS = 256
CLIENTS = 300  # of each listener: more than there are descriptors
PLAIN = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"


class PoorServer(Server):
    """With a hard limit of DESCRIPTORS."""

    @staticmethod
    def start(command, **how):
        limit = (DESCRIPTORS, DESCRIPTORS)
        return subprocess.Popen(
            command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit), **how)


@pytest.fixture
def poor(tmp_path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 4 * CLIENTS:
        pytest.skip(f"this machine allows only {most} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, 4 * CLIENTS), most))
    server = PoorServer(tmp_path, ROOT / "tests" / "data" / "repository", PLAIN)
    yield server
    assert server.stop() == 0, server.log.read_text()


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_live(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        return (get(server.http, "/v2/health/live") == 200
                and get(server.metrics, "/metrics") == 200 and client.is_server_live())


def test_accepting_goes_on_after_more_connections_than_descriptors(poor):
    assert is_live(poor)
    with contextlib.ExitStack() as held:
        for address in (poor.http, poor.grpc, poor.metrics):
            for _ in range(CLIENTS):
                held.enter_context(connect(address))
        # Over HTTP, those that ask nothing give way to who asks.
        assert get(poor.http, "/v2/health/live") == 200
        assert get(poor.metrics, "/metrics") == 200
    assert is_live(poor)


def raw_infer(address, timeout):
    """The kinds of frames that answer a request whose deadline no client of gRPC would send."""
    request = service_pb2.ModelInferRequest(model_name="identity-fp32")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    tensor.contents.fp32_contents.extend([1, 1])
    message = request.SerializeToString()
    head = HEAD + field("grpc-timeout", timeout)
    kinds = []
    with connect(address) as client, client.makefile("rb") as replies:
        client.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head) +
                       frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", len(message)) + message))
        ended = False
        while not ended:
            start = replies.read(9)
            length, kind, flags, stream = int.from_bytes(start[:3], "big"), *struct.unpack(">BBI", start[3:])
            replies.read(length)
            if stream == 1:
                kinds.append(kind)
                ended = bool(flags & END_STREAM) or kind == RST_STREAM
    return kinds


def test_a_deadline_in_some_centuries_is_none(poor):
    for timeout in ("1000H", "2628000H", "99999999H"):
        assert 0 in raw_infer(poor.grpc, timeout), timeout  # a message, not only a status
