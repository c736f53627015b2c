"""What looking at the data is worth where variants differ by class: the zoo's `menu`, whose three
cheap variants are one network, trained on the usual words, on numbers and on both.

Labels come as the variants were profiled, mostly the usual two, or now so and now so. Without
evidence a policy believes the accuracies of the profile, or, which is the most that can be known
of a stream without a look at each request, those of the labels that come on average. With it the
prior is either uninformative, as published, or that average.
"""

import itertools
import json
import statistics

import numpy

import drawings
import plot
import variants_figures
import variants_mixes
import variants_zoo

NAME, RECORDS, K = "menu", "variants_specialists_records", 5
KINDS = ("usual", "numbers", "small", "recurrent", "large")
POLICIES = ("fermata", "sneakpeek", "grouped")
LOADS = (1, 2, 4, 8, 16)
SECONDS, WARMUP_S, SLO_MS = 12, 2, 150
BOUND_EXAMPLES = 4000
STREAMS, WAYS = variants_mixes.STREAMS, variants_mixes.WAYS
STEPS = {"evidence": "profile", "average and evidence": "average",
         "average and evidence, short circuits": "average and evidence"}
COSTS = 0.002  # more is a claim that does not hold


def scenario(records, policy, stream, way, load, seed):
    _, aware, short = WAYS[way]
    return variants_mixes.streamed(variants_zoo.scenario(
        records, policy, load, slowed=variants_zoo.slowed(records), seed=seed, warmup=WARMUP_S,
        seconds=SECONDS, slo_ms=SLO_MS, aware=aware, short_circuit=short),
        stream, way, WARMUP_S + SECONDS)


def arrays(application):
    return (numpy.array([v["recall"] for v in application["variants"]]),
            variants_zoo.digits(application["neighbours"]), variants_zoo.digits(application["correct"]),
            variants_zoo.digits(application["labels"])[:, 0])


def agreement(application):
    recall, neighbours, correct, _ = arrays(application)
    return variants_mixes.agreement([v["name"] for v in application["variants"]], recall, neighbours, correct)


def bound(records, stream, load):
    """The mean over the mixes of the stream."""
    a = records["applications"][NAME]
    truth = arrays(a)[3]

    def of(mix):
        rows = variants_mixes.drawn(truth, mix, BOUND_EXAMPLES)
        drawn = {what: [a[what][r] for r in rows] for what in ("labels", "neighbours", "correct")}
        return variants_zoo.bound(records | {"applications": {NAME: a | drawn}}, load, SLO_MS,
                                  variants_zoo.slowed(records))

    return statistics.mean(map(of, STREAMS[stream]))


def rows_of(records, seeds):
    keys = list(itertools.product(STREAMS, LOADS, POLICIES, WAYS))
    runs = iter(variants_zoo.simulate_all(
        [scenario(records, policy, stream, way, load, seed)
         for stream, load, policy, way in keys for seed in range(1, seeds + 1)], "specialists"))
    found = {key: [next(runs) for _ in range(seeds)] for key in keys}
    most = {key: bound(records, *key) for key in itertools.product(STREAMS, LOADS)}
    for stream, load, policy in itertools.product(STREAMS, LOADS, POLICIES):
        own = {way: found[stream, load, policy, way] for way in WAYS}
        yield {"stream": stream, "load": load, "policy": policy, "bound": most[stream, load],
               **{way: {what: statistics.mean(run[what] for run in some)
                        for what in ("utility", "accuracy", "late", "dropped")}
                  for way, some in own.items()},
               "added": {f"{way} over {before}": variants_figures.added(
                   *([run["utility"] for run in own[w]] for w in (way, before)))
                   for way, before in STEPS.items()}}


def interval(pair):
    return "{:+.3f} to {:+.3f}".format(*pair)


def measure(recorded, seeds):
    """What does not hold."""
    if not recorded:
        variants_zoo.record_all(KINDS, RECORDS, (NAME,), K)
    records = variants_zoo.load(RECORDS)
    pairs = agreement(records["applications"][NAME])
    print("what evidence says of the difference of two variants and what it is correlate by "
          + json.dumps({pair: round(value, 2) for pair, value in pairs.items()}, indent=1))
    rows = list(rows_of(records, seeds))
    steps = list(rows[0]["added"])
    print(plot.table(["labels, load, policy", *WAYS, "no policy exceeds", *steps],
                     [[f"{r['stream']}, {r['load']}x, {r['policy']}", *(r[w]["utility"] for w in WAYS),
                       r["bound"], *(interval(r["added"][s]) for s in steps)] for r in rows]))
    document = {"seeds": seeds, "machine": records["machine"], "correlations": pairs, "rows": rows}
    print(plot.save("variants_specialists", drawings.DRAWN["variants_specialists"](document), document))
    for r in rows:
        for step, added in r["added"].items():
            if r["policy"] == "fermata" and added[1] < -COSTS:
                yield f"labels {r['stream']}, {r['load']}x, {step}: costs fermata {interval(added)}"
