"""Asks a Fermata server on a schedule, whatever earlier answers do (gRPC, one connection).

    answers, lags_ms = open_loop.drive(port, [(due_s, body), ...])

Latencies count from when a request was due. Runs in a process of its own, which does nothing else.
"""

import asyncio
import gc
import multiprocessing
import time

import grpc
import numpy
from tritonclient.grpc import service_pb2

METHOD = "/inference.GRPCInferenceService/ModelInfer"
SENT_TOGETHER_S = 5e-4  # what is due within this is not waited for


def body(model, features, output="label"):
    """A request for what is said of one example, and for who says it; serialized once."""
    request = service_pb2.ModelInferRequest(model_name=model)
    request.parameters["explain"].bool_param = True
    request.inputs.add(name="features", datatype="FP32", shape=[1, len(features)])
    request.outputs.add(name=output)
    request.raw_input_contents.append(features.astype(numpy.float32).tobytes())
    return request.SerializeToString()


def read(reply):
    """The label (of probabilities the likeliest) or number, the variant that gave it, and why."""
    response = service_pb2.ModelInferResponse.FromString(reply)
    why = tuple(response.parameters[what].string_param for what in ("variant", "reason"))
    if response.outputs[0].datatype == "INT64":
        return int(numpy.frombuffer(response.raw_output_contents[0], numpy.int64)[0]), *why
    said = numpy.frombuffer(response.raw_output_contents[0], numpy.float32)
    return int(said.argmax()) if len(said) > 1 else float(said[0]), *why


async def ask(port, schedule, drain_s):
    ends, replies, lags = [None] * len(schedule), [None] * len(schedule), []
    options = [("grpc.max_concurrent_streams", 100000)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        await channel.channel_ready()
        method = channel.unary_unary(METHOD)  # bytes in, bytes out
        start = time.perf_counter() + 0.05

        async def one(i, message):
            try:
                replies[i] = await method(message)
            except grpc.aio.AioRpcError as error:
                replies[i] = error.code().name
            ends[i] = time.perf_counter() - start

        calls = []
        for i, (due, message) in enumerate(schedule):
            wait = start + due - time.perf_counter()
            if wait > SENT_TOGETHER_S:
                await asyncio.sleep(wait)
            elif i % 4 == 0:
                await asyncio.sleep(0)  # answers are read meanwhile
            lags.append(time.perf_counter() - start - due)
            calls.append(asyncio.ensure_future(one(i, message)))
        _, open_calls = await asyncio.wait(calls, timeout=drain_s)
        for call in open_calls:
            call.cancel()
    return ends, replies, lags


def work(port, schedule, drain_s, out):
    gc.disable()
    ends, replies, lags = asyncio.run(ask(port, schedule, drain_s))
    answers = [("lost", None, None) if end is None or reply is None else
               (reply, None, None) if isinstance(reply, str) else
               ("answered", end - due, read(reply))
               for (due, _), end, reply in zip(schedule, ends, replies)]
    out.send((answers, [1000 * lag for lag in lags]))


def drive(port, schedule, drain_s=1.0):
    """By request (outcome, latency in s, `read` of its reply), and how late it was sent, in ms."""
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=work, args=(port, schedule, drain_s, theirs))
    process.start()
    theirs.close()
    result = mine.recv()
    process.join()
    return result
