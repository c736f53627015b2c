#!/usr/bin/env python3
"""One client of a stream service, for bench/streams.py: sends frames that are as large as JPEGs of their
size, and writes one JSON object about what became of them.

    bench/streams_client.py ADDRESS --service cameras --slo-ms 100 --rate 15 --seconds 20
        --bytes '{"128": 10000, ...}' [--most SIDE | --only SIDE]
"""

import argparse
import json
import os
import pathlib
import random
import sys
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import fermata  # noqa: E402


class Frames:
    """Encodes a frame as random bytes, as many as a JPEG of that side has, 10 % more or less. With
    `only` always as many as one of that side (DNN adaptation alone)."""

    def __init__(self, sizes, seed, only=None):
        self._sizes, self._draw, self._only = sizes, random.Random(seed), only
        self._bytes = os.urandom(2 * max(sizes.values()))

    def __call__(self, frame, side):
        size = int(self._sizes[self._only or side] * self._draw.uniform(0.9, 1.1))
        return numpy.array([self._bytes[:size]], dtype=numpy.object_).reshape(1, 1)


class Fixed(fermata.Session):
    """A client of one model: it sends the largest size up to the model's that its link bears (data
    adaptation alone), with what the way leaves of its objective."""

    def __init__(self, *args, most, sizes, **options):
        super().__init__(*args, **options)
        self._asked, self._sizes = most, sizes

    def side(self, now):
        if super().side(now) is None:
            return None
        sides = [s for s in sorted(self._sizes) if s <= self._asked]
        return sides[fermata.back_off([self._sizes[s] for s in sides], self.rate,
                                      self.link.bandwidth.mbps(now))]

    def frame(self, encoded, side, tag, came, now):
        request = super().frame(encoded, side, tag, came, now)
        link = self.link.bandwidth
        mbps = link.mbps(now)
        way_s = link.round_trip_s
        if mbps:
            way_s += len(request.raw_input_contents[0]) * 8e-6 / mbps
        request.parameters["timeout"].int64_param = round(self.slo * 1e6)
        request.parameters["network_time"].int64_param = round(way_s * 1e6)
        return request


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--service", default="cameras")
    parser.add_argument("--slo-ms", type=float, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--bytes", type=json.loads, required=True)
    parser.add_argument("--most", type=int, help="the one model's side; --service names it")
    parser.add_argument("--only", type=int, help="the side whose bytes all frames have")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sizes = {int(side): size for side, size in args.bytes.items()}
    common = dict(slo=args.slo_ms / 1e3, rate=args.rate, input="frame", encode=Frames(sizes, args.seed, args.only))
    if args.most:
        session = Fixed(args.service, most=args.most, sizes=sizes, **common)
    else:
        session = fermata.Session(args.service, **common)
    offered, answers, sent_at, estimates = [], {}, {}, []
    with fermata.Stream(args.address, session) as stream:
        if not stream.wait_until_ready(30):
            sys.exit("streams_client: the service has not answered within 30 s")
        begin = time.monotonic()
        number = 0
        late = 0.0  # how far the client itself is behind its own clock
        while (now := time.monotonic()) < begin + args.warm_up + args.seconds:
            due = session.due(now)
            stream.pace()
            now = time.monotonic()
            measured = begin + args.warm_up <= now < begin + args.warm_up + args.seconds
            late = max(late, now - due) if measured else late
            mbps = session.link.bandwidth.mbps(now)
            if measured:
                offered.append(number)
                if mbps:
                    estimates.append((now, mbps))
            if stream.send(None, tag=number):
                sent_at[number] = now
            while answer := stream.receive(timeout=0):
                answers[answer.frame] = answer
            number += 1
        while len(answers) < len(sent_at) and (answer := stream.receive(timeout=2)):
            answers[answer.frame] = answer
    slo = args.slo_ms / 1e3
    got = [answers.get(i) for i in offered]
    on_time = [a for a in got if a and a.ok and a.latency_s <= slo]
    json.dump({"offered": len(offered), "on_time": len(on_time),
               "late": sum(bool(a and a.ok and a.latency_s > slo) for a in got),
               "rejected": sum(bool(a and not a.ok) for a in got),
               "dropped": sum(i not in sent_at for i in offered),
               "late_ms": round(late * 1e3, 3),
               "sides": [a.input_size for a in on_time],
               "latency_ms": sorted(round(a.latency_s * 1e3, 2) for a in got if a and a.ok),
               "estimates": estimates}, sys.stdout)


if __name__ == "__main__":
    main()
