"""The calls under /v2/live: what they show agrees with /metrics and with what was asked."""

import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import FERMATA, Server
from live_decisions import replayed

MODEL = """
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""
# Emulated, so that nothing depends on how fast the machine is; a run of slow takes long.
RUNS_MS = {"fast": (2, 0.8), "slow": (40, 0.95)}
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{executor: emulated, count: 2}}
recorder: {{seconds: 600, memory_mb: 16}}
services:
  front: {{model: fast, slo_ms: 30000}}
  either: {{kind: variants, variants: [fast, slow], slo_ms: 30000, penalty: step}}
  both:
    kind: pipeline
    slo_ms: 60000
    stages:
      - {{name: first, service: fast}}
      - {{name: second, service: slow, inputs: {{x: first.y}}}}
"""
ASKED = {"front": 12, "fast": 5, "either": 4, "both": 3}
OUTCOMES = {"deadline": "rejected_deadline", "queue": "rejected_queue",
            "unavailable": "unavailable", "invalid": "invalid"}


def write_models(folder):
    for name, (ms, accuracy) in RUNS_MS.items():
        at = folder / name
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text(MODEL)
        times = {"runs": 1, "p50_ms": ms, "p90_ms": ms, "p99_ms": ms, "mean_ms": ms}
        (at / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": name, "model_version": "1",
             "batches": {"1": times, "8": times}, "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
             "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0}, "accuracy": accuracy,
             "recall": [accuracy, accuracy]}))
    return folder


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=120) as reply:
        return json.load(reply)


def failure(url, body=None):
    with pytest.raises(urllib.error.HTTPError) as failed:
        call(url, body)
    return failed.value.code, json.load(failed.value)["error"]


def infer(server, service, timeout_us=None, request_id=""):
    body = {"id": request_id, "parameters": {"timeout": timeout_us} if timeout_us else {},
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
    return call(f"http://{server.http}/v2/models/{service}/infer", body)


class Events:
    """Server-sent events, one after the other."""

    def __init__(self, server):
        self.reply = urllib.request.urlopen(f"http://{server.http}/v2/live/events", timeout=120)
        assert self.reply.headers["Content-Type"] == "text/event-stream"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reply.close()

    def next(self, *kinds):
        kind = None
        for line in self.reply:
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                kind = text.removeprefix("event: ")
            elif text.startswith("data: ") and kind in kinds:
                return kind, json.loads(text.removeprefix("data: "))
        raise AssertionError("the events ended")


def counted(server):
    """By service and outcome, what /metrics says."""
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=120) as reply:
        text = reply.read().decode()
    row = re.compile(r'^fermata_requests_total\{(.*?)\} (\d+)', re.M)
    counts = {}
    for labels, count in row.findall(text):
        names = dict(re.findall(r'(\w+)="(.*?)"', labels))
        key = names["service"], names["outcome"]
        counts[key] = counts.get(key, 0) + int(count)
    return counts


def ended(second, outcome):
    for reason, name in OUTCOMES.items():
        if outcome == name:
            return second["rejected"][reason]
    return second[outcome]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    server = Server(folder, write_models(folder / "models"), CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(scope="module")
def asked(live):
    """What was pushed while requests of every kind were answered, until all of them were."""
    seconds, batches = [], {}
    with Events(live) as events:
        hello = events.next("hello")[1]
        for service, count in ASKED.items():
            for i in range(count):
                infer(live, service, request_id=f"{service}-{i}")
        with pytest.raises(urllib.error.HTTPError):
            infer(live, "front", timeout_us=1, request_id="too-late")
        while sum(s["pool"]["offered"] for s in seconds) < sum(ASKED.values()) + 1:
            kind, data = events.next("second", "timeline")
            if kind == "second":
                seconds.append(data)
            else:
                batches.update((b["id"], b) for b in data["batches"])
        # A second is counted after the timeline of its moment is told.
        batches.update((b["id"], b) for b in events.next("timeline")[1]["batches"])
    return hello, seconds, batches


def test_hello_says_what_there_is(asked):
    hello = asked[0]
    assert {s["name"]: s["kind"] for s in hello["services"]} == {
        "front": "model", "fast": "model", "slow": "model", "either": "variants", "both": "pipeline"}
    assert [w["id"] for w in hello["workers"]] == [0, 1]
    assert hello["recorder"] == {"seconds": 600, "memory_mb": 16, "lost": 0}
    assert hello["policy"] in hello["schedulers"]
    both = next(s for s in hello["services"] if s["name"] == "both")
    assert (both["slo_ms"], both["members"]) == (60000, ["first", "second"])


def test_seconds_add_up_to_what_metrics_count(live, asked):
    seconds, sums = asked[1], {}
    for second in seconds:
        for service, counts in second["services"].items():
            for outcome in ("on_time", "late", "failed", "cancelled", *OUTCOMES.values()):
                key = service, outcome
                sums[key] = sums.get(key, 0) + ended(counts, outcome)
    assert {key: n for key, n in sums.items() if n} == {
        key: n for key, n in counted(live).items() if n}
    assert sums["front", "on_time"] == ASKED["front"]
    assert sums["front", "rejected_deadline"] == 1
    assert sums["both/second", "on_time"] == ASKED["both"]
    assert sum(s["pool"]["offered"] for s in seconds) == sum(ASKED.values()) + 1


def test_seconds_say_who_answered(asked):
    by, accuracies = {}, []
    for second in asked[1]:
        own = second["services"].get("either", {})
        for variant, count in own.get("answered_by", {}).items():
            by[variant] = by.get(variant, 0) + count
        accuracies += [own["accuracy"]] if own.get("accuracy") else []
    assert sum(by.values()) == ASKED["either"]
    assert all(0.8 <= a <= 0.95 for a in accuracies) and accuracies


def test_every_batch_has_a_rule_and_its_requests(asked):
    batches = asked[2].values()
    assert batches
    for batch in batches:
        assert batch["worker"] in (0, 1)
        assert batch["model"] in RUNS_MS
        assert batch["rule"] != "" and batch["why"].endswith(".")
        assert batch["waited_for"] in ("mates", "worker", "start_time", "nothing")
        assert len(batch["requests"]) + batch["more"] >= 1
        for request in batch["requests"]:
            assert request["arrival_us"] <= request["nominated_us"] <= batch["start_us"]


def test_a_request_is_explained_by_its_clients_id(live, asked):
    found = call(f"http://{live.http}/v2/live/requests/front-3")["requests"]
    assert [r["client_id"] for r in found] == ["front-3"]
    request = found[0]
    assert (request["service"], request["outcome"], request["budget_ms"]) == ("front", "on_time", 30000)
    assert "of its budget of 30000.0 ms" in request["sentence"]
    names = [span["name"] for span in request["spans"]]
    assert "run" in names
    assert all(a["start_us"] <= b["start_us"] for a, b in zip(request["spans"], request["spans"][1:]))
    same = call(f"http://{live.http}/v2/live/requests/{request['id']}")["requests"]
    assert same == found


def test_a_rejected_request_says_why(live, asked):
    found = call(f"http://{live.http}/v2/live/requests?pick=rejected&service=front")["requests"]
    assert [r["client_id"] for r in found] == ["too-late"]
    assert found[0]["reason"] == "rejected_deadline"
    assert "no worker could have saved it" in found[0]["sentence"]


def test_a_pipelines_request_has_the_runs_of_its_stages(live, asked):
    request = call(f"http://{live.http}/v2/live/requests?service=both&limit=1")["requests"][0]
    ran = [span["label"] for span in request["spans"] if span["name"] == "run"]
    assert [label.split(" x ")[0] for label in ran] == ["ran: fast", "ran: slow"]
    assert request["kind"] == "pipeline"


def test_requests_are_picked_and_limited(live, asked):
    slowest = call(f"http://{live.http}/v2/live/requests?pick=slowest&limit=5")["requests"]
    took = [r["end_us"] - r["arrival_us"] for r in slowest]
    assert len(took) == 5 and took == sorted(took, reverse=True)
    assert call(f"http://{live.http}/v2/live/requests?pick=late")["requests"] == []


@pytest.mark.parametrize("query, says", [
    ("pick=best", "expected latest, slowest, rejected or late"),
    ("limit=0", "expected a number from 1 to 500"),
    ("limit=many", "expected a number from 1 to 500")])
def test_questions_that_make_no_sense_are_refused(live, query, says):
    status, error = failure(f"http://{live.http}/v2/live/requests?{query}")
    assert status == 400 and says in error


def test_an_unknown_request_is_not_found(live, asked):
    assert failure(f"http://{live.http}/v2/live/requests/999999999")[0] == 404
    assert failure(f"http://{live.http}/v2/live/requests/front-3x")[0] == 404  # front-3 is another
    assert failure(f"http://{live.http}/v2/live/nothing")[0] == 404


def test_the_recording_is_a_scenario_that_simulate_runs(live, asked, tmp_path):
    document = call(f"http://{live.http}/v2/live/recording")
    file = tmp_path / "recording.json"
    file.write_text(json.dumps(document))
    plain = subprocess.run([FERMATA, "simulate", file], capture_output=True, text=True, check=True)
    result = json.loads(plain.stdout)
    called = {m["name"]: m["offered"] for kind in ("models", "applications", "pipelines")
              for m in result.get(kind, [])}
    assert set(called) >= {"either", "both"}
    replayed = subprocess.run([FERMATA, "simulate", "--recorded", file, "--workers", "1", "--scheduler",
                               "fermata", "--slo", "front=5000"],
                              capture_output=True, text=True, check=True)
    answer = json.loads(replayed.stdout)
    assert answer["cases"][0]["case"] == {"scheduler": "fermata", "workers": 1, "load": 1,
                                          "slo_ms": {"front": 5000}}
    assert answer["recorded"] == document["recorded"]


def test_what_if_answers_for_all_kinds_it_knows(live, asked):
    answer = call(f"http://{live.http}/v2/live/what_if",
                  {"seconds": 600, "cases": [{"workers": 4}, {"load": 2}, {"scheduler": None}]})
    assert answer["recorded"]["not_replayed"] == []
    assert set(answer["recorded"]["services"]) == set(answer["replayed"]["services"])
    assert answer["replayed"]["requests"] == answer["recorded"]["requests"]
    assert answer["error"] == pytest.approx(
        abs(answer["replayed"]["on_time"] - answer["recorded"]["on_time"]))
    assert [c["case"]["workers"] for c in answer["cases"]] == [4, None, None]


@pytest.mark.parametrize("body, says", [
    ({"load": 0}, "$.load"), ({"cases": [{"workers": 0}]}, "$.cases[0].workers"),
    ({"scheduler": "magic"}, "$.scheduler"), ({"slo_ms": {"nobody": 5}}, "nobody"),
    ({"cases": [{}] * 17}, "at most 16 cases"), ([], "$")])
def test_bad_what_ifs_say_what_was_expected(live, asked, body, says):
    status, error = failure(f"http://{live.http}/v2/live/what_if", body)
    assert status == 400 and says in error


def test_the_trace_has_every_batch(live, asked):
    trace = call(f"http://{live.http}/v2/live/trace")["traceEvents"]
    ran = [e for e in trace if e.get("cat") == "batch"]
    ends = [e for e in trace if e.get("cat") == "request" and e["ph"] == "e"]
    assert {e["tid"] for e in ran} <= {0, 1}
    assert all(e["dur"] > 0 for e in ran)
    assert len(ends) >= sum(ASKED.values())


def test_decisions_name_the_command_that_replays_them(live, asked):
    variants = replayed(live)["variants"]
    assert variants["at_us"] > 0 and variants["took_ms"] is None  # decided whenever a worker becomes free
    assert failure(f"http://{live.http}/v2/live/decisions/nobody")[0] == 404


NESTED = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{executor: emulated, count: 2}}
recorder: {{seconds: 600, memory_mb: 16}}
services:
  inner: {{kind: variants, variants: [fast, slow], slo_ms: 30000, penalty: step}}
  outer:
    kind: variants
    variants: [fast, {{service: inner, accuracy: 0.9}}]
    slo_ms: 30000
    penalty: step
"""


def test_what_if_knows_services_of_services(tmp_path):
    server = Server(tmp_path, write_models(tmp_path / "models"), NESTED)
    for _ in range(6):
        infer(server, "outer")
    infer(server, "inner")
    answer = call(f"http://{server.http}/v2/live/what_if", {"cases": [{"workers": 4}, {"slo_ms": {"outer": 1}}]})
    assert answer["recorded"]["not_replayed"] == []
    assert set(answer["replayed"]["services"]) == {"inner", "outer"}
    assert answer["replayed"]["on_time"] == answer["recorded"]["on_time"] == answer["cases"][0]["on_time"] == 1
    assert answer["cases"][1]["services"]["outer"]["on_time"] == 0 and answer["cases"][1]["services"]["inner"]["on_time"] == 1
    assert server.stop() == 0


def test_a_listener_that_goes_makes_room_for_another(live):
    for _ in range(40):
        with Events(live) as events:
            events.next("hello")


def test_the_seventeenth_listener_is_told_so(live):
    open_ones = []
    try:
        with pytest.raises(urllib.error.HTTPError) as failed:
            for _ in range(17):
                open_ones.append(Events(live))
        assert failed.value.code == 503
        assert len(open_ones) <= 16
    finally:
        for one in open_ones:
            one.reply.close()


def test_who_comes_later_is_told_the_newest_of_the_log(tmp_path):
    server = Server(tmp_path, write_models(tmp_path / "models"), CONFIG)
    for i in range(80):
        failure(f"http://{server.http}/v2/repository/models/none{i}/load", {})
    texts = []
    with Events(server) as events:
        while (event := events.next("log", "timeline"))[0] == "log":
            texts.append(event[1]["text"])
    assert len(texts) == 50
    assert "none79" in texts[-1] and "none30" in texts[0]
    assert server.stop() == 0


def test_without_a_recorder_counts_go_on(tmp_path):
    server = Server(tmp_path, write_models(tmp_path / "models"),
                    CONFIG.replace("recorder: {{seconds: 600, memory_mb: 16}}", "recorder: off"))
    with Events(server) as events:
        assert events.next("hello")[1]["recorder"] is None
        infer(server, "front")
        ended = 0
        while ended == 0:  # a second may end while it runs
            ended = events.next("second")[1]["services"].get("front", {"on_time": 0})["on_time"]
        assert ended == 1
    status, error = failure(f"http://{server.http}/v2/live/requests")
    assert status == 400 and "recorder" in error
    assert server.stop() == 0


def test_record_writes_what_simulate_replays(tmp_path):
    models = write_models(tmp_path / "models")
    config = tmp_path / "fermata.yaml"
    config.write_text(CONFIG.format(models=models))
    file = tmp_path / "recordings.jsonl"

    class Recording(Server):
        @staticmethod
        def start(command, **options):
            return subprocess.Popen([*command, "--record", file], **options)

    server = Recording(tmp_path, models, CONFIG)
    with Events(server) as events:
        for _ in range(8):
            infer(server, "front")
            events.next("second")  # over some time, most of which is measured
    assert server.stop() == 0
    done = subprocess.run([FERMATA, "simulate", "--recorded", file, "--load", "2"],
                          capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["recorded"]["on_time"] == 1
    assert answer["replayed"]["on_time"] == 1 and answer["error"] == 0
    assert answer["cases"][0]["case"]["load"] == 2
    wrong = subprocess.run([FERMATA, "simulate", "--recorded", config], capture_output=True, text=True)
    assert wrong.returncode == 2 and "fermata serve --record" in wrong.stderr


def test_other_machines_are_told_nothing(tmp_path):
    server = Server(tmp_path, write_models(tmp_path / "models"),
                    CONFIG.replace("listen: {{", "listen: {{host: 0.0.0.0, public: true, "))
    for path in ("events", "requests", "decisions", "recording", "trace"):
        assert failure(f"http://{server.http}/v2/live/{path}")[0] == 403
    assert server.stop() == 0
