"""Further kinds of what one stranger may do to a server, for bench/attack.py: every budget from both sides.

They speak raw bytes as those in attacks.py, from as many connections as each says."""

import gzip
import io
import json
import random
import socket
import struct
import zlib

from attacks import (MIB, SETTLED, STREAM_HEAD, data_frames, grpc_calls, grpc_message, head_of, open_web, picture_request, web,
                     web_frame)
from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field,
                   frame)

PRIORITY, PADDED, UNKNOWN = 2, 8, 0xEE
LONG_US = 1_000_000_000


def repeated(stranger, connections, opening, again):
    """On each connection the opening, then the same bytes without end; what is said is not read."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(opening)
            while stranger.on():
                s.sendall(again)
    stranger.each(connections, one)


def of_http(stranger, connections, request, reads=True):
    """The same request again and again on each connection."""
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(30)
            while stranger.on():
                s.sendall(request)
                if reads and not s.recv(1 << 20):
                    return
    stranger.each(connections, one)


def infer_wire(model, **parameters):
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="FP32", shape=[1, 64])
    request.raw_input_contents.append(bytes(256))
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    return request.SerializeToString()


def infer_json(model, **parameters):
    head = json.dumps({"parameters": parameters, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64],
                                                             "parameters": {"binary_data_size": 256}}]}).encode()
    return head_of(len(head) + 256, f"Inference-Header-Content-Length: {len(head)}\r\n", f"/v2/models/{model}/infer") + head + bytes(256)


# gRPC: what HTTP/2 allows beside calls.

def hpack_bombs(stranger):
    """Heads of 15 kB that name one long field ten thousand times."""
    length = 3000
    long_field = b"\x40\x01a" + bytes([127, (length - 127) & 127 | 128, (length - 127) >> 7]) + b"b" * length
    grpc_calls(stranger, 4, 1000, head=HEAD + long_field + b"\xbe" * 12_000, again=True)


def endless_heads(stranger):
    """Heads that go on in frames of a few bytes."""
    repeated(stranger, 8, SETTLED + frame(HEADERS, 0, 1, HEAD), frame(CONTINUATION, 0, 1, field("a", "b")) * 1000)


def window_settings(stranger):
    """Settings that change the windows of all open calls, as fast as they go."""
    opening = SETTLED + b"".join(frame(HEADERS, END_HEADERS, s, HEAD) for s in range(1, 121, 2))
    change = b"".join(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, size)) for size in (1, 65535))
    repeated(stranger, 8, opening, change * 500)


def window_updates(stranger):
    """Windows that open by a byte at a time."""
    repeated(stranger, 8, SETTLED, frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 1000)


def padding(stranger):
    """Messages of which only the padding comes."""
    repeated(stranger, 8, SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD), frame(DATA, PADDED, 1, b"\xff" + bytes(255)) * 60)


def empty_frames(stranger):
    """Data frames without data."""
    repeated(stranger, 8, SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD), frame(DATA, 0, 1) * 1000)


def unknown_frames(stranger):
    """Frames of a kind that nobody knows, and priorities."""
    repeated(stranger, 8, SETTLED, frame(UNKNOWN, 0, 0, b"x") * 500 + frame(PRIORITY, 0, 1, bytes(5)) * 500)


def table_sizes(stranger):
    """Fields that make the table of fields grow and shrink."""
    many = b"".join(b"\x40" + bytes([4]) + b"%04d" % n + b"\x01b" for n in range(500))
    grpc_calls(stranger, 4, 1000, head=b"\x20" + b"\x3f\xe1\x1f" + HEAD + many, message=grpc_message(b""), again=True)


def whole_resets(stranger):
    """Calls that came whole and are given up at once."""
    message = b"".join(data_frames(1, grpc_message(infer_wire("quick"))))[9:]
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            for stream in range(1, 2_000_001, 2):
                if not stranger.on():
                    return
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, message)
                          + frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
    stranger.each(8, one)


def short_timeouts(stranger):
    """Calls that may take a nanosecond."""
    grpc_calls(stranger, 4, 1000, head=HEAD + field("grpc-timeout", "1n"), message=grpc_message(infer_wire("quick")), again=True)


def long_timeouts(stranger):
    """Calls that may take ten thousand years, and never come whole."""
    grpc_calls(stranger, 16, 200, head=HEAD + field("grpc-timeout", "99999999H"), message=grpc_message(bytes(1000))[:500], end=False)


def wrong_lengths(stranger):
    """Messages that say to be of four gigabytes."""
    grpc_calls(stranger, 16, 500, message=b"\0\xff\xff\xff\xff" + bytes(1000), end=False, again=True)


def noise(stranger):
    """Anything but HTTP/2 to gRPC's port, and HTTP/2 to HTTP's."""
    kinds = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
             random.Random(1).randbytes(5000), PREFACE + random.Random(2).randbytes(5000)]
    def one(number):
        port = stranger.http if number % 3 == 0 else stranger.grpc
        with stranger.connect(port) as s:
            s.sendall(kinds[number % len(kinds)] if port == stranger.grpc else PREFACE + frame(SETTINGS, 0, 0))
            s.recv(4096)
    stranger.each(12, one)


def reflections(stranger):
    """Streams that ask for the list of services without end."""
    head = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                        field(":path", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"))
    ask = frame(DATA, 0, 1, grpc_message(b"\x3a\x00"))
    repeated(stranger, 8, SETTLED + frame(HEADERS, END_HEADERS, 1, head), ask * 500)


def unread_statistics(stranger):
    """Statistics and configurations over gRPC whose answers nobody takes."""
    shut = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)
    head = HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                        field(":path", "/inference.GRPCInferenceService/ModelStatistics"))
    grpc_calls(stranger, 16, 1000, head=head, message=grpc_message(b""), settled=shut)


def cut(stranger, port, sent):
    """Connections that are reset, not closed, as soon as this is sent."""
    def one(_):
        with stranger.connect(port) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(sent)
    stranger.each(8, one)


def grpc_aborts(stranger):
    """gRPC connections that call and are cut."""
    cut(stranger, stranger.grpc, SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD) + b"".join(data_frames(1, grpc_message(infer_wire("quick")))))


def waiting_streams(stranger):
    """Streams of 256 requests each that may take a thousand seconds."""
    message = grpc_message(infer_wire("slow", timeout=LONG_US))
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(30)
            s.sendall(SETTLED + frame(HEADERS, END_HEADERS, 1, STREAM_HEAD) + frame(DATA, 0, 1, message) * 150)
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(100, one)


def wrong_streams(stranger):
    """Streams of requests that are wrong, whose errors nobody reads."""
    repeated(stranger, 8, SETTLED + frame(HEADERS, END_HEADERS, 1, STREAM_HEAD), frame(DATA, 0, 1, grpc_message(b"\x0a\x01x")) * 500)


# HTTP.

def many_headers(stranger):
    """Heads of thousands of headers."""
    of_http(stranger, 8, b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 5000 + b"\r\n")


def long_targets(stranger):
    """Targets of 60 kB, all of it percent-encoded."""
    of_http(stranger, 8, b"GET /v2/models/" + b"%41" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")


def aborts(stranger):
    """Requests whose connection is cut as soon as they are sent."""
    cut(stranger, stranger.http, infer_json("quick"))


def half_uploads(stranger):
    """Halves of large bodies, whose connection is then made anew."""
    half = head_of(15 * MIB) + bytes(7 * MIB)
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(half)
    stranger.each(8, one)


def waiting_requests(stranger):
    """A request that may take a thousand seconds, on each of 300 connections."""
    of_http(stranger, 300, infer_json("slow", timeout=LONG_US))


def many_parts_json(stranger):
    """Bodies of a million empty inputs."""
    text = b'{"inputs":[' + b"{}," * 1_000_000 + b"{}]}"
    of_http(stranger, 8, head_of(len(text)) + text)


def many_parameters(stranger):
    """Bodies of a million parameters, all of other names."""
    text = ('{"parameters":{' + ",".join(f'"{n:x}":1' for n in range(1_000_000)) + "}}").encode()
    of_http(stranger, 8, head_of(len(text)) + text)


def many_outputs(stranger):
    """A request that asks for its output a hundred thousand times."""
    text = ('{"inputs":[{"name":"x","datatype":"FP32","shape":[1,64],"data":[' + ",".join("0" * 64) + ']}],"outputs":['
            + ",".join(['{"name":"y"}'] * 100_000) + "]}").encode()
    of_http(stranger, 8, head_of(len(text), path="/v2/models/quick/infer") + text)


def escaped_texts(stranger):
    """Texts of nothing but escapes."""
    text = b'{"inputs":[{"name":"encoded","datatype":"BYTES","shape":[1],"data":["' + b"\\u0001" * 2_000_000 + b'"]}]}'
    of_http(stranger, 8, head_of(len(text), path="/v2/models/pictures/infer") + text)


def empty_texts(stranger):
    """Tensors of a million empty texts."""
    data = bytes(4_000_000)
    head = json.dumps({"inputs": [{"name": "encoded", "datatype": "BYTES", "shape": [1_000_000],
                                   "parameters": {"binary_data_size": len(data)}}]}).encode()
    of_http(stranger, 8, head_of(len(head) + len(data), f"Inference-Header-Content-Length: {len(head)}\r\n",
                                 "/v2/models/pictures/infer") + head + data)


def deflate_bodies(stranger):
    """Small bodies that unpack to much."""
    packed = zlib.compress(b'{"inputs":[' + b" " * (15 * MIB), 9)
    of_http(stranger, 64, head_of(len(packed), "Content-Encoding: deflate\r\n") + packed)


def gzip_members(stranger):
    """Bodies of half a million gzip members, each of nothing."""
    packed = gzip.compress(b"") * 500_000
    of_http(stranger, 8, head_of(len(packed), "Content-Encoding: gzip\r\n") + packed)


def indexes(stranger):
    """The repository's index and all statistics, without a pause."""
    of_http(stranger, 8, head_of(2, path="/v2/repository/index") + b"{}"
            + b"GET /v2/models/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


def live_questions(stranger):
    """What the live page asks, without a pause."""
    of_http(stranger, 8, b"GET /v2/live/requests?limit=500 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            + b"GET /v2/live/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


def what_ifs(stranger):
    """What-ifs over all that is recorded, without a pause."""
    of_http(stranger, 8, b"POST /v2/live/what_if HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}")


# WebSockets.

def new_web_sockets(stranger):
    """WebSockets that are made and closed as fast as that goes."""
    web(stranger, 8, lambda s: None)


def waiting_web_requests(stranger):
    """A thousand requests of 1000 seconds over each of eight WebSockets."""
    text = json.dumps({"parameters": {"timeout": LONG_US}, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode()
    def send(s):
        for _ in range(1000):
            s.sendall(web_frame(text, 1))
        while stranger.on() and s.recv(65536):
            pass
    def one(_):
        with stranger.connect(stranger.http) as s:
            open_web(s, b"slow")
            send(s)
    stranger.each(8, one)


def endless_web_messages(stranger):
    """Messages that say to be of an exabyte, and come."""
    head = bytes([0x82, 0xFF]) + struct.pack(">Q", 1 << 60) + bytes(4)
    def send(s):
        s.sendall(head)
        while stranger.on():
            s.sendall(bytes(65536))
    web(stranger, 8, send)


def wrong_web_frames(stranger):
    """Frames without a mask, of reserved kinds, and control frames in pieces."""
    kinds = [b"\x82\x05hello", b"\x8f\x80" + bytes(4), b"\x09\x80" + bytes(4), web_frame(b"\xff\xfe", 1), b"\xf2\x80" + bytes(4)]
    def one(number):
        with stranger.connect(stranger.http) as s:
            open_web(s)
            s.sendall(kinds[number % len(kinds)])
            s.recv(4096)
    stranger.each(10, one)


# Pictures.

def progressive_pictures(stranger):
    """JPEGs of 3000 x 3000 whose last scan comes a thousand times."""
    from PIL import Image
    out = io.BytesIO()
    Image.new("RGB", (3000, 3000)).save(out, "JPEG", progressive=True, quality=20)
    whole = out.getvalue()
    last = whole.rindex(b"\xff\xda")
    encoded = whole[:last] + whole[last:-2] * 1000 + whole[-2:]
    request, data = picture_request(encoded)
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.settimeout(5)
            s.sendall(head_of(len(request) + len(data), f"Inference-Header-Content-Length: {len(request)}\r\n",
                              "/v2/models/pictures/infer") + request + data)
            s.recv(65536)
    stranger.each(4, one)


ATTACKS = [hpack_bombs, endless_heads, window_settings, window_updates, padding, empty_frames, unknown_frames, table_sizes,
           whole_resets, short_timeouts, long_timeouts, wrong_lengths, noise, reflections, unread_statistics, grpc_aborts,
           waiting_streams, wrong_streams,
           many_headers, long_targets, aborts, half_uploads, waiting_requests, many_parts_json, many_parameters, many_outputs,
           escaped_texts, empty_texts, deflate_bodies, gzip_members, indexes, live_questions, what_ifs,
           new_web_sockets, waiting_web_requests, endless_web_messages, wrong_web_frames, progressive_pictures]
