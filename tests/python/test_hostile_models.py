"""What a hostile author of a model can do: its requests end, and the server and its other models go on."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import attack_models  # noqa: E402
import hostile_models  # noqa: E402


@pytest.fixture(scope="module")
def served():
    # No run of the canary lasts so long, also where the machine is busy.
    with attack_models.Served(hostile_models.ATTACKS, run_limit_s=5) as server:
        yield server


@pytest.mark.parametrize("how", hostile_models.ATTACKS)
def test_a_hostile_model_costs_its_own_requests_only(served, how):
    with served.client() as client:
        for _ in range(2):
            attack_models.ask(client, how.lower(), 1)  # ends, whatever with
            assert served.alive(), served.log.read_text()
            client.infer("canary", attack_models.request(0), timeout=60_000_000)


def test_a_worker_of_another_process_brings_python_models_and_survives_them():
    with attack_models.Clustered(["sizes", "exit"], run_limit_s=5) as cluster, cluster.client() as client:
        assert attack_models.ask(client, "sizes", 0) == ""
        for how in ("sizes", "exit"):
            assert attack_models.ask(client, how, 1) != ""
        assert cluster.alive()
        client.infer("canary", attack_models.request(0), timeout=60_000_000)
