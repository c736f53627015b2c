// The timeline under a person's hands: live, held, moved, zoomed, slowed, and asked about a batch.

import { classOf, onTheme } from "./colours.js";
import type { Batch, Death, TimelineEvent } from "./contract.js";
import { shortCause } from "./deaths.js";
import { find, say, element } from "./page.js";
import type { State } from "./state.js";
import { describe, describeDeath } from "./timeline_tip.js";
import { TimelineData } from "./timeline_data.js";
import { draw, heightFor, LANE, laneAt, LEFT, PAST, TOP, usAt, xOf } from "./timeline_draw.js";
import type { Window } from "./timeline_draw.js";

const DELAY_US = 400e3; // events come four times a second; what is shown is complete
const SPANS = { least: 2e3, most: 60e6, first: 1e6 }, SPEEDS = [1, 10, 100], FITS = 26, TIP = 350, NEAR = 6, MOST_DEATHS = 5;
const FITTED = { least: 100e3, most: 10e6 }, AFRESH = 4; // the load is so many times what it was
const CALM = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Timeline {
  readonly data = new TimelineData();
  private readonly canvas = find<HTMLCanvasElement>("timeline-canvas");
  private readonly tip = find("tip");
  private span_us = SPANS.first;
  private fitted = false;
  private zoomed = false; // by a person
  private end_us: number | undefined; // where the picture's now is, unless it is live
  private slowed = 0; // index of SPEEDS
  private drawnMs = 0;
  private paintedMs = 0;
  private chosen: Batch | undefined;
  private chosenLane = 0;
  private hovered = false;

  constructor(private readonly state: State, private readonly open: (id: number | string) => void) {
    this.canvas.onpointermove = event => this.hover(event.offsetX, event.offsetY);
    this.canvas.onpointerleave = () => { this.hovered = false; if (!this.focused) this.forget(); };
    this.canvas.onclick = () => this.openChosen();
    this.canvas.onblur = () => this.forget();
    this.canvas.onwheel = event => this.wheel(event);
    find("slower").onclick = () => this.slower();
    find("zoom-in").onclick = () => this.zoom(0.5);
    find("zoom-out").onclick = () => this.zoom(2);
    onTheme(() => this.paint());
    const frame = (): void => { this.step(); requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
  }

  add(event: TimelineEvent): void {
    this.data.add(event, this.state.heldAt);
    this.canvas.dataset["batches"] = `${this.data.batches}`;
    this.canvas.dataset["deaths"] = `${this.data.deaths.length}`;
    const fits = this.zoomed || this.state.heldAt !== undefined ? undefined : this.fitting();
    if (fits === undefined || (this.fitted && fits < AFRESH * this.span_us && fits > this.span_us / AFRESH)) return;
    this.fitted = true;
    this.span_us = fits;
  }

  private fitting(): number | undefined {
    const span = this.data.fittingSpan(FITS);
    return span === undefined ? undefined : clamp(span, FITTED.least, FITTED.most);
  }

  slower(): void {
    this.slowed = (this.slowed + 1) % SPEEDS.length;
    this.end_us = this.slowed === 0 && this.state.heldAt === undefined ? undefined : this.now;
    say("speed", `1/${SPEEDS[this.slowed]}`);
  }

  zoom(factor: number): void {
    this.span_us = clamp(this.span_us * factor, SPANS.least, SPANS.most);
    this.zoomed = true;
    this.paint();
  }
  fit(): void {
    this.zoomed = false;
    this.span_us = this.fitting() ?? SPANS.first;
    this.paint();
  }

  // By a share of what is seen; the picture is still from then on, until the page goes on.
  move(share: number): void {
    this.end_us = Math.min(this.now + share * this.span_us, this.live);
    this.paint();
  }

  goTo(at_us: number): void {
    this.end_us = Math.min(at_us + 0.4 * this.span_us, this.live);
    this.paint();
  }

  // The picture stands as it is; a person may go on from there to the moment when the page was held.
  stay(): void { this.end_us ??= this.live; }

  release(): void {
    this.end_us = this.slowed === 0 ? undefined : this.live;
    this.forget();
  }

  // The batch before or after the chosen one, on its worker; on one that ran any, where it ran none.
  next(by: number): void {
    this.canvas.focus();
    if (this.started(this.chosenLane).length === 0) {
      this.chosenLane = Math.max(0, this.state.workers.findIndex((_, i) => this.started(i).length > 0));
    }
    const lane = this.started(this.chosenLane);
    let at = this.chosen === undefined ? -1 : lane.findIndex(batch => batch.id === this.chosen!.id);
    if (at < 0) at = lane.filter(batch => batch.start_us < this.now).length - (by > 0 ? 1 : 0);
    this.choose(lane[clamp(at + by, 0, lane.length - 1)]);
  }

  lane(by: number): void {
    this.chosenLane = clamp(this.chosenLane + by, 0, this.state.workers.length - 1);
    const at = this.chosen?.start_us ?? this.now, lane = this.started(this.chosenLane);
    this.choose(lane.filter(batch => batch.start_us <= at).at(-1) ?? lane[0]);
  }

  // What a lane may show.
  private started(lane: number): Batch[] {
    const worker = this.state.workers[lane];
    return worker === undefined ? [] : this.data.lane(worker.id).filter(batch => batch.start_us <= this.live);
  }

  get focused(): boolean { return document.activeElement === this.canvas; }
  openChosen(): void {
    const first = this.chosen?.requests[0];
    if (first !== undefined) this.open(first.id);
  }

  // Where the server tells nothing for a while, the picture ends with what it told last.
  private get live(): number { return Math.min(this.state.heldAt ?? this.state.nowUs - DELAY_US, this.data.newest_us || Infinity); }
  private get now(): number { return this.end_us ?? this.live; }

  private get window(): Window {
    return { from_us: this.now - PAST * this.span_us, span_us: this.span_us, now_us: this.now, width: this.canvas.clientWidth };
  }

  private step(): void {
    const ms = performance.now(), passed = Math.min(ms - this.drawnMs, 100) * 1000;
    this.drawnMs = ms;
    const still = this.state.heldAt !== undefined || this.hovered || this.chosen !== undefined;
    if (this.slowed > 0 && !still) {
      const speed = SPEEDS[this.slowed]!;
      this.end_us = Math.min((this.end_us ?? this.live) + passed / speed, this.live);
      if (this.live - this.end_us > 50e6) this.end_us = this.live; // older than what is kept
    }
    if (still && this.end_us === undefined) this.end_us = this.live;
    else if (!still && this.slowed === 0) this.end_us = undefined;
    const what = this.state.hello?.recorder === null ? "the recorder is off" : this.data.empty ? "no batch in the last minute" : this.state.heldAt !== undefined ? "held" : still ? "still while you look" : this.slowed > 0 ? "slow motion" : "live";
    say("timeline-state", what);
    if (CALM.matches && !still && ms - this.paintedMs < 1000) return; // a picture a second, for those who want little motion
    this.paintedMs = ms;
    this.paint();
  }

  private paint(): void {
    const { canvas } = this, scale = window.devicePixelRatio || 1, height = heightFor(this.state.workers.length);
    if (canvas.clientWidth === 0) return; // hidden on a phone
    const wide = Math.round(canvas.clientWidth * scale), high = Math.round(height * scale);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.height = `${height}px`;
    }
    const to = canvas.getContext("2d")!;
    to.setTransform(scale, 0, 0, scale, 0, 0);
    draw(to, { data: this.data, workers: this.state.workers, window: this.window, chosen: this.chosen?.id, only: this.state.selected });
  }

  private hover(x: number, y: number): void {
    const worker = this.state.workers[laneAt(y)], at = usAt(this.window, x);
    const reach = 3 / this.canvas.clientWidth * this.span_us;
    const batch = worker === undefined || x < LEFT ? undefined
      : this.data.within(worker.id, at - reach, at + reach).find(b => b.start_us <= Math.min(at + reach, this.now));
    const death = worker === undefined || x < LEFT ? undefined
      : this.data.deaths.find(d => d.worker === worker.id && Math.abs(xOf(this.window, d.at_us) - x) <= NEAR);
    this.hovered = batch !== undefined || death !== undefined;
    if (this.hovered) this.chosenLane = laneAt(y);
    if (death !== undefined) this.show(describeDeath(death, this.state), death.at_us);
    else if (batch !== undefined) this.choose(batch, false);
    else if (!this.focused) this.forget();
  }

  private choose(batch: Batch | undefined, reveal = true): void {
    if (batch === undefined) return this.forget();
    this.chosen = batch;
    const w = this.window;
    if (reveal && (batch.start_us < w.from_us || batch.start_us > w.now_us)) this.end_us = Math.min(batch.start_us + 0.4 * this.span_us, this.live);
    else this.end_us ??= this.now;
    this.show(describe(batch, this.state), batch.start_us);
  }

  private show(what: HTMLElement[], at_us: number): void {
    this.tip.replaceChildren(...what);
    this.tip.hidden = false;
    const left = xOf(this.window, at_us), wide = this.canvas.clientWidth;
    this.tip.style.left = `${clamp(left, 0, wide - TIP)}px`;
    this.tip.style.top = `${TOP + (this.chosenLane + 1) * LANE + 4}px`;
  }

  private forget(): void {
    this.chosen = undefined;
    this.tip.hidden = true;
  }

  private wheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    else this.move(Math.sign(event.deltaY + event.deltaX) * 0.1);
  }
}

// Which colour is which service, of those that have a batch or wait.
export function timelineLegend(names: string[]): void {
  const host = find("timeline-legend"), key = names.join("\n");
  if (host.dataset["names"] === key) return;
  host.dataset["names"] = key;
  host.replaceChildren(...names.map(name => element("span", {}, element("i", { class: classOf(name) }), name)));
}

// The last deaths of models' processes, each to be looked at.
export function timelineDeaths(deaths: Death[], state: State, look: (death: Death) => void): void {
  const host = find("timeline-deaths"), last = [...deaths].sort((a, b) => b.at_us - a.at_us).slice(0, MOST_DEATHS);
  const key = last.map(death => `${death.model} ${death.at_us}`).join("\n");
  if (host.dataset["deaths"] === key) return;
  host.dataset["deaths"] = key;
  host.replaceChildren(...last.map(death => element("button", { type: "button", onclick: () => look(death) },
    `✕ ${death.model} died at ${state.clock(death.at_us, false)} (${shortCause(death.signal)})`)));
}

const clamp = (value: number, least: number, most: number): number => Math.max(least, Math.min(value, most));
