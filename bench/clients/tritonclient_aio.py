"""tritonclient's asynchronous clients."""

import asyncio
import importlib.metadata

import numpy
import tritonclient.grpc.aio
import tritonclient.http.aio

from checks import GRPC, HTTP, VALUES, Checks, identity, same


async def tried(name, module, address):
    checks = Checks(f"tritonclient {name}, asynchronous", importlib.metadata.version("tritonclient"))
    client = module.InferenceServerClient(address)

    def request(values, datatype, model):
        given = module.InferInput("x", list(values.shape), datatype)
        given.set_data_from_numpy(values)
        return client.infer(model, [given])

    with checks.check("is live, ready, and has the model"):
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("pair")
    with checks.check("metadata and configuration"):
        assert await client.get_server_metadata() and await client.get_model_metadata("pair")
        assert await client.get_model_config("pair")
    with checks.check("repository index and statistics"):
        assert await client.get_model_repository_index()
        assert await client.get_inference_statistics("pair")
    for datatype, values in VALUES.items():
        with checks.check(datatype):
            same((await request(values, datatype, identity(datatype))).as_numpy("y"), values)
    with checks.check("fifty at a time"):
        many = [numpy.full((1, 3), i, numpy.float32) for i in range(50)]
        results = await asyncio.gather(*(request(values, "FP32", "identity-fp32") for values in many))
        for values, result in zip(many, results):
            same(result.as_numpy("y"), values)
    with checks.check("an unknown model is refused"):
        try:
            await request(VALUES["FP32"], "FP32", "nothing")
        except Exception as error:
            assert "nothing" in str(error)
        else:
            raise AssertionError("was not refused")
    if module is tritonclient.grpc.aio:
        with checks.check("a stream"):
            async def requests():
                for i in range(20):
                    values = numpy.full((1, 3), i, numpy.float32)
                    given = module.InferInput("x", [1, 3], "FP32")
                    given.set_data_from_numpy(values)
                    yield {"model_name": "identity-fp32", "inputs": [given], "request_id": str(i)}
            seen = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                seen.append(int(result.get_response().id))
            assert sorted(seen) == list(range(20))
    await client.close()
    checks.print()


asyncio.run(tried("HTTP", tritonclient.http.aio, HTTP))
asyncio.run(tried("gRPC", tritonclient.grpc.aio, GRPC))
