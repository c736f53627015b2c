import { classOf, onTheme } from "./colours.js";
import { shortCause } from "./deaths.js";
import { find, say, element } from "./page.js";
import { describe, describeDeath } from "./timeline_tip.js";
import { TimelineData } from "./timeline_data.js";
import { draw, heightFor, LANE, laneAt, LEFT, PAST, TOP, usAt, xOf } from "./timeline_draw.js";
const DELAY_US = 400e3;
const SPANS = { least: 2e3, most: 60e6, first: 1e6 }, SPEEDS = [1, 10, 100], FITS = 26, TIP = 350, NEAR = 6, MOST_DEATHS = 5;
const FITTED = { least: 100e3, most: 10e6 }, AFRESH = 4;
const CALM = window.matchMedia("(prefers-reduced-motion: reduce)");
export class Timeline {
    state;
    open;
    data = new TimelineData();
    canvas = find("timeline-canvas");
    tip = find("tip");
    span_us = SPANS.first;
    fitted = false;
    zoomed = false;
    end_us;
    slowed = 0;
    drawnMs = 0;
    paintedMs = 0;
    chosen;
    chosenLane = 0;
    hovered = false;
    constructor(state, open) {
        this.state = state;
        this.open = open;
        this.canvas.onpointermove = event => this.hover(event.offsetX, event.offsetY);
        this.canvas.onpointerleave = () => { this.hovered = false; if (!this.focused)
            this.forget(); };
        this.canvas.onclick = () => this.openChosen();
        this.canvas.onblur = () => this.forget();
        this.canvas.onwheel = event => this.wheel(event);
        find("slower").onclick = () => this.slower();
        find("zoom-in").onclick = () => this.zoom(0.5);
        find("zoom-out").onclick = () => this.zoom(2);
        onTheme(() => this.paint());
        const frame = () => { this.step(); requestAnimationFrame(frame); };
        requestAnimationFrame(frame);
    }
    add(event) {
        this.data.add(event, this.state.heldAt);
        this.canvas.dataset["batches"] = `${this.data.batches}`;
        this.canvas.dataset["deaths"] = `${this.data.deaths.length}`;
        const fits = this.zoomed || this.state.heldAt !== undefined ? undefined : this.fitting();
        if (fits === undefined || (this.fitted && fits < AFRESH * this.span_us && fits > this.span_us / AFRESH))
            return;
        this.fitted = true;
        this.span_us = fits;
    }
    fitting() {
        const span = this.data.fittingSpan(FITS);
        return span === undefined ? undefined : clamp(span, FITTED.least, FITTED.most);
    }
    slower() {
        this.slowed = (this.slowed + 1) % SPEEDS.length;
        this.end_us = this.slowed === 0 && this.state.heldAt === undefined ? undefined : this.now;
        say("speed", `1/${SPEEDS[this.slowed]}`);
    }
    zoom(factor) {
        this.span_us = clamp(this.span_us * factor, SPANS.least, SPANS.most);
        this.zoomed = true;
        this.paint();
    }
    fit() {
        this.zoomed = false;
        this.span_us = this.fitting() ?? SPANS.first;
        this.paint();
    }
    move(share) {
        this.end_us = Math.min(this.now + share * this.span_us, this.live);
        this.paint();
    }
    goTo(at_us) {
        this.end_us = Math.min(at_us + 0.4 * this.span_us, this.live);
        this.paint();
    }
    stay() { this.end_us ??= this.live; }
    release() {
        this.end_us = this.slowed === 0 ? undefined : this.live;
        this.forget();
    }
    next(by) {
        this.canvas.focus();
        if (this.started(this.chosenLane).length === 0) {
            this.chosenLane = Math.max(0, this.state.workers.findIndex((_, i) => this.started(i).length > 0));
        }
        const lane = this.started(this.chosenLane);
        let at = this.chosen === undefined ? -1 : lane.findIndex(batch => batch.id === this.chosen.id);
        if (at < 0)
            at = lane.filter(batch => batch.start_us < this.now).length - (by > 0 ? 1 : 0);
        this.choose(lane[clamp(at + by, 0, lane.length - 1)]);
    }
    lane(by) {
        this.chosenLane = clamp(this.chosenLane + by, 0, this.state.workers.length - 1);
        const at = this.chosen?.start_us ?? this.now, lane = this.started(this.chosenLane);
        this.choose(lane.filter(batch => batch.start_us <= at).at(-1) ?? lane[0]);
    }
    started(lane) {
        const worker = this.state.workers[lane];
        return worker === undefined ? [] : this.data.lane(worker.id).filter(batch => batch.start_us <= this.live);
    }
    get focused() { return document.activeElement === this.canvas; }
    openChosen() {
        const first = this.chosen?.requests[0];
        if (first !== undefined)
            this.open(first.id);
    }
    get live() { return Math.min(this.state.heldAt ?? this.state.nowUs - DELAY_US, this.data.newest_us || Infinity); }
    get now() { return this.end_us ?? this.live; }
    get window() {
        return { from_us: this.now - PAST * this.span_us, span_us: this.span_us, now_us: this.now, width: this.canvas.clientWidth };
    }
    step() {
        const ms = performance.now(), passed = Math.min(ms - this.drawnMs, 100) * 1000;
        this.drawnMs = ms;
        const still = this.state.heldAt !== undefined || this.hovered || this.chosen !== undefined;
        if (this.slowed > 0 && !still) {
            const speed = SPEEDS[this.slowed];
            this.end_us = Math.min((this.end_us ?? this.live) + passed / speed, this.live);
            if (this.live - this.end_us > 50e6)
                this.end_us = this.live;
        }
        if (still && this.end_us === undefined)
            this.end_us = this.live;
        else if (!still && this.slowed === 0)
            this.end_us = undefined;
        const what = this.state.hello?.recorder === null ? "the recorder is off" : this.data.empty ? "no batch in the last minute" : this.state.heldAt !== undefined ? "held" : still ? "still while you look" : this.slowed > 0 ? "slow motion" : "live";
        say("timeline-state", what);
        if (CALM.matches && !still && ms - this.paintedMs < 1000)
            return;
        this.paintedMs = ms;
        this.paint();
    }
    paint() {
        const { canvas } = this, scale = window.devicePixelRatio || 1, height = heightFor(this.state.workers.length);
        if (canvas.clientWidth === 0)
            return;
        const wide = Math.round(canvas.clientWidth * scale), high = Math.round(height * scale);
        if (canvas.width !== wide || canvas.height !== high) {
            canvas.width = wide;
            canvas.height = high;
            canvas.style.height = `${height}px`;
        }
        const to = canvas.getContext("2d");
        to.setTransform(scale, 0, 0, scale, 0, 0);
        draw(to, { data: this.data, workers: this.state.workers, window: this.window, chosen: this.chosen?.id, only: this.state.selected });
    }
    hover(x, y) {
        const worker = this.state.workers[laneAt(y)], at = usAt(this.window, x);
        const reach = 3 / this.canvas.clientWidth * this.span_us;
        const batch = worker === undefined || x < LEFT ? undefined
            : this.data.within(worker.id, at - reach, at + reach).find(b => b.start_us <= Math.min(at + reach, this.now));
        const death = worker === undefined || x < LEFT ? undefined
            : this.data.deaths.find(d => d.worker === worker.id && Math.abs(xOf(this.window, d.at_us) - x) <= NEAR);
        this.hovered = batch !== undefined || death !== undefined;
        if (this.hovered)
            this.chosenLane = laneAt(y);
        if (death !== undefined)
            this.show(describeDeath(death, this.state), death.at_us);
        else if (batch !== undefined)
            this.choose(batch, false);
        else if (!this.focused)
            this.forget();
    }
    choose(batch, reveal = true) {
        if (batch === undefined)
            return this.forget();
        this.chosen = batch;
        const w = this.window;
        if (reveal && (batch.start_us < w.from_us || batch.start_us > w.now_us))
            this.end_us = Math.min(batch.start_us + 0.4 * this.span_us, this.live);
        else
            this.end_us ??= this.now;
        this.show(describe(batch, this.state), batch.start_us);
    }
    show(what, at_us) {
        this.tip.replaceChildren(...what);
        this.tip.hidden = false;
        const left = xOf(this.window, at_us), wide = this.canvas.clientWidth;
        this.tip.style.left = `${clamp(left, 0, wide - TIP)}px`;
        this.tip.style.top = `${TOP + (this.chosenLane + 1) * LANE + 4}px`;
    }
    forget() {
        this.chosen = undefined;
        this.tip.hidden = true;
    }
    wheel(event) {
        if (!event.ctrlKey && !event.shiftKey)
            return;
        event.preventDefault();
        if (event.ctrlKey)
            this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
        else
            this.move(Math.sign(event.deltaY + event.deltaX) * 0.1);
    }
}
export function timelineLegend(names) {
    const host = find("timeline-legend"), key = names.join("\n");
    if (host.dataset["names"] === key)
        return;
    host.dataset["names"] = key;
    host.replaceChildren(...names.map(name => element("span", {}, element("i", { class: classOf(name) }), name)));
}
export function timelineDeaths(deaths, state, look) {
    const host = find("timeline-deaths"), last = [...deaths].sort((a, b) => b.at_us - a.at_us).slice(0, MOST_DEATHS);
    const key = last.map(death => `${death.model} ${death.at_us}`).join("\n");
    if (host.dataset["deaths"] === key)
        return;
    host.dataset["deaths"] = key;
    host.replaceChildren(...last.map(death => element("button", { type: "button", onclick: () => look(death) }, `✕ ${death.model} died at ${state.clock(death.at_us, false)} (${shortCause(death.signal)})`)));
}
const clamp = (value, least, most) => Math.max(least, Math.min(value, most));
