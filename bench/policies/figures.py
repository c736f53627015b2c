"""Figures 6 to 11 and 13 of Symphony in virtual time: goodput of the mixed zoos and of their models that gain much or
little by batches, and by SLO, popularity and burstiness; batch sizes and queueing near the peak, what workers do beyond
it (from the record of `run.py overload`), goodput by workers, and by the delay between decision and start."""

import concurrent.futures

SHOWN = ("fermata", "deferred", "clockwork", "nexus")
NEAR = 0.97  # of each policy's own peak
LOADS = (0.25, 0.5, 0.75, 0.9, NEAR)
TABLE_4 = {"resnet50": (1.053, 5.072, 25), "inception_resnet_v2": (5.090, 18.368, 70)}
WORKERS = (4, 8, 16, 32, 64)
SLOS = (20, 25, 50, 100)
DELAYS_MS = {"RDMA": (0, 0.01, 0.02, 0.05, 0.1), "TCP": (0, 1, 2, 5, 10, 15)}
SECONDS = 5
ZOOS = ("zoo_1080ti", "zoo_a100")
GAINS = {"all": lambda ratio: True, "beta > 2 alpha": lambda ratio: ratio > 2, "beta < 2 alpha": lambda ratio: ratio < 2}
WORKLOAD_SLOS = (15, 20, 25, 33, 50, 100)  # ms, of 20 models on 32 workers
POPULARITY = {"alike": 0, "Zipf 0.9": 0.9}
ARRIVALS = {"Poisson": {"process": "poisson"}, "gamma 0.05": {"process": "gamma", "shape": 0.05}}


def cluster(workers, slo_ms, models=20, alpha=1.053, beta=5.072, **more):
    return {"seed": 1, "warmup_s": 1, "duration_s": SECONDS, "workers": {"count": workers}, "rate_rps": 1000,
            "models": [{"name": f"m{i}", "latency_ms": {"alpha": alpha, "beta": beta}, "slo_ms": slo_ms}
                       for i in range(models)]} | more


def batching(goodput, simulate, model, policy):
    """Figures 8 and 9: of requests, by the size of their batch, and what 99 % wait at most."""
    alpha, beta, slo_ms = TABLE_4[model]
    document = cluster(8, slo_ms, 1, alpha, beta, scheduler=policy)
    peak = goodput(document, policy)
    found = [simulate(document | {"rate_rps": max(1, load * peak), "duration_s": 4 * SECONDS})["models"][0]
             for load in LOADS]
    return {"model": model, "policy": policy, "peak_rps": peak,
            "batches": {int(size): count for size, count in found[-1]["batches"].items()},
            "queueing_p99_ms": [f["queueing_p99_ms"] for f in found]}


def zoo(document, gains):
    """Figure 6: those of its models that gain so much by batches."""
    models = [m for m in document["models"] if gains(m["latency_ms"]["beta"] / m["latency_ms"]["alpha"])]
    return document | {"models": models, "duration_s": SECONDS}


def workload(slo_ms, popularity, arrival):
    """Figure 7."""
    document = cluster(32, slo_ms)
    return document | {"models": [m | {"share": rank ** -popularity, "arrival": arrival}
                                  for rank, m in enumerate(document["models"], 1)]}


def measure(args, goodput, simulate, load):
    with concurrent.futures.ThreadPoolExecutor(args.together) as threads:
        zoos = {name: {gains: {p: threads.submit(goodput, zoo(load(f"{name}.yaml"), of), p) for p in SHOWN}
                       for gains, of in GAINS.items()} for name in ZOOS}
        workloads = {f"{popular}, {arrives}": {p: [threads.submit(goodput, workload(slo, share, arrival), p) for slo in WORKLOAD_SLOS]
                                               for p in SHOWN}
                     for popular, share in POPULARITY.items() for arrives, arrival in ARRIVALS.items()}
        batches = [threads.submit(batching, goodput, simulate, m, p) for m in TABLE_4 for p in SHOWN]
        workers = {p: [threads.submit(goodput, cluster(n, 100), p) for n in WORKERS]
                   for p in SHOWN}
        delays = {kind: {slo: [threads.submit(goodput, cluster(32, slo, network={"control_ms": ms}), "fermata")
                               for ms in sweep] for slo in SLOS} for kind, sweep in DELAYS_MS.items()}
        return {"zoos": {name: {gains: {p: g.result() for p, g in own.items()} for gains, own in by.items()}
                         for name, by in zoos.items()},
                "by_slo": {name: {p: [g.result() for g in own] for p, own in by.items()} for name, by in workloads.items()},
                "near_the_peak": [b.result() for b in batches],
                "by_workers": {p: [w.result() for w in own] for p, own in workers.items()},
                "by_delay": {kind: {slo: [g.result() for g in own] for slo, own in by_slo.items()}
                             for kind, by_slo in delays.items()}}
