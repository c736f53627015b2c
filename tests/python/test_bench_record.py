"""Records of benchmarks say what they were drawn with."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAWN = {"commit", "date", "machine", "cores", "load_before", "command", "versions"}
WRITE = "import record; record.RESULTS = record.pathlib.Path('.'); record.write('some', {'rows': [1]})"


@pytest.mark.parametrize("path", sorted((ROOT / "bench" / "results").glob("*.json")), ids=lambda p: p.stem)
def test_says_what_it_was_drawn_with(path):
    drawn = json.loads(path.read_text())["drawn"]
    assert DRAWN <= drawn.keys()
    assert len(drawn["commit"]) == 40 and drawn["date"]
    assert "note" in drawn or None not in drawn.values()


def write_with(module, folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run([sys.executable, "-c", WRITE], cwd=folder, text=True, capture_output=True, timeout=60,
                          env=environment | {"PYTHONPATH": str(module), "GIT_CEILING_DIRECTORIES": str(folder)})


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout of the project, so there is no commit to write")
def test_is_written_with_all_of_it(tmp_path):
    assert write_with(ROOT / "bench", tmp_path).returncode == 0
    written = json.loads((tmp_path / "some.json").read_text())
    assert written["rows"] == [1] and DRAWN <= written["drawn"].keys()


def test_is_refused_outside_of_a_checkout(tmp_path):
    module = tmp_path / "bench"
    module.mkdir()
    (module / "record.py").write_text((ROOT / "bench" / "record.py").read_text())
    refused = write_with(module, tmp_path)
    assert refused.returncode == 1 and "without its commit" in refused.stderr
    assert not (tmp_path / "some.json").exists()


def test_what_an_earlier_run_left_keeps_what_drew_it():
    sys.path.insert(0, str(ROOT / "bench"))
    import record
    assert record.left({"drawn": "first"}) == ["first"]
    assert record.left({"drawn": "third", "drawn_before": ["second", "first"]}) == ["third", "second", "first"]
    assert record.left({}) == []


def test_a_command_does_not_say_where_files_lie_here(tmp_path):
    sys.path.insert(0, str(ROOT / "bench"))
    import record
    words = ["--traces", str(tmp_path / "traces"), f"--out={tmp_path}/rows.json", str(ROOT / "build" / "fermata"), "--seeds", "3"]
    assert [record.said(word) for word in words] == ["--traces", "traces", "--out=rows.json", "build/fermata", "--seeds", "3"]
