"""`fermata demo streams`: clients behind shaped links, and nothing of it is left."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import FERMATA, ROOT, START_LIMIT_S
from test_pages import shapes_config


def spaces():
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith("fmd")]


@pytest.fixture
def command(tmp_path):
    (tmp_path / "models").mkdir()
    for model in (ROOT / "zoo" / "repository").glob("shapes-*"):
        (tmp_path / "models" / model.name).symlink_to(model)
    config = tmp_path / "demo.yaml"
    config.write_text(shapes_config().format(models=tmp_path / "models"))
    return [FERMATA, "demo", "streams", "--config", config, "--source", ROOT / "zoo" / "data" / "shapes",
            "--log", tmp_path / "demo.log", "--slo", "20000", "--rate", "5"]


@pytest.fixture
def links():
    """Skips where no links can be made."""
    if os.geteuid() != 0 or not shutil.which("tc"):
        pytest.skip("links between network namespaces need root and tc")
    made = subprocess.run(["ip", "netns", "add", "fermata-try"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", "fermata-try"], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"this machine makes no network namespaces: {made.stderr.strip()}")


def test_frames_are_answered_over_links_that_change_and_nothing_is_left(command, links, tmp_path):
    trace = tmp_path / "mine.txt"
    trace.write_text("2\n0.5\n")
    done = subprocess.run([*command, "--clients", "2", "--duration", "15", "--trace", trace],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stderr, (tmp_path / "demo.log").read_text())
    clients = json.loads(done.stdout)["clients"]
    assert [c["trace"] for c in clients] == ["mine", "mine"]
    for client in clients:  # frames of seconds in which the machine stopped come at once, as a flood would
        assert client["on_time"] > 0
        assert client["failed"] == 0 or "sends more than" in client["last_error"], client
    assert "pages: http://" in done.stderr and "Mbit/s" in done.stderr
    assert "is ready" in (tmp_path / "demo.log").read_text()
    assert not spaces()


def start_two_clients(command):
    """A demo that would last for minutes, once it shows its clients."""
    process = subprocess.Popen([*command, "--clients", "2", "--duration", "600"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "Mbit/s" in line:
            break
    return process


def test_it_cleans_up_when_it_is_told_to_end(command, links):
    process = start_two_clients(command)
    assert len(spaces()) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 0 and not spaces()


def test_nothing_of_it_runs_on_when_it_is_killed(command, links):
    process = start_two_clients(command)
    children, end = [], time.monotonic() + START_LIMIT_S
    while len(children) != 3:  # the server and two clients; now and then one that shapes a link
        assert time.monotonic() < end
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    handles = [os.pidfd_open(int(child)) for child in children]
    process.kill()
    process.communicate()
    for handle in handles:
        assert select.select([handle], [], [], 300)[0], "it runs on"
        os.close(handle)
    assert len(spaces()) == 2  # the next one removes them
    subprocess.run([*command, "--clients", "1", "--duration", "1"], capture_output=True, timeout=300)
    assert not spaces()


def test_without_root_it_says_what_to_do(command):
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("root, and there is no setpriv to become somebody else")
        command = ["setpriv", "--reuid", "65534", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if "Permission denied" in done.stderr:
        pytest.skip("somebody else may not read this folder")
    assert done.returncode == 1 and "need root; try again with sudo" in done.stderr


@pytest.mark.parametrize("text, says", [("", "is empty"), ("1\nmany\n", 'line 2: "many"'), ("0\n", "line 1")])
def test_a_bad_trace_names_its_line(command, tmp_path, text, says):
    trace = tmp_path / "bad.txt"
    trace.write_text(text)
    done = subprocess.run([*command, "--trace", trace], capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr
