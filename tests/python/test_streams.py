"""Stream services on a real server: the Python client, what replies tell, what may be wrong."""

import asyncio
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import numpy
import pytest
import tritonclient.grpc

from conftest import FERMATA, ROOT, START_LIMIT_S, Server
from live_decisions import is_timed, replayed
from stream_models import CONFIG, SIDES, write_models

sys.path.insert(0, str(ROOT / "python"))
import fermata  # noqa: E402
import fermata.aio  # noqa: E402

FRAME = numpy.zeros((90, 120, 3), numpy.uint8)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    models = write_models(folder / "models")
    server = Server(folder, models, CONFIG)
    yield server
    assert server.stop() == 0


def stream(server, **options):
    options = {"slo": 20, "rate": 50, "input": "frame", "encode": fermata.Pixels()} | options
    return fermata.Client(server.grpc).stream("cameras", **options)


def test_frames_are_answered_and_grow_to_what_the_service_asks(served):
    with stream(served) as s:
        assert s.wait_until_ready(START_LIMIT_S)
        sizes = []
        while 64 not in sizes:
            answer = answered(s, tag=len(sizes))
            assert answer.frame == len(sizes)
            assert answer.outputs["boxes"].shape == (1, 4)
            sizes.append(answer.input_size)
        assert sizes[0] == 32 and set(sizes) <= set(SIDES)  # less again where the machine makes the link slow


def test_the_same_for_asyncio(served):
    async def three():
        client = fermata.aio.Client(served.grpc)
        async with client.stream("cameras", slo=20, rate=50, input="frame",
                                 encode=fermata.Pixels()) as s:
            assert await s.wait_until_ready(START_LIMIT_S)
            for i in range(3):
                await s.pace()
                await s.send(FRAME, tag=i)
                answer = await s.receive(timeout=START_LIMIT_S)
                assert answer.ok and answer.frame == i
    asyncio.run(three())


def test_who_knows_nothing_of_streams_is_answered(served):
    client = tritonclient.grpc.InferenceServerClient(served.grpc)
    for side in SIDES:
        tensor = tritonclient.grpc.InferInput("frame", [1, 3, side, side], "FP32")
        tensor.set_data_from_numpy(numpy.zeros((1, 3, side, side), numpy.float32))
        response = client.infer("cameras", [tensor], parameters={"explain": True}).get_response()
        assert response.model_name == "cameras"
        assert response.parameters["variant"].string_param == f"side-{side}"
        assert "stream_size" not in response.parameters


def infer(served, parameters, side=32, client=None):
    """On a connection of its own, where `client` is none."""
    client = client or tritonclient.grpc.InferenceServerClient(served.grpc)
    tensor = tritonclient.grpc.InferInput("frame", [1, 3, side, side], "FP32")
    tensor.set_data_from_numpy(numpy.zeros((1, 3, side, side), numpy.float32))
    return client.infer("cameras", [tensor], parameters=parameters)


@pytest.mark.parametrize("parameters, error", [
    ({"stream_client": "x"}, "stream_rate is missing"),
    ({"stream_client": "x", "stream_rate": "many"}, "parameter stream_rate"),
    ({"stream_client": "x", "stream_rate": 1e7}, "stream_rate is 1"),
    ({"stream_client": "x", "stream_rate": 10, "stream_size": 33}, "expected one of 32, 48, 64"),
    ({"stream_client": "x", "stream_rate": 10, "stream_bandwidth": 0}, "stream_bandwidth is 0"),
    ({"stream_rate": 10}, "stream_client has 0 characters"),
    ({"stream_client": ""}, "parameter stream_client"),
])
def test_bad_metadata_is_an_error_that_names_it(served, parameters, error):
    with pytest.raises(tritonclient.utils.InferenceServerException, match=error):
        infer(served, parameters)


def test_the_network_time_of_any_client_counts(served):
    client = tritonclient.grpc.InferenceServerClient(served.grpc)
    tensor = tritonclient.grpc.InferInput("frame", [1, 3, 32, 32], "FP32")
    tensor.set_data_from_numpy(numpy.zeros((1, 3, 32, 32), numpy.float32))
    parameters = {"explain": True, "network_time": 4_000_000}
    response = client.infer("side-32", [tensor], timeout=30_000_000, parameters=parameters)
    assert response.get_response().parameters["budget_us"].int64_param == 26_000_000
    with pytest.raises(tritonclient.utils.InferenceServerException, match="cannot end in time"):
        client.infer("side-32", [tensor], timeout=3_000_000, parameters=parameters)


def test_of_what_a_streams_client_says_of_its_way_the_larger_counts(served):
    registered = {"stream_client": "far", "stream_rate": 5, "stream_slo": 2_000_000, "stream_bandwidth": 1000}
    assert infer(served, registered | {"network_time": 1000})
    with pytest.raises(tritonclient.utils.InferenceServerException, match="cannot end in time"):
        infer(served, registered | {"network_time": 10_000_000})


def over_http(served, body):
    request = urllib.request.Request(f"http://{served.http}/v2/models/cameras/infer", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def test_over_http_a_hello_needs_no_inputs_and_errors_tell_what_replies_do(served):
    hello = {"stream_client": "h", "stream_rate": 5, "stream_hello": True}
    status, body = over_http(served, {"parameters": hello})
    assert status == 200 and body["parameters"]["stream_size"] == 32, body
    status, body = over_http(served, {"parameters": {"stream_client": "h"}})
    assert status == 400 and body == {"error": "the request has no inputs"}
    frame = {"name": "frame", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": [0] * 3072}
    status, body = over_http(served, {"parameters": {"stream_client": "new"}, "inputs": [frame]})
    assert status == 400 and "stream_rate is missing" in body["error"]
    assert body["parameters"].keys() == {"stream_size", "stream_unmapped", "stream_shift_us",
                                         "stream_server_us"}
    assert over_http(served, {"parameters": {"stream_client": "h", "stream_leave": True}})[0] == 200


def test_an_id_is_its_connections_alone(served):
    """A stranger that knows it can neither keep its owner out, nor speak for it, nor make it leave, nor hear of it."""
    with stream(served, client="twin") as first:
        assert first.wait_until_ready(START_LIMIT_S)
        strange = {"stream_client": "twin", "stream_slo": 1000, "stream_bandwidth": 0.01}
        with pytest.raises(tritonclient.utils.InferenceServerException, match="stream_rate is missing"):
            infer(served, strange)
        assert over_http(served, {"parameters": strange | {"stream_leave": True}})[0] == 200
        status, body = over_http(served, {"parameters": strange | {"stream_rate": 10, "stream_hello": True}})
        assert status == 200 and body["parameters"]["stream_size"] == 32  # as to a new one
        for _ in range(5):
            answered(first)
        assert not first.session.unmapped


def test_frames_of_a_wrong_size_end_with_an_error_and_others_are_served(served):
    """The pixels of one size under another one's name; then the same client sends good ones."""
    with stream(served, client="odd", encode=lambda frame, side: numpy.zeros((1, 3, 5, 5), numpy.float32)) as odd:
        assert odd.wait_until_ready(START_LIMIT_S) and odd.send(FRAME)
        answer = odd.receive(timeout=START_LIMIT_S)
        assert not answer.ok and "frame" in answer.error
        odd.session._encode = fermata.Pixels()
        assert odd.send(FRAME) and odd.receive(timeout=START_LIMIT_S).ok


def test_who_lies_about_its_bandwidth_changes_only_what_it_gets_itself(served):
    with (stream(served, client="honest") as honest,
          tritonclient.grpc.InferenceServerClient(served.grpc) as liar):
        assert honest.wait_until_ready(START_LIMIT_S)
        for claim in (1e12, 1e-12):
            parameters = {"stream_client": "liar", "stream_rate": 100, "stream_bandwidth": claim,
                          "stream_sure_bandwidth": claim, "stream_slo": 15_000_000}
            if claim > 1:
                infer(served, parameters, client=liar)
            else:  # the way alone takes longer than its objective, once its frames and a plan have said so
                refused = ""
                while "cannot end in time" not in refused and "no DNN can serve" not in refused:
                    try:
                        infer(served, parameters, client=liar)
                    except tritonclient.utils.InferenceServerException as error:
                        refused = str(error)
            answered(honest)
            assert not honest.session.unmapped


def connections(served):
    text = urllib.request.urlopen(f"http://{served.metrics}/metrics").read().decode()
    return float(re.search(r'^fermata_connections{protocol="grpc"} (\S+)$', text, re.M)[1])


def test_clients_of_a_closed_connection_make_room_at_once(served):
    """More connections, one after the other, than an address may have clients."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    for _ in range(150):
        with tritonclient.grpc.InferenceServerClient(served.grpc, channel_args=own) as client:
            assert infer(served, {"stream_client": "visitor", "stream_rate": 1}, client=client)
        for _ in range(10_000):
            if connections(served) <= 20:
                break
        else:
            pytest.fail("the server keeps connections that are closed")


def answered(s, tag=None):
    """The answer to one frame that left."""
    while True:
        s.pace()
        if s.send(FRAME, tag=tag):
            answer = s.receive(timeout=START_LIMIT_S)
            assert answer is not None and answer.ok, answer
            return answer


def test_an_acknowledgement_comes_before_the_answer(served):
    """Two responses of one id: that the frame has come, and its answer."""
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    import grpc
    request = service_pb2.ModelInferRequest(model_name="cameras", id="7")
    p = request.parameters
    p["stream_client"].string_param, p["stream_rate"].double_param = "acked", 10
    p["stream_ack"].bool_param = True
    request.inputs.add(name="frame", datatype="FP32", shape=[1, 3, 32, 32])
    request.raw_input_contents.append(bytes(4 * 3 * 32 * 32))
    with grpc.insecure_channel(served.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        ack, answer = (r.infer_response for r in stub.ModelStreamInfer(iter([request])))
    assert (ack.id, answer.id) == ("7", "7")
    assert ack.parameters["stream_ack"].bool_param and not ack.outputs
    assert not ack.parameters["triton_final_response"].bool_param
    assert ack.parameters["stream_server_us"].int64_param >= 0
    assert answer.parameters["triton_final_response"].bool_param and len(answer.outputs) == 1


def test_who_leaves_in_mid_frame_harms_nobody(served):
    """The stream is cancelled while its frames run; its id is free and others are answered."""
    for _ in range(3):
        with stream(served, client="gone") as s:
            assert s.wait_until_ready(START_LIMIT_S)
            s.send(FRAME)
    with stream(served, client="gone") as s:
        assert s.wait_until_ready(START_LIMIT_S)
        s.send(FRAME)
        assert s.receive(timeout=START_LIMIT_S).ok


def test_a_flood_is_rejected_and_others_are_served(served):
    refused = 0
    with tritonclient.grpc.InferenceServerClient(served.grpc) as client:
        while refused < 30:
            try:
                infer(served, {"stream_client": "flood", "stream_rate": 1}, client=client)
            except tritonclient.utils.InferenceServerException as error:
                assert "sends more than the 1 frames a second" in str(error)
                refused += 1
    with stream(served) as s:
        assert s.wait_until_ready(START_LIMIT_S)
        s.send(FRAME)
        assert s.receive(timeout=START_LIMIT_S).ok


def test_unmapped_clients_run_their_own_model(served):
    with stream(served, slo=0.0015, local=lambda frame: {"boxes": numpy.ones((1, 4))}) as s:
        assert s.wait_for(lambda session: session.unmapped, START_LIMIT_S)
        assert s.send(FRAME, tag="mine")
        answer = s.receive(timeout=START_LIMIT_S)
        assert answer.local and answer.frame == "mine"


def test_what_if_knows_frames_of_streams(served):
    with stream(served) as s:
        assert s.wait_until_ready(START_LIMIT_S)
        for _ in range(3):
            answered(s)
    question = {"cases": [{"workers": 1}, {"slo_ms": {"cameras": 0.001}}]}
    request = urllib.request.Request(f"http://{served.http}/v2/live/what_if", json.dumps(question).encode())
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer = json.load(reply)
    assert answer["recorded"]["not_replayed"] == [] and list(answer["recorded"]["streams"]) == ["cameras"]
    assert "the frames of 'cameras' keep the sizes that its clients had" in answer["recorded"]["notes"]
    assert answer["replayed"]["requests"] == answer["recorded"]["requests"] > 0
    assert answer["cases"][1]["on_time"] == 0


def test_metrics_decisions_and_metadata_tell_of_streams(served):
    with stream(served) as s:
        assert s.wait_until_ready(START_LIMIT_S)
        while s.session._asked != 64:
            s.pace()
            if s.send(FRAME):
                assert s.receive(timeout=START_LIMIT_S).ok
        decisions = json.load(urllib.request.urlopen(f"http://{served.http}/v2/fermata/decisions"))
        problem = decisions["streams"][0]
        done = subprocess.run([FERMATA, "plan", "streams", "-"], input=json.dumps(problem),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert is_timed(replayed(served)["streams"])
        text = urllib.request.urlopen(f"http://{served.metrics}/metrics").read().decode()
        assert 'fermata_stream_frames_total{service="cameras"}' in text
    client = tritonclient.grpc.InferenceServerClient(served.grpc)
    assert client.is_model_ready("cameras")
    assert client.get_model_metadata("cameras").name == "cameras"


def test_a_client_may_come_and_go(served):
    """The id is free again as soon as the stream has ended."""
    for _ in range(3):
        with stream(served, client="guest") as s:
            assert s.wait_until_ready(START_LIMIT_S)
            s.send(FRAME)
            assert s.receive(timeout=START_LIMIT_S).ok


def test_a_server_that_is_not_there_yet(served):
    """The client goes on trying; frames meanwhile are dropped, nothing waits."""
    with fermata.Client("127.0.0.1:1").stream("cameras", slo=20, rate=50, input="frame") as s:
        assert not s.send(FRAME)
        assert s.session.dropped == 1
        s._address = served.grpc
        assert s.wait_until_ready(START_LIMIT_S)


def test_nothing_but_the_name_is_needed(served):
    with fermata.Client(served.grpc).stream("cameras", slo=20, rate=50) as s:
        assert s.wait_until_ready(START_LIMIT_S) and s.send(FRAME)
        assert s.receive(timeout=START_LIMIT_S).ok

    async def one():
        async with fermata.aio.Client(served.grpc).stream("cameras", slo=20, rate=50) as s:
            assert await s.wait_until_ready(START_LIMIT_S) and await s.send(FRAME)
            assert (await s.receive(timeout=START_LIMIT_S)).ok
    asyncio.run(one())


def test_a_misspelt_service_is_named(served):
    with pytest.raises(fermata.ServiceError, match="camreas"):
        fermata.Client(served.grpc).stream("camreas", slo=20, rate=50)

    async def one():
        async with fermata.aio.Client(served.grpc).stream("camreas", slo=20, rate=50):
            pass
    with pytest.raises(fermata.ServiceError, match="camreas"):
        asyncio.run(one())


def test_a_misspelt_service_of_a_server_that_comes_later_is_named(served):
    with fermata.Client("127.0.0.1:1").stream("camreas", slo=20, rate=50) as s:
        s._address = served.grpc
        for call in (lambda: s.wait_until_ready(START_LIMIT_S), lambda: s.send(FRAME), lambda: s.receive(0)):
            with pytest.raises(fermata.ServiceError, match="camreas"):
                call()


def test_two_services_share_the_workers(tmp_path):
    """Of one worker each gets its part, in one problem that `fermata plan streams` takes."""
    import urllib.request
    text = CONFIG.replace("count: 2", "count: 1")
    services = text[text.index("  cameras:"):]
    server = Server(tmp_path, write_models(tmp_path / "models"), text + services.replace("cameras", "doors"))
    try:
        with stream(server, client="one") as one, \
                fermata.Client(server.grpc).stream("doors", slo=20, rate=50, input="frame", client="one",
                                                   encode=fermata.Pixels()) as other:
            assert one.wait_until_ready(START_LIMIT_S) and other.wait_until_ready(START_LIMIT_S)
            problem = {"clients": []}
            while len(problem["clients"]) < 2:
                for s in (one, other):
                    s.pace()
                    if s.send(FRAME):
                        s.receive(timeout=START_LIMIT_S)
                decisions = urllib.request.urlopen(f"http://{server.http}/v2/fermata/decisions")
                problem, = json.load(decisions)["streams"] or [problem]  # none before the first plan
            done = subprocess.run([FERMATA, "plan", "streams", "-"], input=json.dumps(problem),
                                  capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (problem["workers"], problem["worker_share"]) == (2, 0.5)
        assert {(c["id"], c["service"]) for c in problem["clients"]} == \
            {("cameras/one", "cameras"), ("doors/one", "doors")}
        assert json.loads(done.stdout)["served"] == 2
    finally:
        assert server.stop() == 0
