#!/usr/bin/env python3
"""The C++ tests under sanitizers: runs what `make asan` or `make tsan` has built, and records what came of it.

bench/results/sanitizers.json has a row for every suite and sanitizer: tests that passed, failed and were skipped,
reports, and races inside gRPC and Abseil, which are not built with ThreadSanitizer. Rows of suites that are not run now
stay, each with the commit that it was drawn at. What a suite printed is in build-asan/SUITE.log, build-tsan/SUITE.log.

    bench/sanitizers.py [--without TEST] [--runs N] asan|tsan [SUITE ...]        e.g. tsan engine serve
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

import record

ROOT = record.ROOT
# A test of a suite may take an hour beside other work; one that hangs ends the run.
LIMIT_S = 3600
REPORT = re.compile(r"(?:ERROR: (?:Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error:).*")


def environment():
    options = ROOT / "scripts" / "suppressions"
    # Tests kill model processes by signals: these are no findings, and a suite that dies of one has ended with it.
    signals = ":".join(f"handle_{name}=0" for name in ("segv", "sigbus", "sigfpe", "sigill", "abort"))
    return os.environ | {
        "ASAN_OPTIONS": signals, "UBSAN_OPTIONS": "print_stacktrace=1", "LSAN_OPTIONS": f"suppressions={options / 'leaks.txt'}",
        "TSAN_OPTIONS": f"{signals}:exitcode=0:suppressions={options / 'threads.txt'}"}


def touches(accesses):
    """Whether one of a race's two accesses is made by code of ours: its first frame that is no standard library's."""
    for stack in accesses:
        for frame in re.findall(r"^\s+#\d+ (.*)$", stack, re.MULTILINE):
            if re.search(r"/include/c\+\+/|/usr/include/absl/|^std::|^(operator|mem|free|malloc|pthread_)\S* ?.*<null>", frame):
                continue
            if str(ROOT) in frame or frame.startswith("fermata::"):
                return True
            break
    return False


def findings(text):
    """Reports, and how many more are of accesses inside libraries that are not built with ThreadSanitizer."""
    races = [part for part in text.split("=" * 18 + "\n") if "WARNING: ThreadSanitizer: data race" in part]
    inside = sum(not touches(race.split("\n\n")[:2]) for race in races)
    return len(REPORT.findall(text)) - inside, inside


def count(word, text):
    return len(re.findall(rf"^\[ *{word} *\] \S+ \(\d+ ms\)", text, re.MULTILINE))


def run(sanitizer, suite, without, runs):
    start = time.monotonic()
    folder = ROOT / f"build-{sanitizer}"
    log = folder / f"{suite}.log"
    with log.open("w") as out:
        ended = subprocess.run([folder / f"test_{suite}", f"--gtest_filter=-{without}", f"--gtest_repeat={runs}"], cwd=folder,
                               env=environment(), stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT_S).returncode
    said = log.read_text(errors="replace")
    reports, inside = findings(said)
    if ended != 0 or reports:
        print(said[-20_000:], f"\nall of it: {log.relative_to(ROOT)}")
    return {"sanitizer": sanitizer, "suite": suite, "without": without, "runs": runs, "passed": count("OK", said),
            "failed": count("FAILED", said), "skipped": count("SKIPPED", said),
            "reports": reports, "in_libraries": inside, "ended": ended, "seconds": round(time.monotonic() - start)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sanitizer", choices=("asan", "tsan"))
    parser.add_argument("suites", nargs="*", help="all that are built")
    parser.add_argument("--without", default="", metavar="TEST", help="as --gtest_filter has it; the record says it")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each suite, one after the other; rows count all")
    options = parser.parse_args()
    built = sorted((ROOT / f"build-{options.sanitizer}").glob("test_*"))
    suites = options.suites or [p.name.removeprefix("test_") for p in built if os.access(p, os.X_OK) and p.is_file()]
    now = {key: value for key, value in record.drawn().items() if key in ("commit", "changed_since", "date")}
    rows = []
    for suite in suites:
        rows.append(run(options.sanitizer, suite, options.without, options.runs) | now)
        print({key: rows[-1][key] for key in ("suite", "passed", "failed", "skipped", "reports", "in_libraries", "seconds")}, flush=True)
    earlier = record.read("sanitizers")
    done = {(row["sanitizer"], row["suite"]) for row in rows}
    kept = [row for row in earlier.get("rows", []) if (row["sanitizer"], row["suite"]) not in done]
    record.write("sanitizers", {"rows": sorted(kept + rows, key=lambda r: (r["sanitizer"], r["suite"]))},
                 before=record.left(earlier) if kept else None)
    return 0 if all(row["ended"] == 0 and row["reports"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
