// The last minute's requests again in the server's simulator, with other workers, policies, loads and
// SLOs, beside what happened.

import type { Case, MoreWorkers, Outcome, WhatIf } from "./contract.js";
import { accuracy, count, many, percent } from "./format.js";
import { element, find, json, say } from "./page.js";
import type { State } from "./state.js";
import { NOTICEABLE } from "./reasons.js";
import { aboutNeeded, farOff, nameOf, simulated, usualCases, verdict } from "./verdict.js";

const ROUTE = "/v2/live/what_if", GOAL = 0.99, SCHEDULERS = ["fermata", "edf", "eager", "deferred", "clockwork", "nexus"];

export class WhatIfPanel {
  private readonly run = find<HTMLButtonElement>("what-if-run");
  private readonly form = find<HTMLFormElement>("what-if-form");
  private cases: Case[] = [];
  private asked = false;

  constructor(private readonly state: State) {
    this.run.onclick = () => void this.usual();
    this.form.onsubmit = event => { event.preventDefault(); void this.own(); };
  }

  // What may be chosen.
  choices(schedulers: string[] | undefined): void {
    this.select("scheduler", [new Option("as now", ""), ...(schedulers ?? SCHEDULERS).map(name => new Option(name))]);
    const limited = [...this.state.services.values()].filter(service => service.slo_ms !== null && service.configured !== false);
    this.select("service", limited.map(service => new Option(service.name)));
  }

  private select(name: string, options: HTMLOptionElement[]): void {
    const field = this.form.elements.namedItem(name) as HTMLSelectElement, key = options.map(option => option.value).join("\n");
    if (field.dataset["options"] === key) return;
    field.dataset["options"] = key;
    field.replaceChildren(...options);
  }

  async usual(worst?: string): Promise<void> {
    const called = new Set(this.state.lately(1).flatMap(second => Object.keys(second.services)));
    const limited = [...this.state.services.values()].filter(service => service.slo_ms !== null && called.has(service.name));
    const name = worst ?? this.state.selected ?? [...limited].sort((a, b) => a.slo_ms! - b.slo_ms!)[0]?.name;
    const chosen = limited.find(service => service.name === name);
    this.cases = usualCases(this.workers, this.state.hello?.policy ?? "", chosen && { name: chosen.name, slo_ms: chosen.slo_ms! });
    await this.ask();
  }

  // What the server asked itself. It stands here until somebody asks.
  told(answer: MoreWorkers): void {
    const workers = answer.cases[0]!.case.workers! - 1;
    if (this.asked) this.state.simulated = simulated(answer, workers, answer.at_us);
    else this.show(answer, workers, answer.at_us);
  }

  // What would be asked, before anybody does.
  prepare(): void {
    if (this.asked) return;
    const names = usualCases(this.workers, this.state.hello?.policy ?? "", undefined).map(one => nameOf(one, this.workers));
    find("case-rows").replaceChildren(...["as it was", ...names].map(name =>
      element("tr", {}, element("td", {}, name), element("td", { class: "left note", colspan: "4" }, "not asked yet"))));
  }

  // Of the first type, which alone a what-if changes.
  private get workers(): number {
    const { pool, workers } = this.state, first = workers.filter(worker => worker.type === workers[0]!.type).length;
    return first < workers.length ? first : pool?.workers ?? first;
  }

  private async own(): Promise<void> {
    const field = (name: string): string => (this.form.elements.namedItem(name) as HTMLInputElement | HTMLSelectElement).value;
    const one: Case = {};
    if (field("scheduler") !== "") one.scheduler = field("scheduler");
    if (field("workers") !== "") one.workers = Number(field("workers"));
    if (field("load") !== "") one.load = Number(field("load"));
    if (field("slo") !== "") one.slo_ms = { [field("service")]: Number(field("slo")) };
    if (Object.keys(one).length === 0) return say("what-if-state", "change something first: the policy, the workers, the load or an SLO");
    this.cases = [...this.cases, one];
    await this.ask();
  }

  private async ask(): Promise<void> {
    this.run.disabled = true;
    say("what-if-state", "the server simulates the last minute again …");
    const workers = this.workers;
    try {
      const answer = await json<WhatIf>(ROUTE, { seconds: 60, on_time: GOAL, cases: this.cases });
      this.show({ ...answer, cases: answer.cases.map((one, i) => ({ ...one, case: this.cases[i]! })) }, workers, this.state.runningUs);
      this.asked = true;
    } catch (error) {
      this.cases.pop(); // so that the next question is not answered the same
      say("what-if-state", error instanceof Error ? error.message : `${error}`);
    }
    this.run.disabled = false;
  }

  private show(answer: WhatIf, workers: number, at_us: number): void {
    const { recorded, replayed } = answer;
    say("what-if-state", `${many(recorded.requests, "request")} of the ${count(recorded.seconds)} s before ${this.state.clock(at_us, false)}, simulated in ` +
        `${(answer.took_ms / 1000).toFixed(1)} s; ${farOff(answer)}`);
    this.state.simulated = simulated(answer, workers, at_us);
    const isAlike = new Set(this.state.workers.map(worker => worker.type)).size <= 1;
    const ofType = isAlike ? "" : `Workers here are those of type ${this.state.workers[0]!.type}.`;
    const words = [verdict(answer, workers, this.delay()), answer.needed ? aboutNeeded(answer.needed, workers) : "", ofType].join(" ").trim();
    find("what-if-notes").textContent = [...(recorded.not_replayed ?? []).map(n => `Left out: ${count(n.requests)} of ${n.service}, ${n.why}.`), ...(recorded.notes ?? []).map(note => `${note}.`)].join(" ");
    if (words !== "") find("verdict").replaceChildren(element("b", {}, words));
    find("case-rows").replaceChildren(
      row("as it was", recorded, "base"), row("the same, simulated", replayed, "base"),
      ...answer.cases.map(one => row(nameOf(one.case, workers), one, judged(one.on_time - replayed.on_time))));
  }

  // The server's own, next to the shortest SLO of what was called.
  private delay(): { ms: number; slo_ms: number } | undefined {
    const called = this.state.lately(1).flatMap(second => Object.keys(second.services));
    const slos = called.map(name => this.state.services.get(name)?.slo_ms ?? Infinity), least = Math.min(...slos);
    return Number.isFinite(least) ? { ms: this.state.pool?.control_delay_ms ?? 0, slo_ms: least } : undefined;
  }
}

const judged = (gain: number): string => gain > NOTICEABLE ? "better" : gain < -NOTICEABLE ? "worse" : "";

function row(name: string, outcome: Outcome, tone: string): HTMLElement {
  const fill = element("i");
  fill.style.width = `${100 * outcome.on_time}%`;
  const services = Object.entries(outcome.services).map(([who, o]) => `${who}: ${percent(o.on_time)} on time`).join("\n");
  return element("tr", { class: tone, title: services }, element("td", {}, name),
                 element("td", { class: "left" }, element("span", { class: "bar", "aria-hidden": "true" }, fill)),
                 element("td", {}, percent(outcome.on_time)), element("td", {}, accuracy(outcome.accuracy)), element("td", {}, percent(outcome.busy)));
}
