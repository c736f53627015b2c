"""fermata profile with labelled data: the accuracy that the digits' cards state, and
what it says of data that does not fit."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest

from conftest import FERMATA, ROOT, ZOO

DIGITS = ZOO / "data" / "digits-test.jsonl"


def profile(model, *arguments):
    return subprocess.run([FERMATA, "profile", model, "--runs", "1", "--max-batch", "2",
                           *map(str, arguments)], text=True, capture_output=True, timeout=120)


def card(model):
    return json.loads((ZOO / "repository" / model / "card.json").read_text())


@pytest.fixture
def model(tmp_path):
    """A copy of digits-mlp that a profile may be written to."""
    return shutil.copytree(ZOO / "repository" / "digits-mlp", tmp_path / "digits-mlp",
                           ignore=shutil.ignore_patterns("profile.json"))


@pytest.fixture
def arrays(tmp_path):
    with DIGITS.open() as file:
        rows = [json.loads(line) for line in file]
    np.save(tmp_path / "x.npy", np.array([r["inputs"][0]["data"] for r in rows], np.float32))
    np.save(tmp_path / "y.npy", np.array([r["label"] for r in rows], np.uint8))
    return tmp_path / "x.npy", tmp_path / "y.npy"


@pytest.mark.parametrize("name", ["digits-linear", "digits-mlp", "digits-cnn-small"])
@pytest.mark.parametrize("output", ["probabilities", "label"])
def test_digits_score_what_their_card_says(name, output):
    done = profile(ZOO / "repository" / name, "--no-write", "--data", DIGITS, "--output", output)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    expected = card(name)
    assert measured["confusion"] == expected["confusion"]
    assert measured["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)
    assert measured["recall"] == pytest.approx(expected["recall"], abs=1e-6)
    assert measured["memory_mb"] > 0


def test_arrays_say_the_same(model, arrays):
    done = profile(model, "--data", arrays[0], "--labels", arrays[1])
    assert done.returncode == 0, done.stderr
    written = json.loads((model / "profile.json").read_text())
    assert written == json.loads(done.stdout)
    assert written["confusion"] == card("digits-mlp")["confusion"]
    named = profile(model, "--data", f"image={arrays[0]}", "--labels", arrays[1])
    assert json.loads(named.stdout)["confusion"] == written["confusion"]


def test_a_later_profile_keeps_the_accuracy(model):
    assert profile(model, "--data", DIGITS).returncode == 0
    done = profile(model)
    assert "the accuracy stays that of profile version 1" in done.stderr
    again = json.loads(done.stdout)
    assert again["version"] == 2
    assert again["accuracy"] == pytest.approx(card("digits-mlp")["accuracy"], abs=1e-6)


def test_a_class_without_examples_has_no_recall(model, arrays):
    x, y = (np.load(file) for file in arrays)
    np.save(arrays[0], x[y != 3])
    np.save(arrays[1], y[y != 3])
    done = profile(model, "--no-write", "--data", arrays[0], "--labels", arrays[1])
    assert done.returncode == 0
    assert "class 3 has no example: its recall stays unknown" in done.stderr
    recall = json.loads(done.stdout)["recall"]
    assert recall[3] is None and all(share is not None for share in recall[:3] + recall[4:])


@pytest.mark.parametrize("x, y, says", [
    (np.zeros((3, 64), np.float32), [0, 1], "2 labels for 3 examples"),
    (np.zeros((3, 64), np.float32), [0, 1, 10], "example 2 has label 10, but the classes are 0 to 9"),
    (np.zeros((3, 64), np.float32), [0, 1, -1], "row 2 has label -1"),
    (np.zeros((3, 8, 8), np.float32), [0, 1, 2], "shape is [3,8,8], expected [-1,64]"),
    (np.zeros((3, 64)), [0, 1, 2], "datatype is FP64, expected FP32"),
    (np.zeros((0, 64), np.float32), [], "has shape [0,64], expected as many rows"),
])
def test_data_that_does_not_fit_is_told(model, arrays, x, y, says):
    np.save(arrays[0], x)
    np.save(arrays[1], np.array(y, np.int64))
    done = profile(model, "--data", arrays[0], "--labels", arrays[1])
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1
    assert not (model / "profile.json").exists()


def test_wrong_arguments_are_told(model, arrays, tmp_path):
    def says(*arguments):
        done = profile(model, *arguments)
        assert done.returncode == 2 and done.stdout == ""
        return done.stderr
    assert "--labels is given without --data" in says("--labels", arrays[1])
    assert "--data is given without --labels" in says("--data", arrays[0])
    assert "has its own" in says("--data", DIGITS, "--labels", arrays[1])
    assert "'z' is no output" in says("--data", DIGITS, "--output", "z")
    assert "cannot be opened" in says("--data", tmp_path / "none.npy", "--labels", arrays[1])
    (tmp_path / "bare.jsonl").write_text(json.dumps(
        {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}))
    assert "example 0 has no label" in says("--data", tmp_path / "bare.jsonl")
    pair = profile(ROOT / "tests/data/repository/pair", "--no-write", "--data", arrays[0],
                   "--labels", arrays[1])
    assert "the model has 2 inputs: expected INPUT=FILE.npy" in pair.stderr


def test_several_numbers_of_threads_have_a_profile_each(model):
    done = profile(model, "--threads", "2,1,4096")
    assert done.returncode != 0 and not list(model.glob("profile*"))
    processors = len(os.sched_getaffinity(0))
    done = profile(model, "--threads", "2,1,1000")
    assert done.returncode == 0, done.stderr
    expected = [str(n) for n in (1, 2) if n <= processors]
    measured = json.loads(done.stdout)
    assert list(measured) == expected
    assert f"1000 threads are left out: there are {processors} processors" in done.stderr
    for threads in expected:
        written = json.loads((model / f"profile.threads-{threads}.json").read_text())
        assert written == measured[threads] and written["threads"] == int(threads)
    assert not (model / "profile.json").exists()
    done = profile(model, "--threads", "1,2", "--data", DIGITS)
    assert done.returncode == 2 and "expected one with --data" in done.stderr
