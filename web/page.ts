// What both pages need.

export function find<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found as T;
}

export function say(id: string, text: string): void { find(id).textContent = text; }

export async function json<T>(path: string, method = "GET"): Promise<T> {
  const response = await fetch(path, method === "POST" ? { method, body: "{}" } : {});
  if (!response.ok) throw new Error(`${path} answers ${response.status}: ${await response.text()}`);
  return await response.json() as T;
}

export interface IndexRow { name: string; version?: string; state?: string; reason?: string }
export interface Metadata {
  name: string;
  platform: string;
  inputs: { name: string; datatype: string; shape: number[] }[];
  outputs: { name: string }[];
}
