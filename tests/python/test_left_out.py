"""A run that leaves tests out ends with a line that says so."""

import pathlib
import subprocess
import sys


def run(folder, text):
    (folder / "conftest.py").write_text("from left_out import pytest_terminal_summary, pytest_unconfigure\n")
    (folder / "test_it.py").write_text("import pytest\n" + text)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=folder, text=True,
                          env={"PYTHONPATH": str(pathlib.Path(__file__).parent)}, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_the_last_line_counts_and_names_what_was_left_out(tmp_path):
    left_out = "no Chromium is installed (scripts/deps.sh browser)"
    text = f"@pytest.mark.parametrize('i', range(3))\ndef test_page(i): pytest.skip('{left_out}')\n" \
           "@pytest.mark.skipif(True, reason='the link is down')\ndef test_link(): pass\n"
    assert run(tmp_path, text) == f"4 tests were left out: 3 since {left_out}; 1 since the link is down"


def test_where_all_ran_nothing_is_said(tmp_path):
    assert "1 passed" in run(tmp_path, "def test_it(): pass\n")
