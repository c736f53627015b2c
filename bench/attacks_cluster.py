"""What one stranger may do to a cluster of frontends, a scheduler and workers, for bench/attack_cluster.py."""

import contextlib
import functools
import itertools
import json
import pathlib
import random
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time

import attack_streams
import attacks
import attacks_more
from attacks import MIB, SETTLED, STREAM_HEAD, data_frames, grpc_message, head_of, open_web, web_frame
from attacks_more import LONG_US, infer_json, infer_wire
from attacks_parts import client_hello, unverified
from http2 import END_HEADERS, HEADERS, frame

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from hosted import make_certificate  # noqa: E402


class Stranger(attacks.Stranger):
    """`http`, `grpc`: of the first frontend, or of either (`both`); `ports`: the scheduler's, both frontends' for workers, the worker's."""

    def __init__(self, http, grpc, ports, seconds):
        super().__init__(http[0], grpc[0], ports[0], seconds)
        self.all_http, self.all_grpc, self.ports, self.both = http, grpc, ports, False

    @property
    def http(self):
        return random.choice(self.all_http) if self.both else self.all_http[0]

    @property
    def grpc(self):
        return random.choice(self.all_grpc) if self.both else self.all_grpc[0]

    @http.setter
    def http(self, _):
        pass

    @grpc.setter
    def grpc(self, _):
        pass

    def connect_part(self, number, machine="127.0.0.9"):
        """From another machine than the parts are on."""
        s = socket.socket()
        s.settimeout(6)
        s.bind((machine, 0))
        s.connect(("127.0.0.1", self.ports[number % len(self.ports)]))
        return s


def of_parts(stranger, connections, talk):
    def one(number):
        with stranger.connect_part(number) as s:
            talk(s)
    stranger.each(connections, one)


def over_both(how):
    """The same over both frontends, which have its limits together."""
    @functools.wraps(how)
    def over(stranger):
        stranger.both = True
        how(stranger)
    return over


# The parts' own ports, without a certificate of their authority.

def silent_at_parts(stranger):
    """Connections that say nothing, at every port."""
    of_parts(stranger, 240, lambda s: s.recv(1))


def machines_at_parts(stranger):
    """The same from thousands of machines."""
    def one(number):
        with stranger.connect_part(number, f"127.{random.randrange(1, 250)}.{random.randrange(250)}.{random.randrange(1, 250)}") as s:
            s.recv(1)
    stranger.each(400, one)


def drips_at_parts(stranger):
    """Handshakes that come byte by byte, each in a record of its own."""
    hello = client_hello()[5:]
    def talk(s):
        for byte in hello:
            s.sendall(b"\x16\x03\x01\0\1" + bytes([byte]))
            time.sleep(0.02)
        s.recv(1)
    of_parts(stranger, 200, talk)


def records_at_parts(stranger):
    """Records of one byte, warnings and empty ones, as fast as they go."""
    kinds = [b"\x16\x03\x01\0\1\1" * 1000, b"\x15\x03\x01\0\2\1\0" * 1000, b"\x16\x03\x01\0\0" * 1000]
    def one(number):
        with stranger.connect_part(number) as s:
            while stranger.on():
                s.sendall(kinds[number % len(kinds)])
    stranger.each(24, one)


def unread_at_parts(stranger):
    """Whole greetings of TLS whose answers nobody takes."""
    hello = client_hello()
    def one(number):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256)
            s.settimeout(6)
            s.bind(("127.0.0.9", 0))
            s.connect(("127.0.0.1", stranger.ports[number % len(stranger.ports)]))
            s.sendall(hello)
            time.sleep(6)
    stranger.each(240, one)


def plain_at_parts(stranger):
    """What a part begins with, without TLS: to attach to any session, to be a frontend, to be a host."""
    def text(number, data):
        return bytes([number << 3 | 2, len(data)]) + data
    kinds = [text(11, b"\x09" + random.randbytes(8)), text(12, b"\x08\x01" + text(2, b"front0")), text(1, b"\x08\x01" + text(2, b"h"))]
    kinds = [b"FMC1" + struct.pack("<IQ", len(kind), 0) + kind for kind in kinds]
    def one(number):
        with stranger.connect_part(number) as s:
            s.sendall(kinds[number % len(kinds)])
            s.recv(1)
    stranger.each(16, one)


def certified_by_others(stranger, extra=0):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_certificate(folder, "other", "other")
        make_certificate(folder, "mine", "other")
        chain = (folder / "mine.pem").read_text() + (folder / "other.pem").read_text() * extra
        (folder / "chain.pem").write_text(chain)
        context = unverified()
        context.load_cert_chain(folder / "chain.pem", folder / "mine.key")

        def talk(s):
            with contextlib.suppress(ssl.SSLError):
                with context.wrap_socket(s) as tls:
                    tls.recv(1)
        of_parts(stranger, 12, talk)


def others_certificates(stranger):
    """Certificates that another authority has signed."""
    certified_by_others(stranger)


def long_chains(stranger):
    """The same with as long a chain as TLS takes."""
    certified_by_others(stranger, 130)


# Streams over frontends, whose clients the scheduler knows.

def web_hellos(stranger):
    """Hellos of ever new clients over both frontends, as fast as WebSockets take them."""
    stranger.both = True

    def one(number):
        hellos = [b"".join(web_frame(json.dumps({"id": "h", "parameters": {
            "stream_client": f"{number} {block} {i}", "stream_rate": 120, "stream_slo": 100_000, "stream_hello": True}}).encode(), 1)
            for i in range(200)) for block in range(20)]
        with stranger.connect(stranger.http) as s:
            open_web(s, b"cameras")
            reading = threading.Thread(target=read_out, args=(s,), daemon=True)
            reading.start()
            for block in itertools.cycle(hellos):
                if not stranger.on():
                    return
                s.sendall(block)
    stranger.each(16, one)


def read_out(s):
    with contextlib.suppress(OSError):
        while s.recv(1 << 20):
            pass


def web_comings(stranger):
    """WebSockets of a client each, which go as soon as they have come."""
    stranger.both = True

    def one(number):
        with stranger.connect(stranger.http) as s:
            open_web(s, b"cameras")
            s.sendall(web_frame(json.dumps({"parameters": {"stream_client": "c", "stream_rate": 120, "stream_slo": 100_000,
                                                           "stream_hello": True}}).encode(), 1))
            s.recv(4096)
    stranger.each(8, one)


def hours(stranger):
    """Frames that may take an hour, over connections that are cut."""
    stranger.both = True
    frame_bytes = bytes(attack_streams.SIZES[min(attack_streams.SIDES)])
    head = json.dumps({"parameters": {"stream_client": "h", "stream_rate": 120, "stream_slo": 3_600_000_000},
                       "inputs": [{"name": "frame", "datatype": "BYTES", "shape": [1, 1],
                                   "parameters": {"binary_data_size": len(frame_bytes) + 4}}]}).encode()
    message = web_frame(struct.pack("<I", len(head)) + head + struct.pack("<I", len(frame_bytes)) + frame_bytes)

    def one(_):
        with stranger.connect(stranger.http) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            open_web(s, b"cameras")
            s.sendall(message * 200)
            time.sleep(0.05)
    stranger.each(8, one)


# Requests over a frontend.

def long_ids(stranger):
    """Requests that wait, with ids as long as they may be."""
    message = data_message(infer_wire("slow", timeout=LONG_US) + b"\x1a" + varint(32_000) + b"i" * 32_000)

    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.settimeout(30)
            s.sendall(SETTLED + frame(HEADERS, END_HEADERS, 1, STREAM_HEAD) + message * 200)
            while stranger.on() and s.recv(65536):
                pass
    stranger.each(16, one)


def varint(number):
    text = b""
    while number >= 128:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def data_message(wire):
    return b"".join(data_frames(1, grpc_message(wire), end=False))


def binary(model, datatype, shape, data, **parameters):
    """A request over HTTP whose one input follows its JSON."""
    head = json.dumps({"parameters": parameters, "inputs": [
        {"name": "x", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}]}).encode()
    return head_of(len(head) + len(data), f"Inference-Header-Content-Length: {len(head)}\r\n", f"/v2/models/{model}/infer") + head + data


def long_parameters(stranger):
    """Parameters of 40 MB, of requests that share batches with others'."""
    attacks_more.of_http(stranger, 4, binary("quick", "FP32", [1, 64], bytes(256), mine="x" * (40 * MIB)))


def many_dimensions(stranger):
    """Shapes of millions of dimensions, to a model that takes any."""
    import grpc
    dims = varint(1 << 62) * 7_000_000 + b"\0"
    tensor = b"\x0a\x01x\x12\x04FP32\x1a" + varint(len(dims)) + dims
    wire = b"\x0a\x03any\x2a" + varint(len(tensor)) + tensor + b"\x3a\0"  # and an empty raw content

    def one(_):
        with grpc.insecure_channel(f"127.0.0.1:{stranger.grpc}", [("grpc.max_send_message_length", -1)]) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            while stranger.on():
                with contextlib.suppress(grpc.RpcError):
                    call(wire, timeout=10)
    stranger.each(2, one)


def kept_outputs(stranger):
    """Pipelines of an hour that are given up once their first stage has run, whose outputs the worker keeps."""
    request = binary("chain", "UINT8", [1, 12 * MIB], bytes(12 * MIB), timeout=3_600_000_000)

    def one(_):
        with stranger.connect(stranger.http) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.settimeout(30)
            s.sendall(request)
            time.sleep(0.3)
    stranger.each(6, one)


def given_up(stranger):
    """WebSockets of 200 requests each, which are cut at once."""
    message = web_frame(json.dumps({"parameters": {"timeout": LONG_US}, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode(), 1)

    def one(_):
        with stranger.connect(stranger.http) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            open_web(s, b"slow")
            s.sendall(message * 200)
    stranger.each(8, one)


def tight_large_inputs(stranger):
    """Inputs of 12 MB with a deadline that they hardly make, of a model that others call."""
    attacks_more.of_http(stranger, 2, binary("identity-uint8", "UINT8", [1, 12 * MIB], bytes(12 * MIB), timeout=60_000))


def many_texts(stranger):
    """Requests of many items with millions of empty texts, each part of which has to be found in it."""
    items, each = 128, 50_000
    attacks_more.of_http(stranger, 2, binary("identity-bytes", "BYTES", [items, each], bytes(4 * items * each)))


def grown_replies(stranger):
    """Eight bytes of which a model makes 80 MB, which nobody reads."""
    head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
        {"name": "x", "datatype": "INT64", "shape": [1], "data": [20_000_000]}]}).encode()

    def one(_):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(30)
            s.connect(("127.0.0.1", stranger.http))
            s.sendall(head_of(len(head), path="/v2/models/fill/infer") + head)
            while stranger.on() and s.recv(8):
                time.sleep(0.3)
    stranger.each(24, one)


def short_deadlines(stranger):
    """Requests of a millisecond, that workers find too late, in batches with others'."""
    attacks_more.of_http(stranger, 16, infer_json("quick", timeout=3000))


ON_PARTS = [silent_at_parts, machines_at_parts, drips_at_parts, records_at_parts, unread_at_parts, plain_at_parts, others_certificates, long_chains]
ON_STREAMS = [web_hellos, web_comings, hours] + [over_both(how) for how in attack_streams.ATTACKS]
ON_REQUESTS = [long_ids, long_parameters, many_dimensions, kept_outputs, given_up, tight_large_inputs, many_texts, grown_replies,
               short_deadlines,
               over_both(attacks.full_queue), attacks.slow_replies, attacks_more.waiting_web_requests]
ATTACKS = ON_PARTS + ON_STREAMS + ON_REQUESTS
