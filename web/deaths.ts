// Models whose processes died in the last minute, in words: why, what was lost, and what happens next. Nothing here
// draws or asks the server.

import type { Death, Second, Service } from "./contract.js";
import { many, percent } from "./format.js";
import { lost, total } from "./history.js";

export interface Died {
  model: string;
  services: string[]; // that it answers
  times: number;
  what: string; // died, and why
  lost: string;
  next: string;
  short: string; // for a table's cell
}

const CAUSES: Record<string, string> = {
  SIGKILL: "something outside of it ended it (SIGKILL), as the system does where memory is short",
  SIGSEGV: "it used memory that it does not have (SIGSEGV)",
  SIGBUS: "it used memory that it does not have (SIGBUS)",
  SIGFPE: "it computed what has no result, as a division by zero (SIGFPE)",
  SIGILL: "it ran an instruction that this processor does not have (SIGILL)",
  SIGABRT: "it gave up by itself (SIGABRT)",
  SIGSYS: "it asked the system for what models may not do (SIGSYS)",
  exit: "it ended by itself",
  processor: "it took more processor time than workers.process_processor_s",
  run_limit: "a run did not end within workers.run_limit_s",
};
export const causeOf = (signal: string | number): string => CAUSES[`${signal}`] ?? `it was ended by ${signal}`;

const SHORT: Record<string, string> = { exit: "ended by itself", processor: "too much processor time", run_limit: "run too long" };
export const shortCause = (signal: string | number): string => SHORT[`${signal}`] ?? `${signal}`;

const often = (n: number): string => n === 1 ? "once" : n === 2 ? "twice" : `${n} times`;
const ago = (us: number): string => us < 2e6 ? "just now" : `${Math.round(us / 1e6)} s ago`;

// The one that died last comes first.
export function deathsOf(deaths: Death[], now_us: number, seconds: Second[], services: Iterable<Service>,
                         unserved: ReadonlyMap<string, string>): Died[] {
  const byModel = new Map<string, Death[]>(), all = [...services];
  for (const death of deaths) if (death.at_us <= now_us) byModel.set(death.model, [...byModel.get(death.model) ?? [], death]);
  const last = (own: Death[]): number => Math.max(...own.map(death => death.at_us));
  return [...byModel].sort(([, a], [, b]) => last(b) - last(a)).map(([model, own]) => {
    const latest = own.find(death => death.at_us === last(own))!, users = usersOf(model, all, seconds), away = unserved.get(model);
    const when = own.length === 1 ? ago(now_us - latest.at_us) : `${often(own.length)} in the last minute, last ${ago(now_us - latest.at_us)}`;
    return { model, services: users, times: own.length,
             what: `The process of model ${model} died ${when}: ${causeOf(latest.signal)}.`,
             lost: lostBy(users, seconds), next: nextFor(users, all, away),
             short: `died ${often(own.length)} (${shortCause(latest.signal)})${away === undefined ? ", runs again" : ", not served"}` };
  });
}

function usersOf(model: string, services: Service[], seconds: Second[]): string[] {
  const users = services.filter(service => service.name === model || service.members.includes(model)).map(service => service.name);
  const called = users.filter(name => seconds.some(second => second.services[name] !== undefined));
  return called.length > 0 ? called : users;
}

function lostBy(users: string[], seconds: Second[]): string {
  const parts = users.flatMap(name => {
    const tally = total(seconds, name), away = tally.rejected["unavailable"] ?? 0, all = tally.offered;
    const said = [...tally.failed > 0 ? [`${many(tally.failed, "request")} failed`] : [],
                  ...away > 0 ? [`${many(away, "request")} ${away === 1 ? "was" : "were"} rejected, since no process ran the model`] : []];
    return said.length === 0 ? [] : [`Of ${name} ${said.join(" and ")} in the last minute (${percent((tally.failed + away) / Math.max(all, 1))}).`];
  });
  const again = "Requests in the batch of a process that dies run again, each alone.";
  const some = users.some(name => lost(total(seconds, name)) > 0);
  return parts.length > 0 ? parts.join(" ") : some ? again : `Nothing was lost: ${again.charAt(0).toLowerCase()}${again.slice(1)}`;
}

function nextFor(users: string[], services: Service[], away: string | undefined): string {
  if (away === undefined) return "It has been started again, and serves.";
  const others = services.filter(service => users.includes(service.name) && service.kind === "variants").map(service => service.name);
  const instead = others.length === 0 ? "Its requests are rejected until then." : `The other variants of ${others.join(", ")} answer until then.`;
  return `It is not served: ${away}. The server tries it again by itself. ${instead}`;
}
