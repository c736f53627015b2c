// What the planners last decided, with the command that replays it, and the server's log.

import type { Decision, LogEvent, Tuning } from "./contract.js";
import { fine } from "./format.js";
import { element, find, json } from "./page.js";
import type { State } from "./state.js";

const MOST_LINES = 100, SAID_MS = 1500;

export class Decisions {
  private known = "";
  constructor(private readonly state: State) {}

  async refresh(): Promise<void> {
    try {
      const { decisions, tuning } = await json<{ decisions: Decision[]; tuning: Tuning }>("/v2/live/decisions");
      const key = JSON.stringify([decisions, tuning]);
      if (key === this.known) return; // so that a selected text stays selected
      this.known = key;
      const rows = decisions.sort((a, b) => (b.at_us ?? 0) - (a.at_us ?? 0)).map(decision => this.row(decision));
      find("decision-rows").replaceChildren(this.rules(tuning), ...(rows.length > 0 ? rows : ["Nothing has been planned yet: no service here has a planner that decided something."]));
    } catch (error) {
      find("decision-rows").textContent = error instanceof Error ? error.message : `${error}`;
    }
  }

  private when({ at_us, took_ms }: Decision): string {
    const at = at_us === null ? "each time a worker becomes free" : this.state.clock(at_us, false);
    return took_ms === null ? at : `${at}, planned in ${fine(1000 * took_ms)}`;
  }

  // Which rules the scheduler follows, and what the others would have lost.
  private rules(tuning: Tuning): HTMLElement {
    const since = tuning.moves > 0 ? ` since ${this.state.clock(tuning.since_us, false)}` : " since the start";
    const known = tuning.tried.filter(row => row.loss !== null).sort((a, b) => a.loss! - b.loss!);
    const lost = known.map(row => `${row.rules} ${(100 * row.loss!).toFixed(2)} %`).join(", ");
    const why = tuning.fixed !== null ? `Other rules are not tried here: ${tuning.fixed}.`
      : lost === "" ? "No others have been tried on this load yet."
      : `Of its worst service's last requests each would have lost: ${lost}.`;
    return element("article", {}, element("p", {}, element("b", {}, `Scheduling rules: ${tuning.rules}`), element("span", { class: "note" }, since)),
                   element("p", {}, why));
  }

  private row(decision: Decision): HTMLElement {
    const title = element("p", {}, element("b", {}, [decision.kind, decision.service].filter(part => part).join(": ")),
                          element("span", { class: "note" }, ` ${this.when(decision)} `));
    if (decision.document) title.append(element("a", { href: decision.document }, "what it saw"));
    const made = element("article", {}, title, element("p", {}, decision.summary));
    if (decision.replay) made.append(replay(`curl -s ${location.origin}${decision.document} | ${decision.replay}`));
    return made;
  }
}

function replay(command: string): HTMLElement {
  const button = element("button", { type: "button", onclick: () => void copy(command, button) }, "copy");
  return element("div", { class: "replay" }, element("code", {}, command), button);
}

async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "select it and copy"; // browsers give the clipboard only to https and localhost
  }
  window.setTimeout(() => { button.textContent = "copy"; }, SAID_MS);
}

export function log(event: LogEvent, state: State): void {
  const list = find("log-rows");
  list.querySelector("li.note")?.remove();
  const tone = event.level === "error" ? "bad" : event.level.startsWith("warn") ? "warn" : "";
  list.prepend(element("li", {}, element("span", { class: "note" }, `${state.clock(event.at_us, false)} `), element("span", { class: tone }, event.text)));
  while (list.children.length > MOST_LINES) list.lastElementChild!.remove();
}
