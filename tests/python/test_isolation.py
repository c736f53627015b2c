"""Where models run if nothing says where, and what a server says that cannot start processes for them."""

import ctypes
import pathlib
import platform
import re
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import FERMATA, ROOT, Server
from hosted import sum_metric
from python_models import ADD_SUB, ADD_SUB_CONFIG, write
from tensors import tensor
from test_deaths import infer, model_processes, tritonclient

LIMIT_S = 120
PRCTL = {"x86_64": 157, "aarch64": 167}
CONFIG = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"


@pytest.fixture
def models(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "gather").symlink_to(ROOT / "tests" / "data" / "repository" / "gather")
    return models


def deny_filters():
    """From here on nothing may install a filter of system calls, as in some sandboxes."""
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    instructions = [(0x20, 0, 0, 0),  # the call's number
                    (0x15, 0, 3, PRCTL[platform.machine()]),
                    (0x20, 0, 0, 16),  # its first argument
                    (0x15, 0, 1, PR_SET_SECCOMP),
                    (0x06, 0, 0, 0x00050000 | 22),  # EINVAL
                    (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) == 0


def test_models_run_in_processes_unless_a_configuration_says_otherwise(models, tmp_path, monkeypatch):
    monkeypatch.delenv("FERMATA_ISOLATION", raising=False)
    server = Server(tmp_path, models, CONFIG)
    assert len(model_processes(server)) == 1
    assert server.stop() == 0, server.log.read_text()
    server = Server(tmp_path, models, CONFIG + "workers: {{isolation: thread}}\n")
    assert not model_processes(server)
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.skipif(platform.machine() not in PRCTL, reason="the number of prctl is not known for this machine")
def test_a_system_that_confines_no_process_is_named_with_what_to_write(models, tmp_path, monkeypatch):
    monkeypatch.delenv("FERMATA_ISOLATION", raising=False)
    config = pathlib.Path(tmp_path / "fermata.yaml")
    config.write_text(CONFIG.format(models=models))
    done = subprocess.run([FERMATA, "serve", "--config", config], text=True, capture_output=True, timeout=120,
                          preexec_fn=deny_filters)
    assert done.returncode == 2, done.stderr
    assert "models cannot run in processes of their own here: the system denies a filter of system calls" in done.stderr
    assert "`workers: {isolation: thread}` in fermata.yaml" in done.stderr
    monkeypatch.setattr(Server, "start", staticmethod(
        lambda *words, **options: subprocess.Popen(*words, preexec_fn=deny_filters, **options)))
    server = Server(tmp_path, models, CONFIG + "workers: {{isolation: thread}}\n")
    with tritonclient.http.InferenceServerClient(server.http) as client:
        assert infer(client) is not None
    assert server.stop() == 0, server.log.read_text()


def environment(process):
    """The names of its variables when its program began."""
    text = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode()
    return {variable.partition("=")[0] for variable in text.split("\0") if variable}


def test_models_see_what_libraries_need_and_what_the_configuration_names(models, tmp_path, monkeypatch):
    monkeypatch.delenv("FERMATA_ISOLATION", raising=False)
    write(models, "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    server = Server(tmp_path, models, CONFIG + "workers: {{isolation: process, standby: 1, python: PYTHON, "
                    "environment: [MODEL_SETTING, NOT_SET]}}\n".replace("PYTHON", sys.executable),
                    {"AWS_SECRET_ACCESS_KEY": "s3cret", "MODEL_SETTING": "1", "OMP_WAIT_POLICY": "PASSIVE"})
    end = time.monotonic() + LIMIT_S
    while sum_metric(server.metrics, "fermata_model_standby") != 2:
        assert time.monotonic() < end, server.log.read_text()
    processes = {name: model_processes(server, name) for name in ("nursery", "opened-model", "model-process")}
    python = [child for child in model_processes(server, None) if child not in sum(processes.values(), [])]
    assert len(python) == 2 and all(processes.values())
    for process in [*python, *sum(processes.values(), [])]:
        assert {"PATH", "MODEL_SETTING", "OMP_WAIT_POLICY"} <= environment(process)
        assert not {"AWS_SECRET_ACCESS_KEY", "NOT_SET"} & environment(process)
    assert server.stop() == 0, server.log.read_text()


def test_a_name_that_is_none_of_a_variable_is_said_where_it_stands(models, tmp_path):
    config = pathlib.Path(tmp_path / "fermata.yaml")
    config.write_text(CONFIG.format(models=models) + "workers: {environment: [GOOD, 'KEY=1']}\n")
    done = subprocess.run([FERMATA, "serve", "--config", config], text=True, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert "$.workers.environment[1]" in done.stderr and "a variable's name" in done.stderr, done.stderr


def own_mb(process):
    """Memory of a process that it shares with no file and no other process."""
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{process}/status").read_text())[1]) / 1024


def test_what_a_large_run_leaves_in_the_process_of_a_model_goes_back(models, tmp_path, monkeypatch):
    monkeypatch.delenv("FERMATA_ISOLATION", raising=False)
    (models / "identity-uint8").symlink_to(ROOT / "tests" / "data" / "repository" / "identity-uint8")
    server = Server(tmp_path, models, CONFIG)
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        for size in (1 << 20, 48 << 20):  # the library never gives back the first memory that it has taken
            client.infer("identity-uint8", [tensor(tritonclient.http, "x", np.zeros((1, size), np.uint8))])
        end = time.monotonic() + LIMIT_S
        while max(own_mb(process) for process in model_processes(server)) > 40:
            assert time.monotonic() < end and client.is_server_live()
    assert server.stop() == 0, server.log.read_text()
