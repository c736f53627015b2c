"""Kinds of what one stranger may do that the other files have not, for bench/attack.py: sound, shapes, recordings and
what-ifs, admin calls where they are refused, what comes behind the message of a call, and windows that hardly open."""

import itertools
import json
import socket
import struct
import threading
import time

from attacks import SETTLED, STREAM_HEAD, data_frames, grpc_message, head_of, open_web, web_frame
from attacks_more import LONG_US, infer_json, infer_wire, of_http, repeated
from http2 import DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame

WINDOW = 65_535  # of a stream and of a connection, unless the server says more


# Sound.

def wav(samples, rate, channels=1, bits=8):
    """A WAV file of these bytes."""
    align = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def sound_request(encoded):
    data = struct.pack("<I", len(encoded)) + encoded
    return json.dumps({"inputs": [{"name": "encoded", "datatype": "BYTES", "shape": [1],
                                   "parameters": {"binary_data_size": len(data)}}]}).encode(), data


def of_sounds(stranger, connections, encoded):
    head, data = sound_request(encoded)
    of_http(stranger, connections, head_of(len(head) + len(data), f"Inference-Header-Content-Length: {len(head)}\r\n",
                                           "/v2/models/sounds/infer") + head + data)


def large_sounds(stranger):
    """A minute of sound at a rate that has nothing in common with the service's."""
    of_sounds(stranger, 4, wav(bytes(60 * 191_999), 191_999))


def odd_sounds(stranger):
    """Sounds of 30,000 channels, and of a million chunks that say nothing."""
    empty = wav(b"", 16_000)
    many = empty[:12] + (b"none" + bytes(4)) * 1_000_000 + empty[12:]
    kinds = [wav(bytes(30_000 * 400), 16_000, 30_000), many]
    threads = [threading.Thread(target=of_sounds, args=(stranger, 2, kind), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# HTTP.

def many_shapes(stranger):
    """Requests of which each has a shape of its own."""
    sizes = itertools.count(1)
    def one(_):
        with stranger.connect(stranger.http) as s:
            while stranger.on():
                size = next(sizes) % 1_000_000 + 1
                head = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, size],
                                               "parameters": {"binary_data_size": size}}],
                                   "outputs": [{"name": "y", "parameters": {"classification": 1}}]}).encode()
                s.sendall(head_of(len(head) + size, f"Inference-Header-Content-Length: {len(head)}\r\n") + head + bytes(size))
                if not s.recv(65536):
                    return
    stranger.each(8, one)


def hard_numbers(stranger):
    """Numbers of fifty thousand digits, which are halfway between two that can be told."""
    number = b"9007199254740993" + b"0" * 50_000 + b"1e-50001"
    text = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,64],"data":[' + b",".join([number] * 64) + b"]}]}"
    of_http(stranger, 8, head_of(len(text), path="/v2/models/quick/infer") + text)


def tiny_segments(stranger):
    """Requests in segments of one byte, as fast as they go."""
    request = infer_json("quick")
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while stranger.on():
                for at in range(len(request)):
                    s.send(request[at:at + 1])
                s.recv(65536)
    stranger.each(8, one)


def expectations(stranger):
    """Heads that wait for 100 Continue, and no bodies."""
    head = head_of(1 << 20, "Expect: 100-continue\r\n")
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(head)
            s.recv(4096)
    stranger.each(16, one)


def unread_traces(stranger):
    """All that is recorded, after as many requests as go, on connections that do not read it."""
    def take(_):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", stranger.http))
            s.sendall(b"GET /v2/live/trace HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4)
            s.settimeout(2)
            while stranger.on() and s.recv(8):
                time.sleep(0.3)
    flood = threading.Thread(target=of_http, args=(stranger, 4, infer_json("quick") * 50), daemon=True)
    flood.start()
    stranger.each(32, take)


def large_what_ifs(stranger):
    """What-ifs of twenty times the load on ten thousand workers, after as many requests as go."""
    cases = [{"load": 20, "workers": 10_000 - n} for n in range(16)]
    text = json.dumps({"cases": cases, "on_time": 1}).encode()
    question = b"POST /v2/live/what_if HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    flood = threading.Thread(target=of_http, args=(stranger, 4, infer_json("quick") * 50), daemon=True)
    flood.start()
    of_http(stranger, 8, question)


def unread_events(stranger):
    """The live page's events, which nobody reads, beside requests that make many."""
    def one(number):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", stranger.http))
            if number < 16:
                s.sendall(b"GET /v2/live/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                while stranger.on():
                    time.sleep(0.1)
            while stranger.on():
                s.sendall(infer_json("quick") * 20)
                s.recv(1 << 20)
    stranger.each(20, one)


def refused_loads(stranger):
    """Loads with megabytes of files, where administrative calls are refused (bench/attack.py gives it such a server)."""
    text = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": "A" * (14 << 20)}}).encode()
    of_http(stranger, 16, head_of(len(text), path="/v2/repository/models/other/load") + text)


# gRPC.

def stuffed(stranger, connections, calls, head, message):
    """Calls that wait, and behind the message of each as many others as its window takes, which nobody reads."""
    first = grpc_message(message)
    more = grpc_message(bytes(1000))
    rest = more * ((WINDOW - len(first)) // len(more))
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(30)
            s.sendall(SETTLED)
            reader = threading.Thread(target=read_all, args=(stranger, s), daemon=True)
            reader.start()
            for stream in range(1, 2 * calls, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, head)
                          + b"".join(data_frames(stream, first + rest, end=False)))
                if not stranger.on():
                    return
            reader.join()
    stranger.each(connections, one)


def read_all(stranger, s):
    try:
        while stranger.on() and s.recv(1 << 16):
            pass
    except OSError:
        pass


def of_call(service, method):
    return HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"), field(":path", f"/{service}/{method}"))


def stuffed_watches(stranger):
    """Watches of the server's health, with messages behind the one that there is."""
    stuffed(stranger, 16, 500, of_call("grpc.health.v1.Health", "Watch"), b"")


def stuffed_calls(stranger):
    """Calls that wait for a slow model, with messages behind the one that there is."""
    stuffed(stranger, 16, 500, HEAD, infer_wire("slow", timeout=LONG_US))


def patient_resets(stranger):
    """Calls that wait for a slow model and are given up after some milliseconds, which costs an address nothing."""
    message = b"".join(data_frames(1, grpc_message(infer_wire("slow", timeout=LONG_US))))[9:]
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            for first in range(1, 2_000_001, 200):
                if not stranger.on():
                    return
                streams = range(first, first + 200, 2)
                s.sendall(b"".join(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, message)
                                   for stream in streams))
                time.sleep(0.005)
                s.sendall(b"".join(frame(RST_STREAM, 0, stream, b"\0\0\0\x08") for stream in streams))
    stranger.each(8, one)


def stream_resets(stranger):
    """Streams of two hundred requests that wait for a slow model, given up after some milliseconds: one reset for all of them."""
    message = frame(DATA, 0, 1, grpc_message(infer_wire("slow", timeout=LONG_US)))
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            threading.Thread(target=read_all, args=(stranger, s), daemon=True).start()
            for stream in range(1, 2_000_001, 2):
                if not stranger.on():
                    return
                mine = message[:5] + struct.pack(">I", stream) + message[9:]
                s.sendall(frame(HEADERS, END_HEADERS, stream, STREAM_HEAD) + mine * (WINDOW // len(mine)))
                time.sleep(0.005)
                s.sendall(frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
    stranger.each(8, one)


def web_aborts(stranger):
    """WebSockets that ask a slow model two hundred times and are cut."""
    text = json.dumps({"parameters": {"timeout": LONG_US}, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode()
    asks = web_frame(text, 1) * 200
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            open_web(s, b"slow")
            s.sendall(asks)
            time.sleep(0.03)
    stranger.each(8, one)


def window_drips(stranger):
    """Large answers, for which the window opens by a byte at a time."""
    from tritonclient.grpc import service_pb2
    size = 2 << 20
    request = service_pb2.ModelInferRequest(model_name="identity-uint8")
    request.inputs.add(name="x", datatype="UINT8", shape=[1, size])
    request.raw_input_contents.append(bytes(size))
    message = grpc_message(request.SerializeToString())
    shut = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(30)
            s.sendall(shut)
            threading.Thread(target=read_all, args=(stranger, s), daemon=True).start()
            streams = range(1, 41, 2)
            for stream in streams:
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD) + b"".join(data_frames(stream, message)))
            while stranger.on():
                s.sendall(b"".join(frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1") for stream in streams))
                time.sleep(0.02)
    stranger.each(16, one)


def strange_streams(stranger):
    """Frames of streams that there are not, in turns with calls, and heads that end a message of none."""
    wrong = frame(DATA, 0, 9, b"x" * 300) + frame(WINDOW_UPDATE, 0, 9, b"\0\0\0\1") + frame(HEADERS, END_HEADERS | END_STREAM, 1, HEAD)
    repeated(stranger, 8, SETTLED + frame(HEADERS, END_HEADERS, 1, HEAD), wrong * 100)


ATTACKS = [large_sounds, odd_sounds, many_shapes, hard_numbers, tiny_segments, expectations, unread_traces, large_what_ifs,
           unread_events, refused_loads, stuffed_watches, stuffed_calls, patient_resets, stream_resets, web_aborts, window_drips, strange_streams]
