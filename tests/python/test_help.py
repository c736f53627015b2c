"""Every example of every --help names files that there are: of the repository, the document that the same help shows, or what
an example before it writes. Those that need no server run."""

import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import FERMATA, ROOT

OFFLINE = ("plan", "simulate", "goodput", "adapt", "evidence", "forecast")
WRITTEN = re.compile(r"(?:>|--out|--record) (\S+)")
FILE = re.compile(r"[\w./-]+\.(?:ya?ml|jsonl?|npy|onnx|txt|mp4)|(?:zoo|bench)/[\w./-]+")


def helps(*command):
    """Of a command and those below it."""
    text = subprocess.run([FERMATA, *command, "--help"], text=True, capture_output=True, check=True).stdout
    yield command, text
    below = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    for name in re.findall(r"^  (\w+)", below[1], re.M) if below else []:
        yield from helps(*command, name)


HELPS = list(helps())


def examples(text):
    """The lines of a shell below "Example", without their backslashes and comments."""
    found = re.search(r"^ *Examples?\b.*:\n((?:  .*\n?)+)", text, re.M)
    lines = re.sub(r" *\\\n +", " ", found[1]).splitlines() if found else []
    return [re.sub(r" {2,}#.*", "", line.strip()) for line in lines]


def document(text):
    """What the help shows as a document, and its name."""
    found = re.search(r"^ *Example, with this document as (\S+):\n(?:  .*\n)+\n((?:  .*\n)+)", text, re.M)
    return {found[1]: re.sub(r"^  ", "", found[2], flags=re.M)} if found else {}


WITH_EXAMPLES = [pytest.param(*each, id=" ".join(each[0])) for each in HELPS if examples(each[1])]


def test_most_commands_have_examples():
    assert len(WITH_EXAMPLES) >= 15, [each[0] for each in HELPS]


@pytest.mark.parametrize("command, text", WITH_EXAMPLES)
def test_the_files_of_its_examples_are_there(command, text):
    known = set(document(text))
    tracked = set(subprocess.run(["git", "-C", ROOT, "ls-files"], text=True, capture_output=True).stdout.splitlines())
    folders = {str(parent) for name in tracked for parent in pathlib.PurePath(name).parents}
    for line in examples(text):
        for written in WRITTEN.findall(line):
            known.add(written)
        for name in FILE.findall(line):
            there = name in known or name.rstrip("/") in tracked | folders or not tracked and (ROOT / name).exists()
            assert there, f"{line}: there is no {name}"


@pytest.mark.parametrize("command, text", [each for each in WITH_EXAMPLES if each.values[0] and each.values[0][0] in OFFLINE])
def test_its_examples_run(command, text, tmp_path):
    for folder in ("zoo", "bench"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for name, shown in document(text).items():
        (tmp_path / name).write_text(shown)
    for line in examples(text):
        line = line.split(" | jq")[0]
        needs_more = "--recorded" in line or "--model" in line  # a recording, a trained network
        if not line.startswith(("fermata", "awk")) or needs_more or shlex.split(line)[1] == "serve":
            continue
        done = subprocess.run(["bash", "-c", line.replace("fermata", str(FERMATA), 1)], cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
