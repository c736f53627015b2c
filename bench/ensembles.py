#!/usr/bin/env python3
"""The zoo's ensembles: which base models answer which query, in virtual time and on a server.

    python3 bench/ensembles.py record       # measures the ensembles of this machine
    python3 bench/ensembles.py figures      # those of Schemble, in virtual time
    python3 bench/ensembles.py served       # the burst on a real server

`record` writes bench/results/ensembles_records.json, which `figures` reads. Accuracy is the share
of what was offered that got the ensemble's own answer in time; a query is missed where no base
model has answered it in time, incomplete where fewer have than was planned. The traced day is
named by FERMATA_TRACE, a CSV file with the requests of each second in its last column. Exits
with 1 where a claim does not hold."""

import argparse
import sys

import ensembles_figures
import ensembles_records
import ensembles_served


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "figures", "served"))
    parser.add_argument("--seeds", type=int, default=5, help="of each simulated run")
    parser.add_argument("--rounds", type=int, default=3, help="of what is served")
    parser.add_argument("--only", nargs="*", choices=ensembles_figures.PARTS,
                        help="parts of the figures")
    parser.add_argument("--ensembles", nargs="+", choices=ensembles_records.ENSEMBLES,
                        default=tuple(ensembles_records.ENSEMBLES),
                        help="what to record, or to serve all queries of")
    arguments = parser.parse_args()
    if arguments.what == "record":
        ensembles_records.record_all(arguments.ensembles)
        return
    failures = 0
    if arguments.what == "served":
        claims = ensembles_served.served(arguments.rounds)
    else:
        known = ensembles_records.load()
        claims = ensembles_figures.all_of_them({n: known[n] for n in arguments.ensembles},
                                               arguments.seeds, arguments.only)
    for claim, holds in claims:
        print(f"{'holds' if holds else 'MISSED'}: {claim}", flush=True)
        failures += not holds
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
