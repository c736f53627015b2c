"""Infer requests and streams over a WebSocket, with a client that others wrote."""

import asyncio
import contextlib
import http.client
import json
import socket
import struct
import urllib.request

import numpy
import pytest
import websockets
from websockets.sync.client import connect

from conftest import START_LIMIT_S, Server
from stream_models import CONFIG, write_models

SIDE = 32
PIXELS = numpy.zeros((1, 3, SIDE, SIDE), numpy.float32)
OTHER_PAGE = "https://other.example"
LIMITED = CONFIG.replace("metrics: 0", "metrics: 0, max_request_mb: 1, max_connections: 8, "
                         f'memory_mb: 16, origins: ["{OTHER_PAGE}"]')


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web-sockets")
    server = Server(folder, write_models(folder / "models"), LIMITED)
    yield server
    assert server.stop() == 0, server.log.read_text()


def open_socket(served, path="/v2/models/cameras/stream", **options):
    return connect(f"ws://{served.http}{path}", max_size=None, compression=None, **options)


def binary(document, tensor=b""):
    text = json.dumps(document).encode()
    return struct.pack("<I", len(text)) + text + tensor


def frame(id, parameters=None, pixels=PIXELS):
    raw = pixels.tobytes()
    return binary({"id": id, "parameters": parameters or {},
                   "inputs": [{"name": "frame", "datatype": "FP32", "shape": pixels.shape,
                               "parameters": {"binary_data_size": len(raw)}}]}, raw)


def read(message):
    """The JSON of a message, and the bytes behind it."""
    if isinstance(message, str):
        return json.loads(message), b""
    length, = struct.unpack_from("<I", message)
    return json.loads(message[4:4 + length]), message[4 + length:]


def exchange(ws, message):
    ws.send(message)
    return read(ws.recv(timeout=START_LIMIT_S))


def client(name, **parameters):
    return {"stream_client": name, "stream_rate": 50, "stream_slo": 20_000_000, **parameters}


def expect_well(served, name="well"):
    with open_socket(served) as ws:
        reply, _ = exchange(ws, frame("1", client(name)))
        assert reply["outputs"][0]["name"] == "boxes", reply


def test_an_ordinary_request_is_answered_in_json_and_in_binary(served):
    with open_socket(served) as ws:
        reply, rest = exchange(ws, frame("one"))
        assert reply["id"] == "one" and not rest
        assert len(reply["outputs"][0]["data"]) == 4
        reply, rest = exchange(ws, frame("two", {"binary_data_output": True}))
        assert reply["id"] == "two" and len(rest) == 16
        text = {"id": "three", "inputs": [{"name": "frame", "datatype": "FP32", "shape": PIXELS.shape,
                                           "data": PIXELS.ravel().tolist()}]}
        reply, _ = exchange(ws, json.dumps(text))
        assert reply["id"] == "three" and reply["outputs"][0]["shape"] == [1, 4]


def test_a_socket_on_which_a_message_is_coming_is_not_idle(served):
    """Others that are idle give way to newcomers where all connections are taken."""
    whole = frame("slow")
    with contextlib.ExitStack() as held:
        def pieces():
            yield whole[:1000]
            for _ in range(12):
                other = held.enter_context(contextlib.closing(http.client.HTTPConnection(served.http, timeout=START_LIMIT_S)))
                other.request("GET", "/v2/health/live")
                assert other.getresponse().read() is not None
            yield whole[1000:]

        with open_socket(served) as ws:
            ws.send(pieces())
            assert read(ws.recv(START_LIMIT_S))[0]["outputs"]


def test_a_stream_registers_and_is_told_what_to_send(served):
    with open_socket(served) as ws:
        hello, _ = exchange(ws, json.dumps({"id": "1", "inputs": [],
                                            "parameters": client("guest", stream_hello=True)}))
        assert hello["parameters"]["stream_size"] == SIDE, hello
        ws.send(frame("2", client("guest", stream_ack=True, stream_bandwidth=100.0,
                                  stream_rtt=1000)))
        ack, answer = read(ws.recv(START_LIMIT_S))[0], read(ws.recv(START_LIMIT_S))[0]
        assert ack["id"] == answer["id"] == "2"
        assert ack["parameters"]["stream_ack"] and ack["parameters"]["stream_server_us"] >= 0
        assert answer["outputs"] and set(answer["parameters"]) >= {
            "stream_size", "stream_unmapped", "stream_shift_us", "stream_server_us"}


def test_an_error_names_its_request_and_the_socket_stays_open(served):
    cases = [
        (json.dumps({"id": "7", "inputs": 3}), 400, "inputs is a number", "7"),
        (json.dumps({"id": "8", "inputs": [], "parameters": client("bad", stream_rate="many",
                                                                   stream_hello=True)}),
         400, "parameter stream_rate", "8"),
        (frame("9", client("bad", stream_size=33)), 400, "expected one of 32, 48, 64", "9"),
        ("{", 400, "not JSON", None),
        (b"\1\0", 400, "the message has 2 bytes", None),
        (struct.pack("<I", 99) + b"{}", 400, "JSON is 99, expected 1 to 2", None),
        (struct.pack("<I", 0) + b"{}", 400, "JSON is 0", None),
        (frame("10", pixels=PIXELS[:, :, :5]), 400, "frame", "10"),
        (frame("x" * 5000), 400, "the id has 5000 bytes, expected at most 4096", None),
        (json.dumps({"id": "x" * 5000, "inputs": 3}), 400, "the id has 5000 bytes", None),
    ]
    with open_socket(served) as ws:
        for message, status, says, id in cases:
            reply, _ = exchange(ws, message)
            assert reply["status"] == status and says in reply["error"], reply
            assert reply.get("id") == id
        assert exchange(ws, frame("11"))[0]["outputs"]


def test_names_that_a_socket_takes_are_free_on_others(served):
    with open_socket(served) as first:
        for name in ("twin", "door", "yard"):
            assert "outputs" in exchange(first, frame("1", client(name)))[0]
        with open_socket(served) as second:
            assert "outputs" in exchange(second, frame("1", client("twin")))[0]
            leave = json.dumps({"id": "2", "parameters": client("twin", stream_leave=True)})
            exchange(second, leave)
        assert "outputs" in exchange(first, frame("2", client("twin")))[0]
    expect_well(served, "twin")


def test_a_socket_has_a_limit_of_clients_and_others_get_in(served):
    """One that says hello with many names is told whose limit it has met."""
    with open_socket(served) as many:
        hello = lambda i: json.dumps({"id": str(i), "parameters": client(f"name-{i}", stream_hello=True)})
        replies = [exchange(many, hello(i))[0] for i in range(80)]
        refused = [reply for reply in replies if "error" in reply]
        assert len(refused) == 16 and all(reply["status"] == 429 for reply in refused)
        assert "max_clients_per_connection" in refused[0]["error"]
        expect_well(served, "another")


@pytest.mark.parametrize("headers, path, status, says", [
    ({"Origin": "http://evil.example"}, "/v2/models/cameras/stream", 403, "listen.origins"),
    ({"Origin": "null"}, "/v2/models/cameras/stream", 403, "listen.origins"),
    ({}, "/v2/models/nothing/stream", 404, "nothing"),
    ({}, "/v2/models/cameras/infer", 405, ""),
])
def test_who_may_not_open_one_is_told_why(served, headers, path, status, says):
    with pytest.raises(websockets.InvalidStatus) as refused:
        open_socket(served, path, additional_headers=headers)
    assert refused.value.response.status_code == status
    assert says in refused.value.response.body.decode()


def test_pages_of_this_server_and_of_those_that_are_named_may_open_one(served):
    for origin in (f"http://{served.http}", OTHER_PAGE):
        with open_socket(served, additional_headers={"Origin": origin}) as ws:
            assert exchange(ws, frame("1"))[0]["outputs"]


def test_a_plain_request_is_told_to_upgrade(served):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{served.http}/v2/models/cameras/stream")
    assert refused.value.code == 426 and refused.value.headers["Upgrade"] == "websocket"


def test_halves_of_messages_hinder_nobody(served):
    big = numpy.zeros((8, 3, SIDE, SIDE), numpy.float32)
    with contextlib.ExitStack() as stack:
        well = stack.enter_context(open_socket(served))
        for _ in range(5):
            raw_socket(served, stack).sendall(header(1 << 20) + bytes(1 << 19))
        assert exchange(well, frame("1", pixels=big))[0]["outputs"]


def header(length, opcode=2, fin=True):
    """Of a frame of a client, whose mask is zero."""
    first = (128 if fin else 0) | opcode
    if length < 126:
        return struct.pack(">BB", first, 128 | length) + bytes(4)
    return struct.pack(">BBQ", first, 128 | 127, length) + bytes(4)


def raw_socket(served, stack):
    """One that has been upgraded, for what no decent client would send."""
    host, port = served.http.split(":")
    s = stack.enter_context(socket.create_connection((host, int(port)), timeout=START_LIMIT_S))
    s.sendall(f"GET /v2/models/cameras/stream HTTP/1.1\r\nHost: {served.http}\r\n"
              "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += s.recv(1)
    assert b" 101 " in answer, answer
    return s


def read_to_end(s):
    text = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            text += piece
    return text


def read_until(s, what):
    text = b""
    while what not in text:
        piece = s.recv(65536)
        assert piece, text
        text += piece


def test_messages_beyond_the_limit_close_the_socket_and_others_are_served(served):
    with contextlib.ExitStack() as stack:
        s = raw_socket(served, stack)
        s.sendall(header((1 << 20) + 1))  # what comes behind it would reset the connection
        read_until(s, struct.pack(">H", 1009))
    expect_well(served)


@pytest.mark.parametrize("bytes_sent", [
    b"\xff" * 64,
    header(4, opcode=3) + b"abcd",
    header(200, opcode=9) + bytes(200),
    struct.pack(">BB", 130, 4) + b"abcd",  # not masked
    header(4, opcode=0) + b"abcd",  # goes on with nothing
    header(2, opcode=1) + b"\xff\xfe",  # no UTF-8
    b"GET / HTTP/1.1\r\n\r\n",
])
def test_garbage_ends_its_socket_and_others_are_served(served, bytes_sent):
    with contextlib.ExitStack() as stack:
        s = raw_socket(served, stack)
        s.sendall(bytes_sent)
        read_to_end(s)
    expect_well(served)


def test_a_flood_of_pings_ends_its_socket(served):
    with contextlib.ExitStack() as stack:
        s = raw_socket(served, stack)
        s.sendall(header(0, opcode=9) * 64)
        read_until(s, b"too many pings")
    expect_well(served)


def test_a_flood_of_frames_is_rejected_and_answered(served):
    with open_socket(served) as ws:
        for i in range(60):
            ws.send(frame(str(i), client("flood", stream_rate=1)))
        replies = [read(ws.recv(timeout=START_LIMIT_S))[0] for _ in range(60)]
    assert {r["id"] for r in replies} == {str(i) for i in range(60)}
    rejected = [r for r in replies if "error" in r]
    assert len(rejected) > 30
    assert all(r["status"] == 429 and "sends more than the 1 frames" in r["error"] for r in rejected)
    expect_well(served)


def test_who_leaves_in_mid_frame_harms_nobody(served):
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            s = raw_socket(served, stack)
            message = frame("1", client("gone"))
            s.sendall(header(len(message)) + message + header(1000) + bytes(500))
    expect_well(served, "gone")


def test_more_sockets_than_there_may_be_close_the_one_longest_unused(served):
    with contextlib.ExitStack() as stack:
        sockets = [raw_socket(served, stack) for _ in range(12)]
        assert read_to_end(sockets[0]) == b""
        expect_well(served)


def test_many_at_a_time(served):
    """Replies are told apart by their id, in whatever order they come."""
    async def one(number):
        uri = f"ws://{served.http}/v2/models/cameras/stream"
        async with websockets.connect(uri, compression=None) as ws:
            for i in range(50):
                await ws.send(frame(str(i)))
            ids = {read(await ws.recv())[0]["id"] for _ in range(50)}
            assert ids == {str(i) for i in range(50)}

    async def all():
        await asyncio.gather(*(one(i) for i in range(5)))
    asyncio.run(all())


def test_a_server_that_stops_says_so(tmp_path):
    server = Server(tmp_path, write_models(tmp_path / "models"), CONFIG)
    with open_socket(server) as ws:
        assert exchange(ws, frame("1", client("last")))[0]["outputs"]
        assert server.stop() == 0, server.log.read_text()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            ws.recv(timeout=START_LIMIT_S)
        assert closed.value.rcvd.code == 1001
