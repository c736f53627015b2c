const KEPT_US = 60e6, MOST = 20000, FINAL_RUNS = 200;
export class TimelineData {
    lanes = new Map();
    known = new Map();
    waiting = [];
    loads = [];
    deaths = [];
    newest_us = 0;
    add(event) {
        this.newest_us = event.now_us;
        this.waiting = event.waiting;
        for (const batch of event.batches)
            this.put(batch);
        for (const load of event.loads)
            this.putLoad(load);
        this.deaths.push(...event.deaths ?? []);
        this.forget(event.now_us - KEPT_US);
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
    forget(before_us) {
        const old = (end, start) => (end ?? start) < before_us;
        for (const lane of this.lanes.values()) {
            let gone = 0;
            while (gone < lane.length && (old(lane[gone].end_us, lane[gone].start_us) || lane.length - gone > MOST))
                ++gone;
            for (const batch of lane.splice(0, gone))
                this.known.delete(batch.id);
        }
        this.loads = this.loads.filter(load => load.end_us === null || load.end_us >= before_us);
        this.deaths = this.deaths.filter(death => death.at_us >= before_us);
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
        const result = this.waiting.filter(w => w.arrival_us <= at_us);
        for (const lane of this.lanes.values()) {
            for (let i = lane.length - 1; i >= 0 && lane[i].start_us > at_us; --i) {
                for (const seat of lane[i].requests) {
                    if (seat.arrival_us <= at_us)
                        result.push({ ...seat, model: lane[i].model });
                }
            }
        }
        return result;
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
        const runs = [...this.lanes.values()].flatMap(lane => lane.slice(-FINAL_RUNS)).filter(b => b.end_us !== null)
            .map(b => b.end_us - b.start_us).sort((a, b) => a - b);
        return runs.length < 3 ? undefined : batches * runs[runs.length >> 1];
    }
}
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
