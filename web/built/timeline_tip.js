import { causeOf } from "./deaths.js";
import { fine, many, waitedFor } from "./format.js";
import { element } from "./page.js";
import { firstArrival, firstDeadline } from "./timeline_data.js";
const MOST = 6;
export function describe(batch, state) {
    const worker = state.workers.find(w => w.id === batch.worker)?.name ?? `worker ${batch.worker}`;
    const end = batch.end_us ?? batch.expected_end_us, due = firstDeadline(batch), waited = batch.start_us - firstArrival(batch);
    const ran = batch.end_us === null ? `should run ${fine(end - batch.start_us)}` :
        `ran ${fine(end - batch.start_us)} (expected ${fine(batch.expected_end_us - batch.start_us)})`;
    const model = batch.model === batch.service ? "" : ` (${batch.model})`;
    const slack = due === null ? "none of its requests has a deadline" : due >= end ? `ended ${fine(due - end)} before its first deadline`
        : `ended ${fine(end - due)} after its first deadline`;
    const lines = [
        `${worker}, ${state.clock(batch.start_us)}, ${ran}; ${slack}`,
        `waited ${fine(waited)} for ${waitedFor(batch.waited_for)}`,
        `started because: ${batch.why || batch.rule.replaceAll("_", " ")}`,
    ];
    return [element("b", {}, `${batch.service} × ${batch.items}${model}`), ...lines.map(text => element("div", {}, text)), seats(batch, end)];
}
export function describeDeath(death, state) {
    const died = state.deaths.find(one => one.model === death.model);
    const lines = [`${state.clock(death.at_us)}: ${causeOf(death.signal)}`, ...died === undefined ? [] : [died.lost, died.next]];
    return [element("b", {}, `the process of model ${death.model} died`), ...lines.map(text => element("div", {}, text))];
}
function seats(batch, end) {
    const row = (seat) => element("tr", {}, ...[`${seat.id}`, seat.service, fine(batch.start_us - seat.arrival_us),
        seat.deadline_us === null ? "–" : fine(seat.deadline_us - end)].map(text => element("td", {}, text)));
    const shown = batch.requests.slice(0, MOST), more = batch.requests.length - shown.length + (batch.more ?? 0);
    const head = element("tr", {}, ...["request", "of", "waited", "slack"].map(text => element("th", {}, text)));
    return element("div", {}, element("table", {}, head, ...shown.map(row)), more > 0 ? `and ${many(more, "request")} more; enter opens one` : "enter or a click opens one");
}
