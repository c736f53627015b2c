"""Streams over frontends: the scheduler has their clients and plans, frontends their frames, also while one scheduler follows another."""

import contextlib
import http.client
import json
import signal
import sys
import urllib.request

import numpy
import pytest
import websockets.sync.client
from conftest import ROOT, START_LIMIT_S, isolated
from parts import LIMIT_S, QUIET_MS, Parts
from stream_models import CONFIG as STREAMS
from stream_models import SIDES, write_models
from test_web_sockets import client as named
from test_web_sockets import exchange, read
from test_web_sockets import frame as web_frame

sys.path.insert(0, str(ROOT / "python"))
import fermata  # noqa: E402

FRAME = numpy.zeros((90, 120, 3), numpy.uint8)
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
cluster: {{listen: "127.0.0.1:0", frontends: "127.0.0.1:0", silence_ms: {silence_ms}, lock: {lock}{more}}}
workers: {{executor: emulated, types: [{{name: far, count: 2, remote: true}}]}}
"""
# Where the frames' own size says which variant fits, and pictures whose operators run at the frontend.
PICTURES = "".join(f"""\
  picture-{side}:
    kind: pipeline
    stages:
      - {{name: decode, operator: decode-image}}
      - {{name: fit, operator: resize, size: [{side}, {side}], inputs: {{image: decode.image}}}}
      - {{name: pixels, operator: normalise, inputs: {{image: fit.image}}}}
      - {{name: detect, model: side-{side}, inputs: {{frame: pixels.tensor}}}}
""" for side in SIDES) + """\
  pictures:
    kind: stream
    slo_ms: 20000
    variants:
""" + "".join(f"      - {{service: picture-{side}, input_size: {side}, accuracy: {accuracy}}}\n"
              for side, (_, accuracy) in SIDES.items())
SERVICES = STREAMS[STREAMS.index("services:"):].replace("{{", "{").replace("}}", "}") + PICTURES


class Streaming(Parts):
    def __init__(self, folder, services=SERVICES, more=""):
        super().__init__(folder)
        models = write_models(folder / "cameras")
        self.config.write_text(isolated(CONFIG.format(models=models, silence_ms=QUIET_MS, lock=folder / "lock", more=more) + services))

    def bring_worker(self, *schedulers, **options):
        self.worker(*schedulers, workers=2, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One of each, with the scheduler and the frontend by name."""
    parts = Streaming(tmp_path_factory.mktemp("whole"))
    parts.one = parts.scheduler()
    parts.front = parts.frontend(parts.one)
    parts.bring_worker(parts.one)
    parts.one.await_metric(2, "fermata_worker_serving")
    parts.front.await_ready()
    yield parts
    parts.kill()


def stream(frontend, service="cameras", **options):
    options = {"slo": 20, "rate": 50} | options
    return fermata.Client(frontend.grpc).stream(service, **options)


def send_until(s, size, failed=()):
    """Frames, as large as asked, until one of that size has been answered; `failed` takes errors. The sizes."""
    sizes = []
    while size not in sizes:
        s.pace()
        if not s.send(FRAME, tag=len(sizes)):
            continue
        answer = s.receive(timeout=LIMIT_S)
        assert answer is not None
        if not answer.ok:
            assert failed != (), answer
            failed.append(answer.error)
            continue
        assert answer.outputs["boxes"].shape == (1, 4)
        sizes.append(answer.input_size)
    return sizes


def test_frames_are_answered_and_grow_to_what_the_scheduler_asks(whole):
    with stream(whole.front) as s:
        assert s.wait_until_ready(START_LIMIT_S)
        sizes = send_until(s, 64)
        assert sizes == sorted(sizes) and sizes[0] == 32
        whole.one.await_metric(1, "fermata_stream_clients", service="cameras")
    whole.one.await_metric(0, "fermata_stream_clients", service="cameras")
    assert whole.one.metric("fermata_stream_frames_total", service="cameras") >= len(sizes)
    assert whole.one.metric("fermata_frontend_tensor_bytes_total") == 0
    assert whole.one.metric("fermata_host_tensor_bytes_total") == 0
    assert whole.front.metric("fermata_requests_total", service="side-64", outcome="on_time") >= 1


def test_pictures_are_decoded_at_the_frontend(whole):
    with stream(whole.front, "pictures") as s:
        assert s.wait_until_ready(START_LIMIT_S)
        send_until(s, 64)
    assert whole.front.metric("fermata_requests_total", service="picture-64", outcome="on_time") >= 1
    assert whole.one.metric("fermata_requests_total", service="picture-64/detect", outcome="on_time") >= 1
    assert whole.one.metric("fermata_frontend_tensor_bytes_total") == 0


def test_acknowledgements_come_from_the_frontend(whole):
    """While the scheduler says nothing."""
    with websockets.sync.client.connect(f"ws://{whole.front.http}/v2/models/cameras/stream", max_size=None, compression=None) as ws:
        whole.one.process.send_signal(signal.SIGSTOP)
        try:
            ack, _ = exchange(ws, web_frame("1", named("visitor", stream_ack=True)))
        finally:
            whole.one.process.send_signal(signal.SIGCONT)
        assert ack["parameters"]["stream_ack"], ack
        reply, _ = read(ws.recv(timeout=LIMIT_S))
        assert reply["parameters"]["stream_size"] in SIDES, reply


def test_plans_count_workers_that_are_there(tmp_path):
    parts = Streaming(tmp_path)
    parts.config.write_text(parts.config.read_text().replace("count: 2", "count: 9"))
    try:
        scheduler = parts.scheduler()
        frontend = parts.frontend(scheduler)
        parts.bring_worker(scheduler)
        scheduler.await_metric(2, "fermata_worker_serving")
        frontend.await_ready()
        with stream(frontend) as s:
            assert s.wait_until_ready(START_LIMIT_S)
            planned = set()
            while 2 not in planned:
                s.pace()
                if s.send(FRAME):
                    assert s.receive(timeout=LIMIT_S) is not None
                with urllib.request.urlopen(f"http://{scheduler.http}/v2/fermata/decisions", timeout=LIMIT_S) as reply:
                    planned |= {problem["workers"] for problem in json.load(reply)["streams"]}
    finally:
        parts.kill()


class Connection:
    """One of HTTP, whose clients are its own."""

    def __init__(self, frontend):
        host, port = frontend.http.rsplit(":", 1)
        self.http = http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def ask(self, parameters, side=None):
        body = {"parameters": parameters}
        if side is not None:
            body["inputs"] = [{"name": "frame", "shape": [1, 3, side, side], "datatype": "FP32", "data": [0] * (3 * side * side)}]
        self.http.request("POST", "/v2/models/cameras/infer", json.dumps(body))
        reply = self.http.getresponse()
        return reply.status, json.load(reply)


ADVICE = {"stream_size", "stream_unmapped", "stream_shift_us", "stream_server_us"}


def test_over_http(whole):
    with Connection(whole.front) as connection:
        status, body = connection.ask({"stream_client": "h", "stream_rate": 5, "stream_hello": True})
        assert status == 200 and body["parameters"]["stream_size"] == 32, body
        sizes = []
        while 64 not in sizes:  # it has named its rate
            status, body = connection.ask({"stream_client": "h"}, side=48)
            assert status == 200 or "sends more than the 5 frames" in body["error"], body
            assert body["parameters"].keys() == ADVICE
            sizes.append(body["parameters"]["stream_size"])
        whole.one.await_metric(1, "fermata_stream_clients", service="cameras")
        assert connection.ask({"stream_client": "h", "stream_leave": True})[0] == 200
        assert whole.one.metric("fermata_stream_clients", service="cameras") == 0
        status, body = connection.ask({"stream_client": "h"}, side=48)
        assert status == 400 and "stream_rate is missing" in body["error"]


@pytest.mark.parametrize("parameters, side, error", [
    ({"stream_client": "x"}, 32, "stream_rate is missing"),
    ({"stream_client": "x", "stream_rate": 1e7}, 32, "stream_rate is 1"),
    ({"stream_client": "x", "stream_rate": 10, "stream_size": 33}, 32, "expected one of 32, 48, 64"),
    ({"stream_client": "x", "stream_rate": 10, "stream_bandwidth": 0}, 32, "stream_bandwidth is 0"),
    ({"stream_rate": 10}, 32, "stream_client has 0 characters"),
    ({"stream_client": "x" * 129, "stream_rate": 10}, 32, "stream_client has 129 characters"),
    ({"stream_client": "x", "stream_rate": 10, "stream_size": 48}, 32, "shape is [1,3,32,32], expected [-1,3,48,48]"),
    ({"stream_client": "x", "stream_rate": 10}, 5, "shape is [1,3,5,5]"),
    ({"stream_client": "x", "stream_rate": 10, "stream_slo": 2_000_000, "network_time": 10_000_000}, 32, "in time"),
])
def test_errors_are_those_of_one_process(whole, parameters, side, error):
    with Connection(whole.front) as connection:
        status, body = connection.ask(parameters, side)
        assert status in (400, 504) and error in body["error"], body
        assert body["parameters"].keys() == ADVICE


def test_over_a_web_socket_whose_end_frees_its_clients(whole):
    """More of them, one after the other, than their address may have clients at a time."""
    with contextlib.ExitStack() as sockets:
        for number in range(140):
            ws = sockets.enter_context(websockets.sync.client.connect(
                f"ws://{whole.front.http}/v2/models/cameras/stream", max_size=None, compression=None))
            ack, _ = exchange(ws, web_frame("1", named("visitor", stream_ack=True)))
            assert ack["parameters"]["stream_ack"], ack
            reply, _ = read(ws.recv(timeout=LIMIT_S))
            assert reply["parameters"]["stream_size"] in SIDES, reply
            if number % 10 == 9:
                sockets.close()
                whole.one.await_metric(0, "fermata_stream_clients", service="cameras")


def test_an_id_is_its_connections_alone_also_on_two_frontends(whole):
    other = whole.frontend(whole.one, name="other")
    other.await_ready()
    with Connection(whole.front) as one, Connection(other) as two:
        for connection in (one, two):
            assert connection.ask({"stream_client": "twin", "stream_rate": 5}, side=32)[0] == 200
        whole.one.await_metric(2, "fermata_stream_clients", service="cameras")
        assert two.ask({"stream_client": "twin", "stream_leave": True})[0] == 200
        assert one.ask({"stream_client": "twin"}, side=32)[0] == 200
        assert two.ask({"stream_client": "twin", "stream_rate": 5}, side=32)[0] == 200
        other.kill()
        whole.one.await_metric(1, "fermata_stream_clients", service="cameras")
        assert one.ask({"stream_client": "twin"}, side=32)[0] == 200


def test_limits_of_an_address_hold_over_all_frontends(tmp_path):
    limited = SERVICES.replace("kind: stream", "kind: stream\n    max_clients: 8\n    max_clients_per_connection: 2\n"
                               "    max_clients_per_address: 3")
    parts = Streaming(tmp_path, limited)
    try:
        scheduler = parts.scheduler()
        frontends = [parts.frontend(scheduler, name=name) for name in ("one", "two")]
        parts.bring_worker(scheduler)
        for frontend in frontends:
            frontend.await_ready()
        with Connection(frontends[0]) as one, Connection(frontends[1]) as two:
            for connection, name in ((one, "a"), (one, "b"), (two, "a")):
                assert connection.ask({"stream_client": name, "stream_rate": 1}, side=32)[0] == 200
            status, body = one.ask({"stream_client": "c", "stream_rate": 1}, side=32)
            assert status == 429 and "max_clients_per_connection" in body["error"], body
            status, body = two.ask({"stream_client": "b", "stream_rate": 1}, side=32)
            assert status == 429 and "max_clients_per_address" in body["error"], body
    finally:
        parts.kill()


def test_a_scheduler_that_dies_is_followed_and_no_frame_is_lost(tmp_path):
    parts = Streaming(tmp_path)
    try:
        active, standby = parts.scheduler("active"), parts.scheduler("standby")
        frontend = parts.frontend(active, standby)
        parts.bring_worker(active, standby)
        active.await_metric(2, "fermata_worker_serving")
        frontend.await_ready()
        with stream(frontend) as s, Connection(frontend) as terse:
            assert s.wait_until_ready(START_LIMIT_S)
            send_until(s, 64)
            assert terse.ask({"stream_client": "terse", "stream_rate": 5}, side=32)[0] == 200
            active.kill()
            answered = 0
            for frame in range(100):
                s.pace()
                if s.send(FRAME, tag=frame):
                    answer = s.receive(timeout=LIMIT_S)
                    assert answer is not None and answer.ok, answer
                    answered += 1
            assert answered > 0
            send_until(s, 64)
            assert standby.metric("fermata_scheduler_epoch") == 2
            assert standby.metric("fermata_stream_frames_total", service="cameras") > 0
            # It has named its rate to the first one only.
            status, body = terse.ask({"stream_client": "terse"}, side=32)
            assert status == 400 and "stream_rate is missing" in body["error"], body
            assert terse.ask({"stream_client": "terse", "stream_rate": 5}, side=32)[0] == 200
    finally:
        parts.kill()


def test_a_stream_is_of_the_division_of_its_variants(tmp_path):
    divisions = ", divisions: {{other: [gather], vision: [{}]}}".format(", ".join(f"side-{side}" for side in SIDES))
    parts = Streaming(tmp_path, more=divisions)
    (tmp_path / "cameras" / "gather").symlink_to(tmp_path / "models" / "gather")
    try:
        other, vision = (parts.scheduler(name, "--division", name) for name in ("other", "vision"))
        frontend = parts.frontend(other, divisions=[vision])
        for name, scheduler in (("far", other), ("near", vision)):
            parts.bring_worker(scheduler, name=name)
            scheduler.await_metric(2, "fermata_worker_serving")
        frontend.await_ready()
        with stream(frontend) as s:
            assert s.wait_until_ready(START_LIMIT_S)
            send_until(s, 64)
            assert vision.metric("fermata_stream_clients", service="cameras") == 1
            assert other.rows("fermata_stream_clients", service="cameras") == []
    finally:
        parts.kill()
