"""Clients in closed loops over gRPC and HTTP, who count how each of their calls ends."""

import collections
import http.client
import json
import threading
import time

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

PAUSE_S = 0.05  # after a call that failed, as clients that try again have
QUIET_S = 0.5  # after a second without a request a server that stops closes a connection: its client is none in a closed loop
LIMIT_S = 120


class ClosedLoops:
    """`count` clients of each protocol, of a model that takes `x`, FP32 [1, 2]."""

    def __init__(self, grpc_address, http_address, model, count):
        self.ends = collections.Counter()
        self._addresses = {"grpc": grpc_address, "http": http_address}
        self._model = model
        self._changed = threading.Condition()
        self._stopped = False
        loops = [loop for loop in (self._grpc, self._http) for _ in range(count)]
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    def wait_for(self, calls):
        """Until so many have ended, of both protocols."""
        with self._changed:
            enough = self._changed.wait_for(
                lambda: min(self.ends["grpc OK"], self.ends["http 200"]) >= calls, LIMIT_S)
        assert enough, self.ends

    def stop(self):
        """How calls ended: "grpc CODE", "http STATUS", or "http ERROR" of one that was sent and has no answer."""
        self._stopped = True
        for thread in self._threads:
            thread.join(LIMIT_S)
        return self.ends

    def _count(self, end):
        with self._changed:
            self.ends[end] += 1
            self._changed.notify_all()

    def _grpc(self):
        request = service_pb2.ModelInferRequest(model_name=self._model)
        request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
        request.raw_input_contents.append(np.ones(2, np.float32).tobytes())
        own = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self._addresses["grpc"], options=own) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            while not self._stopped:
                try:
                    stub.ModelInfer(request)
                    self._count("grpc OK")
                except grpc.RpcError as failed:
                    self._count(f"grpc {failed.code().name}")
                    time.sleep(PAUSE_S)

    def _http(self):
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})
        connection = http.client.HTTPConnection(self._addresses["http"], timeout=LIMIT_S)
        before = began = 0.0  # when the last two calls began
        while not self._stopped:
            try:
                if connection.sock is None:
                    began = time.monotonic()
                    connection.connect()
            except OSError:  # nobody listens: nothing was sent
                time.sleep(PAUSE_S)
                continue
            try:
                before, began, sent = began, time.monotonic(), None
                connection.request("POST", f"/v2/models/{self._model}/infer", body)
                sent = time.monotonic()
                reply = connection.getresponse()
                reply.read()
                self._count(f"http {reply.status}")
                if reply.status != 200:
                    time.sleep(PAUSE_S)
            except (OSError, http.client.HTTPException) as failed:
                if (sent or time.monotonic()) - before < QUIET_S:  # else the machine has stopped this thread for long
                    self._count(f"http {type(failed).__name__}")
                connection.close()
                time.sleep(PAUSE_S)
        connection.close()
