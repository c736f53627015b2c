"""What a client knows of its way to the server (docs/streams.md). No clock of its own:
every call takes `now` in seconds."""

import math
from collections import deque

_WINDOW_S = 1.0
_SHORTEST_S = 1e-5
_REMEMBERED = 16
_TELLING = 6000  # bytes from which on a transfer tells how fast the link is
_SLOWER = 0.5  # than what told: then the link is, whatever small ones are
_UNSURE = 0.05  # share of transfers that stay behind the sure bandwidth
_FIRST_SHARE = 0.8
_STEP, _SOFT = 0.05, 0.1
_FORGET, _NEW = 0.95, 0.1


class Bandwidth:
    """Bandwidth by the harmonic mean of the last second's acknowledged transfers, and the
    round-trip time as the least of the last small messages. Small transfers tell too much: what
    shapes a link lets a few packets pass at once. So what the last larger one told counts, until the
    small ones are half as fast."""

    def __init__(self):
        self._transfers = deque()  # (when, Mbit/s, whether it tells), of two windows
        self._told = None  # the last that tells
        self._ways = deque(maxlen=_REMEMBERED)
        self._sure_share = math.log(_FIRST_SHARE)

    def echoed(self, way_s):
        """A small message came back after so long, without the server's own time."""
        self._ways.append(max(way_s, 0.0))

    def acknowledged(self, size, way_s, now):
        """`size` bytes came back after so long, without the server's own time."""
        reached = max(size * 8e-6 / max(way_s - self.round_trip_s, _SHORTEST_S), 1e-9)
        expected = self._mean(now - way_s - _WINDOW_S, now - way_s)
        if expected is not None:
            share = math.log(min(max(reached / expected, 1e-3), 1.0))
            surprise = min(max((share - self._sure_share) / _SOFT, -1.0), 1.0)
            self._sure_share += _STEP * surprise * (_UNSURE if surprise > 0 else 1 - _UNSURE)
        self._transfers.append((now, reached, size >= _TELLING))
        if size >= _TELLING:
            self._told = (now, reached)

    @property
    def told_at(self):
        """When the last transfer that tells was acknowledged; None: there was none."""
        return self._told and self._told[0]

    @property
    def echoes(self):
        """How many small messages have told the round trip."""
        return len(self._ways)

    @property
    def round_trip_s(self):
        return min(self._ways, default=0.0)

    def _mean(self, since, until):
        means = {}
        for kind in (True, False):
            inverse = [1 / mbps for at, mbps, tells in self._transfers
                       if since <= at <= until and tells == kind]
            if inverse:
                means[kind] = len(inverse) / sum(inverse)
            elif kind and self._told:
                means[kind] = self._told[1]
        # What told long ago is no transfer of this time.
        seen = any(since <= at <= until for at, _, _ in self._transfers)
        if not seen:
            return None
        small = means.get(False, math.inf)
        told = means.get(True, small)
        return small if small < _SLOWER * told else told

    def mbps(self, now):
        """None before the first transfer."""
        while len(self._transfers) > 1 and self._transfers[0][0] + 2 * _WINDOW_S < now:
            self._transfers.popleft()
        if not self._transfers:
            return None
        mean = self._mean(now - _WINDOW_S, now)
        return mean if mean is not None else self._mean(self._transfers[-1][0], now)

    def sure_mbps(self, now):
        """What 19 of 20 transfers reach, by how far the earlier ones stayed behind the mean."""
        mbps = self.mbps(now)
        return mbps if mbps is None else mbps * min(math.exp(self._sure_share), 1.0)

    def lately_mbps(self, now):
        """The last transfer's, where that is less than the mean."""
        mbps = self.mbps(now)
        return mbps if mbps is None else min(mbps, self._transfers[-1][1])


class Uplink:
    """What is under way on the link, and what may be sent next so that it is answered in time.
    Frames are acknowledged in the order in which they were sent."""

    def __init__(self):
        self.bandwidth = Bandwidth()
        self._under_way = deque()  # (sent, bytes), not acknowledged
        self._last_end = -math.inf  # when the last acknowledged frame had left
        self._acknowledged_after = 0.0  # the longest of late
        self._answered_after = 0.0  # the mean

    def mbps(self, now):
        return self.bandwidth.mbps(now)

    @property
    def round_trip_s(self):
        return self.bandwidth.round_trip_s

    def sent(self, size, now):
        self._under_way.append((now, size))

    def _start(self):
        return max(self._under_way[0][0], self._last_end)

    def acknowledged(self, in_server_s, now):
        """The oldest frame under way, which the server had had for so long by then."""
        if not self._under_way:
            return
        self.bandwidth.acknowledged(self._under_way[0][1], now - in_server_s - self._start(), now)
        self._last_end = max(self._last_end, now - in_server_s - self.bandwidth.round_trip_s)
        self._acknowledged_after = max(in_server_s, self._acknowledged_after * _FORGET)
        self._under_way.popleft()

    def answered(self, in_server_s):
        self._answered_after += _NEW * (in_server_s - self._answered_after)

    @property
    def busy(self):
        return bool(self._under_way)

    def lost(self):
        self._under_way.clear()

    def _lately_mbps(self, now):
        # A frame that should have been acknowledged by now tells that the link has become slower.
        mbps = self.bandwidth.lately_mbps(now)
        if mbps is None or not self._under_way:
            return mbps
        on_s = now - self._start() - self.bandwidth.round_trip_s - self._acknowledged_after
        megabits = self._under_way[0][1] * 8e-6
        return megabits / on_s if on_s > megabits / mbps else mbps

    def _wait_s(self, mbps, now):
        if not self._under_way:
            return 0.0
        free = self._start()
        for sent, size in self._under_way:
            free = max(free, sent) + size * 8e-6 / mbps
        return max(free - now, 0.0)

    def choose(self, frame_bytes, rate, slo, now):
        """The index in `frame_bytes` (ascending) of what to send now: the largest whose rate the
        link bears and that would be answered within `slo`; 0 if none would; None: it would only
        wait, and should be dropped."""
        mbps = self._lately_mbps(now)
        size = back_off(frame_bytes, rate, self.bandwidth.mbps(now))
        if mbps is None:
            return None if self._under_way else size
        wait = self._wait_s(mbps, now)
        if wait > slo / 2:
            return None
        left_s = slo - self.bandwidth.round_trip_s - self._answered_after - wait
        while size > 0 and frame_bytes[size] * 8e-6 > left_s * mbps:
            size -= 1
        return size


def back_off(frame_bytes, rate, mbps, share=0.95):
    """The index of the last of `frame_bytes` (ascending) of which `rate` a second use at most
    `share` of the link; 0 if none does, the last without an estimate."""
    size = max(len(frame_bytes) - 1, 0)
    while mbps is not None and size > 0 and frame_bytes[size] * 8e-6 * rate > share * mbps:
        size -= 1
    return size
