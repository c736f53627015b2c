"""The served half of bench/streams.py: a real server and its clients on shaped links between network
namespaces, measured cell by cell. Needs root, ip and tc."""

import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import record
import streams_traces
from server import Server
from streams_links import Links, in_own_network
from streams_setting import (ACCURACY, LOAD_MS, MEMORY_MB, METHODS, MIDDLE, MOST_BATCH, SIDES, VARIANTS, clients_of,
                             judge, settings)

HERE = pathlib.Path(__file__).resolve().parent


def repository(folder):
    for v in VARIANTS:
        model = folder / v["name"]
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(
            f"max_batch_size: {MOST_BATCH}\n"
            'input { name: "frame" data_type: TYPE_STRING dims: 1 }\n'
            'output { name: "boxes" data_type: TYPE_FP32 dims: 4 }\n')
        one, most = (v["latency_ms"]["table"][str(b)] for b in (1, MOST_BATCH))
        alpha = (most - one) / (MOST_BATCH - 1)
        batches = {b: {"runs": 1} | dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "mean_ms"), ms)
                   for b, ms in v["latency_ms"]["table"].items()}
        (model / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": v["name"], "model_version": "1", "batches": batches,
             "load_ms": LOAD_MS, "memory_mb": MEMORY_MB, "static_mb": MEMORY_MB,
             "linear_ms": {"alpha": alpha, "beta": one - alpha, "error": 0},
             "quadratic_ms": {"a": 0, "b": alpha, "c": one - alpha, "error": 0}}))
    return folder


def config_of(models, method, phased, room=None):
    kb = VARIANTS[MIDDLE]["request_kb"] if method == "DNN alone" else None
    variants = [{"service": v["name"], "input_size": v["input_size"], "accuracy": v["accuracy"],
                 "request_kb": round(1.1 * (kb or v["request_kb"]), 3)} for v in VARIANTS]
    workers = {"count": 2, "executor": "emulated"}
    if room:
        workers |= {"memory_mb": room * MEMORY_MB + 1, "residency": "on_demand"}
    return {"models": str(models), "workers": workers,
            "scheduler": METHODS[method].get("scheduler", "fermata"),
            "services": {"cameras": {"kind": "stream", "slo_ms": 100, "variants": variants, "phases": phased}}}


def command_of(args, links, name, address, slo, rate, method, seed):
    sizes = {v["input_size"]: round(v["request_kb"] * 1000) for v in VARIANTS}
    command = [*links.inside(name), sys.executable, HERE / "streams_client.py", address,
               "--slo-ms", slo, "--rate", rate, "--seconds", args.seconds, "--seed", seed, "--bytes", json.dumps(sizes)]
    if METHODS[method].get("mode") == "fixed":
        side = SIDES[METHODS[method]["variant"]]
        command += ["--service", f"detect-{side}", "--most", side]
    if method == "DNN alone":
        command += ["--only", SIDES[MIDDLE]]
    return [str(word) for word in command]


def median_error(reports, links):
    """Of the clients' estimates, against what the link had at that moment."""
    errors = []
    for name, report in reports.items():
        log, at = links.log[name], 0
        for now, mbps in report["estimates"]:
            while at + 1 < len(log) and log[at + 1][0] <= now:
                at += 1
            errors.append(abs(mbps / log[at][1] - 1))
    return round(statistics.median(errors), 4) if errors else None


def serve_once(args, traces, models, key, room=None):
    name, slo, rate, count, method, phased = key
    mbps, hold_s = traces[name]
    draw = random.Random(f"{count} {slo} {rate}")
    shapes = {f"c{i}": (mbps, hold_s, draw.uniform(0, len(mbps) * hold_s)) for i in range(count)}
    kinds = clients_of(count, slo, rate)
    with Links(shapes) as links, Server(config_of(models, method, phased, room), host=links.server) as server:
        links.start()
        clients = {c: subprocess.Popen(command_of(args, links, c, f"{links.server}:{server.grpc}", *kinds[i], method, i),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for i, c in enumerate(shapes)}
        ended = {c: client.communicate() for c, client in clients.items()}
        metrics = server.metrics()
    for c, (out, err) in ended.items():
        if clients[c].returncode != 0:
            sys.exit(f"streams: a client failed: {err.strip()[-500:]}")
    reports = {c: json.loads(out) for c, (out, _) in ended.items()}
    total = {k: sum(r[k] for r in reports.values()) for k in ("offered", "on_time", "late", "rejected", "dropped")}
    sides = [s for r in reports.values() for s in r["sides"]]
    fixed = METHODS[method].get("mode") == "fixed"
    accuracy = statistics.mean(ACCURACY[SIDES[METHODS[method]["variant"]] if fixed else s] for s in sides) if sides else 0
    latencies = sorted(ms for r in reports.values() for ms in r["latency_ms"])
    return {"trace": name, "slo_ms": slo, "rate": rate, "clients": count, "method": method, "phases": phased} | total | {
        "miss_rate": round(1 - total["on_time"] / max(total["offered"], 1), 5), "accuracy": round(accuracy, 4),
        "median_ms": latencies[len(latencies) // 2] if latencies else None,
        "p99_ms": latencies[int(len(latencies) * 0.99)] if latencies else None,
        "estimate_error": median_error(reports, links),
        "client_late_ms": max(r["late_ms"] for r in reports.values()),
        "mismatches": metrics.get('fermata_stream_mismatches_total{service="cameras"}')} | (
        {"room": room} | {what: metrics.get(f'fermata_stream_{what}_total{{service="cameras"}}')
                          for what in ("switches", "prefetched", "stale")} if room else {})


def matters(slo, rate, count, method):
    """The settings of a shorter set: every objective at the lower rate, the middle one at the higher rate with several
    clients; `high` and `DNN alone` at one of them."""
    telling = count in (1, 4, 8) and (rate == 15 or (slo == 100 and count > 1))
    return telling and (method in ("fermata", "low", "middle") or (slo, rate, count) == (100, 15, 4))


class Rows:
    """Measured cells as JSON lines: what drew them first, then a row a line as soon as it is there, so
    that what was cut off goes on where it was."""

    def __init__(self, path, about):
        self.path, self.about, self.rows = path, about, []
        text = path.read_text() if path.exists() else ""
        whole = text[:text.rfind("\n") + 1]  # what was cut off in mid-line is measured again
        path.write_text(whole or json.dumps(about) + "\n")
        first, *self.rows = map(json.loads, path.read_text().splitlines())
        if not alike(first, about):
            sys.exit(f"streams: {path} was drawn by another commit or changed sources, with other traces or for other seconds")

    def has(self, key):
        return any(key_of(row) == key for row in self.rows)

    def add(self, row):
        self.rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def key_of(row):
    return tuple(row[part] for part in ("trace", "slo_ms", "rate", "clients", "method", "phases"))


def alike(one, other):
    return (all(one["drawn"].get(part) == other["drawn"].get(part) for part in ("commit", "changed_since")) and
            all(one[part] == other[part] for part in ("traces", "seconds", "wanted")))


def cells_of(args):
    return [(name, slo, rate, count, method, False)
            for name in args.only_traces.split(",") for slo, rate, count in settings(args.clients)
            if slo in args.slos and rate in args.rates for method in args.methods.split(",")
            if not args.reduced or matters(slo, rate, count, method)]


def served(args):
    in_own_network()
    cells = cells_of(args)
    part, parts = args.cells
    about = {"drawn": record.drawn(), "traces": "the authors'" if args.traces else "made", "seconds": args.seconds, "wanted": cells}
    traces = streams_traces.load(args.traces)
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(args.rows or pathlib.Path(folder) / "rows.jsonl", json.loads(json.dumps(about)))
        models = repository(pathlib.Path(folder) / "models")
        for key in cells[part - 1::parts]:
            if not rows.has(key):
                rows.add(serve_once(args, traces, models, key))
        if not args.rows:
            draw([rows])


def merge(args):
    """One record of the files that parts of the cells were written into."""
    empty = [str(path) for path in args.files if not path.read_text()]
    if empty:
        sys.exit(f"streams: nothing was measured into {', '.join(empty)}")
    files = [Rows(path, json.loads(path.open().readline())) for path in args.files]
    if not all(alike(files[0].about, file.about) for file in files):
        sys.exit("streams: these are of several commits, traces, lengths or sets of cells")
    draw(files)


def draw(files):
    about, rows = files[0].about, {key_of(row): row for file in files for row in file.rows}
    wanted = list(map(tuple, about["wanted"]))
    missing = [key for key in wanted if key not in rows]
    if missing:
        sys.exit(f"streams: {len(missing)} of {len(wanted)} cells are missing, the first is {missing[0]}")
    ordered = [rows[key] for key in wanted]
    document = {"traces": about["traces"], "seconds": about["seconds"], "wrong": judge(ordered), "rows": ordered}
    import drawings  # needs matplotlib, which a run that only measures does not
    import plot
    plot.save("streams_served", drawings.streams_served(document), document, before=[file.about["drawn"] for file in files])
    print(json.dumps(document["wrong"], indent=1))


def serve_each(args, name, cells, more=lambda row: {}):
    """A record of one served run for each of the cells, (trace, clients, phases, room)."""
    in_own_network()
    traces = streams_traces.load(args.traces)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = repository(pathlib.Path(folder))
        for trace, count, phases, room in cells:
            row = serve_once(args, traces, models, (trace, 100, 15, count, "fermata", phases), room)
            rows.append(row | more(row))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    record.write(name, {"traces": "the authors'" if args.traces else "made", "seconds": args.seconds, "rows": rows})


def prefetching(args):
    """How often a switch finds its DNN there, of workers that hold some of the sixteen."""
    serve_each(args, "streams_prefetching", itertools.product(args.only_traces.split(","), (4,), (False,), args.rooms),
               lambda row: {"hits": round(row["prefetched"] / max(row["switches"], 1), 4)})


def phased(args):
    """The same clients without phases and with them."""
    serve_each(args, "streams_phased", itertools.product(args.only_traces.split(","), args.clients, (False, True), (None,)))
