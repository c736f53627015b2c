#!/usr/bin/env python3
"""What one stranger costs others where frontends, a scheduler and workers are processes of their own (docs/cluster.md).

    make attack                                      # or, with build/fermata there:
    .deps/test/bin/python bench/attack_cluster.py [--only long_parameters,web_hellos] [--seconds 8] [--recover 60] [--record]

For each attack of attacks_cluster.py a cluster of its own: a scheduler, two frontends and a worker with two slots, which
show certificates. The stranger has the ports of one frontend, or of both, or those of the parts without a certificate.
Canaries ask both frontends over HTTP and gRPC, by old and new connections; where the attack is on streams, each has an
honest stream client of 25 frames a second with 100 ms instead; where it is on the parts' ports, a further frontend comes
meanwhile. First alone, then beside the attack; a minute later, what memory each process has. Exit code 1: a process ended; a canary lost more than 2 % beyond what it loses at rest, or its
99th percentile was more than 5 times that at rest (and 20 ms); a stream client had less than 0.97 of its frames on time,
or less than 0.98 of its accuracy; a process took more than 1.2 times listen.memory_mb, or a minute later not within 10 %
(and 8 MB) of what it had at rest; the further frontend took more than 5 s. --record writes bench/results/attack_cluster.json."""

import argparse
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time
import types

import attack
import attack_streams
import attacks_cluster
import record
import server
from streams_served import config_of, repository

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import onnx  # noqa: E402
import parts  # noqa: E402
from row_models import N, T, h, made, value  # noqa: E402
from hosted import make_certificate  # noqa: E402

MEMORY_MB, REQUEST_MB, BACK_MB, COMES_S = 512, 64, 8, 5
attack.RATE = 10  # of each way at each of two frontends


class Cluster(parts.Parts):
    def __init__(self, folder, streams):
        self.folder, self.parts, self.config = folder, [], folder / "fermata.yaml"
        for name in ("authority", "part"):
            make_certificate(folder, name, "authority")
        models = folder / "models"
        self.ports = server.free_ports(4)
        if streams:
            config = config_of(repository(models), "fermata", False)
        else:
            self.write_models(models)
            config = {"models": str(models), "workers": {"executor": "paced"}, "limits": {"held_mb": MEMORY_MB // 2}, "services": {
                "quick": {"slo_ms": 1000}, "slow": {"slo_ms": 1000}, "chain": {"kind": "pipeline", "stages": [
                    {"name": "first", "model": "identity-uint8"}, {"name": "last", "model": "after", "inputs": {"x": "first.y"}}]}}}
        scheduler, *frontends, worker = self.ports
        common = config | {
            "log_level": "warning", "recorder": {"seconds": 30},
            "listen": {"http": 0, "grpc": 0, "metrics": 0, "memory_mb": MEMORY_MB, "max_request_mb": REQUEST_MB},
            "cluster": {"listen": f"127.0.0.1:{scheduler}", "frontends": "127.0.0.1:0", "workers": f"127.0.0.1:{worker}",
                        "tls": {"certificate": "part.pem", "key": "part.key", "authority": "authority.pem"}}}
        common["workers"] = {"executor": config["workers"]["executor"], "types": [{"name": "far", "count": 2, "remote": True}]}
        self.config.write_text(json.dumps(common))
        self.one = self.scheduler()
        self.fronts = [self.bring_frontend(f"front{i}", port) for i, port in enumerate(frontends)]
        self.worker(self.one, workers=2)
        self.one.await_metric(2, "fermata_worker_serving")
        for front in self.fronts:
            front.await_ready()

    @staticmethod
    def write_models(models):
        data = server.ROOT / "tests" / "data" / "repository"
        models.mkdir()
        for name, of, ms in (("quick", "identity-fp32", 1.0), ("slow", "identity-fp32", 8.0), ("identity-uint8", "identity-uint8", 1.0),
                             ("after", "identity-uint8", 200.0), ("identity-bytes", "identity-bytes", 1.0)):
            shutil.copytree(data / of, models / name)
            server.write_profile(models / name, {1: ms, 4: 2 * ms})
        fill = h.make_graph([N("ConstantOfShape", ["x"], ["y"])], "g", [value("x", [1], T.INT64)], [value("y", ["n"])])
        for name, model in (("any", made([N("Neg", ["x"], ["y"])], [("x", None)], [("y", None)])), ("fill", h.make_model(
                fill, opset_imports=[h.make_opsetid("", 17)], ir_version=8))):
            (models / name / "1").mkdir(parents=True)
            onnx.save(model, models / name / "1" / "model.onnx")

    def bring_frontend(self, name, port):
        return self.start(name, "frontend", "--config", self.config, "--name", name, "--listen", f"127.0.0.1:{port}",
                          "--scheduler", self.one.said["cluster"]).ready()

    def memory_mb(self):
        """Of each process."""
        rows = {}
        for part in self.parts:
            if (code := part.process.poll()) is not None:
                raise RuntimeError(f"{part.name} has ended with {code}:\n{part.log.read_text()[-3000:]}")
            status = pathlib.Path(f"/proc/{part.process.pid}/status").read_text()
            rows[part.name] = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
        return rows


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def watch(cluster, measure, seconds):
    """What each frontend's clients got, and the most memory of each process meanwhile."""
    most = cluster.memory_mb()
    with concurrent.futures.ThreadPoolExecutor(len(cluster.fronts)) as pool:
        asking = [pool.submit(measure, front, seconds) for front in cluster.fronts]
        while not all(each.done() for each in asking):
            time.sleep(0.2)
            most = {name: max(mb, most[name]) for name, mb in cluster.memory_mb().items()}
        return {front.name: each.result() for front, each in zip(cluster.fronts, asking)}, most


def ask(front, seconds):
    out = multiprocessing.Queue()
    process = multiprocessing.Process(target=attack.canary, args=(port_of(front.http), port_of(front.grpc), None, seconds, out))
    process.start()
    got = out.get(timeout=seconds + 60)
    process.join()
    return attack.figures(got)


def stream(front, seconds):
    return attack_streams.client(types.SimpleNamespace(grpc=port_of(front.grpc)), seconds)


def be_stranger(how, ports, seconds):
    os.nice(10)
    threading.excepthook = lambda failed: (print(f"{how.__name__} does not do what it should: {failed.exc_value!r}", flush=True), os._exit(3))
    how(attacks_cluster.Stranger(*ports, seconds))
    os._exit(0)


def run(how, seconds, cluster):
    """The row so far: what memory is left is seen later."""
    streams = how in attacks_cluster.ON_STREAMS
    measure, warm_up = (stream, attack_streams.WARM_UP_S) if streams else (ask, 0)
    watch(cluster, measure, 2)  # what is made once
    rest, rest_mb = watch(cluster, measure, seconds / 2)
    rest_mb = cluster.memory_mb()
    ports = [[port_of(f.http) for f in cluster.fronts], [port_of(f.grpc) for f in cluster.fronts], cluster.ports]
    stranger = multiprocessing.get_context("spawn").Process(target=be_stranger, args=(how, ports, seconds + warm_up + 6), daemon=True)
    stranger.start()
    time.sleep(2)
    came_s = come_too(cluster) if how in attacks_cluster.ON_PARTS else 0.0
    during, peak_mb = watch(cluster, measure, seconds)
    if stranger.exitcode:
        sys.exit(stranger.exitcode)
    stranger.kill()
    stranger.join()
    return {"attack": how.__name__, "rest": rest, "during": during, "rest_mb": rest_mb, "peak_mb": peak_mb, "came_s": came_s}


def come_too(cluster):
    """Seconds until a further frontend is ready, whose connections are new ones."""
    began = time.monotonic()
    late = cluster.bring_frontend("late", server.free_ports(1)[0])
    late.await_ready()
    late.kill()
    cluster.parts.remove(late)
    return time.monotonic() - began


def verdict(row):
    """Why others were harmed; none: they were not."""
    wrong = [f"a part that came took {row['came_s']:.0f} s"] if row["came_s"] > COMES_S else []
    for front, during in row["during"].items():
        rest = row["rest"][front]
        if "on_time" in during:
            if during["on_time"] < attack_streams.LEAST_ON_TIME:
                wrong.append(f"{front}: {during['on_time']:.3f} of the frames on time")
            if during["accuracy"] < attack_streams.LEAST_ACCURACY * rest["accuracy"]:
                wrong.append(f"{front}: accuracy {rest['accuracy']:.3f} -> {during['accuracy']:.3f}")
            continue
        for way, got in during.items():
            lost = got["lost"] / got["sent"] - rest[way]["lost"] / rest[way]["sent"]
            if lost > attack.MOST_LOST:
                wrong.append(f"{front}: {way} lost {lost:.0%}")
            elif got["p99_ms"] > max(attack.MOST_SLOWER * rest[way]["p99_ms"], attack.LEAST_MS):
                wrong.append(f"{front}: {way} p99 {rest[way]['p99_ms']:.0f} -> {got['p99_ms']:.0f} ms")
    for name, mb in row["rest_mb"].items():
        if row["peak_mb"][name] - mb > attack.MOST_MEMORY * MEMORY_MB:
            wrong.append(f"memory of {name} {mb:.0f} -> {row['peak_mb'][name]:.0f} MB")
        if row["after_mb"][name] > max(mb * (1 + attack.BACK), mb + BACK_MB):
            wrong.append(f"memory of {name} {mb:.0f} MB, stays at {row['after_mb'][name]:.0f} MB")
    return wrong


def show(row):
    for front, during in row["during"].items():
        rest = row["rest"][front]
        if "on_time" in during:
            print(f"{row['attack']:20} {front} on time {rest['on_time']:.3f} -> {during['on_time']:.3f}, accuracy {rest['accuracy']:.3f} -> "
                  f"{during['accuracy']:.3f}")
            continue
        for way, got in during.items():
            print(f"{row['attack']:20} {front} {way:9} lost {got['lost']:3}/{got['sent']:<3} at rest {rest[way]['lost']:2}/{rest[way]['sent']:<3}"
                  f" p99 {rest[way]['p99_ms'] or 0:6.1f} -> {got['p99_ms'] or 0:6.1f} ms")
    if row["came_s"]:
        print(f"{row['attack']:20} a frontend that came was ready after {row['came_s']:.1f} s")
    memory = ", ".join(f"{name} {mb:.0f} -> {row['peak_mb'][name]:.0f} -> {row['after_mb'][name]:.0f}" for name, mb in row["rest_mb"].items())
    print(f"{row['attack']:20} memory (MB) {memory}: {'; '.join(row['harm']) or 'no harm'}", flush=True)


def run_all(chosen, seconds, recover):
    for how in chosen:
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
            cluster = Cluster(pathlib.Path(name), how in attacks_cluster.ON_STREAMS)
            stack.callback(cluster.kill)
            row = run(how, seconds, cluster)
            time.sleep(recover)
            row["after_mb"] = cluster.memory_mb()
        yield row | {"harm": verdict(row)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--recover", type=float, default=60)
    parser.add_argument("--record", action="store_true", help="write bench/results/attack_cluster.json")
    options = parser.parse_args()
    wanted, rows = options.only.replace(",", " ").split(), []
    for row in run_all([a for a in attacks_cluster.ATTACKS if not wanted or a.__name__ in wanted], options.seconds, options.recover):
        rows.append(row)
        show(row)
    if options.record and not wanted:
        record.write("attack_cluster", {"seconds": options.seconds, "recover": options.recover, "memory_mb": MEMORY_MB, "rows": rows})
    sys.exit(any(row["harm"] for row in rows))


if __name__ == "__main__":
    main()
