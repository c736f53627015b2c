"""The stubs of the Open Inference Protocol's own package, which knows no more than the protocol."""

import importlib.metadata

import grpc
import numpy
from open_inference.grpc import protocol
from open_inference.grpc.service import GRPCInferenceServiceStub
from tritonclient.utils import deserialize_bytes_tensor

from checks import GRPC, VALUES, Checks, identity, same

FIELDS = {"BOOL": "bool_contents", "BYTES": "bytes_contents", "FP32": "fp32_contents", "FP64": "fp64_contents",
          "INT64": "int64_contents", "UINT64": "uint64_contents"}


def field(datatype):
    return FIELDS.get(datatype, "uint_contents" if datatype.startswith("U") else "int_contents")


checks = Checks("open-inference-grpc", importlib.metadata.version("open-inference-grpc"))
with grpc.insecure_channel(GRPC) as channel:
    stub = GRPCInferenceServiceStub(channel)
    with checks.check("health"):
        assert stub.ServerLive(protocol.ServerLiveRequest()).live
        assert stub.ServerReady(protocol.ServerReadyRequest()).ready
        assert stub.ModelReady(protocol.ModelReadyRequest(name="pair")).ready
    with checks.check("metadata"):
        assert stub.ServerMetadata(protocol.ServerMetadataRequest()).name
        inputs = stub.ModelMetadata(protocol.ModelMetadataRequest(name="pair", version="1")).inputs
        assert [t.name for t in inputs] == ["a", "b"]
    for datatype, values in VALUES.items():
        if datatype == "FP16":
            continue  # only as raw bytes
        with checks.check(f"{datatype} in typed contents"):
            request = protocol.ModelInferRequest(model_name=identity(datatype), id="seven")
            tensor = request.inputs.add(name="x", datatype=datatype, shape=values.shape)
            getattr(tensor.contents, field(datatype)).extend(values.reshape(-1).tolist())
            reply = stub.ModelInfer(request)
            assert reply.id == "seven" and reply.outputs[0].datatype == datatype
            if reply.raw_output_contents and datatype == "BYTES":
                found = deserialize_bytes_tensor(reply.raw_output_contents[0])
            elif reply.raw_output_contents:
                found = numpy.frombuffer(reply.raw_output_contents[0], values.dtype)
            else:
                found = numpy.array(getattr(reply.outputs[0].contents, field(datatype)), values.dtype)
            same(found.reshape(values.shape), values)
    with checks.check("an unknown model has a status of its own"):
        try:
            stub.ModelMetadata(protocol.ModelMetadataRequest(name="nothing"))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error
        else:
            raise AssertionError("was not refused")
checks.print()
