"""Every YAML and JSON block of the documentation is what the commands take and give."""

import json
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest

from conftest import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERMATA = ROOT / "build" / "fermata"


def blocks():
    """(page, line, language, text), in their order."""
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), ROOT / "zoo/README.md",
                        ROOT / "bench/README.md"]):
        text = page.read_text()
        for found in re.finditer(r"^```(yaml|json)\n(.*?)^```$", text, re.M | re.S):
            before = text[:found.start()]
            yield (str(page.relative_to(ROOT)), before.count("\n") + 1, found[1], found[2])


BLOCKS = list(blocks())


# What reads a document with such a field at its top; the first that is there says it.
COMMANDS = {"loads:": "adapt", "threshold_rps:": "plan cores", "subclusters:": "plan placement",
            "requests:": "plan group", "queries:": "plan ensemble", "clients:": "plan streams",
            "sla_ms:": "plan pipeline", "protocol:": "load", "listen:": "check",
            "duration_s:": "simulate"}


def command_of(page, text):
    if page == "docs/configuration.md":
        return "check"
    return next((command for field, command in COMMANDS.items()
                 if re.search(f"^{field}", text, re.M)), None)


def run(*command, **options):
    return subprocess.run([FERMATA, *command], text=True, capture_output=True, timeout=120, **options)


@pytest.mark.parametrize("page, line, language, text",
                         [pytest.param(*b, id=f"{b[0]}:{b[1]}") for b in BLOCKS if b[2] == "yaml"])
def test_a_command_takes_it(page, line, language, text, tmp_path):
    command = command_of(page, text)
    assert command, f"{page}:{line}: say here which command takes it"
    file = tmp_path / "document.yaml"
    if command == "check":
        (tmp_path / "repository").mkdir()
        file.write_text(re.sub(r"^models: .*$", "", text, flags=re.M) + "\nmodels: repository\n")
        done = run("check", file)
        # The example's models are not here; its words are known, and hold what they may hold.
        wrong = [x for x in done.stderr.splitlines() if "is not in the repository" not in x]
        assert not any("$" in x or "expected" in x for x in wrong if "note:" not in x), done.stderr
    elif command == "load":
        text = re.sub(r"(duration_s|warmup_s|drain_s): \d+", r"\1: 0.1", text)
        file.write_text(text.replace("localhost:8001", "127.0.0.1:1"))
        assert "$" not in run("load", file, cwd=ROOT).stderr
    else:
        file.write_text(text)
        done = run(*command.split(), file, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)


@pytest.mark.parametrize("page, line, language, text",
                         [pytest.param(*b, id=f"{b[0]}:{b[1]}") for b in BLOCKS if b[2] == "json"])
def test_a_json_block_is_json(page, line, language, text):
    assert json.loads(text)


def test_the_result_of_an_ensemble_is_that_of_the_document_above_it(tmp_path):
    at = next(i for i, b in enumerate(BLOCKS) if b[2] == "json" and '"plan"' in b[3])
    file = tmp_path / "document.yaml"
    file.write_text(BLOCKS[at - 1][3])
    assert json.loads(run("plan", "ensemble", file).stdout) == json.loads(BLOCKS[at][3])


def check_of(config):
    """Its exit code, notes, findings and what would be served."""
    done = subprocess.run([FERMATA, "check", config], text=True, capture_output=True, timeout=600)
    lines = done.stderr.splitlines()
    notes = [line for line in lines if line.startswith("note:")]
    return done.returncode, notes, [line for line in lines if line not in notes], done.stdout


def test_the_demo_server_passes_its_check():
    code, _, wrong, served = check_of(ROOT / "zoo/fermata.yaml")
    assert (code, wrong) == (0, [])
    assert re.search(r"^scans +version 1 ", served, re.M)
    assert re.search(r"^handwriting +version 1 ", served, re.M)


def test_check_and_serve_skip_the_same_models_where_packages_were_not_fetched(tmp_path):
    zoo = tmp_path / "zoo"
    (zoo / "repository").mkdir(parents=True)
    (zoo / "data").symlink_to(ROOT / "zoo/data")
    for model in (ROOT / "zoo/repository").iterdir():
        copy = zoo / "repository" / model.name
        if not re.match("ocr-|vad-|text-", model.name):
            copy.symlink_to(model)
        elif (model / "config.pbtxt").exists():
            copy.mkdir()
            shutil.copy(model / "config.pbtxt", copy)
    text = (ROOT / "zoo/fermata.yaml").read_text().replace("{", "{{").replace("}", "}}")
    text = re.sub(r"(http|grpc|metrics): \d+", r"\1: 0", text)
    server = Server(zoo, zoo / "repository", text)
    try:
        with urllib.request.urlopen(urllib.request.Request(
                f"http://{server.http}/v2/repository/index", b"{}", method="POST")) as reply:
            rows = json.load(reply)
    finally:
        server.stop()
    away = {row["name"] for row in rows if row["state"] == "UNAVAILABLE"}
    code, notes, wrong, served = check_of(zoo / "fermata.yaml")
    assert (code, wrong) == (0, [])
    assert {re.search("model '(.*)' is skipped: ", note)[1] for note in notes if "skipped" in note} == away
    assert {"ocr-detection", "signs", "text"} <= away
    assert re.search(r"^scans +version 1 ", served, re.M)
