"""Clients of Fermata's stream services.

    import fermata
    with fermata.Client("localhost:8001").stream("shapes", slo=0.2, rate=5) as s:
        for frame in camera:             # numpy, [height, width, 3] of bytes
            s.pace()                     # frames of many clients come to the server as batches
            s.send(frame)                # resized and encoded as the service asks; or dropped
            while answer := s.receive(timeout=0):
                draw(answer.outputs)

fermata.aio has the same for asyncio."""

from .client import Client, Stream
from .encode import Bytes, Jpeg, Pixels, ServiceError
from .link import Bandwidth, Uplink, back_off
from .session import Answer, Session

__all__ = ["Answer", "Bandwidth", "Bytes", "Client", "Jpeg", "Pixels", "ServiceError", "Session", "Stream",
           "Uplink", "back_off"]
