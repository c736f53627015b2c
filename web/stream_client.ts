// One client of a stream service: sends the frames of a source when they are due, over a WebSocket.

import type { Metadata } from "./page.js";
import { Session } from "./session.js";
import type { Answer } from "./session.js";
import type { Source } from "./stream_source.js";
import { plain, read, withPicture } from "./wire.js";

const QUALITY = 0.9, TICK_MS = 200, PAUSE_MS = 1000;
const KEPT_PX = 512, MOST_KEPT = 32; // of frames whose answers have not come
const MOST_WAITING = 64 * 1024; // bytes that the browser has not sent yet

const now = (): number => performance.now() / 1000;

// What a client tells of itself.
export interface Watcher {
  state(text: string): void;
  frame(picture: CanvasImageSource): void;
  sent(): void;
  answered(answer: Answer, picture: CanvasImageSource | undefined): void; // the frame that it is about
  lost(frames: number): void; // with their connection
}

export class StreamClient {
  readonly session: Session;
  private readonly small = document.createElement("canvas");
  private socket: WebSocket | undefined;
  private readonly pictures = new Map<string, HTMLCanvasElement>(); // by the id of their frame
  private encoding = false;
  private stopped = false;
  private readonly tick: number;

  constructor(private readonly service: Metadata, private readonly source: Source, slo: number, rate: number,
              private readonly watcher: Watcher) {
    this.session = new Session(`page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`, slo, rate);
    this.tick = window.setInterval(() => this.hello(), TICK_MS);
    this.connect();
    this.pace();
  }

  stop(): void {
    this.stopped = true;
    window.clearInterval(this.tick);
    this.source.stop();
    this.socket?.close();
  }

  private connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/v2/models/${encodeURIComponent(this.service.name)}/stream`);
    this.socket = socket;
    socket.onopen = () => { this.watcher.state("connected"); this.hello(); };
    socket.onmessage = event => { if (typeof event.data === "string") this.received(event.data); };
    socket.onclose = event => {
      this.watcher.lost(this.session.lost());
      this.pictures.clear();
      if (this.stopped) return this.watcher.state("stopped");
      this.watcher.state(`no connection ${event.reason}; trying again`);
      window.setTimeout(() => { if (!this.stopped) this.connect(); }, PAUSE_MS);
    };
  }

  private get open(): boolean { return this.socket?.readyState === WebSocket.OPEN; }

  private hello(): void {
    if (!this.open) return;
    const hello = this.session.hello(now());
    if (hello !== undefined) this.socket!.send(plain(hello.id, hello.parameters));
  }

  // Frames go out when they are due; what would have to wait is dropped before it is encoded.
  private pace(): void {
    if (this.stopped) return;
    const wait = this.session.due(now()) - now();
    window.setTimeout(() => {
      this.session.sentOnTime();
      const picture = this.stopped ? undefined : this.source.picture();
      if (picture !== undefined) this.frame(picture);
      this.pace();
    }, Math.max(wait * 1000, 0));
  }

  private frame(picture: CanvasImageSource): void {
    this.watcher.frame(picture);
    if (!this.open || this.session.asked === undefined) return;
    const side = this.encoding || this.socket!.bufferedAmount > MOST_WAITING ? undefined : this.session.side(now());
    if (side === undefined) {
      ++this.session.dropped;
      return;
    }
    this.encoding = true;
    this.small.width = this.small.height = side;
    this.small.getContext("2d")!.drawImage(picture, 0, 0, side, side);
    const kept = copyOf(picture);
    this.small.toBlob(blob => void this.encoded(blob, side, kept), "image/jpeg", QUALITY);
  }

  private async encoded(blob: Blob | null, side: number, kept: HTMLCanvasElement): Promise<void> {
    const picture = blob === null ? undefined : new Uint8Array(await blob.arrayBuffer());
    this.encoding = false;
    if (picture === undefined || !this.open) return;
    const input = this.service.inputs[0]!;
    const { id, parameters } = this.session.frame(side, picture.length, now());
    const shape = input.shape.map(dimension => Math.max(dimension, 1));
    this.socket!.send(withPicture(id, parameters, input.name, shape, picture));
    this.pictures.set(id, kept);
    if (this.pictures.size > MOST_KEPT) this.pictures.delete(this.pictures.keys().next().value!);
    this.watcher.sent();
  }

  private received(text: string): void {
    const reply = read(text), answer = this.session.answered(reply, now());
    if (answer === undefined) return;
    this.watcher.answered(answer, this.pictures.get(reply.id ?? ""));
    this.pictures.delete(reply.id ?? "");
  }
}

function copyOf(picture: CanvasImageSource): HTMLCanvasElement {
  const copy = document.createElement("canvas");
  copy.width = copy.height = KEPT_PX;
  copy.getContext("2d")!.drawImage(picture, 0, 0, KEPT_PX, KEPT_PX);
  return copy;
}
