// What both pages need.

export function find<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found as T;
}

// Writes only what is new, so that what is selected or read aloud stays.
export function say(id: string, text: string): void {
  const element = find(id);
  if (element.textContent !== text) element.textContent = text;
}

type Child = Node | string;

// An element with attributes ("class", "on" + event as functions) and children.
export function element<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Record<string, string | (() => void)> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "string") made.setAttribute(name, value);
    else made.addEventListener(name.replace(/^on/, ""), value);
  }
  made.append(...children);
  return made;
}

export async function json<T>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST"): Promise<T> {
  const response = await fetch(path, method === "POST" ? { method, body: JSON.stringify(body) } : {});
  if (!response.ok) {
    const text = await response.text();
    let said = text;
    try { said = (JSON.parse(text) as { error?: string }).error ?? text; } catch { /* not JSON: as it is */ }
    throw new Error(`${path.split("?")[0]} answers ${response.status}: ${said}`);
  }
  return await response.json() as T;
}

export interface IndexRow { name: string; version?: string; state?: string; reason?: string }
export interface Metadata {
  name: string;
  platform: string;
  inputs: { name: string; datatype: string; shape: number[] }[];
  outputs: { name: string }[];
}
