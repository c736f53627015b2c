"""What the live page says in a real browser of models whose processes die: what died, why, what was lost, what comes."""

import contextlib
import os
import signal
import sys
import threading

import numpy as np
import pytest
import tritonclient.http
from browser import Page, shown
from conftest import ROOT, Server
from hosted import sum_metric
from python_models import write
from test_deaths import infer, model_processes, not_served
from test_processor_limit import SPIN, SPIN_CONFIG
from tritonclient.utils import InferenceServerException

LIMIT_S = 120
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, isolation: process, run_limit_s: 5, python: PYTHON}}
services:
  looked-up: {{model: gather, slo_ms: 60000}}
""".replace("PYTHON", sys.executable)
# Stops for nothing, not for the exception by which it is asked to.
DEAF = SPIN.replace("""    while True:
        pass
""", """    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""")
ROW = "document.querySelector('[data-service={}] .kind').textContent"


@pytest.fixture
def server(tmp_path):
    models = tmp_path / "models"
    assert DEAF != SPIN
    write(models, "spin", DEAF, SPIN_CONFIG)
    (models / "gather").symlink_to(ROOT / "tests" / "data" / "repository" / "gather")
    server = Server(tmp_path, models, CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture
def page(server, tmp_path):
    page = Page(tmp_path / "browser", "about:blank")
    page.look(1440, 1000)
    page.open(f"http://{server.http}/")
    yield page
    errors = page.errors
    (tmp_path / "page.png").write_bytes(page.screenshot())
    page.close()
    assert not errors


@pytest.fixture
def load(server):
    """Requests to gather, one after the other."""
    done = threading.Event()

    def send():
        with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
            while not done.is_set():
                with contextlib.suppress(InferenceServerException):
                    infer(client)
                done.wait(0.02)
    thread = threading.Thread(target=send)
    thread.start()
    yield
    done.set()
    thread.join()


def gather_process(server):
    """Of the ONNX model: the Python model's is its interpreter."""
    processes = model_processes(server)
    return processes[0] if len(processes) == 1 else None


def test_a_kill_is_in_the_headline_the_row_and_the_timeline(server, page, load):
    page.wait("Number(document.getElementById('timeline-canvas')?.dataset.batches) > 0")
    os.kill(gather_process(server), signal.SIGKILL)
    page.wait(f"{shown('finding')}.includes('The process of model gather died')")
    page.wait(f"{shown('finding')}.includes('something outside of it ended it (SIGKILL)')")
    page.wait(f"{shown('finding')}.includes('Nothing was lost: requests in the batch of a process that dies run again, each alone.')")
    page.wait(f"{shown('finding')}.includes('It has been started again, and serves.')")
    page.wait(f"{ROW.format('gather')} === 'died once (SIGKILL), runs again'")
    assert page.run("document.getElementById('timeline-canvas').dataset.deaths") == "1"
    page.run("document.querySelector('#timeline-deaths button').click()")  # the timeline is held there
    page.wait(f"{shown('timeline-deaths')}.startsWith('✕ gather died at') && {shown('state')}.startsWith('held at')")
    page.press(" ")
    page.run("document.querySelector('[data-service=gather] button').click()")
    page.wait(f"{shown('service-why')}.includes('The process of model gather died')")


def test_an_endless_run_is_named_with_what_it_cost(server, page):
    page.wait(f"{shown('state')} === 'live'")
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        how = tritonclient.http.InferInput("HOW", [1], "INT32")
        how.set_data_from_numpy(np.array([1], np.int32))
        with pytest.raises(InferenceServerException, match="was stopped after"):
            client.infer("spin", [how])
    page.wait(f"{shown('finding')}.includes('The process of model spin died')")
    page.wait(f"{shown('finding')}.includes('a run did not end within workers.run_limit_s')")
    page.wait(f"{shown('finding')}.includes('Of spin 1 request failed in the last minute')")
    page.wait(f"{ROW.format('spin')} === 'died once (run too long), runs again'")
    assert sum_metric(server.metrics, "fermata_model_process_deaths_total", model="spin", signal="run_limit") == 1


def test_a_quarantine_says_when_it_ends_and_what_becomes_of_requests(server, page, load):
    seen = threading.Event()

    def kill_again_and_again():
        """So that there is another quarantine, a longer one, where the page is too slow for the first."""
        while not seen.is_set():
            if "in quarantine" in not_served(server):
                seen.wait(0.1)
            elif (process := gather_process(server)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    killer = threading.Thread(target=kill_again_and_again)
    killer.start()
    try:
        page.wait(f"{shown('finding')}.includes('It is not served: its process died 5 times in a row')"
                  f" && {shown('finding')}.includes('Its requests are rejected until then.')"
                  f" && {ROW.format('gather')}.endsWith('(SIGKILL), not served')")
    finally:
        seen.set()
        killer.join()
    page.wait(f"{ROW.format('gather')}.endsWith('(SIGKILL), runs again')")  # the server tries it by itself
