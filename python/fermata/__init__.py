"""Clients of Fermata's stream services.

    import fermata
    with fermata.Client("localhost:8001").stream("cameras", slo=0.1, rate=15, input="frame") as s:
        for frame in camera:             # numpy, [height, width, 3] of bytes
            s.pace()                     # frames of many clients come to the server as batches
            s.send(frame)                # resized and encoded as the service asks; or dropped
            while answer := s.receive(timeout=0):
                draw(answer.outputs)

fermata.aio has the same for asyncio."""

from .client import Client, Stream
from .encode import Jpeg, Pixels
from .link import Bandwidth, Uplink, back_off
from .session import Answer, Session

__all__ = ["Answer", "Bandwidth", "Client", "Jpeg", "Pixels", "Session", "Stream", "Uplink", "back_off"]
