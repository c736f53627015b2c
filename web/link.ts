// What a client knows of its way to the server, and what it may send so that it is answered in
// time (docs/streams.md). Seconds, bytes, Mbit/s; no clock of its own.

const WINDOW = 1, REMEMBERED = 16, SHORTEST = 1e-5;
const TELLING = 6000; // bytes from which on a transfer tells how fast the link is
const SLOWER = 0.5; // than what told: then the link is, whatever small ones are
const UNSURE = 0.05, FIRST_SHARE = 0.8, STEP = 0.05, SOFT = 0.1; // of the sure bandwidth
const FORGET = 0.95, NEW = 0.1, BEARABLE = 0.95;

interface Transfer { at: number; mbps: number; tells: boolean }
interface Sent { at: number; bytes: number }

// Frames are acknowledged in the order in which they were sent. Small transfers tell too much: what
// shapes a link lets a few packets pass at once. So what the last larger one told counts, until the
// small ones are half as fast.
export class Link {
  private transfers: Transfer[] = []; // of two windows
  private told: Transfer | undefined; // the last that tells
  private ways: number[] = [];
  private sureShare = Math.log(FIRST_SHARE);
  private underWay: Sent[] = [];
  private lastEnd = -Infinity; // when the last acknowledged frame had left
  private acknowledgedAfter = 0; // the longest of late
  private answeredAfter = 0; // the mean

  get echoes(): number { return this.ways.length; }
  get roundTrip(): number { return this.ways.length > 0 ? Math.min(...this.ways) : 0; }
  get toldAt(): number { return this.told?.at ?? -Infinity; }
  get busy(): boolean { return this.underWay.length > 0; }

  echoed(way: number): void {
    this.ways.push(Math.max(way, 0));
    if (this.ways.length > REMEMBERED) this.ways.shift();
  }

  sent(bytes: number, now: number): void { this.underWay.push({ at: now, bytes }); }

  // The oldest frame under way, which the server had had for so long by then.
  acknowledged(inServer: number, now: number): void {
    const oldest = this.underWay[0];
    if (oldest === undefined) return;
    this.transferred(oldest.bytes, now - inServer - Math.max(oldest.at, this.lastEnd), now);
    this.lastEnd = Math.max(this.lastEnd, now - inServer - this.roundTrip);
    this.acknowledgedAfter = Math.max(inServer, this.acknowledgedAfter * FORGET);
    this.underWay.shift();
  }

  answered(inServer: number): void { this.answeredAfter += NEW * (inServer - this.answeredAfter); }

  lost(): void { this.underWay = []; }

  // The harmonic mean of the last second's transfers.
  mbps(now: number): number | undefined {
    while (this.transfers.length > 1 && this.transfers[0]!.at + 2 * WINDOW < now) this.transfers.shift();
    const last = this.transfers.at(-1);
    return last && (this.mean(now - WINDOW, now) ?? this.mean(last.at, now));
  }

  // What 19 of 20 transfers reach, by how far the earlier ones stayed behind the mean.
  sureMbps(now: number): number | undefined {
    const mbps = this.mbps(now);
    return mbps === undefined ? undefined : mbps * Math.min(Math.exp(this.sureShare), 1);
  }

  // The index in `bytes` (ascending) of what to send now: the largest whose rate the link bears and
  // that would be answered within `slo`; 0 if none would; undefined: it would only wait.
  choose(bytes: number[], rate: number, slo: number, now: number): number | undefined {
    const mean = this.mbps(now), lately = this.lately(now);
    let size = Math.max(bytes.length - 1, 0);
    const megabits = (i: number): number => (bytes[i] ?? 0) * 8e-6;
    while (mean !== undefined && size > 0 && megabits(size) * rate > BEARABLE * mean) --size;
    if (lately === undefined) return this.busy ? undefined : size;
    const wait = this.wait(lately, now);
    if (wait > slo / 2) return undefined;
    const left = slo - this.roundTrip - this.answeredAfter - wait;
    while (size > 0 && megabits(size) > left * lately) --size;
    return size;
  }

  private transferred(bytes: number, way: number, now: number): void {
    const reached = Math.max(bytes * 8e-6 / Math.max(way - this.roundTrip, SHORTEST), 1e-9);
    const expected = this.mean(now - way - WINDOW, now - way);
    if (expected !== undefined) {
      const share = Math.log(Math.min(Math.max(reached / expected, 1e-3), 1));
      const surprise = Math.min(Math.max((share - this.sureShare) / SOFT, -1), 1);
      this.sureShare += STEP * surprise * (surprise > 0 ? UNSURE : 1 - UNSURE);
    }
    const transfer = { at: now, mbps: reached, tells: bytes >= TELLING };
    this.transfers.push(transfer);
    if (transfer.tells) this.told = transfer;
  }

  private mean(since: number, until: number): number | undefined {
    const seen = this.transfers.filter(t => since <= t.at && t.at <= until);
    if (seen.length === 0) return undefined;
    const mean = (some: Transfer[]): number => some.length / some.reduce((sum, t) => sum + 1 / t.mbps, 0);
    const telling = seen.filter(t => t.tells), small = seen.filter(t => !t.tells);
    const told = telling.length > 0 ? mean(telling) : this.told?.mbps ?? Infinity;
    const slow = small.length > 0 ? mean(small) : Infinity;
    return told === Infinity || slow < SLOWER * told ? slow : told;
  }

  // A frame that should have been acknowledged by now tells that the link has become slower.
  private lately(now: number): number | undefined {
    const mean = this.mbps(now), last = this.transfers.at(-1), oldest = this.underWay[0];
    if (mean === undefined || last === undefined) return undefined;
    const mbps = Math.min(mean, last.mbps);
    if (oldest === undefined) return mbps;
    const on = now - Math.max(oldest.at, this.lastEnd) - this.roundTrip - this.acknowledgedAfter;
    const megabits = oldest.bytes * 8e-6;
    return on > megabits / mbps ? megabits / on : mbps;
  }

  private wait(mbps: number, now: number): number {
    const oldest = this.underWay[0];
    if (oldest === undefined) return 0;
    let free = Math.max(oldest.at, this.lastEnd);
    for (const { at, bytes } of this.underWay) free = Math.max(free, at) + bytes * 8e-6 / mbps;
    return Math.max(free - now, 0);
  }
}
