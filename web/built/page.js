// What both pages need.
export function find(id) {
    const found = document.getElementById(id);
    if (found === null)
        throw new Error(`the page has no ${id}`);
    return found;
}
export function say(id, text) { find(id).textContent = text; }
export async function json(path, method = "GET") {
    const response = await fetch(path, method === "POST" ? { method, body: "{}" } : {});
    if (!response.ok)
        throw new Error(`${path} answers ${response.status}: ${await response.text()}`);
    return await response.json();
}
