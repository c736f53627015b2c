// The last minutes by second and the last hour by ten seconds, and sums over them.

import type { Counts, Hello, PoolSecond, Second, ServiceSecond, Tally } from "./contract.js";

const FINE = 300, COARSE = 360, STEP_S = 10;

// `minutes` that were asked for, or fewer where less is known.
export interface Slice { end_us: number; minutes: number; seconds: Second[] }

export class History {
  private fine: Second[] = [];
  private coarse: Second[] = [];
  private open: Second[] = []; // of the ten seconds that have not ended

  begin(hello: Hello): void {
    this.fine = hello.history.seconds.slice(-FINE).map(called);
    this.coarse = (hello.history.coarse?.seconds ?? []).slice(-COARSE).map(called);
    const last = this.coarse.at(-1)?.at_us ?? -Infinity;
    this.open = [];
    for (const second of this.fine) if (second.at_us > last) this.gather(second);
  }

  add(second: Second): void {
    this.fine.push(called(second));
    if (this.fine.length > FINE) this.fine.shift();
    this.gather(this.fine.at(-1)!);
  }

  private gather(second: Second): void {
    this.open.push(second);
    if (this.open.length < STEP_S) return;
    this.coarse.push(merge(this.open));
    if (this.coarse.length > COARSE) this.coarse.shift();
    this.open = [];
  }

  get last(): Second | undefined { return this.fine.at(-1); }

  // The seconds of the last minutes before `until`; more than five come in steps of ten seconds.
  slice(minutes: number, until = Infinity): Slice {
    const fine = minutes <= FINE / 60;
    const all = fine ? this.fine : this.open.length > 0 ? [...this.coarse, merge(this.open)] : this.coarse;
    const before = all.filter(second => second.at_us <= until);
    const end_us = before.at(-1)?.at_us ?? 0;
    const seconds = before.filter(second => second.at_us > end_us - minutes * 60e6);
    const known = Math.ceil((end_us - (seconds[0]?.at_us ?? end_us)) / 60e6);
    return { end_us, minutes: Math.min(minutes, Math.max(known, 1)), seconds };
  }
}

// Only what clients call; no percentiles of nothing.
function called(second: Second): Second {
  const services: Record<string, ServiceSecond> = {};
  for (const [name, part] of Object.entries(second.services)) {
    if (part.stage === true) continue;
    const answered = part.on_time + part.late > 0;
    services[name] = answered ? part : { ...part, p50_ms: null, p99_ms: null };
  }
  return { ...second, services };
}

export function addCounts(to: Counts, from: Counts | undefined): void {
  for (const [name, value] of Object.entries(from ?? {})) to[name] = (to[name] ?? 0) + value;
}

export function nothing(): Tally {
  return { offered: 0, on_time: 0, late: 0, failed: 0, cancelled: 0, rejected: {} };
}

function addTally(to: Tally, from: Tally): void {
  to.offered += from.offered;
  to.on_time += from.on_time;
  to.late += from.late;
  to.failed += from.failed;
  to.cancelled += from.cancelled;
  addCounts(to.rejected, from.rejected);
}

export const sum = (counts: Counts): number => Object.values(counts).reduce((total, value) => total + value, 0);

// A second that the server could not close in time lasted longer.
export const lengthOf = (second: Second): number => (second.length_us ?? 1e6) / 1e6;

// Requests that ended, and those that ended badly by no wish of their client.
export const ended = (t: Tally): number => t.on_time + t.late + t.failed + sum(t.rejected);
export const lost = (t: Tally): number => t.late + t.failed + sum(t.rejected);

// Of one service (undefined: of all) over some seconds.
export function total(seconds: Second[], service?: string): Tally {
  const result = nothing();
  for (const second of seconds) {
    const part = service === undefined ? second.pool : second.services[service];
    if (part !== undefined) addTally(result, part);
  }
  return result;
}

export function countsOf(seconds: Second[], service: string, what: "answered_by" | "batches"): Counts {
  const result: Counts = {};
  for (const second of seconds) addCounts(result, second.services[service]?.[what]);
  return result;
}

// Weighed by what was answered in each second.
export function meanAccuracy(seconds: Second[], service?: string): number | null {
  let weight = 0, all = 0;
  for (const second of seconds) {
    const part = service === undefined ? second.pool : second.services[service];
    if (part?.accuracy === null || part?.accuracy === undefined) continue;
    const answered = part.on_time + part.late;
    weight += answered;
    all += answered * part.accuracy;
  }
  return weight > 0 ? all / weight : null;
}

export const largest = (values: (number | null | undefined)[]): number | null =>
  values.reduce<number | null>((most, v) => v === null || v === undefined ? most : Math.max(most ?? v, v), null);

// The largest of the seconds' percentiles: no second was worse.
export function worst(seconds: Second[], service: string, what: "p50_ms" | "p99_ms"): number | null {
  return largest(seconds.map(second => second.services[service]?.[what]));
}

// The middle one of the seconds' percentiles.
export function usual(seconds: Second[], service: string, what: "p50_ms" | "p99_ms"): number | null {
  const values = seconds.map(second => second.services[service]?.[what]).filter(v => v !== null && v !== undefined);
  return values.sort((a, b) => a - b)[values.length >> 1] ?? null;
}

function merge(seconds: Second[]): Second {
  const last = seconds.at(-1)!, mean = (of: (p: PoolSecond) => number): number =>
    seconds.reduce((all, second) => all + of(second.pool), 0) / seconds.length;
  const services: Record<string, ServiceSecond> = {};
  for (const name of new Set(seconds.flatMap(second => Object.keys(second.services)))) {
    services[name] = { ...total(seconds, name), answered_by: countsOf(seconds, name, "answered_by"),
                       batches: countsOf(seconds, name, "batches"), accuracy: meanAccuracy(seconds, name),
                       p50_ms: usual(seconds, name, "p50_ms"), p99_ms: worst(seconds, name, "p99_ms"),
                       waiting: last.services[name]?.waiting ?? 0, drift: largest(seconds.map(second => second.services[name]?.drift)) ?? 1 };
  }
  return { at_us: last.at_us, length_us: 1e6 * seconds.reduce((all, second) => all + lengthOf(second), 0), services,
           pool: { ...last.pool, ...total(seconds), accuracy: meanAccuracy(seconds), busy: mean(p => p.busy), idle: mean(p => p.idle),
                   control_delay_ms: largest(seconds.map(second => second.pool.control_delay_ms)) ?? 0 } };
}
