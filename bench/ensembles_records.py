"""The zoo's ensembles, measured: what their models cost, and what each subset says of each query.

    records = ensembles_records.load()      # bench/results/ensembles_records.json

`record` asks every base model, and every network that looks at queries, about the test data
in ONNX Runtime on one thread, and a server what dynamic selection would run. The ensemble's own
answer counts as the right one.
"""

import json
import os
import pathlib
import tempfile

import numpy

import open_loop
import record
import server
import zoo_models

ZOO = zoo_models.ZOO
RECORDS = "ensembles_records"
ENSEMBLES = {"scans-averaged": "scans", "scans-stacked": "scans", "count-weighted": "count"}
LEAST_PROBABILITY = 1e-8
ASKED_RPS = 100
NETWORKS = {"difficulty": "score", "agreement": "score", "gating": "weights"}  # their outputs


def profile(name):
    return json.loads((ZOO / "data" / name / "profile.json").read_text())


def data(name, part):
    return numpy.load(ZOO / "data" / ENSEMBLES[name] / f"{part}-features.npy")


def history(name, what):
    return numpy.load(ZOO / "data" / name / f"{what}.npy")


def filled(name, models, outputs, subset, k):
    """Stacking's inputs: missing outputs from the nearest of the history (section VII)."""
    there = [m for i, m in enumerate(models) if subset >> i & 1]
    known = {m: history(name, f"outputs-{m}").astype(numpy.float64) for m in models}
    squares = sum(((outputs[m] ** 2).sum(1)[:, None] + (known[m] ** 2).sum(1)
                   - 2 * outputs[m] @ known[m].T) for m in there)
    near = numpy.argsort(squares, axis=1, kind="stable")[:, :k]
    weight = 1 / numpy.sqrt(numpy.maximum(numpy.take_along_axis(squares, near, 1), 1e-12))
    weight /= weight.sum(1, keepdims=True)
    return numpy.concatenate([outputs[m] if m in there else
                              (weight[:, :, None] * known[m][near]).sum(1) for m in models], axis=1)


def answers(name, about, outputs):
    """By subset, [n, width]; the first, of nobody, is None."""
    models, found = about["models"], [None]
    meta = (zoo_models.session(zoo_models.file_of("scans-stacking"))
            if about["aggregation"] == "stacking" else None)
    weights = dict(zip(models, about.get("weights") or [1] * len(models)))
    for subset in range(1, 1 << len(models)):
        there = [m for i, m in enumerate(models) if subset >> i & 1]
        if meta:
            rows = filled(name, models, outputs, subset, about["neighbors"])
            found.append(meta.run(["probabilities"], {"features": rows.astype(numpy.float32)})[0])
        else:
            found.append(sum(weights[m] * outputs[m] for m in there)
                         / sum(weights[m] for m in there))
    return found


def correct(about, found):
    """By query, as digits by subset from 1 on."""
    if about["task"] == "regression":
        right = [numpy.abs(f - found[-1])[:, 0] <= about["tolerance"] for f in found[1:]]
    else:
        right = [f.argmax(1) == found[-1].argmax(1) for f in found[1:]]
    return ["".join(str(int(r)) for r in row) for row in zip(*right)]


def scaled(probabilities, temperature):
    z = numpy.log(numpy.maximum(probabilities, LEAST_PROBABILITY)) / temperature
    e = numpy.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def true_scores(about, outputs, ensemble):
    """Equation 1, with the history's temperatures and norms."""
    sums = 0
    for i, model in enumerate(about["models"]):
        if about["task"] == "regression":
            distance = numpy.linalg.norm(outputs[model] - ensemble, axis=1)
        else:
            p = scaled(outputs[model], about["temperatures"][i])
            q = scaled(ensemble, about["ensemble_temperature"])
            m = (p + q) / 2
            distance = ((p * numpy.log(p / m) + q * numpy.log(q / m)).sum(1) / (2 * numpy.log(2)))
        sums = sums + distance / about["measures"]["discrepancy"]["norms"][i]
    mean = sums / len(about["models"])
    return mean / (1 + mean)


def gated(weights):
    """The models that weigh at least as much as if all weighed the same, and the heaviest."""
    chosen = (weights >= 1 / weights.shape[1]) @ (1 << numpy.arange(weights.shape[1]))
    return (chosen | (1 << weights.argmax(1))).tolist()


def configuration(repository, name, policy, **how):
    """A service for one of the ensembles, in fermata.yaml."""
    about = profile(name)
    service = {"kind": "ensemble", "models": about["models"], "aggregation": about["aggregation"],
               "profile": str(ZOO / "data" / name),
               "output": "value" if about["task"] == "regression" else "probabilities", **how}
    if about.get("weights"):
        service["weights"] = about["weights"]
    if about["aggregation"] == "stacking":
        service["meta"] = "scans-stacking"
    return {"models": str(repository), "log_level": "warning", "scheduler": policy,
            "workers": {"count": len(about["models"]), "threads": 1}, "services": {name: service}}


def link(repository, name, paced=False):
    """Fills a folder with those models of the zoo that the ensemble needs; `paced`: base models come otherwise."""
    models = [*([] if paced else profile(name)["models"]), *(["scans-stacking"] if "stacked" in name else []),
              *(f"{name}-{network}" for network in NETWORKS)]
    for model in models:
        os.symlink(ZOO / "repository" / model, pathlib.Path(repository) / model)


def dynamically_selected(name, features):
    """The subsets that a server's dynamic selection runs."""
    history_of = ZOO / "data" / ENSEMBLES[name] / "history-features.npy"
    models = profile(name)["models"]
    names = {"+".join(m for i, m in enumerate(models) if s >> i & 1): s
             for s in range(1, 1 << len(models))}
    with tempfile.TemporaryDirectory() as repository:
        link(repository, name)
        config = configuration(
            repository, name, "selected", slo_ms=600000, queue_limit=100000,
            selector={"kind": "dynamic-selection", "features": str(history_of)})
        schedule = [(i / ASKED_RPS, open_loop.body(name, row, "probabilities"))
                    for i, row in enumerate(features)]
        with server.Server(config) as running:
            answered, _ = open_loop.drive(running.grpc, schedule, drain_s=120)
    return [names[said[1]] for _, _, said in answered]


def measure(name):
    about, features = profile(name), data(name, "test")
    output = "value" if about["task"] == "regression" else "probabilities"
    outputs = {m: zoo_models.outputs_of(m, features, output) for m in about["models"]}
    found = answers(name, about, outputs)
    row = {"models": [{"name": m, "ms": zoo_models.latencies(m, features)}
                      for m in about["models"]],
           "correct": correct(about, found),
           "true": true_scores(about, outputs, found[-1]).tolist(), "networks_ms": {}}
    for network, score in NETWORKS.items():
        model = f"{name}-{network}"
        said = zoo_models.outputs_of(model, features, score)
        row[network] = gated(said) if network == "gating" else said[:, 0].tolist()
        row["networks_ms"][network] = zoo_models.latencies(model, features, (1,))["1"]
    if about["task"] != "regression":  # which has no classes
        row["dynamic"] = dynamically_selected(name, features)
    return row


def record_all(names=tuple(ENSEMBLES)):
    records, before = load(), record.read(RECORDS).get("drawn")
    for name in names:
        records[name] = measure(name)
        record.write(RECORDS, {n: records[n] for n in ENSEMBLES if n in records}, indent=None, before=before)
    return records


def load():
    return {name: its for name, its in record.read(RECORDS).items() if name in ENSEMBLES}
