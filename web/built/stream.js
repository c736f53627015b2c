import { find, json, say } from "./page.js";
import { StreamCard } from "./stream_card.js";
import { StreamClient } from "./stream_client.js";
import { ofCamera, ofFilm } from "./stream_source.js";
async function services() {
    const rows = await json("/v2/repository/index", {});
    const ready = new Set(rows.filter(row => row.state === "READY").map(row => row.name));
    const all = await Promise.all([...ready].map(name => json(`/v2/models/${encodeURIComponent(name)}`)));
    return all.filter(m => m.platform === "fermata_stream" && m.inputs.length === 1 && m.inputs[0].datatype === "BYTES");
}
const running = new Set();
async function start(service) {
    try {
        const source = find("source").value === "camera" ? await ofCamera() : ofFilm();
        const number = (id) => find(id).valueAsNumber, slo = number("slo") / 1000, rate = number("rate");
        const card = new StreamCard(service.name, slo, rate, () => { running.delete(card); count(); });
        card.run(new StreamClient(service, source, slo, rate, card.watcher));
        running.add(card);
        find("none").hidden = true;
        find("clients").prepend(card.root);
        count();
    }
    catch (error) {
        say("state", error instanceof Error ? error.message : `${error}`);
    }
}
const count = () => say("state", running.size === 0 ? "stopped" : `${running.size} ${running.size === 1 ? "client streams" : "clients stream"}`);
async function begin() {
    const known = await services(), choice = find("service");
    choice.replaceChildren(...known.map(m => new Option(m.name)));
    if (known.length === 0)
        return say("state", "no stream service here takes pictures (docs/configuration.md, Streams)");
    find("form").onsubmit = event => { event.preventDefault(); void start(known[choice.selectedIndex]); };
    find("stop").onclick = () => { for (const card of [...running])
        card.stop(); };
    say("state", "ready");
}
begin().catch(error => say("state", error instanceof Error ? error.message : `${error}`));
