"""The GStreamer element on a real server and a real RTSP server, and `fermata stream` on the latter."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import ROOT, ZOO, Server
from test_stream_command import Running, arguments, ffmpeg_missing

HELPER = pathlib.Path(__file__).with_name("gst_helper.py")
PLUGIN = ROOT / "build" / "libgstfermata.so"
SHAPES = ZOO / "data" / "shapes"
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, threads: 1}}
services:
  detect:
    kind: pipeline
    stages:
      - {{name: decode, operator: decode-image}}
      - {{name: fit, operator: resize, size: [256, 256], inputs: {{image: decode.image}}}}
      - {{name: pixels, operator: normalise, inputs: {{image: fit.image}}}}
      - {{name: find, model: shapes-256, inputs: {{image: pixels.tensor}}}}
    outputs: {{boxes: find.boxes, scores: find.scores, classes: find.classes}}
  shapes:
    kind: stream
    slo_ms: 20000
    variants: [{{service: detect, input_size: 256, accuracy: 0.5}}]
"""
PYTHON = "/usr/bin/python3"


def missing():
    bindings = [PYTHON, "-c", "import gi; gi.require_version('GstRtspServer', '1.0')"]
    try:
        if subprocess.run(bindings, capture_output=True).returncode != 0:
            return "GStreamer's bindings for Python are not installed: scripts/deps.sh gstreamer"
    except FileNotFoundError:
        return f"{PYTHON} is not there"
    if not PLUGIN.exists():
        return "the element is not built: ninja -C build gstfermata"
    return None


reason = missing()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gstreamer")
    (folder / "models").mkdir()
    (folder / "models" / "shapes-256").symlink_to(ZOO / "repository" / "shapes-256")
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def camera():
    """The address of an RTSP server that shows a test picture, as JPEG over RTP."""
    launch = ("( videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=240,"
              "framerate=10/1 ! jpegenc ! rtpjpegpay name=pay0 )")
    process = subprocess.Popen([PYTHON, HELPER, "rtsp", launch], stdout=subprocess.PIPE, text=True)
    yield f"rtsp://127.0.0.1:{int(process.stdout.readline())}/live"
    process.kill()
    process.wait()


def environment():
    return {**os.environ, "GST_PLUGIN_PATH": str(PLUGIN.parent), "GST_REGISTRY_FORK": "no"}


def infer(server, **properties):
    properties = {"service": "shapes", "url": server.grpc, "slo": 20000} | properties
    return "fermatainfer " + " ".join(f"{k}={v}" for k, v in properties.items())


def run(*elements):
    """The regions of every buffer, or the error."""
    done = subprocess.run([PYTHON, HELPER, "regions", " ! ".join(elements)], env=environment(),
                          capture_output=True, text=True, timeout=100)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def overlap(a, b):
    both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
    area = lambda c: (c[2] - c[0]) * (c[3] - c[1])
    return both / (area(a) + area(b) - both)


def test_regions_lie_where_the_shapes_do(server):
    """Labelled pictures from files; most of their shapes are found, by place and by name."""
    truth = json.loads((SHAPES / "boxes.json").read_text())
    buffers, error = run(
        f"multifilesrc location={SHAPES}/scene-%02d.jpg caps=image/jpeg,framerate=10/1", "jpegdec",
        "videoconvert", "video/x-raw,format=RGB",
        infer(server, wait="true", labels=ZOO / "repository/shapes-256/labels.txt"),
        "fakesink name=end")
    assert len(buffers) == len(truth), error
    found = total = 0
    for frame, (regions, shapes) in enumerate(zip(buffers, truth.values()), 1):
        assert all(region["frame"] == frame and region["size"] == 256 for region in regions)
        total += len(shapes)
        found += sum(any(r["label"] == s["class"] and overlap(r["box"], s["box"]) > 0.5
                         for r in regions) for s in shapes)
    assert found > 0.6 * total, f"{found} of {total}"


def test_gst_launch_passes_frames_on(server):
    done = subprocess.run(
        ["gst-launch-1.0", "-q", "videotestsrc", "num-buffers=30", "!",
         "video/x-raw,format=RGB,width=320,height=240,framerate=30/1", "!",
         *infer(server, wait="true").split(), "!", "fakesink"],
        env=environment(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_frames_of_an_rtsp_camera(server, camera):
    buffers, error = run(
        f"rtspsrc location={camera} protocols=tcp latency=0", "rtpjpegdepay", "jpegdec",
        "videoconvert", "video/x-raw,format=RGB",
        infer(server, wait="true", threshold=0), "identity eos-after=10", "fakesink name=end")
    assert len(buffers) >= 5, error
    assert any(buffers)


def test_a_service_that_is_not_there_is_an_error_on_the_bus(server):
    buffers, error = run("videotestsrc num-buffers=3", "video/x-raw,format=RGB",
                         infer(server, service="nobody"), "fakesink name=end")
    assert buffers == [] and "nobody" in error


def test_the_command_takes_an_rtsp_address(server, camera):
    if ffmpeg_missing():
        pytest.skip("this build has no decoder for video: scripts/deps.sh video, then build again")
    command = Running(camera, server.grpc, service="shapes", rate=10)
    frames = command.until("outputs", 3)
    assert frames[-1]["outputs"]["boxes"]["shape"][-1] == 4
    assert command.end()[-1]["summary"]["on_time"] >= 3


def test_an_address_that_does_not_answer(server):
    if ffmpeg_missing():
        pytest.skip("this build has no decoder for video: scripts/deps.sh video, then build again")
    done = subprocess.run(arguments("rtsp://127.0.0.1:1/live", server.grpc, service="shapes"),
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "rtsp://127.0.0.1:1/live" in done.stderr
