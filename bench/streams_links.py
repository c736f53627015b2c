"""Links between network namespaces whose bandwidth follows traces. Needs root, ip and tc.

    with Links({"c0": (mbps, hold_s, start_s), ...}) as links:
        subprocess.Popen([*links.inside("c0"), "client", ...])   # reaches the server at links.server
        links.start()                                            # from now on the traces run

A token bucket with a long queue and no added delay, as in Jellyfish's experiments, on the client's
way to the server; the way back is free. What the bucket holds passes at once, so it holds one packet,
and packets are small. A program that calls `in_own_network()` first has the server's side to itself,
so that any number of them run at a time.
"""

import itertools
import os
import subprocess
import sys
import threading
import time


def run(*command, check=True):
    return subprocess.run([str(word) for word in command], check=check, capture_output=True, text=True)


PACKET, BUCKET = 1000, 1100  # bytes


def in_own_network(mark="BENCH_IN_OWN_NETWORK"):
    """Starts this program again in a network namespace of its own, unless that is done."""
    if not os.environ.pop(mark, None):
        os.environ[mark] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    run("ip", "link", "set", "lo", "up")


_made = itertools.count()


class Links:
    server = "10.213.0.1"

    def __init__(self, clients, name=None):
        self.clients = clients
        self.name = name or f"fm{os.getpid()}{next(_made) % 26 + 97:c}"  # devices of the last one may still be going
        self.bridge = f"{self.name}br"
        self._stop = threading.Event()
        self._threads = []
        self.log = {client: [] for client in clients}  # (monotonic s, Mbit/s)

    def space(self, client):
        return f"{self.name}-{client}"

    def inside(self, client):
        return ["ip", "netns", "exec", self.space(client)]

    def __enter__(self):
        try:
            self._make()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise SystemExit(f"streams: cannot make the links: {' '.join(error.cmd)}: {error.stderr.strip()}")
        return self

    def _make(self):
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{self.server}/16", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        for i, client in enumerate(self.clients):
            space, near, far = self.space(client), f"{self.name}n{i}", f"{self.name}f{i}"
            run("ip", "netns", "add", space)
            run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
            run("ip", "link", "set", near, "master", self.bridge, "up")
            run("ip", "link", "set", far, "netns", space, "name", "eth0", "mtu", PACKET)
            run("ip", "-n", space, "address", "add", f"10.213.1.{i + 1}/16", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", space, "link", "set", device, "up")
            self.shape(client, self._value(client, 0))

    def _value(self, client, at_s):
        mbps, hold_s, start_s = self.clients[client]
        return mbps[int((start_s + at_s) / hold_s) % len(mbps)]

    def shape(self, client, mbps):
        run("tc", "-n", self.space(client), "qdisc", "replace", "dev", "eth0", "root", "tbf",
            "rate", f"{int(mbps * 1000)}kbit", "burst", BUCKET, "limit", "4mb")
        self.log[client].append((time.monotonic(), mbps))

    def start(self):
        for client in self.clients:
            self._threads.append(threading.Thread(target=self._follow, args=(client,), daemon=True))
            self._threads[-1].start()

    def _follow(self, client):
        _, hold_s, start_s = self.clients[client]
        begin, at_s = time.monotonic(), 0.0
        while True:
            at_s = (int((start_s + at_s) / hold_s + 1e-9) + 1) * hold_s - start_s
            if self._stop.wait(max(0.0, begin + at_s - time.monotonic())):
                return
            self.shape(client, self._value(client, at_s + 1e-6))

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            run("ip", "netns", "delete", self.space(client), check=False)
        run("ip", "link", "delete", self.bridge, check=False)
