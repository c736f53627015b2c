"""Further kinds of what one stranger may do to a server, for bench/attack.py: connections that do just enough not to be idle, calls
whose answers and errors cannot be written, what is asked of the making of a reply, texts that grow when they are kept, and heads of
many small fields."""

import json
import socket
import struct
import threading
import time
import zlib

from attacks import MIB, SETTLED, STREAM_HEAD, UPGRADE, grpc_calls, grpc_message, head_of, open_web, web_frame
from attacks_more import LONG_US, infer_json, infer_wire, of_http
from attacks_rest import WINDOW, of_call, read_all
from http2 import DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PING, PREFACE, SETTINGS, WINDOW_UPDATE, field, frame

SHUT = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)  # no window for answers
HEALTH = of_call("grpc.health.v1.Health", "Check")


def neighbour(number):
    """An address of this machine; 0: the canary's."""
    return f"127.0.{number // 250}.{number % 250 + 1}"


def narrow(port, address="127.0.0.1"):
    """A connection over which the client takes as little as a system allows."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(5)
    s.bind((address, 0))
    s.connect(("127.0.0.1", port))
    return s


def held_open(stranger, port, count, opening, again, every_s, addresses=1, first=0):
    """So many connections of as many addresses, each of which says `again` now and then; those that are closed are made anew."""
    held, due = {}, time.monotonic()
    while stranger.on():
        for number in range(count):
            try:
                if number not in held:
                    held[number] = stranger.connect(port, neighbour(first + number % addresses))
                    held[number].sendall(opening)
                else:
                    held[number].setblocking(False)
                    held[number].sendall(again)
                    while held[number].recv(1 << 16):
                        pass
                    held.pop(number).close()
            except BlockingIOError:
                pass
            except OSError:
                if number in held:
                    held.pop(number).close()
            if not stranger.on():
                return
        due += every_s
        time.sleep(max(0.0, due - time.monotonic()))


class Uploads:
    """Messages over one connection, none beyond the windows that the server opens: beyond them it is a flood."""

    def __init__(self, s):
        self.s, self.rest, self.first, self.all, self.own = s, b"", WINDOW, WINDOW, {}

    def send(self, stream, message, end=True):
        self.own[stream] = self.own.get(stream, 0) + self.first
        at = 0
        while at < len(message):
            size = min(16384, len(message) - at, self.all, self.own[stream])
            if size <= 0:
                self.hear()
                continue
            self.s.sendall(frame(DATA, END_STREAM if end and at + size == len(message) else 0, stream, message[at:at + size]))
            self.all -= size
            self.own[stream] -= size
            at += size

    def hear(self):
        """At least one piece of what the server says."""
        got = self.s.recv(1 << 16)
        if not got:
            raise ConnectionError("closed")
        self.rest += got
        while len(self.rest) >= 9 and len(self.rest) >= 9 + (size := int.from_bytes(self.rest[:3], "big")):
            kind, flags, stream, body = self.rest[3], self.rest[4], int.from_bytes(self.rest[5:9], "big"), self.rest[9:9 + size]
            self.rest = self.rest[9 + size:]
            if kind == WINDOW_UPDATE and stream == 0:
                self.all += int.from_bytes(body, "big")
            elif kind == WINDOW_UPDATE:
                self.own[stream] = self.own.get(stream, 0) + int.from_bytes(body, "big")
            elif kind == SETTINGS and not flags:
                for i in range(0, size, 6):
                    if body[i:i + 2] == b"\0\4":
                        more = int.from_bytes(body[i + 2:i + 6], "big") - self.first
                        self.first += more
                        self.own = {each: left + more for each, left in self.own.items()}
                self.s.sendall(frame(SETTINGS, 1, 0))


def uploads(stranger, connections, calls, message, opening=PREFACE + frame(SETTINGS, 0, 0)):
    """So many calls of a large message over each connection, all of which wait."""
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(10)
            s.sendall(opening)
            sending = Uploads(s)
            for stream in range(1, 2 * calls, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD))
                sending.send(stream, message)
                if not stranger.on():
                    return
            while stranger.on():
                sending.hear()
    stranger.each(connections, one)


# Connections that are not idle.

def busy_uploads(stranger):
    """As many connections as there may be, over each of which a body comes fast enough not to be slow, again and again."""
    held_open(stranger, stranger.http, 1030, head_of(1 << 20), b"x" * 512, 0.5)


def busy_requests(stranger):
    """As many connections as there may be of an address that is not the canary's, each with requests for a slow model."""
    held_open(stranger, stranger.http, 1030, infer_json("slow", timeout=LONG_US), infer_json("slow", timeout=LONG_US), 0.5, first=1)


def busy_web_sockets(stranger):
    """The same over WebSockets."""
    text = json.dumps({"parameters": {"timeout": LONG_US}, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode()
    held_open(stranger, stranger.http, 1030, UPGRADE.replace(b"quick", b"slow"), web_frame(text, 1), 0.5, first=1)


def pinging_connections(stranger):
    """As many gRPC connections as there may be, of one call each, that ping now and then."""
    ask = frame(HEADERS, END_HEADERS, 1, HEALTH) + frame(DATA, END_STREAM, 1, grpc_message(b""))
    held_open(stranger, stranger.grpc, 1030, SETTLED + ask, frame(PING, 0, 0, b"12345678"), 4)


def lively_streams(stranger):
    """As many streams as an address may have, which is not the canary's, over each of which something wrong is asked now and then."""
    ask = grpc_message(b"\x0a\x01x")
    def one(_):
        with stranger.connect(stranger.grpc, neighbour(1)) as s:
            s.sendall(SETTLED)
            threading.Thread(target=read_all, args=(stranger, s), daemon=True).start()
            streams = range(1, 129, 2)
            s.sendall(b"".join(frame(HEADERS, END_HEADERS, stream, STREAM_HEAD) for stream in streams))
            while stranger.on():
                s.sendall(b"".join(frame(DATA, 0, stream, ask) for stream in streams))
                time.sleep(3)
    stranger.each(16, one)


def many_watchers(stranger):
    """As many that watch the server's health as there may be of an address that is not the canary's, beside others that want to."""
    grpc_calls(stranger, 16, 60, head=of_call("grpc.health.v1.Health", "Watch"), message=grpc_message(b""), address=neighbour(1))


# Answers and errors that cannot be written.

def unread_checks(stranger):
    """Questions after the server's health whose answers nobody takes."""
    grpc_calls(stranger, 64, 1000, head=HEALTH, message=grpc_message(b""), settled=SHUT)


def stuck(stranger, connections, addresses):
    """Over each connection a large answer, which is not read, and a thousand wrong calls behind it."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="identity-uint8")
    request.inputs.add(name="x", datatype="UINT8", shape=[1, 4 * MIB])
    request.raw_input_contents.append(bytes(4 * MIB))
    large, wrong = grpc_message(request.SerializeToString()), grpc_message(b"\x0a\x01x")
    opening = (PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
               + frame(HEADERS, END_HEADERS, 1, HEAD))
    def one(number):
        with narrow(stranger.grpc, neighbour(number % addresses)) as s:
            s.sendall(opening)
            Uploads(s).send(1, large)
            time.sleep(1)
            for stream in range(3, 2041, 2):
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, wrong))
            while stranger.on():
                time.sleep(0.1)
    stranger.each(connections, one)


def stuck_errors(stranger):
    """Calls that are wrong, over connections that take nothing any more."""
    stuck(stranger, 32, 1)


# The making of a reply.

def classify(model, size, classes):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, size], "parameters": {"binary_data_size": size}}],
                       "outputs": [{"name": "y", "parameters": {"classification": classes}}]}).encode()
    return head_of(len(head) + size, f"Inference-Header-Content-Length: {len(head)}\r\n", f"/v2/models/{model}/infer") + head + bytes(size)


def all_classes(stranger):
    """All of fifteen million classes, from the first to the last."""
    of_http(stranger, 4, classify("identity-uint8", 15_000_000, 2**32 - 1))


def many_classes(stranger):
    """All of sixty thousand classes, which is less than what is left to others."""
    of_http(stranger, 8, classify("identity-uint8", 60_000, 2**32 - 1))


def grpc_classes(stranger):
    """All of a million classes over gRPC."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="identity-uint8")
    request.inputs.add(name="x", datatype="UINT8", shape=[1, MIB])
    request.raw_input_contents.append(bytes(MIB))
    request.outputs.add(name="y").parameters["classification"].int64_param = 2**32 - 1
    uploads(stranger, 4, 1000, grpc_message(request.SerializeToString()))


def medium_replies(stranger):
    """Replies of a little less than what is long, as compressed JSON."""
    size = MIB - 1
    head = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, size], "parameters": {"binary_data_size": size}}]}).encode()
    request = head_of(len(head) + size, f"Accept-Encoding: gzip\r\nInference-Header-Content-Length: {len(head)}\r\n") + head
    of_http(stranger, 32, request + bytes(range(255)) * (size // 255) + bytes(size % 255))


# What takes long for its size.

def empty_blocks(stranger):
    """Bodies of a million deflate blocks, each with a code of its own for nothing."""
    of_http(stranger, 8, head_of(len(EMPTY_BLOCKS), "Content-Encoding: deflate\r\n") + EMPTY_BLOCKS)


def empty_block():
    """A deflate block (RFC 1951) with codes of its own, and nothing but its end."""
    bits = []
    def put(value, count):
        bits.extend(value >> i & 1 for i in range(count))
    put(0, 1)       # not the last
    put(2, 2)       # codes of its own
    put(0, 5)       # 257 of literals and lengths
    put(0, 5)       # 1 of distances
    put(14, 4)      # 18 of code lengths: 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1
    lengths = {18: 1, 0: 2, 1: 2}
    for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1):
        put(lengths.get(symbol, 0), 3)
    codes = {18: "0", 0: "10", 1: "11"}
    def code(symbol):
        bits.extend(int(c) for c in codes[symbol])
    code(18); put(138 - 11, 7)   # 138 of zero
    code(18); put(118 - 11, 7)   # 118 of zero: 256 literals
    code(1)                      # the end of the block has one bit
    code(1)                      # and so has the one distance
    bits.append(0)               # the end of the block
    return bits


def packed_blocks(size):
    """As many of them as have this size, without zlib's header, and a last one."""
    block = empty_block()
    eight = block * 8  # whole bytes
    part = bytes(sum(bit << i for i, bit in enumerate(eight[at:at + 8])) for at in range(0, len(eight), 8))
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"\x78\x9c" + part * (size // len(part)) + last.compress(b"{}") + last.flush() + struct.pack(">I", zlib.adler32(b"{}"))


EMPTY_BLOCKS = packed_blocks(15 * MIB)


def medium_bodies(stranger):
    """JSON that just needs a background thread, on hundreds of connections."""
    text = b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,35000],"data":[' + b"0," * 34_999 + b"0]}]}"
    request = head_of(len(text)) + text
    held_open(stranger, stranger.http, 300, request, request, 1)


# Texts that grow.

def escaped_parameters(stranger):
    """Requests that wait, with a parameter of fifteen megabytes each of which a JSON text has six for."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest.FromString(infer_wire("slow", timeout=LONG_US))
    request.parameters["text"].string_param = "\1" * (15 * MIB)
    uploads(stranger, 16, 20, grpc_message(request.SerializeToString()))


def long_ids(stranger):
    """Requests that wait, with an id of fifteen megabytes."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest.FromString(infer_wire("slow", timeout=LONG_US))
    request.id = "i" * (15 * MIB)
    uploads(stranger, 16, 20, grpc_message(request.SerializeToString()))


# Heads of many fields.

def fat_heads(stranger):
    """Heads of sixteen thousand fields, and bodies that are still to come."""
    head = head_of(1000)[:-2]
    held_open(stranger, stranger.http, 1000, head + b"a:\r\n" * ((65_000 - len(head)) // 4) + b"\r\n", b"x", 1)


def cut_heads(stranger):
    """Heads without end, of which each read takes a field and one byte of the next."""
    held_open(stranger, stranger.http, 900, b"GET /v2 HTTP/1.1\r\nHost: x\r\nA", b": " + b"x" * (16384 - 5) + b"\r\nA", 0.1)


def many_fields(stranger):
    """Calls that wait, with five hundred fields of metadata."""
    first = b"\x40\x01a\x01b"
    grpc_calls(stranger, 32, 400, head=HEAD + first + b"\xbe" * 400, message=grpc_message(infer_wire("slow", timeout=LONG_US)))


def silent_fields(stranger):
    """The same of which no message comes."""
    first = b"\x40\x01a\x01b"
    grpc_calls(stranger, 32, 400, head=HEAD + first + b"\xbe" * 400)


# HTTP/1.1.

def many_trailers(stranger):
    """Bodies in chunks with sixteen thousand fields behind them."""
    of_http(stranger, 8, b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
            + b"a:\r\n" * 16_000 + b"\r\n")


def chunk_extensions(stranger):
    """Bodies in chunks of a byte and an extension of sixty kilobytes."""
    head = b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"1;" + b"x" * 60_000 + b"\r\n0\r\n"
    def one(_):
        with stranger.connect(stranger.http) as s:
            s.sendall(head)
            while stranger.on():
                s.sendall(chunk)
    stranger.each(8, one)


def empty_lines(stranger):
    """Empty lines before a request that never comes."""
    of_http(stranger, 8, b"\r\n" * 30_000, reads=False)


def half_closed(stranger):
    """Requests that wait, of clients that have said that nothing more comes, on as many connections as there may be of an address that is
    not the canary's."""
    ask = infer_json("slow", timeout=LONG_US)
    def one(_):
        held = []
        for _ in range(260):
            held.append(stranger.connect(stranger.http, neighbour(1)))
            held[-1].sendall(ask)
            held[-1].shutdown(socket.SHUT_WR)
        time.sleep(1)
        for s in held:
            s.close()
    stranger.each(4, one)


def unread_ends(stranger):
    """Last replies of connections, which are not read and whose connections are not closed."""
    ask = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    def one(_):
        held = []
        while stranger.on():
            held.append(narrow(stranger.http))
            held[-1].sendall(ask)
            held = held[-300:]
    stranger.each(4, one)


def faulty_numbers(stranger):
    """Sixty kilobytes of digits, and then no JSON."""
    number = b"0." + b"1" * 59_000
    text = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,64],"data":[' + number + b",}]}]}"
    of_http(stranger, 8, head_of(len(text), path="/v2/models/quick/infer") + text)


def unknown_parameters(stranger):
    """Requests with thousands of parameters that nobody knows, and that ask why."""
    names = {f"timeot{n}": "x" for n in range(2000)} | {"explain": True}
    of_http(stranger, 8, infer_json("quick", **names))


# WebSockets.

def web_acknowledgements(stranger):
    """Messages that want to hear that they have come, of clients that do not listen."""
    text = json.dumps({"id": "i" * 4000, "parameters": {"stream_ack": True}, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode()
    asks = web_frame(text, 1) * 64
    def one(_):
        with narrow(stranger.http) as s:
            open_web(s)
            while stranger.on():
                s.sendall(asks)
    stranger.each(64, one)


def web_ends(stranger):
    """WebSockets that say goodbye, and then go on and on."""
    more = web_frame(b"x" * 1000) * 60
    def one(_):
        with stranger.connect(stranger.http) as s:
            open_web(s)
            s.sendall(web_frame(b"\x03\xe8", 8))
            while stranger.on():
                s.sendall(more)
    stranger.each(8, one)


# gRPC.

def expiring_calls(stranger):
    """Calls that wait for a slow model and end at their deadlines, without a pause."""
    head = HEAD + field("grpc-timeout", "20m")
    message = frame(DATA, END_STREAM, 1, grpc_message(infer_wire("slow", timeout=LONG_US)))
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED)
            threading.Thread(target=read_all, args=(stranger, s), daemon=True).start()
            for first in range(1, 2_000_001, 100):
                if not stranger.on():
                    return
                s.sendall(b"".join(frame(HEADERS, END_HEADERS, stream, head) + message[:5] + struct.pack(">I", stream) + message[9:]
                                   for stream in range(first, first + 100, 2)))
                time.sleep(0.02)
    stranger.each(8, one)


# Many addresses, each with a little.

def heads_of_many(stranger):
    """Streams of which only the heads are sent, of a hundred addresses."""
    def one(number):
        with stranger.connect(stranger.grpc, neighbour(number)) as s:
            s.sendall(SETTLED + b"".join(frame(HEADERS, END_HEADERS, stream, STREAM_HEAD) for stream in range(1, 401, 2)))
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(100, one)


def halves_of_many(stranger):
    """Half of a large message of each of sixty addresses."""
    half = grpc_message(bytes(15 * MIB))[:8 * MIB]
    def one(number):
        with stranger.connect(stranger.grpc, neighbour(number)) as s:
            s.settimeout(30)
            s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, HEAD))
            Uploads(s).send(1, half, False)
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(60, one)


def errors_of_many(stranger):
    """Wrong calls over connections that take nothing any more, of forty addresses."""
    stuck(stranger, 80, 40)


def streams_of_many(stranger):
    """Streams over which something is asked now and then, of forty addresses."""
    ask = grpc_message(b"\x0a\x01x")
    streams = range(1, 129, 2)
    held_open(stranger, stranger.grpc, 40, SETTLED + b"".join(frame(HEADERS, END_HEADERS, s, STREAM_HEAD) for s in streams),
              b"".join(frame(DATA, 0, s, ask) for s in streams), 3, 40)


def requests_of_many(stranger):
    """As many connections as there may be, each with a request that waits, of two hundred other addresses."""
    held_open(stranger, stranger.http, 1030, infer_json("slow", timeout=LONG_US), infer_json("slow", timeout=LONG_US), 0.5, 200, 1)


def pings_of_many(stranger):
    """As many gRPC connections as there may be, that ping now and then, of two hundred addresses."""
    ask = frame(HEADERS, END_HEADERS, 1, HEALTH) + frame(DATA, END_STREAM, 1, grpc_message(b""))
    held_open(stranger, stranger.grpc, 1030, SETTLED + ask, frame(PING, 0, 0, b"12345678"), 4, 200)


ATTACKS = [busy_uploads, busy_requests, busy_web_sockets, pinging_connections, lively_streams, many_watchers, unread_checks,
           stuck_errors, all_classes, many_classes, grpc_classes, medium_replies, empty_blocks, medium_bodies, escaped_parameters,
           long_ids, fat_heads, cut_heads, many_fields, silent_fields, many_trailers, chunk_extensions, empty_lines, half_closed, unread_ends,
           faulty_numbers, unknown_parameters, web_acknowledgements, web_ends, expiring_calls,
           heads_of_many, halves_of_many, errors_of_many, streams_of_many, requests_of_many, pings_of_many]
EXTRA = {"lively_streams": "streams", "many_watchers": "watchers", "streams_of_many": "streams", "medium_replies": "JSON",
         "empty_blocks": "JSON", "medium_bodies": "JSON", "many_classes": "JSON", "all_classes": "JSON", "expiring_calls": "slow"}
