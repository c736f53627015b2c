// One client on the page: its picture with the boxes, its numbers, and how they went over time.

import { boxesOf, drawBoxes } from "./boxes.js";
import type { Box } from "./boxes.js";
import { Chart } from "./chart.js";
import { percent } from "./format.js";
import { element } from "./page.js";
import { Account } from "./stream_account.js";
import type { StreamClient, Watcher } from "./stream_client.js";

const SIDE = 512, MOST_MINUTES = 2, QUIET_MS = 2000;
const SHOWN = "The last frame that was answered. At a box: its class and score.";
const NUMBERS: [string, string][] = [
  ["latency", "latency, median"], ["misses", "late or failed, of the last 100"], ["size", "input size"],
  ["told", "size that the service asks for"], ["bandwidth", "bandwidth"], ["roundtrip", "round trip"],
  ["sent", "frames sent"], ["answered", "answered"], ["dropped", "dropped instead of waiting"], ["boxes", "boxes"]];
const CHART_PX = 160;

// A burst over the loopback would hide all else: the tenth above the others may leave the picture.
function topOf(values: (number | null)[]): { top?: number } {
  const known = values.filter(v => v !== null).sort((a, b) => a - b), usual = known[Math.floor(0.9 * (known.length - 1))] ?? 0;
  return usual > 0 && known.at(-1)! > 4 * usual ? { top: 2 * usual } : {};
}

const bits = (mbps: number): string => mbps >= 1000 ? `${(mbps / 1000).toFixed(1)} Gbit/s` : `${mbps.toFixed(mbps < 1 ? 2 : 1)} Mbit/s`;
const milliseconds = (s: number | undefined): string => s === undefined ? "–" : `${(s * 1000).toFixed(1)} ms`;

export class StreamCard {
  readonly root = element("section", { class: "client" });
  readonly watcher: Watcher;
  private readonly account = new Account();
  private readonly numbers = new Map(NUMBERS.map(([is]) => [is, element("dd", { "data-is": is }, "–")]));
  private readonly error = element("p", { class: "error note bad", "data-is": "error" });
  private readonly state = element("span", { class: "note", "data-is": "state" }, "connecting");
  private readonly picture = element("canvas", { class: "picture", role: "img", "aria-label": "the last frame that was answered, with its boxes" });
  private readonly caption = element("p", { class: "note", "data-is": "caption" }, "No frame has been answered yet.");
  private readonly button = element("button", { type: "button", onclick: () => this.client === undefined ? this.root.remove() : this.stop() }, "Stop");
  private readonly charts = new Map<string, Chart>();
  private readonly started = performance.now();
  private readonly timer: number;
  private client: StreamClient | undefined;
  private boxes: Box[] = [];
  private answeredAt = -Infinity;

  constructor(name: string, private readonly slo: number, private readonly rate: number, private readonly ended: () => void) {
    this.picture.width = this.picture.height = SIDE;
    const title = element("h2", {}, element("span", {}, name, element("span", { class: "note" }, ` ${rate} frames/s, SLO ${slo * 1000} ms · `), this.state), this.button);
    const list = element("dl", {}, ...NUMBERS.flatMap(([is, what]) => [element("dt", {}, what), this.numbers.get(is)!]));
    const charts = element("div", { class: "charts" }, this.chart("latency", "Latency (dashed: SLO)"), this.chart("size", "Size of the frames"),
                           this.chart("bandwidth", "Bandwidth"), this.chart("drops", "Dropped, late or failed"));
    this.root.append(title, element("div", { class: "body" }, element("div", {}, this.picture, this.caption, list), charts), this.error);
    this.watcher = this.watch();
    this.timer = window.setInterval(() => this.second(), 1000);
  }

  run(client: StreamClient): void { this.client = client; }

  stop(): void {
    window.clearInterval(this.timer);
    this.client?.stop();
    this.client = undefined;
    this.state.textContent = "stopped";
    this.button.textContent = "Remove";
    this.ended();
  }

  private chart(name: string, title: string): HTMLElement {
    const host = element("div");
    this.charts.set(name, new Chart(host, { title, height: CHART_PX, sparse: true }));
    return element("figure", {}, element("figcaption", {}, title), host);
  }

  private watch(): Watcher {
    const { account } = this;
    return {
      state: text => { this.state.textContent = text; },
      frame: picture => { if (this.answeredAt === -Infinity) this.paint(picture, []); },
      sent: () => { ++account.sent; },
      lost: frames => { for (let i = 0; i < frames; ++i) account.add(false); },
      answered: (answer, picture) => {
        account.add(answer.error === undefined && answer.latency <= this.slo, answer);
        this.error.textContent = answer.error ?? "";
        if (answer.error === undefined) {
          this.boxes = boxesOf(answer);
          this.answeredAt = performance.now();
          if (picture !== undefined) this.paint(picture, this.boxes);
        }
        this.report();
      },
    };
  }

  private paint(picture: CanvasImageSource, boxes: Box[]): void { drawBoxes(this.picture.getContext("2d")!, picture, boxes); }

  private say(is: string, text: string): void {
    const cell = this.numbers.get(is)!;
    if (cell.textContent !== text) cell.textContent = text;
  }

  private report(): void {
    const { account } = this, session = this.client?.session, at = performance.now() / 1000, mbps = session?.link.mbps(at);
    if (session === undefined) return;
    this.say("latency", milliseconds(account.median));
    this.say("misses", percent(account.missRate));
    this.say("size", account.size === undefined ? "–" : `${account.size} px`);
    this.say("answered", `${account.answered}`);
    this.say("sent", `${account.sent}`);
    this.say("dropped", `${session.dropped}`);
    this.say("bandwidth", mbps === undefined ? "–" : bits(mbps));
    this.say("roundtrip", session.link.echoes > 0 ? milliseconds(session.link.roundTrip) : "–");
    this.say("told", session.unmapped ? "no model can serve this client in time" : session.asked === undefined ? "–" : `${session.asked} px`);
    this.say("boxes", `${this.boxes.length}`);
  }

  private second(): void {
    const session = this.client?.session, now = performance.now();
    if (session === undefined) return;
    this.account.close((now - this.started) / 1000, session.dropped, session.unmapped ? undefined : session.asked, session.link.mbps(now / 1000));
    const quiet = now - this.answeredAt;
    if (Number.isFinite(quiet)) this.caption.textContent = quiet > QUIET_MS ? `${SHOWN} That was ${(quiet / 1000).toFixed(0)} s ago.` : SHOWN;
    this.report();
    this.draw();
  }

  private draw(): void {
    const { seconds } = this.account, end = seconds.at(-1)!.at, at = seconds.map(second => second.at - end);
    const minutes = Math.min(MOST_MINUTES, Math.max(0.5, Math.ceil(end / 30) / 2)), constant = (value: number): number[] => seconds.map(() => value);
    this.charts.get("latency")!.show(at, [
      { label: "p50", colour: "--s5", values: seconds.map(s => s.p50) }, { label: "p99", colour: "--s1", values: seconds.map(s => s.p99) },
      { label: "SLO", colour: "--bad", dashed: true, unnamed: true, values: constant(this.slo * 1000) }], { minutes, unit: "ms", say: v => `${v.toFixed(0)} ms` });
    this.charts.get("size")!.show(at, [
      { label: "sent", colour: "--s3", values: seconds.map(s => s.size) }, { label: "asked for", colour: "--mute", dashed: true, values: seconds.map(s => s.asked) }],
      { minutes, unit: "pixels", say: v => `${v} px` });
    this.charts.get("bandwidth")!.show(at, [{ label: "measured", colour: "--s4", values: seconds.map(s => s.mbps) }],
      { minutes, unit: "Mbit/s", say: bits, ...topOf(seconds.map(s => s.mbps)) });
    this.charts.get("drops")!.show(at, [
      { label: "dropped", colour: "--rejected-2", values: seconds.map(s => s.dropped) }, { label: "late or failed", colour: "--late", values: seconds.map(s => s.missed) }],
      { minutes, unit: "frames/s", top: Math.max(1, this.rate), say: v => `${v}` });
  }
}
