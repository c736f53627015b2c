// One colour for every service, the same on every visit: of the eight of Okabe and Ito, which
// colour-blind people can tell apart, the one that its name asks for, or the next that is free.

const HUES = 8;

function hash(name: string): number {
  let h = 2166136261;
  for (const character of name) h = Math.imul(h ^ character.codePointAt(0)!, 16777619) >>> 0;
  return h >>> 0;
}

const taken = new Map<string, number>();

// In the order of their names, so that it does not matter who was called first.
export function assignColours(names: string[]): void {
  for (const name of [...names].sort()) place(name);
}

function place(name: string): number {
  const known = taken.get(name);
  if (known !== undefined) return known;
  const used = Array<number>(HUES).fill(0);
  for (const slot of taken.values()) ++used[slot]!;
  const fewest = Math.min(...used);
  let slot = hash(name) % HUES;
  while (used[slot]! > fewest) slot = (slot + 1) % HUES;
  taken.set(name, slot);
  return slot;
}

// A stage, "pipeline/stage", belongs to its pipeline.
export const wholeOf = (name: string): string => name.split("/")[0]!;

// The CSS variable of a service's colour, and its class for elements. Stages have their pipeline's.
export const hueOf = (name: string): string => `--s${place(wholeOf(name)) + 1}`;
export const classOf = (name: string): string => `s${place(wholeOf(name)) + 1}`;

let resolved = new Map<string, string>();
let styles: CSSStyleDeclaration | undefined;

// A colour of page.css as canvases need it: "--good" becomes "#1a7f5a".
export function css(variable: string): string {
  let found = resolved.get(variable);
  if (found === undefined) {
    styles ??= getComputedStyle(document.documentElement);
    found = styles.getPropertyValue(variable).trim() || variable;
    resolved.set(variable, found);
  }
  return found;
}

// `share` of a colour over the panel's, for parts of one service.
export function tint(variable: string, share: number): string {
  const parts = (hex: string): number[] => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  const over = parts(css(variable)), under = parts(css("--panel"));
  return `rgb(${over.map((value, i) => Math.round(share * value + (1 - share) * under[i]!)).join(" ")})`;
}

const changed: (() => void)[] = [];
export function onTheme(redraw: () => void): void { changed.push(redraw); }

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  resolved = new Map();
  for (const redraw of changed) redraw();
});

// What becomes of requests, from the best to the worst.
export const OUTCOMES = {
  on_time: { label: "on time", colour: "--on-time" },
  late: { label: "late", colour: "--late" },
  rejected_deadline: { label: "rejected: deadline", colour: "--rejected" },
  rejected_queue: { label: "rejected: queue full", colour: "--rejected-2" },
  rejected_other: { label: "rejected: other", colour: "--rejected-3" },
  failed: { label: "failed", colour: "--failed" },
  cancelled: { label: "cancelled", colour: "--cancelled" },
} as const;
