"""The zoo's three applications on the real server: what each policy makes of load and deadlines.

Variants answer as the zoo's do, SLOWED times as slowly as was measured of them, so that one worker, and neither
client nor protocols, is what requests wait for (paced.py). All variants are resident, so that load times
never count; what is not answered waits on, from window to window and from one load to the next;
baselines batch neighbours of one variant. In every round policies take turns with the same
requests, each on a server of its own, through all loads one after the other, the lowest first.
A round asks about the same examples as any other at every load, in an order and at moments of its own.
"""

import collections
import copy
import json
import os
import statistics
import sys
import tempfile

import numpy
import tqdm

import variants_zoo
import open_loop
import paced
import drawings
import plot
import server
import variants_bound

SLOWED = 18
SLOS_MS, WAY_MS = (50, 100, 150), 5  # the way to the client and back is kept from the server
LOADS = {1: 1, 2: 1, 4: 1, 8: 2, 16: 3}  # and how often all examples are asked about at each
EXAMPLES = 280  # of each application
LEAD_S, REST_S = 0.4, 0.3  # before that the queues fill; after it they may empty
WINDOW_MS = 100  # of the published policies
METHODS = {name: {"scheduler": name} for name in ("fermata", "sneakpeek", "grouped", "lo-edf")}
BESIDES = {  # by SLO: a window within the shortest one, and evidence that does not answer by itself
    50: {"sneakpeek, window of 25 ms": {"scheduler": "sneakpeek", "window_ms": 25}},
    150: {f"{name}, no SC": {"scheduler": name, "short_circuit": False}
          for name in ("fermata", "sneakpeek")}}
AGREE = 0.02  # rounds, in utility
TRUSTED_LAG_MS = 10  # of sends, at p99
SEEDS = 10  # of what is simulated


def build(repository, records, times=SLOWED):
    """Slowed variants; the records with what these take."""
    found = copy.deepcopy(records)
    for v in (v for a in found["applications"].values() for v in a["variants"]):
        v["ms"] = {b: times * ms for b, ms in v["ms"].items()}
        paced.add(repository, v["name"], v["ms"], accuracy=v["accuracy"], recall=v["recall"], load_ms=v["load_ms"])
    return found


def configuration(records, repository, slo_ms, scheduler, window_ms=WINDOW_MS, k=variants_zoo.NEIGHBOURS,
                  **how):
    services = {name: {"kind": "variants", "variants": [v["name"] for v in a["variants"]],
                       "slo_ms": slo_ms - WAY_MS, "penalty": "sigmoid", "queue_limit": 100000,
                       "evidence": {**variants_zoo.labelled(name, "train"), "k": k}, **how}
                for name, a in records["applications"].items()}
    return {"models": str(repository), "log_level": "warning", "scheduler": scheduler,
            "scheduler_window_ms": window_ms, "workers": {"count": 1, "executor": "paced"},
            "services": services}


class Stream:
    """Examples of all applications, which are asked about at moments that have nothing to do with each other."""

    def __init__(self, share):
        self.examples, random = [], numpy.random.default_rng(0)
        for name in variants_zoo.NAMES:
            features, labels = variants_zoo.data(name, "stream")
            chosen = random.permutation(len(labels))[:int(share * EXAMPLES)]
            self.examples += [(open_loop.body(name, features[i]), int(labels[i])) for i in chosen]

    def seconds(self, load, bearable):
        return LOADS[load] * len(self.examples) / (load * bearable)

    def round(self, seed, bearable):
        """Requests as `open_loop.drive` takes them; of each the load it is measured at (None: it
        is not) and the right answer."""
        random, start, asked, about = numpy.random.default_rng(seed), 0.0, [], []
        for load, times in LOADS.items():
            length, before = self.seconds(load, bearable), random.poisson(load * bearable * LEAD_S)
            counted = random.permutation(numpy.tile(numpy.arange(len(self.examples)), times))
            parts = ((None, start, LEAD_S, random.integers(len(self.examples), size=before)),
                     (load, start + LEAD_S, length, counted))
            for at, since, lasts, which in parts:
                due = since + numpy.sort(random.random(len(which))) * lasts
                asked += [(float(t), self.examples[w][0]) for t, w in zip(due, which)]
                about += [(at, self.examples[w][1]) for w in which]
            start += LEAD_S + length + REST_S
        return asked, about


def judge(about, answers, lags_ms, slo_ms):
    """By load; `each`: utility of every request."""
    rows = {}
    for load in LOADS:
        own = [i for i, (at, _) in enumerate(about) if at == load]
        answered = {i: (answers[i][2][0] == about[i][1], 1000 * answers[i][1], answers[i][2][1])
                    for i in own if answers[i][0] == "answered"}
        earned = {i: right * (1 - float(variants_bound.sigmoid_penalty(ms / slo_ms - 1)))
                  for i, (right, ms, _) in answered.items()}
        rows[load] = {
            "each": [earned.get(i, 0.0) for i in own], "utility": sum(earned.values()) / len(own),
            "accuracy": sum(right for right, *_ in answered.values()) / max(1, len(answered)),
            "late": sum(ms > slo_ms for _, ms, _ in answered.values()) / len(own),
            "unanswered": 1 - len(answered) / len(own),
            "p50_ms": statistics.median([ms for _, ms, _ in answered.values()] or [0]),
            "variants": collections.Counter(variant for *_, variant in answered.values()),
            "lag_ms": float(numpy.quantile([lags_ms[i] for i in own], 0.99))}
    return rows


def methods(slo_ms):
    return METHODS | BESIDES.get(slo_ms, {})


def serve(records, repository, rounds, stream):
    """Results of the rounds by SLO, load and method; methods take turns."""
    rows = collections.defaultdict(list)
    turns = [(seed, slo, name) for seed in range(1, rounds + 1) for slo in SLOS_MS
             for name in methods(slo)]
    for seed, slo, name in tqdm.tqdm(turns, "serving", disable=None):
        asked, about = stream.round(seed, variants_zoo.bearable_rps(records))
        config = configuration(records, repository, slo, **methods(slo)[name])
        with server.Server(config) as running:
            answers, lags_ms = open_loop.drive(running.grpc, asked)
            rss_mb = running.rss_mb()
        for load, row in judge(about, answers, lags_ms, slo).items():
            rows[slo, load, name].append(row | {"rss_mb": rss_mb})
            print(f"  round {seed}, {slo} ms, {load}x, {name}: {row['utility']:.3f}, sends late by "
                  f"{row['lag_ms']:.1f} ms", file=sys.stderr)
    return rows


def simulated(records, stream, keys, seeds):
    """Utility of the same in virtual time, where decisions and the way cost nothing."""
    documents = [variants_zoo.scenario(
        records, name, load, slo_ms=slo - WAY_MS, seed=seed, warmup=LEAD_S,
        seconds=stream.seconds(load, variants_zoo.bearable_rps(records))) | methods(slo)[name]
        for slo, load, name in keys for seed in range(1, seeds + 1)]
    found = iter(variants_zoo.simulate_all(documents, "simulating"))
    return {key: statistics.median(next(found)["utility"] for _ in range(seeds)) for key in keys}


def trusted(results):
    return [r["lag_ms"] <= TRUSTED_LAG_MS for r in results]


def median(results, what):
    return statistics.median([r[what] for r, well in zip(results, trusted(results)) if well]
                             or [float("nan")])


def ratio(ours, theirs):
    """Over the requests of all rounds where both are to be trusted, which are the same; and half
    of its 95 % interval."""
    both = [(a["each"], b["each"]) for a, b, *well in
            zip(ours, theirs, trusted(ours), trusted(theirs)) if all(well)]
    if not both:
        return float("nan"), float("nan")
    own, other = (numpy.concatenate(each) for each in zip(*both))
    least = max(other.mean(), 1e-3)
    return own.mean() / least, 1.96 * (own - other).std() / len(own)**0.5 / least


def over(one, other):
    """NaN where either is, as where no round is to be trusted."""
    return one / other if other != other else one / max(other, 1e-3)


def compare(records, rows, virtual):
    """What is asked of our default, by SLO and load."""
    best, found = variants_zoo.best_accuracy(records), []
    for slo in SLOS_MS:
        for load in LOADS:
            ours, theirs, local = (rows[slo, load, p] for p in ("fermata", "sneakpeek", "lo-edf"))
            published = median(theirs, "utility")
            times, half = ratio(ours, theirs)
            most = variants_zoo.bound(records, load, slo)
            found.append({
                "slo_ms": slo, "load": load, "best": best, "bound": most,
                "sneakpeek": published, "fermata": median(ours, "utility"),
                "over_local": over(published, median(local, "utility")),
                "ratio": times, "half": half, "behind": published <= variants_zoo.BEHIND * best,
                "possible": over(most, published),
                "simulated": virtual[slo, load, "fermata"] / virtual[slo, load, "sneakpeek"]})
    return found


def falls_short(found):
    for r in found:
        where = f"served, SLO {r['slo_ms']} ms, {r['load']}x"
        if numpy.isnan(r["ratio"]):
            yield f"{where}: sends were late by more than {TRUSTED_LAG_MS} ms in every round"
            continue
        yield from variants_zoo.falls_short(where, r["ratio"], r["half"], r["sneakpeek"],
                                            r["best"], r["bound"])
    most = max((r["over_local"] for r in found if r["load"] >= variants_zoo.THREE_WINDOWS
                and not numpy.isnan(r["over_local"])), default=0)
    if most < 2:
        yield f"served: sneakpeek over lo-edf is {most:.2f} at most, not 2"


def apart(results):
    """How far those rounds that are to be trusted are from each other, in utility."""
    own = [r["utility"] for r, well in zip(results, trusted(results)) if well] or [0]
    return max(own) - min(own)


def served(rounds, share, keep):
    """What does not hold. `share`: of the examples. `keep`: the results."""
    busy, stream = os.getloadavg()[0], Stream(share)
    records = variants_zoo.load()
    with tempfile.TemporaryDirectory() as repository:
        records = build(repository, records)
        rows = serve(records, repository, rounds, stream)
    virtual = simulated(records, stream, list(rows), SEEDS if keep else 2)
    found = compare(records, rows, virtual)
    bearable = variants_zoo.bearable_rps(records)
    rss_mb = max(r["rss_mb"] for results in rows.values() for r in results)
    print(f"load 1 is {bearable:.1f} requests/s; the best variants reach {found[0]['best']:.3f} "
          f"without a deadline; the server took {rss_mb:.0f} MB at most")
    what = ("utility", "accuracy", "late", "unanswered", "p50_ms", "lag_ms")
    print(plot.table(["SLO, load, method", *what, "least", "most", "simulated", "trusted"], [
        [f"{slo} ms, {load}x, {name}", *(median(s, w) for w in what),
         *(pick(r["utility"] for r in s) for pick in (min, max)), virtual[slo, load, name],
         f"{sum(trusted(s))} of {len(s)}"] for (slo, load, name), s in rows.items()]))
    print(plot.table(["SLO, load", "best", "bound", "sneakpeek", "fermata", "ratio", "±",
                      "simulated", "possible", "sneakpeek / lo-edf", "10 % behind"],
                     [[f"{r['slo_ms']} ms, {r['load']}x", *(r[w] for w in (
                         "best", "bound", "sneakpeek", "fermata", "ratio", "half", "simulated",
                         "possible", "over_local")), "yes" if r["behind"] else "no"]
                      for r in found]))
    document = {"machine": records["machine"], "load_average": busy, "load_1_rps": bearable,
                "slowed": SLOWED,
                "residency": "all", "load_times_count": False, "window_ms": WINDOW_MS,
                "goal": [{w: None if x != x else x for w, x in r.items()} for r in found], "rows": [
                    {"slo_ms": slo, "load": load, "method": name,
                     "simulated": virtual[slo, load, name],
                     "rounds": [{w: x for w, x in r.items() if w != "each"} for r in s]}
                    for (slo, load, name), s in rows.items()]}
    if keep:
        print(plot.save("variants_served", drawings.variants_served(document), document))
    return list(falls_short(found)) + [
        f"served, SLO {slo} ms, {load}x: rounds of {name} are {apart(s):.3f} apart" for (slo, load, name), s in rows.items()
        if apart(s) > AGREE]
