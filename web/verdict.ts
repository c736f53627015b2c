// The cases that people usually ask about, their names, and what their results say in words. Nothing
// here draws or asks the server.

import type { Case, Needed, Outcome, WhatIf } from "./contract.js";
import { count, many, ms, percent, points } from "./format.js";
import { NOTICEABLE } from "./reasons.js";
import type { Simulated } from "./reasons.js";

export function usualCases(workers: number, policy: string, tightest: { name: string; slo_ms: number } | undefined): Case[] {
  const cases: Case[] = [{ workers: workers + 1 }, { workers: workers + 2 }];
  if (workers > 1) cases.push({ workers: workers - 1 });
  cases.push({ load: 2 }, { load: 0.5 });
  for (const scheduler of ["edf", "eager"]) if (scheduler !== policy) cases.push({ scheduler });
  if (tightest !== undefined) cases.push({ slo_ms: { [tightest.name]: 1.5 * tightest.slo_ms } });
  return cases;
}

const POLICIES: Record<string, string> = { edf: "earliest deadline first", eager: "no holding (eager)" };

export function nameOf(one: Case, workers: number): string {
  const parts: string[] = [];
  if (one.workers !== undefined && one.workers !== null) {
    const more = one.workers - workers;
    parts.push(more === 0 ? `${many(one.workers, "worker")}` : `${many(Math.abs(more), "worker")} ${more > 0 ? "more" : "fewer"} (${one.workers})`);
  }
  if (one.scheduler) parts.push(POLICIES[one.scheduler] ?? one.scheduler);
  if (one.load !== undefined && one.load !== 1) parts.push(one.load === 2 ? "twice the load" : one.load === 0.5 ? "half the load" : `load × ${one.load}`);
  for (const [name, slo] of Object.entries(one.slo_ms ?? {})) parts.push(`SLO of ${name} ${slo} ms`);
  return parts.join(", ") || "as it was";
}

const moreOnTime = (to: Outcome, from: Outcome): number => (to.on_time - from.on_time) * from.requests / Math.max(from.seconds, 1);

// The cases that change nothing but the workers, and of these the one with two more, or else with any more.
const ofWorkers = (answer: WhatIf): WhatIf["cases"] =>
  answer.cases.filter(c => c.case.workers && !c.case.scheduler && (c.case.load ?? 1) === 1 && Object.keys(c.case.slo_ms ?? {}).length === 0);
const twoMore = (only: WhatIf["cases"], workers: number): WhatIf["cases"][number] | undefined =>
  only.find(c => c.case.workers === workers + 2) ?? only.find(c => c.case.workers! > workers);

// What more workers would bring each service, for those who say why it loses requests.
export function simulated(answer: WhatIf, workers: number, at_us: number): Simulated | undefined {
  const two = twoMore(ofWorkers(answer), workers);
  if (two === undefined) return undefined;
  const shares = Object.entries(two.services).map(([name, o]) => [name, {
    now: answer.replayed.services[name]?.on_time ?? o.on_time, then: o.on_time,
    was: answer.recorded.services[name]?.on_time ?? o.on_time }] as const);
  return { at_us, more: two.case.workers! - workers, services: Object.fromEntries(shares) };
}

// How far the simulator is from what happened, in each of what it says.
export function farOff({ recorded, replayed }: WhatIf): string {
  return `simulated as it was, ${points(replayed.on_time - recorded.on_time)} off on time and ${points(replayed.busy - recorded.busy)} off busy`;
}

// Whether more workers would help, from the cases that have only them. `delay`: the server's
// own, next to the shortest SLO.
export function verdict(answer: WhatIf, workers: number, delay?: { ms: number; slo_ms: number }): string {
  const only = ofWorkers(answer), two = twoMore(only, workers);
  const said: string[] = [];
  if (two !== undefined) said.push(aboutMore(two, answer.replayed, two.case.workers! - workers));
  const one = only.find(c => c.case.workers === workers + 1);
  if (one !== undefined && two !== undefined && one !== two) said.push(aboutOne(one, two, answer.replayed));
  const fewer = only.find(c => c.case.workers === workers - 1);
  if (fewer !== undefined) said.push(aboutFewer(fewer, answer.replayed));
  if (said.length > 0 && delay !== undefined && delay.ms >= 0.2 * delay.slo_ms) {
    said.push(`That is with processors of their own, as on another machine: here the server's own delay is ${ms(delay.ms)} of ${ms(delay.slo_ms)}, since this machine's are busy.`);
  }
  return said.join(" ");
}

// How many workers a share on time needs.
export function aboutNeeded({ on_time, workers, tried, best, exact }: Needed, now: number): string {
  const goal = percent(on_time);
  if (workers === null) return `Not even ${count(tried)} workers bring ${goal} on time, but ${percent(best)}: the others would need a longer deadline.`;
  if (workers === now) return `${goal} on time needs the ${many(now, "worker")} that there ${now === 1 ? "is" : "are"}.`;
  if (!exact) return `${many(workers, "worker")} bring ${goal} on time; fewer may do, but trying that takes too long at this load.`;
  return `${goal} on time needs ${many(workers, "worker")}, ${count(Math.abs(workers - now))} ${workers > now ? "more" : "fewer"} than now.`;
}

// What the last what-if says of one rejected request's service.
export function ofRejected(service: string, simulated: Simulated | undefined): string {
  const own = simulated?.services[service];
  if (simulated === undefined || own === undefined) return "";
  const more = many(simulated.more, "more worker");
  return own.then - own.now < NOTICEABLE ? `Simulated, ${more} would not help ${service}.`
    : `Simulated, with ${more} ${percent(own.then)} of ${service} would be on time instead of ${percent(own.now)}.`;
}

function aboutMore(more: Outcome, now: Outcome, n: number): string {
  const gain = more.on_time - now.on_time, much = `${percent(more.on_time)} on time instead of ${percent(now.on_time)}`;
  const who = n === 1 ? "One more worker" : n === 2 ? "Two more workers" : many(n, "more worker");
  if (gain < NOTICEABLE) return `${who} would not help: ${much}, busy ${percent(more.busy)} instead of ${percent(now.busy)}.`;
  return `${who} would help: ${much} (${points(gain)} more, about ${count(Math.max(1, moreOnTime(more, now)))} requests/s), busy ${percent(more.busy)} instead of ${percent(now.busy)}.`;
}

function aboutOne(one: Outcome, two: Outcome, now: Outcome): string {
  const gain = two.on_time - now.on_time;
  if (gain < NOTICEABLE) return "";
  const part = (one.on_time - now.on_time) / gain;
  return part > 0.95 ? `One would do: ${percent(one.on_time)}.` : `One alone: ${percent(one.on_time)}.`;
}

function aboutFewer(fewer: Outcome, now: Outcome): string {
  const loss = now.on_time - fewer.on_time;
  return loss < NOTICEABLE ? `One fewer would do as well: ${percent(fewer.on_time)}.` : `One fewer: ${percent(fewer.on_time)}.`;
}
