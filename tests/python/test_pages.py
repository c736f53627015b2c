"""The pages on the HTTP port: what is served, and what a real browser makes of them."""

import filecmp
import gzip
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from browser import Page, shown
from conftest import ROOT, ZOO, Server

COMPILER = ROOT / ".deps" / "npm" / "typescript@5.9.3"


def shapes_config():
    """The zoo's stream service and what is below it, with objectives for busy machines."""
    text = (ZOO / "fermata.yaml").read_text()
    services = "".join(re.findall(r"^  shapes.*:\n(?:   .*\n)+", text, re.MULTILINE))
    services = services.replace("slo_ms: 200", "slo_ms: 20000")
    return ("models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"
            "workers: {{count: 1, threads: 1}}\nservices:\n" +
            services.replace("{", "{{").replace("}", "}}"))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "models").mkdir()
    for model in ZOO.glob("repository/shapes-*"):
        (folder / "models" / model.name).symlink_to(model)
    server = Server(folder, folder / "models", shapes_config())
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture
def page(served, tmp_path):
    pages = []

    def open_page(path):
        pages.append(Page(tmp_path, f"http://{served.http}{path}"))
        return pages[-1]
    yield open_page
    for one in pages:
        one.close()


def start(page, source, slo_ms=20000, clients=0):
    """One more client than there are."""
    page.wait(f"{shown('state')} === 'ready'" if clients == 0 else f"document.querySelectorAll('.client').length === {clients}")
    page.run(f"document.getElementById('source').value = '{source}';"
             f"document.getElementById('slo').value = {slo_ms};"
             "document.getElementById('start').click()")


def said(is_):
    """The expression of what the newest client says of itself."""
    return f"(document.querySelector('.client [data-is={is_}]')?.textContent ?? '')"


@pytest.mark.parametrize("source", ["film", "camera"])
def test_a_browser_streams_and_draws_what_comes_back(page, source):
    view = page("/stream")
    start(view, source)
    view.wait(f"Number({said('answered')}) >= 15")
    assert view.run(said("misses")) == "0 %", view.run(said("error"))
    assert view.run(said("size")) in ("96 px", "160 px", "256 px")
    assert view.run(said("latency")).endswith("ms") and view.run(said("bandwidth")).endswith("bit/s")
    view.wait("document.querySelectorAll('.client .uplot').length === 4")
    if source == "film":
        view.wait(f"{said('size')} === '256 px'")
        view.wait(f"Number({said('boxes')}) >= 3")
        yellow = ("[...document.querySelector('.client canvas.picture').getContext('2d').getImageData(0, 0, 512, 512).data]"
                  ".filter((v, i, d) => i % 4 === 0 && v === 255 && d[i + 1] === 255 && d[i + 2] === 51).length")
        view.wait(f"{yellow} > 100")
    view.run("document.getElementById('stop').click()")
    view.wait(f"{shown('state')} === 'stopped'")
    assert not view.errors


def test_a_client_that_no_model_can_serve_is_told_so(page):
    view = page("/stream")
    start(view, "film", slo_ms=1)
    view.wait(f"{said('told')}.includes('no model can serve')")


def test_several_clients_stream_beside_each_other(page):
    view = page("/stream")
    for clients in range(2):
        start(view, "film", clients=clients)
    view.wait("[...document.querySelectorAll('.client [data-is=answered]')].filter(cell => Number(cell.textContent) >= 3).length === 2")
    view.run("document.querySelector('.client button').click()")
    view.wait(f"{shown('state')} === '1 client streams'")
    assert not view.errors


SLOW = {96: 10, 160: 30, 256: 11000}  # ms a picture, of which two of the largest take longer than the SLO


def write_profile(model, ms):
    """Of a model that takes so long by batch size."""
    rows = {str(size): {"runs": 1, "p50_ms": took, "p90_ms": took, "p99_ms": took, "mean_ms": took} for size, took in ms.items()}
    (model / "profile.json").write_text(json.dumps(
        {"format": 1, "version": 1, "model": model.name, "model_version": "1", "batches": rows,
         "linear_ms": {"alpha": ms[1], "beta": 0, "error": 0}, "quadratic_ms": {"a": 0, "b": ms[1], "c": 0, "error": 0}}))


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """The same services on an emulated worker, where nobody may send the largest size."""
    folder = tmp_path_factory.mktemp("emulated")
    for model in ZOO.glob("repository/shapes-*"):
        to = folder / "models" / model.name
        shutil.copytree(model, to)
        write_profile(to, {size: size * SLOW[int(model.name.rpartition("-")[2])] for size in (1, 2, 4, 8, 16)})
    server = Server(folder, folder / "models", shapes_config().replace("threads: 1", "executor: emulated"))
    yield server
    assert server.stop() == 0, server.log.read_text()


def test_clients_send_the_size_that_the_planner_decides(emulated, tmp_path):
    view = Page(tmp_path, f"http://{emulated.http}/stream")
    start(view, "film")
    view.wait(f"Number({said('answered')}) >= 5 && {said('size')} === {said('told')} && {said('told')} !== '256 px'")
    view.close()


def test_pages_are_compressed_for_those_who_can_read_it(served):
    url = f"http://{served.http}/pages/uplot.js"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        compressed = reply.read()
    with urllib.request.urlopen(url) as reply:
        assert "Content-Encoding" not in reply.headers
        assert reply.read() == gzip.decompress(compressed)


def test_what_is_no_page_is_not_found_and_pages_keep_strangers_out(served):
    with urllib.request.urlopen(f"http://{served.http}/stream") as response:
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["Content-Type"].startswith("text/html")
    for path in ("/pages/nothing.js", "/pages/..%2fCMakeLists.txt", "/elsewhere"):
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"http://{served.http}{path}")
        assert missing.value.code == 404


def test_what_is_built_is_what_its_source_says(tmp_path):
    if not COMPILER.exists():
        pytest.skip("the TypeScript compiler is not there (scripts/web.sh fetches it)")
    subprocess.run([ROOT / "scripts" / "web.sh", tmp_path], check=True)
    built = ROOT / "web" / "built"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in built.iterdir())
    match, mismatch, errors = filecmp.cmpfiles(tmp_path, built, names, shallow=False)
    assert not mismatch and not errors, f"{mismatch} differ: run scripts/web.sh"
