export function find(id) {
    const found = document.getElementById(id);
    if (found === null)
        throw new Error(`the page has no ${id}`);
    return found;
}
export function say(id, text) {
    const element = find(id);
    if (element.textContent !== text)
        element.textContent = text;
}
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "string")
            made.setAttribute(name, value);
        else
            made.addEventListener(name.replace(/^on/, ""), value);
    }
    made.append(...children);
    return made;
}
export async function json(path, body, method = body === undefined ? "GET" : "POST") {
    const response = await fetch(path, method === "POST" ? { method, body: JSON.stringify(body) } : {});
    if (!response.ok) {
        const text = await response.text();
        let said = text;
        try {
            said = JSON.parse(text).error ?? text;
        }
        catch { }
        throw new Error(`${path.split("?")[0]} answers ${response.status}: ${said}`);
    }
    return await response.json();
}
