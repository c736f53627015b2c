"""What the default must do besides goodput, each a scenario and a figure: twins that fare alike beside
rare models, deadlines mixed in one queue, or impossible, a backlog without deadline beside a service that loses
nothing, workers that idle half of the time at half of the peak, and profiles that are wrong."""

import copy
import pathlib
import random
import tempfile

RESNET50 = {"alpha": 1.053, "beta": 5.072}
TWINS, RARE, LOAD_RPS = 16, 400, 12000
SHORT_MS, LONG_MS, LIGHT = 20, 500, 0.4
BACKLOG = {"of runs of 13 ms": (4000, {"latency_ms": RESNET50, "max_batch": 8}),
           "of runs of up to 0.5 s": (4000, {"latency_ms": {"alpha": 2.0, "beta": 20.0}})}
MUST = {"lost beside deferred, points": 0.2, "twins apart, points": 0.5, "lost of mixed deadlines, %": 0.0,
        "lost beside a backlog, %": 0.1, "backlog's length over what is left for it": 1.3, "idle at half of the peak, off 0.5": 0.07, "workers to add for impossible deadlines": 0,
        "lost by the wrong profile, points": 1.0}
WRONG = {"4 % too short": lambda draw: 1.04, "4 % too long": lambda draw: 0.96,
         "wrong by -20 to 20 %": lambda draw: 1 / (1 + draw.uniform(-0.2, 0.2))}
NEARLY_FULL, LEARNT_S = 0.9, 10
IMPOSSIBLE = 0.06


def cluster(workers, models, **more):
    return {"seed": 1, "warmup_s": 2.0, "duration_s": 20.0, "workers": {"count": workers}, "models": models} | more


def beside_rare(policy):
    twins = [{"name": f"twin{i}", "latency_ms": RESNET50, "slo_ms": 25, "share": 0.9 / TWINS} for i in range(TWINS)]
    rare = [{"name": f"rare{i}", "latency_ms": RESNET50, "slo_ms": 25, "share": 0.1 / RARE} for i in range(RARE)]
    return cluster(32, twins + rare, rate_rps=LOAD_RPS, scheduler=policy)


def mixed(workers, slo):
    return cluster(workers, [{"name": "m", "latency_ms": RESNET50, "slo_ms": slo}], rate_rps=1.0)


def with_backlog(folder, workers, rps, backlog, kind):
    """Constant arrivals of a model with a deadline, and `backlog` requests without one in the third second."""
    seconds = range(22)
    models = []
    for name, model, slo, counts in (
            ("service", {"latency_ms": RESNET50}, 50, [rps] * len(seconds)),
            ("backlog", BACKLOG[kind][1], None, [backlog if s == 2 else 0 for s in seconds])):
        if any(counts):
            file = pathlib.Path(folder) / f"{name}-{workers}-{rps}-{backlog}"
            file.write_text("".join(f"{count}\n" for count in counts))
            models.append(model | {"name": name, "slo_ms": slo, "arrival": {"process": "trace", "file": str(file)}})
    return cluster(workers, models)


def model_of(out, name):
    return next(m for m in out["models"] if m["name"] == name)


def twins(args, simulate):
    ours, deferred = (simulate(beside_rare(policy)) for policy in ("fermata", "deferred"))
    bad = [100 * model_of(ours, f"twin{i}")["bad_rate"] for i in range(TWINS)]
    return {"lost, %": 100 * ours["bad_rate"], "lost by deferred, %": 100 * deferred["bad_rate"],
            "lost beside deferred, points": 100 * (ours["bad_rate"] - deferred["bad_rate"]),
            "twins apart, points": max(bad) - min(bad)}


def deadlines(args, simulate, goodput, workers):
    half = [{"share": 0.5, "slo_ms": SHORT_MS}, {"share": 0.5, "slo_ms": LONG_MS}]
    peak = goodput(args.binary, mixed(workers, SHORT_MS), "fermata", 1, 20)
    out = simulate(mixed(workers, {"mix": half}) | {"rate_rps": LIGHT * peak})
    lost = "lost of mixed deadlines, %" if workers > 1 else "lost by the only worker's batches, %"  # no other could save them
    return {lost: 100 * out["bad_rate"], "idle": 1 - out["worker_utilization"]}


def backlog(args, simulate, goodput, workers, kind):
    peak = goodput(args.binary, mixed(workers, 50), "fermata", 1, 20)
    rps = int(LIGHT * peak)
    with tempfile.TemporaryDirectory() as folder:
        many = BACKLOG[kind][0] * workers
        both, alone, service = (simulate(with_backlog(folder, workers, *what, kind))
                                for what in ((rps, many), (0, many), (rps, 0)))
    left = 1 - service["worker_utilization"]
    length = model_of(both, "backlog")["p99_ms"] / (model_of(alone, "backlog")["p99_ms"] / left)
    return {"lost beside a backlog, %": 100 * model_of(both, "service")["bad_rate"],
            "lost without it, %": 100 * model_of(service, "service")["bad_rate"], "s": model_of(both, "backlog")["p99_ms"] / 1000,
            "backlog's length over what is left for it": length}


def impossible(args, simulate, goodput, workers):
    """Some of the requests have a millisecond, of which a run alone takes six."""
    mix = [{"share": 1 - IMPOSSIBLE, "slo_ms": 50}, {"share": IMPOSSIBLE, "slo_ms": 1}]
    peak = goodput(args.binary, mixed(workers, 50), "fermata", 1, 20)
    out = simulate(mixed(workers, {"mix": mix}) | {"rate_rps": NEARLY_FULL * peak})
    return {"lost, %": 100 * out["bad_rate"], "workers to add for impossible deadlines": out["autoscale"]["add_workers"]}


def half_of_peak(args, simulate, goodput, document):
    document = copy.deepcopy(document)
    peak = goodput(args.binary, document, "fermata", 1, 60)
    idle = 1 - simulate(document | {"rate_rps": peak / 2, "duration_s": 60})["worker_utilization"]
    return {"peak_rps": peak, "idle": idle, "idle at half of the peak, off 0.5": abs(idle - 0.5)}


def drifting(document, drift):
    """Whose batches take what they took before, but whose profiles say something else: by model, the
    runs over what its profile says."""
    draw, models = random.Random(1), []
    for model in document["models"]:
        factor = drift(draw)
        models.append(model | {"drift": factor, "latency_ms": {
            key: value / factor for key, value in model["latency_ms"].items()}})
    return document | {"models": models}


def wrong_profiles(args, simulate, goodput, document, policy, kind):
    peak = goodput(args.binary, document, policy, 1, 20)
    document = document | {"rate_rps": NEARLY_FULL * peak, "warmup_s": LEARNT_S, "duration_s": 20,
                           "scheduler": policy}
    right, wrong = (100 * simulate(d)["bad_rate"] for d in (document, drifting(document, WRONG[kind])))
    return {"lost, %": wrong, "lost by the right profile, %": right, "lost by the wrong profile, points": wrong - right}


def bursty(document):
    """Its models' requests in bursts."""
    return document | {"models": [m | {"arrival": {"process": "gamma", "shape": 0.1}} for m in document["models"]]}


def long_tailed(document):
    return document | {"models": [m | {"share": 1 / rank} for rank, m in enumerate(document["models"], 1)]}


def missed(found):
    """The figures that are not reached: (claim, figure, what it is, what it must be)."""
    return [(claim, key, value, MUST[key]) for claim, figures in found.items() for key, value in figures.items()
            if key in MUST and value > MUST[key] + 1e-9]
