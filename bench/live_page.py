"""Draws the live page under load for README.md: docs/pictures/live-page.png and live-page-dark.png.

    .deps/test/bin/python bench/live_page.py [--seconds 90]

A server of some of the demo zoo's services on two workers, a load with a burst in its middle, and a real Chromium.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
from browser import Page  # noqa: E402
from conftest import FERMATA, ZOO, Server  # noqa: E402

MODELS = ["digits-cnn-large", "digits-mlp", "handwriting-small", "handwriting-large", "exercise-small", "exercise-large",
          "scans-dense", "scans-recurrent", "scans-convolutional", "scans-averaged-difficulty"]
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 2, threads: 1}}
log_level: warning
services:
  digits: {{model: digits-cnn-large, slo_ms: 50}}
  digits-fast: {{model: digits-mlp, slo_ms: 10}}
  handwriting: {{kind: variants, variants: [handwriting-small, handwriting-large], slo_ms: 50,
    labelled: {{features: ZOO/handwriting/calibration-features.npy, labels: ZOO/handwriting/calibration-labels.npy}}}}
  exercise: {{kind: variants, variants: [exercise-small, exercise-large], slo_ms: 50,
    labelled: {{features: ZOO/exercise/calibration-features.npy, labels: ZOO/exercise/calibration-labels.npy}}}}
  scans: {{kind: ensemble, models: [scans-dense, scans-recurrent, scans-convolutional], slo_ms: 200,
    profile: ZOO/scans-averaged, predictor: scans-averaged-difficulty}}
"""
WIDTH, HEIGHT = 1440, 1350  # down to the workers' timeline
STEADY = {"digits": 30, "digits-fast": 60, "handwriting": 60, "exercise": 50, "scans": 20}
BURST = {"digits": 120}


def send(server, rates, seconds):
    services = [word for name, rate in rates.items() for word in ("--service", f"{name}:{rate}")]
    return subprocess.Popen([FERMATA, "load", "--url", server.grpc, "--duration", str(seconds), "--warmup", "0", *services],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=90, help="of load before the picture is taken")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = folder / "models"
        models.mkdir()
        for model in MODELS:
            (models / model).symlink_to(ZOO / "repository" / model)
        server = Server(folder, models, CONFIG.replace("ZOO", str(ZOO / "data")))
        running = [send(server, STEADY, seconds + 60)]
        page = Page(folder / "browser", "about:blank")
        page.look(WIDTH, HEIGHT)
        page.open(f"http://{server.http}/")
        try:
            time.sleep(seconds * 0.6)
            running.append(send(server, BURST, seconds * 0.2))
            time.sleep(seconds * 0.4)
            page.press(" ")  # hold: both pictures show the same moment
            for scheme, file in (("light", "live-page.png"), ("dark", "live-page-dark.png")):
                page.look(WIDTH, HEIGHT, scheme)
                page.run("new Promise(drawn => setTimeout(drawn, 500))")
                (ROOT / "docs" / "pictures" / file).write_bytes(page.screenshot(whole=False))
        finally:
            page.close()
            for load in running:
                load.terminate()
            server.stop()


if __name__ == "__main__":
    main()
