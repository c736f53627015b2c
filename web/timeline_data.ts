// What the workers ran in the last minute, as the server told it, and what waited at any moment of it.

import type { Batch, Death, Load, Seat, TimelineEvent, Waiting } from "./contract.js";

const KEPT_US = 60e6, MOST = 20000, FINAL_RUNS = 200, SOME = 12;

export type Runs = Map<string, { shortest: number; longest: number }>;
export type Budgets = Map<string, { least: number; most: number }>;
export interface Waiter { id: number | string; service: string; model: string; arrival_us: number; deadline_us: number | null }

export class TimelineData {
  private readonly lanes = new Map<number, Batch[]>(); // by worker, in the order of their starts
  private readonly known = new Map<number, Batch>();
  private waiting: Waiting[] = [];
  loads: Load[] = [];
  deaths: Death[] = [];
  newest_us = 0;

  get empty(): boolean { return this.known.size === 0; }
  get batches(): number { return this.known.size; }

  // What a person holds, the minute before `held_us`, stays as it was.
  add(event: TimelineEvent, held_us?: number): void {
    this.newest_us = event.now_us;
    if (held_us === undefined || event.now_us <= held_us) this.waiting = event.waiting;
    for (const batch of event.batches) this.put(batch);
    for (const load of event.loads) this.putLoad(load);
    for (const death of event.deaths ?? []) this.putDeath(death);
    this.forget(event.now_us, held_us);
  }

  // A batch comes when it is bound, and again when it has ended.
  private put(batch: Batch): void {
    const before = this.known.get(batch.id);
    if (before !== undefined) {
      Object.assign(before, batch);
      return;
    }
    this.known.set(batch.id, batch);
    const lane = this.lanes.get(batch.worker) ?? [];
    this.lanes.set(batch.worker, lane);
    let at = lane.length;
    while (at > 0 && lane[at - 1]!.start_us > batch.start_us) --at;
    lane.splice(at, 0, batch);
  }

  private putLoad(load: Load): void {
    const before = this.loads.find(l => l.worker === load.worker && l.start_us === load.start_us && l.model === load.model);
    if (before === undefined) this.loads.push(load);
    else before.end_us = load.end_us;
  }

  // Those that a new connection tells again are known.
  private putDeath(death: Death): void {
    if (!this.deaths.some(d => d.worker === death.worker && d.at_us === death.at_us && d.model === death.model)) this.deaths.push(death);
  }

  private forget(now_us: number, held_us: number | undefined): void {
    const kept = (start: number, end: number): boolean => end >= now_us - KEPT_US || isHeld(start, end, held_us);
    for (const [worker, all] of this.lanes) {
      const lane = all.filter(batch => kept(firstArrival(batch), batch.end_us ?? batch.start_us));
      const free = lane.filter(batch => isHeld(firstArrival(batch), batch.end_us ?? batch.start_us, held_us)).length;
      lane.splice(free, Math.max(0, lane.length - free - MOST));
      const here = new Set(lane);
      for (const batch of all) if (!here.has(batch)) this.known.delete(batch.id);
      this.lanes.set(worker, lane);
    }
    this.loads = this.loads.filter(load => kept(load.start_us, load.end_us ?? now_us));
    this.deaths = this.deaths.filter(death => kept(death.at_us, death.at_us));
  }

  lane(worker: number): Batch[] { return this.lanes.get(worker) ?? []; }

  // Of a worker, those that ran in [from, to); the requests of those after it may have come in it.
  within(worker: number, from_us: number, to_us: number): Batch[] {
    const lane = this.lane(worker), first = firstFrom(lane, from_us);
    let last = first;
    while (last < lane.length && lane[last]!.start_us < to_us) ++last;
    return lane.slice(first, last);
  }

  // Requests without a batch at that moment: those that still wait, and those whose batch started later.
  waitingAt(at_us: number): Waiter[] {
    const result: Waiter[] = [], later = new Set<number | string>();
    for (const lane of this.lanes.values()) {
      for (let i = lane.length - 1; i >= 0 && lane[i]!.start_us > at_us; --i) {
        for (const seat of lane[i]!.requests) {
          if (seat.arrival_us > at_us) continue;
          later.add(seat.id);
          result.push({ ...seat, model: lane[i]!.model });
        }
      }
    }
    return [...this.waiting.filter(w => w.arrival_us <= at_us && !later.has(w.id)), ...result];
  }

  // How long the last batches of each service ran, in ms.
  runs(): Runs {
    const result: Runs = new Map();
    for (const lane of this.lanes.values()) {
      for (const batch of lane.slice(-FINAL_RUNS)) {
        if (batch.end_us === null) continue;
        const ms = (batch.end_us - batch.start_us) / 1000, before = result.get(batch.service) ?? { shortest: ms, longest: ms };
        result.set(batch.service, { shortest: Math.min(before.shortest, ms), longest: Math.max(before.longest, ms) });
      }
    }
    return result;
  }

  // A span in which about `batches` of a worker find room, and where few run, some of them; undefined: nothing has ended yet.
  fittingSpan(batches: number): number | undefined {
    const last = [...this.lanes.values()].flatMap(lane => lane.slice(-FINAL_RUNS)).filter(b => b.end_us !== null);
    if (last.length < 3) return undefined;
    const runs = last.map(b => b.end_us! - b.start_us).sort((a, b) => a - b), starts = last.map(b => b.start_us).sort((a, b) => a - b);
    const gap = (starts.at(-1)! - starts[0]!) / (starts.length - 1);
    return Math.max(batches * runs[runs.length >> 1]!, SOME * gap);
  }

  // How long the requests of each service had, in ms: their own deadlines, where they brought any.
  budgets(): Budgets {
    const result: Budgets = new Map();
    for (const lane of this.lanes.values()) {
      for (const seat of lane.slice(-FINAL_RUNS).flatMap(batch => batch.requests)) {
        if (seat.deadline_us === null) continue;
        const ms = (seat.deadline_us - seat.arrival_us) / 1000, before = result.get(seat.service) ?? { least: ms, most: ms };
        result.set(seat.service, { least: Math.min(before.least, ms), most: Math.max(before.most, ms) });
      }
    }
    return result;
  }
}

const isHeld = (from: number, end: number, held_us: number | undefined): boolean =>
  held_us !== undefined && from <= held_us && end >= held_us - KEPT_US;

// The first batch of a lane that ends after `at`; a lane's batches do not overlap.
function firstFrom(lane: Batch[], at_us: number): number {
  let low = 0, high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lane[middle]!.end_us ?? Infinity) < at_us) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function firstDeadline(batch: Batch): number | null {
  return batch.requests.reduce<number | null>((least, { deadline_us: d }) => d === null ? least : Math.min(least ?? d, d), null);
}
export const firstArrival = (batch: Batch): number => batch.requests.reduce((least: number, seat: Seat) => Math.min(least, seat.arrival_us), batch.start_us);
