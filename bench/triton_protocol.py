"""The same good and bad requests to Fermata and to Triton: what each answers, side by side.

    rows = triton_protocol.compare(fermata, triton, "dense")

A row says in which of status, content type, JSON and values the two differ, and whether the table "Where
Triton answers otherwise" of docs/protocol.md names the case.
"""

import http.client
import json
import re
import struct

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from server import ROOT

DATA = [float(i) for i in range(16)]
GOOD = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": DATA}]}


def changed(**fields):
    return {"inputs": [GOOD["inputs"][0] | fields]}


def http_cases(model):
    infer = f"/v2/models/{model}/infer"
    framed = json.dumps({"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32",
                                     "parameters": {"binary_data_size": 64}}]}).encode()
    length = {"Inference-Header-Content-Length": str(len(framed))}
    raw = struct.pack("<16f", *DATA)
    gets = {"live": "/v2/health/live", "ready": "/v2/health/ready", "server metadata": "/v2",
            "model metadata": f"/v2/models/{model}", "model ready": f"/v2/models/{model}/ready",
            "model config": f"/v2/models/{model}/config", "model statistics": f"/v2/models/{model}/stats",
            "all statistics": "/v2/models/stats", "metadata of a version": f"/v2/models/{model}/versions/1",
            "metadata of an unknown model": "/v2/models/nobody", "readiness of an unknown model": "/v2/models/nobody/ready",
            "metadata of an unknown version": f"/v2/models/{model}/versions/9", "unknown route": "/v2/nothing",
            "unknown root": "/nothing", "infer by GET": infer, "shared memory status": "/v2/systemsharedmemory/status"}
    for name, path in gets.items():
        yield name, "GET", path, b"", {}
    posts = {"infer": GOOD, "infer with id": GOOD | {"id": "seven"},
             "infer of named output": GOOD | {"outputs": [{"name": "y"}]},
             "infer of unknown output": GOOD | {"outputs": [{"name": "z"}]},
             "infer nested data": changed(data=[DATA]), "infer without inputs": {}, "infer of no input": {"inputs": []},
             "infer wrong name": changed(name="w"), "infer wrong type": changed(datatype="INT64", data=list(range(16))),
             "infer unknown type": changed(datatype="FP31"), "infer wrong shape": changed(shape=[1, 15], data=DATA[:15]),
             "infer too few values": changed(data=DATA[:9]), "infer too many values": changed(data=DATA + [1.0]),
             "infer negative shape": changed(shape=[-1, 16]), "infer without batch": changed(shape=[16]),
             "infer a text among values": changed(data=["a"] + DATA[1:]), "infer beyond the largest batch":
             {"inputs": [GOOD["inputs"][0] | {"shape": [65, 16], "data": DATA * 65}]},
             "infer twice the same input": {"inputs": GOOD["inputs"] * 2},
             "infer unknown parameter": GOOD | {"parameters": {"mine": 3}},
             "infer a list": [1, 2], "infer id as number": GOOD | {"id": 7}}
    for name, body in posts.items():
        yield name, "POST", infer, json.dumps(body).encode(), {"Content-Type": "application/json"}
    yield "infer broken JSON", "POST", infer, b'{"inputs": [', {}
    yield "infer empty body", "POST", infer, b"", {}
    yield "infer of an unknown model", "POST", "/v2/models/nobody/infer", json.dumps(GOOD).encode(), {}
    yield "infer of an unknown version", "POST", f"/v2/models/{model}/versions/9/infer", json.dumps(GOOD).encode(), {}
    yield "infer binary", "POST", infer, framed + raw, length
    yield "infer binary too short", "POST", infer, framed + raw[:60], length
    yield "infer binary too long", "POST", infer, framed + raw + b"1234", length
    yield "infer binary header beyond the body", "POST", infer, framed, {"Inference-Header-Content-Length": "9999"}
    yield "infer binary header no number", "POST", infer, framed + raw, {"Inference-Header-Content-Length": "x"}
    yield "repository index", "POST", "/v2/repository/index", b"", {}
    yield "repository index of ready", "POST", "/v2/repository/index", b'{"ready": true}', {}
    yield "unload an unknown model", "POST", "/v2/repository/models/nobody/unload", b"", {}
    yield "load an unknown model", "POST", "/v2/repository/models/nobody/load", b"", {}
    yield "unregister an unknown region", "POST", "/v2/systemsharedmemory/region/nobody/unregister", b"", {}


def shape_of(value):
    """A JSON value with its leaves replaced by their types; lists by what their elements are."""
    if isinstance(value, dict):
        return {k: shape_of(v) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def without_folders(text):
    return re.sub(r"/\S+/models", "REPOSITORY", text)


def ask_http(port, method, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        text = reply.read()
    except (http.client.HTTPException, OSError) as error:
        return {"status": f"no reply: {type(error).__name__}", "type": None, "json": None, "text": ""}
    finally:
        connection.close()
    head = int(reply.headers.get("Inference-Header-Content-Length", len(text)))
    try:
        document = json.loads(text[:head]) if text else None
    except ValueError:
        document = "no JSON"
    return {"status": reply.status, "type": (reply.headers.get("Content-Type") or "").split(";")[0],
            "json": document, "text": without_folders(text[:300].decode(errors="replace"))}


def values(document):
    """What a good reply says beside its shape."""
    outputs = document.get("outputs") if isinstance(document, dict) else None
    if not outputs:
        return None
    return [(o["name"], o["datatype"], o["shape"], [round(v, 3) for v in o.get("data", [])]) for o in outputs]


def compare_http(fermata, triton, model):
    for name, *request in http_cases(model):
        ours, theirs = (ask_http(s.http, *request) for s in (fermata, triton))
        differs = [k for k in ("status", "type") if ours[k] != theirs[k]]
        if shape_of(ours["json"]) != shape_of(theirs["json"]):
            differs.append("JSON")
        elif values(ours["json"]) != values(theirs["json"]):
            differs.append("values")
        yield {"case": f"HTTP, {name}", "differs": differs,
               "fermata": {k: ours[k] for k in ("status", "type", "text")},
               "triton": {k: theirs[k] for k in ("status", "type", "text")}}


def grpc_cases(model):
    pb = service_pb2
    raw = struct.pack("<16f", *DATA)

    def infer(name=model, version="", tensor="x", datatype="FP32", shape=(1, 16), content=raw, outputs=()):
        request = pb.ModelInferRequest(model_name=name, model_version=version)
        request.inputs.add(name=tensor, datatype=datatype, shape=shape)
        request.raw_input_contents.append(content)
        for output in outputs:
            request.outputs.add(name=output)
        return request

    typed = pb.ModelInferRequest(model_name=model)
    typed.inputs.add(name="x", datatype="FP32", shape=[1, 16]).contents.fp32_contents.extend(DATA)
    both = infer()
    both.inputs[0].contents.fp32_contents.extend(DATA)
    yield from {
        "live": ("ServerLive", pb.ServerLiveRequest()), "ready": ("ServerReady", pb.ServerReadyRequest()),
        "server metadata": ("ServerMetadata", pb.ServerMetadataRequest()),
        "model metadata": ("ModelMetadata", pb.ModelMetadataRequest(name=model)),
        "metadata of an unknown model": ("ModelMetadata", pb.ModelMetadataRequest(name="nobody")),
        "model ready": ("ModelReady", pb.ModelReadyRequest(name=model)),
        "readiness of an unknown model": ("ModelReady", pb.ModelReadyRequest(name="nobody")),
        "readiness of no model": ("ModelReady", pb.ModelReadyRequest()),
        "model config": ("ModelConfig", pb.ModelConfigRequest(name=model)),
        "model statistics": ("ModelStatistics", pb.ModelStatisticsRequest(name=model)),
        "repository index": ("RepositoryIndex", pb.RepositoryIndexRequest()),
        "load an unknown model": ("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="nobody")),
        "unload an unknown model": ("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="nobody")),
        "infer": ("ModelInfer", infer()), "infer typed": ("ModelInfer", typed), "infer both ways": ("ModelInfer", both),
        "infer of an unknown model": ("ModelInfer", infer(name="nobody")),
        "infer of an unknown version": ("ModelInfer", infer(version="9")),
        "infer of a version that is no number": ("ModelInfer", infer(version="x")),
        "infer wrong name": ("ModelInfer", infer(tensor="w")), "infer wrong type": ("ModelInfer", infer(datatype="INT32")),
        "infer unknown type": ("ModelInfer", infer(datatype="FP31")), "infer wrong shape": ("ModelInfer", infer(shape=(1, 15))),
        "infer too few bytes": ("ModelInfer", infer(content=raw[:60])), "infer too many bytes": ("ModelInfer", infer(content=raw + b"1234")),
        "infer negative shape": ("ModelInfer", infer(shape=(-1, 16))), "infer without batch": ("ModelInfer", infer(shape=(16,))),
        "infer unknown output": ("ModelInfer", infer(outputs=["z"])),
        "infer without inputs": ("ModelInfer", pb.ModelInferRequest(model_name=model)),
    }.items()


def ask_grpc(port, method, request):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            reply = getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(request, timeout=20)
        except grpc.RpcError as error:
            return error.code().name, without_folders(error.details()), None
    fields = sorted(field.name for field, _ in reply.ListFields())
    raw = [struct.unpack(f"<{len(r) // 4}f", r) for r in getattr(reply, "raw_output_contents", [])]
    return "OK", fields, [[round(v, 3) for v in r] for r in raw]


def compare_grpc(fermata, triton, model):
    for name, (method, request) in grpc_cases(model):
        ours, theirs = (ask_grpc(s.grpc, method, request) for s in (fermata, triton))
        differs = ["status"] if ours[0] != theirs[0] else []
        if ours[0] == theirs[0] == "OK":
            differs += ["fields"] if ours[1] != theirs[1] else ["values"] if ours[2] != theirs[2] else []
        yield {"case": f"gRPC, {name}", "differs": differs, "fermata": ours[:2], "triton": theirs[:2]}


def on_purpose():
    """The cases that docs/protocol.md names."""
    text = (ROOT / "docs/protocol.md").read_text().partition("## Where Triton answers otherwise")[2].partition("\n## ")[0]
    return set(re.findall(r"`((?:HTTP|gRPC), [^`]+)`", text))


def compare(fermata, triton, model):
    known = on_purpose()
    return [row | {"on_purpose": row["case"] in known}
            for compared in (compare_http, compare_grpc) for row in compared(fermata, triton, model)]
