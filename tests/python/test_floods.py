"""Frames of HTTP/2 that a client may send without end and without a call: the gRPC port ends the
connection of who does, keeps nothing of them, and answers everybody else."""

import contextlib
import json
import pathlib
import re
import select
import socket
import struct
import time
import urllib.request
import zlib

import grpc
import pytest
import tritonclient.grpc
import tritonclient.http
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from conftest import ROOT, START_LIMIT_S, Server
from hosted import MODEL, PROFILE, paced_model
from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, PING, PREFACE,
                   RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame)

PLAIN = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"
MIB = 1 << 20
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def of_method(name):
    path = "/inference.GRPCInferenceService/"
    return HEAD.replace(field(":path", path + "ModelInfer"), field(":path", path + name))


def grpc_message(data):
    return struct.pack(">BI", 0, len(data)) + data


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


def beyond_the_window():
    """More messages of a stream than the server takes; it waits with the next until its answers are read."""
    yield frame(HEADERS, END_HEADERS, 1, of_method("ModelStreamInfer"))
    while True:
        yield frame(DATA, 0, 1, grpc_message(b"\x0a\x01x")) * 1000


def after_the_end():
    """Crumbs of a message to a call that has been answered."""
    yield frame(HEADERS, END_HEADERS, 1, of_method("ServerLive")) + frame(DATA, END_STREAM, 1, grpc_message(b""))
    while True:
        yield frame(DATA, 0, 1, b"x") * 1000


def unsettled():
    """Calls whose answers nobody reads, of a client that does not say that it knows its limits."""
    for stream in range(1, 2**31, 2):
        yield frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, bytes(5))


def settled():
    """The same, of one that says so and does not keep to them: gRPC itself ends it."""
    yield frame(SETTINGS, 1, 0)
    yield from unsettled()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("floods"), ROOT / "tests" / "data" / "repository", PLAIN)
    yield server
    assert server.stop() == 0, server.log.read_text()


def resident(server, which="VmRSS"):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(rf"{which}:\s+(\d+) kB", status)[1])


def flood(server, frames, most):
    """Bytes until the server closed the connection; None where it took `most` bytes."""
    host, port = server.grpc.split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as client:
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
    continuations, long_text, empty_continuations, resets, settings, pings, beyond_the_window,
    after_the_end, unsettled])
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


def test_a_client_may_ask_often_whether_the_server_is_there(plain):
    """As keepalive does; gRPC's own servers close such clients with ENHANCE_YOUR_CALM."""
    most = 20
    asked = [frame(PING, 0, 0, b"%08d" % number) for number in range(most)]
    host, port = plain.grpc.split(":")
    with socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as client:
        client.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0) + b"".join(asked))
        read = b""
        while not all(frame(PING, 1, 0, b"%08d" % number) in read for number in range(most)):
            more = client.recv(65536)
            assert more, read
            read += more
    assert b"too_many_pings" not in read


def test_calls_beyond_the_most_at_a_time_end_the_connection(plain):
    before = resident(plain)
    assert flood(plain, settled(), 64 * MIB) is not None
    with tritonclient.grpc.InferenceServerClient(plain.grpc) as client:
        assert client.is_server_live()
    assert resident(plain) - before < 64 * MIB


def test_calls_of_reflection_have_no_threads_of_their_own(plain):
    head = HEAD.replace(*(field(":path", path) for path in (
        "/inference.GRPCInferenceService/ModelInfer", REFLECTION)))
    threads = pathlib.Path(f"/proc/{plain.process.pid}/task")
    before = len(list(threads.iterdir()))
    host, port = plain.grpc.split(":")
    # From another address than the tests before, whose floods theirs still owes for.
    with socket.create_connection((host, int(port)), timeout=START_LIMIT_S, source_address=("127.0.0.2", 0)) as client:
        list_services = b"\0\0\0\0\2\x3a\0"
        client.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        client.sendall(b"".join(
            frame(HEADERS, END_HEADERS, stream, head) + frame(DATA, 0, stream, list_services)
            for stream in range(1, 800, 2)))
        answered = 0
        replies = client.makefile("rb")
        while answered < 400:
            start = replies.read(9)
            replies.read(int.from_bytes(start[:3], "big"))
            answered += start[3] == DATA
        assert len(list(threads.iterdir())) - before < 30


def test_reflection_answers_the_questions_of_a_stream_one_after_the_other(plain):
    """As command-line clients ask: first for the services, then for what each is."""
    with grpc.insecure_channel(plain.grpc) as channel:
        call = channel.stream_stream(REFLECTION)
        services = list(call(iter([b"\x3a\0"] * 5), timeout=START_LIMIT_S))
        assert len(services) == 5 and len(set(services)) == 1 and b"GRPCInferenceService" in services[0]
    assert plain.process.poll() is None


def test_reflection_tells_a_client_all_that_it_needs(plain):
    """One that has none of our files makes a request of what it is told."""
    with grpc.insecure_channel(plain.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert set(database.get_services()) == {
            "inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
            "externalscaler.ExternalScaler"}
        pool = DescriptorPool(database)
        call = pool.FindServiceByName("inference.GRPCInferenceService").FindMethodByName("ModelReady")
        request, reply = map(message_factory.GetMessageClass, (call.input_type, call.output_type))
        ready = channel.unary_unary("/inference.GRPCInferenceService/ModelReady",
                                    request.SerializeToString, reply.FromString)
        assert ready(request(name="identity-fp32")).ready
        assert pool.FindFileByName("reflection.proto").package == "grpc.reflection.v1alpha"
        for unknown in (lambda: pool.FindServiceByName("inference.Nobody"),
                        lambda: pool.FindFileByName("nobody.proto")):
            with pytest.raises(KeyError):
                unknown()
        assert not database.FindAllExtensionNumbers("inference.ModelInferRequest")


@pytest.mark.parametrize("question", [3, 4, 6])  # for a file, a symbol, the extensions of a type
def test_reflection_looks_for_no_long_name(plain, question):
    """One of dots alone takes as many steps as the square of its length."""
    with grpc.insecure_channel(plain.grpc) as channel:
        ask = channel.stream_stream(REFLECTION)
        for dots, refused in ((256, False), (257, True), (4000, True)):
            name = bytes([question << 3 | 2, dots & 127 | 128, dots >> 7]) + b"." * dots
            answer = next(ask(iter([name])))
            assert b"is not known" in answer
            assert (b"expected at most 256" in answer) == refused


@pytest.mark.parametrize("message", [
    b"\x7b\x7c" * (8 * MIB),  # groups of a field that reflection does not have
    zlib.compress(b"\x7b\x7c" * (32 * MIB)),
    b"\x22" + b"\xff\xff\xff\x01" + b"a" * (4 * MIB - 1),
], ids=["groups", "compressed", "name"])
def test_a_message_to_reflection_takes_no_more_than_it_has_bytes(plain, message):
    process = pathlib.Path(f"/proc/{plain.process.pid}")
    (process / "clear_refs").write_text("5")  # the peak begins anew
    before = resident(plain)
    with grpc.insecure_channel(plain.grpc) as channel:
        ask = channel.stream_stream(REFLECTION)
        with pytest.raises(grpc.RpcError) as refused:
            list(ask(iter([message])))
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "4096" in refused.value.details()
        assert b"GRPCInferenceService" in next(ask(iter([b"\x3a\0"])))
    assert resident(plain, "VmHWM") - before < 64 * MIB


def upload_parts(client, streams, most):
    """Sends the most that windows allow, up to `most` bytes, of large messages that never end."""
    client.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0) + b"".join(
        frame(HEADERS, END_HEADERS, stream, HEAD) for stream in range(1, 2 * streams, 2)))
    start = b"\0" + struct.pack(">I", 7 * MIB)
    window = {0: 65535}  # of the connection and of those streams that are open
    fresh, used, sent = 65535, dict.fromkeys(range(1, 2 * streams, 2), 0), 0
    replies = b""
    while sent < most and used:
        for stream in used:
            room = min(window[0], fresh + window.get(stream, 0) - used[stream], 16384)
            if room > len(start):
                body = bytes(room) if used[stream] else start + bytes(room - len(start))
                client.sendall(frame(DATA, 0, stream, body))
                used[stream], window[0], sent = used[stream] + room, window[0] - room, sent + room
        if select.select([client], [], [], 0)[0]:
            replies += client.recv(MIB)
        while len(replies) >= 9 and len(replies) >= (end := 9 + int.from_bytes(replies[:3], "big")):
            (kind, flags, stream), body = struct.unpack(">BBI", replies[3:9]), replies[9:end]
            replies = replies[end:]
            if kind == WINDOW_UPDATE:
                window[stream] = window.get(stream, 0) + struct.unpack(">I", body)[0]
            elif kind == RST_STREAM:
                used.pop(stream, None)
            elif kind == SETTINGS and not flags:
                for name, value in struct.iter_unpack(">HI", body):
                    fresh = value if name == 4 else fresh
                client.sendall(frame(SETTINGS, 1, 0))
            elif kind == PING and not flags:
                client.sendall(frame(PING, 1, 0, body))


def test_new_clients_get_in_where_all_connections_say_only_a_preface(tmp_path):
    """More than the server may have; those that have never called give way, and who calls stays."""
    most = 64
    text = f"models: {{models}}\nlisten: {{{{http: 0, grpc: 0, metrics: 0, max_connections: {most}}}}}\n"
    server = Server(tmp_path, ROOT / "tests" / "data" / "repository", text)
    host, port = server.grpc.split(":")
    with contextlib.ExitStack() as held, tritonclient.grpc.InferenceServerClient(server.grpc) as earlier:
        assert earlier.is_server_live()
        for _ in range(2 * most):
            silent = held.enter_context(socket.create_connection((host, int(port)), timeout=START_LIMIT_S))
            silent.sendall(PREFACE + frame(SETTINGS, 0, 0))
            assert silent.recv(9)  # the server has it
        for _ in range(3):
            with tritonclient.grpc.InferenceServerClient(server.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)]) as late:
                assert late.is_server_live()
        assert earlier.is_server_live()
        assert metric(server, 'fermata_connections{protocol="grpc"}') <= most
    assert server.stop() == 0, server.log.read_text()


def test_new_clients_get_in_where_one_machine_has_most_connections_and_only_pings(tmp_path):
    most = 32
    text = f"models: {{models}}\nlisten: {{{{http: 0, grpc: 0, metrics: 0, max_connections: {most}}}}}\n"
    server = Server(tmp_path, ROOT / "tests" / "data" / "repository", text)
    host, port = server.grpc.split(":")
    call = frame(HEADERS, END_HEADERS, 1, of_method("ServerLive")) + frame(DATA, END_STREAM, 1, grpc_message(b""))
    until = time.monotonic() + START_LIMIT_S
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(socket.create_connection((host, int(port)), timeout=START_LIMIT_S)) for _ in range(most)]
        for client in clients:
            client.sendall(PREFACE + frame(SETTINGS, 0, 0) + call)
        late = held.enter_context(grpc.insecure_channel(server.grpc))
        ready = grpc.channel_ready_future(late)
        while not ready.done():
            for client in clients:
                with contextlib.suppress(OSError):
                    client.sendall(frame(PING, 0, 0, bytes(8)))
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(timeout=0.5)
            assert time.monotonic() < until, "nobody gives way"
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_new_clients_get_in_where_others_have_all_connections_and_wait(tmp_path, protocol):
    """Of each of eight addresses four connections wait for answers, and give way to an address that has fewer."""
    most = 32
    text = f"models: {{models}}\nlisten: {{{{http: 0, grpc: 0, metrics: 0, max_connections: {most}}}}}\nworkers: {{{{executor: paced}}}}\n"
    models = paced_model(tmp_path, MODEL)
    takes_ms = 600_000
    profile = PROFILE | {"model": MODEL, "linear_ms": PROFILE["linear_ms"] | {"beta": takes_ms}, "quadratic_ms": PROFILE["quadratic_ms"] | {"c": takes_ms},
                         "batches": {size: {name: value if name == "runs" else takes_ms for name, value in batch.items()}
                                     for size, batch in PROFILE["batches"].items()}}
    (models / MODEL / "profile.json").write_text(json.dumps(profile))
    server = Server(tmp_path, models, text)
    host, port = getattr(server, protocol).split(":")
    request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name=MODEL)
    request.inputs.add(name="x", datatype="INT64", shape=[1, 1])
    request.raw_input_contents.append(bytes(8))
    body = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [0]}]}).encode()
    asks = {"grpc": PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, HEAD)
            + frame(DATA, END_STREAM, 1, grpc_message(request.SerializeToString())),
            "http": f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body}
    with contextlib.ExitStack() as held:
        for number in range(most - most // 16):
            client = held.enter_context(socket.create_connection((host, int(port)), START_LIMIT_S, (f"127.0.0.{2 + number % 8}", 0)))
            client.sendall(asks[protocol])
        until = time.monotonic() + START_LIMIT_S
        while metric(server, f'fermata_front_end_running{{protocol="{protocol}"}}') < most - most // 16:
            assert time.monotonic() < until, "not all of them wait"
        for _ in range(3):  # a ninth of the places, which is their share
            if protocol == "grpc":
                late = held.enter_context(tritonclient.grpc.InferenceServerClient(
                    server.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)]))
            else:
                late = held.enter_context(tritonclient.http.InferenceServerClient(server.http))
            assert late.is_server_live()
    server.process.kill()  # it would wait for what runs
    server.process.wait(START_LIMIT_S)


def test_streams_whose_requests_are_given_up_again_and_again_are_a_flood(tmp_path):
    """One reset gives up all of a stream's requests, and each of them counts."""
    server = Server(tmp_path, paced_model(tmp_path, MODEL), PLAIN + "workers: {{executor: paced}}\n")
    request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name=MODEL)
    request.inputs.add(name="x", datatype="INT64", shape=[1, 1])
    request.raw_input_contents.append(bytes(8))
    request.parameters["timeout"].int64_param = 1_000_000_000
    message = grpc_message(request.SerializeToString())
    host, port = server.grpc.split(":")
    streams, each, most = 35, 20, 50

    def is_ended(client):
        """Whether the server closes the connection before that many rounds, of fewer resets than it lets pass elsewhere."""
        client.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        for first in range(1, 2 * streams * most, 2 * streams):
            here = range(first, first + 2 * streams, 2)
            pong = frame(PING, 1, 0, b"%08d" % first)
            client.sendall(b"".join(frame(HEADERS, END_HEADERS, s, of_method("ModelStreamInfer")) + frame(DATA, 0, s, message) * each
                                    for s in here) + frame(PING, 0, 0, b"%08d" % first))
            read = b""
            while pong not in read:
                more = client.recv(MIB)
                if not more:
                    return True
                read = read[-len(pong):] + more
            client.sendall(b"".join(frame(RST_STREAM, 0, s, b"\0\0\0\x08") for s in here))
        return False

    with socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as client:
        try:
            assert is_ended(client)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert metric(server, "fermata_floods_total") == 1
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        assert client.is_server_live()
    assert server.stop() == 0, server.log.read_text()


def test_messages_that_never_end_are_given_up_where_memory_is_short(tmp_path):
    text = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0, memory_mb: 64, max_request_mb: 8}}\n"
    server = Server(tmp_path, ROOT / "tests" / "data" / "repository", text)
    before = resident(server)
    host, port = server.grpc.split(":")
    with (socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as client,
          contextlib.suppress(BrokenPipeError, ConnectionResetError)):
        upload_parts(client, streams=80, most=400 * MIB)
    assert resident(server) - before < 250 * MIB
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        assert client.is_server_live()
    assert server.stop() == 0, server.log.read_text()


def ends(client, most):
    """Of `most` calls, how many the server has ended, once each has a head of its reply."""
    heads = ended = 0
    replies = b""
    while heads < most:
        replies += client.recv(MIB)
        while len(replies) >= 9 and len(replies) >= (end := 9 + int.from_bytes(replies[:3], "big")):
            if replies[3] == HEADERS:
                heads += 1
                ended += replies[4] & END_STREAM
            replies = replies[end:]
    return ended


def infer_message():
    request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="dense")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 16])
    request.raw_input_contents.append(bytes(64))
    return request.SerializeToString()


@pytest.mark.parametrize("method, data", [("ServerLive", b""), ("ModelInfer", infer_message())])
def test_answers_that_nobody_takes_are_bounded_by_address(tmp_path, method, data):
    """gRPC keeps each until its client opens a window, with all that it holds of the call."""
    text = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0, memory_mb: 16, streams_mb: 2, max_request_mb: 1}}\n"
    server = Server(tmp_path, ROOT / "tests" / "data" / "repository", text)
    host, port = server.grpc.split(":")
    calls, held = 200, 2 * MIB // (20 * 1024)
    no_window = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, 1, 0)
    with socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as client:
        client.sendall(no_window + b"".join(
            frame(HEADERS, END_HEADERS, stream, of_method(method)) + frame(DATA, END_STREAM, stream, grpc_message(data))
            for stream in range(1, 2 * calls, 2)))
        assert calls - held - 4 <= ends(client, calls) <= calls - held + 3
        with tritonclient.grpc.InferenceServerClient(server.grpc) as other:  # which has few
            assert other.is_server_live()
    assert server.stop() == 0, server.log.read_text()
