"""Two schedulers, two frontends and four workers, each on a host of its own, and who may be cut from whom.

    with hosted_parts.Parts(folder) as parts:
        parts.bring_all()
        outcomes = parts.ask_during(lambda: parts.cut("scheduler1", "frontend2", seconds=1))
        assert [each.findings() for each in outcomes] == [[], []]
"""

import contextlib
import itertools
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request

import hosted
import hosts
from hosted import FERMATA, GRPC, HTTP, LIMIT_S, METRICS, MODEL, PARTS

INPUTS = 7410
SCHEDULERS, FRONTENDS, WORKERS = ("scheduler1", "scheduler2"), ("frontend1", "frontend2"), hosted.WORKERS
# Who has anything to say to whom.
PAIRS = (*itertools.product(SCHEDULERS, FRONTENDS), *itertools.product(SCHEDULERS, WORKERS), *itertools.product(FRONTENDS, WORKERS))


class Parts(contextlib.ExitStack):
    def __init__(self, folder, silence_ms=300):
        super().__init__()
        self.folder = folder
        self.network = self.enter_context(hosts.Network("10.78.0"))
        self.client = self.network.host("client")
        hosted.make_certificate(folder, "authority", "authority")
        hosted.make_certificate(folder, "part", "authority")
        config = folder / "fermata.yaml"
        config.write_text(f"""
models: {hosted.paced_model(folder, MODEL)}
listen: {{host: 127.0.0.1, public: true, http: {HTTP}, grpc: {GRPC}, metrics: {METRICS}}}
cluster:
  listen: "127.0.0.1:{PARTS}"
  frontends: "127.0.0.1:{INPUTS}"
  lock: {folder}/lock
  silence_ms: {silence_ms}
  tls: {hosted.TLS}
services: {{patient: {{model: {MODEL}}}, tight: {{model: {MODEL}}}}}
workers:
  executor: paced
  types: [{{name: far, count: {len(WORKERS)}, remote: true}}]
""")
        self.parts = {}
        made = {name: self.network.host(name) for name in (*SCHEDULERS, *FRONTENDS, *WORKERS)}
        schedulers = ",".join(f"{made[name].address}:{PARTS}" for name in SCHEDULERS)
        for name, host in made.items():
            command = [FERMATA, "scheduler" if name in SCHEDULERS else "frontend" if name in FRONTENDS else "worker", "--config", config]
            if name not in WORKERS:
                command += ["--host", host.address, "--listen", f"{host.address}:{PARTS if name in SCHEDULERS else INPUTS}"]
            if name not in SCHEDULERS:
                command += ["--scheduler", schedulers, "--name", name]
            if name in WORKERS:
                command += ["--workers", "1"]
            self.parts[name] = hosted.Part(folder, host, command)
            self.callback(self.parts[name].kill)

    def bring_all(self):
        for name in (*SCHEDULERS, *FRONTENDS):
            self.parts[name].start()
            self.parts[name].await_line("ready")
        for name in WORKERS:
            self.parts[name].start()
        self.await_whole()

    def host(self, name):
        return self.parts[name].host

    def metric(self, part, metric, **labels):
        with self.client.here():
            return hosted.sum_metric(f"{self.host(part).address}:{METRICS}", metric, **labels)

    def is_ready(self, frontend):
        with self.client.here(), contextlib.suppress(urllib.error.URLError):
            url = f"http://{self.host(frontend).address}:{HTTP}/v2/health/ready"
            return urllib.request.urlopen(url, timeout=LIMIT_S).status == 200
        return False

    def active(self):
        """The scheduler that decides: the one of the highest epoch."""
        epochs = {}
        for name in SCHEDULERS:
            with contextlib.suppress(OSError):
                epochs[name] = self.metric(name, "fermata_scheduler_epoch")
        return max(epochs, key=epochs.get)

    def is_whole(self):
        with contextlib.suppress(OSError):
            return (self.metric(self.active(), "fermata_worker_serving") == len(WORKERS)
                    and all(self.is_ready(each) for each in FRONTENDS))
        return False

    def await_whole(self):
        end = time.monotonic() + LIMIT_S
        while not self.is_whole():
            if time.monotonic() > end:
                raise TimeoutError("".join(part.log.read_text() for part in self.parts.values()))

    # What may happen, each for `seconds`; who is not there afterwards is started again.

    def cut(self, one, two, seconds):
        self.network.cut(self.host(one), self.host(two))
        time.sleep(seconds)
        self.network.mend(self.host(one), self.host(two))

    def kill(self, name, seconds):
        self.parts[name].kill()
        time.sleep(seconds)
        self.start_again(name)

    def hang(self, name, seconds):
        self.parts[name].signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.parts[name].signal(signal.SIGCONT)

    def start_again(self, name):
        self.parts[name].kill()
        self.parts[name].start()
        self.parts[name].await_line("ready")

    def revive(self):
        """Those that have stopped by themselves: a scheduler that found a later one."""
        for name in SCHEDULERS:
            if self.parts[name].process.poll() is not None:
                self.start_again(name)

    def ask_during(self, fault, seconds=3.5, rates=(100, 30), deadlines_ms=(2000, 100)):
        """Requests by the clock at both frontends while that happens: how those of each ended. Blocks until the cluster is
        whole again."""
        deadlines = dict(zip(("patient", "tight"), deadlines_ms))
        inputs = self.folder / "inputs.jsonl"
        inputs.write_text("".join(json.dumps({
            "inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT64", "data": [number]}], "label": number}) + "\n"
            for number in range(100)))
        ends, loads = {}, {}
        try:
            for name in FRONTENDS:
                ends[name] = self.metric(name, "fermata_requests_total")
                document = self.folder / f"{name}-load.yaml"
                document.write_text(json.dumps({
                    "url": f"{self.host(name).address}:{GRPC}", "warmup_s": 0.5, "duration_s": seconds, "drain_s": 60, "seed": 1,
                    "services": [{"name": each, "rate_rps": rate, "inputs": str(inputs), "timeout_ms": deadlines[each]}
                                 for each, rate in zip(deadlines, rates)]}))
                loads[name] = self.client.start([FERMATA, "load", document, "--json"], stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True)
            for name in FRONTENDS:  # they are being asked
                while self.metric(name, "fermata_requests_total") < ends[name] + 50 and loads[name].poll() is None:
                    pass
            fault()
            said = {name: load.communicate(timeout=LIMIT_S) for name, load in loads.items()}
        except BaseException:
            for load in loads.values():
                load.kill()
                load.communicate()
            raise
        for name, load in loads.items():
            if load.returncode != 0:
                raise RuntimeError(said[name][1])
        self.revive()
        self.await_whole()
        return [hosted.Outcome(json.loads(said[name][0]), self.metric(name, "fermata_requests_total") - ends[name], deadlines)
                for name in FRONTENDS]
