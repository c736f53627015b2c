import { accuracy, count, many, percent } from "./format.js";
import { element, find, json, say } from "./page.js";
import { NOTICEABLE } from "./reasons.js";
import { aboutNeeded, farOff, nameOf, simulated, usualCases, verdict } from "./verdict.js";
const ROUTE = "/v2/live/what_if", GOAL = 0.99, SCHEDULERS = ["fermata", "edf", "eager", "deferred", "clockwork", "nexus"];
export class WhatIfPanel {
    state;
    run = find("what-if-run");
    form = find("what-if-form");
    cases = [];
    asked = false;
    constructor(state) {
        this.state = state;
        this.run.onclick = () => void this.usual();
        this.form.onsubmit = event => { event.preventDefault(); void this.own(); };
    }
    choices(schedulers) {
        this.select("scheduler", [new Option("as now", ""), ...(schedulers ?? SCHEDULERS).map(name => new Option(name))]);
        const limited = [...this.state.services.values()].filter(service => service.slo_ms !== null && service.configured !== false);
        this.select("service", limited.map(service => new Option(service.name)));
    }
    select(name, options) {
        const field = this.form.elements.namedItem(name), key = options.map(option => option.value).join("\n");
        if (field.dataset["options"] === key)
            return;
        field.dataset["options"] = key;
        field.replaceChildren(...options);
    }
    async usual(worst) {
        const called = new Set(this.state.lately(1).flatMap(second => Object.keys(second.services)));
        const limited = [...this.state.services.values()].filter(service => service.slo_ms !== null && called.has(service.name));
        const name = worst ?? this.state.selected ?? [...limited].sort((a, b) => a.slo_ms - b.slo_ms)[0]?.name;
        const chosen = limited.find(service => service.name === name);
        this.cases = usualCases(this.workers, this.state.hello?.policy ?? "", chosen && { name: chosen.name, slo_ms: chosen.slo_ms });
        await this.ask();
    }
    told(answer) {
        const workers = answer.cases[0].case.workers - 1;
        if (this.asked)
            this.state.simulated = simulated(answer, workers, answer.at_us);
        else
            this.show(answer, workers, answer.at_us);
    }
    prepare() {
        if (this.asked)
            return;
        const names = usualCases(this.workers, this.state.hello?.policy ?? "", undefined).map(one => nameOf(one, this.workers));
        find("case-rows").replaceChildren(...["as it was", ...names].map(name => element("tr", {}, element("td", {}, name), element("td", { class: "left note", colspan: "4" }, "not asked yet"))));
    }
    get workers() {
        const { pool, workers } = this.state, first = workers.filter(worker => worker.type === workers[0].type).length;
        return first < workers.length ? first : pool?.workers ?? first;
    }
    async own() {
        const field = (name) => this.form.elements.namedItem(name).value;
        const one = {};
        if (field("scheduler") !== "")
            one.scheduler = field("scheduler");
        if (field("workers") !== "")
            one.workers = Number(field("workers"));
        if (field("load") !== "")
            one.load = Number(field("load"));
        if (field("slo") !== "")
            one.slo_ms = { [field("service")]: Number(field("slo")) };
        if (Object.keys(one).length === 0)
            return say("what-if-state", "change something first: the policy, the workers, the load or an SLO");
        this.cases = [...this.cases, one];
        await this.ask();
    }
    async ask() {
        this.run.disabled = true;
        say("what-if-state", "the server simulates the last minute again …");
        const workers = this.workers;
        try {
            const answer = await json(ROUTE, { seconds: 60, on_time: GOAL, cases: this.cases });
            this.show({ ...answer, cases: answer.cases.map((one, i) => ({ ...one, case: this.cases[i] })) }, workers, this.state.runningUs);
            this.asked = true;
        }
        catch (error) {
            this.cases.pop();
            say("what-if-state", error instanceof Error ? error.message : `${error}`);
        }
        this.run.disabled = false;
    }
    show(answer, workers, at_us) {
        const { recorded, replayed } = answer;
        say("what-if-state", `${many(recorded.requests, "request")} of the ${count(recorded.seconds)} s before ${this.state.clock(at_us, false)}, simulated in ` +
            `${(answer.took_ms / 1000).toFixed(1)} s; ${farOff(answer)}`);
        this.state.simulated = simulated(answer, workers, at_us);
        const isAlike = new Set(this.state.workers.map(worker => worker.type)).size <= 1;
        const ofType = isAlike ? "" : `Workers here are those of type ${this.state.workers[0].type}.`;
        const words = [verdict(answer, workers, this.delay()), answer.needed ? aboutNeeded(answer.needed, workers) : "", ofType].join(" ").trim();
        find("what-if-notes").textContent = [...(recorded.not_replayed ?? []).map(n => `Left out: ${count(n.requests)} of ${n.service}, ${n.why}.`), ...(recorded.notes ?? []).map(note => `${note}.`)].join(" ");
        if (words !== "")
            find("verdict").replaceChildren(element("b", {}, words));
        find("case-rows").replaceChildren(row("as it was", recorded, "base"), row("the same, simulated", replayed, "base"), ...answer.cases.map(one => row(nameOf(one.case, workers), one, judged(one.on_time - replayed.on_time))));
    }
    delay() {
        const called = this.state.lately(1).flatMap(second => Object.keys(second.services));
        const slos = called.map(name => this.state.services.get(name)?.slo_ms ?? Infinity), least = Math.min(...slos);
        return Number.isFinite(least) ? { ms: this.state.pool?.control_delay_ms ?? 0, slo_ms: least } : undefined;
    }
}
const judged = (gain) => gain > NOTICEABLE ? "better" : gain < -NOTICEABLE ? "worse" : "";
function row(name, outcome, tone) {
    const fill = element("i");
    fill.style.width = `${100 * outcome.on_time}%`;
    const services = Object.entries(outcome.services).map(([who, o]) => `${who}: ${percent(o.on_time)} on time`).join("\n");
    return element("tr", { class: tone, title: services }, element("td", {}, name), element("td", { class: "left" }, element("span", { class: "bar", "aria-hidden": "true" }, fill)), element("td", {}, percent(outcome.on_time)), element("td", {}, accuracy(outcome.accuracy)), element("td", {}, percent(outcome.busy)));
}
