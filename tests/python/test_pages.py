"""The pages on the HTTP port: what is served, and what a real browser makes of them."""

import filecmp
import re
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


def start(page, source, slo_ms=20000):
    page.wait(f"{shown('state')} === 'ready'")
    page.run(f"document.getElementById('source').value = '{source}';"
             f"document.getElementById('slo').value = {slo_ms};"
             "document.getElementById('start').click()")


@pytest.mark.parametrize("source", ["film", "camera"])
def test_a_browser_streams_and_draws_what_comes_back(page, source):
    view = page("/stream")
    start(view, source)
    view.wait(f"Number({shown('answered')}) >= 15")
    assert view.text("misses") == "0.0 %", view.text("error")
    assert int(view.text("size")) in (96, 160, 256)
    assert view.text("latency").endswith("ms") and view.text("bandwidth").endswith("Mbit/s")
    if source == "film":
        view.wait(f"{shown('size')} === '256'")
        view.wait(f"Number({shown('boxes')}) >= 3")
        yellow = ("[...document.getElementById('picture').getContext('2d').getImageData(0, 0, 512, 512).data]"
                  ".filter((v, i, d) => i % 4 === 0 && v === 255 && d[i + 1] === 255 && d[i + 2] === 51).length")
        view.wait(f"{yellow} > 100")
    view.run("document.getElementById('stop').click()")
    view.wait(f"{shown('state')} === 'stopped'")
    assert not view.errors


def test_a_client_that_no_model_can_serve_is_told_so(page):
    view = page("/stream")
    start(view, "film", slo_ms=1)
    view.wait(f"{shown('told')}.includes('no model can serve')")


def test_the_pool_is_shown_live(page, served):
    view = page("/")
    first = view.wait("document.querySelector('#workers td')?.textContent")
    assert first.startswith("0")
    view.wait(f"{shown('services')}.includes('shapes-96')")
    view.wait("document.querySelector('#streams td')?.textContent === 'shapes'")
    assert view.wait("document.querySelector('#stages').closest('table').hidden") is True, "no pipeline has an adapter"
    assert not view.errors


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
