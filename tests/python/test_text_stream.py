"""The zoo's stream service of text: a packaged detector at three input sizes, by `fermata stream`."""

import json
import re
import subprocess
import sys

import numpy
import pytest

from conftest import FERMATA, ZOO, link_models, serve_part

sys.path.insert(0, str(ZOO))
import measure_text  # noqa: E402

FILM = ZOO / "data" / "text-film"
TRUTH = json.loads((FILM / "boxes.json").read_text())
CONFIG = (ZOO / "fermata.yaml").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    repository = link_models(folder / "models", [f"text-{side}" for side in measure_text.SIDES], packaged=True)
    services = "".join(re.findall(r"^  text(?:-jpeg.*)?:\n(?:    .*\n)+", CONFIG, re.MULTILINE))
    server = serve_part(folder, repository, services)
    yield server
    assert server.stop() == 0


def test_finds_the_lines_of_the_film(server):
    done = subprocess.run([FERMATA, "stream", FILM, "--service", "text", "--slo", "20000", "--rate", "2",
                           "--url", server.grpc, "--outputs", "boxes"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *lines, _ = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [line for line in lines if "outputs" in line]
    right = total = boxes = 0
    for line in answers:
        answer = line["outputs"]["boxes"]
        corners = numpy.array(answer["data"], float).reshape(-1, 4, 2) * (measure_text.SIDE / line["input_size"])
        found = numpy.concatenate([corners.min(1), corners.max(1)], 1)
        truth = list(TRUTH.values())[line["frame"]]
        if line["input_size"] == max(measure_text.SIDES):
            right += measure_text.found(truth, found)
            total, boxes = total + len(truth), boxes + len(found)
    assert total > 0, "it should have come to the largest size"
    assert 2 * right >= 0.7 * (total + boxes)


def test_the_service_says_what_was_measured():
    for side in measure_text.SIDES:
        card = json.loads((ZOO / "repository" / f"text-{side}" / "card.json").read_text())
        said = re.search(rf"text-jpeg-{side}, input_size: {side}, accuracy: ([\d.]+)", CONFIG)[1]
        assert float(said) == card["f1"]
