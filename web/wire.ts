// Messages of a WebSocket as docs/streams.md has them: JSON, and behind it bytes.

export type Value = string | number | boolean;
export type Parameters = Record<string, Value>;

export interface Tensor {
  name: string;
  datatype: string;
  shape: number[];
  data: Value[];
}

export interface Reply {
  id?: string;
  error?: string;
  status?: number;
  parameters?: Parameters;
  outputs?: Tensor[];
}

// A request that is JSON only.
export function plain(id: string, parameters: Parameters): string {
  return JSON.stringify({ id, parameters, inputs: [] });
}

// A request with one picture, as a BYTES tensor of `shape`.
export function withPicture(id: string, parameters: Parameters, input: string, shape: number[],
                            picture: Uint8Array): Uint8Array<ArrayBuffer> {
  const inputs = [{ name: input, datatype: "BYTES", shape,
                    parameters: { binary_data_size: picture.length + 4 } }];
  const json = new TextEncoder().encode(JSON.stringify({ id, parameters, inputs }));
  const message = new Uint8Array(8 + json.length + picture.length);
  const view = new DataView(message.buffer);
  view.setUint32(0, json.length, true);
  message.set(json, 4);
  view.setUint32(4 + json.length, picture.length, true);
  message.set(picture, 8 + json.length);
  return message;
}

// Outputs are asked for as JSON, so that replies are text.
export function read(text: string): Reply {
  return JSON.parse(text) as Reply;
}
