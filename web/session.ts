// One client of a stream service, without clocks or sockets: which frame to send, how large, when,
// and what the replies mean. Seconds.

import { Link } from "./link.js";
import type { Parameters, Reply, Tensor } from "./wire.js";

const HELLO = 1; // between two measurements of the round trip
const PADDING = 8000; // bytes of a hello that measures the bandwidth
const PROBE = 3; // between two of these, where frames are too small to tell
const LEAST_MOVE = 2e-3;

interface Sent {
  at: number;
  size: number;
  hello: boolean;
  bytes: number;
  alone: boolean; // on the link, when it was sent
  arrived: boolean; // at the server, as far as we know
}

export interface Answer {
  latency: number; // from when the frame left
  size: number;
  error: string | undefined;
  outputs: Map<string, Tensor>;
}

export class Session {
  readonly link = new Link();
  unmapped = false;
  dropped = 0;
  asked: number | undefined; // the size that the service asked for last
  private bytes = new Map<number, number>(); // of a frame, by size
  private underWay = new Map<string, Sent>();
  private lastId = 0;
  private helloAt = -Infinity;
  private frameAt = -Infinity;
  private connected = false; // something came back
  private next: number | undefined; // when the next frame is due
  private shift = 0;
  private movedAt = -Infinity;

  constructor(readonly client: string, readonly slo: number, readonly rate: number) {}

  // When the next frame should be sent: every 1/rate, moved as the service asks for.
  due(now: number): number {
    if (this.next === undefined || this.next < now - 1 / this.rate) this.next = now;
    return this.next;
  }

  sentOnTime(): void {
    const most = 0.5 / this.rate, move = Math.max(-most, Math.min(this.shift, most));
    this.shift = 0;
    if (this.next === undefined) return;
    this.next += 1 / this.rate;
    if (Math.abs(move) > LEAST_MOVE) {
      this.next += move;
      this.movedAt = this.next;
    }
  }

  // A message without a frame, if it is time for one.
  hello(now: number): { id: string; parameters: Parameters } | undefined {
    const again = this.connected && this.link.echoes === 0;
    const greets = [...this.underWay.values()].some(sent => sent.hello);
    if (now < this.helloAt + HELLO && !(again && !greets)) return undefined;
    const probes = this.hasToProbe(now);
    if (probes && this.link.busy && now < this.helloAt + 2 * HELLO) return undefined;
    this.helloAt = now;
    const padded = (this.unmapped && !again) || probes; // no frames measure the bandwidth
    const message = this.message(now, { at: now, size: 0, hello: true, bytes: padded ? PADDING : 0,
                                        alone: this.connected && !this.link.busy, arrived: false });
    message.parameters["stream_hello"] = true;
    if (padded) {
      message.parameters["stream_padding"] = ".".repeat(PADDING);
      this.link.sent(PADDING, now);
    }
    return message;
  }

  // The side to send at; undefined: the frame would only wait, and is dropped.
  side(now: number): number | undefined {
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

  // What goes with a frame of `bytes` that leaves now.
  frame(side: number, bytes: number, now: number): { id: string; parameters: Parameters } {
    this.bytes.set(side, bytes);
    this.link.sent(bytes, now);
    this.frameAt = now;
    const message = this.message(now, { at: now, size: side, hello: false, bytes, alone: false, arrived: false });
    message.parameters["stream_size"] = side;
    return message;
  }

  // What became of a frame; undefined where the reply was no frame's last.
  answered(reply: Reply, now: number): Answer | undefined {
    const sent = this.underWay.get(reply.id ?? "");
    if (sent === undefined) return undefined;
    this.connected = true;
    const told = reply.parameters ?? {};
    const inServer = Number(told["stream_server_us"] ?? 0) * 1e-6;
    this.arrived(sent, inServer, now);
    if (told["stream_ack"] === true) return undefined;
    this.underWay.delete(reply.id ?? "");
    if ("stream_server_us" in told) this.learn(told, sent, inServer);
    if (sent.hello) return undefined;
    return { latency: now - sent.at, size: sent.size, error: reply.error,
             outputs: new Map((reply.outputs ?? []).map(tensor => [tensor.name, tensor])) };
  }

  // The connection is gone; how many frames were under way on it.
  lost(): number {
    const frames = [...this.underWay.values()].filter(sent => !sent.hello).length;
    this.underWay.clear();
    this.link.lost();
    this.helloAt = this.frameAt = -Infinity;
    this.connected = false;
    return frames;
  }

  private hasToProbe(now: number): boolean {
    if (this.unmapped || this.frameAt === -Infinity || this.link.roundTrip === 0) return false; // the way comes first
    return now >= this.link.toldAt + PROBE;
  }

  private message(now: number, sent: Sent): { id: string; parameters: Parameters } {
    const id = `${++this.lastId}`;
    this.underWay.set(id, sent);
    const parameters: Parameters = { stream_client: this.client, stream_rate: this.rate, stream_ack: true,
                                     stream_slo: Math.round(this.slo * 1e6) };
    const mbps = this.link.mbps(now);
    if (mbps !== undefined) {
      parameters["stream_bandwidth"] = mbps;
      parameters["stream_sure_bandwidth"] = this.link.sureMbps(now) ?? mbps;
      parameters["stream_rtt"] = Math.round(this.link.roundTrip * 1e6);
    }
    return { id, parameters };
  }

  private arrived(sent: Sent, inServer: number, now: number): void {
    if (sent.arrived) return;
    sent.arrived = true;
    if (sent.bytes > 0) this.link.acknowledged(inServer, now);
    else if (sent.alone) this.link.echoed(now - inServer - sent.at);
  }

  private learn(told: Parameters, sent: Sent, inServer: number): void {
    if (!sent.hello) this.link.answered(inServer);
    this.unmapped = told["stream_unmapped"] === true;
    if (this.unmapped) return;
    this.asked = Number(told["stream_size"]);
    if (sent.at >= this.movedAt) this.shift = Number(told["stream_shift_us"] ?? 0) * 1e-6;
  }
}
