"""The Python client's session by hand: estimates, drops, sizes, without a server or a clock."""

import sys

import numpy
import pytest
from tritonclient.grpc import service_pb2

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
from fermata import (Bandwidth, Bytes, Jpeg, Pixels, ServiceError, Session, Uplink,  # noqa: E402
                     back_off)

FRAME = numpy.zeros((60, 80, 3), numpy.uint8)


def reply(request, size, server_us=0, shift_us=0, error=""):
    message = service_pb2.ModelStreamInferResponse(error_message=error)
    message.infer_response.id = request.id
    p = message.infer_response.parameters
    p["stream_size"].int64_param = size
    p["stream_unmapped"].bool_param = size == 0
    p["stream_server_us"].int64_param = server_us
    p["stream_shift_us"].int64_param = shift_us
    return message


def session(**options):
    return Session("s", slo=0.1, rate=10, input="x", **options)


def ready(size=64, **options):
    s = session(**options)
    s.answered(reply(s.hello(-1.0), size), -0.9)  # with the time that the connection took
    s.answered(reply(s.hello(0.0), size), 0.004)
    return s


def send(s, frame, tag, now, encode_s=0.0):
    """A frame that came `encode_s` before now; None: it was dropped."""
    side = s.admit(now - encode_s)
    return None if side is None else s.frame(s.encode(frame, side), side, tag, now - encode_s, now)


def acknowledgement(request, server_us=0):
    message = service_pb2.ModelStreamInferResponse()
    message.infer_response.id = request.id
    message.infer_response.parameters["stream_ack"].bool_param = True
    message.infer_response.parameters["stream_server_us"].int64_param = server_us
    return message


def test_what_encoding_takes_is_no_time_of_the_link():
    s = ready()  # a round trip of 4 ms
    for i in range(5):
        sent = send(s, FRAME, i, 1 + i, encode_s=0.03)
        at = 1 + i + 0.004 + len(sent.raw_input_contents[0]) * 8 / 10e6
        s.answered(acknowledgement(sent), at)
        assert s.answered(reply(sent, 64), at + 0.001).latency_s > 0.03  # it is of the frame
    assert s.link.bandwidth.mbps(6) == pytest.approx(10, rel=0.1)


def test_the_round_trip_is_that_of_a_connection_that_is_made():
    s = session()
    first = s.hello(0.0)
    assert s.hello(0.1) is None
    s.answered(reply(first, 0), 0.2)
    assert s.link.bandwidth.echoes == 0
    again = s.hello(0.2)
    assert again.ByteSize() < 1000 and s.hello(0.21) is None  # at once, small, and one
    s.answered(reply(again, 64), 0.203)
    assert s.link.round_trip_s == pytest.approx(0.003)
    assert s.hello(0.3) is None


def test_the_harmonic_mean_of_the_last_second():
    link = Bandwidth()
    assert link.mbps(0) is None
    link.echoed(0.005)
    link.acknowledged(12_500, 0.015, 0.1)
    link.acknowledged(50_000, 0.015, 0.6)
    assert link.mbps(0.6) == pytest.approx(16)
    assert link.mbps(1.2) == pytest.approx(40)
    assert link.mbps(100) == pytest.approx(40)


def test_back_off_to_what_the_link_sustains():
    sizes = [10_000, 20_000, 40_000]
    assert [back_off(sizes, 25, mbps) for mbps in (10, 8, 0.1, None)] == [2, 1, 0, 2]


def test_no_frame_before_the_service_has_told_a_size():
    s = session()
    assert send(s, FRAME, 0, 0.0) is None and s.dropped == 1
    assert send(ready(), FRAME, 0, 0.1) is not None


def test_a_frame_says_what_the_service_needs_to_know():
    s = ready(client="me", min_accuracy=0.3)
    request = send(s, FRAME, 0, 0.1)
    p = request.parameters
    assert (p["stream_client"].string_param, p["stream_slo"].int64_param) == ("me", 100_000)
    assert (p["stream_rate"].double_param, p["stream_size"].int64_param) == (10, 64)
    assert p["stream_min_accuracy"].double_param == 0.3
    s.answered(reply(request, 64, server_us=20_000), 0.134)  # 10 ms on the way beside 4 ms
    expected = len(request.raw_input_contents[0]) * 8e-6 / 0.010
    assert s.link.bandwidth.mbps(0.2) == pytest.approx(expected)
    later = send(s, FRAME, 1, 0.2)
    assert later.parameters["stream_bandwidth"].double_param == pytest.approx(expected)
    assert later.parameters["stream_rtt"].int64_param == 4000


def test_a_transfer_behind_another_counts_from_the_end_of_that():
    s = ready(encode=Pixels())
    first = send(s, FRAME, 0, 1.0)
    s.answered(reply(first, 64), 1.054)  # 50 ms for so many bytes
    one, two = send(s, FRAME, 1, 2.0), None
    two = send(s, FRAME, 2, 2.01) or one
    s.answered(reply(one, 64), 2.054)
    if two is not one:
        s.answered(reply(two, 64), 2.104)
    bits = len(first.raw_input_contents[0]) * 8e-6
    assert s.link.bandwidth.mbps(2.2) == pytest.approx(bits / 0.05, rel=0.01)


def test_frames_that_would_wait_are_dropped():
    s = ready()
    first = send(s, FRAME, 0, 1.0)
    assert send(s, FRAME, 1, 1.001) is None  # nothing is known of the link yet
    s.answered(reply(first, 64), 3.0)        # and it was very slow
    send(s, FRAME, 2, 3.1)
    assert send(s, FRAME, 3, 3.11) is None
    assert s.dropped == 2


def test_a_stall_leaves_nothing_behind():
    s = ready()
    sent = [r for r in (send(s, FRAME, i, 1 + i / 10) for i in range(50)) if r]
    assert len(sent) == 1
    answer = s.answered(reply(sent[0], 64), 6.0)
    assert answer.latency_s == pytest.approx(5)


def test_an_acknowledgement_tells_of_the_link_before_the_answer_does():
    s = ready()
    sent = send(s, FRAME, 0, 1.0)
    assert sent.parameters["stream_ack"].bool_param
    early = reply(sent, 0)
    early.infer_response.parameters["stream_ack"].bool_param = True
    assert s.answered(early, 1.014) is None and not s.unmapped
    bits = len(sent.raw_input_contents[0]) * 8e-6
    assert s.link.bandwidth.mbps(1.02) == pytest.approx(bits / 0.010)
    assert s.answered(reply(sent, 64, server_us=50_000), 1.064).ok
    assert s.link.bandwidth.mbps(1.07) == pytest.approx(bits / 0.010)  # counted once


def test_what_would_come_too_late_is_sent_smaller_and_what_would_wait_is_dropped():
    link, sizes = Uplink(), [1_000, 10_000, 40_000]
    assert link.choose(sizes, 10, 0.1, 0.0) == 2  # nothing is known
    for i in range(5):
        link.sent(40_000, i / 10)
        link.acknowledged(0.0, i / 10 + 0.032)  # 10 Mbit/s
    assert link.choose(sizes, 10, 0.1, 0.5) == 2
    assert link.choose(sizes, 10, 0.03, 0.5) == 1  # 32 ms are too long
    link.sent(40_000, 0.5)
    assert link.choose(sizes, 10, 0.1, 0.65) == 1  # it should have come: the link is slower
    link.sent(40_000, 0.65)
    assert link.choose(sizes, 10, 0.1, 0.66) is None


def test_the_sure_bandwidth_follows_the_spread():
    steady, unsteady = Bandwidth(), Bandwidth()
    for i in range(400):
        steady.acknowledged(10_000, 0.01, i / 20)
        unsteady.acknowledged(10_000, 0.03 if i % 5 == 0 else 0.01, i / 20)
    assert steady.sure_mbps(20) == pytest.approx(steady.mbps(20), rel=0.02)
    assert unsteady.sure_mbps(20) < 0.7 * unsteady.mbps(20)


def test_the_shift_of_a_frame_that_was_sent_before_the_last_move_is_old():
    s = Session("s", slo=1, rate=10, input="x")
    s.answered(reply(s.hello(0.0), 64), 0.004)
    early = send(s, FRAME, 0, 1.0)
    s.answered(reply(early, 64, shift_us=0), 1.01)
    assert s.due(1.1) == 1.1
    first = send(s, FRAME, 1, 1.1)
    s.sent_on_time()
    second = send(s, FRAME, 2, 1.2)
    s.answered(reply(first, 64, shift_us=30_000), 1.25)
    s.sent_on_time()
    assert s.due(1.25) == pytest.approx(1.33)
    s.answered(reply(second, 64, shift_us=30_000), 1.26)
    s.sent_on_time()
    assert s.due(1.26) == pytest.approx(1.43)


def test_the_shift_moves_the_next_frame_once():
    s = ready()
    assert s.due(1.0) == 1.0
    s.answered(reply(send(s, FRAME, 0, 1.0), 64, shift_us=30_000), 1.01)
    s.sent_on_time()
    assert s.due(1.02) == pytest.approx(1.13)
    s.sent_on_time()
    assert s.due(1.14) == pytest.approx(1.23)


def test_unmapped_and_back():
    s = ready(size=0)
    assert s.unmapped and send(s, FRAME, 0, 0.1) is None
    s.answered(reply(s.hello(1.5), 64), 1.51)
    assert not s.unmapped and send(s, FRAME, 0, 1.6) is not None


def test_an_unmapped_client_goes_on_measuring_its_bandwidth():
    s = ready(size=0)
    hello = s.hello(1.0)
    size = hello.ByteSize()
    assert size > 8000
    s.answered(reply(hello, 64), 1.004 + size * 8e-6 / 10)
    assert s.link.mbps(1.1) == pytest.approx(10, rel=0.01)
    assert s.link.round_trip_s == pytest.approx(0.004)


def test_an_error_is_an_answer_and_teaches_too():
    s = ready()
    answer = s.answered(reply(send(s, FRAME, "t", 1.0), 32, error="too late"), 1.1)
    assert (answer.frame, answer.ok, answer.error) == ("t", False, "too late")
    assert s.side(1.2) == 32


def test_what_is_lost_with_the_connection_is_said():
    s = ready()
    send(s, FRAME, 7, 1.0)
    assert [a.frame for a in s.lost()] == [7] and s.lost() == []
    assert s.hello(1.01) is not None  # registers again at once


@pytest.mark.parametrize("encode, shape", [
    (Jpeg(), (1, 1)), (Jpeg(batched=False), (1,)), (Pixels(), (1, 3, 32, 32)),
    (Pixels(batched=False), (3, 32, 32)), (Bytes(), (1, 32, 32, 3)), (Bytes(batched=False), (32, 32, 3))])
def test_encoders_resize(encode, shape):
    assert encode(FRAME, 32).shape == shape


def metadata(*inputs):
    return service_pb2.ModelMetadataResponse(name="s", inputs=[
        service_pb2.ModelMetadataResponse.TensorMetadata(name=n, datatype=d, shape=s) for n, d, s in inputs])


@pytest.mark.parametrize("given, datatype, shape", [
    (("BYTES", [-1, 1]), "BYTES", [1, 1]), (("BYTES", [1]), "BYTES", [1]),
    (("UINT8", [-1, -1, -1, 3]), "UINT8", [1, 32, 32, 3]), (("FP32", [3, 32, 32]), "FP32", [3, 32, 32]),
    (("FP32", [-1, 3, -1, -1]), "FP32", [1, 3, 32, 32])])
def test_the_metadata_say_what_a_frame_is_sent_as(given, datatype, shape):
    s = Session("s", slo=0.1, rate=10)
    assert s.metadata_request().name == "s"
    s.described(metadata(("picture", *given)))
    assert s.metadata_request() is None
    tensor, = s.frame(s.encode(FRAME, 32), 32, None, 0.0, 0.0).inputs
    assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("picture", datatype, shape)


def test_what_the_caller_says_counts():
    s = Session("s", slo=0.1, rate=10, input="b", encode=Bytes())
    s.described(metadata(("a", "FP32", [4]), ("b", "INT64", [4])))
    assert s.frame(s.encode(FRAME, 32), 32, None, 0.0, 0.0).inputs[0].name == "b"


@pytest.mark.parametrize("options, inputs, said", [
    ({}, [("a", "FP32", [4])], "input 'a' is FP32"), ({}, [("a", "FP32", [4]), ("b", "FP32", [4])], "a, b"),
    ({"input": "c"}, [("a", "FP32", [4])], "no input 'c'")])
def test_a_service_that_takes_no_frames_is_named(options, inputs, said):
    with pytest.raises(ServiceError, match="'s'") as wrong:
        Session("s", slo=0.1, rate=10, **options).described(metadata(*inputs))
    assert said in str(wrong.value)


@pytest.mark.parametrize("slo, rate", [(0, 10), (0.1, 0), (-1, 5)])
def test_wrong_objectives(slo, rate):
    with pytest.raises(ValueError, match="expected positive numbers"):
        Session("s", slo=slo, rate=rate, input="x")
