import { count, many, ms, percent, points, rate, reason } from "./format.js";
import { ended, largest, lost, sum, total } from "./history.js";
const TOLERATED = 0.01, BUSY = 0.9, BURST = 2, FEW = 3, TIGHT = 0.7;
const MANY = 0.2, HALF_BUSY = 0.7;
const LATELY = 5, SETTLED = 15;
const DELAYED = 0.2;
const DRIFTED = 1.5;
export const NOTICEABLE = 0.002, FAR = 0.05, FRESH_US = 90e6;
export function findings(seconds, known) {
    const names = new Set(seconds.flatMap(second => Object.keys(second.services)));
    return [...names].map(name => finding(name, seconds, known))
        .filter(found => found !== undefined).sort((a, b) => b.share - a.share);
}
export function finding(name, seconds, known) {
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
        ...cause(name, seconds, known) };
}
function cause(name, seconds, known) {
    const tally = total(seconds, name), bad = lost(tally), pool = poolOf(seconds, name);
    const away = tally.rejected["unavailable"] ?? 0, died = known.deaths?.find(one => one.services.includes(name));
    if (died !== undefined && tally.failed + away > bad / 2)
        return { why: died.what, advice: died.next, helped: 0 };
    if (tally.failed > bad / 2)
        return failing();
    if (away > bad / 2)
        return unready(name, known);
    const slo = known.budget?.(name) ?? known.services.get(name)?.slo_ms ?? null, slower = drifted(name, seconds, known);
    const delayed = slo !== null && pool.delay_ms >= DELAYED * slo ? `The server's own delay is ${ms(pool.delay_ms)} of the ${ms(slo)}` : "";
    const told = { name, pool, seconds, known, cramped: delayed !== "" };
    if (delayed !== "" && pool.busy < BUSY) {
        const why = sentences(`${delayed}: the machine starts and answers batches too late, since its processors are busy.`, slower);
        return advised(why, ["less work for this machine's processors", "a longer SLO"], told);
    }
    const full = pool.busy >= BUSY || (pool.busy >= HALF_BUSY && bad / ended(tally) > MANY);
    if (pool.more > 0 || full) {
        return advised(overloaded(told, [delayed === "" ? "" : `${delayed} besides.`, slower]), ["a faster variant", "less load"], told);
    }
    const own = known.runs.get(name)?.shortest;
    if (slo !== null && own !== undefined && own > TIGHT * slo) {
        const why = sentences(`The workers are busy only ${percent(pool.busy)} of the time, but even its shortest batch runs for ${ms(own)}: ` +
            `the SLO of ${ms(slo)} leaves almost no room for waiting.`, slower);
        return advised(why, ["a longer SLO", "a faster variant"], told);
    }
    const other = [...known.runs].filter(([who]) => who !== name).sort(([, a], [, b]) => b.longest - a.longest)[0];
    if (slo !== null && other !== undefined && other[1].longest > slo / 2) {
        const why = `Batches of ${other[0]} run for up to ${ms(other[1].longest)}, and hold a worker longer than the SLO of ${ms(slo)} can wait.`;
        return advised(why, [`smaller batches of ${other[0]}`, "a longer SLO"], told);
    }
    const since = seconds.slice(Math.max(0, seconds.findIndex(second => (second.services[name]?.offered ?? 0) > 0)));
    const mean = tally.offered / Math.max(since.length, 1);
    const peak = Math.max(...seconds.map(second => second.services[name]?.offered ?? 0));
    if (since.length >= SETTLED && peak > BURST * mean) {
        const why = `Its requests come in bursts: up to ${rate(peak)} in one second, ${rate(mean)} on average, while the workers are busy ${percent(pool.busy)} of the time.`;
        return advised(why, ["requests that are spread over time", "a longer SLO"], told);
    }
    const why = sentences(`The workers are busy only ${percent(pool.busy)} of the time; the load alone does not explain it.`, slower);
    const { advice, helped } = advised(why, [], told);
    return { why, advice: sentences(advice, "Look at one of its rejected or late requests below."), helped };
}
const either = (all) => all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
function advised(why, others, told) {
    const { known, pool } = told, rest = either(others), said = simulatedOf(told);
    if (said === undefined) {
        const whether = known.recorded === false ? "" : "What more workers would bring is being simulated.";
        const most = pool.more > 0 && known.recorded === false ? either(["more workers", ...others]) : rest;
        return { why: sentences(why, asksFor(pool)), advice: sentences(most === "" ? "" : `${upper(most)} would help.`, whether), helped: undefined };
    }
    const { more, now, then, was } = said, workers = many(more, "more worker"), when = `Simulated${ago(said.age_s)}`;
    const off = Math.abs(now - was) < FAR ? "" : `As it was, the simulation is ${points(now - was)} off what happened.`;
    if (then - now < NOTICEABLE) {
        const signal = pool.now > 0 ? `The autoscaling signal, which counts what was lost, asks for ${count(pool.now)} more.` : "";
        return { why: sentences(why, signal), helped: 0,
            advice: sentences(`${when}, ${workers} would not help${rest === "" ? "" : `; ${rest} would`}.`, off) };
    }
    const proviso = told.cramped ? ", if these had processors of their own, as on another machine" : "";
    return { why: sentences(why, asksFor(pool)), helped: more,
        advice: sentences(`${when}, with ${workers} ${percent(then)} of its requests would be on time instead of ${percent(now)}${proviso}.`, off, rest === "" ? "" : `${upper(rest)} would help too.`) };
}
function simulatedOf({ name, seconds, known: { simulated } }) {
    const own = simulated?.services[name];
    if (simulated === undefined || own === undefined)
        return undefined;
    const age_us = (seconds.at(-1)?.at_us ?? 0) - simulated.at_us;
    return age_us >= FRESH_US ? undefined : { more: simulated.more, ...own, age_s: age_us / 1e6 };
}
const ago = (age_s) => age_s < 10 ? "" : ` ${10 * Math.floor(age_s / 10)} s ago`;
export const sentences = (...all) => all.filter(one => one !== "").join(" ");
function drifted(name, seconds, known) {
    const names = [name, ...known.services.get(name)?.members ?? []];
    const drift = largest(seconds.slice(-10).flatMap(second => names.map(one => second.services[one]?.drift))) ?? 1;
    return drift < DRIFTED ? "" : `Its batches run ${drift.toFixed(1)} times as long as their profile says.`;
}
function unready(name, known) {
    const own = [name, ...known.services.get(name)?.members ?? []].map(one => known.unserved?.get(one)).find(why => why !== undefined);
    return { why: own === undefined ? "Its model was not ready." : `Its model is not ready: ${own}.`,
        advice: "The log below says what the server does about it.", helped: 0 };
}
const failing = () => ({ why: "Its model ended with errors.", helped: 0,
    advice: "One of its failed requests and the log below have the message." });
function poolOf(seconds, name) {
    const bad = seconds.filter(second => second.services[name] !== undefined && lost(second.services[name]) > 0);
    const pools = (bad.length > 0 ? bad : seconds).map(second => second.pool);
    const delays = pools.map(p => p.control_delay_ms ?? 0).sort((a, b) => a - b);
    return { busy: pools.reduce((all, p) => all + p.busy, 0) / Math.max(pools.length, 1),
        workers: pools.at(-1)?.workers ?? 0, more: Math.max(0, ...pools.map(lacking)), now: lacking(seconds.at(-1)?.pool),
        delay_ms: delays[delays.length >> 1] ?? 0 };
}
export const lacking = (pool) => pool === undefined || pool.workers_wanted === null ? 0 : Math.max(0, pool.workers_wanted - pool.workers);
function overloaded({ name, pool, seconds }, more) {
    const all = total(seconds), own = total(seconds, name), share = own.offered / Math.max(all.offered, 1);
    const part = share < 0.99 ? `${percent(share)} of all requests are its own.` : "";
    const busy = pool.busy >= BUSY ? `The load is beyond what ${many(pool.workers, "worker")} can run: busy ${percent(pool.busy)} of the time.`
        : lately(pool, seconds, name);
    return sentences(busy, part, ...more);
}
function lately(pool, seconds, name) {
    const last = seconds.slice(-LATELY), tally = total(last, name), workers = many(pool.workers, "worker"), busy = percent(pool.busy);
    if (last.length < LATELY || tally.offered <= (1 + MANY) * tally.on_time) {
        return `No worker was free in time for them: ${workers}, busy ${busy} of the time on average, more when requests come together.`;
    }
    return `In the last ${LATELY} s ${rate(tally.offered / LATELY)} requests/s came. ${upper(workers)}, busy ${busy} of the time, answered ${rate(tally.on_time / LATELY)} a second on time.`;
}
function asksFor(pool) {
    if (pool.now > 0)
        return `The server wants ${many(pool.workers + pool.now, "worker")}, ${count(pool.now)} more.`;
    return pool.more > 0 ? `The server wanted up to ${many(pool.workers + pool.more, "worker")} then, and no more than there are now.` : "";
}
export function allIsWell(seconds) {
    const tally = total(seconds), all = ended(tally);
    if (all === 0)
        return "No request came in the last minute.";
    const bad = lost(tally);
    if (bad > TOLERATED * all) {
        return `${count(bad)} of ${many(all, "request")} ${bad === 1 ? "was" : "were"} lost in the last minute, too few to judge a service.`;
    }
    return `Every service kept its deadlines in the last minute: ${percent(tally.on_time / all)} of ${many(all, "request")} ended on time.`;
}
