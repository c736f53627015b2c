"""Processes of one model that are copies of one that has opened it: a standby, and those of several workers."""

import os
import pathlib
import re
import signal
import time

import numpy as np
import onnx
import pytest
import tritonclient.http
from conftest import Server
from hosted import sum_metric
from onnx import TensorProto, helper, numpy_helper
from tensors import tensor
from test_deaths import model_processes

LIMIT_S = 120
WIDTH = 3072  # 36 MiB
MEMORY_MB = 1024
CAP_DAC_READ_SEARCH = 1 << 2
WEIGHTS_MB = WIDTH * WIDTH * 4 / 2**20
CONFIG = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nworkers: "


@pytest.fixture
def models(tmp_path):
    """One fully connected layer, for which the library keeps the weights as its kernels want them too."""
    folder = tmp_path / "models" / "wide" / "1"
    folder.mkdir(parents=True)
    weights = np.random.default_rng(7).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7),
              folder / "model.onnx")
    return tmp_path / "models"


def own_mb(process):
    """Memory that no other process has."""
    text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"Private_\w+:\s+(\d+)", text)) / 1024


def expect_confined(process):
    """It may do nothing that others may not but read files, makes no new files, and has so much memory."""
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
    assert int(status["CapEff"], 16) & ~CAP_DAC_READ_SEARCH == 0
    assert int(status["CapBnd"], 16) & ~CAP_DAC_READ_SEARCH == 0 or os.geteuid() != 0
    assert status["NoNewPrivs"] == "1" and status["Seccomp"].strip() == "2"
    limits = pathlib.Path(f"/proc/{process}/limits").read_text()
    assert re.search(rf"Max data size +{MEMORY_MB << 20} +{MEMORY_MB << 20} ", limits), limits
    assert re.search(r"Max core file size +0 +0 ", limits), limits


def infer(client):
    return client.infer("wide", [tensor(tritonclient.http, "x", np.ones((1, WIDTH), np.float32))]).as_numpy("y")


def await_processes(server, count):
    end = time.monotonic() + LIMIT_S
    while len(model_processes(server)) != count or sum_metric(server.metrics, "fermata_model_standby") != 1:
        assert time.monotonic() < end, server.log.read_text()
    return set(model_processes(server))


def test_a_standby_shares_the_weights_and_so_does_what_takes_its_place(models, tmp_path):
    server = Server(tmp_path, models, CONFIG + "{{count: 1, isolation: process, standby: 1}}\n")
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        answer = infer(client)
        for opened_dies in (False, True, False):
            before = await_processes(server, 2)
            assert all(own_mb(process) < WEIGHTS_MB / 4 for process in before)
            opened = model_processes(server, "opened-model")
            assert len(opened) == 1
            # What opened the model first: of a copy made before its end, nothing that comes later shares the memory.
            for process in (opened if opened_dies else []) + list(before):
                os.kill(process, signal.SIGKILL)
            end = time.monotonic() + LIMIT_S
            while set(model_processes(server)) & before:
                assert time.monotonic() < end
            after = await_processes(server, 2)
            assert not after & before
            np.testing.assert_array_equal(infer(client), answer)
            assert all(own_mb(process) < WEIGHTS_MB / 4 for process in after)
    assert server.stop() == 0, server.log.read_text()


def test_the_processes_of_several_workers_share_the_weights(models, tmp_path):
    server = Server(tmp_path, models, CONFIG + "{{count: 3, isolation: process, per_process: 1, "
                    f"process_memory_mb: {MEMORY_MB}}}}}\n")
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        answer = infer(client)
        for _ in range(6):
            np.testing.assert_array_equal(infer(client), answer)
    processes = model_processes(server)
    assert len(processes) == 3
    assert all(own_mb(process) < WEIGHTS_MB / 4 for process in processes)
    for process in processes + model_processes(server, "opened-model"):
        expect_confined(process)
    assert server.stop() == 0, server.log.read_text()


def test_processes_whose_model_has_threads_of_its_own_read_their_own_weights(models, tmp_path):
    server = Server(tmp_path, models, CONFIG + "{{count: 1, threads: 2, isolation: process, standby: 1}}\n")
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        assert infer(client) is not None
        assert all(own_mb(process) > WEIGHTS_MB / 2 for process in await_processes(server, 2))
    assert server.stop() == 0, server.log.read_text()
