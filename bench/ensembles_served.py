"""One of the zoo's ensembles on the real server, through the burst of a traced day.

Base models answer as the zoo's do, at the pace that the record of the ensembles has stretched so that the slowest takes
SLOWEST_MS (paced.py): few queries a second fill a worker, neither client nor protocols matter, and each model
has a worker, as published, without a core of its own. Policies take turns, all of them in every round, with the same queries.
"""

import statistics
import sys
import tempfile

import numpy

import drawings
import drawings_ensembles
import ensembles_records as records_of
import ensembles_simulated as simulated
import open_loop
import paced
import plot
import server
import zoo_models

NAME = "scans-averaged"
SLOWEST_MS = 24
SLO_MS, WAY_MS = 52, 10  # 105 ms beside 60, as simulated, and the way to the client and back, which the server is not told of
STEP_S = 0.2  # for each second of the trace
LEAD, TAIL = 16, 4  # steps before the burst and after it
LOADS = (2.1, 6)  # of what the original pipeline bears, in the burst
POLICIES = ("original", "static", "greedy-edf", "schemble", "fermata")
FIXED = {2.1: ["scans-dense", "scans-recurrent"], 6: ["scans-recurrent"]}  # the best in hindsight, in virtual time
AGREE = 0.02  # rounds, in accuracy
INCOMPLETE = "the deadline came"


def build(folder):
    """A repository of base models at their pace, and of the networks beside them; what each takes alone."""
    row = records_of.load()[NAME]
    records_of.link(folder, NAME, paced=True)
    by = SLOWEST_MS / simulated.slowest_ms(row)
    for model in row["models"]:
        paced.add(folder, model["name"], {b: by * ms for b, ms in model["ms"].items()})
    return [by * model["ms"]["1"] for model in row["models"]]


def configuration(folder, policy, load):
    scheduler, knows = simulated.METHODS[policy]
    how = {"slo_ms": SLO_MS - WAY_MS, "queue_limit": 100000}
    if knows:
        how.update(predictor=f"{NAME}-{knows}", predictor_output="score",
                   difficulty="agreement" if knows == "agreement" else "discrepancy")
    if policy == "static":
        how["static"] = FIXED[load]
    config = records_of.configuration(folder, NAME, scheduler, **how)
    config["workers"]["executor"] = "paced"
    return config


def schedule(bodies, bearable, load, seed):
    """Requests as `open_loop.drive` takes them, which query each is, and the burst's ends. In every round as many of
    each second and the same queries, in an order and at moments of its own."""
    fixed, random = numpy.random.default_rng(0), numpy.random.default_rng(seed)
    first, last = simulated.burst()
    counts = simulated.trace()
    rates = load * bearable * counts[first - LEAD:last + TAIL] / counts[first:last].mean()
    due = numpy.sort(numpy.concatenate([
        STEP_S * (i + random.random(n)) for i, n in enumerate(fixed.poisson(rates * STEP_S))]))
    which = random.permutation(fixed.integers(len(bodies), size=len(due)))
    return ([(float(t), bodies[w]) for t, w in zip(due, which)], which,
            (LEAD * STEP_S, (LEAD + last - first) * STEP_S))


def judge(asked, which, burst, truth, answers, lag_ms):
    counted = [(truth[w], *answer) for (due, _), w, answer in zip(asked, which, answers)
               if burst[0] <= due < burst[1]]
    timely = [(label, said) for label, outcome, latency, said in counted
              if outcome == "answered" and 1000 * latency <= SLO_MS]
    subsets = [said[1] for _, said in timely]
    incomplete = sum(INCOMPLETE in said[2] for _, said in timely)
    offered = len(counted)
    return {"offered": offered,
            "accuracy": sum(label == said[0] for label, said in timely) / offered,
            "miss_rate": 1 - len(timely) / offered,
            "incomplete_rate": 1 - (len(timely) - incomplete) / offered,
            "late": sum(o == "answered" for _, o, *_ in counted) / offered - len(timely) / offered,
            "subsets": {s: subsets.count(s) for s in sorted(set(subsets))}, "lag_ms": lag_ms}


def serve(folder, rounds, alone_ms):
    features = records_of.data(NAME, "test")
    about = records_of.profile(NAME)
    outputs = {m: zoo_models.outputs_of(m, features, "probabilities") for m in about["models"]}
    truth = sum(outputs.values()).argmax(1).tolist()
    bodies = [open_loop.body(NAME, row, "probabilities") for row in features]
    bearable = 1000 / max(alone_ms)
    print(f"the original pipeline bears {bearable:.1f} queries/s; base models take {[round(ms, 1) for ms in alone_ms]} ms")
    rows = {}
    for seed in range(1, rounds + 1):
        for load in LOADS:
            for policy in POLICIES:
                asked, which, burst = schedule(bodies, bearable, load, seed)
                with server.Server(configuration(folder, policy, load)) as running:
                    answers, lags_ms = open_loop.drive(running.grpc, asked, drain_s=3)
                row = judge(asked, which, burst, truth, answers,
                            float(numpy.quantile(lags_ms, 0.99)))
                rows.setdefault((load, policy), []).append(row)
                print(f"  round {seed}, {load}x {policy}: {row}", file=sys.stderr, flush=True)
    return bearable, rows


def trusted(results):
    return [r for r in results if r["lag_ms"] <= drawings_ensembles.TRUSTED_LAG_MS]


def median(results, what):
    return statistics.median([r[what] for r in trusted(results)] or [float("nan")])


def claims(rows):
    for load in LOADS:
        missed = {p: median(rows[load, p], "miss_rate") for p in POLICIES}
        right = {p: median(rows[load, p], "accuracy") for p in POLICIES}
        where = f"served, {load}x"
        for ours in ("schemble", "fermata"):
            yield (f"{where}: original misses {missed['original']:.1%}, {ours} {missed[ours]:.1%}",
                   missed[ours] <= missed["original"] / 5)
            gain = 100 * (right[ours] - right["original"])
            yield f"{where}: {ours} is {gain:.1f} points over original, at least 30", gain >= 30
        for policy in POLICIES:
            own = [r["accuracy"] for r in trusted(rows[load, policy])]
            apart = max(own) - min(own) if own else float("nan")
            yield f"{where}: rounds of {policy} are {apart:.3f} apart", apart <= AGREE
        yield (f"{where}: fermata misses {missed['fermata']:.2%}, schemble "
               f"{missed['schemble']:.2%}; right in {right['fermata']:.3f} and "
               f"{right['schemble']:.3f}",
               missed["fermata"] <= missed["schemble"] / 2
               and right["fermata"] >= right["schemble"])


def served(rounds):
    """Every claim, with whether it holds."""
    with tempfile.TemporaryDirectory() as folder:
        bearable, rows = serve(folder, rounds, build(folder))
    what = ("accuracy", "miss_rate", "incomplete_rate", "late", "lag_ms")
    print(plot.table(["load", "policy", *what, "trusted rounds"], [
        [f"{load}x", policy, *(median(results, w) for w in what),
         f"{len(trusted(results))} of {len(results)}"]
        for (load, policy), results in rows.items()]))
    document = {"bearable_rps": bearable, "slo_ms": SLO_MS, "burst_s": STEP_S * (simulated.burst()[1] - simulated.burst()[0]),
                "rows": [{"load": load, "policy": policy, "rounds": results} for (load, policy), results in rows.items()]}
    print(plot.save("ensembles_served", drawings.DRAWN["ensembles_served"](document), document))
    yield from claims(rows)
