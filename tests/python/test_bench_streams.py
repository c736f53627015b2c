"""Parts of a served set of bench/streams.py: they go on where they were, and only whole sets become a record."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import streams_served  # noqa: E402

CELLS = [["lte", 100, 15, 1, "fermata", False], ["lte", 100, 15, 2, "fermata", False]]


def about(commit="a"):
    return {"drawn": {"commit": commit}, "traces": "made", "seconds": 20, "wanted": CELLS}


def row(cell):
    return dict(zip(("trace", "slo_ms", "rate", "clients", "method", "phases"), cell)) | {"miss_rate": 0, "accuracy": 0.3}


def merge(*files):
    return subprocess.run([sys.executable, ROOT / "bench" / "streams.py", "merge", *files], text=True, capture_output=True, timeout=60)


def test_a_part_goes_on_where_it_was(tmp_path):
    streams_served.Rows(tmp_path / "part", about()).add(row(CELLS[0]))
    again = streams_served.Rows(tmp_path / "part", about())
    assert again.has(tuple(CELLS[0])) and not again.has(tuple(CELLS[1]))


def test_what_was_cut_off_in_mid_line_is_measured_again(tmp_path):
    streams_served.Rows(tmp_path / "part", about()).add(row(CELLS[0]))
    whole = (tmp_path / "part").read_text()
    (tmp_path / "part").write_text(whole + json.dumps(row(CELLS[1]))[:20])
    assert not streams_served.Rows(tmp_path / "part", about()).has(tuple(CELLS[1]))
    assert (tmp_path / "part").read_text() == whole
    (tmp_path / "part").write_text("")
    assert not streams_served.Rows(tmp_path / "part", about()).rows


def test_a_part_of_another_commit_is_not_gone_on_with(tmp_path):
    streams_served.Rows(tmp_path / "part", about())
    with pytest.raises(SystemExit, match="another commit"):
        streams_served.Rows(tmp_path / "part", about("b"))


def test_parts_that_leave_cells_out_are_no_record(tmp_path):
    streams_served.Rows(tmp_path / "part", about()).add(row(CELLS[0]))
    refused = merge(tmp_path / "part")
    assert refused.returncode == 1 and "1 of 2 cells are missing" in refused.stderr


def test_parts_of_several_commits_are_no_record(tmp_path):
    for name, cell in zip("ab", CELLS):
        streams_served.Rows(tmp_path / name, about(name)).add(row(cell))
    refused = merge(tmp_path / "a", tmp_path / "b")
    assert refused.returncode == 1 and "several commits" in refused.stderr


def test_a_part_of_the_cells_needs_a_file():
    refused = subprocess.run([sys.executable, ROOT / "bench" / "streams.py", "served", "--cells", "1/2"], text=True,
                             capture_output=True, timeout=60)
    assert refused.returncode == 2 and "--rows" in refused.stderr
