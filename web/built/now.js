import { Spark } from "./chart.js";
import { accuracy, count, many, megabytes, percent, rate } from "./format.js";
import { ended, lengthOf, lost, sum } from "./history.js";
import { find, say } from "./page.js";
import { lacking } from "./reasons.js";
const IDLE_S = 5;
const share = (part, whole) => whole === 0 ? null : part / whole;
export class Now {
    state;
    numbers = [];
    shown = new Set();
    constructor(state) {
        this.state = state;
        const add = (id, colour, of, top) => {
            this.numbers.push({ id, line: new Spark(find(`${id}-line`), colour, top), of });
        };
        add("offered", "--mute", (p, length) => p.offered / length);
        add("on-time", "--good", p => share(p.on_time, ended(p)), 1.02);
        add("rejected", "--warn", p => share(sum(p.rejected), ended(p)));
        add("late", "--bad", p => share(p.late + p.failed, ended(p)));
        add("busy", "--s1", p => p.busy, 1.02);
        add("wanted", "--s6", p => p.workers_wanted);
        add("memory", "--mute", p => p.memory_mb);
        add("accuracy", "--s3", p => p.accuracy, 1.02);
    }
    draw(helped) {
        const seconds = this.state.lately(5), pool = seconds.at(-1)?.pool;
        if (pool === undefined)
            return;
        const last = seconds.at(-1).at_us;
        for (const { line, of } of this.numbers) {
            line.show(seconds.map(second => (second.at_us - last) / 1e6), seconds.map(second => of(second.pool, lengthOf(second))));
        }
        this.values(seconds.at(-1));
        this.wanted(pool, helped);
    }
    values(second) {
        const { pool, services } = second, length = lengthOf(second), all = ended(pool), bad = lost(pool);
        for (const name of Object.keys(services))
            this.shown.add(name);
        say("offered", rate(pool.offered / length));
        say("offered-note", "requests, last second");
        this.coloured("on-time", all === 0 ? "–" : percent(pool.on_time / all), all > 0 && bad / all > 0.01 ? "bad" : all > 0 ? "good" : "");
        say("on-time-note", all === 0 ? "no request ended" : `${rate(pool.on_time / length)} of ${rate(all / length)}/s`);
        const rejected = sum(pool.rejected);
        this.coloured("rejected", all === 0 ? "–" : percent(rejected / all), all > 0 && rejected / all > 0.01 ? "warn" : "");
        say("rejected-note", Object.entries(pool.rejected).filter(([, n]) => n > 0).map(([name, n]) => `${name} ${rate(n / length)}/s`).join(" · ") || "none");
        this.coloured("late", all === 0 ? "–" : percent((pool.late + pool.failed) / all), pool.late + pool.failed > 0 ? "bad" : "");
        say("late-note", `late ${rate(pool.late / length)}/s · failed ${rate(pool.failed / length)}/s`);
        say("busy", percent(pool.busy));
        const replaced = this.state.lately(5).reduce((all, second) => all + (second.pool.renewals ?? 0), 0);
        say("busy-note", `${many(pool.workers, "worker")}, ${count(pool.idle)} idle${replaced > 0 ? `, ${count(replaced)} replaced` : ""}`);
        say("memory", megabytes(pool.memory_mb));
        this.accuracy();
    }
    accuracy() {
        const latest = [...this.state.lately(1)].reverse(), ago = latest.findIndex(second => second.pool.accuracy !== null);
        say("accuracy", ago < 0 ? "–" : accuracy(latest[ago].pool.accuracy));
        say("accuracy-note", ago < 0 ? "none stated" : ago === 0 ? "mean, last second" : `mean, ${ago} s ago`);
    }
    wanted(pool, helped) {
        const wanted = pool.workers_wanted, more = wanted === null ? 0 : wanted - pool.workers;
        const most = Math.max(0, ...this.state.lately(1).map(second => lacking(second.pool)));
        this.coloured("wanted", wanted === null ? "–" : count(wanted), more > 0 ? "bad" : "");
        say("wanted-of", `of ${count(pool.workers)}`);
        if (this.state.lately(1).slice(-IDLE_S).every(second => second.pool.offered === 0 && second.pool.busy === 0)) {
            this.coloured("wanted", "–", "");
            return say("wanted-note", "no load now");
        }
        say("wanted-note", wanted === null ? "after 10 s" : more > 0 ? `${count(more)} more ${helped === 0 ? "won't help" : "needed"}`
            : helped !== undefined && helped > 0 ? `${count(helped)} more would help` : most > 0 ? `up to ${count(pool.workers + most)} in 1 min` : more < 0 ? `${count(-more)} to spare` : "as many as there are");
    }
    coloured(id, text, tone) {
        say(id, text);
        find(id).className = tone;
    }
}
