// The server's events, as they come, and again after a lost connection.

import type { Hello, LogEvent, MoreWorkers, Second, Service, TimelineEvent, Unserved, Worker } from "./contract.js";

export interface Listener {
  hello(event: Hello): void;
  services(event: Service[]): void;
  unserved(event: Unserved[]): void;
  workers(event: Worker[]): void;
  second(event: Second): void;
  timeline(event: TimelineEvent): void;
  log(event: LogEvent): void;
  moreWorkers(event: MoreWorkers): void;
  state(connected: boolean, text: string): void;
}

const EVENTS = "/v2/live/events", AGAIN_MS = 2000;

export function follow(listener: Listener): void {
  const source = new EventSource(EVENTS);
  const on = <T>(name: string, handle: (event: T) => void): void =>
    source.addEventListener(name, event => handle(JSON.parse((event as MessageEvent<string>).data) as T));
  on<Hello>("hello", event => { listener.state(true, "live"); listener.hello(event); });
  on<{ services: Service[] }>("services", event => listener.services(event.services));
  on<{ unserved: Unserved[] }>("unserved", event => listener.unserved(event.unserved));
  on<{ workers: Worker[] }>("workers", event => listener.workers(event.workers));
  on<Second>("second", event => listener.second(event));
  on<TimelineEvent>("timeline", event => listener.timeline(event));
  on<LogEvent>("log", event => listener.log(event));
  on<MoreWorkers>("more_workers", event => listener.moreWorkers(event));
  source.onerror = () => {
    listener.state(false, "no connection to the server; trying again");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again itself
    void whyNot().then(text => listener.state(false, text));
    window.setTimeout(() => follow(listener), AGAIN_MS);
  };
}

// What the server answers where it sends no events, which an EventSource does not tell.
async function whyNot(): Promise<string> {
  const stop = new AbortController();
  try {
    const response = await fetch(EVENTS, { signal: stop.signal });
    if (response.ok) return "no connection to the server; trying again";
    const body = await response.text();
    let said = body;
    try { said = (JSON.parse(body) as { error: string }).error; } catch { /* not JSON: as it is */ }
    return `the server sends no events (${response.status}): ${said}`;
  } catch {
    return "no connection to the server; trying again";
  } finally {
    stop.abort();
  }
}
