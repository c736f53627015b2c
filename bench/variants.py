#!/usr/bin/env python3
"""Variants chosen by what the data look like, on the zoo's three applications.

    python3 bench/variants.py record       # measures the variants of this machine
    python3 bench/variants.py served       # the policies on the real server
    python3 bench/variants.py figures      # those of SneakPeek's section 6, in virtual time

`record` writes bench/results/variants_records.json, which `figures` reads; `served` records first.
Utility is the mean over offered requests of whether the answer was right, times 1 - penalty of its
lateness. Load 1 is what the most accurate variants alone bear on one worker, at their most
efficient batches. Exits with 1 where a claim that is checked does not hold."""

import argparse
import collections
import pathlib
import statistics
import sys
import tempfile

import numpy

import applications
import open_loop
import plot
import server
import variants_figures

SLO_MS, WAY_MS = 150, 10  # the way to the client and back is kept from what the server is told
WARMUP_S = 2
SIMULATED_S = 2  # fermata decides slowly where much waits, in virtual time as well
POLICIES = ("fermata", "sneakpeek", "lo-edf")
LOADS = (0.5, 1, 2, 3, 5)
TRUSTED_LAG_MS = 30  # at p99: the latencies count it, against every policy alike
BEHIND = 0.9  # of what the best variants reach without a deadline: then fermata is to gain


def sigmoid_penalty(lateness):
    """Of the share of the SLO by which an answer is late."""
    x = numpy.clip(lateness, 0, 1)
    return x**3 / (x**3 + (1 - x)**3)


def configuration(records, models, policy):
    services = {name: {"kind": "variants", "variants": [v["name"] for v in a["variants"]],
                       "slo_ms": SLO_MS - WAY_MS, "penalty": "sigmoid", "queue_limit": 100000,
                       "evidence": {**applications.labelled(name, "train"),
                                    "k": applications.NEIGHBOURS},
                       "labelled": applications.labelled(name, "calibration")}
                for name, a in records["applications"].items()}
    return {"models": str(models), "log_level": "warning", "scheduler": policy,
            "scheduler_window_ms": 100, "workers": {"count": 1, "threads": 1},
            "services": services}


class Stream:
    """Poisson arrivals of all applications together, each with the next of its examples."""

    def __init__(self, seed=1):
        self.random = numpy.random.default_rng(seed)
        self.bodies, self.labels = [], []
        for name in applications.NAMES:
            features, labels = applications.data(name, "stream")
            self.bodies.append([open_loop.body(name, row) for row in features])
            self.labels.append(labels)

    def schedule(self, rate, seconds):
        """Requests as `open_loop.drive` takes them, and the right answers."""
        due = numpy.cumsum(self.random.exponential(1 / rate, int(rate * seconds)))
        which = self.random.integers(len(self.bodies), size=len(due))
        at = [self.random.integers(len(self.labels[w])) for w in which]
        return ([(float(t), self.bodies[w][i]) for t, w, i in zip(due, which, at)],
                [int(self.labels[w][i]) for w, i in zip(which, at)])


def judge(schedule, truth, answers, lag_ms):
    counted = [(label, *answer) for (due, _), label, answer in zip(schedule, truth, answers)
               if due >= WARMUP_S]
    answered = [(label == said[0], latency, said[1])
                for label, outcome, latency, said in counted if outcome == "answered"]
    utility = sum(right * (1 - sigmoid_penalty(1000 * latency / SLO_MS - 1))
                  for right, latency, _ in answered)
    return {"offered": len(counted), "utility": float(utility / len(counted)),
            "accuracy": sum(right for right, *_ in answered) / max(1, len(answered)),
            "late": sum(1000 * latency > SLO_MS for _, latency, _ in answered) / len(counted),
            "p50_ms": 1000 * statistics.median([a[1] for a in answered] or [0]),
            "outcomes": collections.Counter(outcome for _, outcome, *_ in counted),
            "variants": collections.Counter(variant for *_, variant in answered),
            "lag_ms": lag_ms}


def serve(records, models, seconds):
    """Results by load and policy; policies take turns, so that all see the machine alike."""
    stream, rows = Stream(), {}
    for load in LOADS:
        for policy in POLICIES:
            schedule, truth = stream.schedule(load * applications.bearable_rps(records),
                                              WARMUP_S + seconds)
            with server.Server(configuration(records, models, policy)) as running:
                answers, lag_ms = open_loop.drive(running.grpc, schedule)
            rows[load, policy] = judge(schedule, truth, answers, lag_ms)
            print(f"  {load}x {policy}: {rows[load, policy]}", file=sys.stderr)
    return rows


def simulate(records, rows):
    """The same loads in virtual time, where decisions and the way cost nothing."""
    for (load, policy), row in rows.items():
        row["simulated"] = applications.simulate(
            applications.scenario(records, policy, load, seconds=SIMULATED_S))


def draw(rows, goal):
    figure, axis = plot.axes("load, of what the best variants bear", "utility")
    for policy in POLICIES:
        axis.plot(LOADS, [rows[load, policy]["utility"] for load in LOADS], "o-", label=policy)
    axis.axhline(goal, color=plot.NEUTRAL, linestyle=":", label="best variants, no deadline")
    axis.set_ylim(0, 1)
    axis.legend()
    return figure


def holds(rows, goal):
    """Says what does not, by load, and which loads say nothing."""
    for load in LOADS:
        lag_ms = max(rows[load, policy]["lag_ms"]["p99"] for policy in POLICIES)
        if lag_ms > TRUSTED_LAG_MS:
            yield f"{load}x: the machine was too busy, sends were late by {lag_ms:.0f} ms at p99"
            continue
        ours, theirs, local = (rows[load, policy]["utility"] for policy in POLICIES)
        least = 1.1 if theirs <= BEHIND * goal else 0.99
        if ours < least * theirs:
            yield f"{load}x: fermata over sneakpeek is {ours / theirs:.3f}, not {least}"
        if load > 1 and theirs < 2 * local:
            yield f"{load}x: sneakpeek over lo-edf is {theirs / max(local, 1e-9):.3f}, not 2"


def served(seconds):
    with tempfile.TemporaryDirectory() as folder:
        records = applications.record(folder)
        rows = serve(records, pathlib.Path(folder), seconds)
    simulate(records, rows)
    goal = applications.best_accuracy(records)
    print(f"load 1 is {applications.bearable_rps(records):.0f} requests/s; the best variants reach "
          f"{goal:.3f} without a deadline")
    print(plot.table(
        ["load", "policy", "utility", "simulated", "accuracy", "late", "p50 ms", "refused or lost",
         "sends late p99 ms"],
        [[f"{load}x", policy, row["utility"], row["simulated"]["utility"], row["accuracy"],
          row["late"], row["p50_ms"], 1 - row["outcomes"]["answered"] / row["offered"],
          row["lag_ms"]["p99"]]
         for (load, policy), row in rows.items()]))
    document = {"machine": records["machine"], "seconds": seconds, "best_accuracy": goal,
                "load_1_rps": applications.bearable_rps(records),
                "rows": [{"load": load, "policy": policy, **row}
                         for (load, policy), row in rows.items()]}
    print(plot.save("variants_served", draw(rows, goal), document))
    return list(holds(rows, goal))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "served", "figures"))
    parser.add_argument("--seconds", type=float, default=10, help="of each run that is served")
    parser.add_argument("--seeds", type=int, default=3, help="of each simulated run")
    arguments = parser.parse_args()
    failures = []
    if arguments.what == "record":
        with tempfile.TemporaryDirectory() as folder:
            applications.record(folder)
    elif arguments.what == "served":
        failures = served(arguments.seconds)
    else:
        failures = variants_figures.all_of_them(applications.load(), arguments.seeds)
    print("\n".join(failures), file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
