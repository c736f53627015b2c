// Numbers as people read them, with their units.

export const count = (value: number): string => Math.round(value).toLocaleString("en-US");

export function rate(value: number): string {
  if (value === 0) return "0";
  return value >= 100 ? count(value) : value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

// A share of 1. What is neither none nor all is not rounded to either.
export function percent(share: number): string {
  const text = (100 * share).toFixed(1);
  if (text === "100.0") return share < 1 ? "99.9 %" : "100 %";
  if (text === "0.0") return share > 0 ? "< 0.1 %" : "0 %";
  return `${text} %`;
}

export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return `${value >= 100 ? count(value) : value >= 10 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

// As precise as a single batch is measured.
export const fine = (us: number): string => `${(us / 1000).toFixed(Math.abs(us) >= 100000 ? 0 : 1)} ms`;

export const accuracy = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : value.toFixed(3);

export function megabytes(value: number): string {
  return value >= 10000 ? `${(value / 1024).toFixed(1)} GB` : `${count(value)} MB`;
}

// "1 worker", "2 workers"
export const many = (n: number, noun: string): string => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

export const points = (difference: number): string => `${Math.abs(100 * difference).toFixed(1)} points`;

const REASONS: Record<string, string> = {
  deadline: "their deadline could no longer be met",
  queue: "their service's queue was full",
  unavailable: "their model was not ready",
  invalid: "they did not fit the model, or it rejected them",
};
export const reason = (name: string): string => REASONS[name] ?? name.replaceAll("_", " ");

const RULES: Record<string, string> = { mates: "other requests to join its batch", worker: "a free worker",
                                        start_time: "its start time", nothing: "nothing" };
export const waitedFor = (name: string): string => RULES[name] ?? name.replaceAll("_", " ");

// The least of 1, 2, 5, 10, ... that is no less.
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= least * (1 - 1e-9))!;
}
