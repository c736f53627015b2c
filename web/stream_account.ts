// What a stream's client has seen: of its last answers, and second by second.

import type { Answer } from "./session.js";

const REMEMBERED = 100, MOST_SECONDS = 120;

export interface StreamSecond {
  at: number; // seconds since the start
  p50: number | null; p99: number | null; // ms, of the answers of this second
  size: number | null; asked: number | null; // pixels
  mbps: number | null;
  dropped: number; missed: number; // frames
}

const percentile = (sorted: number[], p: number): number | null => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] ?? null;

export class Account {
  answered = 0;
  sent = 0;
  size: number | undefined;
  readonly seconds: StreamSecond[] = [];
  private latencies: number[] = [];
  private lately: boolean[] = [];
  private fresh: number[] = [];
  private missed = 0;
  private droppedBefore = 0;

  add(onTime: boolean, answer?: Answer): void {
    ++this.answered;
    if (!onTime) ++this.missed;
    this.lately = [...this.lately, onTime].slice(-REMEMBERED);
    if (answer === undefined || answer.error !== undefined) return;
    this.latencies = [...this.latencies, answer.latency].slice(-REMEMBERED);
    this.fresh.push(answer.latency * 1000);
    this.size = answer.size;
  }

  close(at: number, dropped: number, asked: number | undefined, mbps: number | undefined): void {
    const sorted = this.fresh.sort((a, b) => a - b);
    this.seconds.push({ at, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), size: sorted.length > 0 ? this.size ?? null : null,
                        asked: asked ?? null, mbps: mbps ?? null, dropped: dropped - this.droppedBefore, missed: this.missed });
    if (this.seconds.length > MOST_SECONDS) this.seconds.shift();
    this.fresh = [];
    this.missed = 0;
    this.droppedBefore = dropped;
  }

  get median(): number | undefined { return [...this.latencies].sort((a, b) => a - b)[this.latencies.length >> 1]; }
  get missRate(): number { return this.lately.filter(onTime => !onTime).length / Math.max(this.lately.length, 1); }
}
