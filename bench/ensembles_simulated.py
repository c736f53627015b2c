"""Ensembles of the zoo in virtual time: scenarios for `fermata simulate`, and what it says of them.

    row = ensembles_simulated.run(ensembles_simulated.scenario(records, name, "fermata", ...))

Times are those of the records, all stretched alike (about thirty times) so that the slowest base
model takes SLOWEST_MS, as in the paper; deadlines and rates go with that.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import subprocess
import tempfile

import numpy

import ensembles_records
import server

SLOWEST_MS = 60
TRACE = pathlib.Path(os.environ.get(
    "FERMATA_TRACE", server.ROOT.parent / "shared/data/ipa/workloads/bursty.csv"))
COMPRESSED = 4  # seconds of the trace in one of the run
BURST = 0.5  # of the trace's peak
POISSON_S, WARMUP_S = 60, 5
TOGETHER = 2  # runs at a time

# By the name in tables: scheduler, and what it knows of a query's difficulty.
METHODS = {
    "original": ("original", None), "static": ("static", None), "dynamic": ("selected", "dynamic"),
    "gating": ("selected", "gating"), "schemble(ea)": ("schemble", "agreement"),
    "schemble(t)": ("schemble", None), "schemble": ("schemble", "difficulty"),
    "greedy-edf": ("greedy-edf", "difficulty"), "greedy-fifo": ("greedy-fifo", "difficulty"),
    "greedy-sjf": ("greedy-sjf", "difficulty"), "fermata": ("fermata", "difficulty"),
    "schemble, true scores": ("schemble", "true"), "fermata, true scores": ("fermata", "true"),
    "fermata(t)": ("fermata", None),
}


@functools.cache
def trace():
    """Requests of each second, a burst in the middle; none where the file is not there."""
    if not TRACE.exists():
        return None
    rates = numpy.loadtxt(TRACE, delimiter=",", skiprows=1)[:, -1]
    return rates.reshape(-1, COMPRESSED).mean(1)


def burst():
    """The seconds from and to which the trace is at more than half of its peak."""
    smooth = numpy.convolve(trace(), numpy.ones(5) / 5, "same")
    high = numpy.flatnonzero(smooth > BURST * smooth.max())
    return int(high[0]), int(high[-1]) + 1


def stretch(row):
    return SLOWEST_MS / slowest_ms(row)


def slowest_ms(row):
    return max(model["ms"]["1"] for model in row["models"])


def bearable_rps():
    """What the original pipeline bears: every query goes through the slowest model."""
    return 1000 / SLOWEST_MS


def subset_name(row, subset):
    return "+".join(m["name"] for i, m in enumerate(row["models"]) if subset >> i & 1)


def measured_by(about, knows):
    return about["measures"]["agreement" if knows == "agreement" else "discrepancy"]


def bins_of(about, knows, scores):
    return numpy.searchsorted(measured_by(about, knows)["edges"], scores, side="right").tolist()


def examples(name, row, knows, which):
    about = ensembles_records.profile(name)
    scores = row[knows if knows in ("agreement", "true", "difficulty") else "true"]
    chosen = row[knows] if knows in ("dynamic", "gating") else None
    bins = bins_of(about, knows, scores)
    made = []
    for i in range(len(scores)) if which is None else which:
        example = {"bin": bins[i], "score": scores[i],
                   "correct": [c == "1" for c in row["correct"][i]]}
        if chosen:
            example["selected"] = subset_name(row, chosen[i]).split("+")
        made.append(example)
    return made


def delay_ms(row, knows):
    """Of the network that looks at a query; dynamic selection's lookup is taken for as quick."""
    networks = row["networks_ms"]
    return networks.get(knows, networks.get("difficulty", 0))


def scenario(records, name, method, slo_ms, load=None, seed=1, scale=None, fixed=None,
             serve_all=False, window=None, which=None, seconds=POISSON_S):
    """`load`: of what the original bears, Poisson; none: the trace, whose burst is to be at
    `scale` of it, of which the seconds of `window` count. `which` of the examples come."""
    row = records[name]
    about = ensembles_records.profile(name)
    scheduler, knows = METHODS[method]
    by = stretch(row)
    measure = measured_by(about, knows)
    queries = sum(b["queries"] for b in measure["bins"])
    ensemble = {
        "name": name, "slo_ms": slo_ms, "mode": "serve-all" if serve_all else "reject",
        "models": [{"name": m["name"], "max_batch": max(map(int, m["ms"])), "latency_ms": {
            "table": {b: by * ms for b, ms in m["ms"].items()}}} for m in row["models"]],
        "profile": [{"share": b["queries"] / queries, "utility": b["utility"]}
                    for b in measure["bins"]],
        "examples": examples(name, row, knows, which)}
    if knows:
        ensemble["score_delay_ms"] = by * delay_ms(row, knows)
    if fixed:
        ensemble["static"] = subset_name(row, fixed).split("+")
    document = {"seed": seed, "scheduler": scheduler, "workers": {"count": len(row["models"])},
                "ensembles": [ensemble]}
    if load is not None:
        return {**document, "warmup_s": WARMUP_S, "duration_s": seconds,
                "rate_rps": load * bearable_rps()}
    counts = trace()
    start, end = window or (0, len(counts))
    first, last = burst()
    return {**document, "warmup_s": start, "duration_s": end - start,
            "rate_rps": scale * bearable_rps() * counts.mean() / counts[first:last].mean(),
            "trace": counts.tolist()}


def run(document):
    document = dict(document)
    counts = document.pop("trace", None)
    with tempfile.TemporaryDirectory() as folder:
        if counts is not None:
            file = pathlib.Path(folder) / "trace"
            file.write_text("".join(f"{count}\n" for count in counts))
            document["ensembles"] = [{**document["ensembles"][0], "arrival": {
                "process": "trace", "file": str(file)}}]
        done = subprocess.run([server.BINARY, "simulate", "-"], input=json.dumps(document),
                              text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["ensembles"][0]


def run_all(documents):
    """In the order of the documents."""
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as threads:
        return list(threads.map(run, documents))
