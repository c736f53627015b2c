"""The server as a pod of the chart has it: another user, no capabilities, no new privileges, a root that cannot be written
but for /tmp. (The profile RuntimeDefault of seccomp is a container runtime's; what it must allow is in docs/kubernetes.md.)"""

import os
import shutil
import subprocess

import numpy as np
import pytest
import tritonclient.http
from conftest import ROOT, Server
from tensors import tensor

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, isolation: %s}}
"""
INSIDE = """mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -o remount,bind,ro / &&
exec setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all env HOME=/tmp "$@" """


class Pod(Server):
    @staticmethod
    def start(command, **more):
        return subprocess.Popen(["unshare", "--mount", "bash", "-c", INSIDE, "bash", *map(str, command)], **more)


@pytest.fixture
def place():
    """A folder that is seen when /tmp is another."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can make a namespace for the pod, with util-linux's setpriv")
    folder = ROOT / "build" / f"pod-{os.getpid()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_it_serves_without_privileges(place, isolation):
    models = place / "models"
    (models / "gather").mkdir(parents=True)
    shutil.copytree(ROOT / "tests/data/repository/gather/1", models / "gather/1")
    server = Pod(place, models, CONFIG % isolation)
    with tritonclient.http.InferenceServerClient(server.http) as client:
        answer = client.infer("gather", [tensor(tritonclient.http, "index", np.array([[2]], np.int64))])
        assert answer.as_numpy("value").tolist() == [[20]]
    assert server.stop() == 0, server.log.read_text()
