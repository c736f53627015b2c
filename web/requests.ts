// One request: the latest, the slowest, a rejected or late one, or one by id, and others like it.

import { classOf } from "./colours.js";
import type { RequestRecord } from "./contract.js";
import { accuracy, fine, ms } from "./format.js";
import { element, find, json, say } from "./page.js";
import type { State } from "./state.js";
import { ofRejected } from "./verdict.js";
import { waterfall } from "./waterfall.js";

type Pick = "latest" | "slowest" | "rejected" | "late";
const ROUTE = "/v2/live/requests", MOST = 20, TONES: Record<string, string> = { on_time: "good", late: "bad", failed: "bad", rejected: "warn", cancelled: "" };

const took = (request: RequestRecord): string => request.end_us === null ? "runs still" : `ended after ${fine(request.end_us - request.arrival_us)}`;
const NONE: Record<Pick, string> = { latest: "ended", slowest: "was answered", rejected: "was rejected", late: "was late" };
export const outcomeWords = (outcome: string): string => outcome.replaceAll("_", " ");

export class Requests {
  private pick: Pick = "latest";
  private asked = 0; // an answer to an older question is not shown
  private readonly service = find<HTMLSelectElement>("pick-service");
  private readonly byId = find<HTMLInputElement>("pick-id");
  private following = true; // a person has not chosen one

  constructor(private readonly state: State) {
    for (const button of find("picks").querySelectorAll("button")) button.onclick = () => void this.choose(button.dataset["pick"] as Pick);
    this.service.onchange = () => void this.choose(this.pick);
    this.byId.onkeydown = event => { if (event.key === "Enter" && this.byId.value !== "") void this.open(this.byId.value.trim()); };
  }

  // Services that one may ask for.
  services(names: string[]): void {
    const key = names.join("\n");
    if (this.service.dataset["names"] === key) return;
    this.service.dataset["names"] = key;
    const chosen = this.service.value;
    this.service.replaceChildren(new Option("any service", ""), ...names.map(name => new Option(name)));
    this.service.value = names.includes(chosen) ? chosen : "";
  }

  async choose(pick: Pick, service = this.service.value): Promise<void> {
    this.pick = pick;
    this.following = true;
    this.service.value = service;
    for (const button of find("picks").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset["pick"] === pick));
    await this.refresh();
  }

  // The latest changes by itself; what a person has picked does not.
  async follow(): Promise<void> {
    if (this.following && this.pick === "latest") await this.refresh();
  }

  async open(id: number | string): Promise<void> {
    this.following = false;
    await this.ask(`${ROUTE}/${encodeURIComponent(`${id}`)}`);
    find("requests").scrollIntoView({ block: "nearest" });
  }

  private async refresh(): Promise<void> {
    const of = this.service.value === "" ? "" : `&service=${encodeURIComponent(this.service.value)}`;
    await this.ask(`${ROUTE}?pick=${this.pick}${of}&limit=${MOST}`);
  }

  private async ask(path: string): Promise<void> {
    const turn = ++this.asked;
    try {
      const { requests } = await json<{ requests: RequestRecord[] }>(path);
      if (turn !== this.asked) return;
      this.list(requests);
      if (requests.length > 0) this.show(requests[0]!);
      else this.nothing(`No request${this.service.value === "" ? "" : ` of ${this.service.value}`} ${NONE[this.pick]} in the last ${Math.round(this.state.hello?.recorder?.seconds ?? 60)} s, which is what the server keeps.`);
    } catch (error) {
      if (turn === this.asked) this.nothing(error instanceof Error ? error.message : `${error}`);
    }
  }

  private nothing(text: string): void {
    say("request-sentence", text);
    say("request-facts", "");
    find("waterfall").replaceChildren();
  }

  private show(request: RequestRecord): void {
    const advice = request.outcome.startsWith("rejected") ? ofRejected(request.service, this.state.simulated) : "";
    const words = outcomeWords(request.outcome), again = `${words.charAt(0).toUpperCase()}${words.slice(1)} `;
    const sentence = request.sentence.startsWith(again) ? ` ${request.sentence.slice(again.length)}` : `. ${request.sentence}`; // said once
    find("request-sentence").replaceChildren(element("b", { class: TONES[request.outcome] ?? "" }, `${request.service}: ${words}`),
                                             `${sentence}${advice === "" ? "" : ` ${advice}`}`);
    const facts = [`request ${request.id}`, ...(request.client_id ? [`the client's id ${request.client_id}`] : []), `came ${this.state.clock(request.arrival_us)}`,
                   ...(request.budget_ms === null ? ["no deadline"] : [`budget ${ms(request.budget_ms)}`]),
                   took(request),
                   ...(request.answered_by ? [`answered by ${request.answered_by}`] : []),
                   ...(request.accuracy === null ? [] : [`accuracy ${accuracy(request.accuracy)}`])];
    say("request-facts", facts.join(" · "));
    find("requests").dataset["id"] = `${request.id}`;
    waterfall(request);
  }

  private list(requests: RequestRecord[]): void {
    find("request-list").replaceChildren(...requests.map(request => {
      const open = (): void => { this.following = false; this.show(request); };
      const late = request.deadline_us === null || request.end_us === null ? "" : request.end_us > request.deadline_us ? `, ${fine(request.end_us - request.deadline_us)} after its deadline`
          : `, ${fine(request.deadline_us - request.end_us)} before its deadline`;
      return element("button", { type: "button", onclick: open }, element("i", { class: `dot ${classOf(request.service)}` }),
                     `${request.service} ${request.id}: `, element("span", { class: TONES[request.outcome] ?? "" }, outcomeWords(request.outcome)),
                     `, ${took(request)}${late}`);
    }));
  }
}
