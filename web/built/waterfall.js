import { classOf } from "./colours.js";
import { fine, roundStep } from "./format.js";
import { element, find } from "./page.js";
const TONES = { queue: "queue", worker: "queue", held: "held" }, MOST_TICKS = 6, ROOM = 1.06;
export function waterfall(request) {
    const start = Math.min(request.arrival_us, ...request.spans.map(span => span.start_us));
    const end = Math.max(request.end_us ?? 0, request.deadline_us ?? 0, ...request.spans.map(span => span.end_us ?? span.start_us));
    const length = Math.max((end - start) * ROOM, 1), share = (us) => 100 * (us - start) / length;
    const due = request.deadline_us === null ? undefined : share(request.deadline_us);
    const rows = request.spans.map(span => row(span, request, share, due));
    find("waterfall").replaceChildren(...rows, dueNote(due, request, start), axis(length));
}
function place(mark, left, width) {
    mark.style.left = `${left}%`;
    if (width !== undefined)
        mark.style.width = `${width}%`;
    return mark;
}
function row(span, request, share, due) {
    const end = span.end_us ?? span.start_us;
    const left = share(span.start_us), right = share(end), long = span.end_us === null ? "runs still" : fine(end - span.start_us);
    const tone = span.name === "run" ? classOf(request.service) : TONES[span.name] ?? "plain";
    const words = element("em", {}, long);
    if (right > 82) {
        words.style.right = `${100 - left}%`;
    }
    else
        words.style.left = `${right}%`;
    const line = element("div", {}, place(element("i", { class: tone }), left, right - left), words);
    if (due !== undefined)
        line.append(place(element("span", { class: "due" }), due));
    return element("div", { class: "fall", role: "img", "aria-label": `${span.label}: ${long}` }, element("span", { title: span.label }, span.label), line);
}
function dueNote(due, request, start) {
    const line = element("div");
    if (due !== undefined) {
        const words = element("em", { class: "bad" }, `deadline, ${fine(request.deadline_us - start)}`);
        words.style.right = `${100 - due}%`;
        line.append(place(element("span", { class: "due" }), due), words);
    }
    return element("div", { class: "fall" }, element("span"), line);
}
function axis(length_us) {
    const step = roundStep(length_us / MOST_TICKS), text = (us) => us === 0 ? "0" : `${us / 1000} ms`;
    const line = element("div", {}, ...Array.from({ length: Math.floor(length_us / step) + 1 }, (_, i) => place(element("em", step * i > 0.92 * length_us ? { class: "last" } : {}, text(step * i)), 100 * step * i / length_us)));
    return element("div", { class: "fall axis" }, element("span", { class: "note" }, "time since it came"), line);
}
