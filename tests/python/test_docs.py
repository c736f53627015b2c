"""Every YAML and JSON block of the documentation is what the commands take and give."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest

from conftest import Server, link_models, serve_part
from test_pages import shapes_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERMATA = ROOT / "build" / "fermata"


def blocks():
    """(page, line, language, text), in their order."""
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), ROOT / "zoo/README.md",
                        ROOT / "bench/README.md", *ROOT.glob("bench/reports/*.md")]):
        text = page.read_text()
        for found in re.finditer(r"^```(yaml|json)\n(.*?)^```$", text, re.M | re.S):
            before = text[:found.start()]
            yield (str(page.relative_to(ROOT)), before.count("\n") + 1, found[1], found[2])


BLOCKS = list(blocks())


# What reads a document with such a field at its top; the first that is there says it.
COMMANDS = {"loads:": "adapt", "threshold_rps:": "plan cores", "subclusters:": "plan placement",
            "requests:": "plan group", "queries:": "plan ensemble", "clients:": "plan streams",
            "sla_ms:": "plan pipeline", "protocol:": "load", "listen:": "check", "services:": "check",
            "duration_s:": "simulate", "cluster:": "check"}


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
        absent = ("is not in the repository", ": no model, expected a folder for each")
        wrong = [x for x in done.stderr.splitlines() if not any(of in x for of in absent)]
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


STAGE = "{name: s, model: m}"


@pytest.mark.parametrize("text", [
    "unknown: 1", "listen: {unknown: 1}", "shared_memory: {unknown: 1}", "workers: {unknown: 1}",
    "workers: {count: auto, max: 2, unknown: 1}", "workers: {types: [{name: a, unknown: 1}]}",
    "workers: {memory_mb: 9}\nplacement: {unknown: 1}", "limits: {unknown: 1}", "recorder: {unknown: 1}",
    "cluster: {listen: 'localhost:1', unknown: 1}\nworkers: {types: [{name: a, remote: true}]}",
    "cluster: {listen: 'localhost:1', tls: {certificate: a, key: a, authority: a, unknown: 1}}\nworkers: {types: [{name: a, remote: true}]}",
    "services: {a: {unknown: 1}}", "services: {a: {kind: variants, variants: [m], unknown: 1}}",
    "services: {a: {kind: variants, variants: [m], evidence: {features: f, labels: l, unknown: 1}}}",
    "services: {a: {kind: ensemble, models: [m], profile: p, unknown: 1}}",
    "services: {a: {kind: ensemble, models: [m], profile: p, selector: {kind: gating, model: g, unknown: 1}}}",
    f"services: {{a: {{kind: pipeline, stages: [{STAGE}], unknown: 1}}}}",
    "services: {a: {kind: pipeline, stages: [{name: s, model: m, unknown: 1}]}}",
    "services: {a: {kind: pipeline, stages: [{name: s, model: m, when: {output: a.b, above: 1, unknown: 1}}]}}",
    f"services: {{a: {{kind: pipeline, stages: [{STAGE}], adapter: {{unknown: 1}}}}}}",
    "services: {a: {kind: stream, variants: [{service: s, input_size: 1, accuracy: 1}], unknown: 1}}",
    "services: {a: {kind: stream, variants: [{service: s, input_size: 1, accuracy: 1, unknown: 1}]}}"])
def test_the_page_of_the_configuration_has_every_key(text, tmp_path):
    (tmp_path / "repository").mkdir()
    file = tmp_path / "fermata.yaml"
    file.write_text(f"models: repository\n{text}\n")
    says = run("check", file).stderr
    known = re.search(r"unknown: .*, expected no such field, but (.*)$", says, re.M)
    assert known, says
    page = (ROOT / "docs/configuration.md").read_text()
    named = {part for row in re.findall(r"^\| (`.*?) \|", page, re.M)
             for key in re.findall(r"`([\w.\[\]]+)`", row) for part in key.split(".")}
    sections = {word for heading in re.findall(r"^### (.*)$", page, re.M) for word in heading.split()}
    assert set(known[1].split(", ")) - named - sections == set()


def pages():
    return sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), ROOT / "zoo/README.md", ROOT / "bench/README.md", *ROOT.glob("bench/reports/*.md")])


def anchors(page):
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_its_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if ":" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}: {target.name} has no such heading"


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


def code_block(page, language, words):
    """The one block of the page with these words in it."""
    text, = (found[1] for found in re.finditer(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
             if words in found[1])
    return text


def ask_digit(server, service, record):
    body = json.dumps({"inputs": record["inputs"]}).encode()
    with urllib.request.urlopen(f"http://{server.http}/v2/models/{service}/infer", body) as reply:
        return {o["name"]: o["data"] for o in json.load(reply)["outputs"]}


def test_the_cascade_asks_the_careful_model_where_the_quick_one_is_unsure(tmp_path):
    services = code_block("docs/configuration.md", "yaml", "digits-cascade:").removeprefix("services:\n")
    server = serve_part(tmp_path, link_models(tmp_path / "repository", ["digits-linear", "digits-mlp"]), services)
    records = [json.loads(line) for line in (ROOT / "zoo/data/digits-test.jsonl").read_text().splitlines()[:40]]
    unsure = 0
    for record in records:
        quick = ask_digit(server, "digits-linear", record)
        if max(quick["probabilities"]) < 0.9:
            unsure += 1
            assert ask_digit(server, "digits-cascade", record) == ask_digit(server, "digits-mlp", record)
        else:
            assert ask_digit(server, "digits-cascade", record) == quick
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        asked, = re.findall(r'^nv_inference_request_success\{model="digits-cascade/careful",.*\} (\d+)',
                            reply.read().decode(), re.M)
    assert 0 < unsure < len(records) and int(asked) == unsure
    assert server.stop() == 0


def test_the_example_of_the_python_client_runs_on_the_demos_service(tmp_path):
    (tmp_path / "models").mkdir()
    for model in (ROOT / "zoo/repository").glob("shapes-*"):
        (tmp_path / "models" / model.name).symlink_to(model)
    server = Server(tmp_path, tmp_path / "models", shapes_config())
    text = code_block("docs/clients.md", "python", "fermata.Client").replace("localhost:8001", server.grpc)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, timeout=300,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert answers and all(re.fullmatch(r"\d+ (96|160|256) \(.*\) ", line) for line in answers), done.stdout
    assert server.stop() == 0
