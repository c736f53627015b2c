"""What no well-behaved client sends: each a clear error, and the server goes on."""

import http.client
import json

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tensors import digits, infer, tensor

IMAGE = {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0] * 64}


def post(server, body, headers=None, model="digits"):
    """Status and error of one raw request."""
    connection = http.client.HTTPConnection(server.http, timeout=30)
    connection.request("POST", f"/v2/models/{model}/infer", body, headers or {})
    reply = connection.getresponse()
    content = json.loads(reply.read())
    connection.close()
    return reply.status, content.get("error", "")


def with_image(**changes):
    return json.dumps({"inputs": [{**IMAGE, **changes}]})


@pytest.mark.parametrize("body, word", [
    ("", ""),
    ("{", ""),
    ("[]", ""),
    ("null", ""),
    ('{"inputs": 3}', "inputs"),
    ('{"inputs": []}', "image"),
    ("{}", "inputs"),
    ('{"inputs": [{"name": "image"}]}', ""),
    (b"\xff\xfe{}", ""),
    ("[" * 100000, ""),
    (with_image(name="picture"), "image"),
    (with_image(shape=[1, 63]), "shape"),
    (with_image(shape=[1, -64]), "shape"),
    (with_image(shape=[2, 64]), ""),
    (with_image(shape=[2**62, 64]), ""),
    (with_image(shape="1,64"), "shape"),
    (with_image(datatype="FP64"), "FP64"),
    (with_image(datatype="FP33"), "FP33"),
    (with_image(data=[0] * 63), ""),
    (with_image(data=["a"] * 64), ""),
    (with_image(data=[[0] * 64, [0] * 64]), ""),
    (with_image(parameters={"binary_data_size": 256}), ""),
    (json.dumps({"inputs": [IMAGE, IMAGE]}), ""),
    (json.dumps({"inputs": [IMAGE], "outputs": [{"name": "nothing"}]}), "nothing"),
    (json.dumps({"inputs": [IMAGE], "parameters": {"timeout": "soon"}}), "timeout"),
    (json.dumps({"inputs": [IMAGE], "parameters": {"timeout": -5}}), "timeout"),
])
def test_bad_json_requests_are_refused(server, body, word):
    status, error = post(server, body)
    assert status == 400, error
    assert error and word in error
    assert post(server, with_image())[0] == 200


def binary(size, length, tail=b""):
    """A request in the binary extension that claims `size` bytes of tensor."""
    head = json.dumps({"inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32",
                                   "parameters": {"binary_data_size": size}}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head) if length is None else length)}
    return head + tail, headers


@pytest.mark.parametrize("size, length, tail", [
    (256, None, b"\0" * 255),
    (256, None, b"\0" * 257),
    (255, None, b"\0" * 255),
    (2**63, None, b"\0" * 256),
    (-1, None, b"\0" * 256),
    (256, 10**9, b"\0" * 256),
    (256, -1, b"\0" * 256),
    (256, "many", b"\0" * 256),
    (256, 5, b"\0" * 256),
])
def test_sizes_that_lie_are_refused(server, size, length, tail):
    status, error = post(server, *binary(size, length, tail))
    assert status == 400 and error
    assert post(server, *binary(256, None, b"\0" * 256))[0] == 200


def test_a_body_that_is_no_gzip_is_refused(server):
    status, error = post(server, b"\x1f\x8b nonsense", {"Content-Encoding": "gzip"})
    assert status == 400 and error


def test_an_unknown_encoding_is_refused(server):
    status, error = post(server, with_image(), {"Content-Encoding": "rot13"})
    assert status == 501 and "rot13" in error


def test_unknown_models_and_versions(triton):
    for model, version in (("nobody", ""), ("digits", "99"), ("digits", "latest")):
        with pytest.raises(InferenceServerException, match=model):
            infer(triton, model, {"image": digits()}, model_version=version)


def test_unknown_paths_and_methods(server):
    connection = http.client.HTTPConnection(server.http, timeout=30)
    for method, path, expected in (("GET", "/v3", 404), ("GET", "/v2/models/digits/infer", 405),
                                   ("DELETE", "/v2/health/live", 405)):
        connection.request(method, path)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == expected, path


@pytest.mark.parametrize("values", [
    np.zeros((1, 63), np.float32), np.zeros(64, np.float32), np.zeros((1, 64), np.float64),
    np.zeros((1, 8, 8), np.float32), np.zeros((0, 64), np.float32),
])
def test_wrong_tensors_are_refused(triton, values):
    with pytest.raises(InferenceServerException, match="image"):
        infer(triton, "digits", {"image": values})
    assert infer(triton, "digits", {"image": digits()})["label"].shape == (1, 1)


def test_more_items_than_a_batch_holds_are_answered_and_more_than_the_limit_refused(triton):
    assert infer(triton, "digits-linear", {"image": digits(1000)})["label"].shape == (1000, 1)
    with pytest.raises(InferenceServerException, match="limits.request_parts"):
        infer(triton, "digits-linear", {"image": digits(64 * 1024 + 1)})


def test_content_that_does_not_fit_its_shape_over_grpc(grpc):
    import tritonclient.grpc as module
    image = tensor(module, "image", digits())
    image._raw_content = image._raw_content[:-4]
    with pytest.raises(InferenceServerException, match="INVALID_ARGUMENT"):
        grpc.infer("digits", [image])


def test_one_bad_request_among_good_ones_fails_alone(http):
    import tritonclient.http as module
    good = tensor(module, "image", digits())
    bad = tensor(module, "image", np.zeros((1, 65), np.float32))
    calls = [http.async_infer("digits", [bad if n == 3 else good]) for n in range(8)]
    for n, call in enumerate(calls):
        if n == 3:
            with pytest.raises(InferenceServerException):
                call.get_result()
        else:
            assert call.get_result().as_numpy("label").shape == (1, 1)
