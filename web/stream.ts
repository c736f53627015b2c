// The page that streams a camera or the sample film to a stream service and draws what comes back.

import { Film } from "./film.js";
import { find, json, say } from "./page.js";
import type { IndexRow, Metadata } from "./page.js";
import { Session } from "./session.js";
import type { Answer } from "./session.js";
import { plain, read, withPicture } from "./wire.js";
import type { Tensor } from "./wire.js";

const QUALITY = 0.9, LEAST_SCORE = 0.3, REMEMBERED = 100, TICK_MS = 200, PAUSE_MS = 1000;
const MOST_WAITING = 64 * 1024; // bytes that the browser has not sent yet

const now = (): number => performance.now() / 1000;

// Where frames come from, as something that can be drawn.
interface Source { picture(): CanvasImageSource | undefined; stop(): void }

function ofFilm(): Source {
  const film = new Film();
  return { picture: () => { film.draw(now()); return film.canvas; }, stop: () => {} };
}

async function ofCamera(): Promise<Source> {
  if (navigator.mediaDevices === undefined) {
    throw new Error("browsers give the camera only to pages of https or of localhost");
  }
  const stream = await navigator.mediaDevices.getUserMedia({ video: true });
  const video = document.createElement("video");
  video.srcObject = stream;
  video.muted = true;
  await video.play();
  return { picture: () => video.videoWidth > 0 ? video : undefined,
           stop: () => stream.getTracks().forEach(track => track.stop()) };
}

// What has been seen of the last answers.
class Account {
  answered = 0;
  missed = 0;
  sent = 0;
  private latencies: number[] = [];
  private lately: boolean[] = [];

  add(onTime: boolean, latency?: number): void {
    ++this.answered;
    if (!onTime) ++this.missed;
    this.lately = [...this.lately, onTime].slice(-REMEMBERED);
    if (latency !== undefined) this.latencies = [...this.latencies, latency].slice(-REMEMBERED);
  }
  get median(): number | undefined { return [...this.latencies].sort((a, b) => a - b)[this.latencies.length >> 1]; }
  get missRate(): number { return this.lately.filter(onTime => !onTime).length / Math.max(this.lately.length, 1); }
}

class Stream {
  private readonly session: Session;
  private readonly account = new Account();
  private readonly small = document.createElement("canvas");
  private readonly shown = find<HTMLCanvasElement>("picture").getContext("2d")!;
  private socket: WebSocket | undefined;
  private boxes: { box: number[]; label: string }[] = [];
  private encoding = false;
  private stopped = false;
  private tick: number;

  constructor(private readonly service: Metadata, private readonly source: Source, slo: number, rate: number) {
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
    socket.onopen = () => { say("state", "connected"); this.hello(); };
    socket.onmessage = event => { if (typeof event.data === "string") this.received(event.data); };
    socket.onclose = event => {
      for (let lost = this.session.lost(); lost > 0; --lost) this.account.add(false);
      if (this.stopped) return say("state", "stopped");
      say("state", `no connection ${event.reason}; trying again`);
      window.setTimeout(() => { if (!this.stopped) this.connect(); }, PAUSE_MS);
    };
  }

  private get open(): boolean { return this.socket?.readyState === WebSocket.OPEN; }

  private hello(): void {
    if (!this.open) return;
    const hello = this.session.hello(now());
    if (hello !== undefined) this.socket!.send(plain(hello.id, hello.parameters));
    this.report();
  }

  // Frames go out when they are due; what would have to wait is dropped before it is encoded.
  private pace(): void {
    if (this.stopped) return;
    const wait = this.session.due(now()) - now();
    window.setTimeout(() => {
      this.session.sentOnTime();
      const picture = this.source.picture();
      if (picture !== undefined) this.frame(picture);
      this.pace();
    }, Math.max(wait * 1000, 0));
  }

  private frame(picture: CanvasImageSource): void {
    this.show(picture);
    if (!this.open || this.session.asked === undefined) return;
    const side = this.encoding || this.socket!.bufferedAmount > MOST_WAITING ? undefined : this.session.side(now());
    if (side === undefined) {
      ++this.session.dropped;
      return;
    }
    this.encoding = true;
    this.small.width = this.small.height = side;
    this.small.getContext("2d")!.drawImage(picture, 0, 0, side, side);
    this.small.toBlob(blob => void this.encoded(blob, side), "image/jpeg", QUALITY);
  }

  private async encoded(blob: Blob | null, side: number): Promise<void> {
    const picture = blob === null ? undefined : new Uint8Array(await blob.arrayBuffer());
    this.encoding = false;
    if (picture === undefined || !this.open) return;
    const input = this.service.inputs[0]!;
    const { id, parameters } = this.session.frame(side, picture.length, now());
    const shape = input.shape.map(dimension => Math.max(dimension, 1));
    this.socket!.send(withPicture(id, parameters, input.name, shape, picture));
    ++this.account.sent;
  }

  private received(text: string): void {
    const answer = this.session.answered(read(text), now());
    if (answer === undefined) return;
    this.account.add(answer.error === undefined && answer.latency <= this.session.slo,
                     answer.error === undefined ? answer.latency : undefined);
    say("error", answer.error ?? "");
    if (answer.error === undefined) this.boxes = boxesOf(answer);
    say("size", `${answer.size}`);
    this.report();
  }

  private report(): void {
    const { account, session } = this, ms = (s: number | undefined): string => s === undefined ? "" : `${(s * 1000).toFixed(1)} ms`;
    say("latency", ms(account.median));
    say("misses", `${(100 * account.missRate).toFixed(1)} %`);
    say("answered", `${account.answered}`);
    say("sent", `${account.sent}`);
    say("dropped", `${session.dropped}`);
    say("bandwidth", session.link.mbps(now()) === undefined ? "" : `${session.link.mbps(now())!.toFixed(1)} Mbit/s`);
    say("roundtrip", session.link.echoes > 0 ? ms(session.link.roundTrip) : "");
    say("told", session.unmapped ? "no model can serve this client in time" : session.asked === undefined ? "" : `${session.asked}`);
    say("boxes", `${this.boxes.length}`);
  }

  private show(picture: CanvasImageSource): void {
    const { width, height } = this.shown.canvas;
    this.shown.drawImage(picture, 0, 0, width, height);
    this.shown.lineWidth = 2;
    this.shown.strokeStyle = this.shown.fillStyle = "#ff3";
    this.shown.font = "14px sans-serif";
    for (const { box: [x0, y0, x1, y1], label } of this.boxes) {
      this.shown.strokeRect(x0! * width, y0! * height, (x1! - x0!) * width, (y1! - y0!) * height);
      this.shown.fillText(label, x0! * width, y0! * height - 4);
    }
  }
}

// Boxes [.., n, 4] as x0, y0, x1, y1 in fractions of the picture; scores and classes [.., n] may be absent.
function boxesOf(answer: Answer): { box: number[]; label: string }[] {
  const numbers = (name: string): number[] => (answer.outputs.get(name) as Tensor | undefined)?.data.map(Number) ?? [];
  const corners = numbers("boxes"), scores = numbers("scores"), classes = numbers("classes");
  const found: { box: number[]; label: string }[] = [];
  for (let i = 0; 4 * i + 3 < corners.length; ++i) {
    const score = scores[i] ?? 1;
    if (score < LEAST_SCORE) continue;
    found.push({ box: corners.slice(4 * i, 4 * i + 4), label: `${classes[i] ?? ""} ${score.toFixed(2)}` });
  }
  return found;
}

// Those that take a picture.
async function services(): Promise<Metadata[]> {
  const rows = await json<IndexRow[]>("/v2/repository/index", "POST");
  const ready = new Set(rows.filter(row => row.state === "READY").map(row => row.name));
  const all = await Promise.all([...ready].map(name => json<Metadata>(`/v2/models/${encodeURIComponent(name)}`)));
  return all.filter(m => m.platform === "fermata_stream" && m.inputs.length === 1 && m.inputs[0]!.datatype === "BYTES");
}

async function begin(): Promise<void> {
  const known = await services(), choice = find<HTMLSelectElement>("service");
  choice.replaceChildren(...known.map(m => new Option(m.name)));
  if (known.length === 0) return say("state", "no stream service here takes pictures (docs/configuration.md, Streams)");
  let running: Stream | undefined;
  find("start").onclick = async () => {
    running?.stop();
    running = undefined;
    try {
      const camera = find<HTMLSelectElement>("source").value === "camera";
      const source = camera ? await ofCamera() : ofFilm();
      const number = (id: string): number => find<HTMLInputElement>(id).valueAsNumber;
      running = new Stream(known[choice.selectedIndex]!, source, number("slo") / 1000, number("rate"));
    } catch (error) {
      say("state", `${error}`);
    }
  };
  find("stop").onclick = () => running?.stop();
  say("state", "ready");
}

begin().catch(error => say("state", `${error}`));
