"""What a client knows of its way to the server (docs/protocol.md, streams). No clock of its own:
every call takes `now` in seconds."""

from collections import deque

_WINDOW_S = 1.0
_SHORTEST_S = 1e-5
_REMEMBERED = 16


class Bandwidth:
    """Bandwidth by the harmonic mean of the last second's acknowledged transfers, and the
    round-trip time as the least of the last small messages."""

    def __init__(self):
        self._transfers = deque()  # (when, Mbit/s)
        self._ways = deque(maxlen=_REMEMBERED)

    def echoed(self, way_s):
        """A small message came back after so long, without the server's own time."""
        self._ways.append(max(way_s, 0.0))

    def acknowledged(self, size, way_s, now):
        """`size` bytes came back after so long, without the server's own time."""
        transfer_s = max(way_s - self.round_trip_s, _SHORTEST_S)
        self._transfers.append((now, size * 8e-6 / transfer_s))

    @property
    def round_trip_s(self):
        return min(self._ways, default=0.0)

    def mbps(self, now):
        """None before the first transfer."""
        while len(self._transfers) > 1 and self._transfers[0][0] + _WINDOW_S < now:
            self._transfers.popleft()
        if not self._transfers:
            return None
        return len(self._transfers) / sum(1 / max(mbps, 1e-9) for _, mbps in self._transfers)


def back_off(frame_bytes, rate, mbps, share=0.95):
    """The index of the last of `frame_bytes` (ascending) of which `rate` a second use at most
    `share` of the link; 0 if none does, the last without an estimate."""
    size = max(len(frame_bytes) - 1, 0)
    while mbps is not None and size > 0 and frame_bytes[size] * 8e-6 * rate > share * mbps:
        size -= 1
    return size
