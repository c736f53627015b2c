"""A server and its workers on hosts of their own (network namespaces): what befalls a worker costs nobody an answer."""

import signal
import socket
import time

import hosts
import hosted
import pytest


@pytest.fixture(scope="module", autouse=True)
def possible():
    if why := hosts.missing():
        pytest.skip(why)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Silence is long, so that on a busy machine only who really says nothing is given up. The rules stay: those that
    one fault suggests may hold batches so long that the next fault leaves no time."""
    with hosted.Cluster(tmp_path_factory.mktemp("cluster"), silence_ms=2000, more="scheduler_tuning: off") as made:
        made.bring_all()
        yield made


@pytest.mark.parametrize("fault", hosted.FAULTS)
def test_what_befalls_a_worker_costs_nobody_an_answer(cluster, fault):
    if fault == "is_far_away" and hosts.no_delay():
        pytest.skip(hosts.no_delay())

    def until_noticed(before, over):
        if fault in hosted.NOTICED:
            return cluster.await_metric(lambda goings: goings > before, "fermata_host_ends_total", host="two")
        batches = cluster.metric("fermata_host_batches_total") + 20
        cluster.await_metric(lambda now: now > batches or over(), "fermata_host_batches_total")
    outcome = hosted.ask_during(cluster, hosted.FAULTS[fault], "two", until_noticed, seconds=2, deadlines_ms=(60_000, 500))
    assert outcome.findings() == [], cluster.server.log.read_text()


def test_workers_come_back_to_a_server_that_was_killed(cluster):
    cluster.server.kill()
    cluster.start_server()
    cluster.await_whole()

    def missed():
        return [worker.log.read_text().count("is gone") for worker in cluster.workers.values()]
    before, end = missed(), time.monotonic() + hosted.LIMIT_S
    cluster.server.signal(signal.SIGSTOP)  # as if its host hung
    while any(now == then for now, then in zip(missed(), before)):
        assert time.monotonic() < end
    cluster.server.signal(signal.SIGCONT)
    cluster.await_whole()


def test_a_link_that_is_cut_limited_or_delayed_is_so_for_these_two_only():
    with hosts.Network() as network:
        one, two, three = (network.host(name) for name in ("one", "two", "three"))
        with two.here():
            listener = socket.create_server((two.address, 0))
        port = listener.getsockname()[1]

        def connects(host, within_s=hosted.LIMIT_S):
            with host.here():
                try:
                    socket.create_connection((two.address, port), timeout=within_s).close()
                except TimeoutError:
                    return False
                return True
        assert connects(one) and connects(three)
        network.cut(one, two)
        assert not connects(one, within_s=1) and connects(three)
        network.mend(one, two)
        two.unplug()
        assert not connects(three, within_s=1)
        two.plug()
        assert connects(one) and connects(three)
        listener.close()
