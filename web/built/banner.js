import { count, percent } from "./format.js";
import { total } from "./history.js";
import { element, find } from "./page.js";
import { allIsWell, sentences } from "./reasons.js";
export class Banner {
    state;
    steps;
    shown = "";
    acted = "";
    constructor(state, steps) {
        this.state = state;
        this.steps = steps;
    }
    draw(found) {
        const first = found[0];
        find("findings").classList.toggle("wrong", first !== undefined || this.state.deaths.length > 0);
        const [lead, why, also] = this.said(found);
        const text = [lead, why, also].join("\n");
        if (text !== this.shown) {
            find("finding").replaceChildren(element("p", { class: "lead" }, lead), element("p", {}, why), element("p", { class: "note" }, also));
        }
        this.shown = text;
        const key = first === undefined ? "" : `${first.service} ${first.rejected}`;
        if (key === this.acted)
            return;
        this.acted = key;
        find("acts").replaceChildren(...(first === undefined ? [] : this.acts(first)));
    }
    said(found) {
        const first = found[0], died = this.state.deaths[0];
        const dead = died === undefined ? "" : `${died.what} ${died.lost} ${died.next}`;
        if (first !== undefined)
            return [first.what, `${first.why} ${first.advice}`, sentences(died?.services.includes(first.service) ? "" : dead, others(found))];
        if (died === undefined)
            return [allIsWell(this.state.lately(1)), this.spare(), ""];
        const rest = this.state.deaths.slice(1).map(one => `${one.model} ${one.short}`);
        return [died.what, `${died.lost} ${died.next}`, rest.length === 0 ? "" : `Also in the last minute: ${rest.join("; ")}.`];
    }
    spare() {
        const first = [...this.state.services.values()].find(service => service.configured !== false);
        if (first !== undefined && total(this.state.lately(1)).offered === 0) {
            return `To see it work, send some: fermata load --service ${first.name}:100`;
        }
        const pool = this.state.pool, spare = pool === undefined || pool.workers_wanted === null ? 0 : pool.workers - pool.workers_wanted;
        return spare > 0 ? `The workers have time to spare: ${count(pool.workers - spare)} of ${count(pool.workers)} would do.`
            : "When a service loses more than 1 % of its requests, this says why.";
    }
    acts(first) {
        const button = (text, act) => element("button", { type: "button", onclick: act }, text);
        return [button("What would more workers bring?", () => this.steps.whatIf(first.service)),
            button(first.rejected ? "Why was a request rejected?" : "Why was a request late?", () => this.steps.request(first.rejected ? "rejected" : "late", first.service)),
            button(`Show ${first.service}`, () => this.steps.select(first.service))];
    }
}
function others(found) {
    const rest = found.slice(1).map(finding => `${finding.service} ${percent(finding.share)}`);
    return rest.length === 0 ? "" : `Also lost in the last minute: ${rest.join(", ")}.`;
}
