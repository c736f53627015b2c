"""The chart in a real Kubernetes (kubernetes.py), its pods as processes (kubelet.py): what it makes is taken, and no request
fails while pods are rolled out, are evicted or die. `make kubernetes` builds what this needs."""

import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import ssl
import threading
import time

import kubernetes as own
import pytest
import yaml
from conftest import FERMATA, ROOT
from hosted import LIMIT_S, make_certificate, sum_metric
from kubelet import Kubelet, now
from parts import Parts, paced
from test_helm import CASES

BODY = json.dumps({"inputs": [{"name": "index", "shape": [1, 1], "datatype": "INT64", "data": [2]}]})
VALUES = {
    "shape": "parts", "image": {"command": [str(FERMATA)]}, "cluster": {"tlsSecret": "part"}, "server": {"replicas": 2},
    "workers": [{"name": "far", "replicas": 2, "most": 4, "readySeconds": 1, "workersPerPod": 2}], "config": {"workers": {"executor": "paced"}},
    "drain": {"delaySeconds": 1}}


@pytest.fixture
def folder():
    """One that is seen when /tmp is another, and by other users."""
    place = ROOT / "build" / f"kubernetes-{os.getpid()}"
    place.mkdir(mode=0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def kubernetes(folder, request):
    controllers = getattr(request, "param", True)
    if why := own.missing("etcd", "kube-apiserver", *(["kube-controller-manager", "kwok"] if controllers else [])):
        pytest.skip(why)
    with own.Kubernetes(folder, controllers) as made:
        yield made


class Installed(contextlib.ExitStack):
    """The chart, and clients of its Service as kube-proxy would send them."""

    def __init__(self, kubernetes, folder, values, elsewhere=()):
        super().__init__()
        self.kubernetes, self.values = kubernetes, folder / "values.yaml"
        models, pods = folder / "models", folder / "pods"
        for name, model, run_ms in (("gather", "gather", 5), ("slow", "identity-fp32", 200)):
            (models / name).mkdir(parents=True)
            shutil.copytree(ROOT / "tests/data/repository" / model / "1", models / name / "1")
            (models / name / "profile.json").write_text(json.dumps(paced(run_ms) | {"model": name}))
        (models / "slow" / "config.pbtxt").write_text(  # of a size that `fermata load` can make up
            'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 }')
        make_certificate(folder, "authority", "authority")
        make_certificate(folder, "part", "authority")
        secret = {"ca.crt": "authority.pem", "tls.crt": "part.pem", "tls.key": "part.key"}
        pods.mkdir()
        self.kubelet = self.enter_context(Kubelet(kubernetes, pods, models, {
            "part": {name: (folder / file).read_text() for name, file in secret.items()}}, elsewhere))
        self.client = kubernetes.network.host("client")
        self.values.write_text(yaml.safe_dump(values))
        kubernetes.make_crds()
        kubernetes.helm("install", "one", own.CHART, "--values", self.values)

    def endpoints(self):
        slices = self.kubernetes.call("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                                      "?labelSelector=kubernetes.io/service-name=one")["items"]
        return [address for each in slices for point in each["endpoints"] or [] if point["conditions"]["ready"] for address in point["addresses"]]

    def await_workload(self, *names, kind="deployments"):
        """As kubectl rollout status."""
        for name in names:
            self.wait(lambda: self.is_rolled_out(kind, name), f"{kind} {name}")

    def is_rolled_out(self, kind, name):
        workload = self.kubernetes.call("GET", f"/apis/apps/v1/namespaces/default/{kind}/{name}")
        status, replicas = workload["status"], workload["spec"]["replicas"]
        return status.get("observedGeneration") == workload["metadata"]["generation"] and all(
            status.get(count, 0) == replicas for count in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"))

    def wait(self, holds, what):
        end = time.monotonic() + LIMIT_S
        while not holds():
            assert time.monotonic() < end, (what, self.logs())
            time.sleep(0.1)

    def logs(self):
        return {file.name: file.read_text()[-2000:] for file in self.kubelet.folder.glob("*.log")}

    def await_all(self):
        self.await_workload("one-scheduler", kind="statefulsets")
        self.await_workload("one", "one-workers-far")
        self.wait(self.endpoints, "endpoints")

    def restart(self, name, kind="deployments"):
        """As kubectl rollout restart."""
        stamp = {"kubectl.kubernetes.io/restartedAt": str(time.time())}
        self.kubernetes.patch(f"/apis/apps/v1/namespaces/default/{kind}/{name}",
                              {"spec": {"template": {"metadata": {"annotations": stamp}}}})

    def evict(self, pod):
        """As kubectl drain: again while a disruption budget forbids it, and until it is gone."""
        uid = self.uid(pod)

        def evicted():
            try:
                self.kubernetes.call("POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", {
                    "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
            except own.Refused as refused:
                assert refused.code == 429, refused
                return False
            return True
        self.wait(evicted, f"eviction of {pod}")
        self.wait(lambda: self.uid(pod) != uid, f"end of {pod}")

    def uid(self, pod):
        with contextlib.suppress(own.Refused):
            return self.kubernetes.call("GET", f"/api/v1/namespaces/default/pods/{pod}")["metadata"]["uid"]
        return None

    def holder(self):
        with contextlib.suppress(own.Refused):
            return self.kubernetes.call("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/one-scheduler")["spec"].get("holderIdentity", "")
        return ""


class Load:
    """Requests one after the other from each of several clients, each over a new connection to a pod that is ready."""

    def __init__(self, installed, clients=4):
        self.installed, self.answered, self.failed = installed, [], []
        self.ready, self.stopping = installed.endpoints(), threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(clients)] + [threading.Thread(target=self.look)]

    def look(self):
        while not self.stopping.wait(0.1):
            self.ready = self.installed.endpoints()

    def ask(self, turn):
        while not self.stopping.wait(0.005):
            turn, ready = turn + 1, self.ready
            try:
                with self.installed.client.here():
                    connection = http.client.HTTPConnection(ready[turn % len(ready)], 8000, timeout=LIMIT_S)
                    connection.request("POST", "/v2/models/gather/infer", BODY)
                    reply = connection.getresponse()
                text = reply.read()
                assert reply.status == 200 and json.loads(text)["outputs"][0]["data"] == [20], (reply.status, text)
                self.answered.append(time.monotonic())
            except (OSError, http.client.HTTPException, AssertionError, ZeroDivisionError) as why:
                self.failed.append(repr(why))

    def longest_gap(self):
        times = sorted(self.answered)
        return max(b - a for a, b in zip(times, times[1:]))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.installed.wait(lambda: len(self.answered) > 20, "answers")
        return self

    def __exit__(self, *_):
        count = len(self.answered)
        with contextlib.suppress(AssertionError):
            self.installed.wait(lambda: len(self.answered) > count + 20, "answers at the end")
        self.stopping.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("kubernetes", [False], indirect=True)
def test_it_takes_whatever_the_chart_makes(kubernetes, folder):
    kubernetes.make_crds()
    for name, values in CASES.items():
        if name != "issuer":  # its kind is not here
            for each in chart(kubernetes, folder, values):
                apply(kubernetes, each)


def chart(kubernetes, folder, values):
    """The objects that it makes, by helm and the server."""
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    made = kubernetes.helm("install", "one", own.CHART, "--values", folder / "values.yaml", "--dry-run=server", check=False)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout.split("MANIFEST:")[1].split("NOTES:")[0]) if each]


def apply(kubernetes, each):
    """Strictly: a field that the server does not know is an error."""
    group = "/api/v1" if "/" not in each["apiVersion"] else f"/apis/{each['apiVersion']}"
    plural = each["kind"].lower() + "s"
    kubernetes.call("PATCH", f"{group}/namespaces/default/{plural}/{each['metadata']['name']}?fieldManager=test&fieldValidation=Strict&dryRun=All",
                    each, "application/apply-patch+yaml")


@pytest.mark.parametrize("kubernetes", [False], indirect=True)
def test_a_scheduler_that_may_use_its_lease_decides(kubernetes, folder):
    """By the role that the chart makes, and the token of its account."""
    kubernetes.make_crds()
    objects = {each["kind"]: each for each in chart(kubernetes, folder, CASES["parts"])}
    kubernetes.call("POST", "/api/v1/namespaces/default/serviceaccounts", objects["ServiceAccount"])
    account = kubernetes.account_files(folder / "account", "one-scheduler")
    with kubernetes.host.here(), contextlib.ExitStack() as stack:
        parts = Parts(folder, more="  lease: {name: one-scheduler, server: 'https://%s:%d', account: %s}" % (
            kubernetes.host.address, own.PORT, account))
        stack.callback(parts.kill)
        first = parts.scheduler("first")
        await_text(first.log, 'system:serviceaccount:default:one-scheduler')
        for kind in ("Role", "RoleBinding"):
            kubernetes.call("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/default/{kind.lower()}s", objects[kind])
        lease = await_holder(kubernetes)
        holder = lease["spec"]["holderIdentity"]
        assert lease["spec"]["leaseTransitions"] == 0 and lease["spec"]["leaseDurationSeconds"] == 2
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/one-scheduler"
        kubernetes.patch(path, {"metadata": {"labels": {"of": "others"}}})
        second = parts.scheduler("second")
        first.kill()
        assert await_holder(kubernetes, other_than=holder)["spec"]["leaseTransitions"] == 1
        assert second.stop() == 0
        lease = kubernetes.call("GET", path)
        assert "holderIdentity" not in lease["spec"] and lease["metadata"]["labels"] == {"of": "others"}
        kubernetes.call("DELETE", path)
        third = parts.scheduler("third")
        await_holder(kubernetes)
        kubernetes.api.terminate()
        assert third.process.wait(LIMIT_S) == 1


def await_text(log, text):
    end = time.monotonic() + LIMIT_S
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


def await_holder(kubernetes, other_than=""):
    end = time.monotonic() + LIMIT_S
    while True:
        with contextlib.suppress(own.Refused):
            lease = kubernetes.call("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/one-scheduler")
            if lease["spec"].get("holderIdentity", "") not in ("", other_than):
                return lease
        assert time.monotonic() < end, other_than
        time.sleep(0.1)


def test_no_request_fails_in_a_rollout_an_eviction_and_a_death(kubernetes, folder):
    with Installed(kubernetes, folder, VALUES) as installed:
        installed.await_all()
        with Load(installed) as load:
            for name in ("one", "one-workers-far"):
                installed.restart(name)
                installed.await_workload(name)
            installed.restart("one-scheduler", "statefulsets")
            installed.await_workload("one-scheduler", kind="statefulsets")
        assert load.failed == [], installed.logs()
        print(f"rollouts: {len(load.answered)} answered, longest gap {load.longest_gap():.2f} s")

        with Load(installed) as load:
            for begins in ("one-workers-far-", "one-scheduler-", "one-"):
                for pod in installed.kubelet.of(begins):
                    if begins == "one-" and pod.startswith(("one-workers", "one-scheduler")):
                        continue
                    installed.evict(pod)
                    installed.await_all()
        assert load.failed == [], installed.logs()
        print(f"evictions: {len(load.answered)} answered, longest gap {load.longest_gap():.2f} s")

        with Load(installed) as load:
            active = installed.holder()
            (pod,) = [pod for name, pod in installed.kubelet.of("one-scheduler-").items() if active.startswith(name)]
            pod.kill(signal.SIGKILL)
            installed.wait(lambda: installed.holder() not in ("", active), "another holder")
            count = len(load.answered)
            installed.wait(lambda: len(load.answered) > count + 20, "answers of the next")
        assert load.failed == [], installed.logs()
        print(f"kill -9 of the active scheduler: {len(load.answered)} answered, longest gap {load.longest_gap():.2f} s")


class Adapter:
    """As Prometheus' adapter with our rules: the sum of fermata_workers_wanted over the schedulers, an external metric."""

    def __init__(self, installed):
        self.kubernetes, self.read = installed.kubernetes, lambda: wanted(installed)
        adapter, files = self, own.certificate(self.kubernetes.folder, "adapter", "DNS:localhost")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                text = json.dumps(adapter.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        with self.kubernetes.host.here():
            self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 6444), Handler)
        self.server.daemon_threads, self.server.handle_error = True, lambda *_: None  # whoever asks may go before it is told
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    def answer(self, path):
        group = "external.metrics.k8s.io/v1beta1"
        if "/namespaces/" not in path:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [
                {"name": "fermata_workers_wanted", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}]}
        return {"kind": "ExternalMetricValueList", "apiVersion": group, "metadata": {}, "items": [
            {"metricName": "fermata_workers_wanted", "metricLabels": {}, "timestamp": now(), "value": str(int(self.read()))}]}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.kubernetes.call("POST", "/api/v1/namespaces/default/services", {
            "metadata": {"name": "adapter"}, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        self.kubernetes.call("POST", "/apis/apiregistration.k8s.io/v1/apiservices", {
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                     "insecureSkipTLSVerify": True, "service": {"name": "adapter", "namespace": "default", "port": 6444}}})
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def wanted(installed):
    pods = installed.kubelet.of("one-scheduler-").values()
    with installed.client.here():
        return sum(sum_metric(f"{pod.host.address}:8002", "fermata_workers_wanted", type="far") for pod in pods)


def replicas(installed):
    return installed.kubernetes.call("GET", "/apis/apps/v1/namespaces/default/deployments/one-workers-far")["status"].get("readyReplicas", 0)


def test_the_autoscaler_follows_what_is_wanted(kubernetes, folder):
    values = {**VALUES, "workers": [{"name": "far", "most": 8, "readySeconds": 0, "autoscale": {"by": "prometheus"}}],
              "config": {"workers": {"executor": "paced"}, "services": {"slow": {"model": "slow", "slo_ms": 500}}}}
    with Installed(kubernetes, folder, values) as installed, Adapter(installed):
        installed.await_all()
        address = installed.endpoints()[0]
        load = installed.client.start([FERMATA, "load", "--url", f"{address}:8001", "--service", "slow:100::500", "--duration", "300"])
        try:  # a worker does 20 a second
            installed.wait(lambda: wanted(installed) >= 3, "workers wanted")
            said = time.monotonic()
            installed.wait(lambda: replicas(installed) >= 3, "pods")
            print(f"signal to pods that are ready: {time.monotonic() - said:.1f} s")
        finally:
            load.kill()
            load.wait()


def test_512_workers_come_and_are_replaced(kubernetes, folder):
    nodes = [f"kwok-{i}" for i in range(4)]
    kubernetes.start_kwok(nodes)
    values = {**VALUES, "workers": [{"name": "far", "replicas": 512, "most": 512, "readySeconds": 0, "nodeSelector": {"type": "kwok"}}]}
    begun = time.monotonic()
    with Installed(kubernetes, folder, values, nodes) as installed:
        installed.await_workload("one-workers-far")
        print(f"512 workers there after {time.monotonic() - begun:.1f} s")
        budget = kubernetes.call("GET", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/one-workers-far")["status"]
        assert (budget["expectedPods"], budget["disruptionsAllowed"]) == (512, 52)  # 10 %, rounded up
        begun = time.monotonic()
        installed.restart("one-workers-far")
        installed.await_workload("one-workers-far")
        print(f"replaced after {time.monotonic() - begun:.1f} s")
