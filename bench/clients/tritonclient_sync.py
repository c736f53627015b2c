"""tritonclient over HTTP and gRPC, everything that its two clients offer."""

import importlib.metadata
import queue

import numpy
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shared_memory
from google.protobuf.json_format import MessageToDict

from checks import GRPC, HTTP, VALUES, Checks, identity, same

VERSION = importlib.metadata.version("tritonclient")
PAIR = numpy.array([[1, 2, 3, 4]], numpy.int32)


def plain(answer):
    if isinstance(answer, (dict, list)) or answer is None:
        return answer
    return MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def tensor(module, name, values, datatype, **how):
    made = module.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, **how)
    return made


def about_the_server(checks, client):
    with checks.check("is live"):
        assert client.is_server_live()
    with checks.check("is ready"):
        assert client.is_server_ready()
    with checks.check("a model is ready"):
        assert client.is_model_ready("pair") and client.is_model_ready("pair", "1")
    with checks.check("an unknown model is not ready"):
        assert not client.is_model_ready("nothing")
    with checks.check("server metadata"):
        assert plain(client.get_server_metadata())["extensions"]
    with checks.check("model metadata"):
        assert [t["name"] for t in plain(client.get_model_metadata("pair"))["inputs"]] == ["a", "b"]
    with checks.check("model configuration"):
        config = plain(client.get_model_config("pair"))
        assert config.get("config", config)["name"] == "pair"
    with checks.check("repository index"):
        index = plain(client.get_model_repository_index())
        assert "pair" in [m["name"] for m in index if m] if isinstance(index, list) else index["models"]
    with checks.check("statistics of one model"):
        assert plain(client.get_inference_statistics("pair"))["model_stats"][0]["name"] == "pair"
    with checks.check("statistics of all"):
        assert len(plain(client.get_inference_statistics())["model_stats"]) > 1
    for what in ("trace", "log"):
        with checks.check(f"{what} settings are read or refused in words"):
            try:
                getattr(client, f"get_{what}_settings")()
            except tritonclient.utils.InferenceServerException as error:
                assert error.message()


def about_models(checks, client):
    with checks.check("unload and load"):
        client.unload_model("whole")
        assert not client.is_model_ready("whole")
        client.load_model("whole")
        assert client.is_model_ready("whole")
    checks.refuses("loading an unknown model", lambda: client.load_model("nothing"), "nothing")
    checks.refuses("metadata of an unknown model", lambda: client.get_model_metadata("nothing"), "nothing")
    checks.refuses("an unknown version", lambda: client.get_model_metadata("pair", "9"), "9")


def about_requests(checks, module, client):
    both = [tensor(module, name, PAIR, "INT32") for name in ("a", "b")]

    with checks.check("two inputs, two outputs"):
        result = client.infer("pair", both)
        same(result.as_numpy("sum"), 2 * PAIR)
        same(result.as_numpy("difference"), 0 * PAIR)
    with checks.check("only the outputs that are asked for"):
        result = client.infer("pair", both, outputs=[module.InferRequestedOutput("sum")])
        assert result.as_numpy("difference") is None
    with checks.check("request id"):
        response = client.infer("pair", both, request_id="seven").get_response()
        assert (response["id"] if isinstance(response, dict) else response.id) == "seven"
    with checks.check("model version"):
        same(client.infer("pair", both, model_version="1").as_numpy("sum"), 2 * PAIR)
    with checks.check("priority and timeout"):
        same(client.infer("pair", both, priority=1, timeout=60_000_000).as_numpy("sum"), 2 * PAIR)
    with checks.check("parameters"):
        same(client.infer("pair", both, parameters={"mine": "x"}).as_numpy("sum"), 2 * PAIR)
    with checks.check("classification"):
        many = tensor(module, "x", numpy.array([[1, 3, 2]], numpy.float32), "FP32")
        top = client.infer("identity-fp32", [many],
                           outputs=[module.InferRequestedOutput("y", class_count=2)]).as_numpy("y")
        assert [t.split(b":")[1] for t in top.reshape(-1)] == [b"1", b"2"]
    for algorithm in ("gzip", "deflate"):
        with checks.check(f"compressed by {algorithm}"):
            how = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
            how = how if module is tritonclient.http else {"compression_algorithm": algorithm}
            same(client.infer("pair", both, **how).as_numpy("sum"), 2 * PAIR)
    with checks.check("a batch that is split"):
        large = numpy.arange(600, dtype=numpy.int32).reshape(150, 4)
        inputs = [tensor(module, name, large, "INT32") for name in ("a", "b")]
        same(client.infer("pair", inputs).as_numpy("sum"), 2 * large)
    checks.refuses("an unknown model", lambda: client.infer("nothing", both), "nothing")
    checks.refuses("an unknown output", lambda: client.infer(
        "pair", both, outputs=[module.InferRequestedOutput("product")]), "product")
    checks.refuses("an input too few", lambda: client.infer("pair", both[:1]), "b")
    checks.refuses("a wrong datatype", lambda: client.infer(
        "pair", [both[0], tensor(module, "b", PAIR.astype(numpy.float32), "FP32")]), "INT32")
    checks.refuses("a wrong shape", lambda: client.infer(
        "pair", [both[0], tensor(module, "b", PAIR[:, :3].copy(), "INT32")]), "b")


def about_datatypes(checks, module, client, ways):
    for datatype, values in VALUES.items():
        for way, given, asked in ways:
            if datatype == "FP16" and "JSON" in way:
                continue  # neither client can
            with checks.check(f"{datatype} {way}"):
                outputs = [module.InferRequestedOutput("y", **asked)]
                result = client.infer(identity(datatype), [tensor(module, "x", values, datatype, **given)],
                                      outputs=outputs)
                expected = values
                if datatype == "BYTES" and result.as_numpy("y").reshape(-1)[1] == "käse":
                    expected = numpy.array([["", "käse"]], object)  # JSON's are text
                same(result.as_numpy("y"), expected)


def about_shared_memory(checks, module, client):
    values = VALUES["FP32"]
    region = shared_memory.create_shared_memory_region("both", "/fermata-clients", 2 * values.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [values])
        with checks.check("shared memory is registered"):
            client.register_system_shared_memory("both", "/fermata-clients", 2 * values.nbytes)
            status = plain(client.get_system_shared_memory_status())
            assert "both" in str(status)
        with checks.check("tensors in shared memory"):
            given = module.InferInput("x", list(values.shape), "FP32")
            given.set_shared_memory("both", values.nbytes)
            asked = module.InferRequestedOutput("y")
            asked.set_shared_memory("both", values.nbytes, offset=values.nbytes)
            client.infer("identity-fp32", [given], outputs=[asked])
            same(shared_memory.get_contents_as_numpy(region, numpy.float32, values.shape,
                                                     offset=values.nbytes), values)
        checks.refuses("a region twice", lambda: client.register_system_shared_memory(
            "both", "/fermata-clients", 2 * values.nbytes), "both")
        with checks.check("shared memory is forgotten"):
            client.unregister_system_shared_memory("both")
            client.unregister_system_shared_memory()
        checks.refuses("shared memory that is not there", lambda: client.register_system_shared_memory(
            "none", "/fermata-nothing", 8), "fermata-nothing")
    finally:
        shared_memory.destroy_shared_memory_region(region)


def http():
    checks = Checks("tritonclient HTTP", VERSION)
    module = tritonclient.http
    with module.InferenceServerClient(HTTP, concurrency=4) as client:
        about_the_server(checks, client)
        about_models(checks, client)
        about_requests(checks, module, client)
        about_datatypes(checks, module, client, [
            ("binary", {}, {}), ("JSON", {"binary_data": False}, {"binary_data": False}),
            ("JSON to binary", {"binary_data": False}, {}), ("binary to JSON", {}, {"binary_data": False})])
        about_shared_memory(checks, module, client)
        with checks.check("async_infer"):
            both = [tensor(module, name, PAIR, "INT32") for name in ("a", "b")]
            under_way = [client.async_infer("pair", both) for _ in range(50)]
            for each in under_way:
                same(each.get_result().as_numpy("sum"), 2 * PAIR)
        with checks.check("generate_request_body and parse_response_body"):
            body, length = client.generate_request_body([tensor(module, "x", VALUES["FP32"], "FP32")])
            assert body and length
    checks.print()


def grpc():
    checks = Checks("tritonclient gRPC", VERSION)
    module = tritonclient.grpc
    with module.InferenceServerClient(GRPC) as client:
        about_the_server(checks, client)
        about_models(checks, client)
        about_requests(checks, module, client)
        about_datatypes(checks, module, client, [("binary", {}, {})])
        about_shared_memory(checks, module, client)
        both = [tensor(module, name, PAIR, "INT32") for name in ("a", "b")]
        with checks.check("async_infer"):
            replies = queue.Queue()
            for _ in range(50):
                client.async_infer("pair", both, callback=lambda result, error: replies.put((result, error)))
            for _ in range(50):
                result, error = replies.get(timeout=60)
                assert error is None
                same(result.as_numpy("sum"), 2 * PAIR)
        with checks.check("a stream, its replies in order"):
            replies = queue.Queue()
            client.start_stream(callback=lambda result, error: replies.put((result, error)))
            for i in range(50):
                client.async_stream_infer("pair", both, request_id=str(i))
            ids = [replies.get(timeout=60)[0].get_response().id for _ in range(50)]
            client.stop_stream()
            assert sorted(map(int, ids)) == list(range(50))
        with checks.check("a stream says what failed"):
            replies = queue.Queue()
            client.start_stream(callback=lambda result, error: replies.put((result, error)))
            client.async_stream_infer("nothing", both)
            assert "nothing" in str(replies.get(timeout=60)[1])
            client.stop_stream()
        checks.refuses("a client's own timeout", lambda: client.infer("pair", both, client_timeout=1e-6),
                       "Deadline Exceeded")
    checks.print()


http()
grpc()
