"""MLServer's own side of the protocol as a client: its codecs over HTTP, its converters over gRPC, and
`mlserver infer`."""

import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import grpc
import numpy
import pandas
from mlserver.codecs import Base64Codec, NumpyCodec, NumpyRequestCodec, PandasCodec, StringCodec
from mlserver.grpc import converters, dataplane_pb2, dataplane_pb2_grpc
from mlserver.types import (InferenceRequest, InferenceResponse, MetadataModelResponse, MetadataServerResponse,
                            RepositoryIndexResponse)

from checks import GRPC, HTTP, VALUES, Checks, identity, same

checks = Checks("MLServer", importlib.metadata.version("mlserver"))
NUMBERS = [d for d in VALUES if d not in ("BYTES", "FP16")]


def get(path):
    with urllib.request.urlopen(f"http://{HTTP}{path}", timeout=60) as reply:
        return reply.read()


def post(path, body):
    request = urllib.request.Request(f"http://{HTTP}{path}", body.encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def over_http(model, request):
    return InferenceResponse.model_validate_json(post(f"/v2/models/{model}/infer", request.model_dump_json()))


def over_grpc(stub):
    def call(model, request):
        message = converters.ModelInferRequestConverter.from_types(request, model_name=model, model_version="1")
        return converters.ModelInferResponseConverter.to_types(stub.ModelInfer(message, timeout=60))
    return call


def codecs(way, call):
    for datatype in NUMBERS:
        with checks.check(f"NumpyCodec {datatype} over {way}"):
            request = InferenceRequest(inputs=[NumpyCodec.encode_input("x", VALUES[datatype])])
            output, = call(identity(datatype), request).outputs
            same(NumpyCodec.decode_output(output), VALUES[datatype])
    with checks.check(f"StringCodec over {way}"):
        words = ["", "käse", "a b"]
        given = StringCodec.encode_input("x", words, use_bytes=way == "gRPC")
        output, = call("identity-bytes", InferenceRequest(inputs=[given])).outputs
        assert StringCodec.decode_output(output) == words
    with checks.check(f"Base64Codec over {way}"):
        given = Base64Codec.encode_input("x", [b"\x00\xff", b"b"], use_bytes=way == "gRPC")
        output, = call("identity-bytes", InferenceRequest(inputs=[given])).outputs
        assert Base64Codec.decode_output(output) == [b"\x00\xff", b"b"]
    with checks.check(f"NumpyRequestCodec over {way}"):
        request = NumpyRequestCodec.encode_request(VALUES["FP32"])
        request.inputs[0].name = "x"
        same(NumpyRequestCodec.decode_response(call("identity-fp32", request)), VALUES["FP32"])
    with checks.check(f"PandasCodec over {way}"):
        request = PandasCodec.encode_request(pandas.DataFrame({"a": [6, 8], "b": [3, 2]}, dtype="int32"))
        frame = PandasCodec.decode_response(call("divide", request))
        assert list(frame["y"]) == [2, 4]
    with checks.check(f"a request's id over {way}"):
        request = InferenceRequest(id="seven", inputs=[NumpyCodec.encode_input("x", VALUES["FP32"])])
        assert call("identity-fp32", request).id == "seven"


def messages():
    with checks.check("health as MLServer asks for it"):
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/pair/ready"):
            get(path)
    with checks.check("MetadataServerResponse"):
        assert MetadataServerResponse.model_validate_json(get("/v2")).extensions
    with checks.check("MetadataModelResponse"):
        assert [t.name for t in MetadataModelResponse.model_validate_json(get("/v2/models/pair")).inputs] == ["a", "b"]
    with checks.check("RepositoryIndexResponse"):
        names = [m.name for m in RepositoryIndexResponse.model_validate_json(post("/v2/repository/index", "{}")).root]
        assert "pair" in names


def stub_calls(stub):
    with checks.check("gRPC health and metadata"):
        assert stub.ServerLive(dataplane_pb2.ServerLiveRequest()).live
        assert stub.ServerReady(dataplane_pb2.ServerReadyRequest()).ready
        assert stub.ModelReady(dataplane_pb2.ModelReadyRequest(name="pair")).ready
        assert stub.ServerMetadata(dataplane_pb2.ServerMetadataRequest()).name
        assert stub.ModelMetadata(dataplane_pb2.ModelMetadataRequest(name="pair")).name == "pair"


# `mlserver infer` reads requests line by line and writes replies so; over HTTP only.
def command_line():
    for binary in ([], ["--binary-data"]):
        with checks.check(f"mlserver infer {' '.join(binary)}"), tempfile.TemporaryDirectory() as folder:
            given, made = pathlib.Path(folder) / "in.json", pathlib.Path(folder) / "out.json"
            data = {"name": "x", "shape": [1, 2], "datatype": "FP32"}
            given.write_text("".join(json.dumps({"inputs": [data | {"data": [i, 1]}]}) + "\n"
                                     for i in range(20)))
            program = pathlib.Path(sys.executable).parent / "mlserver"
            done = subprocess.run([program, "infer", "-u", HTTP, "-m", "identity-fp32", "-i", given, "-o",
                                   made, "--transport", "rest", "-s", "5", *binary],
                                  capture_output=True, text=True, timeout=300)
            replies = [json.loads(line) for line in made.read_text().splitlines()] if made.exists() else []
            assert len(replies) == 20, done.stderr[-200:]
            first = sorted(float(numpy.ravel(r["outputs"][0]["data"])[0]) for r in replies)
            assert first == list(range(20)), first


messages()
codecs("HTTP", over_http)
with grpc.insecure_channel(GRPC) as channel:
    stub = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel)
    stub_calls(stub)
    codecs("gRPC", over_grpc(stub))
command_line()
checks.print()
