"""What each rule of the default earns: each switched off by itself, on several sets of scenarios, beside the
default and the best of five simple policies."""

import copy
import hashlib
import json
import math
import pathlib
import random
import statistics
import subprocess

import drawings
import plot
import pools

DEFAULT = "fermata"
SIMPLE = ("deferred", "deferred-prefix", "eager", "clockwork", "edf")
LEAST_RATIO = 1e-3  # of one that has nothing left, so that a mean can be taken
ENOUGH = 120  # requests of the rarest model, for a share of 1 % to be measured
EARNS_MEAN, EARNS_WORST = 0.003, 0.02
BEST_EFFORT = {"name": "best_effort", "slo_ms": None, "latency_ms": {"alpha": 2.0, "beta": 20.0}}


def drawn(seed, number):
    """1 to 16 workers, 1 to 12 models with SLOs of 2.8 to 40 times a run of one."""
    draw = random.Random(f"{seed} {number}")
    models = []
    for i in range(draw.randint(1, 12)):
        alpha = pools.log_uniform(draw, 0.16, 8)
        beta = alpha * pools.log_uniform(draw, 0.4, 20)
        models.append({"name": f"m{i}", "slo_ms": round((alpha + beta) * pools.log_uniform(draw, 2.8, 40), 2),
                       "latency_ms": {"alpha": round(alpha, 4), "beta": round(beta, 4)},
                       "share": round(math.exp(draw.gauss(0, 0.8)), 3)})
    shape = draw.choice([1, 1, 1, 0.3, 0.1])
    for model in models:
        model["arrival"] = {"process": "gamma", "shape": shape}
    return {"workers": {"count": draw.randint(1, 16)}, "models": models, "rate_rps": 100.0,
            "warmup_s": 2, "duration_s": 20}


def zoo_cases(load, rows, seconds):
    return {name: load(f"{name}.yaml") | {"duration_s": seconds, "warmup_s": 2} for name in rows}


def suite_cases(load, case_document, every, seconds):
    suite = load("suite.yaml")
    return {c["name"]: case_document(copy.deepcopy(c), suite) | {"duration_s": seconds, "warmup_s": 2}
            for c in suite["cases"][::every]}


def small_cases(count):
    return {str(n): pools.pool(n) for n in range(count)}


def drawn_cases(seed, count):
    return {f"{seed}/{n}": drawn(seed, n) for n in range(count)}


def beside_best_effort(seed, count):
    """A tenth of the requests is work without a deadline, in long runs."""
    cases = {}
    for n in range(count):
        document = drawn(f"{seed} best effort", n)
        share = 0.1 * sum(m["share"] for m in document["models"])
        document["models"].append(BEST_EFFORT | {"share": round(share, 4)})
        cases[f"{seed}/{n}"] = document
    return cases


def enough(document, rate):
    rarest = min(m.get("share", 1) for m in document["models"] if m["slo_ms"] is not None)
    rarest /= sum(m.get("share", 1) for m in document["models"])
    return rate * rarest * document["duration_s"] >= ENOUGH


def geometric(ratios):
    return math.exp(statistics.mean(map(math.log, ratios))) if ratios else math.nan


def row(off, default):
    """A rule's figures on a set: what is left without it."""
    ratios = [max(off[c] / default[c], LEAST_RATIO) for c in off if default[c] > 0]
    return {"cases": len(ratios), "to_default": geometric(ratios), "least": min(ratios), "most": max(ratios)}


def to_best(values, best):
    ratios = {c: values[c] / best[c] for c in values if best.get(c, 0) > 0}
    return {"worst": min(ratios.values()), "mean": geometric(list(ratios.values())),
            "below_0.95": sum(r < 0.95 for r in ratios.values())}


def earns(rows):
    """Whether the rule earns its place on one of the sets: its figures without it."""
    return any(r["to_default"] < 1 - EARNS_MEAN or r["least"] < 1 - EARNS_WORST for r in rows)


def measure(cases, changes, value, each, simple=SIMPLE):
    """{case: {label: value}} of the simple policies, the default and each change of it."""
    labels = [*simple, "fermata", *changes]
    jobs = [(name, label) for name in cases for label in labels]

    def one(job):
        name, label = job
        policy = label if label in simple else "fermata"
        return value(cases[name], policy, changes.get(label, ()))

    found = {}
    for (name, label), figure in zip(jobs, each(jobs, one)):
        found.setdefault(name, {})[label] = figure
    return found


def table(found, changes, cases, simple=SIMPLE):
    kept = {n: f for n, f in found.items() if f["fermata"] > 0 and enough(cases[n], f["fermata"])}
    default = {n: f["fermata"] for n, f in kept.items()}
    best = {n: max((f[p] for p in simple), default=0) for n, f in kept.items()}
    rows = {}
    for label in ("fermata", *changes):
        values = {n: f[label] for n, f in kept.items()}
        rows[label] = row(values, default) | (to_best(values, best) if simple else {})
    return rows


def changes_of(rules, together):
    """Each rule off by itself, and those off at once: {"a+b": "a=off,b=off"}."""
    changes = {rule: (f"{rule}=off",) for rule in rules}
    for label, own in together.items():
        changes[label] = tuple(own.split(","))
    return changes


class Kept:
    """What has been measured already, in a file, so that a long run can be made in pieces."""

    def __init__(self, file):
        self.file = pathlib.Path(file) if file else None
        self.values = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}

    def get(self, document, policy, changes, measure):
        asked = json.dumps([dict(document, scheduler=policy, seed=1), list(changes), ""])
        key = hashlib.md5(asked.encode()).hexdigest()
        if key not in self.values:
            self.values[key] = measure()
        return self.values[key]

    def save(self):
        if self.file:
            self.file.write_text(json.dumps(self.values))


def lines(rows):
    """Of a set, for print: the rules that are missed most first."""
    order = sorted(rows.items(), key=lambda item: item[1]["to_default"])
    return [[name, r["to_default"], r["least"], r["most"], r.get("worst", ""), r.get("mean", "")] for name, r in order]


def rules_of(binary, load):
    """Their names, as the error about one that there is not lists them."""
    document = load("resnet50.yaml")
    done = subprocess.run([binary, "goodput", "-", "--set", "?=off"], input=json.dumps(document), text=True, capture_output=True)
    return [name.strip() for name in done.stderr.split("one of", 1)[1].split(",")]


def closed_loop(args, changes, each):
    """{pool: {label: on time a second}} of clients that wait for their answers."""
    binary = pathlib.Path(args.binary).parent / "bench" / "bench_closed_loop"
    labels = {"fermata": (), **changes}
    run = each(args, labels, lambda label: json.loads(subprocess.run(
        [args.closed or binary, str(args.seed), str(args.count), *labels[label]], text=True, capture_output=True, check=True).stdout))
    return {str(n): {label: rates[n] for label, rates in zip(labels, run)} for n in range(args.count)}


def run(args, load, rows, case_document, each):
    rules = args.rules.split(",") if args.rules else [r for r in rules_of(args.binary, load) if r not in ("defer", "enough", "by_deadline")]
    changes = changes_of(rules, dict(t.split(":", 1) for t in args.together_off))
    cases = {"five": lambda: zoo_cases(load, rows, 10),
             "suite": lambda: suite_cases(load, case_document, 5, 5),
             "pools": lambda: small_cases(args.count),
             "drawn": lambda: drawn_cases(args.seed, args.count),
             "best_effort": lambda: beside_best_effort(args.seed, args.count)}
    kept, sets = Kept(args.kept), {}

    def value(document, policy, own):
        # The default's rules are set too, so that nothing else chooses them.
        command = ["goodput", "-", *(word for change in ("defer=on", *own) for word in ("--set", change) if policy == DEFAULT)]
        asked = dict(document, scheduler=policy, seed=1)
        def measure():
            done = subprocess.run([args.binary, *command], input=json.dumps(asked), text=True, capture_output=True)
            return json.loads(done.stdout)["goodput_rps"]
        return kept.get(document, policy, own, measure)

    for name in args.sets.split(","):
        if name == "closed":
            found = closed_loop(args, changes, each)
            default = {n: f["fermata"] for n, f in found.items()}
            sets[name] = {label: row({n: f[label] for n, f in found.items()}, default) for label in ("fermata", *changes)}
        else:
            own = cases[name]()
            simple = () if name in ("five", "best_effort") else SIMPLE
            found = measure(own, changes, value, lambda jobs, one: each(args, jobs, one), simple)
            sets[name] = table(found, changes, own, simple)
            kept.save()
        print(name)
        print(plot.table(["off", "mean of the default", "least", "most", "worst of the best other", "mean of it"], lines(sets[name])))
    plot.save(args.name or "policies_ablation", drawings.DRAWN["policies_ablation"]({"sets": sets}), {"seed": args.seed, "count": args.count, "sets": sets})
