import { History } from "./history.js";
const SAME = 0.02;
export class State {
    history = new History();
    services = new Map();
    unserved = new Map();
    deaths = [];
    workers = [];
    selected;
    minutes = 5;
    heldAt;
    hello;
    budgets = new Map();
    simulated;
    ahead;
    begin(hello) {
        this.hello = hello;
        this.history.begin(hello);
        this.setServices(hello.services);
        this.setUnserved(hello.unserved ?? []);
        this.setWorkers(hello.workers);
        this.ahead = undefined;
        this.tick(hello.now_us);
    }
    budgetOf(name) {
        const slo = this.services.get(name)?.slo_ms ?? null, own = this.budgets.get(name);
        const same = (a) => slo !== null && Math.abs(a - slo) <= SAME * Math.max(a, slo);
        if (own !== undefined && !(same(own.least) && same(own.most)))
            return { ...own, own: true };
        return slo === null ? undefined : { least: slo, most: slo, own: false };
    }
    setWorkers(workers) { this.workers = workers.filter(worker => worker.serving !== false); }
    setUnserved(rows) { this.unserved = new Map(rows.map(row => [row.name, row.reason])); }
    setServices(services) {
        this.services.clear();
        for (const service of services)
            this.services.set(service.name, service);
    }
    tick(now_us) {
        const ahead = now_us - 1000 * performance.now();
        this.ahead = this.ahead === undefined || ahead > this.ahead ? ahead : this.ahead + 0.02 * (ahead - this.ahead);
    }
    get nowUs() { return this.heldAt ?? this.runningUs; }
    get runningUs() { return (this.ahead ?? 0) + 1000 * performance.now(); }
    hold(on) { this.heldAt = on ? this.runningUs : undefined; }
    lately(minutes) { return this.history.slice(minutes, this.heldAt).seconds; }
    get pool() { return this.lately(1).at(-1)?.pool; }
    wall(us) {
        const hello = this.hello;
        return new Date(hello === undefined ? 0 : hello.epoch_ms + (us - hello.now_us) / 1000);
    }
    clock(us, fraction = true) {
        const at = this.wall(us), two = (n) => `${n}`.padStart(2, "0");
        const seconds = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
        return fraction ? `${seconds}.${`${at.getMilliseconds()}`.padStart(3, "0")}` : seconds;
    }
}
