"""Random small pools, each a scenario drawn from its number: 1 to 12 workers, 1 to 8 different models
with SLOs of 10 ms to 2 s, Poisson arrivals or bursts (gaps of a gamma distribution). Run as a
program it prints the scenario of a number."""

import json
import math
import random
import sys

COUNT = 64  # in the suite
LEAST_REQUESTS = 120  # of the rarest model, even at an eighth of what the workers could bear
MOST_REQUESTS = 120000


def log_uniform(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def draw_model(draw, name):
    slo = log_uniform(draw, 10, 2000)
    alone = slo * draw.uniform(0.08, 0.45)
    fixed = draw.uniform(0.02, 0.95)  # of the time alone: what a batch shares
    return {"name": name, "slo_ms": round(slo, 2),
            "latency_ms": {"alpha": round(alone * (1 - fixed), 4), "beta": round(alone * fixed, 4)}}


def cheapest_ms(model):
    """Worker time of a request in the largest batch that ends in time."""
    alpha, beta = model["latency_ms"]["alpha"], model["latency_ms"]["beta"]
    batch = max(1, min(256, int((model["slo_ms"] - beta) / alpha)))
    return alpha + beta / batch


def draw_pool(draw):
    workers = draw.randint(1, 12)
    models = [draw_model(draw, f"m{i}") for i in range(draw.randint(1, 8))]
    by_work = draw.random()  # 0: requests are alike many, 1: worker time is alike
    shape = 1 if draw.random() < 0.5 else log_uniform(draw, 0.1, 1)
    for model in models:
        model["share"] = math.exp(draw.gauss(0, 0.8)) * cheapest_ms(model) ** -by_work
        model["arrival"] = {"process": "gamma", "shape": round(shape, 3)}
    shares = sum(m["share"] for m in models)
    for model in models:
        model["share"] = round(model["share"] / shares, 5)
    most = workers * 1000 / sum(m["share"] * cheapest_ms(m) for m in models)
    rarest = min(m["share"] for m in models)
    duration = max(20, LEAST_REQUESTS / (rarest * most / 8)) if rarest > 0 else math.inf
    return {"workers": {"count": workers}, "models": models, "rate_rps": round(most / 2, 3),
            "warmup_s": round(max(2, duration / 10), 1), "duration_s": round(duration, 1)}, most


def pool(number):
    """Drawn again until it can be simulated in a second or so."""
    draw = random.Random(f"pool {number}")
    while True:
        document, most = draw_pool(draw)
        if document["duration_s"] * most < MOST_REQUESTS:
            return document


def widely_unlike(number):
    """1 to 16 workers, 1 to 12 models whose time for one more item is 0.16 to 8 ms, whose fixed time is 0.4 to 20 times
    that and whose SLO 2.8 to 40 times a run of one; three fifths Poisson, the rest bursts. 60 s after 20 s to warm up."""
    draw = random.Random(f"widely unlike {number}")
    while True:
        workers, models = draw.randint(1, 16), []
        by_work = draw.random()
        shape = 1 if draw.random() < 0.6 else draw.choice([0.3, 0.1])
        for i in range(draw.randint(1, 12)):
            alpha = log_uniform(draw, 0.16, 8)
            beta = alpha * log_uniform(draw, 0.4, 20)
            models.append({"name": f"m{i}", "slo_ms": round((alpha + beta) * log_uniform(draw, 2.8, 40), 2),
                           "latency_ms": {"alpha": round(alpha, 4), "beta": round(beta, 4)}})
        for model in models:
            model["share"] = math.exp(draw.gauss(0, 0.8)) * cheapest_ms(model) ** -by_work
            model["arrival"] = {"process": "gamma", "shape": shape}
        shares = sum(m["share"] for m in models)
        for model in models:
            model["share"] = round(model["share"] / shares, 5)
        most = workers * 1000 / sum(m["share"] * cheapest_ms(m) for m in models)
        document = {"workers": {"count": workers}, "models": models, "rate_rps": round(most / 2, 3), "warmup_s": 20, "duration_s": 60}
        rarest = min(m["share"] for m in models)
        if rarest * most / 2 * 60 >= LEAST_REQUESTS and most * 80 < MOST_REQUESTS:
            return document


CHANGES = ("rates swap", "bursts begin", "deadlines tighten")
CHANGE_S, MEASURED_FROM_S, END_S = 60, 80, 120


def changing(number):
    """A pool of widely_unlike() whose load is of another kind from CHANGE_S on, request by request; what comes from
    MEASURED_FROM_S on is measured."""
    draw, pool = random.Random(f"changing {number}"), widely_unlike(1000 + number)
    change, models = CHANGES[number % len(CHANGES)], pool["models"]
    most = pool["workers"]["count"] * 1000 / sum(m["share"] * cheapest_ms(m) for m in models)
    rate = most * draw.uniform(0.35, 0.7)
    rates = [m["share"] * rate for m in models]
    swapped = rates[::-1]
    work = [sum(r * cheapest_ms(m) for r, m in zip(each, models)) for each in (rates, swapped)]
    swapped = [r * work[0] / work[1] for r in swapped]
    for model, before, after in zip(models, rates, swapped):
        shortest = 2.2 * sum(model["latency_ms"].values())
        at_us, slo_us, at = [], [], 0.0
        while at < END_S:
            new = at >= CHANGE_S
            shape = 0.1 if new and change == "bursts begin" else 1 if change == "bursts begin" else model["arrival"]["shape"]
            mean = 1 / (after if new and change == "rates swap" else before)
            at += draw.gammavariate(shape, mean / shape)
            slo = max(shortest, 0.5 * model["slo_ms"]) if new and change == "deadlines tighten" else model["slo_ms"]
            at_us.append(int(at * 1e6))
            slo_us.append(int(slo * 1e3))
        model["arrival"] = {"process": "recorded", "at_us": at_us, "slo_us": slo_us, "items": 1}
        del model["share"]
    return dict(pool, models=models, rate_rps=rate, warmup_s=MEASURED_FROM_S, duration_s=END_S - MEASURED_FROM_S), change


if __name__ == "__main__":
    print(json.dumps(pool(int(sys.argv[1])), indent=1))
