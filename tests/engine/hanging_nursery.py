#!/usr/bin/env python3
"""A `fermata nursery` whose copies for `nursery` do not open a model: the first says so, those after it hang, and write
a byte into the file that its second argument names. Processes of its first argument, the fermata command, are sound."""

import array
import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
import sys

program, hanging = sys.argv[1:3]
CLONE, CLONE_PARENT = {"x86_64": 56, "aarch64": 220}[platform.machine()], 0x8000
libc = ctypes.CDLL(None)


def copy():
    """As fork(), but the child is one of the parent's."""
    return libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)


def say(stream, number):
    stream.send(struct.pack("q", number))


def hang(fails):
    stream = socket.socket(fileno=3)
    say(stream, 0)
    stream.recv(65536)
    if fails:
        say(stream, -22)
        sys.exit(1)
    with open("/dev/null") as nothing:  # in place of what lets it copy itself
        socket.send_fds(stream, [struct.pack("q", 0)], [nothing.fileno()])
    with open(hanging, "a") as file:
        file.write("1")
    while True:
        signal.pause()


stream, opened = socket.socket(fileno=3), 0
say(stream, 0)
while True:
    words, ancillary, _, _ = stream.recvmsg(65536, 1024)
    if not words:
        break
    descriptors = array.array("i", ancillary[0][2])
    words = words.decode().split("\0")
    if copy() == 0:
        say(stream, os.getpid())
        if os.read(descriptors[-1], 1) != b"\0":
            sys.exit(1)
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in descriptors[:-1]]
        for k, descriptor in enumerate(high):
            os.dup2(descriptor, k)
        os.closerange(len(high), 1024)
        if words[0] == "nursery":
            stream.detach()
            hang(opened == 0)
        os.execv(program, [program, *words])
    opened += words[0] == "nursery"
    for descriptor in descriptors:
        os.close(descriptor)
