"""A cluster whose parts are on hosts of their own (hosts.py), what may happen to it, and what must hold then.

    with hosted.Cluster(folder) as cluster:
        cluster.bring_all()
        outcome = hosted.ask_during(cluster, hosted.FAULTS["dies"], "one", hold)
        assert outcome.findings() == []
"""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERMATA = ROOT / "build" / "fermata"
LIMIT_S = 120  # of what is waited for
WORKERS = ("one", "two", "three", "four")
HTTP, GRPC, METRICS, PARTS = 8000, 8001, 8002, 7400  # of a host of its own
MODEL = "identity-int64"  # answers what it is asked
BATCH_MS = 20
PROFILE = {"format": 1, "version": 1, "model_version": "1", "provider": "cpu", "threads": 1,
           "linear_ms": {"alpha": 0, "beta": BATCH_MS, "error": 0},
           "quadratic_ms": {"a": 0, "b": 0, "c": BATCH_MS, "error": 0},
           "batches": {size: {"runs": 9, **dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "mean_ms"), BATCH_MS)}
                       for size in ("1", "4")}}
TLS = "{certificate: part.pem, key: part.key, authority: authority.pem}"


def paced_model(folder, name):
    """A repository of one of the tests' models, which takes BATCH_MS for a batch of up to 4."""
    models = folder / "models"
    (models / name).mkdir(parents=True)
    (models / name / "1").symlink_to(ROOT / "tests" / "data" / "repository" / name / "1")
    (models / name / "profile.json").write_text(json.dumps(PROFILE | {"model": name}))
    return models


def make_certificate(folder, name, authority):
    """A key and a certificate that the authority has signed, or its own where it is one."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    own = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key"]
    if authority == name:
        return openssl("req", "-x509", *own, "-days", "3650", "-out", f"{name}.pem")
    openssl("req", *own, "-out", f"{name}.csr")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "3650", "-out", f"{name}.pem")


def sum_metric(address, name, **labels):
    """Of the metrics' page at an address: the sum over those with these labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=LIMIT_S) as reply:
        text = reply.read().decode()
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    rows = re.findall(rf"(?m)^{name}(?:\{{(.*)\}})? (\S+)$", text)
    return sum(float(value) for own, value in rows if wanted <= set(own.split(",")))


class Part:
    """A process on a host; its log is kept through its restarts."""

    def __init__(self, folder, host, command):
        self.host, self.command, self.log = host, command, folder / f"{host.name}.log"
        self.process = None

    def start(self):
        with self.log.open("a") as log:
            self.process = self.host.start(self.command, stdout=subprocess.PIPE, stderr=log, text=True)

    def await_line(self, beginning):
        """What it says on standard output when it is ready; it ends with its host's links cut, not by itself."""
        for line in self.process.stdout:
            if line.startswith(beginning):
                return
        raise RuntimeError(f"{self.host.name} ended:\n{self.log.read_text()}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


class Cluster(contextlib.ExitStack):
    """A server on one host, workers on four others, and clients on one more."""

    def __init__(self, folder, silence_ms=300, workers=WORKERS, slots=1, more=""):
        super().__init__()
        self.folder, self.slots = folder, slots
        self.network = self.enter_context(hosts.Network())
        self.client, self.host = self.network.host("client"), self.network.host("server")
        make_certificate(folder, "authority", "authority")
        make_certificate(folder, "part", "authority")
        config = folder / "fermata.yaml"
        config.write_text(f"""
models: {paced_model(folder, MODEL)}
listen: {{host: {self.host.address}, public: true, http: {HTTP}, grpc: {GRPC}, metrics: {METRICS}}}
cluster: {{listen: "{self.host.address}:{PARTS}", silence_ms: {silence_ms}, tls: {TLS}}}
services: {{patient: {{model: {MODEL}}}, tight: {{model: {MODEL}}}}}
workers:
  executor: paced
  types: [{{name: far, count: {len(workers) * slots}, remote: true}}]
{more}
""")
        self.server = Part(folder, self.host, [FERMATA, "serve", "--config", config])
        self.workers = {}
        for name in workers:
            host = self.network.host(name)
            command = [FERMATA, "worker", "--scheduler", f"{self.host.address}:{PARTS}", "--config", config,
                       "--name", name, "--workers", str(slots)]
            self.workers[name] = Part(folder, host, command)
        for part in self.parts():
            self.callback(part.kill)

    def parts(self):
        return [self.server, *self.workers.values()]

    def start_server(self):
        self.server.start()
        self.server.await_line("ready")

    def bring_all(self):
        self.start_server()
        for worker in self.workers.values():
            worker.start()
        self.await_whole()

    def metric(self, name, **labels):
        with self.client.here():
            return sum_metric(f"{self.host.address}:{METRICS}", name, **labels)

    def await_metric(self, is_so, name, **labels):
        end = time.monotonic() + LIMIT_S
        while not is_so(self.metric(name, **labels)):
            if time.monotonic() > end:
                raise TimeoutError(f"{name} {labels} is {self.metric(name, **labels)}\n{self.server.log.read_text()}")

    def await_whole(self):
        self.await_metric(lambda serving: serving == len(self.workers) * self.slots, "fermata_worker_serving")

    def goings(self, name):
        return self.metric("fermata_host_ends_total", host=name)


# What may happen to a worker, and how it is over; `hold` waits in between.

@contextlib.contextmanager
def dies(cluster, worker):
    worker.kill()
    yield
    worker.start()


@contextlib.contextmanager
def hangs(cluster, worker):
    worker.signal(signal.SIGSTOP)
    yield
    worker.signal(signal.SIGCONT)


@contextlib.contextmanager
def is_cut_off(cluster, worker):
    cluster.network.cut(cluster.host, worker.host)
    yield
    cluster.network.mend(cluster.host, worker.host)


@contextlib.contextmanager
def loses_its_link(cluster, worker):
    worker.host.unplug()
    yield
    worker.host.plug()


@contextlib.contextmanager
def leaves_half_open_connections(cluster, worker):
    """Its end reaches nobody, and it is there again before anybody has missed it."""
    worker.host.unplug()
    worker.kill()
    worker.host.plug()
    worker.start()
    yield


@contextlib.contextmanager
def has_a_slow_link(cluster, worker):
    worker.host.limit(2_000_000)
    yield
    worker.host.limit(None)


@contextlib.contextmanager
def is_far_away(cluster, worker):
    with cluster.network.delayed(0.02, (cluster.host, worker.host)):
        yield


FAULTS = {each.__name__: each for each in (dies, hangs, is_cut_off, loses_its_link, leaves_half_open_connections,
                                           has_a_slow_link, is_far_away)}
NOTICED = ("dies", "hangs", "is_cut_off", "loses_its_link", "leaves_half_open_connections")  # the server gives it up


class Outcome:
    """How the requests of `fermata load` ended, and how the server counted them."""

    def __init__(self, said, counted, deadlines):
        self.services = {each["name"]: each for each in said["services"]}
        self.sent, self.counted, self.deadlines = said["sent"], counted, deadlines

    def waited_beyond_ms(self, name):
        """The longest that a request of the service was not answered beyond its deadline."""
        service = self.services[name]
        longest = [service[which] for which in ("max_ms", "rejection_max_ms") if service[which] is not None]
        return max(longest, default=0.0) - self.deadlines[name]

    def findings(self):
        """Empty where every request has ended once, with its own answer, and none was lost that had time."""
        found = []
        for name, service in self.services.items():
            ends = sum(service[end] for end in ("on_time", "late", "rejected_deadline", "rejected_queue", "failed", "lost"))
            if ends != service["offered"]:
                found.append(f"{name}: {service['offered']} requests had {ends} ends")
            if service["lost"]:
                found.append(f"{name}: {service['lost']} were never answered")
            if service["failed"]:
                found.append(f"{name}: {service['failed']} failed: {service['failures']}")
            if service["labelled"] and service["accuracy"] != 1:
                found.append(f"{name}: {service['accuracy']} of its answers were its own")
        patient = self.services["patient"]
        if patient["on_time"] != patient["offered"]:
            found.append(f"{patient['offered'] - patient['on_time']} of {patient['offered']} were lost that had time")
        if self.counted != self.sent:
            found.append(f"{self.sent} were sent, {self.counted} ends were counted")
        return found


def ask_during(cluster, fault, name, hold, seconds=4.0, rates=(300, 100), deadlines_ms=(2000, 100)):
    """Requests by the clock, and a fault of one worker while they come: hold(before, over) says for how long, where `before`
    is how often the server had given the worker up, and over() whether the last has ended. Blocks until all have ended
    and the cluster is whole again."""
    worker = cluster.workers[name]
    inputs = cluster.folder / "inputs.jsonl"
    inputs.write_text("".join(json.dumps({
        "inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT64", "data": [number]}], "label": number}) + "\n"
        for number in range(100)))
    deadlines = dict(zip(("patient", "tight"), deadlines_ms))
    document = cluster.folder / "load.yaml"
    document.write_text(json.dumps({
        "url": f"{cluster.host.address}:{GRPC}", "warmup_s": 0.5, "duration_s": seconds, "drain_s": 60, "seed": 1,
        "services": [{"name": each, "rate_rps": rate, "inputs": str(inputs), "timeout_ms": deadlines[each]}
                     for each, rate in zip(deadlines, rates)]}))
    ends = cluster.metric("fermata_requests_total")
    batches = cluster.metric("fermata_host_batches_total") + 20
    load = cluster.client.start([FERMATA, "load", document, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def over():
        return load.poll() is not None
    try:
        cluster.await_metric(lambda now: now > batches or over(), "fermata_host_batches_total")
        before = cluster.goings(name)
        with fault(cluster, worker):
            hold(before, over)
        said, complaint = load.communicate(timeout=LIMIT_S)
    except BaseException:
        load.kill()
        load.communicate()
        raise
    if load.returncode != 0:
        raise RuntimeError(complaint)
    cluster.await_whole()
    return Outcome(json.loads(said), cluster.metric("fermata_requests_total") - ends, deadlines)
