"""`fermata stream` on a real server: pictures in, JSON lines out, whatever happens in between."""

import json
import math
import os
import pathlib
import shutil
import signal
import subprocess

import numpy
import pytest
from PIL import Image

from conftest import FERMATA, ROOT, START_LIMIT_S, Server
from stream_models import CONFIG, write_models

RATE, SLO_MS = 40, 400


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    server = Server(folder, write_models(folder / "models"), CONFIG)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(5):
        pixels = numpy.full((60, 80, 3), 40 * i, numpy.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.{'png' if i == 3 else 'jpg'}")
    (folder / "notes.txt").write_text("no picture")
    return folder


def arguments(source, address, **options):
    options = {"service": "cameras", "slo": 20000, "rate": 50, "url": address} | options
    flags = [f"--{name.replace('_', '-')}" + (f"={value}" if value is not True else "")
             for name, value in options.items() if value is not None]
    return [FERMATA, "stream", str(source), *flags]


def stream(source, address, **options):
    """The lines of frames and the summary."""
    done = subprocess.run(arguments(source, address, **options), capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1], lines[-1]["summary"]


class Running:
    """The command, line by line."""

    def __init__(self, *args, **options):
        self.process = subprocess.Popen(arguments(*args, **options), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def until(self, what, count=1):
        """The lines up to the `count`th with that member."""
        lines = []
        while count > 0:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            lines.append(json.loads(line))
            count -= what in lines[-1]
        return lines

    def end(self):
        self.process.send_signal(signal.SIGINT)
        lines = [json.loads(line) for line in self.process.stdout]  # communicate() leaves out what readline() has read ahead
        err = self.process.stderr.read()
        assert self.process.wait(START_LIMIT_S) == 0, err
        return lines


def test_every_picture_of_a_folder_ends_once(server, pictures):
    frames, summary = stream(pictures, server.grpc)
    assert sorted(f["frame"] for f in frames) == [0, 1, 2, 3, 4]
    assert summary["frames"] == 5
    ends = ("on_time", "late", "failed", "dropped", "unmapped", "local")
    assert sum(summary[name] for name in ends) == 5
    answered = [f for f in frames if "outputs" in f]
    assert answered
    for frame in answered:
        assert frame["outputs"]["boxes"]["shape"] == [1, 4]
        assert len(frame["outputs"]["boxes"]["data"]) == 4
        assert frame["input_size"] in (32, 48, 64)


def test_one_picture_again_and_again_grows_to_what_the_service_asks(server, pictures):
    run = Running(pictures / "3.png", server.grpc, loop=True)
    while run.until("outputs")[-1]["input_size"] != 64:
        pass
    summary = run.end()[-1]["summary"]
    assert summary["on_time"] > 0 and summary["encoding_ms"] > 0 and summary["client_ms"] > 0


def test_a_stalled_server_makes_frames_drop_and_none_wait(server, pictures):
    """While the server stands still only what the objective allows is under way; all else is
    dropped before it is sent. When it goes on, those are answered, then new ones."""
    most = math.ceil(RATE * SLO_MS / 1000)
    run = Running(pictures, server.grpc, loop=True, rate=RATE, slo=SLO_MS)
    run.until("outputs", 10)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        stalled = []
        while len(stalled) < 3 * most:  # in a row: on a slow machine some are dropped before, too
            line, = run.until("frame")
            goes_on = stalled and line["frame"] == stalled[-1]["frame"] + 1
            stalled = [*(stalled if goes_on else []), line] if "dropped" in line else []
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    after = run.until("outputs", 2 * most)
    first_dropped, last_dropped = stalled[0]["frame"], stalled[-1]["frame"]
    # What was under way when the server stopped, and nothing of what came while it stood.
    waited = [line["frame"] for line in after if "dropped" not in line and first_dropped <= line["frame"] <= last_dropped]
    assert waited == []
    late = [line for line in after if line.get("latency_ms", 0) > SLO_MS]
    assert len([line for line in late if line["frame"] < first_dropped]) <= most
    assert max(line["frame"] for line in after if "outputs" in line) > last_dropped
    run.end()


def test_a_lost_connection_is_made_again(tmp_path, pictures):
    models = write_models(tmp_path / "models")
    first = Server(tmp_path, models, CONFIG)
    run = Running(pictures, first.grpc, loop=True)
    run.until("outputs", 5)
    first.process.kill()
    first.process.wait()
    run.until("dropped", 3)
    port = first.grpc.rsplit(":", 1)[1]
    second = Server(tmp_path, models, CONFIG.replace("grpc: 0", f"grpc: {port}"))
    run.until("outputs", 5)
    assert run.end()[-1]["summary"]["connections"] >= 1
    assert second.stop() == 0


def test_an_unmapped_client_runs_its_own_model(server, pictures):
    """One millisecond is too short for any DNN of the service; the file answers."""
    model = ROOT / "zoo" / "repository" / "shapes-96" / "1" / "model.onnx"
    frames, summary = stream(pictures, server.grpc, slo=1, local=model, rate=20)
    assert summary["local"] > 0
    assert any(frame.get("local") for frame in frames)


@pytest.mark.parametrize("options, error", [
    ({"service": "nobody"}, "nobody"),
    ({"service": "side-32"}, "no stream service"),
    ({"rate": 500}, "stream_rate is 500"),
    ({"local": "/nowhere.onnx"}, "/nowhere.onnx"),
])
def test_what_is_wrong_is_said(server, pictures, options, error):
    done = subprocess.run(arguments(pictures, server.grpc, **options), capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert error in done.stderr


@pytest.mark.parametrize("source, error", [
    ("nowhere", "is not there"),
    ("empty", "holds no picture"),
    ("broken.jpg", "broken.jpg"),
])
def test_sources_that_cannot_be_read(server, tmp_path, source, error):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xffnothing")
    done = subprocess.run(arguments(tmp_path / source, server.grpc), capture_output=True, text=True)
    assert done.returncode == 2 and error in done.stderr


def test_no_server(pictures):
    done = subprocess.run(arguments(pictures, "127.0.0.1:1"), capture_output=True, text=True)
    assert done.returncode == 1 and "start a server" in done.stderr
    assert done.stdout == ""


def ffmpeg_missing():
    probe = subprocess.run([FERMATA, "stream", str(pathlib.Path(__file__)), "--service", "x",
                            "--url", "127.0.0.1:1"], capture_output=True, text=True)
    return "wants a decoder for video" in probe.stderr


def test_a_film_is_shown_at_its_own_speed(server, tmp_path):
    if ffmpeg_missing():
        pytest.skip("this build has no decoder for video: scripts/deps.sh video, then build again")
    if shutil.which("gst-launch-1.0") is None:
        pytest.skip("no gst-launch-1.0 to make a film with: scripts/deps.sh gstreamer")
    film = tmp_path / "film.avi"
    subprocess.run(["gst-launch-1.0", "-q", "videotestsrc", "num-buffers=20", "!",
                    "video/x-raw,width=160,height=120,framerate=20/1", "!", "jpegenc", "!",
                    "avimux", "!", "filesink", f"location={film}"], check=True)
    done = subprocess.run(arguments(film, server.grpc, rate=None), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]["summary"]
    assert 1 <= summary["frames"] <= 21
    assert any("outputs" in line for line in lines)
