#!/usr/bin/env python3
"""A server, four workers and clients on hosts of their own (network namespaces), and what befalls the workers in turn.

    make cluster        # or: .deps/test/bin/python bench/cluster_faults.py [--hold 1] [--faults dies hangs]

Requests come by the clock, at 0.67 of what three of the workers do: patient ones with 2 s until their deadlines, tight
ones with 100 ms. Each fault befalls each worker for a second, with `silence_ms` as it is by default. It must hold that
every request ends once, with its own answer; that no patient one is lost; that nobody waits 50 ms beyond a deadline
for a host that is not heard of.
Writes bench/results/cluster_faults.json, and exits with 1 where something did not hold."""

import argparse
import contextlib
import pathlib
import sys
import tempfile
import time

import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import hosts  # noqa: E402
import hosted  # noqa: E402

BEYOND_MS = 50
HEARD_OF = ("has_a_slow_link", "is_far_away")  # such a worker's late answer is waited for: it is counted as late


@contextlib.contextmanager
def nothing(_cluster, _worker):
    yield


def tried(cluster, name, fault, arguments):
    """One row: the fault, on each worker in turn."""
    row = {"findings": [], "offered": 0, "tight_on_time": 0, "tight": 0, "lost_batches": 0,
           "patient_longest_ms": 0.0, "patient_beyond_ms": -1e9, "tight_beyond_ms": -1e9}
    for worker in list(cluster.workers)[:arguments.workers]:
        lost = cluster.metric("fermata_host_lost_batches_total")
        outcome = hosted.ask_during(cluster, fault, worker, lambda *_: time.sleep(arguments.hold),
                                   seconds=arguments.hold + 2)
        row["findings"] += [f"{worker}: {each}" for each in outcome.findings()]
        row["lost_batches"] += int(cluster.metric("fermata_host_lost_batches_total") - lost)
        row["offered"] += sum(each["offered"] for each in outcome.services.values())
        row["tight"] += outcome.services["tight"]["offered"]
        row["tight_on_time"] += outcome.services["tight"]["on_time"]
        row["patient_longest_ms"] = max(row["patient_longest_ms"], outcome.services["patient"]["max_ms"])
        for each in outcome.services:
            beyond = outcome.waited_beyond_ms(each)
            row[f"{each}_beyond_ms"] = max(row[f"{each}_beyond_ms"], beyond)
            if beyond > BEYOND_MS and name not in HEARD_OF:
                row["findings"].append(f"{worker}: a {each} request waited {beyond:.1f} ms beyond its deadline")
    print(f"  {name}: {row}", file=sys.stderr)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hold", type=float, default=1.0, help="seconds that a fault lasts")
    parser.add_argument("--workers", type=int, default=len(hosted.WORKERS), help="how many it befalls")
    parser.add_argument("--faults", nargs="*", default=["nothing", *hosted.FAULTS])
    arguments = parser.parse_args()
    if why := hosts.missing() or hosts.no_delay():
        sys.exit(why)
    with tempfile.TemporaryDirectory() as folder, hosted.Cluster(pathlib.Path(folder)) as cluster:
        cluster.bring_all()
        rows = {name: tried(cluster, name, hosted.FAULTS.get(name, nothing), arguments) for name in arguments.faults}
    print(f"{'fault':30}requests  lost batches  longest patient ms  tight on time  most beyond a deadline ms")
    for name, row in rows.items():
        print(f"{name:30}{row['offered']:8}{row['lost_batches']:14}{row['patient_longest_ms']:20.1f}"
              f"{row['tight_on_time'] / row['tight']:15.3f}{max(row['patient_beyond_ms'], row['tight_beyond_ms']):27.1f}")
    for name, row in rows.items():
        for each in row["findings"]:
            print(f"{name}: {each}")
    if arguments.faults == ["nothing", *hosted.FAULTS]:
        record.write("cluster_faults", {"hold_s": arguments.hold, "faults": rows})
    sys.exit(any(row["findings"] for row in rows.values()))


if __name__ == "__main__":
    main()
