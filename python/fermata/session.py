"""One client of a stream service, without threads, sockets or clocks: which frame to send, how,
and what the answers mean. The sync and the asyncio client drive the same session."""

import dataclasses
import math
import uuid

import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype
from tritonclient.utils import deserialize_bytes_tensor

from .encode import Jpeg, ServiceError, encoder_for
from .link import Uplink

_HELLO_S = 1.0  # between two measurements of the round trip
_PADDING = 8000  # bytes of a hello that measures the bandwidth
_PROBE_S = 3.0  # between two of these, where frames are too small to tell
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
    alone: bool = False  # on the link, when it was sent
    arrived: bool = False  # at the server, as far as we know


class Session:
    """`slo` in seconds, `rate` in frames a second. `input` and `encode`, where they are not given, are
    what the service's metadata say: its only input, and what that takes. `encode(frame, side)` gives
    the array to send. `local(frame)` gives outputs by name where the service says that no DNN can
    serve us in time."""

    def __init__(self, service, slo, rate, input=None, encode=None, outputs=(), client=None,
                 min_accuracy=None, local=None):
        if not (slo > 0 and rate > 0):
            raise ValueError(f"slo is {slo} and rate {rate}, expected positive numbers")
        self.service, self.slo, self.rate = service, slo, rate
        self.client = client or f"{uuid.uuid4()}"
        self._input, self._outputs = input, tuple(outputs)
        self._encode, self._min_accuracy = encode, min_accuracy
        self._described = False
        self.local = local
        self.link = Uplink()
        self.unmapped = False
        self.dropped = 0
        self._asked = None  # the size that the service asked for last
        self._bytes = {}  # of a frame, by size
        self._under_way = {}  # by request id
        self._last_id = 0
        self._hello_at = self._frame_at = -math.inf
        self._connected = False  # something came back
        self._moved_at = -math.inf  # when our frames were last moved
        self._next = None  # when the next frame is due
        self._shift_s = 0.0

    @property
    def told(self):
        """Whether the service has said what to send."""
        return self._asked is not None or self.unmapped

    def metadata_request(self):
        """Ask the server this first; None: we know what we send."""
        return None if self._described else service_pb2.ModelMetadataRequest(name=self.service)

    def described(self, metadata):
        """A ModelMetadataResponse. Raises ServiceError where the service takes no such frames."""
        inputs = {tensor.name: tensor for tensor in metadata.inputs}
        if self._input is None and len(inputs) != 1:
            raise ServiceError(f"service '{self.service}' has the inputs {', '.join(inputs)}: say which takes "
                               "frames, input=NAME")
        name = self._input if self._input is not None else next(iter(inputs))
        if name not in inputs:
            raise ServiceError(f"service '{self.service}' has no input '{name}', expected one of "
                               f"{', '.join(inputs)}")
        if self._encode is None:
            try:
                self._encode = encoder_for(name, inputs[name].datatype, inputs[name].shape)
            except ServiceError as why:
                raise ServiceError(f"service '{self.service}': {why}") from None
        self._input, self._described = name, True

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
        if self._next is None:
            return
        self._next += 1 / self.rate
        if abs(move) > 2e-3:
            self._next += move
            self._moved_at = self._next

    # -- what ------------------------------------------------------------------------------
    def hello(self, now):
        """A message without a frame, if it is time for one: registers, measures the round trip."""
        # The first one of a connection waits until that is made, and measures nothing.
        again = self._connected and not self.link.bandwidth.echoes
        if now < self._hello_at + _HELLO_S and not (again and not self._greets()):
            return None
        probes = self._has_to_probe(now)
        if probes and self.link.busy and now < self._hello_at + 2 * _HELLO_S:
            return None
        self._hello_at = now
        sent = _Sent(None, now, 0, 0, hello=True, alone=self._connected and not self.link.busy)
        request = self._request(now, sent)
        request.parameters["stream_hello"].bool_param = True
        # Without frames nothing measures the bandwidth, and one bad second would last.
        if (self.unmapped and not again) or probes:
            request.parameters["stream_padding"].string_param = "." * _PADDING
            sent.bytes = request.ByteSize()
            self.link.sent(sent.bytes, now)
        return request

    def _has_to_probe(self, now):
        if self.unmapped or self._frame_at == -math.inf or not self.link.round_trip_s:
            return False  # the way comes first
        told = self.link.bandwidth.told_at
        return told is None or now >= told + _PROBE_S

    def _greets(self):
        return any(sent.hello for sent in self._under_way.values())

    def side(self, now):
        """The side to send at: what the service asks for, less where the link does not bear it.
        None: the frame would only wait, and is dropped."""
        frames = sum(not s.hello for s in self._under_way.values())
        if self._asked is None or frames >= max(1, math.ceil(self.rate * self.slo)):
            return None
        sides = sorted(s for s in self._bytes if s <= self._asked)
        if self._asked not in sides:
            sides.append(self._asked)
        largest = max(self._bytes.values(), default=0)
        sizes = [self._bytes.get(s, largest) for s in sides]
        chosen = self.link.choose(sizes, self.rate, self.slo, now)
        return None if chosen is None else sides[chosen]

    def admit(self, now):
        """The side to encode a frame at; None: it is dropped."""
        side = None if self.unmapped else self.side(now)
        self.dropped += side is None
        return side

    def encode(self, frame, side):
        """Any thread; how long it takes is no time of the network."""
        if self._encode is None:
            self._encode = Jpeg()
        array = self._encode(frame, side)
        return array, *_raw(array)

    def frame(self, encoded, side, tag, came, now):
        """The message for what encode() gave of a frame that came at `came`, to be sent now."""
        array, raw, datatype = encoded
        if len(self._bytes) < _MOST_BYTES or side in self._bytes:
            self._bytes[side] = len(raw)
        request = self._request(now, _Sent(tag, came, side, len(raw)))
        self.link.sent(len(raw), now)
        self._frame_at = now
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
        p["stream_ack"].bool_param = True
        p["stream_client"].string_param = self.client
        p["stream_slo"].int64_param = round(self.slo * 1e6)
        p["stream_rate"].double_param = self.rate
        if self._min_accuracy is not None:
            p["stream_min_accuracy"].double_param = self._min_accuracy
        link = self.link.bandwidth
        if link.mbps(now) is not None:
            p["stream_bandwidth"].double_param = link.mbps(now)
            p["stream_sure_bandwidth"].double_param = link.sure_mbps(now)
            p["stream_rtt"].int64_param = round(link.round_trip_s * 1e6)
        self._under_way[request.id] = sent
        return request

    # -- answers ---------------------------------------------------------------------------
    def answered(self, message, now):
        """A ModelStreamInferResponse: the Answer, or None where it was no frame's."""
        response = message.infer_response
        sent = self._under_way.get(response.id)
        if sent is None:
            return None
        self._connected = True
        if response.parameters["stream_ack"].bool_param:
            self._acknowledged(response.parameters, sent, now)
            return None
        del self._under_way[response.id]
        self._learn(response.parameters, sent, now)
        if sent.hello:
            return None
        outputs = {} if message.error_message else _outputs_of(response)
        return Answer(sent.tag, outputs, now - sent.at, sent.size, message.error_message)

    def _acknowledged(self, parameters, sent, now):
        if sent.arrived:
            return
        sent.arrived = True
        in_server = parameters["stream_server_us"].int64_param * 1e-6
        if sent.bytes:
            self.link.acknowledged(in_server, now)
        elif sent.alone:
            self.link.bandwidth.echoed(now - in_server - sent.at)

    def _learn(self, parameters, sent, now):
        self._acknowledged(parameters, sent, now)  # where it was not before
        if "stream_server_us" not in parameters:
            return
        if not sent.hello:
            self.link.answered(parameters["stream_server_us"].int64_param * 1e-6)
        if sent.at < self._moved_at:
            parameters["stream_shift_us"].int64_param = 0  # of before our frames were moved
        self.unmapped = parameters["stream_unmapped"].bool_param
        if not self.unmapped:
            self._asked = parameters["stream_size"].int64_param
            self._shift_s = parameters["stream_shift_us"].int64_param * 1e-6

    def lost(self):
        """The connection is gone, and what was under way on it: as answers with an error."""
        frames = [s for s in self._under_way.values() if not s.hello]
        self._under_way.clear()
        self.link.lost()
        self._hello_at = self._frame_at = -math.inf
        self._connected = False
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
