"""Text on photographs: the demo's pipeline of operators and PP-OCR models, by its own files."""

import json
import re
import subprocess
import sys
import urllib.request

import numpy
import pytest
import requests
import tritonclient.http

from conftest import FERMATA, Server, ZOO, link_models, serve_part

PHOTOGRAPHS = ZOO / "data" / "photographs"
LINES = json.loads((PHOTOGRAPHS / "lines.json").read_text())
MODELS = ("ocr-detection", "ocr-direction", "ocr-recognition")


@pytest.fixture(scope="module")
def signs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signs")
    repository = link_models(folder / "repository", MODELS, packaged=True)
    text = (ZOO / "fermata.yaml").read_text()
    service = text[text.index("  signs:\n"):].split("\n\n")[0]
    service = service.replace("repository/ocr", f"{ZOO}/repository/ocr")
    server = serve_part(folder, repository, service)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """zoo/signs-variants.yaml with the small models that zoo/shrink_ocr.py makes."""
    folder = tmp_path_factory.mktemp("variants")
    repository = link_models(folder / "repository", MODELS, packaged=True)
    subprocess.run([sys.executable, ZOO / "shrink_ocr.py", repository], check=True, timeout=300)
    text = (ZOO / "signs-variants.yaml").read_text().replace("{", "{{").replace("}", "}}")
    text = text.replace("models: repository", "models: {models}").replace(
        "characters: repository", f"characters: {repository}")
    text = re.sub(r"listen:.*", "listen: {{http: 0, grpc: 0, metrics: 0}}", text)
    server = Server(folder, repository, text)
    yield server
    server.stop()


def read(server, picture, explain=False, timeout_s=60):
    client = tritonclient.http.InferenceServerClient(server.http, network_timeout=600,
                                                     connection_timeout=600)
    tensor = tritonclient.http.InferInput("encoded", [1], "BYTES")
    tensor.set_data_from_numpy(numpy.array([picture], dtype=object))
    return client.infer("signs", [tensor], timeout=timeout_s * 1_000_000,
                        parameters={"explain": True} if explain else None)


def lines(answer):
    return [text.decode() for text in answer.as_numpy("text").reshape(-1)]


def test_reads_nearly_every_line(signs):
    right = total = 0
    for name, known in LINES.items():
        found = lines(read(signs, (PHOTOGRAPHS / name).read_bytes()))
        loose = ["".join(line.lower().split()) for line in found]
        right += sum("".join(line.lower().split()) in loose for line in known)
        total += len(known)
    assert right >= 0.85 * total, f"{right} of {total} lines"


# Its models have free dimensions, measured at one shape each: what is believed of other sizes must
# not reject them.
def test_reads_within_a_deadline_whatever_the_size(signs):
    name = "sign-00.jpg"
    for _ in range(3):
        answer = read(signs, (PHOTOGRAPHS / name).read_bytes(), explain=True).get_response()
    assert answer["parameters"]["outcome"] == "on_time"
    text = (ZOO / "fermata.yaml").read_text()
    assert "slo_ms" in text[text.index("  signs:\n"):]


# Whichever of them the adapter plans, photographs are read.
def test_small_and_large_variants_read_signs(variants):
    right = total = 0
    taken = set()
    for name, known in list(LINES.items())[:8]:
        answer = read(variants, (PHOTOGRAPHS / name).read_bytes(), explain=True)
        found = ["".join(line.lower().split()) for line in lines(answer)]
        right += sum("".join(line.lower().split()) in found for line in known)
        total += len(known)
        taken |= {row["variant"] for row in json.loads(answer.get_response()["parameters"]["stages"])}
    assert right >= 0.7 * total, f"{right} of {total} lines"
    for stage in ("ocr-detection", "ocr-recognition"):
        assert taken & {stage, f"{stage}-small"}
    with urllib.request.urlopen(f"http://{variants.http}/v2/fermata/decisions") as reply:
        decisions = json.load(reply)["pipelines"]
    stages = {stage["name"]: [v["name"] for v in stage["variants"]]
              for decision in decisions for stage in decision["problem"]["stages"]}
    assert not decisions or stages["detect"] == ["ocr-detection-small", "ocr-detection"]


def test_a_photograph_without_text_is_an_answer(signs):
    assert lines(read(signs, (PHOTOGRAPHS / "no-text.jpg").read_bytes())) == []


def test_explains_every_stage(signs):
    name = "sign-00.jpg"
    answer = read(signs, (PHOTOGRAPHS / name).read_bytes(), explain=True).get_response()
    stages = answer["parameters"]["stages"]
    stages = json.loads(stages) if isinstance(stages, str) else stages
    by_name = {stage["stage"]: stage for stage in stages}
    assert by_name["lines"]["made"] == by_name["recognise"]["items"] > 1
    assert list(by_name)[0] == "decode" and by_name["read"]["run_ms"] >= 0


def test_a_broken_picture_is_the_clients_fault(signs):
    whole = (PHOTOGRAPHS / "sign-00.jpg").read_bytes()
    with pytest.raises(tritonclient.http.InferenceServerException, match="stage 'decode'.*picture"):
        read(signs, whole[:20000])
    reply = requests.post(f"http://{signs.http}/v2/models/signs/infer", data=whole[:3000],
                          headers={"Inference-Header-Content-Length": "0"}, timeout=60)
    assert reply.status_code == 400


def test_an_operators_mistakes_are_said(tmp_path):
    link_models(tmp_path / "repository", ["digits-mlp"])  # a repository without any is another mistake
    config = tmp_path / "fermata.yaml"
    for stage, complaint in [("{name: a, operator: shrink}", "decode-image"),
                             ("{name: a, operator: resize}", "either size"),
                             ("{name: a, operator: resize, size: [1, 2], service: b}", "one of service"),
                             ("{name: a, operator: argmax}", "has only operators")]:
        config.write_text("models: repository\nservices:\n  p: {kind: pipeline, stages: [%s]}\n" % stage)
        run = subprocess.run([FERMATA, "check", config], capture_output=True, text=True, timeout=120)
        assert run.returncode == 2 and complaint in run.stdout + run.stderr
