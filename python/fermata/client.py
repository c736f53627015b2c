"""The client with threads: frames in, answers out of a queue."""

import queue
import threading
import time

import grpc
from tritonclient.grpc import service_pb2_grpc

from .encode import ServiceError
from .session import Answer, Session

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_METADATA_S = 5.0  # to wait for an answer
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def raise_if_final(error, service, address):
    """What trying again does not help with."""
    if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
        raise ServiceError(f"service '{service}' at {address}: {error.details()}") from None


class Client:
    """`Client("localhost:8001").stream("cameras", slo=0.1, rate=15)`."""

    def __init__(self, address="localhost:8001"):
        self._address = address

    def stream(self, service, slo, rate, input=None, **options):
        """A Stream; the other options are Session's. Raises ServiceError where the server has no such
        service, or one that takes no frames. Of a server that does not answer (yet) the stream finds
        out when it does, and then wait_until_ready(), send() and receive() raise it."""
        return Stream(self._address, Session(service, slo, rate, input, **options))


class Stream:
    """Frames are sent, or dropped at once where they would only wait; a lost connection is made
    again. Answers come in any order of the frames' ends. Use it as a context manager."""

    def __init__(self, address, session):
        self.session = session
        self._address = address
        self._lock = threading.Condition()  # of the session; told of every message
        self._requests = queue.SimpleQueue()
        self._answers = queue.SimpleQueue()
        self._closing = threading.Event()
        self._failure = None  # a ServiceError
        with grpc.insecure_channel(address, options=_OPTIONS) as channel:
            self._describe(service_pb2_grpc.GRPCInferenceServiceStub(channel))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._closing.set()
        self._requests.put(None)
        self._thread.join()

    def wait_until_ready(self, timeout=None):
        """Whether the service has told a size, so that frames can be sent."""
        return self.wait_for(lambda session: session.told, timeout)

    def wait_for(self, condition, timeout=None):
        """Until the service has said what makes `condition(session)` true; whether it has."""
        with self._lock:
            self._lock.wait_for(lambda: self._failure or condition(self.session), timeout)
            self._raise_failure()
            return condition(self.session)

    def pace(self):
        """Sleeps until the next frame is due, as the service asks for it."""
        with self._lock:
            due = self.session.due(time.monotonic())
        self._closing.wait(max(0.0, due - time.monotonic()))
        with self._lock:
            self.session.sent_on_time()

    def send(self, frame, tag=None):
        """Whether the frame was sent, or answered by the local model; else it is dropped."""
        with self._lock:
            self._raise_failure()
            now = time.monotonic()
            side = self.session.admit(now)
            unmapped = self.session.unmapped
        if side is not None:
            encoded = self.session.encode(frame, side)
            with self._lock:
                request = self.session.frame(encoded, side, tag, now, time.monotonic())
            self._requests.put(request)
            return True
        if not (unmapped and self.session.local):
            return False
        outputs = self.session.local(frame)
        self._answers.put(Answer(tag, outputs, time.monotonic() - now, 0, local=True))
        return True

    def receive(self, timeout=None):
        """The next Answer; None after `timeout` seconds without one."""
        with self._lock:
            self._raise_failure()
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def _raise_failure(self):
        if self._failure is not None:
            raise self._failure

    # Whether we know what the service takes; raises ServiceError where nothing will ever help.
    def _describe(self, stub):
        with self._lock:
            request = self.session.metadata_request()
        if request is None:
            return True
        try:
            metadata = stub.ModelMetadata(request, timeout=_METADATA_S)
        except grpc.RpcError as error:
            raise_if_final(error, self.session.service, self._address)
            return False
        with self._lock:
            self.session.described(metadata)
        return True

    # Requests for one connection, with a hello now and then.
    def _feed(self, requests):
        while not self._closing.is_set():
            with self._lock:
                hello = self.session.hello(time.monotonic())
            if hello is not None:
                yield hello
            try:
                request = requests.get(timeout=0.2)
            except queue.Empty:
                continue
            if request is None:
                return
            yield request

    def _run(self):
        pause = _FIRST_PAUSE_S
        while not self._closing.is_set():
            requests = self._requests
            with grpc.insecure_channel(self._address, options=_OPTIONS) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                try:
                    if self._describe(stub):
                        for message in stub.ModelStreamInfer(self._feed(requests)):
                            pause = _FIRST_PAUSE_S
                            self._take(message)
                except grpc.RpcError:
                    pass
                except ServiceError as failure:
                    with self._lock:
                        self._failure = failure
                        self._lock.notify_all()
                    return
            with self._lock:
                lost = self.session.lost()
                self._requests = queue.SimpleQueue()  # a frame of before has waited too long
            requests.put(None)
            for answer in lost:
                self._answers.put(answer)
            self._closing.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _take(self, message):
        with self._lock:
            answer = self.session.answered(message, time.monotonic())
            self._lock.notify_all()
        if answer is not None:
            self._answers.put(answer)
