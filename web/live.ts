// The live page: brings what the server pushes to the panels, and the keys to what they do.

import { Banner } from "./banner.js";
import { assignColours, onTheme } from "./colours.js";
import type { Hello, Second, Service } from "./contract.js";
import { deathsOf } from "./deaths.js";
import { Decisions, log } from "./decisions.js";
import { follow } from "./feed.js";
import { Now } from "./now.js";
import { find, say } from "./page.js";
import { findings } from "./reasons.js";
import { Requests } from "./requests.js";
import { save } from "./save.js";
import { ServicePanel } from "./service.js";
import { Services } from "./services.js";
import { State } from "./state.js";
import { Timeline, timelineDeaths, timelineLegend } from "./timeline.js";
import { WhatIfPanel } from "./what_if.js";

const FOLLOW_MS = 2000, DECISIONS_MS = 10000;

const state = new State();
const now = new Now(state), service = new ServicePanel(state), decisions = new Decisions(state);
const requests = new Requests(state), whatIf = new WhatIfPanel(state);
const timeline = new Timeline(state, id => void requests.open(id));
const services = new Services(state, select);
const banner = new Banner(state, {
  select,
  whatIf: name => { void whatIf.usual(name); find("what-if").scrollIntoView({ block: "nearest" }); },
  request: (pick, name) => { void requests.choose(pick, name); find("requests").scrollIntoView({ block: "nearest" }); },
});

function select(name: string | undefined): void {
  state.selected = state.selected === name ? undefined : name;
  draw();
}

function draw(): void {
  state.budgets = timeline.data.budgets();
  state.deaths = deathsOf(timeline.data.deaths, state.nowUs, state.lately(1), state.services.values(), state.unserved);
  const found = findings(state.lately(1), { services: state.services, runs: timeline.data.runs(), simulated: state.simulated,
    deaths: state.deaths, unserved: state.unserved, recorded: state.hello !== undefined && state.hello.recorder !== null, budget: name => state.budgetOf(name)?.least });
  now.draw(found[0]?.helped);
  banner.draw(found);
  services.draw();
  service.draw(found);
  const called = [...new Set(state.lately(1).flatMap(second => Object.keys(second.services)))].sort();
  timelineLegend(called);
  timelineDeaths(timeline.data.deaths, state, death => { hold(true); timeline.goTo(death.at_us); });
}

function hold(on = state.heldAt === undefined): void {
  if (on) timeline.stay();
  state.hold(on);
  find("hold").setAttribute("aria-pressed", String(on));
  document.body.classList.toggle("held", on);
  say("state", on ? `held at ${state.clock(state.nowUs, false)}` : "live");
  if (!on) timeline.release();
  draw();
}

function known(list: Service[]): void {
  state.setServices(list);
  assignColours(list.filter(one => one.configured !== false).map(one => one.name));
  const names = [...state.services.values()].filter(one => one.configured !== false).map(one => one.name).sort();
  requests.services(names);
  whatIf.choices(state.hello?.schedulers);
}

follow({
  hello: (hello: Hello) => {
    state.begin(hello);
    if (hello.timeline !== undefined) timeline.add(hello.timeline);
    known(hello.services);
    say("server", `${hello.server.version}, policy ${hello.policy}`);
    draw();
    void decisions.refresh();
    whatIf.prepare();
    if (hello.more_workers) whatIf.told(hello.more_workers);
  },
  services: known,
  unserved: list => state.setUnserved(list),
  workers: list => state.setWorkers(list),
  second: (second: Second) => {
    state.history.add(second);
    state.tick(second.at_us);
    if (state.heldAt === undefined && !document.hidden) draw();
  },
  timeline: event => { state.tick(event.now_us); timeline.add(event); },
  log: event => log(event, state),
  moreWorkers: event => whatIf.told(event),
  state: (connected, text) => {
    if (state.heldAt === undefined) say("state", text);
    find("state").className = connected ? "good" : "bad";
  },
});

const KEYS: Record<string, () => void> = {
  " ": () => hold(),
  ArrowLeft: () => timeline.move(-0.15), ArrowRight: () => timeline.move(0.15),
  "+": () => timeline.zoom(0.5), "=": () => timeline.zoom(0.5), "-": () => timeline.zoom(2), "0": () => timeline.fit(),
  ",": () => timeline.next(-1), ".": () => timeline.next(1), s: () => timeline.slower(),
  "/": () => find("filter").focus(), "?": () => find<HTMLDialogElement>("help").showModal(),
  w: () => find("what-if-run").click(), r: () => void requests.choose("rejected"),
};
const IN_TIMELINE: Record<string, () => void> = {
  ArrowUp: () => timeline.lane(-1), ArrowDown: () => timeline.lane(1), Enter: () => timeline.openChosen(),
};

function key(event: KeyboardEvent): void {
  const at = event.target as HTMLElement;
  if (event.key === "Escape") return at.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || find<HTMLDialogElement>("help").open) return;
  if (at.matches("input, select") || (at.matches("button, a") && (event.key === " " || event.key === "Enter"))) return;
  const act = KEYS[event.key] ?? (timeline.focused ? IN_TIMELINE[event.key] : undefined);
  if (act === undefined) return;
  event.preventDefault();
  const moves = event.key.startsWith("Arrow") && state.heldAt === undefined && KEYS[event.key] !== undefined;
  if (moves) hold(true);
  act();
}

document.addEventListener("keydown", key);
find("hold").onclick = () => hold();
find("help-open").onclick = () => find<HTMLDialogElement>("help").showModal();
find("save-trace").onclick = () => void save("/v2/live/trace", "fermata-trace.json");
find("save-recording").onclick = () => void save("/v2/live/recording", "fermata-recording.json");
onTheme(draw);
window.setInterval(() => { if (state.heldAt === undefined && !document.hidden) void requests.follow(); }, FOLLOW_MS);
window.setInterval(() => { if (!document.hidden) void decisions.refresh(); }, DECISIONS_MS);
