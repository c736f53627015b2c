"""One client of a stream service, without threads, sockets or clocks: which frame to send, how,
and what the answers mean. The sync and the asyncio client drive the same session."""

import dataclasses
import math
import uuid

import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype
from tritonclient.utils import deserialize_bytes_tensor

from .encode import Jpeg
from .link import Bandwidth, back_off

_HELLO_S = 1.0  # between two measurements of the round trip
_PADDING = 8000  # bytes of a hello that measures the bandwidth
_MOST_BYTES = 64  # sizes of which the bytes of a frame are remembered


@dataclasses.dataclass
class Answer:
    """What became of one frame."""

    frame: object  # as it was sent: any number or name of the caller's
    outputs: dict  # numpy arrays by name; empty where there is an error
    latency_s: float  # from the send to the answer
    input_size: int  # that it was sent at; 0: a local answer
    error: str = ""
    local: bool = False

    @property
    def ok(self):
        return not self.error


@dataclasses.dataclass
class _Sent:
    tag: object
    at: float
    size: int
    bytes: int
    hello: bool = False


class Session:
    """`slo` in seconds, `rate` in frames a second. `encode(frame, side)` gives the array to send.
    `local(frame)` gives outputs by name where the service says that no DNN can serve us in time."""

    def __init__(self, service, slo, rate, input, encode=None, outputs=(), client=None,
                 min_accuracy=None, local=None):
        if not (slo > 0 and rate > 0):
            raise ValueError(f"slo is {slo} and rate {rate}, expected positive numbers")
        self.service, self.slo, self.rate = service, slo, rate
        self.client = client or f"{uuid.uuid4()}"
        self._input, self._outputs = input, tuple(outputs)
        self._encode, self._min_accuracy = encode or Jpeg(), min_accuracy
        self.local = local
        self.link = Bandwidth()
        self.unmapped = False
        self.dropped = 0
        self._asked = None  # the size that the service asked for last
        self._bytes = {}  # of a frame, by size
        self._under_way = {}  # by request id
        self._last_id = 0
        self._hello_at = -math.inf
        self._last_arrival = -math.inf  # when the server had the last frame, by our clock
        self._next = None  # when the next frame is due
        self._shift_s = 0.0

    @property
    def told(self):
        """Whether the service has said what to send."""
        return self._asked is not None or self.unmapped

    # -- when ------------------------------------------------------------------------------
    def due(self, now):
        """When the next frame should be sent: every 1/rate, moved so that frames of many clients
        come to the server as batches. Never in the past by more than one interval."""
        interval = 1 / self.rate
        if self._next is None or self._next < now - interval:
            self._next = now
        return self._next

    def sent_on_time(self):
        """The frame that was due is sent or dropped."""
        move = max(-0.5 / self.rate, min(self._shift_s, 0.5 / self.rate))
        self._shift_s = 0.0
        if self._next is not None:
            self._next += 1 / self.rate + (move if abs(move) > 2e-3 else 0)

    # -- what ------------------------------------------------------------------------------
    def hello(self, now):
        """A message without a frame, if it is time for one: registers, measures the round trip."""
        if now < self._hello_at + _HELLO_S:
            return None
        self._hello_at = now
        sent = _Sent(None, now, 0, 0, hello=True)
        request = self._request(now, sent)
        request.parameters["stream_hello"].bool_param = True
        if self.unmapped:  # no frames measure the bandwidth, and one bad second would last
            request.parameters["stream_padding"].string_param = "." * _PADDING
            sent.bytes = request.ByteSize()
        return request

    def may_send(self, now):
        """Whether a frame would leave at once. Who may not drops the frame: it would only wait."""
        frames = [s for s in self._under_way.values() if not s.hello]
        if self._asked is None or len(frames) >= max(1, math.ceil(self.rate * self.slo)):
            return False
        mbps = self.link.mbps(now)
        if mbps is None:
            return not frames
        waiting = sum(s.bytes for s in frames if s.at > self._last_arrival)
        return waiting * 8e-6 / mbps < self.slo / 2

    def size(self, now):
        """The side to send at: what the service asks for, less where the link does not bear it."""
        smaller = sorted(s for s in self._bytes if s <= self._asked)
        if self._asked not in self._bytes or not smaller:
            return self._asked
        return smaller[back_off([self._bytes[s] for s in smaller], self.rate, self.link.mbps(now))]

    def frame(self, frame, tag, now):
        """The message for a frame; None: it is dropped."""
        if self.unmapped or not self.may_send(now):
            self.dropped += 1
            return None
        side = self.size(now)
        array = self._encode(frame, side)
        raw, datatype = _raw(array)
        if len(self._bytes) < _MOST_BYTES or side in self._bytes:
            self._bytes[side] = len(raw)
        request = self._request(now, _Sent(tag, now, side, len(raw)))
        request.parameters["stream_size"].int64_param = side
        request.inputs.add(name=self._input, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(raw)
        for name in self._outputs:
            request.outputs.add(name=name)
        return request

    def _request(self, now, sent):
        self._last_id += 1
        request = service_pb2.ModelInferRequest(model_name=self.service, id=str(self._last_id))
        p = request.parameters
        p["stream_client"].string_param = self.client
        p["stream_slo"].int64_param = round(self.slo * 1e6)
        p["stream_rate"].double_param = self.rate
        if self._min_accuracy is not None:
            p["stream_min_accuracy"].double_param = self._min_accuracy
        mbps = self.link.mbps(now)
        if mbps is not None:
            p["stream_bandwidth"].double_param = mbps
            p["stream_rtt"].int64_param = round(self.link.round_trip_s * 1e6)
        self._under_way[request.id] = sent
        return request

    # -- answers ---------------------------------------------------------------------------
    def answered(self, message, now):
        """A ModelStreamInferResponse: the Answer, or None where it was no frame's."""
        response = message.infer_response
        sent = self._under_way.pop(response.id, None)
        if sent is None:
            return None
        self._learn(response.parameters, sent, now)
        if sent.hello:
            return None
        outputs = {} if message.error_message else _outputs_of(response)
        return Answer(sent.tag, outputs, now - sent.at, sent.size, message.error_message)

    def _learn(self, parameters, sent, now):
        if "stream_server_us" not in parameters:
            return
        in_server = parameters["stream_server_us"].int64_param * 1e-6
        half_way = self.link.round_trip_s / 2
        # It could not leave before the one before it had.
        start = max(sent.at, self._last_arrival - half_way)
        if sent.hello and not sent.bytes and sent.at >= self._last_arrival - half_way:
            self.link.echoed(now - in_server - sent.at)
        elif sent.bytes:
            self.link.acknowledged(sent.bytes, now - in_server - start, now)
        self._last_arrival = max(self._last_arrival, now - in_server - half_way)
        self.unmapped = parameters["stream_unmapped"].bool_param
        if not self.unmapped:
            self._asked = parameters["stream_size"].int64_param
            self._shift_s = parameters["stream_shift_us"].int64_param * 1e-6

    def lost(self):
        """The connection is gone, and what was under way on it: as answers with an error."""
        frames = [s for s in self._under_way.values() if not s.hello]
        self._under_way.clear()
        self._hello_at = -math.inf
        return [Answer(s.tag, {}, math.inf, s.size, "the connection was lost") for s in frames]


def _raw(array):
    if array.dtype == np.object_:
        return serialize_byte_tensor(array).item(), "BYTES"
    return array.tobytes(), np_to_triton_dtype(array.dtype)


def _outputs_of(response):
    outputs = {}
    for tensor, raw in zip(response.outputs, response.raw_output_contents):
        if tensor.datatype == "BYTES":
            array = deserialize_bytes_tensor(raw)
        else:
            array = np.frombuffer(raw, dtype=triton_to_np_dtype(tensor.datatype))
        outputs[tensor.name] = array.reshape(tensor.shape)
    return outputs
