#!/usr/bin/env python3
"""Checks what the compiler cannot: the arrows between rooms, calls that pure
rooms must not make, the size of files, and names that the files of a room give
twice. Prints one line per finding and exits with 1 if there are any."""

import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Which rooms each room may include, besides itself.
BELOW = {
    "base": set(),
    "model": {"base"},
    "policy": {"base", "model", "estimate", "plan"},
    "plan": {"base", "model", "estimate"},
    "estimate": {"base", "model"},
    "operators": {"base", "model"},
    "simulate": {"base", "model", "policy", "plan", "estimate"},
    "engine": {"base", "model", "operators", "policy", "plan", "estimate"},
    "cluster": {"base", "model", "engine"},
    "tune": {"base", "model", "policy", "plan", "estimate", "simulate", "engine"},
    "serve": {"base", "store", "model", "operators", "policy", "plan", "estimate", "simulate", "engine", "cluster", "tune"},
    "store": {"base"},
    "pick": {"base"},
    "gateway": {"base", "pick"},
    "load": {"base", "model", "simulate"},
    "client": {"base", "model", "operators", "estimate", "load"},
    "gstreamer": {"base", "model", "client"},
    "cli": {"base", "client", "model", "operators", "policy", "plan", "estimate", "simulate", "engine", "cluster", "tune", "serve", "load", "store", "gateway"},
}
# The same for the rooms inside a room; what lies in the room itself may include all of them, and is
# included by all.
INSIDE = {
    "policy": {
        "batch": set(),
        "lookahead": set(),
        "stream": set(),
        "pool": {"batch"},
        "variants": {"batch", "lookahead", "pool"},
        "ensemble": {"batch", "lookahead", "pool"},
        "tree": {"ensemble", "variants"},
        "rivals": {"batch", "pool", "variants", "ensemble"},
    },
    "plan": {"placement": set(), "variants": set(), "ensemble": set(), "pipeline": set(), "streams": set()},
    "simulate": {"dedicated": set()},
    "engine": {
        "threads": set(),
        "onnx": set(),
        "confine": {"threads", "onnx"},
        "execute": {"threads", "onnx", "confine"},
        "trial": {"threads", "onnx", "confine", "execute"},
        "apart": {"threads", "onnx", "confine", "execute", "trial"},
        "composite": {"threads", "onnx", "execute", "trial"},
        "schedule": {"threads", "execute", "composite"},
        "services": {"threads", "onnx", "execute", "composite", "schedule"},
        "host": {"threads", "confine", "execute", "trial", "composite", "schedule", "services"},
    },
    "cluster": {
        "wire": set(),
        "lock": {"wire"},
        "worker": {"wire"},
        "scheduler": {"wire"},
        "frontend": {"wire"},
    },
    "serve": {
        "net": set(),
        "call": set(),
        "config": {"call"},
        "json": {"call"},
        "operations": {"call", "net"},
        "grpc": {"call", "config", "net", "operations"},
        "http": {"call", "config", "json", "net", "operations"},
        "live": {"call", "json", "net", "operations", "http"},
    },
}
PURE = {"policy", "plan", "estimate", "simulate", "pick"}
BANNED_IN_PURE = re.compile(
    r"system_clock|steady_clock|sleep_for|sleep_until|std::rand\b|random_device|getenv|std::thread|std::mutex"
)
# Their last bits differ between C libraries, and so would simulated runs: portable_log() and others.
BANNED_IN_DECISIONS = re.compile(r"std::(?:log|log2|exp|exp2|pow|erfc?|tgamma|lgamma|sin|cos|tanh)\(")
BANNED_EVERYWHERE = re.compile(r"\bTO" r"DO\b|\bFIX" r"ME\b|std::rand\b|using namespace std;")
INCLUDE = re.compile(r'^#include "(\w+)/', re.MULTILINE)
LONGEST_FILE = 400
# A type, a constant or a function of one file, as clang-format leaves it.
LOCAL = re.compile(
    r"(?:struct|class|enum class|enum) (?P<type>\w+)[^;]*$"
    r"|constexpr .*?\b(?P<constant>\w+)(?:\[\w*\])?(?: = |\{|;)"
    r"|(?!return|using|template|#|//)\w[\w:<>,*& ]*[ *&](?P<function>\w+)\((?P<parameters>[^)]*)"
)


def local_names(path):
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        inside = line == "namespace {" or (inside and line != "}  // namespace")
        if not inside or not (match := LOCAL.match(line)):
            continue
        name = match["type"] or match["constant"]
        if not name:
            parameters = match["parameters"].split(",")
            types = ", ".join(re.sub(r"\w+$", "", p.strip()).strip() for p in parameters)
            name = f"{match['function']}({types})"
        yield name, number


# A type that a header gives the whole room.
SHARED = re.compile(r"^(?:struct|class|enum class|using) (\w+)(?: :.*|(?: final)?)(?: \{| = )", re.MULTILINE)


# Unity builds (CMakePresets.json) compile many files of a room as one.
def twice_named(folder):
    first = {}
    for path in sorted(folder.rglob("*.h")):
        for name in SHARED.findall(path.read_text()):
            first.setdefault(name, path)
    for path in sorted(folder.rglob("*.cc")):
        for name, number in local_names(path):
            before = first.setdefault(name, path)
            if before != path:
                yield f"{path.relative_to(ROOT)}:{number}: {name} is another in {before.name}"


def findings():
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in {".h", ".cc"} or path.parent == SRC:
            continue
        room = path.relative_to(SRC).parts[0]
        text = path.read_text()
        where = path.relative_to(ROOT)
        if room not in BELOW:
            yield f"{where}: the room {room} is not in {pathlib.Path(__file__).name}"
            continue
        for included in sorted(set(INCLUDE.findall(text)) & set(BELOW) - BELOW[room] - {room}):
            yield f"{where}: includes the room {included}, allowed are {sorted(BELOW[room])}"
        inside = INSIDE.get(room, {})
        if (inner := path.parent.name) in inside:
            included = set(re.findall(rf'^#include "{room}/(?:(\w+)/)?', text, re.MULTILINE))
            for wrong in sorted(included - inside[inner] - {inner, ""}):
                yield f"{where}: includes {room}/{wrong}, allowed are {sorted(inside[inner])}"
        elif inside and path.parent.name != room:
            yield f"{where}: the room {inner} of {room} is not in {pathlib.Path(__file__).name}"
        lines = text.splitlines()
        if len(lines) > LONGEST_FILE:
            yield f"{where}: {len(lines)} lines, expected at most {LONGEST_FILE}"
        for number, line in enumerate(lines, 1):
            if room in PURE and (match := BANNED_IN_PURE.search(line)):
                yield f"{where}:{number}: {match.group()} in a pure room"
            if room in ("policy", "simulate") and (match := BANNED_IN_DECISIONS.search(line)):
                yield f"{where}:{number}: {match.group()} in a pure room"
            if match := BANNED_EVERYWHERE.search(line):
                yield f"{where}:{number}: {match.group()}"
        if path.suffix == ".h" and "#pragma once" not in text:
            yield f"{where}: has no #pragma once"
    for folder in sorted(itertools.chain(SRC.glob("*/"), (ROOT / "tests").glob("*/"))):
        yield from twice_named(folder)


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) if found else "the house is in order")
    sys.exit(1 if found else 0)
