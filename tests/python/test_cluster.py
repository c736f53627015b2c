"""Workers of other hosts, as processes on this one: they join, serve, leave, die, fall silent, are refused."""

import json
import os
import re
import select
import socket
import subprocess
import threading
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.http
from conftest import FERMATA, ROOT, START_LIMIT_S, Server
from hosted import LIMIT_S, make_certificate, paced_model, sum_metric
from test_live import Events

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
cluster:
  listen: 127.0.0.1:0
  silence_ms: %d
%s
workers:
  executor: paced
  types: [{{name: far, count: 4, remote: true}}]
"""
QUIET_MS = 10_000  # of a busy machine nobody is taken for gone


class Cluster(Server):
    """A server whose workers all come from other processes."""

    def __init__(self, folder, silence_ms=QUIET_MS, tls="", models=None, text=CONFIG):
        super().__init__(folder, models or paced_model(folder, "gather"), text % (silence_ms, tls))
        self.folder, self.workers = folder, []

    def _ports(self):
        found = []
        read = self.process.stdout

        class Lines:
            def __iter__(self):
                for line in read:
                    found.extend(re.findall(r"cluster=(\S+)", line))
                    yield line
        self.process.stdout = Lines()
        try:
            ports = super()._ports()
        finally:
            self.process.stdout = read
        self.cluster = found[0]
        return ports

    def worker(self, name, workers=1, address=None, config=None, **more):
        log = (self.folder / f"{name}.log").open("a")
        process = subprocess.Popen(
            [FERMATA, "worker", "--scheduler", address or self.cluster, "--config", config or self.folder / "fermata.yaml",
             "--name", name, "--workers", str(workers)], stdout=subprocess.PIPE, stderr=log, text=True, **more)
        self.workers.append(process)
        return process

    def metric(self, name, **labels):
        return sum_metric(self.metrics, name, **labels)

    def await_metric(self, expected, name, **labels):
        end = time.monotonic() + LIMIT_S
        while self.metric(name, **labels) != expected:
            assert time.monotonic() < end, (name, labels, self.metric(name, **labels), self.log.read_text())

    def client(self, concurrency=1):
        return tritonclient.http.InferenceServerClient(self.http, concurrency=concurrency, network_timeout=LIMIT_S)

    def stop(self):
        for process in self.workers:
            process.kill()
            process.wait()
        return super().stop()


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(**options):
        made.append(Cluster(tmp_path, **options))
        return made[-1]
    yield make
    for server in made:
        assert server.stop() == 0, server.log.read_text()


def infer(client, row=2, model="gather", **more):
    index = tritonclient.http.InferInput("index", [1, 1], "INT64")
    index.set_data_from_numpy(np.array([[row]], np.int64))
    return client.infer(model, [index], **more).as_numpy("value").tolist()


class Load:
    """Clients that ask one after another until they are told to stop, and keep what they were answered."""

    def __init__(self, server, clients=6):
        self.stopping = threading.Event()
        self.answers, self.failures = [], []
        self.first = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self.run, args=(server,)) for _ in range(clients)]
        for thread in self.threads:
            thread.start()
        for _ in range(3 * clients):
            assert self.first.acquire(timeout=LIMIT_S)

    def run(self, server):
        with server.client() as client:
            while not self.stopping.is_set():
                try:
                    self.answers.append(infer(client))
                except Exception as failure:  # counted: the test says what it means
                    self.failures.append(failure)
                self.first.release()

    def end(self):
        count = len(self.answers)
        for _ in range(6):
            while self.first.acquire(blocking=False):
                pass
            assert self.first.acquire(timeout=LIMIT_S)
        self.stopping.set()
        for thread in self.threads:
            thread.join(LIMIT_S)
        assert len(self.answers) > count
        assert self.failures == []
        assert all(answer == [[20]] for answer in self.answers)


def test_workers_of_another_host_join_and_serve(cluster):
    server = cluster()
    assert server.metric("fermata_worker_serving") == 0
    worker = server.worker("one", workers=2)
    server.await_metric(2, "fermata_worker_serving", type="far")
    assert re.fullmatch(r"joined host=one scheduler=127.0.0.1:\d+ workers=2\n", worker.stdout.readline())
    with server.client() as client:
        assert [infer(client, row) for row in (0, 1, 2)] == [[[0]], [[10]], [[20]]]
        assert client.is_server_ready()
    assert server.metric("fermata_host_workers", host="one") == 2
    assert server.metric("fermata_host_batches_total", host="one") == 3
    assert server.metric("fermata_host_bytes_total", host="one", direction="to") > 24
    assert server.metric("fermata_host_control_delay_seconds", host="one") > 0
    with Events(server) as events:
        while "at one" not in json.dumps(events.next("hello", "workers")[1]):
            pass


def test_a_server_whose_workers_are_all_elsewhere_is_not_ready_without_them(cluster):
    server = cluster()
    with server.client() as client:
        assert not client.is_server_ready()
        with pytest.raises(tritonclient.utils.InferenceServerException):
            infer(client, timeout=50_000)  # microseconds: nobody would run it, which is known at once
        server.worker("one")
        server.await_metric(1, "fermata_worker_serving")
        assert client.is_server_ready()


def test_a_worker_that_dies_costs_no_answer_and_may_come_back(cluster):
    server = cluster()
    first = server.worker("first", workers=2)
    server.worker("second", workers=2)
    server.await_metric(4, "fermata_worker_serving")
    load = Load(server)
    first.kill()
    server.await_metric(2, "fermata_worker_serving")
    server.await_metric(1, "fermata_host_ends_total", host="first", cause="died")
    server.worker("first", workers=2)
    server.await_metric(4, "fermata_worker_serving")
    load.end()
    assert server.metric("fermata_host_joins_total", host="first") == 2


def test_the_only_worker_that_dies_is_waited_for(cluster):
    server = cluster()
    first = server.worker("first")
    server.await_metric(1, "fermata_worker_serving")
    load = Load(server, clients=2)
    first.kill()
    server.await_metric(0, "fermata_worker_serving")
    server.worker("first")
    server.await_metric(1, "fermata_worker_serving")
    load.end()


def test_a_worker_that_leaves_ends_what_it_runs(cluster):
    server = cluster()
    first = server.worker("first", workers=2)
    server.worker("second", workers=2)
    server.await_metric(4, "fermata_worker_serving")
    load = Load(server)
    first.terminate()
    assert first.wait(START_LIMIT_S) == 0
    server.await_metric(1, "fermata_host_ends_total", host="first", cause="left")
    load.end()
    assert server.metric("fermata_host_lost_batches_total") == 0


def test_models_are_divided_over_hosts_where_memory_is_short(tmp_path, cluster):
    gather = paced_model(tmp_path, "gather")
    models = tmp_path / "divided"
    for name, memory_mb in (("large", 60), ("middle", 50), ("small", 40)):
        (models / name).mkdir(parents=True)
        (models / name / "1").symlink_to(gather / "gather" / "1")
        profile = json.loads((gather / "gather" / "profile.json").read_text())
        (models / name / "profile.json").write_text(
            json.dumps(profile | {"model": name, "memory_mb": memory_mb, "static_mb": memory_mb - 10}))
    server = cluster(models=models, text=CONFIG.replace("remote: true", "remote: true, memory_mb: 100"))
    hosts = [server.worker(name, workers=2) for name in ("one", "two")]
    server.await_metric(4, "fermata_worker_serving")
    with urllib.request.urlopen(f"http://{server.http}/v2/fermata/placement", timeout=LIMIT_S) as reply:
        divided = json.load(reply)["subclusters"]
    assert [len(row["workers"]) for row in divided] == [2, 2]
    assert sorted(model for row in divided for model in row["models"]) == ["large", "middle", "small"]
    assert all(row["used_mb"] <= 100 for row in divided)
    with server.client() as client:
        def all_answer():
            return [infer(client, 2, model) for model in ("large", "middle", "small")] == [[[20]]] * 3
        assert all_answer()
        hosts[0].kill()  # each host has workers of both
        server.await_metric(2, "fermata_worker_serving")
        assert all_answer()
        assert {server.metric("fermata_subcluster_workers", subcluster=str(i)) for i in (0, 1)} == {2}


class Proxy:
    """Passes bytes between workers and a scheduler until it is cut: then it holds what comes."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.pairs, self.is_cut = {}, threading.Event()
        self.over, self.wake = os.pipe()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            ready, _, _ = select.select([self.over, self.listener, *self.pairs], [], [])
            if self.over in ready:
                return
            for each in ready:
                if each is self.listener:
                    a, b = self.listener.accept()[0], socket.create_connection(self.to)
                    for side in (a, b):
                        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.pairs.update({a: b, b: a})
                elif each in self.pairs:
                    self.forward(each)

    def forward(self, each):
        try:
            data = each.recv(65536)
            if self.is_cut.is_set():
                if data:
                    return
                del self.pairs[each]  # nobody hears of its end either
                return
            if data:
                return self.pairs[each].sendall(data)
        except OSError:
            pass
        other = self.pairs.pop(each)
        self.pairs.pop(other, None)
        each.close()
        other.close()

    def end(self):
        os.write(self.wake, b"x")
        self.thread.join()
        self.listener.close()
        for each in self.pairs:
            each.close()


def test_a_worker_that_is_cut_off_is_given_up_and_others_answer(cluster):
    server = cluster(silence_ms=2000)
    proxy = Proxy(server.cluster)
    try:
        cut_off = server.worker("far", workers=2, address=proxy.address)
        server.worker("near", workers=2)
        server.await_metric(4, "fermata_worker_serving")
        load = Load(server)
        proxy.is_cut.set()
        end = time.monotonic() + LIMIT_S
        while server.metric("fermata_host_ends_total", host="far", cause="silent") < 1:
            assert time.monotonic() < end
        load.end()
        assert cut_off.poll() is None
        log = server.folder / "far.log"
        end = time.monotonic() + LIMIT_S
        while "the scheduler at" not in log.read_text():  # it too has noticed
            assert time.monotonic() < end
    finally:
        proxy.end()


def test_only_who_has_a_certificate_of_the_authority_takes_part(tmp_path, cluster):
    for name, authority in (("ours", "ours"), ("theirs", "theirs"), ("server", "ours"), ("good", "ours"), ("bad", "theirs")):
        make_certificate(tmp_path, name, authority)
    tls = "  tls: {{certificate: server.pem, key: server.key, authority: ours.pem}}"
    server = cluster(tls=tls)
    text = (tmp_path / "fermata.yaml").read_text()

    def config(name):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text.replace("server.pem", f"{name}.pem").replace("server.key", f"{name}.key"))
        return file
    server.worker("bad", config=config("bad"))
    end = time.monotonic() + LIMIT_S
    while server.metric("fermata_cluster_refused_total", cause="tls") == 0:
        assert time.monotonic() < end
    plain = tmp_path / "plain.yaml"
    plain.write_text(text.replace(tls.replace("{{", "{").replace("}}", "}"), ""))
    before = server.metric("fermata_cluster_refused_total", cause="tls")
    server.worker("plain", config=plain)
    while server.metric("fermata_cluster_refused_total", cause="tls") < before + 1:
        assert time.monotonic() < end
    server.worker("good", config=config("good"))
    server.await_metric(1, "fermata_worker_serving")
    with server.client() as client:
        assert infer(client) == [[20]]
    assert server.metric("fermata_host_joins_total", host="bad") == 0
    assert server.metric("fermata_host_joins_total", host="plain") == 0


def test_a_host_with_another_model_is_refused(tmp_path, cluster):
    server = cluster()
    other = tmp_path / "other"
    (other / "gather" / "1").mkdir(parents=True)
    model = ROOT / "tests" / "data" / "repository" / "pair" / "1" / "model.onnx"
    (other / "gather" / "1" / "model.onnx").write_bytes(model.read_bytes())
    (tmp_path / "other.yaml").write_text(
        (tmp_path / "fermata.yaml").read_text().replace(str(tmp_path / "models"), str(other)))
    server.worker("odd", config=tmp_path / "other.yaml")
    end = time.monotonic() + LIMIT_S
    while "and the scheduler's" not in server.log.read_text():  # said once it is gone
        assert time.monotonic() < end
    assert server.metric("fermata_host_ends_total", host="odd", cause="refused") >= 1
    assert server.metric("fermata_worker_serving") == 0


def test_more_workers_than_there_is_room_for_are_refused(cluster):
    server = cluster()
    server.worker("many", workers=8)
    server.await_metric(4, "fermata_worker_serving")
    server.worker("late")
    end = time.monotonic() + LIMIT_S
    while server.metric("fermata_cluster_refused_total", cause="full") == 0:
        assert time.monotonic() < end


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"FMC1" + b"\xff" * 12, b"FMC1" + bytes(12),
                                  b"FMC1\x04\x00\x00\x00" + bytes(8) + b"\xff\xff\xff\xff"])
def test_what_is_no_part_is_refused_and_counted(cluster, sent):
    server = cluster()
    host, port = server.cluster.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    server.await_metric(1, "fermata_cluster_refused_total", cause="greeting")


def test_a_crowd_that_says_nothing_keeps_no_worker_out(cluster):
    server = cluster()
    host, port = server.cluster.rsplit(":", 1)
    crowd, waited, end = [], -1, time.monotonic() + LIMIT_S
    try:
        while server.metric("fermata_cluster_refused_total", cause="crowd") < 16:  # who came first
            assert time.monotonic() < end
            if (now := server.metric("fermata_cluster_refused_total", cause="greeting")) > waited:
                waited = now  # where some have waited too long before the others came, all come again
                crowd += [socket.create_connection((host, int(port)), timeout=LIMIT_S) for _ in range(80)]
        server.worker("one")
        server.await_metric(1, "fermata_worker_serving")
    finally:
        for each in crowd:
            each.close()


def check(folder, text):
    file = folder / "fermata.yaml"
    file.write_text(text)
    return subprocess.run([FERMATA, "worker", "--scheduler", "localhost:1", "--config", file], capture_output=True, text=True)


@pytest.mark.parametrize("text, expected", [
    ("models: .\n", "no type of workers is remote"),
    ("models: .\ncluster: {listen: '0.0.0.0:1'}\nworkers: {types: [{name: a, remote: true}]}\n", "cluster.tls too"),
    ("models: .\ncluster: {listen: nowhere}\nworkers: {types: [{name: a, remote: true}]}\n", "expected HOST:PORT"),
    ("models: .\ncluster: {listen: 'localhost:1'}\n", "a type of workers with remote: true"),
    ("models: .\nworkers: {types: [{name: a, remote: true}]}\n", "since a type of workers is remote"),
    ("models: .\ncluster: {listen: 'localhost:1', tls: {certificate: a}}\nworkers: {types: [{name: a, remote: true}]}\n", "key"),
])
def test_a_configuration_that_makes_no_sense_is_refused(tmp_path, text, expected):
    refused = check(tmp_path, text)
    assert refused.returncode == 2 and expected in refused.stderr, refused.stderr
