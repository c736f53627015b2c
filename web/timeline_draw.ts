// The picture of the timeline: a lane for each worker, below them the requests that wait.

import { css, hueOf, wholeOf } from "./colours.js";
import type { Batch, Death, Worker } from "./contract.js";
import { shortCause } from "./deaths.js";
import { count, roundStep } from "./format.js";
import { firstArrival, firstDeadline } from "./timeline_data.js";
import type { TimelineData, Waiter } from "./timeline_data.js";

export const LEFT = 124, TOP = 20, LANE = 46, WAITING = 96, FOOT = 6, BAR = 22, PAST = 0.8; // of the width is past
const ROW = 12, MOST_ROWS = 7, LEAST_NAME = 90, LEAST_SIZE = 14;

export interface Window { from_us: number; span_us: number; now_us: number; width: number }
export interface Picture { data: TimelineData; workers: Worker[]; window: Window; chosen: number | undefined; only: string | undefined }

export const heightFor = (workers: number): number => TOP + Math.max(workers, 1) * LANE + WAITING + FOOT;
export const xOf = (w: Window, us: number): number => LEFT + (us - w.from_us) / w.span_us * (w.width - LEFT);
export const usAt = (w: Window, x: number): number => w.from_us + (x - LEFT) / (w.width - LEFT) * w.span_us;
export const laneAt = (y: number): number => Math.floor((y - TOP) / LANE);

export function draw(to: CanvasRenderingContext2D, picture: Picture): void {
  const { window, workers } = picture, height = heightFor(workers.length);
  to.clearRect(0, 0, window.width, height);
  to.font = "11px system-ui, sans-serif";
  to.textBaseline = "middle";
  axis(to, window, height);
  clipped(to, window, height, () => workers.forEach((worker, i) => lane(to, picture, worker, TOP + i * LANE)));
  workers.forEach((worker, i) => label(to, worker.name, TOP + i * LANE + 27));
  waiting(to, picture, TOP + Math.max(workers.length, 1) * LANE);
  nowLine(to, window, height);
}

function clipped(to: CanvasRenderingContext2D, w: Window, height: number, paint: () => void): void {
  to.save();
  to.beginPath();
  to.rect(LEFT, 0, w.width - LEFT, height);
  to.clip();
  paint();
  to.restore();
}

function label(to: CanvasRenderingContext2D, text: string, y: number): void {
  to.fillStyle = css("--ink");
  to.textAlign = "left";
  to.fillText(text, 2, y, LEFT - 8);
}

function axis(to: CanvasRenderingContext2D, w: Window, height: number): void {
  const every = roundStep(w.span_us / 12);
  const text = (us: number): string => us === 0 ? "now" : every >= 1e6 ? `${(us / 1e6).toFixed(0)} s` : `${(us / 1e3).toFixed(every < 1000 ? 1 : 0)} ms`;
  to.textAlign = "center";
  for (let at = Math.ceil((w.from_us - w.now_us) / every) * every; at + w.now_us < w.from_us + w.span_us; at += every) {
    const x = xOf(w, at + w.now_us);
    to.fillStyle = css("--grid");
    to.fillRect(x, TOP - 4, 1, height);
    to.fillStyle = css(at === 0 ? "--ink" : "--mute");
    if (x > LEFT + 14) to.fillText(at > 0 ? `+${text(at)}` : text(at), x, 8);
  }
}

function nowLine(to: CanvasRenderingContext2D, w: Window, height: number): void {
  const x = xOf(w, w.now_us);
  to.fillStyle = css("--ink");
  if (x > LEFT) to.fillRect(x, TOP - 4, 1.5, height);
}

function lane(to: CanvasRenderingContext2D, picture: Picture, worker: Worker, y: number): void {
  const { data, window: w } = picture;
  to.fillStyle = css("--grid");
  to.fillRect(LEFT, y + LANE - 2, w.width - LEFT, 1);
  for (const load of data.loads) if (load.worker === worker.id) loading(to, w, load.model, load.start_us, load.end_us, y);
  for (const batch of data.within(worker.id, w.from_us, w.now_us)) bar(to, picture, batch, y);
  for (const death of data.deaths) if (death.worker === worker.id) died(to, xOf(w, death.at_us), y, death);
}

function loading(to: CanvasRenderingContext2D, w: Window, model: string, start: number, end: number | null, y: number): void {
  const x = xOf(w, start), width = Math.max(2, xOf(w, Math.min(end ?? w.now_us, w.now_us)) - x);
  to.strokeStyle = css("--mute");
  to.setLineDash([3, 3]);
  to.strokeRect(x + 0.5, y + 16.5, width, BAR - 3);
  to.setLineDash([]);
  to.fillStyle = css("--mute");
  to.textAlign = "left";
  if (width > LEAST_NAME) to.fillText(`loads ${model}`, x + 5, y + 27, width - 8);
}

function died(to: CanvasRenderingContext2D, x: number, y: number, { model, signal }: Death): void {
  to.fillStyle = css("--bad");
  to.fillRect(x - 1, y + 2, 2, LANE - 6);
  to.textAlign = "left";
  to.fillText(`✕ ${model} died (${shortCause(signal)})`, x + 5, y + LANE - 5);
}

function bar(to: CanvasRenderingContext2D, { window: w, chosen, only }: Picture, batch: Batch, y: number): void {
  const x = xOf(w, batch.start_us), end = Math.min(batch.end_us ?? w.now_us, w.now_us), right = Math.max(x + 2, xOf(w, end) - 1);
  to.globalAlpha = only !== undefined && only !== wholeOf(batch.service) ? 0.35 : 1;
  const colour = css(hueOf(batch.service));
  held(to, w, batch, y, colour);
  to.fillStyle = colour;
  to.beginPath();
  to.roundRect(x, y + 15, right - x, BAR, 3);
  to.fill();
  if (batch.end_us === null || batch.end_us > w.now_us) expected(to, w, batch, right, y, colour);
  const seen = Math.max(x, LEFT);
  inside(to, batch, seen, right - seen, y);
  if (batch.id === chosen) {
    to.strokeStyle = css("--ink");
    to.lineWidth = 2;
    to.strokeRect(x - 1, y + 14, right - x + 2, BAR + 2);
    to.lineWidth = 1;
  }
  to.globalAlpha = 1;
}

// It runs still: until when it should.
function expected(to: CanvasRenderingContext2D, w: Window, batch: Batch, from: number, y: number, colour: string): void {
  const until = xOf(w, batch.expected_end_us);
  if (until <= from) return;
  to.strokeStyle = colour;
  to.setLineDash([2, 2]);
  to.strokeRect(from, y + 15.5, until - from, BAR - 1);
  to.setLineDash([]);
}

function inside(to: CanvasRenderingContext2D, batch: Batch, x: number, width: number, y: number): void {
  const text = width > LEAST_NAME ? `${batch.service} × ${batch.items}` : width > LEAST_SIZE ? `${batch.items}` : "";
  if (text === "") return;
  to.fillStyle = inkOn(css(hueOf(batch.service)));
  to.textAlign = "center";
  to.font = "600 11px system-ui, sans-serif";
  to.fillText(text, x + width / 2, y + 15 + BAR / 2 + 0.5, width - 4);
  to.font = "11px system-ui, sans-serif";
}

// Black or white, whichever is easier to read on the colour.
export function inkOn(colour: string): string {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
  return 0.299 * r! + 0.587 * g! + 0.114 * b! > 140 ? "#111" : "#fff";
}

// Its requests when they came, the line along which it was held, and its first deadline.
function held(to: CanvasRenderingContext2D, w: Window, batch: Batch, y: number, colour: string): void {
  to.fillStyle = to.strokeStyle = colour;
  const first = xOf(w, firstArrival(batch)), start = xOf(w, batch.start_us);
  if (start - first > 1) {
    to.fillRect(first, y + 8, start - first, 1);
    to.fillRect(start - 1, y + 8, 1, 7);
  }
  for (const seat of batch.requests) to.fillRect(xOf(w, seat.arrival_us), y + 4, 1.3, 9);
  const due = firstDeadline(batch);
  if (due !== null) deadline(to, xOf(w, due), y + 15, due < (batch.end_us ?? batch.expected_end_us) ? css("--bad") : colour);
}

function deadline(to: CanvasRenderingContext2D, x: number, y: number, colour: string): void {
  to.fillStyle = colour;
  to.beginPath();
  to.moveTo(x - 4, y - 6);
  to.lineTo(x + 4, y - 6);
  to.lineTo(x, y);
  to.fill();
}

// A row for each service: a request is a tick where it came, a line until now, and a fainter one to its deadline.
function waiting(to: CanvasRenderingContext2D, { data, window: w, only }: Picture, y: number): void {
  const rows = new Map<string, Waiter[]>();
  for (const waiter of data.waitingAt(w.now_us)) rows.set(waiter.service, [...rows.get(waiter.service) ?? [], waiter]);
  let at = y + 10;
  for (const service of [...rows.keys()].sort().slice(0, MOST_ROWS)) {
    to.globalAlpha = only !== undefined && only !== wholeOf(service) ? 0.35 : 1;
    clipped(to, w, at + ROW, () => rows.get(service)!.forEach(waiter => wait(to, w, waiter, at)));
    label(to, `${service}: ${count(rows.get(service)!.length)} wait`, at);
    to.globalAlpha = 1;
    at += ROW;
  }
  if (rows.size === 0) label(to, "no request waits", at);
}

function wait(to: CanvasRenderingContext2D, w: Window, waiter: Waiter, y: number): void {
  const colour = css(hueOf(waiter.service)), from = xOf(w, waiter.arrival_us), now = xOf(w, w.now_us);
  to.fillStyle = colour;
  to.fillRect(from, y - 4, 1.5, 8);
  to.fillRect(from, y - 0.5, now - from, 1.2);
  if (waiter.deadline_us === null) return;
  const due = xOf(w, waiter.deadline_us);
  to.globalAlpha *= 0.35;
  to.fillRect(now, y - 0.5, due - now, 1.2);
  to.globalAlpha /= 0.35;
  deadline(to, due, y + 3, waiter.deadline_us < w.now_us ? css("--bad") : colour);
}
