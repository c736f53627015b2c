"""The live page in a real browser: what every panel shows under load, and that it agrees with the metrics.
Models are emulated, so that nothing depends on how fast the machine is."""

import gzip
import json
import re
import subprocess
import urllib.request

import pytest

from browser import Page, shown
from conftest import FERMATA, Server

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 2, executor: emulated}}
services:
  crowded: {{model: long, slo_ms: 250}}
  steady: {{model: short, slo_ms: 20000}}
"""
RUN_MS = {"long": 100, "short": 2, "uncalled": 2}
FIRST_VISIT_BYTES = 150_000
BATCHES = "Number(document.getElementById('timeline-canvas')?.dataset.batches) > 0"  # the timeline has some


def write_models(folder):
    for name, ms in RUN_MS.items():
        at = folder / name
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text("""
max_batch_size: 1
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
""")
        times = {key: ms for key in ("p50_ms", "p90_ms", "p99_ms", "mean_ms")} | {"runs": 1}
        (at / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": name, "model_version": "1", "batches": {"1": times},
             "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
             "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0}}))
    return folder


def start(folder):
    return Server(folder, write_models(folder / "models"), CONFIG)


def load(server, seconds, crowded=60):
    """Twice and more what two workers can run of `crowded`, and a little of `steady`."""
    return subprocess.Popen([FERMATA, "load", "--protocol", "http", "--url", server.http, "--duration", str(seconds), "--json",
                             "--service", f"crowded:{crowded}", "--service", "steady:10"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    server = start(tmp_path_factory.mktemp("live"))
    sending = load(server, 3600)
    yield server
    sending.terminate()
    sending.wait()
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture
def opened(tmp_path):
    pages = []

    def open_page(server, width=1440, height=1000, scheme="light"):
        pages.append(Page(tmp_path / f"browser-{len(pages)}", "about:blank"))
        pages[-1].look(width, height, scheme)
        pages[-1].open(f"http://{server.http}/")
        return pages[-1]
    yield open_page
    for page in pages:
        errors = page.errors
        page.close()
        assert not errors


def counted(server):
    """Of `crowded`, by outcome as the page names them."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        rows = re.findall(r'^fermata_requests_total\{.*?"crowded".*outcome="(\w+)"\} (\d+)$', reply.read().decode(), re.M)
    of = {}
    for outcome, value in rows:
        of[outcome] = of.get(outcome, 0) + int(value)
    rejected = sum(value for outcome, value in of.items() if re.match("re(fused|jected)_|unavailable", outcome))
    return {"offered": sum(of.values()), "on_time": of.get("on_time", 0), "late": of.get("late", 0),
            "failed": of.get("failed", 0), "cancelled": of.get("cancelled", 0), "rejected": rejected}


def choose(page, service):
    page.wait(f"document.querySelector('[data-service={service}] button')")
    page.run(f"document.querySelector('[data-service={service}] button').click()")


def agrees(page, server):
    numbers = counted(server)
    assert numbers["offered"] > 0 and numbers["rejected"] > 0
    for key, value in numbers.items():
        page.wait(f"document.getElementById('service-counts').dataset.{key} === '{value}'")


def test_its_counts_are_those_of_the_metrics(tmp_path, opened):
    server = start(tmp_path)
    before = opened(server)
    choose(before, "crowded")
    load(server, 3).wait()
    agrees(before, server)
    after = opened(server)  # knows it from the history that the server sends first
    choose(after, "crowded")
    agrees(after, server)
    assert "rejected, since their deadline could no longer be met" in after.text("service-counts")
    assert server.stop() == 0


def test_it_says_who_loses_deadlines_and_why(crowded, opened):
    page = opened(crowded)
    page.wait(f"{shown('finding')}.includes('crowded lost')")
    page.wait(f"{shown('finding')}.includes('The load is beyond what 2 workers can run')")
    page.wait(f"/The server wants \\d+ workers, \\d+ more/.test({shown('finding')})")  # after the first window of 10 s
    page.wait(f"!{shown('finding')}.includes('steady')")  # a minute after a stop of the machine, which costs it some too
    page.wait(f"{shown('busy')}.endsWith('%') && Number({shown('wanted')}) > 2")  # of some second: in one the machine may stop
    page.wait(f"Number({shown('offered')}) > 0 && {shown('memory')}.endsWith('B')")
    choose(page, "crowded")
    page.wait(f"{shown('service-why')}.includes('beyond what 2 workers can run')")
    assert "SLO 250 ms" in page.text("service-kind")


def test_the_headline_and_the_what_if_rest_on_the_same_simulation(crowded, opened):
    """Nobody asks: the server simulates more workers itself while a service loses requests."""
    page = opened(crowded)
    page.wait(f"{shown('finding')}.includes('Simulated, with 2 more workers')")
    page.wait("""(() => {  // the headline is drawn each second, the cases when they come
        const rows = [...document.querySelectorAll('#case-rows tr')];
        const share = name => rows.find(row => row.cells[0].textContent === name)?.title.match(/^crowded: (.*) on time$/m)[1];
        return document.getElementById('finding').textContent.includes(`with 2 more workers ${share('2 workers more (4)')} of its requests `
            + `would be on time instead of ${share('the same, simulated')}.`); })()""")
    assert "won't help" not in page.text("wanted-note")
    again = opened(crowded)  # who comes later is told at once
    again.wait(f"/Simulated.*, with 2 more workers/.test({shown('finding')})")


def test_a_rejected_request_is_explained_with_its_waterfall(crowded, opened):
    page = opened(crowded)
    page.wait(f"{shown('finding')}.includes('crowded lost')")
    page.press("r")
    page.wait(f"{shown('request-sentence')}.startsWith('crowded: rejected')")
    assert len(page.text("request-sentence")) > len("crowded: rejected. ")
    assert page.run("document.querySelectorAll('#waterfall .due').length") > 1
    assert page.run("document.querySelectorAll('#request-list button').length") > 1
    chosen = page.run("document.getElementById('requests').dataset.id")
    page.run(f"""(() => {{ const field = document.getElementById('pick-id'); field.value = '{chosen}'; field.focus(); }})()""")
    page.press("Enter")
    page.wait(f"document.getElementById('requests').dataset.id === '{chosen}' && "
              f"document.querySelectorAll('#request-list button').length === 1")


def test_what_if_says_in_words_what_more_workers_bring(crowded, opened):
    page = opened(crowded)
    page.wait(f"{shown('finding')}.includes('crowded lost')")
    page.press("w")
    page.wait(f"{shown('verdict')}.includes('Two more workers would help')")
    rows = page.run("[...document.querySelectorAll('#case-rows tr')].map(row => row.innerText.replace(/\\s+/g, ' '))")
    assert rows[0].startswith("as it was") and any(row.startswith("2 workers more (4)") for row in rows)
    page.run("""(() => { const form = document.getElementById('what-if-form');
                 form.elements.workers.value = 5; form.elements.load.value = 2; form.requestSubmit(); })()""")
    page.wait("[...document.querySelectorAll('#case-rows td')].some(cell => cell.textContent === '3 workers more (5), twice the load')")


def test_the_timeline_is_driven_by_keys(crowded, opened):
    page = opened(crowded)
    page.wait(BATCHES)
    page.press(" ")
    page.wait(f"{shown('state')}.startsWith('held at')")
    page.press(",")
    page.wait("!document.getElementById('tip').hidden")
    assert re.match(r"(crowded|steady) × 1\b", page.text("tip")), page.text("tip")
    assert "started because: " in page.text("tip") and "waited " in page.text("tip")
    page.press("Enter")
    page.wait("document.getElementById('requests').dataset.id")
    drawn = "document.getElementById('timeline-canvas').toDataURL()"
    page.run(f"window.before = {drawn}, null")
    page.press("+")
    page.wait(f"{drawn} !== window.before")
    page.press("Escape")
    page.press("s")
    page.wait(f"{shown('speed')} === '1/10'")
    page.press(" ")
    page.wait(f"{shown('timeline-state')} === 'slow motion'")
    page.press("?")
    page.wait("document.getElementById('help').open")


def test_a_page_that_is_held_as_soon_as_it_opens_shows_what_ran_before(tmp_path, opened):
    """All batches ended before the page was opened: nothing comes that could fill the picture later."""
    server = start(tmp_path)
    load(server, 2).wait()
    page = opened(server)
    page.wait(BATCHES)
    page.press(" ")
    page.press(",")
    page.wait("!document.getElementById('tip').hidden")
    assert re.match(r"(crowded|steady) × 1\b", page.text("tip")), page.text("tip")
    assert server.stop() == 0


def test_the_batches_of_a_held_minute_stay_however_long_it_is_held(crowded, opened):
    page = opened(crowded)
    kept = page.run("""import('/pages/timeline_data.js').then(({ TimelineData }) => {
        const data = new TimelineData(), second = i => i * 1e6, held = second(100);
        const batch = i => ({ id: i, worker: 0, start_us: second(i), end_us: second(i) + 1, requests: [
            { id: 'r' + i, service: 'a', arrival_us: second(i - 2), deadline_us: null }] });
        const waits = id => ({ id, service: 'a', model: 'a', arrival_us: second(99), deadline_us: null });
        const event = (i, waiting) => ({ now_us: second(i), batches: [batch(i)], loads: [], waiting });
        for (let i = 1; i <= 100; ++i) data.add(event(i, [waits('r101'), waits('rejected')]));
        for (let i = 101; i <= 300; ++i) data.add(event(i, []), held);
        const whileHeld = [data.lane(0).map(b => b.id), data.waitingAt(held).map(w => w.id).sort()];
        data.add(event(301, []));
        return [...whileHeld, data.lane(0).map(b => b.id), data.batches];
    })""")
    assert kept == [[*range(40, 103), *range(240, 301)], ["r101", "r102", "rejected"], [*range(241, 302)], 61]


def test_models_that_nobody_calls_are_folded_away_until_they_are_asked_for(crowded, opened):
    page = opened(crowded)
    choose(page, "steady")
    names = "[...document.querySelectorAll('#service-rows tr')].map(row => row.dataset.service)"
    assert "uncalled" not in page.run(names)
    page.press("/")
    page.run("document.activeElement.value = 'unca'; document.activeElement.dispatchEvent(new Event('input'))")
    assert page.run(names) == ["", "uncalled"]


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_it_fits_and_follows_the_system_in_the_dark(crowded, opened, width):
    page = opened(crowded, width, 900, "dark")
    page.wait(f"Number({shown('offered')}) > 0")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(part => part > 200)"
    assert not page.run(light)
    page.look(width, 900, "light")
    page.wait(light)


def test_a_first_visit_is_small_and_asks_nobody_else(crowded, opened):
    page = opened(crowded)
    page.wait(f"Number({shown('offered')}) > 0")
    names = page.run("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert names and all(name.startswith(f"http://{crowded.http}/") for name in names)
    files = [name for name in names if "/pages/" in name] + [f"http://{crowded.http}/"]
    sizes = {}
    for name in files:
        with urllib.request.urlopen(urllib.request.Request(name, headers={"Accept-Encoding": "gzip"})) as reply:
            body = reply.read()
            assert reply.headers["Content-Encoding"] == "gzip"
        with urllib.request.urlopen(name) as reply:
            assert "Content-Encoding" not in reply.headers and reply.read() == gzip.decompress(body)
        sizes[name] = len(body)
    assert sum(sizes.values()) <= FIRST_VISIT_BYTES, sizes


def test_words_for_numbers(crowded, opened):
    """The sentences of `verdict` and `reasons`, from made-up numbers."""
    page = opened(crowded)
    outcome = "{ requests: 600, seconds: 60, accuracy: null, busy: %s, services: {}, on_time: %s }"
    case = "{ ...%s, case: { workers: %d } }"
    said = page.run("import('/pages/verdict.js').then(({ verdict }) => verdict({ replayed: %s, cases: [%s, %s] }, 2))" % (
        outcome % (0.5, 0.99), case % (outcome % (0.4, 0.9905), 4), case % (outcome % (0.9, 0.7), 1)))
    assert said == ("Two more workers would not help: 99.1 % on time instead of 99.0 %, busy 40.0 % instead of 50.0 %. "
                    "One fewer: 70.0 %.")
    second = """{ at_us: %d, pool: { busy: 0.3, workers: 2, workers_wanted: null, offered: 10 }, services: {
                 a: { offered: 10, on_time: 8, late: 0, failed: %d, cancelled: 0, rejected: { %s: %d } } } }"""
    find = """import('/pages/reasons.js').then(({ finding }) => {
        const found = finding('a', %s, { services: new Map([['a', { members: [], slo_ms: 50 }]]), runs: new Map(%s) });
        return `${found.why} ${found.advice}`; })"""
    seconds = "[" + ", ".join(second % (i, 2, "queue", 0) for i in range(3)) + "]"
    assert page.run(find % (seconds, "[]")).startswith("Its model ended with errors.")
    seconds = "[" + ", ".join(second % (i, 0, "deadline", 2) for i in range(3)) + "]"
    assert "even its shortest batch runs for 45 ms" in page.run(find % (seconds, "[['a', { shortest: 45, longest: 46 }]]"))
    assert "Batches of b run for up to 90 ms" in page.run(find % (seconds, "[['b', { shortest: 9, longest: 90 }]]"))
    seconds = """Array.from({ length: 5 }, (_, i) => ({ at_us: i * 1e6, pool: { busy: 0.8, workers: 2, workers_wanted: null, offered: 100 },
        services: { a: { offered: 100, on_time: 30, late: 10, failed: 0, cancelled: 0, rejected: {} } } }))"""  # 60 of a hundred wait
    assert "In the last 5 s 100 requests/s came. 2 workers, busy 80.0 % of the time, answered 30 a second on time." in page.run(find % (seconds, "[]"))


def test_three_places_agree_whether_workers_would_help(crowded, opened):
    """The banner, the tile and the what-if, where the server's own delay takes the budget, where its signal asks for workers that
    a simulation shows to be useless, and where it asked for some only once."""
    page = opened(crowded)
    script = """Promise.all([import('/pages/reasons.js'), import('/pages/verdict.js')]).then(([{ finding }, { simulated, verdict, farOff }]) => {
        const second = (i, wanted, delay, busy) => ({ at_us: i * 1e6, pool: { busy, workers: 1, workers_wanted: wanted, offered: 10, control_delay_ms: delay },
            services: { a: { offered: 10, on_time: 5, late: 5, failed: 0, cancelled: 0, rejected: {}, drift: 2.5 } } });
        const outcome = on_time => ({ requests: 600, seconds: 60, on_time, accuracy: null, busy: 0.6, services: { a: { on_time } } });
        const answer = { recorded: { ...outcome(0.502), busy: 0.99 }, replayed: outcome(0.5), cases: [{ ...outcome(0.501), case: { workers: 3 } }] };
        const say = (seconds, known = {}) => {
            const found = finding('a', seconds, { services: new Map([['a', { members: [], slo_ms: 200 }]]), runs: new Map(), ...known });
            return [`${found.why} ${found.advice}`, found.helped ?? null];
        };
        const overloaded = [1, 2, 3].map(i => second(i, 10, 1, 0.95)), cramped = [1, 2, 3].map(i => second(i, 10, 65, 0.5));
        const better = { ...answer, cases: [{ ...outcome(0.9), case: { workers: 3 } }] };
        const told = answer => ({ simulated: simulated(answer, 1, 2e6) });
        return [say(cramped), say(cramped, told(better)), say(overloaded), say(overloaded, { recorded: false }), say(overloaded, told(answer)),
                say(overloaded, told(better)), say([1, 2, 45].map(i => second(i, 10, 1, 0.95)), told({ ...better, recorded: outcome(0.3) })), say([second(1, 10, 1, 0.95), second(2, 1, 1, 0.95)]), verdict(answer, 1, { ms: 65, slo_ms: 200 }),
                farOff(answer)];
    })"""
    delayed, elsewhere, asked, unrecorded, useless, useful, doubtful, once, verdict, off = page.run(script)
    machine = ("The server's own delay is 65 ms of the 200 ms: the machine starts and answers batches too late, since its processors are busy. Its "
               "batches run 2.5 times as long as their profile says. The server wants 10 workers, 9 more. ")
    rest = "Less work for this machine's processors or a longer SLO would help"
    assert delayed == [f"{machine}{rest}. What more workers would bring is being simulated.", None]
    assert elsewhere == [f"{machine}Simulated, with 2 more workers 90.0 % of its requests would be on time instead of 50.0 %, if these had "
                         f"processors of their own, as on another machine. {rest} too.", 2]
    assert "The server wants 10 workers, 9 more." in asked[0] and "being simulated" in asked[0] and asked[1] is None
    assert "More workers, a faster variant or less load would help." in unrecorded[0] and "simulated" not in unrecorded[0]
    assert "The autoscaling signal, which counts what was lost, asks for 9 more." in useless[0] and "The server wants" not in useless[0]
    assert "Simulated, 2 more workers would not help; a faster variant or less load would." in useless[0] and useless[1] == 0
    assert "Simulated, with 2 more workers 90.0 % of its requests would be on time instead of 50.0 %." in useful[0] and useful[1] == 2
    assert ("Simulated 40 s ago, with 2 more workers 90.0 % of its requests would be on time instead of 50.0 %. As it was, the simulation is 20.0 "
            "points off what happened.") in doubtful[0]
    assert "The server wanted up to 10 workers then, and no more than there are now." in once[0]
    assert verdict.startswith("Two more workers would not help") and "the server's own delay is 65 ms of 200 ms" in verdict
    assert off == "simulated as it was, 0.2 points off on time and 39.0 points off busy"


def test_what_requests_have_is_their_own_deadline_where_they_bring_one(crowded, opened):
    page = opened(crowded)
    said = page.run("""Promise.all([import('/pages/state.js'), import('/pages/timeline_data.js')]).then(([{ State }, { TimelineData }]) => {
        const state = new State(), data = new TimelineData();
        const seat = (service, ms) => ({ id: service + ms, service, arrival_us: 0, deadline_us: 1000 * ms, items: 1 });
        data.add({ now_us: 1e6, loads: [], waiting: [], batches: [{ id: 1, worker: 0, model: 'm', service: 'a', items: 3, start_us: 1, end_us: 9e5,
            requests: [seat('a', 300), seat('a', 400), seat('b', 199)] }] });
        state.setServices(['a', 'b', 'c'].map(name => ({ name, slo_ms: 200, members: [] })));
        state.budgets = data.budgets();
        return ['a', 'b', 'c'].map(name => state.budgetOf(name));
    })""")
    assert said == [{"least": 300, "most": 400, "own": True}] + [{"least": 200, "most": 200, "own": False}] * 2


def test_the_timeline_and_the_minute_can_be_saved(crowded, opened):
    page = opened(crowded)
    page.wait(f"{shown('finding')}.includes('crowded lost')")
    for path, key in (("trace", "traceEvents"), ("recording", "")):
        document = page.run(f"fetch('/v2/live/{path}').then(reply => reply.json())")
        assert document and (key in document or not key)


def test_an_hour_counts_what_its_seconds_counted(crowded, opened):
    """`history` puts seconds together by ten, and leaves stages of pipelines out."""
    page = opened(crowded)
    totals = page.run("""import('/pages/history.js').then(({ History, total, countsOf }) => {
        const tally = { offered: 4, on_time: 2, late: 1, failed: 0, cancelled: 0, rejected: { deadline: 1 } };
        const part = { ...tally, answered_by: { small: 3 }, accuracy: 0.5, p50_ms: 1, p99_ms: 2, batches: { 3: 1 }, waiting: 0 };
        const second = i => ({ at_us: (i + 1) * 1e6, pool: { ...tally, busy: 0.5, workers: 1, idle: 0, memory_mb: 1, workers_wanted: null, accuracy: 0.5 },
                               services: { a: part, 'a/stage': { ...part, stage: true } } });
        const all = Array.from({ length: 25 }, (_, i) => second(i)), history = new History();
        history.begin({ history: { step_s: 1, seconds: all.slice(0, 12), coarse: { step_s: 10, seconds: [] } } });
        for (const one of all.slice(12)) history.add(one);
        return [5, 60].map(minutes => {
            const { seconds } = history.slice(minutes);
            return [total(seconds, 'a'), total(seconds), countsOf(seconds, 'a', 'answered_by'), seconds.some(one => 'a/stage' in one.services)];
        });
    })""")
    tally = {"offered": 100, "on_time": 50, "late": 25, "failed": 0, "cancelled": 0, "rejected": {"deadline": 25}}
    assert totals == [[tally, tally, {"small": 75}, False]] * 2
