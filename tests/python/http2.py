"""Frames of HTTP/2 (RFC 9113), for what no client of gRPC would send."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    """A header field, spelt out."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


# Of an infer call.
HEAD = b"".join(field(*pair) for pair in (
    (":method", "POST"), (":scheme", "http"), (":authority", "x"), ("te", "trailers"),
    (":path", "/inference.GRPCInferenceService/ModelInfer"), ("content-type", "application/grpc")))
