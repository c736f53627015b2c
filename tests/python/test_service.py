"""What a server says about itself and its models, over both protocols."""

import json
import urllib.request

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tensors import digits, infer


def plain(answer):
    """A message as the dictionary that HTTP would have given."""
    if isinstance(answer, (dict, list)):
        return answer
    from google.protobuf.json_format import MessageToDict
    return MessageToDict(answer, preserving_proto_field_name=True,
                         always_print_fields_with_no_presence=True)


def test_health(triton):
    assert triton.client.is_server_live()
    assert triton.client.is_server_ready()
    assert triton.client.is_model_ready("digits")
    assert triton.client.is_model_ready("digits", "1")
    assert not triton.client.is_model_ready("no-such-model")


def test_kserve_reads_health_from_the_body(server):
    for path, field in (("live", "live"), ("ready", "ready")):
        with urllib.request.urlopen(f"http://{server.http}/v2/health/{path}") as reply:
            assert json.load(reply)[field] is True


def test_server_metadata(triton):
    metadata = plain(triton.client.get_server_metadata())
    assert metadata["name"] == "fermata"
    assert {"binary_tensor_data", "statistics"} <= set(metadata["extensions"])


def test_model_metadata_is_read_from_the_onnx_file(triton):
    metadata = plain(triton.client.get_model_metadata("digits"))
    assert metadata["versions"] == ["1"]
    assert metadata["platform"] == "onnxruntime_onnx"
    (image,) = metadata["inputs"]
    assert image["name"] == "image" and image["datatype"] == "FP32"
    assert [int(n) for n in image["shape"]] == [-1, 64]
    shapes = {t["name"]: [int(n) for n in t["shape"]] for t in metadata["outputs"]}
    assert shapes == {"probabilities": [-1, 10], "label": [-1, 1]}


def test_model_config_is_completed(triton):
    config = plain(triton.client.get_model_config("digits"))
    config = config.get("config", config)
    assert config["max_batch_size"] > 1
    assert [int(n) for n in config["input"][0]["dims"]] == [64]
    assert config["input"][0]["data_type"] == "TYPE_FP32"


def test_unknown_models_are_named(triton):
    for ask in (triton.client.get_model_metadata, triton.client.get_model_config):
        with pytest.raises(InferenceServerException, match="no-such-model"):
            ask("no-such-model")


def test_repository_index(triton):
    index = plain(triton.client.get_model_repository_index())
    models = index if isinstance(index, list) else index["models"]
    states = {model["name"]: model["state"] for model in models}
    assert states["digits-linear"] == "READY"


def test_models_can_be_unloaded_and_loaded(triton):
    triton.client.unload_model("digits-cnn-small")
    assert not triton.client.is_model_ready("digits-cnn-small")
    with pytest.raises(InferenceServerException):
        infer(triton, "digits-cnn-small", {"image": digits()})
    triton.client.load_model("digits-cnn-small")
    assert triton.client.is_model_ready("digits-cnn-small")
    assert infer(triton, "digits-cnn-small", {"image": digits()})["label"].shape == (1, 1)


def statistics(triton, model):
    (entry,) = plain(triton.client.get_inference_statistics(model))["model_stats"]
    return entry


def test_statistics_count(triton):
    def counts():
        entry = statistics(triton, "digits-linear")
        return int(entry["inference_count"]), int(entry["inference_stats"]["success"]["count"])

    infer(triton, "digits-linear", {"image": digits()})
    items, requests = counts()
    infer(triton, "digits-linear", {"image": digits(5)})
    assert counts() == (items + 5, requests + 1)


def test_statistics_have_every_field_perf_analyzer_reads(triton):
    infer(triton, "digits-linear", {"image": digits()})
    entry = statistics(triton, "digits-linear")
    for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert int(entry["inference_stats"][part]["count"]) > 0
        assert int(entry["inference_stats"][part]["ns"]) > 0
    assert int(entry["execution_count"]) > 0


def test_metrics_under_triton_names(server, triton):
    infer(triton, "digits-linear", {"image": digits()})
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        text = reply.read().decode()
    for name in ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count",
                 "nv_inference_queue_duration_us", "nv_inference_pending_request_count"):
        assert name in text


def test_the_reply_explains_itself_when_asked(triton):
    image = np.repeat(digits(), 3, axis=0)
    result = triton.client.infer(
        "digits", [_image(triton, image)], parameters={"explain": True})
    response = plain(result.get_response())
    assert {"variant", "worker", "batch_size"} <= set(response["parameters"]), response["parameters"]


def _image(triton, values):
    from tensors import tensor
    return tensor(triton.module, "image", values)
