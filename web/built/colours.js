const HUES = 8;
function hash(name) {
    let h = 2166136261;
    for (const character of name)
        h = Math.imul(h ^ character.codePointAt(0), 16777619) >>> 0;
    return h >>> 0;
}
const taken = new Map();
export function assignColours(names) {
    for (const name of [...names].sort())
        place(name);
}
function place(name) {
    const known = taken.get(name);
    if (known !== undefined)
        return known;
    const used = Array(HUES).fill(0);
    for (const slot of taken.values())
        ++used[slot];
    const fewest = Math.min(...used);
    let slot = hash(name) % HUES;
    while (used[slot] > fewest)
        slot = (slot + 1) % HUES;
    taken.set(name, slot);
    return slot;
}
export const wholeOf = (name) => name.split("/")[0];
export const hueOf = (name) => `--s${place(wholeOf(name)) + 1}`;
export const classOf = (name) => `s${place(wholeOf(name)) + 1}`;
let resolved = new Map();
let styles;
export function css(variable) {
    let found = resolved.get(variable);
    if (found === undefined) {
        styles ??= getComputedStyle(document.documentElement);
        found = styles.getPropertyValue(variable).trim() || variable;
        resolved.set(variable, found);
    }
    return found;
}
export function tint(variable, share) {
    const parts = (hex) => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
    const over = parts(css(variable)), under = parts(css("--panel"));
    return `rgb(${over.map((value, i) => Math.round(share * value + (1 - share) * under[i])).join(" ")})`;
}
const changed = [];
export function onTheme(redraw) { changed.push(redraw); }
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    resolved = new Map();
    for (const redraw of changed)
        redraw();
});
export const OUTCOMES = {
    on_time: { label: "on time", colour: "--on-time" },
    late: { label: "late", colour: "--late" },
    rejected_deadline: { label: "rejected: deadline", colour: "--rejected" },
    rejected_queue: { label: "rejected: queue full", colour: "--rejected-2" },
    rejected_other: { label: "rejected: other", colour: "--rejected-3" },
    failed: { label: "failed", colour: "--failed" },
    cancelled: { label: "cancelled", colour: "--cancelled" },
};
