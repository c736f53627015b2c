const KEPT_US = 60e6, MOST = 20000, FINAL_RUNS = 200, SOME = 12;
export class TimelineData {
    lanes = new Map();
    known = new Map();
    waiting = [];
    loads = [];
    deaths = [];
    newest_us = 0;
    get empty() { return this.known.size === 0; }
    get batches() { return this.known.size; }
    add(event, held_us) {
        this.newest_us = event.now_us;
        if (held_us === undefined || event.now_us <= held_us)
            this.waiting = event.waiting;
        for (const batch of event.batches)
            this.put(batch);
        for (const load of event.loads)
            this.putLoad(load);
        for (const death of event.deaths ?? [])
            this.putDeath(death);
        this.forget(event.now_us, held_us);
    }
    put(batch) {
        const before = this.known.get(batch.id);
        if (before !== undefined) {
            Object.assign(before, batch);
            return;
        }
        this.known.set(batch.id, batch);
        const lane = this.lanes.get(batch.worker) ?? [];
        this.lanes.set(batch.worker, lane);
        let at = lane.length;
        while (at > 0 && lane[at - 1].start_us > batch.start_us)
            --at;
        lane.splice(at, 0, batch);
    }
    putLoad(load) {
        const before = this.loads.find(l => l.worker === load.worker && l.start_us === load.start_us && l.model === load.model);
        if (before === undefined)
            this.loads.push(load);
        else
            before.end_us = load.end_us;
    }
    putDeath(death) {
        if (!this.deaths.some(d => d.worker === death.worker && d.at_us === death.at_us && d.model === death.model))
            this.deaths.push(death);
    }
    forget(now_us, held_us) {
        const kept = (start, end) => end >= now_us - KEPT_US || isHeld(start, end, held_us);
        for (const [worker, all] of this.lanes) {
            const lane = all.filter(batch => kept(firstArrival(batch), batch.end_us ?? batch.start_us));
            const free = lane.filter(batch => isHeld(firstArrival(batch), batch.end_us ?? batch.start_us, held_us)).length;
            lane.splice(free, Math.max(0, lane.length - free - MOST));
            const here = new Set(lane);
            for (const batch of all)
                if (!here.has(batch))
                    this.known.delete(batch.id);
            this.lanes.set(worker, lane);
        }
        this.loads = this.loads.filter(load => kept(load.start_us, load.end_us ?? now_us));
        this.deaths = this.deaths.filter(death => kept(death.at_us, death.at_us));
    }
    lane(worker) { return this.lanes.get(worker) ?? []; }
    within(worker, from_us, to_us) {
        const lane = this.lane(worker), first = firstFrom(lane, from_us);
        let last = first;
        while (last < lane.length && lane[last].start_us < to_us)
            ++last;
        return lane.slice(first, last);
    }
    waitingAt(at_us) {
        const result = [], later = new Set();
        for (const lane of this.lanes.values()) {
            for (let i = lane.length - 1; i >= 0 && lane[i].start_us > at_us; --i) {
                for (const seat of lane[i].requests) {
                    if (seat.arrival_us > at_us)
                        continue;
                    later.add(seat.id);
                    result.push({ ...seat, model: lane[i].model });
                }
            }
        }
        return [...this.waiting.filter(w => w.arrival_us <= at_us && !later.has(w.id)), ...result];
    }
    runs() {
        const result = new Map();
        for (const lane of this.lanes.values()) {
            for (const batch of lane.slice(-FINAL_RUNS)) {
                if (batch.end_us === null)
                    continue;
                const ms = (batch.end_us - batch.start_us) / 1000, before = result.get(batch.service) ?? { shortest: ms, longest: ms };
                result.set(batch.service, { shortest: Math.min(before.shortest, ms), longest: Math.max(before.longest, ms) });
            }
        }
        return result;
    }
    fittingSpan(batches) {
        const last = [...this.lanes.values()].flatMap(lane => lane.slice(-FINAL_RUNS)).filter(b => b.end_us !== null);
        if (last.length < 3)
            return undefined;
        const runs = last.map(b => b.end_us - b.start_us).sort((a, b) => a - b), starts = last.map(b => b.start_us).sort((a, b) => a - b);
        const gap = (starts.at(-1) - starts[0]) / (starts.length - 1);
        return Math.max(batches * runs[runs.length >> 1], SOME * gap);
    }
    budgets() {
        const result = new Map();
        for (const lane of this.lanes.values()) {
            for (const seat of lane.slice(-FINAL_RUNS).flatMap(batch => batch.requests)) {
                if (seat.deadline_us === null)
                    continue;
                const ms = (seat.deadline_us - seat.arrival_us) / 1000, before = result.get(seat.service) ?? { least: ms, most: ms };
                result.set(seat.service, { least: Math.min(before.least, ms), most: Math.max(before.most, ms) });
            }
        }
        return result;
    }
}
const isHeld = (from, end, held_us) => held_us !== undefined && from <= held_us && end >= held_us - KEPT_US;
function firstFrom(lane, at_us) {
    let low = 0, high = lane.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if ((lane[middle].end_us ?? Infinity) < at_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
export function firstDeadline(batch) {
    return batch.requests.reduce((least, { deadline_us: d }) => d === null ? least : Math.min(least ?? d, d), null);
}
export const firstArrival = (batch) => batch.requests.reduce((least, seat) => Math.min(least, seat.arrival_us), batch.start_us);
