// Documents of the server, saved as files.

import { element, say } from "./page.js";

export async function save(path: string, name: string): Promise<void> {
  const response = await fetch(path);
  if (!response.ok) return say("state", `${path} answers ${response.status}: ${await response.text()}`);
  const url = URL.createObjectURL(await response.blob());
  element("a", { href: url, download: name }).click();
  window.setTimeout(() => URL.revokeObjectURL(url), 10000);
}
