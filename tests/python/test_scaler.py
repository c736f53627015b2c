"""KEDA's external scaler, asked as KEDA asks: by KEDA's own proto where it is there, else by ours."""

import contextlib
import subprocess
import threading
import time

import grpc as grpcio
import pytest
import hosted
from conftest import ROOT, START_LIMIT_S
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from test_cluster import LIMIT_S, cluster, infer  # noqa: F401
from tritonclient.utils import InferenceServerException

RUN_MS = 1000
DEADLINE_US = 1_500_000  # whoever comes in the second half of a run waits too long for the next
KEDA = ROOT / ".deps/kubernetes/keda/externalscaler.proto"
PROTOS = [pytest.param(ROOT / "proto/externalscaler.proto", id="ours"),
          pytest.param(KEDA, id="keda", marks=pytest.mark.skipif(
              not KEDA.exists(), reason="KEDA's proto is not there: scripts/deps.sh kubernetes brings it"))]
METHODS = {"IsActive": ("ScaledObjectRef", "IsActiveResponse"), "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse"),
           "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse")}


class Keda:
    """A client of the service that a proto describes."""

    def __init__(self, proto, address, folder):
        subprocess.run(["protoc", f"--proto_path={proto.parent}", f"--descriptor_set_out={folder / 'set'}", proto.name], check=True)
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
            pool.Add(file)
        self.message = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"externalscaler.{name}"))
        self.channel = grpcio.insecure_channel(address)

    def call(self, method, request):
        _, answer = METHODS[method]
        return self.channel.unary_unary(f"/externalscaler.ExternalScaler/{method}", type(request).SerializeToString,
                                        self.message(answer).FromString)(request, timeout=LIMIT_S)

    def active(self, request):
        return self.channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive", type(request).SerializeToString,
                                         self.message("IsActiveResponse").FromString)(request, timeout=LIMIT_S)

    def object(self, **metadata):
        return self.message("ScaledObjectRef")(name="far", namespace="default", scalerMetadata=metadata)

    def wanted(self, **metadata):
        asked = self.message("GetMetricsRequest")(scaledObjectRef=self.object(**metadata), metricName="workers_wanted")
        (value,) = self.call("GetMetrics", asked).metricValues
        assert value.metricName == "workers_wanted"
        assert value.metricValue == value.metricValueFloat
        return value.metricValue

    def close(self):
        self.channel.close()


@pytest.fixture(params=PROTOS)
def scaled(request, cluster, tmp_path):  # noqa: F811
    server = cluster()
    client = Keda(request.param, server.grpc, tmp_path)
    yield server, client
    client.close()


def failure(call, *arguments, **more):
    with pytest.raises(grpcio.RpcError) as failed:
        call(*arguments, **more)
    return failed.value.code(), failed.value.details()


def test_what_keda_asks_is_answered(scaled):
    server, keda = scaled
    assert keda.call("IsActive", keda.object(workerType="far")).result
    (spec,) = keda.call("GetMetricSpec", keda.object(workerType="far", workersPerPod="2", scalerAddress="x:1")).metricSpecs
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("workers_wanted", 2, 2)
    stream = keda.active(keda.object())
    assert next(stream).result
    stopped = threading.Thread(target=lambda: server.process.terminate())
    stopped.start()
    with pytest.raises(grpcio.RpcError) as ended:
        next(stream)
    assert ended.value.code() == grpcio.StatusCode.UNAVAILABLE
    stopped.join()
    server.process.wait(START_LIMIT_S)


def test_errors_name_what_is_there_and_what_was_expected(scaled):
    _, keda = scaled
    code, text = failure(keda.call, "IsActive", keda.object(workerType="nope"))
    assert code == grpcio.StatusCode.INVALID_ARGUMENT
    assert "'nope', expected one of: far" in text
    for wrong in ("0", "x", "1.5", "-1", "9999999999"):
        code, text = failure(keda.call, "GetMetricSpec", keda.object(workersPerPod=wrong))
        assert code == grpcio.StatusCode.INVALID_ARGUMENT
        assert f"'{wrong}', expected a number from 1" in text
    with pytest.raises(grpcio.RpcError) as failed:
        next(keda.active(keda.object(workerType="nope")))
    assert failed.value.code() == grpcio.StatusCode.INVALID_ARGUMENT


class Crowd:
    """Clients whose requests one worker cannot all answer in time; those it could not are refused or late."""

    def __init__(self, server, clients=12):
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(server,)) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, server):
        with server.client() as client:
            while not self.stopping.is_set():
                with contextlib.suppress(InferenceServerException):
                    infer(client, timeout=DEADLINE_US)

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(LIMIT_S)


@pytest.fixture
def slow(monkeypatch):
    """Models of the cluster take RUN_MS."""
    ms = {key: RUN_MS for key in ("p50_ms", "p90_ms", "p99_ms", "mean_ms")} | {"runs": 9}
    monkeypatch.setattr(hosted, "PROFILE", hosted.PROFILE | {
        "batches": {"1": ms, "4": ms}, "linear_ms": {"alpha": 0, "beta": RUN_MS, "error": 0},
        "quadratic_ms": {"a": 0, "b": 0, "c": RUN_MS, "error": 0}})


def test_more_workers_are_wanted_while_requests_are_late(slow, scaled):
    server, keda = scaled

    def wanted():
        """None as long as no interval has ended."""
        try:
            return keda.wanted(workerType="far")
        except grpcio.RpcError as early:
            assert (early.code(), "no interval" in early.details()) == (grpcio.StatusCode.UNAVAILABLE, True)
            return None

    assert wanted() in (None, 1)  # on a slow machine an interval may be over
    server.worker("one")
    server.await_metric(1, "fermata_worker_serving", type="far")
    crowd = Crowd(server)
    end = time.monotonic() + LIMIT_S
    try:
        while (most := wanted() or 0) < 2:
            assert time.monotonic() < end, f"{most} workers are wanted"
        while server.metric("fermata_workers_wanted", type="far") < 2:
            assert time.monotonic() < end
    finally:
        crowd.end()
    assert most <= 4  # as many as there may be
