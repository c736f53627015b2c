#!/usr/bin/env python3
"""How long one decision of `fermata plan group` takes (SneakPeek, section 6.4).

Runs build/bench_group and draws its figures: by requests in the window, with three
applications, and by applications, with 24 requests. Must hold: 24 requests of three
applications within 100 us in the median under grouped and sneakpeek (the paper says
10 ms), and 64 times the requests cost at most 128 times as much; an event beside 100 000
waiting requests at most 20 times what it does beside 100 (a deeper tree, beyond the caches).

    bench/group.py [--binary build/bench_group] [--windows 500]
"""

import argparse
import json
import pathlib
import subprocess
import sys

import drawings
import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHIN_US = 100


def missed(measured):
    p50 = {(r["policy"], r["requests"]): r["p50_us"] for r in measured["by_requests"]}
    for policy in ("grouped", "sneakpeek"):
        if p50[policy, 24] > WITHIN_US:
            yield f"{policy}: {p50[policy, 24]:.1f} us for 24 requests, at most {WITHIN_US}"
        growth = p50[policy, 768] / p50[policy, 12]
        if growth > 128:
            yield f"{policy}: 768 requests cost {growth:.0f} times what 12 do, at most 128"
    events = [row["p50_us"] for row in measured["by_waiting"]]
    if events[-1] > 20 * events[0]:
        yield f"an event costs {events[-1]:.2f} us in a long queue, {events[0]:.2f} us in a short one"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/bench_group")
    parser.add_argument("--windows", type=int, default=500, help="planned for each figure")
    options = parser.parse_args()
    measured = json.loads(subprocess.run([options.binary, str(options.windows)], check=True,
                                         stdout=subprocess.PIPE).stdout)
    print(plot.table(["policy", "applications", "requests", "p50 us", "p99 us", "exact", "utility"],
                     [[r["policy"], r["applications"], r["requests"], r["p50_us"], r["p99_us"],
                       r["exact"], r["utility"]]
                      for r in measured["by_requests"] + measured["by_applications"]]))
    print(plot.table(["waiting", "an event, p50 us"],
                     [[r["waiting"], r["p50_us"]] for r in measured["by_waiting"]]))
    print(plot.save("group", drawings.DRAWN["group"](measured), measured))
    problems = list(missed(measured))
    print("\n".join(problems) if problems else "within its figures")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
