"""Frames of HTTP/2 that a client may send without end and without a call: the gRPC port ends the
connection of who does, keeps nothing of them, and answers everybody else."""

import pathlib
import re
import socket
import urllib.request

import pytest
import tritonclient.grpc

from conftest import ROOT, Server
from http2 import (CONTINUATION, END_HEADERS, HEAD, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
                   field, frame)

PLAIN = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"
MIB = 1 << 20


def continuations():
    """One head that never ends."""
    yield frame(HEADERS, 0, 1, HEAD)
    more = frame(CONTINUATION, 0, 1, field("a", "b" * 100) * 150)
    while True:
        yield more


def long_text():
    """One value of two gigabytes."""
    yield frame(HEADERS, 0, 1, HEAD + b"\0\1a\x7f\x81\xff\xff\xff\x07")
    more = frame(CONTINUATION, 0, 1, b"b" * 16384)
    while True:
        yield more


def empty_continuations():
    yield frame(HEADERS, 0, 1, HEAD)
    while True:
        yield frame(CONTINUATION, 0, 1) * 1000


def resets():
    """Calls that are given up as soon as they are made."""
    stream = 1
    while True:
        yield b"".join(frame(HEADERS, END_HEADERS, s, HEAD) + frame(RST_STREAM, 0, s, b"\0\0\0\x08")
                       for s in range(stream, stream + 200, 2))
        stream += 200


def settings():
    """Each asks for an answer, and nobody reads them."""
    while True:
        yield frame(SETTINGS, 0, 0) * 1000


def pings():
    while True:
        yield frame(PING, 0, 0, b"12345678") * 1000


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("floods"), ROOT / "tests" / "data" / "repository", PLAIN)
    yield server
    assert server.stop() == 0, server.log.read_text()


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def flood(server, frames, most):
    """Bytes until the server closed the connection; None where it took `most` bytes."""
    host, port = server.grpc.split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(PREFACE + frame(SETTINGS, 0, 0))
        try:
            for each in frames:
                client.sendall(each)
                sent += len(each)
                if sent > most:
                    return None
        except (BrokenPipeError, ConnectionResetError):
            return sent


def metric(server, name):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        return float(re.search(rf"^{re.escape(name)} (\S+)$", reply.read().decode(), re.M)[1])


@pytest.mark.parametrize("frames", [
    continuations, long_text, empty_continuations, resets, settings, pings])
def test_floods_end_with_their_connection(plain, frames):
    with tritonclient.grpc.InferenceServerClient(plain.grpc) as client:
        assert client.is_server_live()
        before, ended = resident(plain), metric(plain, "fermata_floods_total")
        assert flood(plain, frames(), 64 * MIB) is not None
        assert client.is_server_live()
        assert resident(plain) - before < 64 * MIB
        assert metric(plain, "fermata_floods_total") == ended + 1
        assert metric(plain, 'fermata_connections{protocol="grpc"}') >= 1
        assert metric(plain, "fermata_held_bytes") <= metric(plain, "fermata_held_limit_bytes")
