"""Hosts of a test: network namespaces around one router, whose links the test slows, delays and cuts.

    missing = hosts.missing()           # in words, empty where hosts can be made here
    with hosts.Network() as network:
        one, two = network.host("one"), network.host("two")
        process = one.start(["fermata", "serve", ...])    # as subprocess.Popen
        with two.here():                # sockets that this thread makes now are that host's
            urllib.request.urlopen(f"http://{one.address}:8000/v2")
        network.cut(one, two)           # what they send each other vanishes, until network.mend(one, two)
        one.unplug()                    # nothing reaches it, and nothing leaves it, until one.plug()
        one.limit(10**9)                # bits a second in each direction, by a token bucket
        with network.delayed(0.005, (one, two)):          # each way, by a forwarder of our own
            ...

All of it is gone with the process that made it: namespaces have no name, so that none is left behind."""

import collections
import contextlib
import ctypes
import fcntl
import itertools
import os
import select
import shutil
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
ROUTER = "169.254.0.1"  # as every host knows it
LIBC = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function.__name__)


def own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def inside(namespace):
    """The calling thread, and the processes that it starts, in that namespace."""
    before = own_namespace()
    try:
        call(LIBC.setns, namespace, CLONE_NEWNET)
        yield
    finally:
        call(LIBC.setns, before, CLONE_NEWNET)
        os.close(before)


def make_namespace():
    before = own_namespace()
    try:
        call(LIBC.unshare, CLONE_NEWNET)
        made = own_namespace()
        call(LIBC.setns, before, CLONE_NEWNET)
        return made
    finally:
        os.close(before)


def missing():
    """What hosts need and this machine does not give, in words."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "ip and tc (package iproute2) are not there"
    try:
        with Network() as network:
            network.cut(network.host("one"), network.host("two"))
    except (OSError, subprocess.CalledProcessError) as failure:
        why = failure.stderr.strip() if isinstance(failure, subprocess.CalledProcessError) else str(failure)
        return f"network namespaces cannot be made here ({why})"
    return ""


def no_delay():
    """Why links cannot be delayed here; empty where they can."""
    return "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun is not there, which delays links"


class Host:
    def __init__(self, network, name, number):
        self.network, self.name, self.number = network, name, number
        self.address = f"{network.subnet}.{number}"
        self.link = f"host{number}"  # the router's end
        self.namespace = make_namespace()
        network.ip("link", "add", "name", self.link, "type", "veth", "peer", "name", "eth0",
                   "netns", f"/proc/{os.getpid()}/fd/{self.namespace}")
        self.ip("link", "set", "dev", "lo", "up")
        self.ip("link", "set", "dev", "eth0", "up")
        self.ip("addr", "add", f"{self.address}/32", "dev", "eth0")
        self.ip("route", "add", ROUTER, "dev", "eth0")
        self.ip("route", "add", "default", "via", ROUTER, "dev", "eth0", "src", self.address)
        self.plug()

    def here(self):
        return inside(self.namespace)

    def start(self, command, **options):
        with self.here():
            return subprocess.Popen(command, **options)

    def ip(self, *words):
        return self.network.run(self.namespace, "ip", *words)

    def plug(self):
        self.network.ip("link", "set", "dev", self.link, "up")
        self.network.ip("route", "replace", self.address, "dev", self.link)

    def unplug(self):
        self.network.ip("link", "set", "dev", self.link, "down")

    def limit(self, bits):
        """None: no limit."""
        for namespace, device in ((self.namespace, "eth0"), (self.network.router, self.link)):
            self.network.run(namespace, "tc", "qdisc", "replace", "dev", device, "root", *(
                ("pfifo_fast",) if bits is None else
                ("tbf", "rate", f"{int(bits)}bit", "burst", str(max(65536, int(bits / 8000))), "latency", "50ms")))


class Network(contextlib.ExitStack):
    """`subnet`: the first three numbers of the hosts' addresses."""

    def __init__(self, subnet="10.77.0"):
        super().__init__()
        self.subnet, self.hosts, self.numbers = subnet, {}, itertools.count(1)
        self.router = make_namespace()
        self.callback(self.close_all)
        self.ip("link", "set", "dev", "lo", "up")
        self.ip("addr", "add", f"{ROUTER}/32", "dev", "lo")
        self.ip("route", "add", "blackhole", "default")  # nobody is told that a host is not there
        with inside(self.router):
            for name, value in (("ip_forward", 1), ("conf/all/rp_filter", 0), ("conf/default/rp_filter", 0)):
                with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
                    file.write(str(value))

    def close_all(self):
        for host in self.hosts.values():
            os.close(host.namespace)
        os.close(self.router)

    def run(self, namespace, *command):
        with inside(namespace):
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def ip(self, *words):
        return self.run(self.router, "ip", *words)

    def host(self, name):
        self.hosts[name] = Host(self, name, next(self.numbers))
        return self.hosts[name]

    def both_ways(self, action, one, two, *what):
        for a, b in ((one, two), (two, one)):
            self.ip("rule", action, "from", a.address, "to", b.address, *what)

    def cut(self, one, two):
        self.both_ways("add", one, two, "pref", "100", "type", "blackhole")

    def mend(self, one, two):
        self.both_ways("del", one, two, "pref", "100", "type", "blackhole")

    @contextlib.contextmanager
    def delayed(self, seconds, *pairs):
        number = next(self.numbers)
        device, table = f"tun{number}", str(1000 + number)
        with inside(self.router):
            forwarder = subprocess.Popen([sys.executable, __file__, device, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            if forwarder.stdout.readline() != "ready\n":
                raise OSError(f"no link can be delayed by {seconds} s")
            self.ip("link", "set", "dev", device, "txqueuelen", "10000", "up")
            self.ip("route", "add", "default", "dev", device, "table", table)
            for one, two in pairs:
                for a, b in ((one, two), (two, one)):
                    self.ip("rule", "add", "from", a.address, "to", b.address, "iif", a.link, "pref", "200", "lookup", table)
            yield
        finally:
            for one, two in pairs:
                for a, b in ((one, two), (two, one)):
                    self.ip("rule", "del", "from", a.address, "to", b.address, "iif", a.link, "pref", "200", "lookup", table)
            forwarder.communicate()  # it ends when it has forwarded what it holds


# The forwarder: packets that the router sends into the device come back out of it so much later. Segments that
# the kernel has put together stay together, so that few packets carry much data.
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x1, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x1, 0x2
PACKET = 1 << 17


def forward(device, seconds):
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH14x", device.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    print("ready", flush=True)
    held, asked = collections.deque(), [tun, sys.stdin]
    while held or sys.stdin in asked:
        ready, _, _ = select.select(asked, [], [], max(0, held[0][0] - time.monotonic()) if held else None)
        if sys.stdin in ready:
            asked.remove(sys.stdin)  # nothing is said there: it has ended
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                packet = os.read(tun, PACKET)
                held.append((time.monotonic() + seconds, packet))
        while held and held[0][0] <= time.monotonic():
            with contextlib.suppress(OSError):  # nobody has room for it: as on any link
                os.write(tun, held.popleft()[1])


if __name__ == "__main__":
    forward(sys.argv[1], float(sys.argv[2]))
