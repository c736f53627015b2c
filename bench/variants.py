#!/usr/bin/env python3
"""Variants chosen by what the data look like, on the zoo's applications.

    python3 bench/variants.py figures      # SneakPeek's figures 5 to 16, in virtual time
    python3 bench/variants.py specialists  # what looking at the data is worth, by how labels come
    python3 bench/variants.py specialists-served   # the same on the real server
    python3 bench/variants.py served       # loads and deadlines on the real server
    python3 bench/variants.py record       # only measures the variants

`figures` records first: what the variants take, by the processor's clock, and what they answer, in
bench/results/variants_records.json. `served` serves variants at a slower pace than that. Utility is the mean over offered requests of
whether the answer was right, times 1 - penalty of its lateness. Load 1 is what the most accurate
variants alone bear on one worker, at their most efficient batches. Exits with 1 where a claim that
is checked does not hold."""

import argparse
import sys

import variants_zoo
import variants_figures
import variants_served
import variants_specialists
import variants_specialists_served


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "served", "specialists", "specialists-served",
                                         "figures"))
    parser.add_argument("--seeds", type=int, default=3, choices=range(1, 6),
                        help="of each simulated point")
    parser.add_argument("--recorded", action="store_true", help="keep the last measurements")
    parser.add_argument("--only", nargs="*", choices=variants_figures.PARTS,
                        help="parts of the figures")
    parser.add_argument("--rounds", type=int, default=3, help="of what is served")
    parser.add_argument("--seconds", type=float, default=1, help="specialists-served: tenths of a round")
    parser.add_argument("--quick", action="store_true",
                        help="of what is served one short round, which is not kept")
    arguments = parser.parse_args()
    failures = []
    if arguments.what == "record" or arguments.what == "figures" and not arguments.recorded:
        variants_zoo.record_all()
    if arguments.what == "served":
        quick = {"rounds": 1, "share": 0.1, "keep": False}
        failures = variants_served.served(**(quick if arguments.quick else {
            "rounds": arguments.rounds, "share": 1, "keep": True}))
    elif arguments.what == "specialists":
        failures = list(variants_specialists.measure(arguments.recorded,
                                                     variants_figures.PAIRED * arguments.seeds))
    elif arguments.what == "specialists-served":
        failures = variants_specialists_served.measure(arguments.rounds, 10 * arguments.seconds, not arguments.quick)
    elif arguments.what == "figures":
        failures = variants_figures.all_of_them(variants_zoo.load(), arguments.seeds,
                                                arguments.only)
    for failure in failures:
        print(f"MISSED: {failure}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
