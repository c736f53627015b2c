import { classOf, hueOf, tint } from "./colours.js";
import { accuracy, many, ms, percent, rate } from "./format.js";
import { ended, lengthOf, lost, meanAccuracy, total, worst } from "./history.js";
import { element, find, say } from "./page.js";
const KINDS = { model: "model", variants: "variants service", ensemble: "ensemble",
    pipeline: "pipeline", stream: "stream service" };
export function describeKind(service) {
    if (service === undefined)
        return "";
    const n = service.members.length;
    if (service.kind === "model")
        return "model";
    return n > 0 ? `${service.kind} of ${n}` : service.kind;
}
function against(p99, due) {
    if (due === undefined)
        return p99 === null ? "no SLO" : `${ms(p99)}, no SLO`;
    const plain = (value) => ms(value).replace(/ ms$/, "");
    if (!due.own)
        return p99 === null ? `of ${ms(due.most)}` : `${plain(p99)} of ${ms(due.most)}`;
    const own = due.most - due.least < 0.02 * due.most ? `own deadline ${ms(due.most)}` : `own deadlines ${plain(due.least)}–${ms(due.most)}`;
    return p99 === null ? own : `${ms(p99)}, ${own}`;
}
const MOST_ROWS = 12;
function foldedWords(services, models) {
    const parts = [...services > 0 ? [many(services, "service")] : [], ...models > 0 ? [many(models, "model")] : []];
    return `${parts.join(" and ")} without requests`;
}
export class Services {
    state;
    choose;
    rows = new Map();
    filter = find("filter");
    more = find("more-services");
    unfolded = false;
    constructor(state, choose) {
        this.state = state;
        this.choose = choose;
        this.filter.oninput = () => this.draw();
        this.more.onclick = () => { this.unfolded = !this.unfolded; this.draw(); };
    }
    draw() {
        const five = this.state.lately(5), minute = this.state.lately(1);
        const called = new Set(five.flatMap(second => Object.keys(second.services)));
        const known = new Set([...this.state.services.keys(), ...called]);
        const lately = (name) => called.has(name) || this.state.services.get(name)?.configured !== false;
        const wanted = this.filter.value.trim().toLowerCase();
        const matches = (name) => wanted === "" || `${name} ${this.state.services.get(name)?.kind ?? ""}`.toLowerCase().includes(wanted);
        const order = this.order(called), all = [...known].filter(matches).sort(order);
        const usual = all.filter(lately).filter((name, i) => called.has(name) || i < MOST_ROWS);
        const shown = this.unfolded || wanted !== "" ? all : usual, folded = all.filter(name => !usual.includes(name));
        this.kinds(called);
        this.more.hidden = folded.length === 0 || wanted !== "";
        this.more.textContent = this.unfolded ? "fold away what has no requests" : foldedWords(folded.filter(lately).length, folded.filter(name => !lately(name)).length);
        this.place(["", ...shown], minute);
    }
    order(called) {
        return (a, b) => Number(called.has(b)) - Number(called.has(a)) || a.localeCompare(b);
    }
    kinds(called) {
        const counts = new Map();
        for (const service of this.state.services.values()) {
            if (service.configured !== false || called.has(service.name))
                counts.set(service.kind, (counts.get(service.kind) ?? 0) + 1);
        }
        say("kinds", [...counts].map(([kind, n]) => many(n, KINDS[kind] ?? kind)).join(" · ") + `; ${called.size} called in the last 5 minutes`);
    }
    place(names, minute) {
        const body = find("service-rows");
        const rows = names.map(name => {
            const row = this.rows.get(name) ?? this.make(name);
            this.fill(name, row, minute);
            return row.row;
        });
        if (rows.length !== body.children.length || rows.some((row, i) => body.children[i] !== row))
            body.replaceChildren(...rows);
    }
    make(name) {
        const fill = element("i"), meter = element("span", { class: "meter", "aria-hidden": "true" }, fill), text = element("span", { class: "note" });
        const cells = [element("td"), element("td"), element("td", { class: "accuracy" }), element("td", { class: "left" }, meter, text)];
        const label = element("button", { type: "button", class: "name" }, name || "all services");
        if (name !== "")
            label.prepend(element("i", { class: `dot ${classOf(name)}` }));
        const kind = element("span", { class: "kind" }), first = element("td", {}, label, kind);
        const row = element("tr", { onclick: () => this.choose(name || undefined) }, first, ...cells);
        row.dataset["service"] = name;
        const made = { row, kind, cells, meter, fill, text };
        this.rows.set(name, made);
        return made;
    }
    describe(name, kind) {
        const died = this.state.deaths.find(one => one.services.includes(name)), service = this.state.services.get(name);
        const of = died === undefined || died.model === name || service?.members.length === 1 ? "" : `${died.model} `;
        const text = died !== undefined ? `${of}${died.short}` : this.state.unserved.has(name) ? "not served" : describeKind(service);
        if (kind.textContent !== text)
            kind.textContent = text;
        kind.classList.toggle("bad", died !== undefined || this.state.unserved.has(name));
    }
    fill(name, row, minute) {
        const tally = total(minute, name || undefined), all = ended(tally), share = all === 0 ? 0 : lost(tally) / all;
        const set = (cell, text) => { if (cell.textContent !== text)
            cell.textContent = text; };
        set(row.cells[0], rate(tally.offered / minute.reduce((all, second) => all + lengthOf(second), 0)));
        set(row.cells[1], all === 0 ? "–" : percent(tally.on_time / all));
        set(row.cells[2], accuracy(meanAccuracy(minute, name || undefined)));
        row.cells[1].className = share > 0.05 ? "bad" : share > 0.01 ? "warn" : "";
        row.row.setAttribute("aria-selected", String((this.state.selected ?? "") === name));
        row.meter.hidden = name === "";
        if (name === "")
            return;
        this.describe(name, row.kind);
        const due = this.state.budgetOf(name), least = due === undefined || due.own ? null : due.most, p99 = worst(minute.slice(-10), name, "p99_ms");
        set(row.text, against(p99, due));
        row.text.style.whiteSpace = least === null ? "" : "nowrap";
        row.meter.hidden = least === null;
        row.fill.style.width = `${least === null || p99 === null ? 0 : Math.min(100, 100 * p99 / least)}%`;
        row.fill.style.background = tint(hueOf(name), 0.85);
        row.meter.classList.toggle("over", least !== null && p99 !== null && p99 > least);
    }
}
