"""Inference through every door of Triton's clients: binary and JSON, all datatypes,
asynchronous, streaming, compressed, and through shared memory."""

import asyncio
import contextlib
import gzip
import json
import os
import pathlib
import queue
import threading
import urllib.request

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.http.aio
import tritonclient.utils.shared_memory as shared_memory

from tensors import digits, infer, tensor

DATATYPES = {
    "bool": np.array([[True, False, True]]),
    "uint8": np.array([[0, 255, 7]], np.uint8),
    "uint16": np.array([[0, 65535, 7]], np.uint16),
    "uint32": np.array([[0, 2**32 - 1, 7]], np.uint32),
    "uint64": np.array([[0, 2**64 - 1, 2**53 + 1]], np.uint64),
    "int8": np.array([[-128, 127, 0]], np.int8),
    "int16": np.array([[-2**15, 2**15 - 1, 0]], np.int16),
    "int32": np.array([[-2**31, 2**31 - 1, 0]], np.int32),
    "int64": np.array([[-2**63, 2**63 - 1, 0]], np.int64),
    "fp16": np.array([[-65504, 0.5, 0]], np.float16),
    "fp32": np.array([[1 / 3, -1e38, 0]], np.float32),
    "fp64": np.array([[1 / 3, -1e308, 0]], np.float64),
    "bytes": np.array([[b"", "größer".encode(), b"\x01" * 300]], np.object_),
}
# What JSON cannot carry travels in binary only.
JSON_DATATYPES = sorted(set(DATATYPES) - {"fp16"})


@pytest.mark.parametrize("name", DATATYPES)
def test_every_datatype_comes_back_as_it_went(triton, name):
    values = DATATYPES[name]
    found = infer(triton, f"identity-{name}", {"x": values})["y"]
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_bf16_comes_back_as_it_went(triton):
    values = np.array([[1.5, -2.0, 0.0, 3e38]], ml_dtypes.bfloat16)
    x = triton.module.InferInput("x", [1, 4], "BF16")
    x.set_data_from_numpy(values)
    found = triton.client.infer("identity-bf16", [x]).as_numpy("y")
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("name", JSON_DATATYPES)
@pytest.mark.parametrize("binary_out", [False, True])
def test_json_in_and_either_way_out(http, name, binary_out):
    values = DATATYPES[name]
    if name == "bytes":
        values = np.array([["", "größer", "x" * 300]], np.object_)
    x = tensor(tritonclient.http, "x", values, binary_data=False)
    y = tritonclient.http.InferRequestedOutput("y", binary_data=binary_out)
    found = http.infer(f"identity-{name}", [x], outputs=[y]).as_numpy("y")
    if name == "bytes":
        found = np.array([[v.decode() if isinstance(v, bytes) else v for v in found[0]]], object)
    np.testing.assert_array_equal(found, values)


def test_binary_in_and_json_out(http):
    x = tensor(tritonclient.http, "x", DATATYPES["fp64"])
    y = tritonclient.http.InferRequestedOutput("y", binary_data=False)
    found = http.infer("identity-fp64", [x], outputs=[y]).as_numpy("y")
    np.testing.assert_array_equal(found, DATATYPES["fp64"])


def test_several_inputs_and_outputs(triton):
    a, b = np.arange(8, dtype=np.int32).reshape(2, 4), np.full((2, 4), 3, np.int32)
    found = infer(triton, "pair", {"b": b, "a": a})
    np.testing.assert_array_equal(found["sum"], a + b)
    np.testing.assert_array_equal(found["difference"], a - b)


def test_only_the_outputs_that_were_asked_for(triton):
    wanted = [triton.module.InferRequestedOutput("difference")]
    a = np.ones((1, 4), np.int32)
    assert list(infer(triton, "pair", {"a": a, "b": a}, outputs=wanted)) == ["difference"]


def test_a_model_that_does_not_batch(triton):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(infer(triton, "whole", {"x": x})["y"], -x)


def test_identifiers_are_echoed(triton):
    image = tensor(triton.module, "image", digits())
    response = triton.client.infer("digits", [image], request_id="a-17").get_response()
    assert (response["id"] if isinstance(response, dict) else response.id) == "a-17"


def test_classification(triton):
    wanted = [triton.module.InferRequestedOutput("probabilities", class_count=3)]
    found = infer(triton, "digits", {"image": digits()}, outputs=wanted)["probabilities"]
    assert found.shape == (1, 3)
    values = [float(entry.decode().split(":")[0]) for entry in found[0]]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("way_in", [None, "gzip", "deflate"])
@pytest.mark.parametrize("way_out", [None, "gzip", "deflate"])
def test_http_compression(http, way_in, way_out):
    x = np.tile(np.arange(1000, dtype=np.float32), (1, 8))
    found = http.infer("identity-fp32", [tensor(tritonclient.http, "x", x)],
                       request_compression_algorithm=way_in, response_compression_algorithm=way_out)
    np.testing.assert_array_equal(found.as_numpy("y"), x)


def test_long_metrics_are_compressed(server):
    request = urllib.request.Request(f"http://{server.metrics}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        assert b"fermata_uptime_seconds" in gzip.decompress(reply.read())


# It sends Accept-Encoding by habit and reads what it gets as plain text.
def test_tritons_asynchronous_client_reads_long_answers_of_operations(server):
    async def ask():
        async with tritonclient.http.aio.InferenceServerClient(server.http) as client:
            return await client.get_inference_statistics(), await client.get_model_repository_index()

    statistics, index = asyncio.run(ask())
    assert len(json.dumps(statistics)) > 1024 and len(statistics["model_stats"]) > 1 and len(index) > 1


def test_grpc_compression(grpc):
    x = np.zeros((1, 8000), np.float32)
    found = grpc.infer("identity-fp32", [tensor(tritonclient.grpc, "x", x)],
                       compression_algorithm="gzip")
    np.testing.assert_array_equal(found.as_numpy("y"), x)


def test_messages_beyond_grpcs_default_limit(triton):
    x = np.arange(3_000_000, dtype=np.float32).reshape(1, -1)  # 12 MB
    np.testing.assert_array_equal(infer(triton, "identity-fp32", {"x": x})["y"], x)


def test_a_whole_body_as_the_only_input(server):
    """Header length 0: the body is the input itself."""
    x = np.arange(64, dtype=np.float32)
    request = urllib.request.Request(
        f"http://{server.http}/v2/models/digits/infer", x.tobytes(),
        {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"})
    with urllib.request.urlopen(request) as reply:
        assert reply.status == 200 and b"probabilities" in reply.read()


def test_many_at_once(http):
    calls = [http.async_infer("identity-int32", [tensor(
        tritonclient.http, "x", np.full((1, 3), n, np.int32))]) for n in range(50)]
    for n, call in enumerate(calls):
        np.testing.assert_array_equal(call.get_result().as_numpy("y"), [[n, n, n]])


def test_streaming_keeps_order_and_survives_errors(grpc):
    answers = queue.Queue()
    grpc.start_stream(lambda result, error: answers.put((result, error)))
    for n in range(20):
        shape = (1, 64) if n != 7 else (1, 63)
        image = tensor(tritonclient.grpc, "image", np.zeros(shape, np.float32))
        grpc.async_stream_infer("digits", [image], request_id=str(n))
    seen = []
    for _ in range(20):
        result, error = answers.get(timeout=60)
        assert (result is None) != (error is None)
        seen.append("failed" if error else result.get_response().id)
    grpc.stop_stream()
    assert seen == [str(n) if n != 7 else "failed" for n in range(20)]


@pytest.mark.parametrize("shape", [(1, 0), (3, 0)])
def test_items_without_a_byte_are_items(triton, shape):
    found = infer(triton, "identity-fp32", {"x": np.zeros(shape, np.float32)})
    assert found["y"].shape == shape


def test_items_without_a_byte_are_bounded_by_their_number(triton):
    with pytest.raises(triton.module.InferenceServerException, match="limits.request_parts"):
        infer(triton, "identity-fp32", {"x": np.zeros((64 * 1024 + 1, 0), np.float32)})


def test_an_item_without_a_byte_in_shared_memory(triton):
    region = shared_memory.create_shared_memory_region("empty", "/fermata-empty", 64)
    try:
        triton.client.register_system_shared_memory("empty", "/fermata-empty", 64)
        into = triton.module.InferInput("x", [1, 0], "FP32")
        into.set_shared_memory("empty", 0)
        out = triton.module.InferRequestedOutput("y")
        out.set_shared_memory("empty", 0)
        for outputs in (None, [out]):
            assert "y" in str(triton.client.infer("identity-fp32", [into], outputs=outputs).get_response())
    finally:
        triton.client.unregister_system_shared_memory("empty")
        shared_memory.destroy_shared_memory_region(region)


def test_shared_memory_both_ways(triton):
    x = np.arange(256, dtype=np.float32).reshape(1, -1)
    region = shared_memory.create_shared_memory_region("both", "/fermata-test", 2 * x.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [x])
        triton.client.register_system_shared_memory("both", "/fermata-test", 2 * x.nbytes)
        assert "both" in str(triton.client.get_system_shared_memory_status())
        into = triton.module.InferInput("x", list(x.shape), "FP32")
        into.set_shared_memory("both", x.nbytes)
        out = triton.module.InferRequestedOutput("y")
        out.set_shared_memory("both", x.nbytes, offset=x.nbytes)
        triton.client.infer("identity-fp32", [into], outputs=[out])
        found = shared_memory.get_contents_as_numpy(region, np.float32, [2, 256])
        np.testing.assert_array_equal(found[1:], x)
    finally:
        triton.client.unregister_system_shared_memory("both")
        shared_memory.destroy_shared_memory_region(region)
    assert "both" not in str(triton.client.get_system_shared_memory_status())


def test_a_region_that_is_cut_under_its_requests_fails_them_and_no_more(triton):
    path = pathlib.Path("/dev/shm/fermata-cut")
    x = np.arange(2**16, dtype=np.float32).reshape(1, -1)
    path.write_bytes(bytes(2 * x.nbytes))
    done = threading.Event()

    def cut():
        while not done.is_set():
            os.truncate(path, 0)
            os.truncate(path, 2 * x.nbytes)

    cutting = threading.Thread(target=cut)
    try:
        triton.client.register_system_shared_memory("cut", "/fermata-cut", 2 * x.nbytes)
        into = triton.module.InferInput("x", list(x.shape), "FP32")
        into.set_shared_memory("cut", x.nbytes)
        out = triton.module.InferRequestedOutput("y")
        out.set_shared_memory("cut", x.nbytes, offset=x.nbytes)
        cutting.start()
        for _ in range(200):
            with contextlib.suppress(triton.module.InferenceServerException):
                triton.client.infer("identity-fp32", [into], outputs=[out])
        done.set()
        cutting.join()
        os.truncate(path, 0)
        with pytest.raises(triton.module.InferenceServerException, match="cut"):
            triton.client.infer("identity-fp32", [into], outputs=[out])
        assert triton.client.is_server_live()
    finally:
        done.set()
        triton.client.unregister_system_shared_memory("cut")
        path.unlink()


def test_a_region_that_is_too_small_is_refused(triton):
    region = shared_memory.create_shared_memory_region("small", "/fermata-small", 64)
    try:
        triton.client.register_system_shared_memory("small", "/fermata-small", 64)
        into = triton.module.InferInput("x", [1, 256], "FP32")
        into.set_shared_memory("small", 1024)
        with pytest.raises(triton.module.InferenceServerException, match="small"):
            triton.client.infer("identity-fp32", [into])
    finally:
        triton.client.unregister_system_shared_memory()
        shared_memory.destroy_shared_memory_region(region)
