// What all panels of the live page share: what came from the server, what a person chose.

import type { Hello, PoolSecond, Second, Service, Unserved, Worker } from "./contract.js";
import type { Died } from "./deaths.js";
import { History } from "./history.js";
import type { Simulated } from "./reasons.js";
import type { Budgets } from "./timeline_data.js";

const SAME = 0.02; // what the network took is not in a budget

export interface Budget { least: number; most: number; own: boolean }

export class State {
  readonly history = new History();
  readonly services = new Map<string, Service>();
  unserved: ReadonlyMap<string, string> = new Map(); // why, by name
  deaths: Died[] = []; // of the last minute, the last first
  workers: Worker[] = [];
  selected: string | undefined; // of the services; undefined: all of them
  minutes = 5;
  heldAt: number | undefined; // of the server's clock; nothing after it is shown
  hello: Hello | undefined;
  budgets: Budgets = new Map();
  simulated: Simulated | undefined; // by the last what-if
  private ahead: number | undefined; // of the server's clock before the browser's, in µs

  begin(hello: Hello): void {
    this.hello = hello;
    this.history.begin(hello);
    this.setServices(hello.services);
    this.setUnserved(hello.unserved ?? []);
    this.setWorkers(hello.workers);
    this.ahead = undefined;
    this.tick(hello.now_us);
  }

  // How long the requests of a service have, in ms: its SLO, or deadlines of their own; undefined: for ever.
  budgetOf(name: string): Budget | undefined {
    const slo = this.services.get(name)?.slo_ms ?? null, own = this.budgets.get(name);
    const same = (a: number): boolean => slo !== null && Math.abs(a - slo) <= SAME * Math.max(a, slo);
    if (own !== undefined && !(same(own.least) && same(own.most))) return { ...own, own: true };
    return slo === null ? undefined : { least: slo, most: slo, own: false };
  }

  setWorkers(workers: Worker[]): void { this.workers = workers.filter(worker => worker.serving !== false); }

  setUnserved(rows: Unserved[]): void { this.unserved = new Map(rows.map(row => [row.name, row.reason])); }

  setServices(services: Service[]): void {
    this.services.clear();
    for (const service of services) this.services.set(service.name, service);
  }

  // The server says what time it is. The message that was least delayed counts, and slowly the others.
  tick(now_us: number): void {
    const ahead = now_us - 1000 * performance.now();
    this.ahead = this.ahead === undefined || ahead > this.ahead ? ahead : this.ahead + 0.02 * (ahead - this.ahead);
  }

  // The server's time, or when the page was held.
  get nowUs(): number { return this.heldAt ?? this.runningUs; }
  get runningUs(): number { return (this.ahead ?? 0) + 1000 * performance.now(); }

  hold(on: boolean): void { this.heldAt = on ? this.runningUs : undefined; }

  lately(minutes: number): Second[] { return this.history.slice(minutes, this.heldAt).seconds; }
  get pool(): PoolSecond | undefined { return this.lately(1).at(-1)?.pool; }

  wall(us: number): Date {
    const hello = this.hello;
    return new Date(hello === undefined ? 0 : hello.epoch_ms + (us - hello.now_us) / 1000);
  }

  clock(us: number, fraction = true): string {
    const at = this.wall(us), two = (n: number): string => `${n}`.padStart(2, "0");
    const seconds = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    return fraction ? `${seconds}.${`${at.getMilliseconds()}`.padStart(3, "0")}` : seconds;
  }
}
