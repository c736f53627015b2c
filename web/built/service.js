import { Chart } from "./chart.js";
import { classOf, hueOf, OUTCOMES, tint } from "./colours.js";
import { accuracy, count, ms, percent, rate, reason } from "./format.js";
import { countsOf, ended, lengthOf, meanAccuracy, sum, total } from "./history.js";
import { element, find, say } from "./page.js";
import { sentences } from "./reasons.js";
import { describeKind } from "./services.js";
const KNOWN_REASONS = ["deadline", "queue"], MOST_LINES = 8;
export class ServicePanel {
    state;
    outcomes = new Chart(find("chart-outcomes"), { title: "Requests by outcome", stacked: true });
    answered = new Chart(find("chart-answered"), { title: "Requests by who answered", stacked: true });
    latency = new Chart(find("chart-latency"), { title: "Latency" });
    side = new Chart(find("chart-accuracy"), { title: "Accuracy" });
    constructor(state) {
        this.state = state;
        for (const button of find("spans").querySelectorAll("button")) {
            button.onclick = () => {
                state.minutes = Number(button.dataset["minutes"]);
                for (const other of find("spans").querySelectorAll("button"))
                    other.setAttribute("aria-pressed", String(other === button));
                this.draw(this.found);
            };
        }
    }
    found = [];
    draw(found) {
        this.found = found;
        const { state } = this, name = state.selected, slice = state.history.slice(state.minutes, state.heldAt);
        const at = slice.seconds.map(second => (second.at_us - slice.end_us) / 1e6);
        this.title(name);
        this.why(name, found);
        this.counts(name, slice.seconds);
        const minutes = slice.minutes, flow = { minutes, unit: "requests/s", say: rate };
        this.outcomes.show(at, outcomeLines(slice.seconds, name), flow);
        this.answered.show(at, this.answerLines(slice.seconds, name), flow);
        this.latency.show(at, this.latencyLines(slice.seconds, name), name === undefined
            ? { minutes, unit: "% of the SLO", say: v => `${v.toFixed(0)} %` } : { minutes, unit: "ms", say: ms });
        const side = this.sideLines(slice.seconds, name);
        this.side.show(at, side, { minutes, unit: "share", top: 1.02, bottom: name === undefined ? 0 : floorOf(side), say: v => v.toFixed(3) });
    }
    title(name) {
        const service = name === undefined ? undefined : this.state.services.get(name);
        say("service-name", name ?? "All services");
        find("service-dot").className = name === undefined ? "" : `dot ${classOf(name)}`;
        const stated = service?.accuracy === null || service?.accuracy === undefined ? "" : `, accuracy up to ${accuracy(service.accuracy)}`;
        say("service-kind", service === undefined ? "" : `${describeKind(service)}, ${service.slo_ms === null ? "no SLO" : `SLO ${ms(service.slo_ms)}`}${stated}`);
        say("answered-title", name === undefined ? "Requests by service" : service?.kind === "model" ? "Who answered" : "Which members answered");
        say("latency-title", name === undefined ? "Latency p99 against each SLO" : "Latency against the SLO");
        say("side-title", name === undefined ? "Workers busy, and accuracy" : "Accuracy served");
    }
    why(name, found) {
        const own = found.find(finding => finding.service === name);
        const well = name === undefined ? (found.length === 0 ? "No service loses more than 1 % of its requests." :
            `${found.map(finding => finding.service).join(", ")} ${found.length === 1 ? "loses" : "lose"} requests; choose one on the left to see why.`)
            : "It keeps its deadlines: less than 1 % of its requests were lost in the last minute.";
        const died = this.state.deaths.find(one => name === undefined || one.services.includes(name));
        const dead = died === undefined || own?.why === died.what ? "" : `${died.what} ${died.lost} ${died.next}`;
        const lost = own === undefined ? (dead === "" ? well : "") : `It lost ${percent(own.share)} in the last minute. ${own.why} ${own.advice}`;
        say("service-why", sentences(lost, dead));
        find("service-why").className = own === undefined && dead === "" ? "note" : "";
    }
    counts(name, seconds) {
        const tally = total(seconds, name), all = ended(tally), mean = meanAccuracy(seconds, name);
        const part = (n, what) => `${count(n)} ${what}${all > 0 && n > 0 ? ` (${percent(n / all)})` : ""}`;
        const rejected = Object.entries(tally.rejected).filter(([, n]) => n > 0).map(([why, n]) => part(n, `rejected, since ${reason(why)}`));
        say("service-counts", `In the last ${this.state.minutes === 1 ? "minute" : `${this.state.minutes} minutes`}: ` +
            [`${count(tally.offered)} offered`, part(tally.on_time, "on time"), part(tally.late, "late"), ...rejected,
                part(tally.failed, "failed"), ...(tally.cancelled > 0 ? [`${count(tally.cancelled)} cancelled by clients`] : []),
                ...(mean === null ? [] : [`accuracy ${accuracy(mean)}`])].join(" · "));
        const numbers = { offered: tally.offered, on_time: tally.on_time, late: tally.late, failed: tally.failed,
            rejected: sum(tally.rejected), cancelled: tally.cancelled };
        for (const [key, value] of Object.entries(numbers))
            find("service-counts").dataset[key] = `${value}`;
        this.batches(name, seconds);
    }
    batches(name, seconds) {
        const host = find("batch-sizes");
        if (name === undefined)
            return host.replaceChildren(element("span", {}, "Choose a service to see the sizes of its batches."));
        const counts = Object.entries(countsOf(seconds, name, "batches")).map(([size, n]) => [Number(size), n]).sort(([a], [b]) => a - b);
        const most = Math.max(1, ...counts.map(([, n]) => n)), all = counts.reduce((t, [, n]) => t + n, 0);
        if (all === 0)
            return host.replaceChildren(element("span", {}, "No batch of its own ran."));
        const mean = counts.reduce((t, [size, n]) => t + size * n, 0) / all;
        host.setAttribute("aria-label", `Batches by size: ${counts.map(([size, n]) => `${n} of ${size}`).join(", ")}`);
        host.replaceChildren(element("span", {}, `batches by size, mean ${mean.toFixed(1)}`), ...thinned(counts).map(([size, n]) => {
            const bar = element("i", { class: classOf(name) });
            bar.style.height = `${Math.max(1, 34 * n / most)}px`;
            return element("div", { title: `${count(n)} batches of ${size}` }, bar, `${size}`);
        }));
    }
    answerLines(seconds, name) {
        if (name === undefined)
            return byService(seconds);
        const totals = countsOf(seconds, name, "answered_by"), names = Object.keys(totals).sort();
        if (names.length === 0) {
            return [{ label: name, colour: hueOf(name), values: seconds.map(second => answers(second.services[name]) / lengthOf(second)) }];
        }
        const main = names.sort((a, b) => totals[b] - totals[a]).slice(0, MOST_LINES).sort();
        return main.map((member, i) => ({
            label: member, colour: tint(hueOf(name), 1 - 0.55 * i / Math.max(main.length - 1, 1)),
            values: seconds.map(second => (second.services[name]?.answered_by[member] ?? 0) / lengthOf(second))
        }));
    }
    latencyLines(seconds, name) {
        const of = (what, who) => seconds.map(second => second.services[who]?.[what] ?? null);
        if (name === undefined) {
            const slo = (who) => this.state.budgetOf(who)?.most ?? null;
            const limited = busiest(seconds).filter(who => slo(who) !== null);
            return [...apart(limited).map(({ name: who, colour }) => ({ label: who, colour, values: of("p99_ms", who).map(v => v === null ? null : 100 * v / slo(who)) })),
                { label: "SLO", colour: "--bad", dashed: true, values: seconds.map(() => 100) }];
        }
        const due = this.state.budgetOf(name);
        const lines = [{ label: "p50", colour: tint(hueOf(name), 0.55), values: of("p50_ms", name) },
            { label: "p99", colour: hueOf(name), values: of("p99_ms", name) }];
        if (due !== undefined)
            lines.push({ label: due.own ? "longest own deadline" : "SLO", colour: "--bad", dashed: true, values: seconds.map(() => due.most) });
        return lines;
    }
    sideLines(seconds, name) {
        const served = seconds.map(second => (name === undefined ? second.pool : second.services[name])?.accuracy ?? null);
        if (name === undefined) {
            return [{ label: "workers busy", colour: "--s1", values: seconds.map(second => second.pool.busy) },
                { label: "accuracy", colour: "--s3", values: served }];
        }
        const best = this.state.services.get(name)?.accuracy ?? null;
        const lines = [{ label: "served", colour: hueOf(name), values: served }];
        if (best !== null)
            lines.push({ label: "with time for all", colour: "--mute", dashed: true, values: seconds.map(() => best) });
        return lines;
    }
}
const answers = (part) => part === undefined ? 0 : part.on_time + part.late;
function outcomeLines(seconds, name) {
    const of = (get) => seconds.map(second => {
        const part = name === undefined ? second.pool : second.services[name];
        return part === undefined ? 0 : get(part) / lengthOf(second);
    });
    const other = (t) => Object.entries(t.rejected).reduce((all, [why, n]) => all + (KNOWN_REASONS.includes(why) ? 0 : n), 0);
    const values = {
        on_time: of(t => t.on_time), late: of(t => t.late), rejected_deadline: of(t => t.rejected["deadline"] ?? 0),
        rejected_queue: of(t => t.rejected["queue"] ?? 0), rejected_other: of(other), failed: of(t => t.failed), cancelled: of(t => t.cancelled)
    };
    const rare = new Set(["rejected_queue", "rejected_other", "failed", "cancelled"]);
    return Object.keys(OUTCOMES).filter(key => !rare.has(key) || values[key].some(v => v > 0))
        .map(key => ({ ...OUTCOMES[key], values: values[key] }));
}
function busiest(seconds) {
    const counts = {};
    for (const second of seconds)
        for (const [name, part] of Object.entries(second.services)) {
            if (part.stage !== true)
                counts[name] = (counts[name] ?? 0) + part.offered;
        }
    return Object.entries(counts).sort(([, a], [, b]) => b - a).slice(0, MOST_LINES).map(([name]) => name).sort();
}
const byService = (seconds) => apart(busiest(seconds)).map(({ name, colour }) => ({
    label: name, colour, values: seconds.map(second => (second.services[name]?.offered ?? 0) / lengthOf(second))
}));
function apart(names) {
    const seen = new Map();
    return names.map(name => {
        const hue = hueOf(name), before = seen.get(hue) ?? 0;
        seen.set(hue, before + 1);
        return { name, colour: before === 0 ? hue : tint(hue, 1 / (1 + before)) };
    });
}
function floorOf(lines) {
    const values = lines.flatMap(line => line.values).filter(v => v !== null);
    return values.length === 0 ? 0 : Math.max(0, Math.floor(20 * Math.min(...values) - 0.5) / 20);
}
function thinned(counts) {
    const step = Math.ceil(counts.length / 16), result = [];
    for (let i = 0; i < counts.length; i += step) {
        const part = counts.slice(i, i + step), first = part[0][0], last = part.at(-1)[0];
        result.push([first === last ? `${first}` : `${first}–${last}`, part.reduce((t, [, n]) => t + n, 0)]);
    }
    return result;
}
