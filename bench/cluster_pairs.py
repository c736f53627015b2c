#!/usr/bin/env python3
"""Two schedulers, two frontends and four workers on hosts of their own (network namespaces): every pair of them cut from
each other for a second, and the active scheduler killed and stopped.

    make cluster        # or: .deps/test/bin/python bench/cluster_pairs.py [--hold 1] [--only scheduler1-frontend1 kill]

Requests come by the clock at both frontends, patient ones with 2 s until their deadlines and tight ones with 100 ms. It
must hold that every request ends once, with its own answer; that no patient one is lost; that nobody waits 50 ms beyond a
deadline. `gap_ms`: how long the slowest patient request took: for no longer was nothing decided.
Writes bench/results/cluster_pairs.json, and exits with 1 where something did not hold."""

import argparse
import pathlib
import sys
import tempfile

import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import hosts  # noqa: E402
import hosted_parts  # noqa: E402

BEYOND_MS = 50


def cases(parts, hold):
    for one, two in hosted_parts.PAIRS:
        yield f"{one}-{two}", lambda one=one, two=two: parts.cut(one, two, hold)
    yield "kill", lambda: parts.kill(parts.active(), hold)
    yield "hang", lambda: parts.hang(parts.active(), hold)


def tried(parts, name, fault):
    row = {"findings": [], "offered": 0, "tight": 0, "tight_on_time": 0, "gap_ms": 0.0, "beyond_ms": -1e9}
    for frontend, outcome in zip(hosted_parts.FRONTENDS, parts.ask_during(fault)):
        row["findings"] += [f"{frontend}: {each}" for each in outcome.findings()]
        row["offered"] += sum(each["offered"] for each in outcome.services.values())
        row["tight"] += outcome.services["tight"]["offered"]
        row["tight_on_time"] += outcome.services["tight"]["on_time"]
        row["gap_ms"] = max(row["gap_ms"], outcome.services["patient"]["max_ms"])
        for each in outcome.services:
            beyond = outcome.waited_beyond_ms(each)
            row["beyond_ms"] = max(row["beyond_ms"], beyond)
            if beyond > BEYOND_MS:
                row["findings"].append(f"{frontend}: a {each} request waited {beyond:.1f} ms beyond its deadline")
    print(f"  {name}: {row}", file=sys.stderr)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hold", type=float, default=1.0, help="seconds that a fault lasts")
    parser.add_argument("--only", nargs="*", help="names of cases; else all")
    arguments = parser.parse_args()
    if why := hosts.missing():
        sys.exit(why)
    with tempfile.TemporaryDirectory() as folder, hosted_parts.Parts(pathlib.Path(folder)) as parts:
        parts.bring_all()
        rows = {name: tried(parts, name, fault) for name, fault in cases(parts, arguments.hold)
                if not arguments.only or name in arguments.only}
    print(f"{'case':26}requests  longest patient ms  tight on time  most beyond a deadline ms")
    for name, row in rows.items():
        print(f"{name:26}{row['offered']:8}{row['gap_ms']:20.1f}{row['tight_on_time'] / max(row['tight'], 1):15.3f}"
              f"{row['beyond_ms']:27.1f}")
    for name, row in rows.items():
        for each in row["findings"]:
            print(f"{name}: {each}")
    if not arguments.only:
        record.write("cluster_pairs", {"hold_s": arguments.hold, "cases": rows})
    sys.exit(any(row["findings"] for row in rows.values()))


if __name__ == "__main__":
    main()
