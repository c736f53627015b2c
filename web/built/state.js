import { History } from "./history.js";
export class State {
    history = new History();
    services = new Map();
    workers = [];
    selected;
    minutes = 5;
    heldAt;
    hello;
    ahead;
    begin(hello) {
        this.hello = hello;
        this.history.begin(hello);
        this.setServices(hello.services);
        this.setWorkers(hello.workers);
        this.ahead = undefined;
        this.tick(hello.now_us);
    }
    setWorkers(workers) { this.workers = workers.filter(worker => worker.serving !== false); }
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
