"""What /v2/live/decisions says, each decision made again by the command that it names."""

import json
import subprocess
import urllib.request

from conftest import FERMATA


def replayed(server):
    """By kind; what each planner saw is a document of the command beside it."""
    def get(path):
        with urllib.request.urlopen(f"http://{server.http}{path}", timeout=120) as reply:
            return json.load(reply)
    decisions = get("/v2/live/decisions")["decisions"]
    for each in decisions:
        program, *words = each["replay"].split()
        assert program == "fermata"
        done = subprocess.run([FERMATA, *words], input=json.dumps(get(each["document"])), capture_output=True, text=True)
        assert done.returncode == 0, (each, done.stderr)
    return {each["kind"]: each for each in decisions}


def is_timed(decision):
    return decision["at_us"] > 0 and decision["took_ms"] >= 0
