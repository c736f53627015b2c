"""Two schedulers and a Lease of Kubernetes: who decides, and when another does. The API server is the test's own;
tests/python/test_kubernetes.py has a real one."""

import os
import subprocess
import threading
import time

import pytest
import tritonclient.http
import yaml
from conftest import FERMATA
from leases import DURATION_S, ApiServer
from parts import LIMIT_S, Parts
from test_frontends import infer


@pytest.fixture
def api(tmp_path):
    with ApiServer(tmp_path) as server:
        yield server


@pytest.fixture
def parts(tmp_path, api):
    made = Parts(tmp_path, run_ms=2, more=api.options)
    yield made
    made.kill()


def test_who_holds_the_lease_decides_and_the_next_follows_a_death(parts, api):
    first = parts.scheduler("first")
    holder = api.await_holder()
    assert api.leases["one"]["spec"]["leaseTransitions"] == 0 and api.leases["one"]["spec"]["leaseDurationSeconds"] == DURATION_S
    second = parts.scheduler("second")
    frontend = parts.frontend(second, first)  # the one that stands by comes first
    parts.worker(second, first)
    first.await_metric(2, "fermata_worker_serving")
    frontend.await_ready()
    with frontend.client() as client:
        assert infer(client) == [[20]]
        first.kill()
        assert infer(client) == [[20]]  # waits for the other
    api.await_holder(other_than=holder)
    assert api.leases["one"]["spec"]["leaseTransitions"] == 1
    assert second.metric("fermata_frontend_requests_total", frontend="frontend") == 1


def test_who_stands_by_wants_no_workers(parts, api):
    """So that of what all schedulers say the active one's counts, in a sum as in a maximum."""
    first = parts.scheduler("first")
    api.await_holder()
    second = parts.scheduler("second")
    assert [each.await_row("fermata_workers_wanted", type="far") for each in (first, second)] == [1, 0]


def test_a_lease_lasts_two_seconds_where_nothing_is_said(parts, api):
    parts.config.write_text(parts.config.read_text().replace(f"duration_s: {DURATION_S}, ", ""))
    parts.start("first", "scheduler", "--config", parts.config)
    api.await_holder()
    assert api.leases["one"]["spec"]["leaseDurationSeconds"] == 2


def test_one_that_starts_again_is_another_holder(parts, api):
    first = parts.scheduler("first")
    holder = api.await_holder()
    first.kill()
    parts.scheduler("again")
    api.await_holder(other_than=holder)
    assert api.leases["one"]["spec"]["leaseTransitions"] == 1


def test_who_ends_gives_it_up(parts, api):
    first = parts.scheduler("first")
    api.await_holder()
    assert first.stop() == 0
    assert api.holder() == ""


def test_who_cannot_renew_ends(parts, api):
    first = parts.scheduler("first")
    holder = api.await_holder()
    api.hang()
    assert first.process.wait(LIMIT_S) == 1
    assert "the lease is lost: not renewed for 9 s: PATCH https://localhost" in first.log.read_text()
    api.hang(False)
    parts.scheduler("second")
    api.await_holder(other_than=holder)


def test_requests_that_wait_survive_an_api_server_that_is_away(parts, api):
    """The scheduler ends, and is started again, as Kubernetes does."""
    first = parts.scheduler("first")
    api.await_holder()
    parts.config.write_text(parts.config.read_text().replace("listen: 127.0.0.1:0", f"listen: {first.said['cluster']}"))
    frontend = parts.frontend(first)
    parts.worker(first)
    first.await_metric(2, "fermata_worker_serving")
    frontend.await_ready()
    api.hang()
    first.process.wait(LIMIT_S)
    answers = []
    with frontend.client() as client:
        waits = threading.Thread(target=lambda: answers.append(infer(client)))
        waits.start()
        parts.scheduler("again")  # stands by
        api.hang(False)
        waits.join(LIMIT_S)
    assert answers == [[[20]]]


@pytest.mark.parametrize("what, words", [("token", "401: Unauthorized"), ("ca.crt", "certificate")])
def test_who_is_not_let_in_stands_by_and_says_why(parts, api, what, words):
    if what == "token":
        (api.account / "token").write_text("another")
    else:
        (api.account / "ca.crt").write_text("")
    first = parts.scheduler("first")
    frontend = parts.frontend(first)
    with frontend.client() as client, pytest.raises(tritonclient.utils.InferenceServerException):
        infer(client, timeout=200_000)
    end = time.monotonic() + LIMIT_S
    while words not in first.log.read_text():
        assert time.monotonic() < end, first.log.read_text()
    assert api.holder() == ""
    assert first.stop() == 0


@pytest.mark.parametrize("lease, words", [
    ({"name": "One"}, "cluster.lease.name: \"One\", expected a name of Kubernetes"),
    ({"name": "a/../b"}, "expected a name of Kubernetes"),
    ({}, "cluster.lease.name: missing"),
    ({"name": "one", "duration_s": 1}, "expected a whole number from 2 to 3600"),
    ({"name": "one", "server": "http://10.0.0.1:8001"}, "expected https://HOST:PORT"),
    ({"name": "one", "server": "localhost"}, "expected https://HOST:PORT"),
    ({"name": "one", "lock": "file"}, "expected either lock or lease"),
])
def test_errors_say_what_was_expected(tmp_path, lease, words):
    cluster = {"listen": "127.0.0.1:0", "lease": lease}
    if "lock" in lease:
        cluster["lock"] = lease.pop("lock")
    (tmp_path / "models").mkdir()
    config = tmp_path / "fermata.yaml"
    config.write_text(yaml.safe_dump({"models": "models", "cluster": cluster,
                                      "workers": {"types": [{"name": "far", "count": 1, "remote": True}]}}))
    checked = subprocess.run([FERMATA, "check", config], capture_output=True, text=True, timeout=LIMIT_S)
    assert checked.returncode != 0 and words in checked.stderr, checked.stderr


def test_outside_of_kubernetes_it_says_so(tmp_path):
    made = Parts(tmp_path, more="  lease: {name: one}")
    outside = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run([FERMATA, "scheduler", "--config", made.config], capture_output=True, text=True, timeout=LIMIT_S, env=outside)
    assert done.returncode != 0 and "this is no pod of Kubernetes" in done.stderr, done.stderr
