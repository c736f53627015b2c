"""fermata_train: what it says of bad files, and networks that know what they were shown."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT

WITH_TORCH = "/usr/bin/python3"  # Debian's packages: scripts/deps.sh predictors
QUERIES, MODELS = 800, ("a", "b", "c")


def run(*arguments, python=sys.executable):
    return subprocess.run([python, "-m", "fermata_train", *map(str, arguments)], text=True,
                          capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})


@pytest.fixture(scope="module")
def torch():
    if subprocess.run([WITH_TORCH, "-c", "import torch, numpy"], capture_output=True).returncode:
        pytest.skip(f"{WITH_TORCH} has no PyTorch; scripts/deps.sh predictors installs it")


@pytest.fixture
def history(tmp_path):
    """As `fermata difficulty fit` writes it: difficult where the first number is large, and there
    the first model differs from the others."""
    rng = np.random.default_rng(1)
    queries = rng.uniform(-1, 1, (QUERIES, 16)).astype(np.float32)
    hard = queries[:, 0] > 0
    ones = rng.random(QUERIES) < 0.5
    right = np.eye(2, dtype=np.float32)[ones.astype(int)]
    outputs = {"a": np.where(hard[:, None], 1 - right, right), "b": right, "c": right}
    for model, output in outputs.items():
        np.save(tmp_path / f"outputs-{model}.npy", output)
    np.save(tmp_path / "ensemble.npy", right)
    np.save(tmp_path / "scores.npy", np.where(hard, 0.9, 0.1).astype(np.float32))
    np.save(tmp_path / "agreement.npy", np.where(hard, 0.2, 0.4).astype(np.float32))
    np.save(tmp_path / "queries.npy", queries)
    (tmp_path / "profile.json").write_text(
        json.dumps({"models": list(MODELS), "task": "classification"}))
    return tmp_path


def train(command, history, *options, python=WITH_TORCH):
    return run(command, history, "--features", history / "queries.npy",
               "--out", history / "out" / "network.onnx", *options, python=python)


def replaced(history, file, change):
    array = np.load(history / file)
    np.save(history / file, change(array))


def with_nan(array):
    array[3] = np.nan
    return array


@pytest.mark.parametrize("file, change, said", [
    ("queries.npy", lambda x: x[:0], "0 queries, expected at least 20"),
    ("queries.npy", with_nan, "query 3 has a number that is not finite"),
    ("queries.npy", lambda x: x.astype(str), "not a .npy file of numbers"),
    ("scores.npy", lambda x: x[:-1], f"{QUERIES - 1} queries, but"),
    ("scores.npy", lambda x: x + 1, "query 0 has 1."),
    ("ensemble.npy", lambda x: x[:-1], f"{QUERIES - 1} queries, but"),
    ("outputs-b.npy", with_nan, "query 3 has a number that is not finite"),
    ("outputs-c.npy", lambda x: x[:, :1], "1 numbers a query, expected 2 as in ensemble.npy"),
])
def test_bad_files_are_named(history, file, change, said):
    replaced(history, file, change)
    done = train("difficulty", history, python=sys.executable)
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert file in done.stderr and said in done.stderr
    assert not (history / "out").exists()


@pytest.mark.parametrize("profile, said", [
    ("{", "is not JSON"), ("[]", "no list 'models'"), ('{"models": []}', "no list 'models'"),
    ('{"models": ["a"], "task": "guess"}', "task is 'guess', expected classification or regression"),
    ('{"models": ["d"], "task": "regression"}', "outputs-d.npy: cannot be read"),
])
def test_bad_profiles_are_named(history, profile, said):
    (history / "profile.json").write_text(profile)
    done = train("difficulty", history, python=sys.executable)
    assert done.returncode == 1 and said in done.stderr, done.stderr


@pytest.mark.parametrize("options, said", [
    (["--image", "1,4,5"], "queries have 16 numbers, an image of 1,4,5 has 20"),
    (["--network", "convolutional"], "queries are flat"),
])
def test_images_fit_the_queries(history, options, said):
    done = train("difficulty", history, *options, python=sys.executable)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_labels_are_classes_of_the_ensemble(history):
    np.save(history / "labels.npy", np.full(QUERIES, 2))
    done = train("gating", history, "--labels", history / "labels.npy", python=sys.executable)
    assert done.returncode == 1 and "expected one class from 0 to 1" in done.stderr


@pytest.mark.parametrize("options", [["--lambda", "0"], ["--epochs", "-1"], ["--target", "luck"]])
def test_bad_options_are_refused(history, options):
    assert train("difficulty", history, *options, python=sys.executable).returncode == 2


def test_difficulty_is_learned(torch, history):
    done = train("difficulty", history, "--epochs", 40)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["held_out"]
    assert said["correlation"] > 0.7 and said["squared_error"] < said["variance"]
    assert "epoch 40 of 40" in done.stderr


def test_the_same_seed_gives_the_same_network(torch, history):
    network = history / "out" / "network.onnx"

    def bytes_of(seed):
        done = train("difficulty", history, "--image", "1,4,4", "--epochs", 2, "--seed", seed)
        assert done.returncode == 0, done.stderr
        return network.read_bytes()

    assert bytes_of(1) == bytes_of(1) != bytes_of(2)


def test_agreement_is_a_target_of_its_own(torch, history):
    said = json.loads(train("difficulty", history, "--target", "agreement", "--epochs", 1).stdout)
    assert said["target"] == "agreement"
    assert said["held_out"]["variance"] == pytest.approx(0.01, rel=0.2)  # of 0.2 and 0.4


def test_gating_turns_from_a_model_that_is_wrong(torch, history):
    done = train("gating", history, "--epochs", 20)
    assert done.returncode == 0, done.stderr
    weights = json.loads(done.stdout)["held_out"]["mean_weights"]
    assert set(weights) == set(MODELS) and sum(weights.values()) == pytest.approx(1, abs=1e-4)
    assert weights["a"] < min(weights["b"], weights["c"])


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    """A load that follows a wave, so that a network can know better than what was last."""
    rng = np.random.default_rng(3)
    rate = 60 + 40 * np.sin(np.arange(8_000) / 40)
    trace = tmp_path_factory.mktemp("load") / "requests.txt"
    trace.write_text("\n".join(map(str, rng.poisson(rate))) + "\n")
    return trace


@pytest.mark.parametrize("inputs", ["maxima", "summary"])
def test_a_forecast_learns_a_wave_and_serves(torch, daily, inputs):
    network = daily.parent / f"{inputs}.onnx"
    done = run("forecast", daily, "--out", network, "--epochs", 60, "--inputs", inputs,
               python=WITH_TORCH)
    assert done.returncode == 0, done.stderr
    held_out = json.loads(done.stdout)["held_out"]
    assert held_out["smape_percent"] < 0.9 * held_out["reactive_percent"]
    served = subprocess.run([ROOT / "build" / "fermata", "forecast", daily, "--model", network,
                             "--from", str(8_000 - held_out["seconds"])], text=True, capture_output=True, timeout=120)
    assert served.returncode == 0, served.stderr
    methods = json.loads(served.stdout)["methods"]
    assert methods["model"]["smape_percent"] == pytest.approx(held_out["smape_percent"], rel=0.2)


@pytest.mark.parametrize("text, error", [
    ("5\nmany\n", "line 2 is 'many', expected a number"), ("5\n-1\n", "line 2 is -1"),
    ("requests\n" + "7\n" * 300, "300 seconds with requests, too few to train on")])
def test_a_bad_trace_says_where(torch, tmp_path, text, error):
    trace = tmp_path / "requests.txt"
    trace.write_text(text)
    done = run("forecast", trace, "--out", tmp_path / "load.onnx", python=WITH_TORCH)
    assert done.returncode == 1 and error in done.stderr
