"""What the benchmark of variants computes by itself: its bound, models at a pace that is not theirs, mixes of labels
and what evidence believes."""

import json
import subprocess
import sys
import types

import numpy as np
import pytest
import tritonclient.grpc

from conftest import FERMATA, ROOT, ZOO, Server
from tensors import infer

sys.path.insert(0, str(ROOT / "bench"))
import paced  # noqa: E402
import variants_bound  # noqa: E402
import variants_mixes  # noqa: E402

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, executor: {executor}}}
"""
NEVER_LATE_MS = 1e6


def application(correct, evidence_right, latencies_ms):
    """Requests of one class whose neighbours are all alike: one kind."""
    n = len(correct)
    said = np.repeat(np.where(evidence_right, 0, 1)[:, None], 5, axis=1)
    return said, np.array(correct), np.zeros(n, int), [{1: ms} for ms in latencies_ms]


def test_with_time_to_spare_the_bound_is_the_best_variant():
    a = application([[0, 1]] * 9 + [[1, 0]], np.zeros(10, bool), (1, 10))
    assert variants_bound.bound([a], 1, NEVER_LATE_MS) == pytest.approx(0.9)


def test_without_time_the_evidence_answers_or_nobody():
    a = application([[1, 1]] * 10, np.arange(10) < 7, (1, 10))
    assert variants_bound.bound([a], 1e9, NEVER_LATE_MS) == pytest.approx(0.7, abs=1e-4)
    assert variants_bound.bound([a], 1e9, NEVER_LATE_MS, short_circuit=False) == pytest.approx(
        0, abs=1e-4)


def test_time_is_shared_between_the_variants():
    # 0.5 by the one of 1 ms, 1 by the one of 9 ms, 5 ms each: half of the requests by either.
    a = application([[1, 1], [0, 1]], np.zeros(2, bool), (1, 9))
    assert variants_bound.bound([a], 200, NEVER_LATE_MS) == pytest.approx(0.75)
    assert variants_bound.bound([a], 400, NEVER_LATE_MS, workers=2) == pytest.approx(0.75)


def test_time_goes_first_to_those_who_gain_most():
    small = application([[1, 1]] * 2, np.zeros(2, bool), (1, 9))  # of an application that gains none
    large = application([[1, 1], [0, 1]], np.zeros(2, bool), (1, 9))
    assert variants_bound.bound([small, large], 200, NEVER_LATE_MS) == pytest.approx(1)


def test_large_batches_save_time_and_cost_lateness():
    said, correct, truth, _ = application([[1]] * 4, np.zeros(4, bool), (1,))
    a = (said, correct, truth, [{1: 10, 4: 16}])
    assert variants_bound.bound([a], 250, NEVER_LATE_MS) == pytest.approx(1)
    # Best are batches of 3: 14 ms, so 6 of 7 requests run, 0.4 of the SLO late.
    assert variants_bound.bound([a], 250, 10) == pytest.approx(
        6 / 7 * (1 - 0.4**3 / (0.4**3 + 0.6**3)))
    assert variants_bound.bound([a], 250, 1) == pytest.approx(0)


def test_half_of_the_slo_late_is_worth_half():
    assert variants_bound.sigmoid_penalty(np.array([-1, 0, 0.5, 1, 9])).tolist() == [
        0, 0, 0.5, 1, 1]


def scenario(policy, rate, seed):
    """Two classes, a cheap variant that knows one of them, and the evidence of five neighbours."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, 300)
    said = np.where(random.random((300, 5)) < 0.7, truth[:, None], 1 - truth[:, None])
    correct = np.stack([random.random(300) < np.where(truth == 0, 0.95, 0.5),
                        random.random(300) < 0.95], axis=1)
    latencies = [{1: 1, 8: 4}, {1: 10, 8: 50}]
    evidence = np.stack([(said == c).sum(1) for c in (0, 1)], axis=1)
    examples = [{"label": int(t), "evidence": e.tolist(), "correct": c.tolist(),
                 "short_circuit": bool(e.argmax() == t)}
                for t, e, c in zip(truth, evidence, correct)]
    document = {
        "seed": seed, "duration_s": 10, "scheduler": policy, "window_ms": 20, "rate_rps": rate,
        "workers": {"count": 1}, "applications": [{
            "name": "a", "slo_ms": 60, "penalty": "sigmoid", "prior": [0.5, 0.5],
            "variants": [{"name": name, "latency_ms": {"table": ms}, "max_batch": 8,
                          "accuracy": float(correct[:, v].mean()),
                          "recall": [float(correct[truth == c, v].mean()) for c in (0, 1)]}
                         for v, (name, ms) in enumerate(zip("xy", latencies))],
            "short_circuit": {"accuracy": 0.8}, "examples": examples}]}
    return document, (said, correct, truth, latencies)


@pytest.mark.parametrize("policy", ["fermata", "sneakpeek", "grouped", "lo-edf"])
@pytest.mark.parametrize("rate", [50, 150, 400])
def test_no_policy_exceeds_the_bound(policy, rate):
    document, a = scenario(policy, rate, seed=1)
    done = subprocess.run([FERMATA, "simulate", "-"], input=json.dumps(document), text=True,
                          capture_output=True, check=True)
    utility = json.loads(done.stdout)["applications"][0]["utility"]
    chance = 3 * (0.25 / (10 * rate)) ** 0.5
    assert utility <= variants_bound.bound([a], rate, 60) + chance


def answered(folder, executor, models, name, features):
    """What a server says, and for how long its worker was busy, in ns."""
    folder.mkdir()
    served = Server(folder, models, CONFIG.replace("{executor}", executor))
    with tritonclient.grpc.InferenceServerClient(served.grpc) as client:
        triton = types.SimpleNamespace(module=tritonclient.grpc, client=client)
        answers = infer(triton, name, {"features": features})
        model, = client.get_inference_statistics(name, as_json=True)["model_stats"]
    assert served.stop() == 0
    return answers, int(model["inference_stats"]["compute_infer"]["ns"])


@pytest.mark.parametrize("name", ["handwriting-small", "wake-large"])
def test_models_at_another_pace_answer_the_same(tmp_path, name):
    models = tmp_path / "models"
    paced.add(models, name, {1: 20, 8: 40}, accuracy=0.5)
    features = np.load(ZOO / "data" / name.partition("-")[0] / "stream-features.npy")[:16]
    real, _ = answered(tmp_path / "real", "onnxruntime", models, name, features)
    paced_ones, busy_ns = answered(tmp_path / "paced", "paced", models, name, features)
    for output in ("label", "probabilities"):
        assert np.array_equal(real[output], paced_ones[output])
    assert busy_ns >= 40e6  # batches of eight


KNOW_USUAL = [1.0 if label in (1, 2) else 0.0 for label in range(10)]
RECALL = [KNOW_USUAL, [1 - known for known in KNOW_USUAL], [1.0] * 10]  # two specialists and one who knows all


def neighbours_of(truth, right, count=9):
    random = np.random.default_rng(1)
    return np.where(random.random((len(truth), count)) < right, truth[:, None],
                    random.integers(0, 10, (len(truth), count)))


@pytest.mark.parametrize("right, low, high", [(1, 0.99, 1), (0.7, 0.5, 1), (0, -0.2, 0.2)])
def test_evidence_agrees_with_the_truth_as_far_as_it_knows_the_label(right, low, high):
    truth = np.random.default_rng(2).integers(0, 10, 400)
    found = variants_mixes.agreement("abc", RECALL, neighbours_of(truth, right), np.array(RECALL).T[truth])
    assert set(found) == {"b over a", "c over a", "c over b"}
    assert low <= found["b over a"] <= high


def test_examples_come_as_often_as_their_labels():
    truth = np.random.default_rng(2).integers(0, 10, 400)
    rows = variants_mixes.drawn(truth, variants_mixes.USUAL, 4000)
    assert np.mean(np.isin(truth[rows], (1, 2))) == pytest.approx(0.9, abs=0.03)


def in_turns(policy, way):
    """Two cheap specialists, a slow variant that knows all, and labels that come in turns."""
    truth = np.random.default_rng(2).integers(0, 10, 400)
    evidence = variants_mixes.counts(neighbours_of(truth, 0.8), 10)
    document = {
        "seed": 1, "duration_s": 10, "scheduler": policy, "window_ms": 20, "rate_rps": 200,
        "workers": {"count": 1}, "applications": [{
            "name": "a", "slo_ms": 60, "penalty": "sigmoid", "prior": [variants_mixes.JEFFREYS] * 10,
            "variants": [{"name": name, "latency_ms": {"alpha": ms, "beta": 0}, "max_batch": 8,
                          "accuracy": float(np.mean(recall)), "recall": recall}
                         for name, ms, recall in zip("xyz", (1, 1, 20), RECALL)],
            "examples": [{"label": int(t), "evidence": e.tolist(), "correct": [r[t] > 0 for r in RECALL]}
                         for t, e in zip(truth, evidence)]}]}
    return variants_mixes.streamed(document, "in turns", way, 10)


@pytest.mark.parametrize("policy", ["fermata", "sneakpeek", "grouped"])
def test_who_looks_at_the_data_sends_each_to_who_knows_it(policy):
    def utility(way):
        done = subprocess.run([FERMATA, "simulate", "-"], input=json.dumps(in_turns(policy, way)),
                              text=True, capture_output=True, check=True)
        return json.loads(done.stdout)["applications"][0]["utility"]

    without = max(utility("profile"), utility("average"))
    assert utility("evidence") > without + 0.1
    assert utility("average and evidence") > without + 0.1
