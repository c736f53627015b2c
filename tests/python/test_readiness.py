"""Ready means that everything configured is served; over HTTP, gRPC and gRPC's own health service alike."""

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import threading

import grpc
import pytest
import tritonclient.grpc

from conftest import FERMATA, ROOT, START_LIMIT_S, Server

REPOSITORY = ROOT / "tests" / "data" / "repository"
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
"""
BROKEN = 'input { name: "nobody" data_type: TYPE_FP32 dims: [ 2 ] }'
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


@pytest.fixture
def models(tmp_path):
    """One good model; others are added."""
    shutil.copytree(REPOSITORY / "identity-fp32", tmp_path / "models" / "good")
    return tmp_path / "models"


def add_broken(models, name="bad"):
    shutil.copytree(REPOSITORY / "identity-fp32", models / name)
    (models / name / "config.pbtxt").write_text(BROKEN)


@pytest.fixture
def start(tmp_path, models):
    servers = []

    def start(more="", server=Server):
        servers.append(server(tmp_path, models, CONFIG + more))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait()


def ask(server, path, body=None):
    connection = http.client.HTTPConnection(server.http, timeout=START_LIMIT_S)
    connection.request("GET" if body is None else "POST", path, body)
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read() or b"null")


def health(server, service=b""):
    """The bytes of grpc.health.v1.Health/Check's answer."""
    with grpc.insecure_channel(server.grpc) as channel:
        name = b"\x0a" + bytes([len(service)]) + service if service else b""
        return channel.unary_unary("/grpc.health.v1.Health/Check")(name)


def readiness(server):
    """The same from every protocol, with the reason of HTTP."""
    status, body = ask(server, "/v2/health/ready")
    assert body["ready"] is (status == 200) and status in (200, 503)
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        assert client.is_server_ready() is body["ready"]
    for service in (b"", b"inference.GRPCInferenceService"):
        assert health(server, service) == (SERVING if body["ready"] else NOT_SERVING)
    return body["ready"], body.get("reason", "")


def model_readiness(server, model):
    status, body = ask(server, f"/v2/models/{model}/ready")
    assert body["ready"] is (status == 200) and body["name"] == model
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready(model) is body["ready"]
    return body["ready"], body.get("reason", "")


def test_all_is_served(start):
    server = start()
    assert readiness(server) == (True, "")
    assert model_readiness(server, "good") == (True, "")
    with pytest.raises(grpc.RpcError) as unknown:
        health(server, b"nobody")
    assert unknown.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_model_that_fails_keeps_the_server_from_being_ready(start, models):
    add_broken(models)
    (models / "later").mkdir()  # which has no version yet
    server = start()
    ready, reason = readiness(server)
    assert not ready and "'bad' is not served: " in reason and "nobody" in reason and "'later'" in reason
    assert model_readiness(server, "good") == (True, "")
    ready, reason = model_readiness(server, "bad")
    assert not ready and "nobody" in reason
    # What was mended and loaded, or is not asked for any more, counts no longer.
    (models / "bad" / "config.pbtxt").unlink()
    assert ask(server, "/v2/repository/models/bad/load", "{}")[0] == 200
    assert "'bad'" not in readiness(server)[1]
    assert ask(server, "/v2/repository/models/later/unload", "{}")[0] == 200
    assert readiness(server) == (True, "")


def test_any_model_is_enough_where_that_is_asked_for(start, models):
    add_broken(models)
    ready, reason = readiness(start("ready: any\n"))
    assert ready and "'bad' is not served" in reason


def test_without_a_model_it_is_not_ready(start, models):
    shutil.rmtree(models / "good")
    for more in ("", "ready: any\n"):
        assert readiness(start(more)) == (False, "no model is served")


def test_a_load_that_fails_leaves_ready_what_is_served(start, models):
    server = start()
    (models / "good" / "config.pbtxt").write_text(BROKEN)
    assert ask(server, "/v2/repository/models/good/load", "{}")[0] == 400
    assert readiness(server) == (True, "")
    ready, reason = model_readiness(server, "good")
    assert ready and reason.startswith("served as before, since the last load failed: ")
    row, = ask(server, "/v2/repository/index", "{}")[1]
    assert row["state"] == "READY" and row["reason"] == reason
    # Nor does one of a model that nobody has ever had from here.
    add_broken(models)
    assert ask(server, "/v2/repository/models/bad/load", "{}")[0] == 400
    assert readiness(server) == (True, "")


def test_what_was_unloaded_is_not_missed_nor_what_needs_it(start, models):
    shutil.copytree(REPOSITORY / "identity-fp32", models / "other")
    server = start("services:\n  named: {{model: other}}\n  chain: {{kind: pipeline, stages: "
                   "[{{name: one, model: other}}]}}\n"
                   "  nested: {{kind: pipeline, stages: [{{name: one, service: chain}}, {{name: two, model: good}}]}}\n")
    assert readiness(server) == (True, "")
    for service, needs in (("named", "other"), ("chain", "other"), ("nested", "other, good")):
        for call in ("load", "unload"):
            status, body = ask(server, f"/v2/repository/models/{service}/{call}", "{}")
            assert status == 400 and f"'{service}' is a service" in body["error"] and body["error"].endswith(f"expected a model: {needs}")
    assert ask(server, "/v2/repository/models/other/unload", "{}")[0] == 200
    assert model_readiness(server, "named")[0] is False
    assert model_readiness(server, "chain")[0] is False
    assert readiness(server) == (True, "")
    assert ask(server, "/v2/repository/models/good/unload", "{}")[0] == 200
    assert readiness(server) == (False, "no model is served")


def test_it_ends_at_its_start_where_that_is_asked_for(tmp_path, models):
    def run(*more):
        return subprocess.run([FERMATA, "serve", "--models", models, "--http-port", "0", "--grpc-port", "0",
                               "--metrics-port", "0", *more], capture_output=True, text=True, timeout=START_LIMIT_S)
    add_broken(models)
    ended = run("--exit-on-error")
    assert ended.returncode == 2 and ended.stdout == ""
    assert "exit_on_error: 'bad' is not served" in ended.stderr


def test_stages_of_pipelines_are_no_services(start, models):
    shutil.copytree(REPOSITORY / "identity-fp32", models / "other")
    server = start("services:\n  chain: {{kind: pipeline, stages: [{{name: one, variants: [good, other]}}]}}\n")
    names = {row["name"] for row in ask(server, "/v2/repository/index", "{}")[1]}
    assert names == {"good", "other", "chain"}
    for name in names:
        assert ask(server, f"/v2/models/{name}")[0] == 200
    request = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
    assert ask(server, "/v2/models/chain/infer", json.dumps(request))[0] == 200
    assert ask(server, "/v2/models/chain%2Fone")[0] == 404
    assert ask(server, "/v2/models/chain%2Fone/infer", json.dumps(request))[0] == 404


def test_a_repository_without_models_is_an_error_of_check(tmp_path, models):
    def check():
        config = tmp_path / "check.yaml"
        config.write_text(f"models: {models}\n")
        done = subprocess.run([FERMATA, "check", config], capture_output=True, text=True, timeout=START_LIMIT_S)
        return done.returncode, done.stderr
    assert check() == (0, "")
    shutil.rmtree(models / "good")
    (models / "model.onnx").write_text("x")
    code, says = check()
    assert code == 2 and "expected a folder for each" in says
    (models / "later").mkdir()
    code, says = check()
    assert code == 2 and "nothing would be served" in says


class DelayedServer(Server):
    """Goes on for an hour after SIGTERM."""

    @staticmethod
    def start(command, **how):
        return subprocess.Popen(command + ["--drain-delay", "3600"], **how)


def test_after_a_sigterm_it_serves_and_is_not_ready_until_the_delay_is_over(start):
    server = start(server=DelayedServer)
    told = []
    changed = threading.Event()

    def watch(answers):
        with contextlib.suppress(grpc.RpcError):  # that it is cancelled below
            for answer in answers:
                told.append(answer)
                if answer == NOT_SERVING:
                    changed.set()

    with grpc.insecure_channel(server.grpc) as channel:
        watching = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert next(watching) == SERVING
        thread = threading.Thread(target=watch, args=(watching,), daemon=True)
        thread.start()
        server.process.send_signal(signal.SIGTERM)
        assert changed.wait(START_LIMIT_S) and told == [NOT_SERVING]
        assert readiness(server) == (False, "the server stops")
        request = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
        assert ask(server, "/v2/models/good/infer", json.dumps(request))[0] == 200
        assert ask(server, "/v2/health/live")[0] == 200
        watching.cancel()
    server.process.send_signal(signal.SIGTERM)  # a second one does not wait
    assert server.process.wait(START_LIMIT_S) == 1
