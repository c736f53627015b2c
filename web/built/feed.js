const EVENTS = "/v2/live/events", AGAIN_MS = 2000;
export function follow(listener) {
    const source = new EventSource(EVENTS);
    const on = (name, handle) => source.addEventListener(name, event => handle(JSON.parse(event.data)));
    on("hello", event => { listener.state(true, "live"); listener.hello(event); });
    on("services", event => listener.services(event.services));
    on("unserved", event => listener.unserved(event.unserved));
    on("workers", event => listener.workers(event.workers));
    on("second", event => listener.second(event));
    on("timeline", event => listener.timeline(event));
    on("log", event => listener.log(event));
    on("more_workers", event => listener.moreWorkers(event));
    source.onerror = () => {
        listener.state(false, "no connection to the server; trying again");
        if (source.readyState !== EventSource.CLOSED)
            return;
        void whyNot().then(text => listener.state(false, text));
        window.setTimeout(() => follow(listener), AGAIN_MS);
    };
}
async function whyNot() {
    const stop = new AbortController();
    try {
        const response = await fetch(EVENTS, { signal: stop.signal });
        if (response.ok)
            return "no connection to the server; trying again";
        const body = await response.text();
        let said = body;
        try {
            said = JSON.parse(body).error;
        }
        catch { }
        return `the server sends no events (${response.status}): ${said}`;
    }
    catch {
        return "no connection to the server; trying again";
    }
    finally {
        stop.abort();
    }
}
