"""What requests say of the stages that they got to, and what the metrics of these count."""

import collections
import concurrent.futures
import json
import re
import urllib.request

import grpc
import numpy
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import Server
from test_pipelines import CHAIN, ask, unanswered, write_repository

CONFIG = CHAIN + """\
  nested: {{kind: pipeline, stages: [{{name: inside, service: chain}}, {{name: last, model: plus}}]}}
  broken: {{kind: pipeline, stages: [{{name: one, model: plus}}, {{name: two, model: fails}}]}}
  best:
    kind: pipeline
    slo_ms: 60000
    stages:
      - {{name: double, model: twice}}
      - {{name: pick, operator: argmax, inputs: {{scores: double.y}}}}
      - {{name: either, variants: [plus, {{model: twice, accuracy: 0.9}}], inputs: {{x: double.y}}}}
    outputs: {{class: pick.class, y: either.y}}
  forked: {{kind: pipeline, stages: [{{name: one, model: fails}}, {{name: two, model: twice, inputs: {{x: x}}}}], outputs: {{y: one.y, z: two.y}}}}
"""


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    write_repository(folder / "models")
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def metrics(server):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        return reply.read().decode()


def totals(server, prefix):
    """Of every service whose name begins so: what the metrics add up to."""
    sums = collections.defaultdict(lambda: collections.defaultdict(float))
    for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", metrics(server), re.M):
        service = re.search(r'(?:model|service)="([^"]*)"', labels)
        if service is None or not service[1].startswith(prefix):
            continue
        outcome = re.search(r'(?:outcome|reason)="([^"]*)"', labels)
        sums[service[1]][f"{name}{outcome[1] if outcome else ''}"] += float(value)
    return sums


# What a stage's requests say of themselves, added up, is what its metrics count.
def test_metrics_of_stages_agree_with_what_the_requests_say(pipelines):
    before = totals(pipelines, "best/")

    def one(i):
        _, why = ask(pipelines, "best", [[i, i + 1]] * (1 + i % 3))
        return json.loads(why["stages"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        rows = [row for stages in pool.map(one, range(60)) for row in stages]
    after = totals(pipelines, "best/")
    for stage in ("double", "pick", "either"):
        own = [row for row in rows if row["stage"] == stage]
        seen = collections.defaultdict(float)
        for name, sums in after.items():
            if name.split("/")[1] == stage:
                for key, value in sums.items():
                    seen[key] += value - before[name][key]
        apart = stage == "pick"  # an operator: each item is a run
        assert seen["fermata_requests_totalon_time"] == (120 if apart else 60) and len(own) == 60
        assert seen["nv_inference_count"] == sum(row["items"] for row in own) == 120
        waits, runs = (sum(row["items_" * apart + key] for row in own) * 1000 for key in ("wait_ms", "run_ms"))
        compute = sum(seen[f"nv_inference_compute_{part}_duration_us"]
                      for part in ("input", "infer", "output"))
        assert seen["nv_inference_queue_duration_us"] == pytest.approx(waits, rel=1e-3, abs=100)
        assert compute == pytest.approx(runs, rel=1e-3, abs=100)


def test_requests_that_fail_show_every_stage_that_they_got_to(pipelines):
    before = totals(pipelines, "broken/")
    code, body = unanswered(pipelines, "broken", [[6, 0]], timeout_us=30_000_000)
    assert code == 400 and body["parameters"]["outcome"] == "invalid"  # the model ran before
    first, second = json.loads(body["parameters"]["stages"])
    assert (first["stage"], first["outcome"]) == ("one", "on_time")
    assert (second["stage"], second["outcome"]) == ("two", "invalid")
    assert second["error"] and second["run_ms"] > 0 and second["wait_ms"] >= 0
    assert first["remaining_before_ms"] > first["remaining_ms"] >= second["remaining_before_ms"]
    assert second["remaining_before_ms"] > second["remaining_ms"] > 0
    after = totals(pipelines, "broken/")
    for stage, outcome in (("one", "on_time"), ("two", "invalid")):
        key = f"fermata_requests_total{outcome}"
        assert after[f"broken/{stage}"][key] - before[f"broken/{stage}"][key] == 1


# The other may have run by then, or not.
def test_what_runs_beside_a_stage_that_fails_is_shown(pipelines):
    code, body = unanswered(pipelines, "forked", [[7, 0]])
    one, two = json.loads(body["parameters"]["stages"])
    assert code == 400 and one["outcome"] == "invalid"
    assert two["stage"] == "two" and two["outcome"] in ("on_time", "cancelled")


def test_a_rejected_request_shows_the_stage_before_which_it_was(pipelines):
    code, body = unanswered(pipelines, "chain", [[1, 2]], timeout_us=1)
    (row,) = json.loads(body["parameters"]["stages"])
    assert code == 504 and (row["stage"], row["outcome"]) == ("first", "not_begun")
    assert row["wait_ms"] == row["run_ms"] == 0 and row["remaining_before_ms"] <= 0.001
    assert body["parameters"]["outcome"] == "rejected_deadline"


# Of a pipeline in a pipeline, what its own stages say.
def test_a_rejection_inside_is_shown_inside(pipelines):
    _, body = unanswered(pipelines, "nested", [[1, 2]], timeout_us=1)
    (row,) = json.loads(body["parameters"]["stages"])
    assert (row["stage"], row["outcome"]) == ("inside", "not_begun")


def test_grpc_says_why_there_is_no_answer(pipelines):
    request = service_pb2.ModelInferRequest(model_name="broken")
    request.parameters["explain"].bool_param = True
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    tensor.contents.fp32_contents.extend([6, 0])
    channel = grpc.insecure_channel(pipelines.grpc)
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    with pytest.raises(grpc.RpcError) as failed:
        stub.ModelInfer(request)
    why = json.loads(dict(failed.value.trailing_metadata())["fermata-explain"])
    assert [row["outcome"] for row in json.loads(why["stages"])] == ["on_time", "invalid"]
    (answer,) = stub.ModelStreamInfer(iter([request]))
    stages = answer.infer_response.parameters["stages"].string_param
    assert [row["stage"] for row in json.loads(stages)] == ["one", "two"]
    channel.close()
