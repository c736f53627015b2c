"""The zoo's three applications, measured: what their variants cost and what each answers.

    records = variants_zoo.load()           # bench/results/variants_records.json
    document = variants_zoo.scenario(records, "sneakpeek", load=3)

`record` times every variant by the processor's clock, asks each about every example of the
stream, and looks for the nearest training examples, exactly.
"""

import concurrent.futures
import json
import os
import resource
import signal
import subprocess

import numpy
import tqdm

import record
import server
import variants_bound
import variants_mixes
import zoo_models

RECORDS, ALL_RECORDS = "variants_records", "variants_all_records"
NAMES = ("handwriting", "exercise", "wake")
VARIANTS = ("small", "large")  # the best last, as zoo/fermata.yaml has them; zoo/README.md says why
ALL_VARIANTS = ("small", "medium", "recurrent", "large")  # that the zoo has, not all of each
LARGEST_BATCH = 16
NEIGHBOURS = 5
WINDOW_REQUESTS, WINDOWS_A_SECOND = 12, 10  # the paper's
THREE_WINDOWS = 3  # of work a window for the best variants alone, slowed: a load
BEHIND = 0.9  # of what the best variants reach without a deadline: then ours is to gain


def data(name, part):
    folder = zoo_models.ZOO / "data" / name
    return numpy.load(folder / f"{part}-features.npy"), numpy.load(folder / f"{part}-labels.npy")


def labelled(name, part):
    """A service's `labelled` or `evidence`, as fermata.yaml has it."""
    folder = zoo_models.ZOO / "data" / name
    return {what: str(folder / f"{part}-{what}.npy") for what in ("features", "labels")}


def nearest_labels(name, features, k):
    """Labels of the nearest training examples, the nearest first: [n, k]."""
    train, labels = data(name, "train")
    squares = (train.astype(numpy.float64) ** 2).sum(1)
    distances = squares - 2 * features.astype(numpy.float64) @ train.T.astype(numpy.float64)
    return labels[numpy.argsort(distances, axis=1, kind="stable")[:, :k]]


def record_all(kinds=VARIANTS, into=RECORDS, names=NAMES, k=NEIGHBOURS):
    """Measures those variants that there are of these kinds."""
    records = {"machine": zoo_models.machine(), "applications": {}}
    for name in names:
        features, labels = data(name, "stream")
        asked, truth = data(name, "calibration")
        classes = int(truth.max()) + 1
        variants, correct = [], []
        for model in (f"{name}-{kind}" for kind in kinds):
            if not zoo_models.file_of(model).exists():
                continue
            right = zoo_models.outputs_of(model, asked, "label")[:, 0] == truth
            variants.append({
                "name": model, "accuracy": float(right.mean()),
                "recall": [float(right[truth == c].mean()) for c in range(classes)],
                "load_ms": zoo_models.load_ms(model), "ms": zoo_models.latencies(model, asked)})
            correct.append(zoo_models.outputs_of(model, features, "label")[:, 0] == labels)
        evidence = variants_mixes.counts(nearest_labels(name, asked, k), classes).argmax(1)
        records["applications"][name] = {
            "variants": variants, "evidence_accuracy": float((evidence == truth).mean()),
            # By example of the stream, as digits: its class, those of its neighbours, whether each
            # variant is right.
            "labels": "".join(map(str, labels)),
            "neighbours": ["".join(map(str, n)) for n in nearest_labels(name, features, k)],
            "correct": ["".join(str(int(c)) for c in row) for row in zip(*correct)]}
    record.write(into, records, indent=None)
    return records


def load(what=RECORDS):
    return record.read(what)


def digits(rows):
    return numpy.array([[int(d) for d in row] for row in rows])


def best(application):
    return application["variants"][-1]


def bearable_rps(records):
    """What the best variants alone bear, at their most efficient batches."""
    each = [min(ms / int(b) for b, ms in best(a)["ms"].items())
            for a in records["applications"].values()]
    return 1000 * len(each) / sum(each)


def slowed(records):
    """By how much, for WINDOW_REQUESTS in a window to be THREE_WINDOWS of work."""
    return THREE_WINDOWS * bearable_rps(records) / (WINDOW_REQUESTS * WINDOWS_A_SECOND)


def best_accuracy(records):
    """What the best variants reach on the stream without a deadline."""
    return float(numpy.mean([digits(a["correct"])[:, -1].mean()
                             for a in records["applications"].values()]))


def falls_short(where, ratio, half, published, best, most):
    """What is asked of our default beside the published policy: never below 0.99 of its utility,
    1.1 times it where that is 10 % or more below what the best variants reach without a deadline.
    Half the width of the ratio's interval is granted. Says besides where no policy can."""
    least = 1.1 if published <= BEHIND * best else 0.99
    if ratio + half < least:
        possible = most / published
        yield (f"{where}: fermata over sneakpeek is {ratio:.3f}, not {least}"
               + (f"; no policy exceeds {possible:.3f}" if possible < least else ""))


def bound(records, load, slo_ms, slowed=1):
    """What no policy can exceed at this load (variants_bound)."""
    return variants_bound.bound(
        [(digits(a["neighbours"]), digits(a["correct"]), digits(a["labels"])[:, 0],
          [{int(b): slowed * ms for b, ms in v["ms"].items()} for v in a["variants"]])
         for a in records["applications"].values()],
        load * bearable_rps(records) / slowed, slo_ms)


def made_up(truth, classes, k, accuracy, seed=1):
    """Neighbours, each of the true class with this probability, else of any other."""
    random = numpy.random.default_rng(seed)
    other = (truth[:, None] + random.integers(1, classes, (len(truth), k))) % classes
    return numpy.where(random.random((len(truth), k)) < accuracy, truth[:, None], other)


def latency(variant, slowed, types):
    """Slowed, and besides by worker type."""
    def table(factor):
        return {"table": {b: slowed * factor * ms for b, ms in variant["ms"].items()}}
    return {kind: table(factor) for kind, factor in types.items()} if types else table(1)


def simulated_variants(a, slowed, types):
    """Each takes one unit of memory."""
    return [{"name": v["name"], "max_batch": LARGEST_BATCH, "accuracy": v["accuracy"],
             "recall": v["recall"], "load_ms": slowed * v["load_ms"], "memory_mb": 1,
             "latency_ms": latency(v, slowed, types)} for v in a["variants"]]


def simulated_application(name, a, variants, slo_ms, penalty, aware, short_circuit, accuracy):
    truth = digits(a["labels"])[:, 0]
    classes = len(best(a)["recall"])
    neighbours, correct = digits(a["neighbours"]), digits(a["correct"]).astype(bool)
    if accuracy is not None:
        neighbours = made_up(truth, classes, NEIGHBOURS, accuracy)
    evidence = variants_mixes.counts(neighbours, classes)
    right = evidence.argmax(1) == truth
    made = {"name": name, "slo_ms": slo_ms, "penalty": penalty, "variants": variants,
            "examples": [{"label": int(t), "correct": c.tolist(), "short_circuit": bool(r)}
                         for t, c, r in zip(truth, correct, right)]}
    if aware:
        made["prior"] = [variants_mixes.JEFFREYS] * classes
        for example, e in zip(made["examples"], evidence):
            example["evidence"] = e.tolist()
    if short_circuit:
        made["short_circuit"] = {
            "accuracy": a["evidence_accuracy"] if accuracy is None else float(right.mean())}
    return made


def scenario(records, policy, load, slowed=1, seed=1, warmup=2, seconds=10, slo_ms=150,
             penalty="sigmoid", workers=1, types=None, resident=None, aware=True,
             short_circuit=True, accuracy=None, copies=1):
    """For fermata simulate; `load` in what the best variants alone bear on one worker, all of them,
    and their loading, slowed by the same factor.

    slo_ms: a number, or mean and standard deviation. types: by type of worker, of which there are
    `workers` each, a factor by which it is slower. resident: how many variants a worker holds;
    None: all, from the beginning. accuracy: of made-up evidence instead of the measured. copies:
    so many applications of each, that share its variants, all of them resident."""
    memory = {"count": workers, "memory_mb": resident or 0}
    document = {"seed": seed, "warmup_s": warmup, "duration_s": seconds, "scheduler": policy,
                "window_ms": 100, "rate_rps": load * bearable_rps(records) / slowed,
                "workers": [{"type": t, **memory} for t in types] if types else memory,
                "applications": []}
    if copies > 1:  # for those who share them; nobody asks for one by its own name
        document["models"] = [
            {"name": v["name"], "slo_ms": 1000, "share": 1e-6, "arrival": "uniform",
             "max_batch": LARGEST_BATCH,
             "latency_ms": latency(v, slowed, types)}
            for a in records["applications"].values() for v in a["variants"]]
    slo = slo_ms if numpy.isscalar(slo_ms) else {"normal": list(slo_ms)}
    for name, a in records["applications"].items():
        variants = simulated_variants(a, slowed, types)
        if copies > 1:
            variants = [{"model": v["name"], "accuracy": v["accuracy"], "recall": v["recall"]}
                        for v in variants]
        document["applications"] += [
            simulated_application(f"{name}-{i}", a, variants, slo, penalty, aware, short_circuit,
                                  accuracy) for i in range(copies)]
    return document


class Exhausted(Exception):
    """A run took more than it may: processor time or memory."""


def simulate(document, cpu_s=None, memory_bytes=None):
    """Utility over what was offered, accuracy over what was answered, shares of the offered."""
    process = subprocess.Popen([server.BINARY, "simulate", "-"], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if cpu_s is not None:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    if memory_bytes is not None:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    out, error = process.communicate(json.dumps(document))
    if process.returncode == -signal.SIGXCPU:
        raise Exhausted("processor time")
    if "bad_alloc" in error:
        raise Exhausted("memory")
    if process.returncode != 0:
        raise RuntimeError(error)
    rows = json.loads(out)["applications"]
    offered = sum(row["offered"] for row in rows)
    answered = max(1, offered - sum(row["dropped"] for row in rows))
    return {"utility": sum(row["utility"] * row["offered"] for row in rows) / offered,
            "p50_ms": max(row["p50_ms"] for row in rows),
            "accuracy": sum(row["accuracy"] * (row["offered"] - row["dropped"])
                            for row in rows) / answered,
            **{what: sum(row[what] for row in rows) / offered
               for what in ("late", "dropped", "short_circuited")}}


def simulate_all(documents, what=""):
    """Results in the order of the documents, by as many processes as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(tqdm.tqdm(pool.map(simulate, documents), what, len(documents), leave=False,
                              disable=None))
