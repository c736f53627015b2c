"""The client with threads: frames in, answers out of a queue."""

import queue
import threading
import time

import grpc
from tritonclient.grpc import service_pb2_grpc

from .session import Answer, Session

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Client:
    """`Client("localhost:8001").stream("cameras", slo=0.1, rate=15, input="frame")`."""

    def __init__(self, address="localhost:8001"):
        self._address = address

    def stream(self, service, slo, rate, input, **options):
        """A Stream; the other options are Session's."""
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
            return self._lock.wait_for(lambda: condition(self.session), timeout)

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
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

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
                    for message in stub.ModelStreamInfer(self._feed(requests)):
                        pause = _FIRST_PAUSE_S
                        self._take(message)
                except grpc.RpcError:
                    pass
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
