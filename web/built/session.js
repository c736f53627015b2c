import { Link } from "./link.js";
const HELLO = 1;
const PADDING = 8000;
const PROBE = 3;
const LEAST_MOVE = 2e-3;
export class Session {
    client;
    slo;
    rate;
    link = new Link();
    unmapped = false;
    dropped = 0;
    asked;
    bytes = new Map();
    underWay = new Map();
    lastId = 0;
    helloAt = -Infinity;
    frameAt = -Infinity;
    connected = false;
    next;
    shift = 0;
    movedAt = -Infinity;
    constructor(client, slo, rate) {
        this.client = client;
        this.slo = slo;
        this.rate = rate;
    }
    due(now) {
        if (this.next === undefined || this.next < now - 1 / this.rate)
            this.next = now;
        return this.next;
    }
    sentOnTime() {
        const most = 0.5 / this.rate, move = Math.max(-most, Math.min(this.shift, most));
        this.shift = 0;
        if (this.next === undefined)
            return;
        this.next += 1 / this.rate;
        if (Math.abs(move) > LEAST_MOVE) {
            this.next += move;
            this.movedAt = this.next;
        }
    }
    hello(now) {
        const again = this.connected && this.link.echoes === 0;
        const greets = [...this.underWay.values()].some(sent => sent.hello);
        if (now < this.helloAt + HELLO && !(again && !greets))
            return undefined;
        const probes = this.hasToProbe(now);
        if (probes && this.link.busy && now < this.helloAt + 2 * HELLO)
            return undefined;
        this.helloAt = now;
        const padded = (this.unmapped && !again) || probes;
        const message = this.message(now, { at: now, size: 0, hello: true, bytes: padded ? PADDING : 0,
            alone: this.connected && !this.link.busy, arrived: false });
        message.parameters["stream_hello"] = true;
        if (padded) {
            message.parameters["stream_padding"] = ".".repeat(PADDING);
            this.link.sent(PADDING, now);
        }
        return message;
    }
    side(now) {
        const frames = [...this.underWay.values()].filter(sent => !sent.hello).length;
        const asked = this.asked;
        if (asked === undefined || this.unmapped || frames >= Math.max(1, Math.ceil(this.rate * this.slo))) {
            return undefined;
        }
        const sides = [...this.bytes.keys()].filter(side => side < asked).sort((a, b) => a - b);
        sides.push(asked);
        const largest = Math.max(0, ...this.bytes.values());
        const chosen = this.link.choose(sides.map(s => this.bytes.get(s) ?? largest), this.rate, this.slo, now);
        return chosen === undefined ? undefined : sides[chosen];
    }
    frame(side, bytes, now) {
        this.bytes.set(side, bytes);
        this.link.sent(bytes, now);
        this.frameAt = now;
        const message = this.message(now, { at: now, size: side, hello: false, bytes, alone: false, arrived: false });
        message.parameters["stream_size"] = side;
        return message;
    }
    answered(reply, now) {
        const sent = this.underWay.get(reply.id ?? "");
        if (sent === undefined)
            return undefined;
        this.connected = true;
        const told = reply.parameters ?? {};
        const inServer = Number(told["stream_server_us"] ?? 0) * 1e-6;
        this.arrived(sent, inServer, now);
        if (told["stream_ack"] === true)
            return undefined;
        this.underWay.delete(reply.id ?? "");
        if ("stream_server_us" in told)
            this.learn(told, sent, inServer);
        if (sent.hello)
            return undefined;
        return { latency: now - sent.at, size: sent.size, error: reply.error,
            outputs: new Map((reply.outputs ?? []).map(tensor => [tensor.name, tensor])) };
    }
    lost() {
        const frames = [...this.underWay.values()].filter(sent => !sent.hello).length;
        this.underWay.clear();
        this.link.lost();
        this.helloAt = this.frameAt = -Infinity;
        this.connected = false;
        return frames;
    }
    hasToProbe(now) {
        if (this.unmapped || this.frameAt === -Infinity || this.link.roundTrip === 0)
            return false;
        return now >= this.link.toldAt + PROBE;
    }
    message(now, sent) {
        const id = `${++this.lastId}`;
        this.underWay.set(id, sent);
        const parameters = { stream_client: this.client, stream_rate: this.rate, stream_ack: true,
            stream_slo: Math.round(this.slo * 1e6) };
        const mbps = this.link.mbps(now);
        if (mbps !== undefined) {
            parameters["stream_bandwidth"] = mbps;
            parameters["stream_sure_bandwidth"] = this.link.sureMbps(now) ?? mbps;
            parameters["stream_rtt"] = Math.round(this.link.roundTrip * 1e6);
        }
        return { id, parameters };
    }
    arrived(sent, inServer, now) {
        if (sent.arrived)
            return;
        sent.arrived = true;
        if (sent.bytes > 0)
            this.link.acknowledged(inServer, now);
        else if (sent.alone)
            this.link.echoed(now - inServer - sent.at);
    }
    learn(told, sent, inServer) {
        if (!sent.hello)
            this.link.answered(inServer);
        this.unmapped = told["stream_unmapped"] === true;
        if (this.unmapped)
            return;
        this.asked = Number(told["stream_size"]);
        if (sent.at >= this.movedAt)
            this.shift = Number(told["stream_shift_us"] ?? 0) * 1e-6;
    }
}
