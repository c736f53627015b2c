"""A Kubernetes of a test's own: etcd, kube-apiserver and kube-controller-manager as scripts/deps.sh apiserver builds
them, on one of the hosts of hosts.py.

    with Kubernetes(folder) as kubernetes:
        kubernetes.helm("install", "one", CHART, "--values", file)
        kubernetes.call("GET", "/api/v1/namespaces/default/pods")["items"]

kubelet.py runs its pods."""

import contextlib
import http.client
import json
import ssl
import subprocess
import threading
import time

import hosts
import yaml
from hosted import LIMIT_S, ROOT

PROGRAMS = ROOT / ".deps/apiserver/bin"
HELM = ROOT / ".deps/kubernetes/bin/helm"
CRDS = ROOT / ".deps/kubernetes/crds"
CHART = ROOT / "deploy/helm/fermata"
PORT = 6443
ADMIN = "admin-of-the-test"
CONTROLLERS = ("deployment-controller", "replicaset-controller", "statefulset-controller", "endpointslice-controller",
               "disruption-controller", "horizontal-pod-autoscaler-controller", "serviceaccount-controller", "garbage-collector-controller")


def missing(*programs):
    """What is not there, in words; empty where all is."""
    for program in programs:
        if not (PROGRAMS / program).exists():
            return f"{program} is not there: scripts/deps.sh apiserver builds it (it needs Go, and half an hour)"
    if not HELM.exists():
        return "helm is not there: scripts/deps.sh kubernetes builds it (it needs Go)"
    return hosts.missing()


class Refused(Exception):
    """By the API server: its code, and what it said."""

    def __init__(self, code, answer):
        super().__init__(f"{code}: {answer.get('message', answer)}")
        self.code = code


def certificate(folder, name, address):
    """A server's own, which is the authority that it is checked by too."""
    files = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={address}", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    return files


class Kubernetes(contextlib.ExitStack):
    def __init__(self, folder, controllers=True):
        super().__init__()
        self.folder, self.own = folder, threading.local()
        self.network = self.enter_context(hosts.Network())
        self.host = self.network.host("api")
        self.authority, key = certificate(folder, "api", f"IP:{self.host.address}")
        accounts = folder / "accounts.key"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", accounts], check=True)
        (folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        self.config = folder / "kubeconfig"
        self.config.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{self.host.address}:{PORT}",
                                                      "certificate-authority": str(self.authority)}}],
            "users": [{"name": "admin", "user": {"token": ADMIN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}]}))
        self.start("etcd", f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=error")
        self.api = self.start("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--secure-port={PORT}",
                              f"--bind-address={self.host.address}", f"--advertise-address={self.host.address}",
                              f"--tls-cert-file={self.authority}", f"--tls-private-key-file={key}", "--service-cluster-ip-range=10.96.0.0/16",
                              "--service-account-issuer=https://test", f"--service-account-key-file={accounts}",
                              f"--service-account-signing-key-file={accounts}", "--authorization-mode=RBAC", f"--token-auth-file={folder}/tokens.csv")
        self.await_ready()
        if controllers:
            self.start("kube-controller-manager", f"--kubeconfig={self.config}", f"--service-account-private-key-file={accounts}",
                       f"--root-ca-file={self.authority}", "--leader-elect=false", f"--controllers={','.join(CONTROLLERS)}")

    def start(self, program, *arguments):
        with (self.folder / f"{program}.log").open("w") as log:
            process = self.host.start([PROGRAMS / program, *arguments], stdout=log, stderr=log, cwd=self.folder)
        self.callback(process.wait)
        self.callback(process.kill)
        return process

    def await_ready(self):
        end = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(OSError, Refused, http.client.HTTPException):
                self.call("GET", "/api/v1/namespaces/default")
                return
            assert self.api.poll() is None and time.monotonic() < end, (self.folder / "kube-apiserver.log").read_text()[-4000:]
            time.sleep(0.1)

    def connection(self):
        """Of the thread that calls."""
        if getattr(self.own, "connection", None) is None:
            context = ssl.create_default_context(cafile=self.authority)
            self.own.connection = http.client.HTTPSConnection(self.host.address, PORT, context=context, timeout=LIMIT_S)
            with self.host.here():
                self.own.connection.connect()
        return self.own.connection

    def call(self, method, path, body=None, kind="application/json", token=ADMIN):
        try:
            self.connection().request(method, path, body if body is None else json.dumps(body),
                                      {"Content-Type": kind, "Authorization": f"Bearer {token}"})
            reply = self.own.connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self.own.connection = None
            raise
        answer = json.loads(text) if text[:1] == b"{" else {"message": text.decode()}
        if reply.status >= 300:
            raise Refused(reply.status, answer)
        return answer

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def helm(self, *arguments, check=True):
        with self.host.here():
            return subprocess.run([HELM, *arguments, "--kubeconfig", self.config], check=check, capture_output=True, text=True)

    def make_crds(self):
        """Of what the chart can make besides Kubernetes' own kinds."""
        for file in sorted(CRDS.glob("*.yaml")):
            for crd in yaml.safe_load_all(file.read_text()):
                if crd:
                    self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)

    def start_kwok(self, nodes):
        """Nodes whose pods are ready at once, and are no processes."""
        self.start("kwok", f"--kubeconfig={self.config}", f"--config={PROGRAMS.parent}/stages.yaml", "--manage-all-nodes=false",
                   "--manage-nodes-with-label-selector=type=kwok")
        room = {"cpu": "999", "memory": "999Gi", "pods": "400"}
        for name in nodes:
            self.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"type": "kwok"}},
                                                "status": {"allocatable": room, "capacity": room}})

    def token(self, account, space="default"):
        """A service account's, as a pod gets it."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        return self.call("POST", f"/api/v1/namespaces/{space}/serviceaccounts/{account}/token", asked)["status"]["token"]

    def account_files(self, folder, account):
        """What is mounted in a pod of that account."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(self.authority.read_bytes())
        (folder / "namespace").write_text("default")
        (folder / "token").write_text(self.token(account))
        return folder
