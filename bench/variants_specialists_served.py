"""The zoo's `menu` on the real server, with a look at the data and without, while labels come in turns.

Variants are TIMES times as slow (variants_served says why). Policies and ways take turns with the
same requests, each on a server of its own."""

import json
import pathlib
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

TIMES, LOADS, SLO_MS = 147, (4,), 150  # as slow as in virtual time
POLICIES, STREAM = ("fermata", "sneakpeek"), "in turns"
WAYS = ("profile", "average", "evidence", "average and evidence")
TURNS, LEAD_S = 2, 1  # of the labels, and how long queues fill before what counts


def requests(seed, rate, seconds):
    """What to send, when it counts, and the right answers: every round asks about the same examples in each turn of
    the labels, in an order and at moments of its own."""
    fixed, random = numpy.random.default_rng(0), numpy.random.default_rng(seed)
    features, labels = variants_zoo.data(variants_specialists.NAME, "stream")
    bodies = [open_loop.body(variants_specialists.NAME, row) for row in features]
    mixes, length, asked = variants_mixes.STREAMS[STREAM], seconds / TURNS, []
    for turn in range(TURNS):
        weights = numpy.array(mixes[turn % len(mixes)])[labels] / numpy.bincount(labels)[labels]
        rows = random.permutation(fixed.choice(len(labels), int(rate * length), p=weights / weights.sum()))
        asked += [(float(t), r) for t, r in zip(length * (turn + numpy.sort(random.random(len(rows)))), rows)]
    due, rows = map(numpy.array, zip(*asked))
    return [(t, bodies[r]) for t, r in zip(due.tolist(), rows)], due >= LEAD_S, labels[rows]


def judge(answers, counts, truth):
    """Of each request that counts, what it earned."""
    return [0.0 if outcome != "answered" else
              (read[0] == right) * (1 - float(variants_bound.sigmoid_penalty(1000 * seconds / SLO_MS - 1)))
              for (outcome, seconds, read), right, counted in zip(answers, truth, counts) if counted]


def profile(repository, records, average):
    """What the server believes of accuracies: those of the labels' average, where that is given."""
    for v in records["applications"][variants_specialists.NAME]["variants"]:
        path = pathlib.Path(repository) / v["name"] / "profile.json"
        known = v["accuracy"] if average is None else min(1.0, float(average @ numpy.array(v["recall"])))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"accuracy": known}))


def added(rows, policy, way, before):
    """The mean difference over the requests, which are the same, and half of its 95 % interval."""
    own, other = (numpy.concatenate([r["each"] for r in rows if (r["policy"], r["way"]) == (policy, w)])
                  for w in (way, before))
    return float((own - other).mean()), float(1.96 * (own - other).std() / len(own)**0.5)


def rounds_of(records, repository, rounds, seconds):
    bearable = variants_zoo.bearable_rps(records)
    turns = [(load, seed, policy, way) for load in LOADS for seed in range(1, rounds + 1)
             for policy in POLICIES for way in WAYS]
    for load, seed, policy, way in tqdm.tqdm(turns, "serving", disable=None):
        asked, counts, truth = requests(seed, load * bearable, seconds)
        known, aware, short = variants_mixes.WAYS[way]
        average = numpy.mean(variants_mixes.STREAMS[STREAM], axis=0)
        profile(repository, records, average if known else None)
        config = variants_served.configuration(
            records, repository, SLO_MS, policy, k=variants_specialists.K, data_aware=aware,
            short_circuit=short, prior=average.tolist() if known else "uninformative")
        with variants_served.server.Server(config) as running:
            answers, lags_ms = open_loop.drive(running.grpc, asked)
        each = judge(answers, counts, truth)
        yield {"load": load, "round": seed, "policy": policy, "way": way, "each": each,
               "utility": statistics.mean(each), "lag_ms": float(numpy.quantile(lags_ms, 0.99))}


def measure(rounds, seconds, keep):
    records = variants_zoo.load(variants_specialists.RECORDS)
    with tempfile.TemporaryDirectory() as repository:
        records = variants_served.build(repository, records, TIMES)
        rows = list(rounds_of(records, repository, rounds, seconds))
    print(plot.table(["load, round, policy", *WAYS, "sent late at most, ms"], [
        [f"{own[0]['load']}x, {own[0]['round']}, {own[0]['policy']}", *(r["utility"] for r in own),
         max(r["lag_ms"] for r in own)]
        for own in (rows[i:i + len(WAYS)] for i in range(0, len(rows), len(WAYS)))]))
    gains = {f"{policy}: {way} over {before}": added(rows, policy, way, before) for policy in POLICIES
             for way, before in variants_specialists.STEPS.items() if way in WAYS}
    for what, (mean, half) in gains.items():
        print(f"{what}: {mean:+.3f} ± {half:.3f}")
    utilities = {(policy, way): [r["utility"] for r in rows if (r["policy"], r["way"]) == (policy, way)]
                 for policy in POLICIES for way in WAYS}
    if keep:
        record.write("variants_specialists_served", {
            "machine": records["machine"], "load_1_rps": variants_zoo.bearable_rps(records),
            "seconds": seconds, "stream": STREAM, "slo_ms": SLO_MS, "added": gains,
            "rows": [{w: x for w, x in r.items() if w != "each"} for r in rows]})
    return [f"{policy}, {way}: rounds are {max(own) - min(own):.3f} apart" for (policy, way), own in utilities.items()
            if max(own) - min(own) > variants_served.AGREE]
