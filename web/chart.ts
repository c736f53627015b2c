// Lines and stacked areas over the last minutes, drawn by uPlot, with a legend that says the values
// under the cursor, or else the last ones.

import { css, onTheme } from "./colours.js";
import { element } from "./page.js";
import uPlot from "./uplot.js";

export interface Line {
  label: string;
  colour: string; // a CSS variable or a colour
  values: (number | null)[];
  dashed?: boolean;
  unnamed?: boolean; // the title says what it is, and the legend need not
}
export interface Shape {
  title: string; // for screen readers
  stacked?: boolean;
  sparse?: boolean; // seconds without a value are usual: values are points too
  height?: number;
}
// The axes, which may differ from one service to the next.
export interface Frame {
  minutes: number;
  unit: string; // of the y axis
  bottom?: number;
  top?: number; // absent: by the data
  say: (value: number) => string;
}

const FONT = "11px system-ui, sans-serif";

const ago = (seconds: number): string =>
  seconds === 0 ? "now" : `−${seconds > -60 || seconds % 60 !== 0 ? `${-seconds} s` : `${-seconds / 60} min`}`;

// So many that their labels have room.
function ticks(minutes: number, width: number): number[] {
  const steps = [15, 30, 60, 120, 300, 900, 1800], most = width / 72;
  const step = steps.find(s => minutes * 60 / s <= most) ?? 3600;
  return Array.from({ length: Math.floor(minutes * 60 / step) + 1 }, (_, i) => -i * step).reverse();
}

function stack(lines: Line[]): (number | null)[][] {
  const height = lines[0]?.values.map(() => 0) ?? [];
  return lines.map(line => line.values.map((value, i) => (height[i]! += value ?? 0)));
}

export class Chart {
  private plot: uPlot | undefined;
  private lines: Line[] = [];
  private at: number[] = [];
  private frame: Frame = { minutes: 5, unit: "", say: String };
  private made = "";
  private readonly legend = element("div", { class: "legend" });
  private readonly area = element("div", { class: "plot", role: "img" });

  constructor(host: HTMLElement, private readonly shape: Shape) {
    this.area.style.height = `${shape.height ?? 170}px`;
    host.replaceChildren(this.legend, this.area);
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(host);
    onTheme(() => this.plot?.redraw());
  }

  // `at` in seconds before the end, negative.
  show(at: number[], lines: Line[], frame: Frame): void {
    const key = JSON.stringify([frame.minutes, frame.unit, lines.map(line => [line.label, line.dashed])]);
    [this.at, this.lines, this.frame] = [at, lines, frame];
    if (key !== this.made) this.make(key);
    this.plot!.setData(this.data(), true);
    this.read(null);
  }

  private data(): uPlot.AlignedData {
    const values = this.shape.stacked ? stack(this.lines).reverse() : this.lines.map(line => line.values);
    return [this.at, ...values] as uPlot.AlignedData;
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(120, this.area.clientWidth), height: this.area.clientHeight };
  }

  private make(key: string): void {
    this.plot?.destroy();
    this.made = key;
    this.legend.replaceChildren(...this.named.map(line => {
      const mark = element("i");
      mark.style.background = css(line.colour);
      return element("span", {}, mark, `${line.label} `, element("b"));
    }));
    this.plot = new uPlot(this.options(), this.data(), this.area);
  }

  private options(): uPlot.Options {
    const { shape } = this, last = this.lines.length - 1;
    const axis = { stroke: () => css("--mute"), font: FONT, grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false } };
    return {
      ...this.size(), legend: { show: false }, padding: [6, 12, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { show: !shape.stacked, size: 6 } },
      scales: { x: { time: false, range: () => [-60 * this.frame.minutes, 0] },
                y: { range: (_, __, max) => [this.frame.bottom ?? 0, this.frame.top ?? Math.max(max * 1.08, 1)] } },
      axes: [{ ...axis, size: 22, splits: plot => ticks(this.frame.minutes, plot.width), values: (_, at) => at.map(ago) },
             { ...axis, size: 52, label: this.frame.unit, labelSize: 14, labelGap: 0, labelFont: FONT, space: 28,
               values: (_, at) => at.map(v => v >= 1000 ? `${v / 1000}k` : `${v}`) }],
      series: [{}, ...this.lines.map((_, i) => this.series(shape.stacked ? last - i : i))],
      hooks: { setCursor: [plot => this.read(plot.cursor.idx ?? null)] },
    };
  }

  private series(i: number): uPlot.Series {
    const colour = (): string => css(this.lines[i]?.colour ?? "--mute");
    const shared: uPlot.Series = { points: { show: false }, stroke: colour };
    if (this.shape.stacked) return { ...shared, width: 0.5, fill: colour };
    const points = this.shape.sparse === true && !this.lines[i]!.dashed ? { points: { show: true, size: 4, fill: colour } } : {};
    return { ...shared, width: 1.6, ...points, ...(this.lines[i]!.dashed ? { dash: [5, 4] } : {}) };
  }

  private get named(): Line[] { return this.lines.filter(line => line.unnamed !== true); }

  private read(index: number | null): void {
    const at = index ?? this.at.length - 1, when = this.at[at];
    const said = this.named.map(({ values }) => typeof values[at] === "number" ? this.frame.say(values[at]) : "–");
    this.legend.querySelectorAll("b").forEach((b, i) => { if (b.textContent !== said[i]) b.textContent = said[i] ?? ""; });
    this.legend.querySelectorAll("i").forEach((mark, i) => { mark.style.background = css(this.named[i]?.colour ?? ""); });
    this.legend.title = when === undefined ? "" : `values ${ago(Math.round(when))}`;
    this.area.setAttribute("aria-label", `${this.shape.title}, ${this.frame.unit}: ` +
      this.named.map((line, i) => `${line.label} ${said[i]}`).join(", "));
  }
}

// A line without axes, for a number above it.
export class Spark {
  private plot: uPlot | undefined;
  constructor(private readonly host: HTMLElement, private readonly colour: string, private readonly top?: number) {
    new ResizeObserver(() => this.plot?.setSize({ width: host.clientWidth, height: host.clientHeight })).observe(host);
    onTheme(() => this.plot?.redraw());
  }

  show(at: number[], values: (number | null)[]): void {
    this.plot ??= this.make();
    this.plot.setData([at, values], true);
  }

  private make(): uPlot {
    return new uPlot({
      width: Math.max(60, this.host.clientWidth), height: this.host.clientHeight, legend: { show: false }, cursor: { show: false },
      padding: [3, 0, 1, 0], axes: [{ show: false }, { show: false }],
      scales: { x: { time: false, range: (_, first) => [Math.min(first ?? 0, -60), 0] },
                y: { range: (_, __, max) => [0, this.top ?? Math.max(max * 1.1, 1e-3)] } },
      series: [{}, { points: { show: false }, width: 1.5, stroke: () => css(this.colour), fill: () => `${css(this.colour)}22` }],
    }, [[], []], this.host);
  }
}
