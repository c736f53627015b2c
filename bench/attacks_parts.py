"""What one stranger may do to the ports and services that parts of a cluster and KEDA use, for bench/attack.py."""

import os
import socket
import ssl
import struct

from attacks import SETTLED, grpc_calls, grpc_message
from attacks_more import repeated
from http2 import DATA, END_HEADERS, HEAD, HEADERS, PREFACE, SETTINGS, field, frame


# The port of a cluster (cluster.listen), which shows a certificate and asks for one.

def unverified():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello():
    """The first message of a handshake."""
    out = ssl.MemoryBIO()
    tls = unverified().wrap_bio(ssl.MemoryBIO(), out)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def of_parts(stranger, connections, talk):
    def one(_):
        with stranger.connect(stranger.parts) as s:
            talk(s)
    stranger.each(connections, one)


def parts_silent(stranger):
    """Connections that say nothing, made again as soon as they are closed."""
    of_parts(stranger, 200, lambda s: s.recv(1))


def parts_half_handshakes(stranger):
    """The first half of a handshake."""
    hello = client_hello()
    def talk(s):
        s.sendall(hello[:len(hello) // 2])
        s.recv(1)
    of_parts(stranger, 200, talk)


def parts_handshakes(stranger):
    """Whole handshakes without a certificate, one after the other."""
    def talk(s):
        try:
            with unverified().wrap_socket(s) as tls:
                tls.recv(1)
        except ssl.SSLError:
            pass
    of_parts(stranger, 8, talk)


def parts_connections(stranger):
    """Connections that are reset as soon as they are there."""
    def talk(s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    of_parts(stranger, 8, talk)


def parts_noise(stranger):
    """Noise, and frames that say to be of 4 GB."""
    kinds = [os.urandom(1 << 16), b"FMC1" + b"\xff" * 12 + bytes(1 << 16)]
    def one(number):
        with stranger.connect(stranger.parts) as s:
            s.sendall(kinds[number % len(kinds)])
            s.recv(1)
    stranger.each(16, one)


# KEDA's scaler, on the port of gRPC.

def of_scaler(method):
    return HEAD.replace(field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                        field(":path", f"/externalscaler.ExternalScaler/{method}"))


def scaled_object(metadata):
    """A ScaledObjectRef in protobuf: name, namespace and the metadata of its trigger."""
    def text(number, value):
        size = len(value)
        return bytes([number << 3 | 2]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + value
    entries = b"".join(text(3, text(1, key) + text(2, value)) for key, value in metadata.items())
    return text(1, b"far") + text(2, b"default") + entries


def scaler_watchers(stranger):
    """Thousands that want to be told when there is load."""
    grpc_calls(stranger, 16, 1000, head=of_scaler("StreamIsActive"), message=grpc_message(scaled_object({b"workerType": b"cpu"})))


def scaler_questions(stranger):
    """Questions with as much metadata as a trigger may have, as fast as they go."""
    long = scaled_object({b"workerType": b"cpu"} | {b"key %d" % i: b"x" * 100 for i in range(130)})
    grpc_calls(stranger, 8, 1000, head=of_scaler("GetMetricSpec"), message=grpc_message(long), again=True)


def scaler_unread(stranger):
    """Questions whose answers nobody takes."""
    shut = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)
    grpc_calls(stranger, 16, 1000, head=of_scaler("GetMetricSpec"), message=grpc_message(scaled_object({b"workerType": b"cpu"})), settled=shut)


def scaler_crumbs(stranger):
    """A stream of messages where there is one."""
    head = frame(HEADERS, END_HEADERS, 1, of_scaler("StreamIsActive"))
    repeated(stranger, 8, SETTLED + head, frame(DATA, 0, 1, grpc_message(scaled_object({}))) * 300)


ON_PARTS = [parts_silent, parts_half_handshakes, parts_handshakes, parts_connections, parts_noise]
ATTACKS = ON_PARTS + [scaler_watchers, scaler_questions, scaler_unread, scaler_crumbs]
