// Node's own clients: node fetch.mjs HOST:PORT prints what passed.
import http from "node:http";

const [address] = process.argv.slice(2);
const url = `http://${address}/v2/models/identity-fp32/infer`;
const body = (x) =>
  JSON.stringify({ inputs: [{ name: "x", shape: [1, 2], datatype: "FP32", data: [x, 1] }] });

async function passes(name, what) {
  try {
    if (await what()) console.log(`passed: ${name}`);
    else console.log(`failed: ${name}`);
  } catch (error) {
    console.log(`failed: ${name}: ${error} ${error.cause ?? ""}`);
  }
}

async function ask(x) {
  const reply = await fetch(url, { method: "POST", body: body(x) });
  return (await reply.json()).outputs[0].data[0] === x;
}

function keptAlive() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const one = (x) =>
    new Promise((resolve, reject) => {
      const request = http.request(url, { method: "POST", agent }, (reply) => {
        let text = "";
        reply.on("data", (chunk) => (text += chunk));
        reply.on("end", () => resolve(JSON.parse(text).outputs[0].data[0] === x));
      });
      request.on("error", reject);
      request.end(body(x));
    });
  return Promise.all(Array.from({ length: 20 }, (_, x) => one(x))).then((all) => {
    agent.destroy();
    return all.every(Boolean);
  });
}

async function binary() {
  const head = JSON.stringify({
    inputs: [{ name: "x", shape: [1, 2], datatype: "FP32", parameters: { binary_data_size: 8 } }],
    parameters: { binary_data_output: true },
  });
  const bytes = new Uint8Array(new Float32Array([3, 4]).buffer);
  const reply = await fetch(url, {
    method: "POST",
    headers: { "Inference-Header-Content-Length": `${head.length}` },
    body: Buffer.concat([Buffer.from(head), bytes]),
  });
  const all = Buffer.from(await reply.arrayBuffer());
  const length = Number(reply.headers.get("Inference-Header-Content-Length"));
  return all.readFloatLE(length) === 3 && all.readFloatLE(length + 4) === 4;
}

function overWebSocket() {
  if (typeof WebSocket === "undefined") return true; // before Node 22
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://${address}/v2/models/identity-fp32/stream`);
    socket.onopen = () => socket.send(body(5));
    socket.onmessage = (message) => {
      socket.close();
      resolve(String(message.data).includes('"outputs"'));
    };
    socket.onerror = () => resolve(false);
  });
}

await passes("keep-alive", keptAlive);
await passes("fifty at a time", async () =>
  (await Promise.all(Array.from({ length: 50 }, (_, x) => ask(x)))).every(Boolean));
await passes("binary tensors", binary);
await passes("a WebSocket", overWebSocket);
