"""The zoo's three applications, measured: what their variants cost and what each answers.

    records = applications.load()           # bench/results/variants_records.json
    document = applications.scenario(records, "sneakpeek", load=3)

`record` profiles every variant on this machine, serves all of them, asks each about every
example of the stream, and looks for the nearest training examples, exactly.
"""

import json
import pathlib
import shutil
import subprocess
import urllib.request

import numpy

import plot
import server

ZOO = server.ROOT / "zoo"
RECORDS = plot.RESULTS / "variants_records.json"
NAMES = ("handwriting", "exercise", "wake")
VARIANTS = ("small", "large")  # of each, as zoo/fermata.yaml has them; zoo/README.md says why
LARGEST_BATCH = 16
PROFILES = 3
NEIGHBOURS = 5
JEFFREYS = 0.5  # the uninformative prior, for each class


def data(name, part):
    folder = ZOO / "data" / name
    return numpy.load(folder / f"{part}-features.npy"), numpy.load(folder / f"{part}-labels.npy")


def labelled(name, part):
    """A service's `labelled` or `evidence`, as fermata.yaml has it."""
    folder = ZOO / "data" / name
    return {what: str(folder / f"{part}-{what}.npy") for what in ("features", "labels")}


def nearest_labels(name, features):
    """Labels of the nearest training examples, the nearest first: [n, NEIGHBOURS]."""
    train, labels = data(name, "train")
    squares = (train.astype(numpy.float64) ** 2).sum(1)
    distances = squares - 2 * features.astype(numpy.float64) @ train.T.astype(numpy.float64)
    return labels[numpy.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]]


def counts(neighbours, classes, k):
    return (neighbours[:, :k, None] == numpy.arange(classes)).sum(1)


def profile(folder, files):
    """Of PROFILES the one that took least: what else the machine does only adds."""
    path = folder / "profile.json"
    taken = []
    for _ in range(PROFILES):
        subprocess.run([server.BINARY, "profile", folder, "--runs", "50", "--max-batch",
                        str(LARGEST_BATCH), "--data", files["features"], "--labels",
                        files["labels"], "--output", "label"], check=True, capture_output=True)
        taken.append((json.loads(path.read_text()), path.read_text()))
    least, text = min(taken, key=lambda t: sum(b["p50_ms"] for b in t[0]["batches"].values()))
    path.write_text(text)
    return least


def profiled(folder):
    """Copies the variants to `folder` and writes a profile beside each; returns the profiles."""
    profiles = {name: [] for name in NAMES}
    for name in NAMES:
        for variant in VARIANTS:
            copy = pathlib.Path(folder) / f"{name}-{variant}"
            shutil.copytree(ZOO / "repository" / copy.name, copy)
            profiles[name].append(profile(copy, labelled(name, "calibration")))
        profiles[name].sort(key=lambda p: p["accuracy"])
    return profiles


def ask(running, model, features):
    """The labels that a served model gives, asked in batches."""
    found = []
    for i in range(0, len(features), LARGEST_BATCH):
        part = features[i:i + LARGEST_BATCH]
        body = {"outputs": [{"name": "label"}],
                "inputs": [{"name": "features", "datatype": "FP32", "shape": list(part.shape),
                            "data": part.flatten().tolist()}]}
        with urllib.request.urlopen(f"http://127.0.0.1:{running.http}/v2/models/{model}/infer",
                                    json.dumps(body).encode()) as reply:
            found += json.load(reply)["outputs"][0]["data"]
    return numpy.array(found)


def record(folder):
    """Measures all into RECORDS; `folder` becomes a repository with profiles."""
    profiles = profiled(folder)
    models = [p["model"] for name in NAMES for p in profiles[name]]
    services = {model: {"model": model, "slo_ms": 60000} for model in models}
    records = {"machine": profiles[NAMES[0]][0]["machine"], "applications": {}}
    config = {"models": str(folder), "log_level": "warning", "services": services}
    with server.Server(config) as running:
        for name in NAMES:
            features, labels = data(name, "stream")
            asked, truth = data(name, "calibration")
            neighbours = nearest_labels(name, asked)
            evidence = counts(neighbours, int(truth.max()) + 1, NEIGHBOURS).argmax(1)
            correct = [ask(running, p["model"], features) == labels for p in profiles[name]]
            records["applications"][name] = {
                "variants": [{"name": p["model"], "accuracy": p["accuracy"], "recall": p["recall"],
                              "load_ms": p["load_ms"],
                              "p50_ms": {b: t["p50_ms"] for b, t in p["batches"].items()}}
                             for p in profiles[name]],
                "evidence_accuracy": float((evidence == truth).mean()),
                # By example of the stream, as digits: its class, those of its neighbours,
                # whether each variant is right.
                "labels": "".join(map(str, labels)),
                "neighbours": ["".join(map(str, n)) for n in nearest_labels(name, features)],
                "correct": ["".join(str(int(c)) for c in row) for row in zip(*correct)]}
    RECORDS.write_text(json.dumps(records) + "\n")
    return records


def load():
    return json.loads(RECORDS.read_text())


def digits(rows):
    return numpy.array([[int(d) for d in row] for row in rows])


def best(application):
    return application["variants"][-1]


def bearable_rps(records):
    """What the best variants alone bear, at their most efficient batches."""
    each = [min(ms / int(b) for b, ms in best(a)["p50_ms"].items())
            for a in records["applications"].values()]
    return 1000 * len(each) / sum(each)


def best_accuracy(records):
    """What the best variants reach on the stream without a deadline."""
    return float(numpy.mean([digits(a["correct"])[:, -1].mean()
                             for a in records["applications"].values()]))


def made_up(truth, classes, k, accuracy, seed=1):
    """Neighbours, each of the true class with this probability, else of any other."""
    random = numpy.random.default_rng(seed)
    other = (truth[:, None] + random.integers(1, classes, (len(truth), k))) % classes
    return numpy.where(random.random((len(truth), k)) < accuracy, truth[:, None], other)


def simulated_variants(a, slowed):
    """Each takes one unit of memory. Loading is not slowed: it is no arithmetic."""
    return [{"name": v["name"], "max_batch": LARGEST_BATCH, "accuracy": v["accuracy"],
             "recall": v["recall"], "load_ms": v["load_ms"], "memory_mb": 1,
             "latency_ms": {"table": {b: slowed * ms for b, ms in v["p50_ms"].items()}}}
            for v in a["variants"]]


def simulated_application(name, a, slowed, slo_ms, penalty, aware, short_circuit, accuracy):
    truth = digits(a["labels"])[:, 0]
    classes = len(best(a)["recall"])
    neighbours, correct = digits(a["neighbours"]), digits(a["correct"]).astype(bool)
    if accuracy is not None:
        neighbours = made_up(truth, classes, NEIGHBOURS, accuracy)
    evidence = counts(neighbours, classes, NEIGHBOURS)
    right = evidence.argmax(1) == truth
    made = {"name": name, "slo_ms": slo_ms, "penalty": penalty,
            "variants": simulated_variants(a, slowed),
            "examples": [{"label": int(t), "correct": c.tolist(), "short_circuit": bool(r)}
                         for t, c, r in zip(truth, correct, right)]}
    if aware:
        made["prior"] = [JEFFREYS] * classes
        for example, e in zip(made["examples"], evidence):
            example["evidence"] = e.tolist()
    if short_circuit:
        made["short_circuit"] = {
            "accuracy": a["evidence_accuracy"] if accuracy is None else float(right.mean())}
    return made


def scenario(records, policy, load, slowed=1, seed=1, seconds=10, slo_ms=150, penalty="sigmoid",
             workers=1, resident=None, aware=True, short_circuit=True, accuracy=None):
    """For fermata simulate; `load` in what the best variants alone bear on one worker, all of them
    slowed by the same factor. `resident`: how many variants a worker holds; None: all, from the
    beginning. `accuracy`: of made-up evidence instead of the measured."""
    return {"seed": seed, "warmup_s": 2, "duration_s": seconds, "scheduler": policy,
            "window_ms": 100, "workers": {"count": workers, "memory_mb": resident or 0},
            "rate_rps": load * bearable_rps(records) / slowed,
            "applications": [simulated_application(name, a, slowed, slo_ms, penalty, aware,
                                                   short_circuit, accuracy)
                             for name, a in records["applications"].items()]}


def simulate(document):
    """Utility over what was offered, accuracy over what was answered, shares of the offered."""
    done = subprocess.run([server.BINARY, "simulate", "-"], input=json.dumps(document), text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    rows = json.loads(done.stdout)["applications"]
    offered = sum(row["offered"] for row in rows)
    answered = max(1, offered - sum(row["dropped"] for row in rows))
    return {"utility": sum(row["utility"] * row["offered"] for row in rows) / offered,
            "accuracy": sum(row["accuracy"] * (row["offered"] - row["dropped"])
                            for row in rows) / answered,
            **{what: sum(row[what] for row in rows) / offered
               for what in ("late", "dropped", "short_circuited")}}
