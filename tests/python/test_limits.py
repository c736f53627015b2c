"""A server with few descriptors outlives clients that take more connections than it can have."""

import contextlib
import http.client
import resource
import socket
import subprocess

import pytest
import tritonclient.grpc

from conftest import FERMATA, ROOT, Server

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
