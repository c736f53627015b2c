import { Spark } from "./chart.js";
import { accuracy, count, many, megabytes, percent, rate } from "./format.js";
import { ended, lost, sum } from "./history.js";
import { find, say } from "./page.js";
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
        add("offered", "--mute", p => p.offered);
        add("on-time", "--good", p => share(p.on_time, ended(p)), 1.02);
        add("rejected", "--warn", p => share(sum(p.rejected), ended(p)));
        add("late", "--bad", p => share(p.late + p.failed, ended(p)));
        add("busy", "--s1", p => p.busy, 1.02);
        add("wanted", "--s6", p => p.workers_wanted);
        add("memory", "--mute", p => p.memory_mb);
        add("accuracy", "--s3", p => p.accuracy, 1.02);
    }
    draw() {
        const seconds = this.state.lately(5), pool = seconds.at(-1)?.pool;
        if (pool === undefined)
            return;
        const last = seconds.at(-1).at_us;
        for (const { line, of } of this.numbers) {
            line.show(seconds.map(second => (second.at_us - last) / 1e6), seconds.map(second => of(second.pool)));
        }
        this.values(pool, seconds.at(-1).services);
    }
    values(pool, services) {
        const all = ended(pool), bad = lost(pool);
        for (const name of Object.keys(services))
            this.shown.add(name);
        say("offered", rate(pool.offered));
        say("offered-note", `to ${many(Object.keys(services).length, "service")}`);
        this.coloured("on-time", all === 0 ? "–" : percent(pool.on_time / all), all > 0 && bad / all > 0.01 ? "bad" : "good");
        say("on-time-note", all === 0 ? "no request ended" : `${count(pool.on_time)} of ${count(all)}/s`);
        const rejected = sum(pool.rejected);
        this.coloured("rejected", all === 0 ? "–" : percent(rejected / all), all > 0 && rejected / all > 0.01 ? "warn" : "");
        say("rejected-note", Object.entries(pool.rejected).filter(([, n]) => n > 0).map(([name, n]) => `${name} ${count(n)}/s`).join(" · ") || "none");
        this.coloured("late", all === 0 ? "–" : percent((pool.late + pool.failed) / all), pool.late + pool.failed > 0 ? "bad" : "");
        say("late-note", `late ${count(pool.late)}/s · failed ${count(pool.failed)}/s`);
        say("busy", percent(pool.busy));
        const replaced = this.state.lately(5).reduce((all, second) => all + (second.pool.renewals ?? 0), 0);
        say("busy-note", `${many(pool.workers, "worker")}, ${count(pool.idle)} idle${replaced > 0 ? `, ${count(replaced)} replaced` : ""}`);
        this.wanted(pool);
        say("memory", megabytes(pool.memory_mb));
        say("accuracy", accuracy(pool.accuracy));
        say("accuracy-note", pool.accuracy === null ? "no service states one" : "mean, last second");
    }
    wanted(pool) {
        const wanted = pool.workers_wanted, more = wanted === null ? 0 : wanted - pool.workers;
        this.coloured("wanted", wanted === null ? "–" : count(wanted), more > 0 ? "bad" : "");
        say("wanted-of", `of ${count(pool.workers)}`);
        say("wanted-note", wanted === null ? "after 10 s" : more > 0 ? `${count(more)} more needed`
            : more < 0 ? `${count(-more)} to spare` : "as many as there are");
    }
    coloured(id, text, tone) {
        say(id, text);
        find(id).className = tone;
    }
}
