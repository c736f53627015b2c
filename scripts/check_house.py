#!/usr/bin/env python3
"""Checks what the compiler cannot: the arrows between rooms, calls that pure
rooms must not make, and the size of files. Prints one line per finding and
exits with 1 if there are any."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Which rooms each room may include, besides itself.
BELOW = {
    "base": set(),
    "model": {"base"},
    "policy": {"base", "model", "estimate"},
    "plan": {"base", "model"},
    "estimate": {"base", "model"},
    "simulate": {"base", "model", "policy", "plan", "estimate"},
    "engine": {"base", "model", "policy", "plan", "estimate"},
    "serve": {"base", "model", "policy", "plan", "estimate", "engine"},
    "load": {"base", "model", "simulate"},
    "cli": {"base", "model", "policy", "plan", "estimate", "simulate", "engine", "serve", "load"},
}
PURE = {"policy", "plan", "estimate", "simulate"}
BANNED_IN_PURE = re.compile(
    r"system_clock|steady_clock|sleep_for|sleep_until|std::rand\b|random_device|getenv|std::thread|std::mutex"
)
BANNED_EVERYWHERE = re.compile(r"\bTO" r"DO\b|\bFIX" r"ME\b|std::rand\b|using namespace std;")
INCLUDE = re.compile(r'^#include "(\w+)/', re.MULTILINE)
LONGEST_FILE = 400


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
        lines = text.splitlines()
        if len(lines) > LONGEST_FILE:
            yield f"{where}: {len(lines)} lines, expected at most {LONGEST_FILE}"
        for number, line in enumerate(lines, 1):
            if room in PURE and (match := BANNED_IN_PURE.search(line)):
                yield f"{where}:{number}: {match.group()} in a pure room"
            if match := BANNED_EVERYWHERE.search(line):
                yield f"{where}:{number}: {match.group()}"
        if path.suffix == ".h" and "#pragma once" not in text:
            yield f"{where}: has no #pragma once"


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) if found else "the house is in order")
    sys.exit(1 if found else 0)
