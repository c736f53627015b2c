"""Deadlines through Triton's clients: in time, or refused, and clearly so."""

import http.client
import json
import queue
import threading
import time

import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from conftest import START_LIMIT_S
from tensors import digits, infer, tensor

# No machine answers a network of several milliseconds within this.
TOO_SHORT_US = 1


def test_a_deadline_that_cannot_be_met_is_refused(triton):
    with pytest.raises(InferenceServerException) as refusal:
        infer(triton, "digits", {"image": digits()}, timeout=TOO_SHORT_US)
    expected = {"http": "504", "grpc": "StatusCode.DEADLINE_EXCEEDED"}[triton.protocol]
    assert expected in str(refusal.value.status())
    assert "ms" in refusal.value.message()  # it says what the budget was


def test_a_lone_request_does_not_wait_for_company_until_its_deadline(triton):
    """Holding a batch back is for those that others will join."""
    minute_us = 60_000_000
    result = triton.client.infer("digits-cnn-medium", [tensor(triton.module, "image", digits())],
                                 timeout=minute_us, parameters={"explain": True})
    parameters = result.get_response()
    parameters = parameters["parameters"] if isinstance(parameters, dict) else parameters.parameters
    remaining = parameters["remaining_us"]
    assert getattr(remaining, "int64_param", remaining) > minute_us / 2


def test_clients_that_always_send_a_grpc_deadline_are_served(grpc):
    image = tensor(tritonclient.grpc, "image", digits())
    assert grpc.infer("digits", [image], client_timeout=START_LIMIT_S).as_numpy("label").shape == (1, 1)


def test_the_http_refusal_has_the_protocols_body(server):
    connection = http.client.HTTPConnection(server.http, timeout=30)
    body = {"inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0] * 64}],
            "parameters": {"timeout": TOO_SHORT_US}}
    connection.request("POST", "/v2/models/digits/infer", json.dumps(body))
    reply = connection.getresponse()
    assert reply.status == 504
    assert json.loads(reply.read())["error"]


def test_a_grpc_deadline_tightens_the_services(grpc):
    image = tensor(tritonclient.grpc, "image", digits(64))
    with pytest.raises(InferenceServerException, match="Deadline Exceeded|DEADLINE_EXCEEDED"):
        grpc.infer("digits", [image], client_timeout=0.001)


def test_a_full_queue_refuses_at_once(grpc):
    """Of many at the same time, a queue of two lets some in and refuses the others."""
    image = tensor(tritonclient.grpc, "image", digits(8))
    end, ended = time.monotonic() + START_LIMIT_S, threading.Semaphore(0)
    refused = []
    while not refused:  # a client that the system stops for a while sends them one after another
        assert time.monotonic() < end
        errors = []

        def done(result, error, errors=errors):
            errors.append(error)
            ended.release()

        for _ in range(40):
            grpc.async_infer("narrow", [image], done)
        for _ in range(40):
            assert ended.acquire(timeout=START_LIMIT_S)
        refused = [error for error in errors if error]
        assert len(refused) < 40
    assert all("RESOURCE_EXHAUSTED" in str(error.status()) for error in refused)


def test_a_cancelled_request_ends_as_cancelled(grpc):
    image = tensor(tritonclient.grpc, "image", digits(16))
    end, seen = time.monotonic() + START_LIMIT_S, queue.Queue()
    error = None
    while error is None:  # it may have been answered before it is cancelled
        assert time.monotonic() < end
        grpc.async_infer("digits", [image], lambda result, error: None)  # keeps the worker busy
        grpc.async_infer("digits", [image], lambda result, error: seen.put(error)).cancel()
        error = seen.get(timeout=START_LIMIT_S)
    assert "CANCELLED" in str(error.status())
    assert grpc.infer("digits", [image]).as_numpy("label").shape == (16, 1)
