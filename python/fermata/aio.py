"""The same client for asyncio."""

import asyncio
import time

import grpc
from tritonclient.grpc import service_pb2_grpc

from .client import _FIRST_PAUSE_S, _LONGEST_PAUSE_S, _METADATA_S, _OPTIONS, raise_if_final
from .encode import ServiceError
from .session import Answer, Session


class Client:
    def __init__(self, address="localhost:8001"):
        self._address = address

    def stream(self, service, slo, rate, input=None, **options):
        """A Stream, to be used with `async with`, which raises what fermata.Client.stream() does; the
        other options are Session's."""
        return Stream(self._address, Session(service, slo, rate, input, **options))


class Stream:
    """As fermata.Stream, within one event loop."""

    def __init__(self, address, session):
        self.session = session
        self._address = address
        self._requests = asyncio.Queue()
        self._answers = asyncio.Queue()
        self._ready = asyncio.Event()
        self._task = None
        self._failure = None  # a ServiceError

    async def __aenter__(self):
        async with grpc.aio.insecure_channel(self._address, options=_OPTIONS) as channel:
            await self._describe(service_pb2_grpc.GRPCInferenceServiceStub(channel))
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait_until_ready(self, timeout=None):
        try:
            await asyncio.wait_for(self._ready.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        self._raise_failure()
        return True

    def _raise_failure(self):
        if self._failure is not None:
            raise self._failure

    async def _describe(self, stub):
        request = self.session.metadata_request()
        if request is None:
            return True
        try:
            metadata = await stub.ModelMetadata(request, timeout=_METADATA_S)
        except grpc.RpcError as error:
            raise_if_final(error, self.session.service, self._address)
            return False
        self.session.described(metadata)
        return True

    async def pace(self):
        due = self.session.due(time.monotonic())
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        self.session.sent_on_time()

    async def send(self, frame, tag=None):
        self._raise_failure()
        now = time.monotonic()
        side = self.session.admit(now)
        if side is not None:
            encoded = await asyncio.to_thread(self.session.encode, frame, side)
            self._requests.put_nowait(self.session.frame(encoded, side, tag, now, time.monotonic()))
            return True
        if not (self.session.unmapped and self.session.local):
            return False
        outputs = await asyncio.to_thread(self.session.local, frame)
        self._answers.put_nowait(Answer(tag, outputs, time.monotonic() - now, 0, local=True))
        return True

    async def receive(self, timeout=None):
        self._raise_failure()
        try:
            return await asyncio.wait_for(self._answers.get(), timeout)
        except asyncio.TimeoutError:
            return None

    async def _feed(self, requests):
        while True:
            hello = self.session.hello(time.monotonic())
            if hello is not None:
                yield hello
            try:
                yield await asyncio.wait_for(requests.get(), 0.2)
            except asyncio.TimeoutError:
                continue

    async def _run(self):
        pause = _FIRST_PAUSE_S
        while True:
            async with grpc.aio.insecure_channel(self._address, options=_OPTIONS) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                try:
                    if await self._describe(stub):
                        async for message in stub.ModelStreamInfer(self._feed(self._requests)):
                            pause = _FIRST_PAUSE_S
                            self._take(message)
                except grpc.RpcError:
                    pass
                except ServiceError as failure:
                    self._failure = failure
                    self._ready.set()
                    return
            self._requests = asyncio.Queue()  # a frame of before has waited too long
            for answer in self.session.lost():
                self._answers.put_nowait(answer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _take(self, message):
        answer = self.session.answered(message, time.monotonic())
        if self.session.told:
            self._ready.set()
        if answer is not None:
            self._answers.put_nowait(answer)
