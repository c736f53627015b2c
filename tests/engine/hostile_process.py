#!/usr/bin/env python3
"""A model process that breaks the rules of src/engine/apart/layout.h, in the way that its argument names."""

import ctypes
import json
import mmap
import os
import platform
import signal
import socket
import struct
import sys
import threading

how = sys.argv[1]
area = mmap.mmap(3, 0)
base = ctypes.addressof(ctypes.c_char.from_buffer(area))
libc = ctypes.CDLL(None, use_errno=True)
FUTEX = 202 if platform.machine() == "x86_64" else 98
SLOT, REQUEST, REPLY, ANSWERED = 4096, 4096, 65536, 64


def u32(offset):
    return struct.unpack_from("<I", area, offset)[0]


def futex(offset, operation, value):
    libc.syscall(FUTEX, ctypes.c_void_p(base + offset), operation, value, None, None, 0)


def answer(number, code=0, shape=(1, 1), datatype=11, offset=None, size=4, outputs=1, text=b""):
    data, data_each, inputs_each = struct.unpack_from("<QQQ", area, 24)
    place = data + inputs_each if offset is None else offset
    at = SLOT + REPLY
    struct.pack_into("<8IQ", area, at, number, code, at + 40 - at, len(text), outputs, 0, 0, 0, 0)
    if text:
        area[at + 40 : at + 40 + len(text)] = text
        return
    struct.pack_into("<4IQQ", area, at + 40, 0, datatype, len(shape), 0xFFFFFFFF, place, size)
    struct.pack_into(f"<{len(shape)}q", area, at + 72, *shape)


def die(number):
    os.kill(os.getpid(), number)
    threading.Event().wait()


def run(number):
    if how == "offset":
        answer(number, offset=0)
    elif how == "bytes":
        answer(number, size=8)
    elif how == "shape":
        answer(number, shape=(1, -1))
    elif how == "datatype":
        answer(number, datatype=2)
    elif how == "number":
        answer(number + 1)
    elif how == "records":
        answer(number, outputs=1 << 31)
    elif how == "noise":
        area[SLOT + REPLY : SLOT + REPLY + 65536] = os.urandom(65536)
        struct.pack_into("<II", area, SLOT + REPLY, number, 0)
    elif how == "life":
        area[64:104] = struct.pack("<I", 0x40000000) + os.urandom(36)
        futex(64, 1, 2**31 - 1)
        return False
    elif how == "unlock":
        struct.pack_into("<I", area, 64, 0)
        futex(64, 1, 2**31 - 1)
        return False
    elif how == "exit":
        os._exit(3)
    elif how in ("segv", "fpe", "abort"):
        die({"segv": signal.SIGSEGV, "fpe": signal.SIGFPE, "abort": signal.SIGABRT}[how])
    elif how == "shrink":
        try:
            os.ftruncate(3, 4096)
        except OSError:
            answer(number, code=13, text=b"the memory is sealed")
    elif how == "code":
        answer(number, code=5, text=b"no such model")
    return how != "hang"


def work():
    done = 0
    while True:
        asked = u32(SLOT)
        if asked == done:
            futex(SLOT, 0, asked)
            continue
        if not run(asked):
            threading.Event().wait()
        done = asked
        struct.pack_into("<I", area, SLOT + ANSWERED, asked)
        futex(SLOT + ANSWERED, 1, 2**31 - 1)


libc.pthread_mutex_lock(ctypes.c_void_p(base + 64))
if how == "lingers":
    with open(sys.argv[2], "a") as starts:
        starts.write(".")
if how == "silent":
    threading.Event().wait()
control = socket.socket(fileno=4).makefile("rw")
print('{"ok": true}', file=control, flush=True)
threading.Thread(target=work, daemon=True).start()
for line in control:
    if how.startswith("lingers") and json.loads(line)["op"] == "unload":
        threading.Event().wait()
    if how == "warmth" and json.loads(line)["op"] == "load":
        with open(sys.argv[2], "a") as loads:
            loads.write("warm" if json.loads(line)["warm"] else "cold")
    if json.loads(line)["op"] in ("load", "unload"):
        print('{"ok": true}', file=control, flush=True)
os._exit(0)
