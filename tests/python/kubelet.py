"""Runs the pods of a Kubernetes as processes on this machine, each on a host of its own (hosts.py) and with its own files,
user and probes, as a kubelet and a container runtime would. One container a pod.

    with Kubelet(kubernetes, models=folder): ..."""

import contextlib
import http.client
import itertools
import shutil
import signal
import subprocess
import threading
import time

from kubernetes import PORT, Refused
from hosted import LIMIT_S

NODE = "here"
LOOK_S = 0.1
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# The files of a pod: its own /etc, /run, /mnt and /tmp, and a root that cannot be written.
INSIDE = """set -e
pod=$1; shift
mount --bind $pod/../etc /etc
mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount
mount -t tmpfs tmpfs /mnt && mkdir /mnt/models
for place in etc/fermata etc/fermata-tls mnt/models run/secrets/kubernetes.io/serviceaccount; do
  [ ! -e $pod/$place ] || mount --bind $(readlink -f $pod/$place) /$place
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
cd /
exec setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all env -i PATH="$PATH" "$@" """


class Pod(threading.Thread):
    """From its start to its end."""

    def __init__(self, kubelet, pod):
        super().__init__(daemon=True)
        self.kubelet, self.kubernetes, self.pod = kubelet, kubelet.kubernetes, pod
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.path = f"/api/v1/namespaces/default/pods/{self.name}"
        (self.container,) = pod["spec"]["containers"]
        self.host = self.kubernetes.network.host(self.name)
        self.folder = kubelet.folder / self.uid
        self.ending, self.process, self.restarts, self.is_ready = threading.Event(), None, 0, False
        self.grace_s = None
        self.start()

    def run(self):
        self.make_files()
        while not self.ending.is_set():
            self.launch()
            self.watch()
            if self.process.poll() is not None and not self.ending.is_set():
                self.restarts += 1
        self.stop()
        with contextlib.suppress(Refused):
            self.kubernetes.call("DELETE", self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    def make_files(self):
        self.folder.mkdir()
        for volume in self.pod["spec"].get("volumes", []):
            mounts = {mount["name"]: mount["mountPath"] for mount in self.container.get("volumeMounts", [])}
            place = self.folder / mounts.get(volume["name"], volume["name"]).lstrip("/")
            if "configMap" in volume:
                self.write(place, self.kubernetes.call("GET", f"/api/v1/namespaces/default/configmaps/{volume['configMap']['name']}")["data"])
            elif "secret" in volume:
                for file in self.kubelet.secrets[volume["secret"]["secretName"]].items():
                    self.write(place, dict([file]))
            elif "persistentVolumeClaim" in volume:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(self.kubelet.models)
        if self.pod["spec"].get("automountServiceAccountToken", True):
            self.kubernetes.account_files(self.folder / ACCOUNT.replace("/var", "", 1).lstrip("/"), self.pod["spec"]["serviceAccountName"])

    @staticmethod
    def write(place, files):
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text)

    def launch(self):
        names = {"KUBERNETES_SERVICE_HOST": self.kubernetes.host.address, "KUBERNETES_SERVICE_PORT": str(PORT)}
        for each in self.container.get("env", []):
            names[each["name"]] = each["value"] if "value" in each else self.name  # fieldRef of the name
        arguments = [*self.container["command"], *self.container["args"]]
        for name, value in names.items():
            arguments = [each.replace(f"$({name})", value) for each in arguments]
        with (self.kubelet.folder / f"{self.name}.log").open("a") as log:
            self.process = self.host.start(["unshare", "--mount", "--uts", "bash", "-c", f"hostname {self.name}\n{INSIDE}", "bash", self.folder,
                                            *(f"{name}={value}" for name, value in names.items()), *arguments], stdout=log, stderr=log)

    def watch(self):
        """Its probes, until it ends or is to end."""
        due = {kind: time.monotonic() for kind in ("startup", "readiness", "liveness") if f"{kind}Probe" in self.container}
        failures, started = dict.fromkeys(due, 0), "startup" not in due
        self.tell(ready=not due)
        while self.process.poll() is None and not self.ending.wait(LOOK_S):
            for kind in ["startup"] if not started else [each for each in due if each != "startup"]:
                if kind not in due or time.monotonic() < due[kind]:
                    continue
                probe = self.container[f"{kind}Probe"]
                due[kind] = time.monotonic() + probe.get("periodSeconds", 10)
                works = self.passes(probe)
                failures[kind] = 0 if works else failures[kind] + 1
                if kind == "startup":
                    started = works
                    if works and "readiness" not in due:
                        self.tell(ready=True)
                elif kind == "readiness" and (works or failures[kind] >= probe.get("failureThreshold", 3)):
                    self.tell(ready=works)
                if kind != "readiness" and failures[kind] >= probe.get("failureThreshold", 3):
                    return self.stop()

    def passes(self, probe):
        if "exec" in probe:
            return subprocess.run(["nsenter", "--mount", f"--target={self.process.pid}", *probe["exec"]["command"]], capture_output=True,
                                  check=False).returncode == 0
        port = next(each["containerPort"] for each in self.container["ports"] if each["name"] == probe["httpGet"]["port"])
        with contextlib.suppress(OSError, http.client.HTTPException), self.host.here():
            connection = http.client.HTTPConnection(self.host.address, port, timeout=probe.get("timeoutSeconds", 1))
            connection.request("GET", probe["httpGet"]["path"])
            return 200 <= connection.getresponse().status < 400
        return False

    def tell(self, ready):
        if self.restarts == 0 or ready != self.is_ready:
            self.is_ready = ready
        text = "True" if ready else "False"
        state = {"name": self.container["name"], "image": self.container["image"], "imageID": "", "ready": ready, "started": ready,
                 "restartCount": self.restarts, "state": {"running": {"startedAt": now()}}}
        status = {"phase": "Running", "podIP": self.host.address, "podIPs": [{"ip": self.host.address}], "containerStatuses": [state],
                  "conditions": [{"type": kind, "status": text, "lastTransitionTime": now()} for kind in ("Ready", "ContainersReady")]}
        with contextlib.suppress(Refused):
            self.kubernetes.patch(f"{self.path}/status", {"status": status})

    def end(self, grace_s):
        self.grace_s = grace_s
        self.ending.set()

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT_S if self.grace_s is None else self.grace_s)
        self.process.kill()
        self.process.wait()

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Kubelet(contextlib.ExitStack):
    """`secrets`: files by name, by a Secret's name. `elsewhere`: nodes of whoever else, for pods that select one."""

    def __init__(self, kubernetes, folder, models, secrets=(), elsewhere=()):
        super().__init__()
        self.elsewhere = itertools.cycle(elsewhere)
        self.kubernetes, self.folder, self.models, self.secrets = kubernetes, folder, models, dict(secrets)
        self.pods, self.stopping = {}, threading.Event()
        shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        for place in ("fermata", "fermata-tls"):
            (folder / "etc" / place).mkdir()
        kubernetes.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.callback(self.close_all)

    def run(self):
        while not self.stopping.wait(LOOK_S):
            pods = self.kubernetes.call("GET", "/api/v1/namespaces/default/pods")["items"]
            for pod in pods:
                if "nodeName" not in pod["spec"]:
                    self.bind(pod)
                elif pod["spec"]["nodeName"] == NODE:
                    self.tend(pod)
            self.name_pods(pods)

    def bind(self, pod):
        """The scheduler's part."""
        name = pod["metadata"]["name"]
        node = next(self.elsewhere) if "nodeSelector" in pod["spec"] else NODE
        with contextlib.suppress(Refused):
            self.kubernetes.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}})

    def tend(self, pod):
        uid = pod["metadata"]["uid"]
        if uid not in self.pods:
            self.pods[uid] = Pod(self, pod)
        if "deletionTimestamp" in pod["metadata"]:
            self.pods[uid].end(pod["metadata"].get("deletionGracePeriodSeconds", 30))

    def name_pods(self, pods):
        """What a DNS would say: of pods with a subdomain, and of Services the first pod that is ready."""
        rows = ["127.0.0.1 localhost"]
        for pod in pods:
            if "subdomain" in pod["spec"] and "podIP" in pod.get("status", {}):
                name = f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}"
                rows.append(f"{pod['status']['podIP']} {name} {name}.default.svc")
        for service in self.kubernetes.call("GET", "/api/v1/namespaces/default/services")["items"]:
            selector = service["spec"].get("selector")
            found = [pod for pod in pods if selector and selector.items() <= pod["metadata"].get("labels", {}).items()]
            ready = [pod for pod in found if service["spec"].get("publishNotReadyAddresses") or is_ready(pod)]
            rows += [f"{pod['status']['podIP']} {service['metadata']['name']}" for pod in ready[:1] if "podIP" in pod.get("status", {})]
        text = "\n".join(rows) + "\n"
        file = self.folder / "etc" / "hosts"
        if file.read_text() != text:
            file.write_text(text)  # the same file, which pods have mounted

    def of(self, begins):
        """The pods that run, by name."""
        return {pod.name: pod for pod in list(self.pods.values()) if pod.name.startswith(begins) and pod.is_alive() and not pod.ending.is_set()}

    def close_all(self):
        self.stopping.set()
        self.thread.join()
        for pod in self.pods.values():
            pod.end(0)
        for pod in self.pods.values():
            pod.join(LIMIT_S)


def is_ready(pod):
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod.get("status", {}).get("conditions", [])) and (
        "deletionTimestamp" not in pod["metadata"])
