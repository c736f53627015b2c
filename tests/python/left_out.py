"""Ends a run of pytest with a line that counts what was left out, and says how to have it."""

import collections

LINE = {}


def pytest_terminal_summary(terminalreporter):
    reasons = collections.Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", []))
    if not reasons:
        return
    total = sum(reasons.values())
    LINE["says"] = f"{total} test{'s were' if total > 1 else ' was'} left out: " + "; ".join(
        f"{count} since {reason}" for reason, count in reasons.most_common())


def pytest_unconfigure(config):
    if "says" in LINE:
        print(LINE.pop("says"))
