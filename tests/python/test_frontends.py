"""Frontends, schedulers and workers as processes of their own: they serve, and any of them may die."""

import json
import socket
import struct
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from parts import LIMIT_S, Parts, paced
from tritonclient.utils import InferenceServerException


@pytest.fixture
def parts(tmp_path):
    made = []

    def make(**options):
        made.append(Parts(tmp_path, **options))
        return made[-1]
    yield make
    for each in made:
        each.kill()


def infer(client, rows=(2,), module=tritonclient.http, model="gather", **more):
    index = module.InferInput("index", [len(rows), 1], "INT64")
    index.set_data_from_numpy(np.array([[row] for row in rows], np.int64))
    return client.infer(model, [index], **more).as_numpy("value").tolist()


def small(parts, **options):
    """One of each."""
    all_of = parts(**options)
    scheduler = all_of.scheduler()
    frontend = all_of.frontend(scheduler)
    all_of.worker(scheduler)
    scheduler.await_metric(2, "fermata_worker_serving")
    frontend.await_ready()
    return all_of, scheduler, frontend


def test_requests_go_through_a_frontend_and_no_tensor_through_the_scheduler(parts):
    _, scheduler, frontend = small(parts, run_ms=2)
    with frontend.client() as client:
        assert [infer(client, [row]) for row in (0, 1, 2)] == [[[0]], [[10]], [[20]]]
        assert infer(client, [0, 1, 2, 0, 1, 2, 2]) == [[0], [10], [20], [0], [10], [20], [20]]  # in parts
        assert client.get_model_metadata("gather")["inputs"][0]["name"] == "index"
        assert client.get_model_config("gather")["name"] == "gather"
        assert [row["name"] for row in client.get_model_repository_index()] == ["gather"]
    with frontend.client("grpc") as client:
        assert infer(client, [1], module=tritonclient.grpc, request_id="mine") == [[10]]
    assert scheduler.metric("fermata_frontend_requests_total", frontend="frontend") == 5
    assert scheduler.metric("fermata_frontend_tensor_bytes_total") == 0
    assert scheduler.metric("fermata_host_tensor_bytes_total") == 0
    assert frontend.metric("fermata_requests_total", outcome="on_time") == 5


def test_what_does_not_fit_is_rejected_by_the_frontend(parts):
    _, scheduler, frontend = small(parts, run_ms=2)
    with frontend.client() as client:
        with pytest.raises(InferenceServerException, match="shape"):
            wrong = tritonclient.http.InferInput("index", [1, 2], "INT64")
            wrong.set_data_from_numpy(np.zeros((1, 2), np.int64))
            client.infer("gather", [wrong])
        with pytest.raises(InferenceServerException, match="unknown model"):
            client.get_model_metadata("other")
        with pytest.raises(InferenceServerException, match="ask the scheduler"):
            client.load_model("gather")
        with pytest.raises(InferenceServerException, match="DEADLINE|deadline|budget|no scheduler has said in time"):
            infer(client, timeout=1)  # microseconds
        with pytest.raises(InferenceServerException, match="the id has 70000 bytes, expected at most 4096"):
            infer(client, request_id="x" * 70_000)
        with pytest.raises(InferenceServerException, match="expected at most 65536"):
            infer(client, parameters={"mine": "x" * 70_000})
    with scheduler.client() as client, pytest.raises(InferenceServerException, match="ask a frontend"):
        infer(client)
    # Who has so little time may be told before the scheduler has read its request.
    scheduler.await_metric(1, "fermata_frontend_requests_total", frontend="frontend")


def test_a_frontend_that_dies_takes_its_requests_along(parts):
    all_of, scheduler, frontend = small(parts, run_ms=2)
    other = all_of.frontend(scheduler, name="other")
    other.await_ready()
    frontend.kill()
    scheduler.await_metric(0, "fermata_frontend_connected", frontend="frontend")
    with other.client() as client:
        assert infer(client) == [[20]]


class Load:
    """Clients that ask one after another until they are told to stop, and keep what they were answered."""

    def __init__(self, frontend, clients=4, timeout_s=60):
        self.frontend, self.timeout_s = frontend, timeout_s
        self.stopping, self.answered = threading.Event(), threading.Semaphore(0)
        self.answers, self.failures = [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for thread in self.threads:
            thread.start()
        self.more(3 * clients)

    def run(self):
        with self.frontend.client() as client:
            while not self.stopping.is_set():
                try:
                    self.answers.append(infer(client, timeout=int(self.timeout_s * 1e6)))
                except Exception as failure:  # counted: the test says what it means
                    self.failures.append(failure)
                self.answered.release()

    def more(self, count):
        """So many more have been answered."""
        while self.answered.acquire(blocking=False):
            pass
        for _ in range(count):
            assert self.answered.acquire(timeout=LIMIT_S)

    def end(self):
        self.more(4 * len(self.threads))
        self.stopping.set()
        for thread in self.threads:
            thread.join(LIMIT_S)
        assert self.failures == []
        assert all(answer == [[20]] for answer in self.answers)


def test_the_active_scheduler_is_killed_and_nothing_is_lost(parts, tmp_path):
    all_of = parts(run_ms=5, more=f"  lock: {tmp_path}/lock")
    active, standby = all_of.scheduler("active"), all_of.scheduler("standby")
    assert (active.metric("fermata_scheduler_epoch"), standby.metric("fermata_scheduler_epoch")) == (1, 0)
    frontend = all_of.frontend(active, standby)
    for name in ("one", "two"):
        all_of.worker(active, standby, name=name)
    active.await_metric(4, "fermata_worker_serving")
    frontend.await_ready()
    load = Load(frontend)
    active.kill()
    standby.await_metric(2, "fermata_scheduler_epoch")
    standby.await_metric(4, "fermata_worker_serving")
    load.end()
    assert frontend.metric("fermata_requests_total", outcome="on_time") == len(load.answers)


def test_a_scheduler_that_comes_back_is_asked_for_what_waits(parts):
    all_of, scheduler, frontend = small(parts, run_ms=5)
    load = Load(frontend, clients=2)
    scheduler.kill()
    address = scheduler.said["cluster"]
    all_of.scheduler("again", "--listen", address)
    load.end()


def test_a_frontend_without_a_scheduler_says_so_and_keeps_deadlines(parts):
    all_of, scheduler, frontend = small(parts, run_ms=2)
    scheduler.kill()
    end = time.monotonic() + LIMIT_S
    with frontend.client() as client:
        while client.is_server_ready():
            assert time.monotonic() < end
        with pytest.raises(InferenceServerException, match="no scheduler has said in time"):
            infer(client, timeout=100_000)  # microseconds


def test_models_are_divided_over_schedulers(parts, tmp_path):
    all_of = parts(run_ms=2, more="  lock: lock\n  divisions: {one: [gather], two: [second]}\n")
    second = tmp_path / "models" / "second"
    second.mkdir()
    (second / "1").symlink_to((tmp_path / "models" / "gather" / "1").resolve())
    (second / "profile.json").write_text(json.dumps(paced(2) | {"model": "second"}))
    all_of.config.write_text(all_of.config.read_text() + "services:\n  through: {kind: pipeline, slo_ms: 60000, stages: [{name: a, model: second}]}\n")
    for wrong in ((), ("--division", "three")):
        refused = all_of.start("refused", "scheduler", "--config", all_of.config, *wrong)
        assert refused.process.wait(LIMIT_S) == 2
    assert "expected one of one, two" in refused.log.read_text()

    schedulers = {name: all_of.scheduler(name, "--division", name) for name in ("one", "two")}
    for name, scheduler in schedulers.items():
        all_of.worker(scheduler, name=f"of-{name}")
    frontend = all_of.frontend(schedulers["one"], divisions=[schedulers["two"]])
    frontend.await_ready()
    with frontend.client() as client:
        assert sorted(row["name"] for row in client.get_model_repository_index()) == ["gather", "second", "through"]
        for model in ("gather", "second", "through"):
            assert infer(client, model=model) == [[20]]
        for name, requests in (("one", 1), ("two", 2)):
            assert schedulers[name].metric("fermata_frontend_requests_total", frontend="frontend") == requests
            assert (tmp_path / f"lock.{name}").exists()
        schedulers["two"].kill()
        end = time.monotonic() + LIMIT_S
        while client.is_server_ready():
            assert time.monotonic() < end
        assert infer(client) == [[20]]
        with pytest.raises(InferenceServerException, match="no scheduler has said in time"):
            infer(client, model="second", timeout=100_000)  # microseconds


@pytest.mark.parametrize("services, expected", [
    ("  one:\n    kind: pipeline\n    slo_ms: 60000\n    adapter: {interval_s: 1, alpha: 1000}\n"
     "    stages: [{name: a, variants: [{model: gather, accuracy: 0.5}]}]\n", "it has an adapter"),
    ("  one: {kind: ensemble, models: [gather], slo_ms: 500, profile: none, predictor: gather}\n",
     "a model predicts how difficult its queries are"),
    ("  one: {kind: ensemble, models: [gather], slo_ms: 500, profile: none, selector: {kind: gating, model: gather}}\n",
     "its `selector` looks at its queries"),
    ("  one: {kind: ensemble, models: [gather], slo_ms: 500, profile: none, aggregation: stacking, meta: gather}\n",
     "a model puts its answers together"),
])
def test_what_needs_inputs_at_the_scheduler_is_refused(parts, services, expected):
    all_of = parts()
    all_of.config.write_text(all_of.config.read_text() + "services:\n" + services)
    scheduler = all_of.start("scheduler", "scheduler", "--config", all_of.config)
    assert scheduler.process.wait(LIMIT_S) == 2
    assert expected in scheduler.log.read_text(), scheduler.log.read_text()


def refuse(server, why):
    """As a scheduler does, whoever comes next: a frame of one message, Refused."""
    channel, _ = server.accept()
    with channel:
        channel.recv(4096)
        refused = b"\x0a" + bytes([len(why)]) + why
        message = b"\x1a" + bytes([len(refused)]) + refused
        channel.sendall(b"FMC1" + struct.pack("<IQ", len(message), 0) + message)


@pytest.mark.parametrize("part, refusal", [("worker", "it refuses this host: "), ("frontend", "it refuses this frontend: ")])
def test_a_part_of_another_release_says_what_the_scheduler_said(parts, part, refusal):
    all_of = parts()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        started = all_of.start(part, part, "--config", all_of.config, "--name", part, "--scheduler", address)
        end = time.monotonic() + LIMIT_S
        while refusal + "it speaks version 2" not in started.log.read_text():
            assert time.monotonic() < end, started.log.read_text()
            refuse(server, b"it speaks version 2")
