const FINE = 300, COARSE = 360, STEP_S = 10;
export class History {
    fine = [];
    coarse = [];
    open = [];
    begin(hello) {
        this.fine = hello.history.seconds.slice(-FINE).map(called);
        this.coarse = (hello.history.coarse?.seconds ?? []).slice(-COARSE).map(called);
        const last = this.coarse.at(-1)?.at_us ?? -Infinity;
        this.open = [];
        for (const second of this.fine)
            if (second.at_us > last)
                this.gather(second);
    }
    add(second) {
        this.fine.push(called(second));
        if (this.fine.length > FINE)
            this.fine.shift();
        this.gather(this.fine.at(-1));
    }
    gather(second) {
        this.open.push(second);
        if (this.open.length < STEP_S)
            return;
        this.coarse.push(merge(this.open));
        if (this.coarse.length > COARSE)
            this.coarse.shift();
        this.open = [];
    }
    get last() { return this.fine.at(-1); }
    slice(minutes, until = Infinity) {
        const fine = minutes <= FINE / 60;
        const all = fine ? this.fine : this.open.length > 0 ? [...this.coarse, merge(this.open)] : this.coarse;
        const before = all.filter(second => second.at_us <= until);
        const end_us = before.at(-1)?.at_us ?? 0;
        const seconds = before.filter(second => second.at_us > end_us - minutes * 60e6);
        const known = Math.ceil((end_us - (seconds[0]?.at_us ?? end_us)) / 60e6);
        return { end_us, minutes: Math.min(minutes, Math.max(known, 1)), seconds };
    }
}
function called(second) {
    const services = {};
    for (const [name, part] of Object.entries(second.services)) {
        if (part.stage === true)
            continue;
        const answered = part.on_time + part.late > 0;
        services[name] = answered ? part : { ...part, p50_ms: null, p99_ms: null };
    }
    return { ...second, services };
}
export function addCounts(to, from) {
    for (const [name, value] of Object.entries(from ?? {}))
        to[name] = (to[name] ?? 0) + value;
}
export function nothing() {
    return { offered: 0, on_time: 0, late: 0, failed: 0, cancelled: 0, rejected: {} };
}
function addTally(to, from) {
    to.offered += from.offered;
    to.on_time += from.on_time;
    to.late += from.late;
    to.failed += from.failed;
    to.cancelled += from.cancelled;
    addCounts(to.rejected, from.rejected);
}
export const sum = (counts) => Object.values(counts).reduce((total, value) => total + value, 0);
export const lengthOf = (second) => (second.length_us ?? 1e6) / 1e6;
export const ended = (t) => t.on_time + t.late + t.failed + sum(t.rejected);
export const lost = (t) => t.late + t.failed + sum(t.rejected);
export function total(seconds, service) {
    const result = nothing();
    for (const second of seconds) {
        const part = service === undefined ? second.pool : second.services[service];
        if (part !== undefined)
            addTally(result, part);
    }
    return result;
}
export function countsOf(seconds, service, what) {
    const result = {};
    for (const second of seconds)
        addCounts(result, second.services[service]?.[what]);
    return result;
}
export function meanAccuracy(seconds, service) {
    let weight = 0, all = 0;
    for (const second of seconds) {
        const part = service === undefined ? second.pool : second.services[service];
        if (part?.accuracy === null || part?.accuracy === undefined)
            continue;
        const answered = part.on_time + part.late;
        weight += answered;
        all += answered * part.accuracy;
    }
    return weight > 0 ? all / weight : null;
}
export const largest = (values) => values.reduce((most, v) => v === null || v === undefined ? most : Math.max(most ?? v, v), null);
export function worst(seconds, service, what) {
    return largest(seconds.map(second => second.services[service]?.[what]));
}
export function usual(seconds, service, what) {
    const values = seconds.map(second => second.services[service]?.[what]).filter(v => v !== null && v !== undefined);
    return values.sort((a, b) => a - b)[values.length >> 1] ?? null;
}
function merge(seconds) {
    const last = seconds.at(-1), mean = (of) => seconds.reduce((all, second) => all + of(second.pool), 0) / seconds.length;
    const services = {};
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
