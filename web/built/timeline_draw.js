import { css, hueOf, wholeOf } from "./colours.js";
import { shortCause } from "./deaths.js";
import { count, roundStep } from "./format.js";
import { firstArrival, firstDeadline } from "./timeline_data.js";
export const LEFT = 124, TOP = 20, LANE = 46, WAITING = 96, FOOT = 6, BAR = 22, PAST = 0.8;
const ROW = 12, MOST_ROWS = 7, LEAST_NAME = 90, LEAST_SIZE = 14;
export const heightFor = (workers) => TOP + Math.max(workers, 1) * LANE + WAITING + FOOT;
export const xOf = (w, us) => LEFT + (us - w.from_us) / w.span_us * (w.width - LEFT);
export const usAt = (w, x) => w.from_us + (x - LEFT) / (w.width - LEFT) * w.span_us;
export const laneAt = (y) => Math.floor((y - TOP) / LANE);
export function draw(to, picture) {
    const { window, workers } = picture, height = heightFor(workers.length);
    to.clearRect(0, 0, window.width, height);
    to.font = "11px system-ui, sans-serif";
    to.textBaseline = "middle";
    axis(to, window, height);
    clipped(to, window, height, () => workers.forEach((worker, i) => lane(to, picture, worker, TOP + i * LANE)));
    workers.forEach((worker, i) => label(to, worker.name, TOP + i * LANE + 27));
    waiting(to, picture, TOP + Math.max(workers.length, 1) * LANE);
    nowLine(to, window, height);
}
function clipped(to, w, height, paint) {
    to.save();
    to.beginPath();
    to.rect(LEFT, 0, w.width - LEFT, height);
    to.clip();
    paint();
    to.restore();
}
function label(to, text, y) {
    to.fillStyle = css("--ink");
    to.textAlign = "left";
    to.fillText(text, 2, y, LEFT - 8);
}
function axis(to, w, height) {
    const every = roundStep(w.span_us / 12);
    const text = (us) => us === 0 ? "now" : every >= 1e6 ? `${(us / 1e6).toFixed(0)} s` : `${(us / 1e3).toFixed(every < 1000 ? 1 : 0)} ms`;
    to.textAlign = "center";
    for (let at = Math.ceil((w.from_us - w.now_us) / every) * every; at + w.now_us < w.from_us + w.span_us; at += every) {
        const x = xOf(w, at + w.now_us);
        to.fillStyle = css("--grid");
        to.fillRect(x, TOP - 4, 1, height);
        to.fillStyle = css(at === 0 ? "--ink" : "--mute");
        if (x > LEFT + 14)
            to.fillText(at > 0 ? `+${text(at)}` : text(at), x, 8);
    }
}
function nowLine(to, w, height) {
    const x = xOf(w, w.now_us);
    to.fillStyle = css("--ink");
    if (x > LEFT)
        to.fillRect(x, TOP - 4, 1.5, height);
}
function lane(to, picture, worker, y) {
    const { data, window: w } = picture;
    to.fillStyle = css("--grid");
    to.fillRect(LEFT, y + LANE - 2, w.width - LEFT, 1);
    for (const load of data.loads)
        if (load.worker === worker.id)
            loading(to, w, load.model, load.start_us, load.end_us, y);
    for (const batch of data.within(worker.id, w.from_us, w.now_us))
        bar(to, picture, batch, y);
    for (const death of data.deaths)
        if (death.worker === worker.id)
            died(to, xOf(w, death.at_us), y, death);
}
function loading(to, w, model, start, end, y) {
    const x = xOf(w, start), width = Math.max(2, xOf(w, Math.min(end ?? w.now_us, w.now_us)) - x);
    to.strokeStyle = css("--mute");
    to.setLineDash([3, 3]);
    to.strokeRect(x + 0.5, y + 16.5, width, BAR - 3);
    to.setLineDash([]);
    to.fillStyle = css("--mute");
    to.textAlign = "left";
    if (width > LEAST_NAME)
        to.fillText(`loads ${model}`, x + 5, y + 27, width - 8);
}
function died(to, x, y, { model, signal }) {
    to.fillStyle = css("--bad");
    to.fillRect(x - 1, y + 2, 2, LANE - 6);
    to.textAlign = "left";
    to.fillText(`✕ ${model} died (${shortCause(signal)})`, x + 5, y + LANE - 5);
}
function bar(to, { window: w, chosen, only }, batch, y) {
    const x = xOf(w, batch.start_us), end = Math.min(batch.end_us ?? w.now_us, w.now_us), right = Math.max(x + 2, xOf(w, end) - 1);
    to.globalAlpha = only !== undefined && only !== wholeOf(batch.service) ? 0.35 : 1;
    const colour = css(hueOf(batch.service));
    held(to, w, batch, y, colour);
    to.fillStyle = colour;
    to.beginPath();
    to.roundRect(x, y + 15, right - x, BAR, 3);
    to.fill();
    if (batch.end_us === null || batch.end_us > w.now_us)
        expected(to, w, batch, right, y, colour);
    const seen = Math.max(x, LEFT);
    inside(to, batch, seen, right - seen, y);
    if (batch.id === chosen) {
        to.strokeStyle = css("--ink");
        to.lineWidth = 2;
        to.strokeRect(x - 1, y + 14, right - x + 2, BAR + 2);
        to.lineWidth = 1;
    }
    to.globalAlpha = 1;
}
function expected(to, w, batch, from, y, colour) {
    const until = xOf(w, batch.expected_end_us);
    if (until <= from)
        return;
    to.strokeStyle = colour;
    to.setLineDash([2, 2]);
    to.strokeRect(from, y + 15.5, until - from, BAR - 1);
    to.setLineDash([]);
}
function inside(to, batch, x, width, y) {
    const text = width > LEAST_NAME ? `${batch.service} × ${batch.items}` : width > LEAST_SIZE ? `${batch.items}` : "";
    if (text === "")
        return;
    to.fillStyle = inkOn(css(hueOf(batch.service)));
    to.textAlign = "center";
    to.font = "600 11px system-ui, sans-serif";
    to.fillText(text, x + width / 2, y + 15 + BAR / 2 + 0.5, width - 4);
    to.font = "11px system-ui, sans-serif";
}
export function inkOn(colour) {
    const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff";
}
function held(to, w, batch, y, colour) {
    to.fillStyle = to.strokeStyle = colour;
    const first = xOf(w, firstArrival(batch)), start = xOf(w, batch.start_us);
    if (start - first > 1) {
        to.fillRect(first, y + 8, start - first, 1);
        to.fillRect(start - 1, y + 8, 1, 7);
    }
    for (const seat of batch.requests)
        to.fillRect(xOf(w, seat.arrival_us), y + 4, 1.3, 9);
    const due = firstDeadline(batch);
    if (due !== null)
        deadline(to, xOf(w, due), y + 15, due < (batch.end_us ?? batch.expected_end_us) ? css("--bad") : colour);
}
function deadline(to, x, y, colour) {
    to.fillStyle = colour;
    to.beginPath();
    to.moveTo(x - 4, y - 6);
    to.lineTo(x + 4, y - 6);
    to.lineTo(x, y);
    to.fill();
}
function waiting(to, { data, window: w, only }, y) {
    const rows = new Map();
    for (const waiter of data.waitingAt(w.now_us))
        rows.set(waiter.service, [...rows.get(waiter.service) ?? [], waiter]);
    let at = y + 10;
    for (const service of [...rows.keys()].sort().slice(0, MOST_ROWS)) {
        to.globalAlpha = only !== undefined && only !== wholeOf(service) ? 0.35 : 1;
        clipped(to, w, at + ROW, () => rows.get(service).forEach(waiter => wait(to, w, waiter, at)));
        label(to, `${service}: ${count(rows.get(service).length)} wait`, at);
        to.globalAlpha = 1;
        at += ROW;
    }
    if (rows.size === 0)
        label(to, "no request waits", at);
}
function wait(to, w, waiter, y) {
    const colour = css(hueOf(waiter.service)), from = xOf(w, waiter.arrival_us), now = xOf(w, w.now_us);
    to.fillStyle = colour;
    to.fillRect(from, y - 4, 1.5, 8);
    to.fillRect(from, y - 0.5, now - from, 1.2);
    if (waiter.deadline_us === null)
        return;
    const due = xOf(w, waiter.deadline_us);
    to.globalAlpha *= 0.35;
    to.fillRect(now, y - 0.5, due - now, 1.2);
    to.globalAlpha /= 0.35;
    deadline(to, due, y + 3, waiter.deadline_us < w.now_us ? css("--bad") : colour);
}
