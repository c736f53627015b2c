"""fermata evidence on real digits: k by cross-validation, and what it says of bad files."""

import json
import subprocess

import jsonschema
import numpy as np
import pytest

from conftest import FERMATA, ROOT, ZOO


def run(*arguments):
    return subprocess.run([FERMATA, "evidence", *map(str, arguments)], text=True,
                          capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    with (ZOO / "data" / "digits-test.jsonl").open() as file:
        rows = [json.loads(line) for line in file]
    np.save(folder / "x.npy", np.array([r["inputs"][0]["data"] for r in rows], np.float32))
    np.save(folder / "y.npy", np.array([r["label"] for r in rows]))
    return folder / "x.npy", folder / "y.npy"


def nearest_labels(x, y, rows, others, k):
    distance = ((x[rows][:, None] - x[others][None]) ** 2).sum(2)
    return y[others][np.argsort(distance, axis=1, kind="stable")[:, :k]]


def test_digits_are_known_by_their_neighbours(digits):
    done = run(*digits)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(
        result, json.loads((ROOT / "docs/schemas/evidence.result.schema.json").read_text()))
    best = max(score["accuracy"] for score in result["by_k"])
    assert result["accuracy"] == best == result["by_k"][result["k"] - 1]["accuracy"]
    assert result["accuracy"] > 0.97
    confusion = np.array(result["confusion"])
    x, y = (np.load(file) for file in digits)
    assert confusion.sum(axis=1).tolist() == np.bincount(y).tolist()
    assert result["recall"] == pytest.approx(confusion.diagonal() / confusion.sum(axis=1))
    assert np.trace(confusion) / len(x) == pytest.approx(result["accuracy"])
    # A fifth more to learn from may help a little: leaving out one is near leaving out a fold.
    everyone = np.arange(len(x))
    alone = [nearest_labels(x, y, [i], everyone[everyone != i], 1)[0, 0] for i in everyone]
    assert np.mean(np.array(alone) == y) == pytest.approx(result["by_k"][0]["accuracy"], abs=0.01)


def test_criteria_differ_and_runs_do_not(digits):
    weak, strong = (json.loads(run(*digits, "--criterion", c).stdout)["k"]
                    for c in ("accuracy", "log-loss"))
    assert weak < strong  # one neighbour answers best, but says little
    assert run(*digits).stdout == run(*digits).stdout
    assert run(*digits, "--seed", 2).stdout != run(*digits).stdout


def test_few_points_bound_k(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(6, 1))
    np.save(tmp_path / "y.npy", np.array([0, 0, 0, 1, 1, 1], np.uint8))
    files = tmp_path / "x.npy", tmp_path / "y.npy"
    assert len(json.loads(run(*files, "--folds", 3).stdout)["by_k"]) == 4
    assert json.loads(run(*files, "--classes", 3).stdout)["recall"][2] is None
    done = run(*files, "--folds", 3, "--k-max", 5)
    assert done.returncode == 2 and "expected 1 to 4" in done.stderr


@pytest.mark.parametrize("x, y, says", [
    (np.zeros((3, 2)), np.zeros(4, int), "has 4 labels, expected 3"),
    (np.zeros((3, 2)), np.zeros(3), "has datatype FP64, expected whole numbers"),
    (np.zeros((3, 2)), np.array([0, 1, -1]), "row 2 has label -1"),
    (np.zeros(3), np.zeros(3, int), "has shape [3], expected rows of features"),
    (np.full((3, 2), np.nan), np.zeros(3, int), "row 0, column 0 is nan"),
    (np.zeros((3, 2), ">f4"), np.zeros(3, int), "'>f4', expected little-endian"),
    (np.zeros((3, 2), order="F"), np.zeros(3, int), "ascontiguousarray"),
    (np.zeros((1, 2)), np.zeros(1, int), "folds is 5, expected 2 to 1"),
])
def test_bad_files_are_told(tmp_path, x, y, says):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    done = run(tmp_path / "x.npy", tmp_path / "y.npy")
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_no_file_and_no_array(tmp_path):
    done = run(tmp_path / "none.npy", tmp_path / "none.npy")
    assert done.returncode == 2 and "none.npy: cannot be opened" in done.stderr
    (tmp_path / "text.npy").write_text("1 2 3")
    done = run(tmp_path / "text.npy", tmp_path / "text.npy")
    assert done.returncode == 2 and "numpy.save" in done.stderr
