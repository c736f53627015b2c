"""The zoo's `menu` on the real server, with a look at the data and without, while labels come in turns.

Variants really run TIMES times over (variants_served says why). Policies and ways take turns with the
same requests, each on a server of its own."""

import statistics
import tempfile

import numpy
import tqdm

import open_loop
import plot
import record
import variants_bound
import variants_mixes
import variants_served
import variants_specialists
import variants_zoo

TIMES, LOADS, SLO_MS, WAY_MS = 60, (4,), 150, 5
POLICIES, STREAM = ("fermata", "sneakpeek"), "in turns"
WAYS = ("profile", "evidence", "average and evidence")
TURNS, LEAD_S = 2, 1  # of the labels, and how long queues fill before what counts


def requests(seed, rate, seconds):
    """What to send, when it counts, and the right answers."""
    random = numpy.random.default_rng(seed)
    features, labels = variants_zoo.data(variants_specialists.NAME, "stream")
    bodies = [open_loop.body(variants_specialists.NAME, row) for row in features]
    due = numpy.sort(random.random(random.poisson(rate * seconds))) * seconds
    mixes = variants_mixes.STREAMS[STREAM]
    weights = [numpy.array(mix)[labels] / numpy.bincount(labels)[labels] for mix in mixes]
    turn = (due * TURNS / seconds).astype(int) % len(mixes)
    rows = [random.choice(len(labels), p=weights[t] / weights[t].sum()) for t in turn]
    return [(float(t), bodies[r]) for t, r in zip(due, rows)], due >= LEAD_S, labels[rows]


def judge(answers, counts, truth):
    earned = [0.0 if outcome != "answered" else
              (read[0] == right) * (1 - float(variants_bound.sigmoid_penalty(1000 * seconds / SLO_MS - 1)))
              for (outcome, seconds, read), right, counted in zip(answers, truth, counts) if counted]
    return statistics.mean(earned)


def rounds_of(records, repository, rounds, seconds):
    bearable = variants_zoo.bearable_rps(records)
    turns = [(load, seed, policy, way) for load in LOADS for seed in range(1, rounds + 1)
             for policy in POLICIES for way in WAYS]
    for load, seed, policy, way in tqdm.tqdm(turns, "serving", disable=None):
        asked, counts, truth = requests(seed, load * bearable, seconds)
        known, aware, short = variants_mixes.WAYS[way]
        average = numpy.mean(variants_mixes.STREAMS[STREAM], axis=0)
        config = variants_served.configuration(
            records, repository, SLO_MS - WAY_MS, policy, k=variants_specialists.K, data_aware=aware,
            short_circuit=short, prior=average.tolist() if known else "uninformative")
        with variants_served.server.Server(config) as running:
            answers, lags_ms = open_loop.drive(running.grpc, asked)
        yield {"load": load, "round": seed, "policy": policy, "way": way,
               "utility": judge(answers, counts, truth), "lag_ms": float(numpy.quantile(lags_ms, 0.99))}


def measure(rounds, seconds, keep):
    records = variants_zoo.load(variants_specialists.RECORDS)
    with tempfile.TemporaryDirectory() as repository:
        records = variants_served.build(repository, records, TIMES)
        rows = list(rounds_of(records, repository, rounds, seconds))
    print(plot.table(["load, round, policy", *WAYS, "sent late at most, ms"], [
        [f"{own[0]['load']}x, {own[0]['round']}, {own[0]['policy']}", *(r["utility"] for r in own),
         max(r["lag_ms"] for r in own)]
        for own in (rows[i:i + len(WAYS)] for i in range(0, len(rows), len(WAYS)))]))
    if keep:
        record.write("variants_specialists_served", {
            "machine": records["machine"], "load_1_rps": variants_zoo.bearable_rps(records),
            "seconds": seconds, "stream": STREAM, "slo_ms": SLO_MS, "rows": rows})
