"""The chart: rendered by helm, read as Kubernetes and fermata read it. Left out where `scripts/deps.sh kubernetes` has not
brought helm; the objects' fields are checked where it has brought Kubernetes' own description of them."""

import copy
import functools
import json
import re
import subprocess

import jsonschema
import pytest
import yaml
from conftest import FERMATA, ROOT

CHART = ROOT / "deploy/helm/fermata"
DEPS = ROOT / ".deps/kubernetes"
HELM = DEPS / "bin/helm"
TLS = {"cluster": {"tlsSecret": "fermata-cluster"}}
WORKERS = [{"name": "cpu", "most": 8, "workersPerPod": 2, "autoscale": {"by": "keda"}},
           {"name": "gpu", "replicas": 2, "most": 4, "provider": "cuda", "memoryMb": 11000,
            "autoscale": {"by": "prometheus", "min": 2}, "nodeSelector": {"gpu": "yes"}}]
CASES = {
    "default": {},
    "copies": {"server": {"replicas": 3}, "models": {"from": "image", "image": "registry/models:1", "path": "zoo"}},
    "scaled": {"server": {"autoscale": {"by": "cpu", "min": 2, "max": 6}}, "monitor": {"enabled": True, "labels": {"a": "b"}}},
    "workers": {**TLS, "workers": WORKERS, "server": {"localWorkers": [{"name": "here", "count": 1}]}},
    "issuer": {"cluster": {"certManagerIssuer": "fermata"}, "workers": WORKERS,
               "models": {"from": "store", "store": "s3://bucket/models", "storeSecret": "aws"},
               "config": {"services": {"digits": {"model": "digits", "slo_ms": 50}}, "workers": {"isolation": "process"}}},
    "parts": {**TLS, "workers": WORKERS, "shape": "parts", "server": {"replicas": 2}},
}


def template(folder, values):
    if not HELM.exists():
        pytest.skip("helm is not there: scripts/deps.sh kubernetes builds it (it needs Go)")
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return subprocess.run([HELM, "template", "one", CHART, "--namespace", "space", "--kube-version", "1.34.1", "--values", file], capture_output=True, text=True,
                          timeout=120)


def rendered(folder, values):
    made = template(folder, values)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout) if each]


def of_kind(objects, kind, name=None):
    found = [each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert found, f"no {kind} {name or ''}"
    return found[0]


@functools.cache
def described():
    """Kubernetes' own description of its objects, by (apiVersion, kind), with no field that it does not know."""
    documents = {}
    for file in sorted(DEPS.glob("openapi/*.json")):
        schemas = json.loads(file.read_text())["components"]["schemas"]
        for schema in schemas.values():
            close(schema)
        for name, schema in schemas.items():
            for version in schema.get("x-kubernetes-group-version-kind", []):
                group = version["group"] + "/" if version["group"] else ""
                documents[group + version["version"], version["kind"]] = {
                    "$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    for file in sorted(DEPS.glob("crds/*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            for version in crd["spec"]["versions"]:
                schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
                close(schema)
                documents[f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]] = schema
    return documents


def close(schema):
    """Fields that a schema does not name are errors in it, and what may be a number or a text may be both."""
    if not isinstance(schema, dict):
        return
    for each in [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("allOf", [])]:
        close(each)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        close(extra)
    elif schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        schema.pop("type", None)
        schema.pop("anyOf", None)
    if len(schema.get("allOf", [])) == 1 and "$ref" in schema["allOf"][0]:
        schema["$ref"] = schema.pop("allOf")[0]["$ref"]
        schema.pop("default", None)


def check_fields(objects):
    if not (DEPS / "openapi").exists():
        pytest.skip("Kubernetes' description of its objects is not there: scripts/deps.sh kubernetes brings it")
    for each in objects:
        schema = described().get((each["apiVersion"], each["kind"]))
        if schema is None:
            assert each["apiVersion"].split("/")[0] in ("cert-manager.io",), (each["apiVersion"], each["kind"])
            continue
        errors = [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in jsonschema.Draft7Validator(schema).iter_errors(each)]
        assert not errors, (each["kind"], each["metadata"]["name"], errors)


@pytest.mark.parametrize("case", CASES)
def test_kubernetes_knows_every_field(case, tmp_path):
    check_fields(rendered(tmp_path, CASES[case]))


def test_what_is_applied_by_hand_is_known_too():
    check_fields(yaml.safe_load_all((ROOT / "deploy/kserve/clusterservingruntime.yaml").read_text()))


@pytest.mark.parametrize("case", [case for case in CASES if case != "issuer"])
def test_fermata_takes_the_configuration(case, tmp_path):
    config = of_kind(rendered(tmp_path, CASES[case]), "ConfigMap")["data"]["fermata.yaml"]
    repository = tmp_path / "repository"
    repository.symlink_to(ROOT / "tests/data/repository")
    for part in ("crt", "key"):
        (tmp_path / f"tls.{part}").touch()
    config = re.sub(r"/mnt/models\S*", str(repository), config).replace("/etc/fermata-tls", str(tmp_path)).replace("cuda", "cpu")
    (tmp_path / "fermata.yaml").write_text(config)
    checked = subprocess.run([FERMATA, "check", tmp_path / "fermata.yaml"], capture_output=True, text=True, timeout=120)
    assert "unknown field" not in checked.stderr and "expected" not in checked.stderr, checked.stderr


@pytest.mark.parametrize("case", CASES)
def test_selectors_find_the_pods_and_names_what_they_name(case, tmp_path):
    objects = rendered(tmp_path, CASES[case])
    pods = {each["metadata"]["name"]: each["spec"]["template"] for each in objects if each["kind"] in ("Deployment", "StatefulSet")}
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert len(names) == len(objects)

    def found(selector):
        return [name for name, pod in pods.items() if selector.items() <= pod["metadata"]["labels"].items()]

    for each in objects:
        spec = each.get("spec", {})
        if each["kind"] in ("Deployment", "StatefulSet"):
            assert found(spec["selector"]["matchLabels"]) == [each["metadata"]["name"]]
            ports = {port["name"]: port for port in spec["template"]["spec"]["containers"][0].get("ports", [])}
            assert ports or "workers" in each["metadata"]["name"]
        elif each["kind"] == "Service":
            assert len(found(spec["selector"])) == 1
        elif each["kind"] == "PodDisruptionBudget":
            assert len(found(spec["selector"]["matchLabels"])) == 1
        elif each["kind"] in ("ScaledObject", "HorizontalPodAutoscaler"):
            assert ("Deployment", spec["scaleTargetRef"]["name"]) in names
            assert "replicas" not in of_kind(objects, "Deployment", spec["scaleTargetRef"]["name"])["spec"]


@pytest.mark.parametrize("case", CASES)
def test_pods_have_no_privileges_and_time_to_drain(case, tmp_path):
    for each in rendered(tmp_path, CASES[case]):
        if each["kind"] not in ("Deployment", "StatefulSet"):
            continue
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] == (each["kind"] == "StatefulSet")  # schedulers, for their Lease
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                "capabilities": {"drop": ["ALL"]}}
        assert pod["terminationGracePeriodSeconds"] >= 40
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod["volumes"]}


def test_keda_asks_the_server_for_the_type(tmp_path):
    objects = rendered(tmp_path, CASES["workers"])
    (trigger,) = of_kind(objects, "ScaledObject")["spec"]["triggers"]
    assert trigger["type"] == "external-push"
    assert trigger["metadata"] == {"scalerAddress": "one.space.svc:8001", "workerType": "cpu", "workersPerPod": "2"}
    config = yaml.safe_load(of_kind(objects, "ConfigMap")["data"]["fermata.yaml"])
    assert config["workers"]["types"] == [{"name": "here", "count": 1},
                                          {"name": "cpu", "count": 16, "remote": True, "threads": 1},
                                          {"name": "gpu", "count": 4, "remote": True, "threads": 1, "provider": "cuda", "memory_mb": 11000}]
    worker = of_kind(objects, "Deployment", "one-workers-cpu")["spec"]["template"]["spec"]["containers"][0]
    assert "--scheduler=one-cluster:7400" in worker["args"] and "--workers=2" in worker["args"]


def test_keda_asks_each_scheduler(tmp_path):
    triggers = of_kind(rendered(tmp_path, CASES["parts"]), "ScaledObject")["spec"]["triggers"]
    assert [each["metadata"]["scalerAddress"] for each in triggers] == [f"one-scheduler-{i}.one-scheduler.space.svc:8001" for i in (0, 1)]


def test_workers_find_frontends_and_schedulers_share_a_lease(tmp_path):
    objects = rendered(tmp_path, {**CASES["parts"], "config": {"cluster": {"lease": {"duration_s": 5}}}})
    cluster = yaml.safe_load(of_kind(objects, "ConfigMap")["data"]["fermata.yaml"])["cluster"]
    assert cluster["listen"] == "0.0.0.0:7400" and cluster["frontends"] == "0.0.0.0:7410"
    assert cluster["lease"] == {"name": "one-scheduler", "duration_s": 5}
    assert of_kind(objects, "PodDisruptionBudget", "one-scheduler")
    assert of_kind(objects, "Role")["rules"][1] == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                                                    "resourceNames": ["one-scheduler"], "verbs": ["get", "patch"]}
    (subject,) = of_kind(objects, "RoleBinding")["subjects"]
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    assert [pod.get("serviceAccountName") for pod in pods if pod["automountServiceAccountToken"]] == [subject["name"]]
    assert of_kind(objects, "ServiceAccount", subject["name"])
    scheduler = of_kind(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert scheduler["livenessProbe"]["httpGet"]["port"] == "http"  # at the port for parts it would count as one that is refused

@pytest.mark.parametrize("values", [{"scheduler": {"replicas": 1}}, {"config": {"cluster": {"lock": "/mnt/models/lock"}}}])
def test_one_scheduler_or_those_with_a_lock_have_no_lease(values, tmp_path):
    objects = rendered(tmp_path, {**CASES["parts"], **values})
    assert not {"Role", "RoleBinding", "ServiceAccount"} & {each["kind"] for each in objects}
    cluster = yaml.safe_load(of_kind(objects, "ConfigMap")["data"]["fermata.yaml"])["cluster"]
    assert "lease" not in cluster and cluster.get("lock") == values.get("config", {}).get("cluster", {}).get("lock")


def test_an_account_of_your_own_is_that_of_the_schedulers_too(tmp_path):
    objects = rendered(tmp_path, {**CASES["parts"], "serviceAccount": "mine"})
    assert of_kind(objects, "RoleBinding")["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "space"}]
    assert not [each for each in objects if each["kind"] == "ServiceAccount"]


def test_a_user_of_many_digits_is_a_number(tmp_path):
    pod = of_kind(rendered(tmp_path, {"user": 1_000_650_000}), "Deployment")["spec"]["template"]["spec"]
    assert {pod["securityContext"][each] for each in ("runAsUser", "runAsGroup", "fsGroup")} == {1_000_650_000}


def test_no_seconds_are_no_seconds(tmp_path):
    objects = rendered(tmp_path, {**TLS, "workers": [{"name": "cpu", "most": 2, "readySeconds": 0,
                                                      "autoscale": {"by": "keda", "calmSeconds": 0}}]})
    assert of_kind(objects, "Deployment", "one-workers-cpu")["spec"]["minReadySeconds"] == 0
    behavior = of_kind(objects, "ScaledObject")["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"] == {"stabilizationWindowSeconds": 0}


@pytest.mark.parametrize("values, words", [
    ({"workers": WORKERS}, "expected cluster.tlsSecret or cluster.certManagerIssuer"),
    ({**TLS, "workers": WORKERS, "server": {"replicas": 2}}, "expected server.replicas: 1"),
    ({**TLS, "shape": "parts"}, "expected a type of workers at least"),
    ({**TLS, "workers": [WORKERS[0], WORKERS[0]]}, 'two types are called "cpu"'),
    ({**TLS, "workers": WORKERS, "shape": "parts", "server": {"localWorkers": [{"name": "here"}]}}, "server.localWorkers: with shape: parts"),
    ({"models": {"from": "store"}}, "expected s3://BUCKET/PREFIX"),
    ({"models": {"from": "none"}}, "config.models: missing"),
])
def test_errors_say_what_was_expected(values, words, tmp_path):
    made = template(tmp_path, values)
    assert made.returncode != 0
    assert words in made.stderr


SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_the_schema_takes_them(case):
    jsonschema.Draft7Validator(SCHEMA).validate(CASES[case])


@pytest.mark.parametrize("values", [{"replicas": 2}, {"shape": "both"}, {"server": {"replicas": 0}}, {"models": {"from": "ftp"}},
                                    {"workers": [{"name": "Cpu", "most": 1}]}, {"workers": [{"name": "cpu"}]},
                                    {"drain": {"seconds": "5"}}, {"models": {"from": "store", "store": "gs://x"}}])
def test_the_schema_refuses_what_does_not_fit(values):
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(values)


def test_the_default_values_are_described():
    """Every key of values.yaml, and none else, is one of the schema."""
    def check(schema, values, place):
        if not isinstance(values, dict) or "properties" not in schema:
            return
        assert set(values) <= set(schema["properties"]), place
        for key, value in values.items():
            assert schema["properties"][key]["description"], (place, key)
            check(schema["properties"][key], value, f"{place}.{key}")
    check(SCHEMA, yaml.safe_load((CHART / "values.yaml").read_text()), "values")
