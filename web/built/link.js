const WINDOW = 1, REMEMBERED = 16, SHORTEST = 1e-5;
const TELLING = 6000;
const SLOWER = 0.5;
const UNSURE = 0.05, FIRST_SHARE = 0.8, STEP = 0.05, SOFT = 0.1;
const FORGET = 0.95, NEW = 0.1, BEARABLE = 0.95;
export class Link {
    transfers = [];
    told;
    ways = [];
    sureShare = Math.log(FIRST_SHARE);
    underWay = [];
    lastEnd = -Infinity;
    acknowledgedAfter = 0;
    answeredAfter = 0;
    get echoes() { return this.ways.length; }
    get roundTrip() { return this.ways.length > 0 ? Math.min(...this.ways) : 0; }
    get toldAt() { return this.told?.at ?? -Infinity; }
    get busy() { return this.underWay.length > 0; }
    echoed(way) {
        this.ways.push(Math.max(way, 0));
        if (this.ways.length > REMEMBERED)
            this.ways.shift();
    }
    sent(bytes, now) { this.underWay.push({ at: now, bytes }); }
    acknowledged(inServer, now) {
        const oldest = this.underWay[0];
        if (oldest === undefined)
            return;
        this.transferred(oldest.bytes, now - inServer - Math.max(oldest.at, this.lastEnd), now);
        this.lastEnd = Math.max(this.lastEnd, now - inServer - this.roundTrip);
        this.acknowledgedAfter = Math.max(inServer, this.acknowledgedAfter * FORGET);
        this.underWay.shift();
    }
    answered(inServer) { this.answeredAfter += NEW * (inServer - this.answeredAfter); }
    lost() { this.underWay = []; }
    mbps(now) {
        while (this.transfers.length > 1 && this.transfers[0].at + 2 * WINDOW < now)
            this.transfers.shift();
        const last = this.transfers.at(-1);
        return last && (this.mean(now - WINDOW, now) ?? this.mean(last.at, now));
    }
    sureMbps(now) {
        const mbps = this.mbps(now);
        return mbps === undefined ? undefined : mbps * Math.min(Math.exp(this.sureShare), 1);
    }
    choose(bytes, rate, slo, now) {
        const mean = this.mbps(now), lately = this.lately(now);
        let size = Math.max(bytes.length - 1, 0);
        const megabits = (i) => (bytes[i] ?? 0) * 8e-6;
        while (mean !== undefined && size > 0 && megabits(size) * rate > BEARABLE * mean)
            --size;
        if (lately === undefined)
            return this.busy ? undefined : size;
        const wait = this.wait(lately, now);
        if (wait > slo / 2)
            return undefined;
        const left = slo - this.roundTrip - this.answeredAfter - wait;
        while (size > 0 && megabits(size) > left * lately)
            --size;
        return size;
    }
    transferred(bytes, way, now) {
        const reached = Math.max(bytes * 8e-6 / Math.max(way - this.roundTrip, SHORTEST), 1e-9);
        const expected = this.mean(now - way - WINDOW, now - way);
        if (expected !== undefined) {
            const share = Math.log(Math.min(Math.max(reached / expected, 1e-3), 1));
            const surprise = Math.min(Math.max((share - this.sureShare) / SOFT, -1), 1);
            this.sureShare += STEP * surprise * (surprise > 0 ? UNSURE : 1 - UNSURE);
        }
        const transfer = { at: now, mbps: reached, tells: bytes >= TELLING };
        this.transfers.push(transfer);
        if (transfer.tells)
            this.told = transfer;
    }
    mean(since, until) {
        const seen = this.transfers.filter(t => since <= t.at && t.at <= until);
        if (seen.length === 0)
            return undefined;
        const mean = (some) => some.length / some.reduce((sum, t) => sum + 1 / t.mbps, 0);
        const telling = seen.filter(t => t.tells), small = seen.filter(t => !t.tells);
        const told = telling.length > 0 ? mean(telling) : this.told?.mbps ?? Infinity;
        const slow = small.length > 0 ? mean(small) : Infinity;
        return told === Infinity || slow < SLOWER * told ? slow : told;
    }
    lately(now) {
        const mean = this.mbps(now), last = this.transfers.at(-1), oldest = this.underWay[0];
        if (mean === undefined || last === undefined)
            return undefined;
        const mbps = Math.min(mean, last.mbps);
        if (oldest === undefined)
            return mbps;
        const on = now - Math.max(oldest.at, this.lastEnd) - this.roundTrip - this.acknowledgedAfter;
        const megabits = oldest.bytes * 8e-6;
        return on > megabits / mbps ? megabits / on : mbps;
    }
    wait(mbps, now) {
        const oldest = this.underWay[0];
        if (oldest === undefined)
            return 0;
        let free = Math.max(oldest.at, this.lastEnd);
        for (const { at, bytes } of this.underWay)
            free = Math.max(free, at) + bytes * 8e-6 / mbps;
        return Math.max(free - now, 0);
    }
}
