"""KServe's clients of its Python package, over HTTP and gRPC."""

import asyncio
import importlib.metadata

from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

from checks import GRPC, HTTP, VALUES, Checks, identity, same

URL = f"http://{HTTP}"


def request(datatype, binary, **more):
    given = InferInput("x", list(VALUES[datatype].shape), datatype)
    given.set_data_from_numpy(VALUES[datatype], binary_data=binary)
    return InferRequest(model_name=identity(datatype), infer_inputs=[given], **more)


async def refuses(checks, name, call):
    with checks.check(name):
        try:
            await call
        except Exception as error:
            assert "nothing" in str(error), error
        else:
            raise AssertionError("was not refused")


async def over_http(version):
    checks = Checks("KServe HTTP", version)
    for http2 in (False, True):
        client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, http2=http2))
        way = " that offers HTTP/2" if http2 else ""
        with checks.check(f"is live, ready, and has the model{way}"):
            assert await client.is_server_live(URL) and await client.is_server_ready(URL)
            assert await client.is_model_ready(URL, "pair")
        with checks.check(f"an unknown model is not ready{way}"):
            assert not await client.is_model_ready(URL, "nothing")
        for datatype in VALUES:
            for binary in (False, True):
                if datatype == "FP16" and not binary:
                    continue  # JSON has none
                outputs = [RequestedOutput("y", {"binary_data": binary})]
                with checks.check(f"{datatype} {'binary' if binary else 'JSON'}{way}"):
                    reply = await client.infer(URL, request(datatype, binary, request_outputs=outputs),
                                               model_name=identity(datatype))
                    found = reply.outputs[0].as_numpy()
                    if datatype == "BYTES":  # text in JSON, bytes else
                        found = [v if isinstance(v, bytes) else v.encode() for v in found.reshape(-1)]
                        assert found == list(VALUES[datatype].reshape(-1)), found
                    else:
                        same(found, VALUES[datatype])
        with checks.check(f"a request's id{way}"):
            assert (await client.infer(URL, request("FP32", False, request_id="seven"),
                                       model_name="identity-fp32")).id == "seven"
        with checks.check(f"twenty at a time{way}"):
            replies = await asyncio.gather(*(client.infer(URL, request("FP32", True), model_name="identity-fp32")
                                             for _ in range(20)))
            for reply in replies:
                same(reply.outputs[0].as_numpy(), VALUES["FP32"])
        await refuses(checks, f"an unknown model is refused{way}",
                      client.infer(URL, request("FP32", False), model_name="nothing"))
        await client.close()
    checks.print()


async def over_grpc(version):
    checks = Checks("KServe gRPC", version)
    client = InferenceGRPCClient(GRPC)
    with checks.check("is live, ready, and has the model"):
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("pair")
    for datatype in VALUES:
        with checks.check(datatype):
            found = (await client.infer(request(datatype, True))).outputs[0].as_numpy()
            same(found, VALUES[datatype])
    with checks.check("a request's id"):
        assert (await client.infer(request("FP32", True, request_id="seven"))).id == "seven"
    with checks.check("twenty at a time"):
        for reply in await asyncio.gather(*(client.infer(request("FP32", True)) for _ in range(20))):
            same(reply.outputs[0].as_numpy(), VALUES["FP32"])
    unknown = request("FP32", True)
    unknown.model_name = "nothing"
    await refuses(checks, "an unknown model is refused", client.infer(unknown))
    await client.close()
    checks.print()


asyncio.run(over_http(importlib.metadata.version("kserve")))
asyncio.run(over_grpc(importlib.metadata.version("kserve")))
