// One client on the page: its picture with the boxes, its numbers, and how they went over time.

import { boxesOf, drawBoxes } from "./boxes.js";
import type { Box } from "./boxes.js";
import { Chart } from "./chart.js";
import { percent } from "./format.js";
import { element } from "./page.js";
import { Account } from "./stream_account.js";
import type { StreamClient, Watcher } from "./stream_client.js";

const SIDE = 512, MINUTES = 2;
const NUMBERS: [string, string][] = [
  ["latency", "latency, median"], ["misses", "late or failed, of the last 100"], ["size", "input size"],
  ["told", "size that the service asks for"], ["bandwidth", "bandwidth"], ["roundtrip", "round trip"],
  ["sent", "frames sent"], ["answered", "answered"], ["dropped", "dropped, since they would wait"], ["boxes", "boxes"]];
const CHART_PX = 160;

const milliseconds = (s: number | undefined): string => s === undefined ? "–" : `${(s * 1000).toFixed(1)} ms`;

export class StreamCard {
  readonly root = element("section", { class: "client" });
  readonly watcher: Watcher;
  private readonly account = new Account();
  private readonly numbers = new Map(NUMBERS.map(([is]) => [is, element("dd", { "data-is": is }, "–")]));
  private readonly error = element("p", { class: "error note bad", "data-is": "error" });
  private readonly state = element("span", { class: "note", "data-is": "state" }, "connecting");
  private readonly picture = element("canvas", { class: "picture", role: "img", "aria-label": "the frame that was sent, with the boxes that came back" });
  private readonly charts = new Map<string, Chart>();
  private readonly started = performance.now();
  private readonly timer: number;
  private client: StreamClient | undefined;
  private boxes: Box[] = [];

  constructor(name: string, private readonly slo: number, private readonly rate: number, private readonly ended: () => void) {
    this.picture.width = this.picture.height = SIDE;
    const stop = element("button", { type: "button", onclick: () => this.stop() }, "Stop");
    const title = element("h2", {}, element("span", {}, name, element("span", { class: "note" }, ` ${rate} frames/s, SLO ${slo * 1000} ms `), this.state), stop);
    const list = element("dl", {}, ...NUMBERS.flatMap(([is, what]) => [element("dt", {}, what), this.numbers.get(is)!]));
    const charts = element("div", { class: "charts" }, this.chart("latency", "Latency"), this.chart("size", "Size of the frames"),
                           this.chart("bandwidth", "Bandwidth"), this.chart("drops", "Dropped, late or failed"));
    this.root.append(title, element("div", { class: "body" }, element("div", {}, this.picture, list), charts), this.error);
    this.watcher = this.watch();
    this.timer = window.setInterval(() => this.second(), 1000);
  }

  run(client: StreamClient): void { this.client = client; }

  stop(): void {
    window.clearInterval(this.timer);
    this.client?.stop();
    this.client = undefined;
    this.state.textContent = "stopped";
    this.ended();
  }

  private chart(name: string, title: string): HTMLElement {
    const host = element("div");
    this.charts.set(name, new Chart(host, { title, height: CHART_PX }));
    return element("figure", {}, element("figcaption", {}, title), host);
  }

  private watch(): Watcher {
    const { account } = this;
    return {
      state: text => { this.state.textContent = text; },
      frame: picture => drawBoxes(this.picture.getContext("2d")!, picture, this.boxes),
      sent: () => { ++account.sent; },
      lost: frames => { for (let i = 0; i < frames; ++i) account.add(false); },
      answered: answer => {
        account.add(answer.error === undefined && answer.latency <= this.slo, answer);
        this.error.textContent = answer.error ?? "";
        if (answer.error === undefined) this.boxes = boxesOf(answer);
        this.report();
      },
    };
  }

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
    this.say("bandwidth", mbps === undefined ? "–" : `${mbps.toFixed(1)} Mbit/s`);
    this.say("roundtrip", session.link.echoes > 0 ? milliseconds(session.link.roundTrip) : "–");
    this.say("told", session.unmapped ? "no model can serve this client in time" : session.asked === undefined ? "–" : `${session.asked} px`);
    this.say("boxes", `${this.boxes.length}`);
  }

  private second(): void {
    const session = this.client?.session, now = performance.now();
    if (session === undefined) return;
    this.account.close((now - this.started) / 1000, session.dropped, session.unmapped ? undefined : session.asked, session.link.mbps(now / 1000));
    this.report();
    this.draw();
  }

  private draw(): void {
    const { seconds } = this.account, end = seconds.at(-1)!.at, at = seconds.map(second => second.at - end);
    const minutes = MINUTES, constant = (value: number): number[] => seconds.map(() => value);
    this.charts.get("latency")!.show(at, [
      { label: "p50", colour: "--s5", values: seconds.map(s => s.p50) }, { label: "p99", colour: "--s1", values: seconds.map(s => s.p99) },
      { label: "SLO", colour: "--bad", dashed: true, values: constant(this.slo * 1000) }], { minutes, unit: "ms", say: v => `${v.toFixed(0)} ms` });
    this.charts.get("size")!.show(at, [
      { label: "sent", colour: "--s3", values: seconds.map(s => s.size) }, { label: "asked for", colour: "--mute", dashed: true, values: seconds.map(s => s.asked) }],
      { minutes, unit: "pixels", say: v => `${v} px` });
    this.charts.get("bandwidth")!.show(at, [{ label: "measured", colour: "--s4", values: seconds.map(s => s.mbps) }],
      { minutes, unit: "Mbit/s", say: v => `${v.toFixed(1)} Mbit/s` });
    this.charts.get("drops")!.show(at, [
      { label: "dropped", colour: "--rejected-2", values: seconds.map(s => s.dropped) }, { label: "late or failed", colour: "--late", values: seconds.map(s => s.missed) }],
      { minutes, unit: "frames/s", top: Math.max(1, this.rate), say: v => `${v}` });
  }
}
