export const count = (value) => Math.round(value).toLocaleString("en-US");
export function rate(value) {
    if (value === 0)
        return "0";
    return value >= 100 ? count(value) : value >= 10 ? value.toFixed(0) : value.toFixed(1);
}
export function percent(share) {
    const text = (100 * share).toFixed(1);
    if (text === "100.0")
        return share < 1 ? "99.9 %" : "100 %";
    if (text === "0.0")
        return share > 0 ? "< 0.1 %" : "0 %";
    return `${text} %`;
}
export function ms(value) {
    if (value === null || value === undefined)
        return "–";
    if (value >= 10000)
        return `${(value / 1000).toFixed(1)} s`;
    return `${value >= 100 ? count(value) : value >= 10 ? value.toFixed(0) : value.toFixed(1)} ms`;
}
export const fine = (us) => `${(us / 1000).toFixed(Math.abs(us) >= 100000 ? 0 : 1)} ms`;
export const accuracy = (value) => value === null || value === undefined ? "–" : value.toFixed(3);
export function megabytes(value) {
    return value >= 10000 ? `${(value / 1024).toFixed(1)} GB` : `${count(value)} MB`;
}
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const points = (difference) => `${Math.abs(100 * difference).toFixed(1)} points`;
const REASONS = {
    deadline: "their deadline could no longer be met",
    queue: "their service's queue was full",
    unavailable: "their model was not ready",
    invalid: "they did not fit the model, or it rejected them",
};
export const reason = (name) => REASONS[name] ?? name.replaceAll("_", " ");
const RULES = { mates: "other requests to join its batch", worker: "a free worker",
    start_time: "its start time", nothing: "nothing" };
export const waitedFor = (name) => RULES[name] ?? name.replaceAll("_", " ");
export function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(n => n * power).find(n => n >= least * (1 - 1e-9));
}
