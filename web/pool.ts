// The live page: how busy the workers are, and what becomes of the services' requests.

import { find, say } from "./page.js";

const EVERY_MS = 1000;
const REJECTED = ["refused_deadline", "refused_queue", "unavailable"];

interface Sample { name: string; labels: Map<string, string>; value: number }
type Metrics = Map<string, Sample>; // by line without the value

// Prometheus' text format.
function parse(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split("\n")) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const labels = new Map([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(m => [m[1]!, m[2]!]));
    metrics.set(`${match[1]}{${match[2] ?? ""}}`, { name: match[1]!, labels, value: Number(match[3]) });
  }
  return metrics;
}

// What was added to a counter since `before`.
function grown(before: Metrics, after: Metrics, name: string): Sample[] {
  return [...after].filter(([, sample]) => sample.name === name)
    .map(([key, sample]) => ({ ...sample, value: sample.value - (before.get(key)?.value ?? 0) }));
}

// Of one that is no counter, or of which all since the start is of interest.
function now(after: Metrics, name: string): Sample[] {
  return [...after.values()].filter(sample => sample.name === name);
}

function fill(id: string, rows: string[][]): void {
  find(id).closest("table")!.hidden = rows.length === 0;
  find(id).replaceChildren(...rows.map(cells => {
    const row = document.createElement("tr");
    row.replaceChildren(...cells.map(text => Object.assign(document.createElement("td"), { textContent: text })));
    return row;
  }));
}

function show(before: Metrics, after: Metrics, seconds: number): void {
  const batches = grown(before, after, "fermata_worker_batches_total");
  fill("workers", grown(before, after, "fermata_worker_busy_seconds_total").map((busy, i) => [
    `${busy.labels.get("worker")} ${busy.labels.get("type") ?? ""}`,
    `${Math.min(100, 100 * busy.value / seconds).toFixed(0)} %`, ((batches[i]?.value ?? 0) / seconds).toFixed(1)]));
  const services = new Map<string, Map<string, number>>();
  for (const { labels, value } of grown(before, after, "fermata_requests_total")) {
    const key = `${labels.get("model")}\n${labels.get("version") ?? ""}`;
    const row = services.get(key) ?? new Map<string, number>();
    row.set(labels.get("outcome") ?? "", value);
    services.set(key, row);
  }
  fill("services", [...services].map(([key, outcomes]) => {
    const sum = (names: string[]): number => names.reduce((total, name) => total + (outcomes.get(name) ?? 0), 0);
    const all = sum([...outcomes.keys()]);
    const share = (names: string[]): string => all === 0 ? "" : `${(100 * sum(names) / all).toFixed(1)} %`;
    return [...key.split("\n"), (all / seconds).toFixed(1), share(["on_time"]), share(["late"]), share(REJECTED),
            share(["invalid", "failed"])];
  }));
}

// As planned by the adapters of pipelines.
function showStages(after: Metrics): void {
  const batches = now(after, "fermata_pipeline_batch");
  fill("stages", now(after, "fermata_pipeline_replicas").map((replicas, i) => [
    ...["service", "stage", "variant"].map(label => replicas.labels.get(label) ?? ""),
    replicas.value.toFixed(1), `${batches[i]?.value ?? ""}`]));
}

function showStreams(before: Metrics, after: Metrics, seconds: number): void {
  fill("streams", now(after, "fermata_stream_clients").map(clients => {
    const model = clients.labels.get("model") ?? "";
    const own = (samples: Sample[]): number => samples.find(s => s.labels.get("model") === model)?.value ?? 0;
    const all = (what: string): number => own(now(after, `fermata_stream_${what}`));
    const fresh = (what: string): number => own(grown(before, after, `fermata_stream_${what}_total`));
    const share = (part: number, whole: number): string => whole === 0 ? "" : `${(100 * part / whole).toFixed(1)} %`;
    const frames = fresh("frames");
    return [model, `${clients.value}`, `${all("mapped_clients")}`, all("mean_accuracy").toFixed(3), (frames / seconds).toFixed(1),
            share(fresh("mismatches"), frames), share(fresh("stale"), frames), (fresh("switches") / seconds).toFixed(1),
            share(all("prefetched_total"), all("switches_total"))];
  }));
}

async function watch(): Promise<void> {
  let before: Metrics | undefined, at = 0;
  for (;;) {
    try {
      const response = await fetch("/metrics");
      if (!response.ok) throw new Error(await response.text());
      const after = parse(await response.text()), seen = performance.now() / 1000;
      if (before !== undefined) {
        show(before, after, seen - at);
        showStages(after);
        showStreams(before, after, seen - at);
      }
      before = after;
      at = seen;
      say("state", "the last second");
    } catch (error) {
      say("state", `${error}`);
    }
    await new Promise(resolve => window.setTimeout(resolve, EVERY_MS));
  }
}

void watch();
