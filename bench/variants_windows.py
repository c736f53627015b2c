"""Each policy with and without looking at the data, window by window: `fermata plan group`."""

import json
import math
import statistics
import subprocess

import numpy

import applications
import server

WINDOW_MS, SLO_MS, WINDOWS = 100, 150, 12
WAYS = {"oblivious": (False, False), "data-aware": (True, False),
        "data-aware, short circuits": (True, True)}
STUDENT_95 = {2: 12.71, 4: 3.18, 6: 2.57, 8: 2.36, 10: 2.26}  # by the number of runs


def penalty(lateness_ms):
    x = min(1, max(0, lateness_ms / SLO_MS))
    return x**3 / (x**3 + (1 - x)**3)


def plan(applications_, requests, now, free_at, policy, way):
    aware, short = WAYS[way]
    document = {"now_ms": now, "workers": [{"name": "worker", "free_at_ms": max(now, free_at)}],
                "applications": applications_, "requests": requests, "policy": policy,
                "data_aware": aware, "short_circuit": short}
    done = subprocess.run([server.BINARY, "plan", "group", "-"], input=json.dumps(document),
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def planned_applications(made):
    return [{"name": a["name"], "penalty": a["penalty"], "prior": a["prior"],
             "variants": a["variants"],
             "short_circuit": {"name": "evidence", **a["short_circuit"]}} for a in made]


def run(made, policy, way, per_window, seed):
    """Utility of one run; the same seed gives the same requests to every policy and way."""
    random = numpy.random.default_rng(seed)
    known, free_at, utility = planned_applications(made), 0, 0
    for window in range(1, WINDOWS + 1):
        arrivals = numpy.sort(random.uniform(-WINDOW_MS, 0, per_window)) + window * WINDOW_MS
        asked = [(a := made[i % len(made)], a["examples"][random.integers(len(a["examples"]))])
                 for i in random.permutation(per_window)]
        requests = [{"id": str(i), "application": a["name"], "arrival_ms": t,
                     "deadline_ms": t + SLO_MS, "evidence": e["evidence"]}
                    for i, (t, (a, e)) in enumerate(zip(arrivals, asked))]
        result = plan(known, requests, window * WINDOW_MS, free_at, policy, way)
        for batch in result["schedule"]:
            free_at = max(free_at, batch["finish_ms"])
            for i in map(int, batch["requests"]):
                a, e = asked[i]
                at = [v["name"] for v in a["variants"]].index(batch["variant"])
                late = batch["finish_ms"] - requests[i]["deadline_ms"]
                utility += e["correct"][at] * (1 - penalty(late))
        utility += sum(asked[int(i)][1]["short_circuit"] for i in result["short_circuited"])
    return utility / (WINDOWS * per_window)


def added(after, before):
    """The 95 % interval of the mean difference of paired runs."""
    differences = [x - y for x, y in zip(after, before)]
    deviation = statistics.stdev(differences) / math.sqrt(len(differences))
    half = STUDENT_95[len(differences)] * deviation
    return statistics.mean(differences) - half, statistics.mean(differences) + half


def gains(records, policies, runs, load, slowed):
    """By policy the columns of the table; and all numbers."""
    made = applications.scenario(records, policies[0], load, slowed)["applications"]
    per_window = round(load * applications.bearable_rps(records) / slowed * WINDOW_MS / 1000)
    table, document = {}, {}
    for policy in policies:
        all_runs = {way: [run(made, policy, way, per_window, seed) for seed in range(runs)]
                    for way in WAYS}
        ways = list(WAYS)
        document[policy] = {way: {"utility": statistics.mean(all_runs[way]),
                                  "added": added(all_runs[way], all_runs[ways[max(0, i - 1)]])}
                            for i, way in enumerate(ways)}
        table[policy] = [document[policy]["oblivious"]["utility"],
                         *("{:+.4f} to {:+.4f}".format(*document[policy][way]["added"])
                           for way in ways[1:])]
    return table, document
