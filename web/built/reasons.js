import { count, many, ms, percent, rate, reason } from "./format.js";
import { ended, lost, sum, total } from "./history.js";
const TOLERATED = 0.01, BUSY = 0.9, BURST = 2, FEW = 3, TIGHT = 0.7;
export function findings(seconds, services, runs) {
    const names = new Set(seconds.flatMap(second => Object.keys(second.services)));
    return [...names].map(name => finding(name, seconds, services.get(name), runs))
        .filter(found => found !== undefined).sort((a, b) => b.share - a.share);
}
export function finding(name, seconds, service, runs) {
    const tally = total(seconds, name), all = ended(tally), bad = lost(tally);
    if (all === 0 || bad / all <= TOLERATED || bad < FEW)
        return undefined;
    const rejected = sum(tally.rejected);
    const parts = Object.entries({ ...tally.rejected }).filter(([, n]) => n > 0).sort(([, a], [, b]) => b - a)
        .map(([name, n]) => `${percent(n / all)} rejected, since ${reason(name)}`);
    if (tally.late > 0)
        parts.push(`${percent(tally.late / all)} answered late`);
    if (tally.failed > 0)
        parts.push(`${percent(tally.failed / all)} failed`);
    return { service: name, share: bad / all, rejected: rejected > tally.late + tally.failed,
        what: `${name} lost ${percent(bad / all)} of its requests in the last minute (${count(bad)} of ${count(all)}): ${parts.join(", ")}.`,
        ...cause(name, seconds, service, runs) };
}
function cause(name, seconds, service, runs) {
    const tally = total(seconds, name), bad = lost(tally), pool = poolOf(seconds, name);
    if (tally.failed > bad / 2)
        return failing();
    if ((tally.rejected["unavailable"] ?? 0) > bad / 2) {
        return { why: "Its model is not ready.", advice: "The log below says what the server does about it.", helped: 0 };
    }
    if (pool.more > 0 || pool.busy >= BUSY)
        return overloaded(pool, seconds, name);
    const slo = service?.slo_ms ?? null;
    const own = runs.get(name)?.shortest;
    if (slo !== null && own !== undefined && own > TIGHT * slo) {
        return { why: `The workers are busy only ${percent(pool.busy)} of the time, but even its shortest batch runs for ${ms(own)}: ` +
                `the SLO of ${ms(slo)} leaves almost no room for waiting.`,
            advice: "A longer SLO or a faster variant would help; more workers would not.", helped: 0 };
    }
    const other = [...runs].filter(([who]) => who !== name).sort(([, a], [, b]) => b.longest - a.longest)[0];
    if (slo !== null && other !== undefined && other[1].longest > slo / 2) {
        return { why: `Batches of ${other[0]} run for up to ${ms(other[1].longest)}, and hold a worker longer than the SLO of ${ms(slo)} can wait.`,
            advice: "One more worker, or another place for that model, would help.", helped: 1 };
    }
    const mean = tally.offered / Math.max(seconds.length, 1);
    const peak = Math.max(...seconds.map(second => second.services[name]?.offered ?? 0));
    if (peak > BURST * mean) {
        return { why: `Its requests come in bursts: up to ${rate(peak)} in one second, ${rate(mean)} on average, while the workers are busy ${percent(pool.busy)} of the time.`,
            advice: "More workers would help only while a burst lasts.", helped: 1 };
    }
    return { why: `The workers are busy only ${percent(pool.busy)} of the time; the load alone does not explain it.`,
        advice: "Look at one of its rejected or late requests below.", helped: 0 };
}
const failing = () => ({ why: "Its model ended with errors.", helped: 0,
    advice: "One of its failed requests and the log below have the message." });
function poolOf(seconds, name) {
    const bad = seconds.filter(second => second.services[name] !== undefined && lost(second.services[name]) > 0);
    const pools = (bad.length > 0 ? bad : seconds).map(second => second.pool);
    const more = pools.map(p => p.workers_wanted === null ? 0 : p.workers_wanted - p.workers);
    return { busy: pools.reduce((all, p) => all + p.busy, 0) / Math.max(pools.length, 1),
        workers: pools.at(-1)?.workers ?? 0, more: Math.max(0, ...more) };
}
function overloaded(pool, seconds, name) {
    const all = total(seconds), own = total(seconds, name), share = own.offered / Math.max(all.offered, 1);
    const part = share < 0.99 ? ` ${percent(share)} of all requests are its own.` : "";
    const busy = pool.busy >= BUSY ? `The load is beyond what ${many(pool.workers, "worker")} can run: busy ${percent(pool.busy)} of the time.`
        : `No worker was free in time for them: ${many(pool.workers, "worker")}, busy ${percent(pool.busy)} of the time on average, more when requests come together.`;
    const wanted = pool.more > 0 ? ` The server wants ${many(pool.workers + pool.more, "worker")}, ${count(pool.more)} more.` : "";
    return { why: `${busy}${part}${wanted}`,
        advice: "More workers, a faster variant or less load would help.", helped: Math.max(pool.more, 1) };
}
export function allIsWell(seconds) {
    const tally = total(seconds), all = ended(tally);
    if (all === 0)
        return "No request came in the last minute.";
    return `Every service kept its deadlines in the last minute: ${percent(tally.on_time / all)} of ${many(all, "request")} ended on time.`;
}
