#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the Helm chart, by default and with each of its values set, and holds it against the Kubernetes API.

chart_test.py RENDER NODE_FOLDER: the program that renders, and a folder with this folder's npm packages in it. With
--update, writes the plain manifests, which are renderings. Prints "passed|failed NAME" for each check.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "deploy/kubernetes"
CHART = FOLDER / "chart"
# The plain manifests: the values that they are rendered with.
MANIFESTS = {
    "node.yaml": (),
    "sidecar.yaml": ("node.enabled=false", "sidecar.enabled=true"),
}
BOTH = ("sidecar.enabled=true",)
METRICS = ("sidecar.metrics=true",)
TCP = ("tcp.secret=broker-certificate",)
POLICY = ("networkPolicy.enabled=true",)
MONITORING = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
NETWORKS = {"k8s.v1.cni.cncf.io/networks": "storage"}
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
DEVICES = ("devices.resource=rdma/hca",)
# A value's path, another value, and what shows it in the rendering; nothing, where it takes something away. What else
# must be set for it to matter comes last.
VALUES = (
    ("image", "registry.example/rdma-broker:1", "image: registry.example/rdma-broker:1", BOTH),
    ("imagePullPolicy", "Always", "imagePullPolicy: Always", BOTH),
    ("imagePullSecrets", [{"name": "registry"}], "imagePullSecrets:", BOTH),
    ("log.format", "text", "--log-format, text", BOTH),
    ("metrics.address", "[::]", 'address = "[::]:9464"', BOTH + METRICS),
    ("metrics.port", 9000, "containerPort: 9000", BOTH + METRICS),
    ("metrics.annotations", False, None, BOTH + METRICS),
    ("metrics.podMonitor", True, "kind: PodMonitor", BOTH + METRICS),
    ("tcp.secret", "broker-certificate", "secretName: broker-certificate", BOTH),
    ("tcp.address", "[::]", 'address = "[::]:4792"', BOTH + TCP),
    ("tcp.port", 7000, "containerPort: 7000", BOTH + TCP),
    ("tcp.revoked", "ca.crl", 'revoked = "/etc/rdma-broker-tls/ca.crl"', BOTH + TCP),
    ("tcp.administrators", ["spiffe://a/b"], 'administrators = ["spiffe://a/b"]', BOTH + TCP),
    ("tcp.inspectors", ["spiffe://a/c"], 'inspectors = ["spiffe://a/c"]', BOTH + TCP),
    ("networkPolicy.enabled", True, "kind: NetworkPolicy", BOTH),
    ("networkPolicy.from", MONITORING, "kubernetes.io/metadata.name: monitoring", BOTH + POLICY + METRICS),
    ("networkPolicy.ingress", [{"ports": [{"port": 7471}]}], "- port: 7471", BOTH + POLICY),
    ("configuration.control.root_administers", True, "root_administers = true", BOTH),
    ("configuration.timeouts.session_grace_ms", 5000, "session_grace_ms = 5000", BOTH),
    ("configuration.log.level", "debug", 'level = "debug"', BOTH),
    ("devices.resource", "rdma/hca", "rdma/hca: 1", BOTH),
    ("devices.count", 2, "rdma/hca: 2", BOTH + DEVICES),
    ("resources.requests.cpu", "2", 'cpu: "2"', BOTH),
    ("resources.requests.memory", "96Mi", "memory: 96Mi", BOTH),
    ("resources.limits.memory", "1Gi", "memory: 1Gi", BOTH),
    ("node.enabled", False, None, BOTH),
    ("node.socketDirectory", "/run/other", "path: /run/other", ()),
    ("node.stateDirectory", "/run/other-state", "path: /run/other-state", ()),
    ("node.prepareDirectories", False, None, ()),
    ("node.hostPID", True, "hostPID: true", ()),
    ("node.metrics", True, "containerPort: 9464", ()),
    ("node.updateStrategy", "RollingUpdate", "type: RollingUpdate", ()),
    ("node.priorityClassName", "system-node-critical", "priorityClassName: system-node-critical", ()),
    ("node.nodeSelector", {"rdma": "yes"}, 'rdma: "yes"', ()),
    ("node.tolerations", [{"operator": "Exists"}], "- operator: Exists", ()),
    ("node.podAnnotations", NETWORKS, "k8s.v1.cni.cncf.io/networks: storage", ("node.metrics=true",)),
    ("sidecar.enabled", True, "kind: Deployment", ()),
    ("sidecar.name", "mine", "name: mine", BOTH),
    ("sidecar.replicas", 3, "replicas: 3", BOTH),
    ("sidecar.metrics", True, "containerPort: 9464", ("node.enabled=false", *BOTH)),
    ("sidecar.stateSize", "1Gi", "sizeLimit: 1Gi", BOTH),
    ("sidecar.shareProcessNamespace", True, "shareProcessNamespace: true", BOTH),
    ("sidecar.terminationGracePeriodSeconds", 7, "terminationGracePeriodSeconds: 7", BOTH),
    # As large as clusters give out.
    ("sidecar.runAsUser", 1000650000, "runAsUser: 1000650000", BOTH),
    ("sidecar.runAsGroup", 1000650000, "runAsGroup: 1000650000", BOTH),
    ("sidecar.application.image", "registry.example/mine:1", "image: registry.example/mine:1", BOTH),
    ("sidecar.application.imagePullPolicy", "Never", "imagePullPolicy: Never", BOTH),
    ("sidecar.application.command", ["/mine"], "- /mine", BOTH),
    ("sidecar.application.args", ["--mine"], "- --mine", BOTH),
    ("sidecar.podAnnotations", NETWORKS, "k8s.v1.cni.cncf.io/networks: storage", BOTH),
    ("sidecar.serviceAccountName", "mine", "serviceAccountName: mine", BOTH),
    ("sidecar.volumes", VOLUMES, "claimName: data", BOTH),
    ("sidecar.application.volumeMounts", [{"name": "data", "mountPath": "/data"}], "mountPath: /data",
     (*BOTH, f"sidecar.volumes={json.dumps(VOLUMES)}")),
)
WORKLOADS = ("DaemonSet", "Deployment")
# Text that YAML reads as something else, or as more than one thing, where it is not quoted.
ODD = (
    ("image", "1e3"),
    ("devices.resource", "rdma: hca/1"),
    ("node.socketDirectory", "/run/a #b: c"),
    ("node.stateDirectory", "/run/a #b: c"),
    ("node.priorityClassName", "true"),
    ("sidecar.name", "123"),
    ("sidecar.stateSize", "1e9"),
    ("sidecar.serviceAccountName", "123"),
    ("sidecar.podAnnotations", {"odd": "1e3"}),
)
# What the chart's schema refuses.
WRONG = (
    ("images", "a"),
    ("image", ""),
    ("imagePullPolicy", "Sometimes"),
    ("imagePullSecrets", "registry"),
    ("log.format", "xml"),
    ("metrics.port", 0),
    ("tcp.port", 65536),
    ("networkPolicy.from", ["monitoring"]),
    ("tcp.inspectors", ["everybody"]),
    ("tcp.revoked", "../ca.crl"),
    ("configuration.tcp.address", "0.0.0.0:1"),
    ("metrics.address", "everywhere"),
    ("configuration.log.format", "text"),
    ("configuration", "[log]"),
    ("configuration.log", "debug"),
    ("configuration.[log]", {}),
    ("configuration.log.level = 1 #", "debug"),
    ("configuration.control.socket_directory", "/run"),
    ("devices.resource", "hca"),
    ("devices.count", 0),
    ("resources.limit", {}),
    ("node.enabled", "maybe"),
    ("node.socketDirectory", "run"),
    ("node.updateStrategy", "Recreate"),
    ("sidecar.replicas", -1),
    ("sidecar.runAsUser", 0),
    ("sidecar.runAsUser", 2100004792),
    ("sidecar.runAsUser", "mine"),
    ("sidecar.runAsGroup", 0),
    ("sidecar.runAsGroup", 2100004792),
    ("node.podAnnotations", {"number": 1}),
    ("sidecar.podAnnotations", {"truth": True}),
    ("sidecar.serviceAccountName", 1),
    ("sidecar.volumes", [{"emptyDir": {}}]),
    ("sidecar.volumes", [{"name": "scratch", "emptyDir": {}}]),
    ("sidecar.volumes", [{"name": "rdma-broker-sockets", "emptyDir": {}}]),
    ("sidecar.application.volumeMounts", [{"name": "rdma-broker-sockets", "mountPath": "/sockets"}]),
    ("sidecar.application.volumeMounts", [{"name": "data", "mountPath": "/run/rdma-broker/public"}]),
    ("sidecar.application.volumeMounts", [{"name": "data"}]),
    ("sidecar.application.name", "mine"),
    ("sidecar.application.securityContext", {"privileged": True}),
)
# Values that do nothing as they are set, and how the refusal begins.
IDLE = (
    (("metrics.podMonitor=true",), "metrics.podMonitor: no broker has metrics"),
    (("metrics.podMonitor=true", *BOTH), "metrics.podMonitor: no broker has metrics"),
    (("metrics.podMonitor=true", *METRICS), "metrics.podMonitor: no broker has metrics"),
    (("metrics.podMonitor=true", *BOTH, "node.enabled=false", "node.metrics=true"),
     "metrics.podMonitor: no broker has metrics"),
    (POLICY, "networkPolicy.enabled: it is for pods with a sidecar"),
)


def closed(**properties):
    """The schema of an object with these and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXT = {"type": "string", "minLength": 1}
# As far as the chart uses it; the API does not know what is the Prometheus Operator's. The job's name is the alerts'.
POD_MONITOR = closed(
    apiVersion={"const": "monitoring.coreos.com/v1"},
    kind={"const": "PodMonitor"},
    metadata=closed(name=TEXT),
    spec=closed(
        selector=closed(matchLabels={"type": "object", "additionalProperties": TEXT, "minProperties": 1}),
        podMetricsEndpoints={"type": "array", "minItems": 1, "items": closed(
            port={"const": "metrics"},
            relabelings={"const": [{"targetLabel": "job", "replacement": "rdma-broker"}]})}))
SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")
# k8s-rdma-shared-dev-plugin's, by the tables of its README ("RDMA Shared Device Plugin Configurations") and by what
# version 1.5 reads (UserConfigList in pkg/types/types.go). It passes over keys that it does not know.
DEVICE_PLUGIN = closed(
    periodicUpdateInterval={"type": "integer", "minimum": 0},
    configList={"type": "array", "minItems": 1, "items": closed(
        resourceName={"type": "string", "pattern": "^[a-zA-Z0-9_]+$"},
        resourcePrefix=TEXT,
        rdmaHcaMax={"type": "integer", "minimum": 1},
        selectors={"type": "object", "additionalProperties": False,
                   "properties": {name: {"type": "array", "items": TEXT} for name in SELECTORS}})})


class Strict(yaml.SafeLoader):
    """As the API server reads: a key that stands twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise yaml.YAMLError(f"{twice} stands twice{node.start_mark}")
        return super().construct_mapping(node, deep)


class Checks:
    """What was found, and what is left to the validator."""

    def __init__(self, render):
        self.render_program = render
        self.failed = False
        self.documents = []
        self.values = []

    def report(self, name, problems):
        for problem in problems:
            print(f"  {problem}")
        print("failed" if problems else "passed", name)
        self.failed |= bool(problems)

    def run(self, what, settings, release="rdma-broker"):
        command = [self.render_program, what, release, CHART]
        for setting in settings:
            command += ["--set", setting]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def attempt(self, *options):
        command = [self.render_program, "template", "rdma-broker", CHART, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def add_values(self, name, settings, valid):
        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
        value = yaml.safe_load(self.run("values", settings))
        self.values.append({"name": name, "schema": schema, "value": value, "valid": valid})

    def add_documents(self, name, text):
        documents = list(yaml.load_all(text, Strict))
        for document in documents:
            title = f"{name}: {document['kind']} is one of the Kubernetes API"
            if document["kind"] == "PodMonitor":
                title = f"{name}: PodMonitor is one of the Prometheus Operator's"
                self.values.append({"name": title, "schema": POD_MONITOR, "value": document, "valid": True})
            else:
                self.documents.append({"name": title, "document": document, "valid": True})
        return documents

    def rendering(self, name, settings):
        """A rendering, all of whose documents the validator gets."""
        text = self.run("template", settings)
        documents = self.add_documents(name, text)
        problems = [problem for document in documents for problem in oddities(document)]
        problems += [*strangers(documents), *unmeasured(documents)]
        self.report(f"{name}: its pods have few rights, and all that they name", problems)
        self.add_values(f"{name}: the chart's schema takes the values", settings, True)
        return text


def rights(kind, pod):
    """What the Pod Security Standard "restricted" asks of the pod, and what lets its containers share the sockets."""
    security = pod["securityContext"]
    if not security["runAsNonRoot"] or security["runAsUser"] == 0:
        yield "the pod runs as root"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "the pod may make all system calls"
    if security.get("fsGroup") != security["runAsGroup"]:
        yield "the pod's volumes are not its group's"
    if pod.get("automountServiceAccountToken") is not False:
        yield "the pod has a token for the API"
    # A node's broker has the node's network and folders.
    if kind == "Deployment":
        of_node = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
        of_node += [f"volume {each['name']}" for each in pod["volumes"] if "hostPath" in each]
        yield from (f"the pod has the node's {name}" for name in of_node)


def oddities(document):
    """What the API allows and a pod of ours does not have."""
    if document["kind"] not in WORKLOADS:
        return
    pod = document["spec"]["template"]["spec"]
    if document["spec"]["selector"]["matchLabels"] != document["spec"]["template"]["metadata"]["labels"]:
        yield "the selector is not the pods' labels"
    yield from rights(document["kind"], pod)
    volumes = {volume["name"] for volume in pod["volumes"]}
    containers = pod.get("initContainers", []) + pod["containers"]
    for container in containers:
        name, context = container["name"], container["securityContext"]
        if missing := {mount["name"] for mount in container["volumeMounts"]} - volumes:
            yield f"{name}: no volume {missing}"
        if context["allowPrivilegeEscalation"] or not context["readOnlyRootFilesystem"] or "privileged" in context:
            yield f"{name}: has privileges"
        if context["capabilities"]["drop"] != ["ALL"]:
            yield f"{name}: has capabilities"
        if name != "application" and "memory" not in container["resources"]["limits"]:
            yield f"{name}: has no limit, which a quota of the namespace may ask for"
        if context.get("runAsUser") == 0 and context["capabilities"].get("add") != ["CHOWN"]:
            yield f"{name}: is root for more than to give folders away"
    broker = next((each for each in containers if each["name"] == "broker"), {})
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if broker.get(probe, {}).get("exec", {}).get("command") != ["rdma-brokerctl", "health"]:
            yield f"broker: {probe} does not ask for its health"
    if document["kind"] == "Deployment" and broker.get("restartPolicy") != "Always":
        yield "broker: is no native sidecar"


def strangers(documents):
    """ConfigMaps that a pod has as volumes, and nobody makes, or the other way round."""
    made = {each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap"}
    volumes = [volume for each in documents if each["kind"] in WORKLOADS
               for volume in each["spec"]["template"]["spec"]["volumes"]]
    used = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    return [f"the ConfigMap {name} is made or used, not both" for name in sorted(made ^ used)]


def unmeasured(documents):
    """Ports for metrics that the configuration does not have, or nobody would find."""
    configurations = {each["metadata"]["name"]: tomllib.loads(each["data"]["rdma-brokerd.toml"])
                      for each in documents if each["kind"] == "ConfigMap"}
    selectors = [each["spec"]["selector"]["matchLabels"] for each in documents if each["kind"] == "PodMonitor"]
    for document in documents:
        if document["kind"] not in WORKLOADS:
            continue
        template = document["spec"]["template"]
        pod, labels = template["spec"], template["metadata"]["labels"]
        (broker,) = (each for each in pod.get("initContainers", []) + pod["containers"] if each["name"] == "broker")
        (name,) = (each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each)
        served = configurations[name].get("metrics", {}).get("address", "").rpartition(":")[2]
        ports = [str(each["containerPort"]) for each in broker.get("ports", []) if each["name"] == "metrics"]
        noted = template["metadata"].get("annotations", {}).get("prometheus.io/port")
        if ports != [served] * bool(served) or noted not in (None, served):
            yield f"{name}: the metrics are at {served}, the container has {ports}, the annotation is {noted}"
        if selectors and (labels in selectors) != bool(served):
            yield f"{name}: the PodMonitors find {selectors}, and the metrics are at {served}"


def leaves(value, path=()):
    """The paths of all values that may be set by themselves."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield ".".join(path)


def texts(value):
    """All text in a document."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def check_odd_text(checks):
    def check(name, value, text):
        try:
            wanted = [value] if isinstance(value, str) else value.values()
            found = set(wanted) <= set(texts(checks.add_documents(f"with {name} as {value!r}", text)))
            problems = [] if found else ["it is not in the rendering"]
        except yaml.YAMLError as error:
            problems = [str(error)]
        checks.report(f"{name} is the text {value!r}", problems)

    for path, value in ODD:
        check(path, value, checks.run("template", (*BOTH, f"{path}={json.dumps(value)}")))
    check("the release's name", "123", checks.run("template", BOTH, "123"))


def check_values(checks):
    plain = {each: checks.run("template", each) for each in {row[3] for row in VALUES}}
    for path, value, shown, others in VALUES:
        settings = (*others, f"{path}={json.dumps(value)}")
        text = checks.rendering(f"with {path}", settings)
        problems = ["the rendering is the same without it"] if text == plain[others] else []
        problems += [f"the rendering lacks {shown}"] if shown and shown not in text else []
        checks.report(f"with {path}: the rendering shows it", problems)
    documented = set(leaves(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))))
    problems = [f"{path} has no row here" for path in sorted(documented - {row[0] for row in VALUES})]
    checks.report("every value of values.yaml is tried", problems)
    for path, value in WRONG:
        checks.add_values(f"the chart's schema refuses {path}={value}", (f"{path}={json.dumps(value)}",), False)


def check_configuration(checks):
    """Whether the broker reads what the values say, and the image's own where they say nothing."""
    image = tomllib.loads((SOURCE / "deploy/container/rdma-brokerd.toml").read_text(encoding="utf-8"))
    odd = {"text": 'a "b"\n\\ # <c> \t\u00e9', "number": 1_000_000, "list": [1, "a"], "no": False,
           "rules": [{"name": "one", "uids": [0]}, {"other key": {"deep": []}}]}
    for name, settings, expected in (
        ("the image's own", (), image),
        ("with whatever is in it", (f"configuration.odd={json.dumps(odd)}",), {**image, "odd": odd}),
        ("with another log", ("log.format=text", "configuration.log.level=debug"),
         {**image, "log": {"format": "text", "level": "debug"}}),
        ("with a TCP port", (*TCP, 'tcp.inspectors=["spiffe://a/c"]'), {**image, "tcp": {
            "address": "0.0.0.0:4792", "certificate": "/etc/rdma-broker-tls/tls.crt",
            "private_key": "/etc/rdma-broker-tls/tls.key", "client_authorities": "/etc/rdma-broker-tls/ca.crt",
            "administrators": [], "inspectors": ["spiffe://a/c"]}}),
        ("with metrics", ("node.metrics=true", *METRICS), {**image, "metrics": {"address": "0.0.0.0:9464"}}),
    ):
        documents = list(yaml.safe_load_all(checks.run("template", (*BOTH, *settings))))
        read = [tomllib.loads(each["data"]["rdma-brokerd.toml"]) for each in documents if each["kind"] == "ConfigMap"]
        checks.report(f"each broker's configuration, {name}", [] if read == [expected] * 2 else [f"it is {read}"])


def image():
    """The program that makes the image."""
    spec = importlib.util.spec_from_file_location("image", SOURCE / "deploy/container/image.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_command(checks):
    """Whether the chart starts what the image starts."""
    recipe = image().IMAGES["rdma-broker"]
    documents = list(yaml.safe_load_all(checks.run("template", BOTH)))
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] in WORKLOADS]
    brokers = [container for pod in pods for container in pod["initContainers"] + pod["containers"]
               if container["name"] == "broker"]
    problems = [f"it starts {each['command']} {each['args']}" for each in brokers
                if each["command"] != [pathlib.Path(word).name for word in recipe["entrypoint"]]
                or each["args"] != recipe["command"]]
    checks.report("each broker's container starts what the image would", problems)


def check_user(checks):
    """Whether the broker's user, who is an administrator of it, is one that no other pod has by chance."""
    user = image().USER
    # Up to there distributions, subuid(5) and clusters give numbers out; 2^31 is where Kubernetes' end.
    problems = [] if 2_000_000_000 <= user < 2**31 else [f"it is {user}"]
    documents = [each for each in yaml.safe_load_all(checks.run("template", BOTH)) if each["kind"] in WORKLOADS]
    for pod in (each["spec"]["template"]["spec"] for each in documents):
        had = [pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")]
        had += [each["command"][1] for each in pod["initContainers"] if each["name"] == "directories"]
        problems += [f"the image has {user}, a pod {each}" for each in had if each not in (user, f"{user}:{user}")]
    checks.report("a broker has a user of its own", problems)
    client = yaml.safe_load((FOLDER / "node-client.yaml").read_text(encoding="utf-8"))["spec"]
    rights = client["securityContext"]
    fine = rights["supplementalGroups"] == [user] and rights["runAsUser"] not in (0, user)
    checks.report("a node's client has the broker's group, and not its user", [] if fine else [f"it has {rights}"])
    pods = [client, *(each["spec"]["template"]["spec"] for each in documents)]
    applications = [pod["securityContext"] | each["securityContext"] for pod in pods for each in pod["containers"]
                    if each["name"] == "application"]
    had = [each[name] for each in applications for name in ("runAsUser", "runAsGroup")]
    had.append(image().IMAGES["rdma-broker-examples"]["user"])
    problems = [f"one has {each}" for each in had if each in (0, user)]
    checks.report("applications have neither the broker's user and group nor root's", problems)
    containers = [each for pod in pods for each in pod.get("initContainers", []) + pod["containers"]]
    problems = [f"{each['name']} has {mount}" for each in containers for mount in each["volumeMounts"]
                if mount["name"] == "rdma-broker-sockets"
                and mount.get("readOnly", False) != (each["name"] == "application")]
    checks.report("clients cannot change the folder of the sockets", problems)


def check_metrics(checks):
    """Whether metrics, which no policy hides anything from, are asked for, and are found on each broker then."""
    text = checks.run("template", BOTH)
    found = [text] if "9464" in text or "[metrics]" in text else []
    checks.report("metrics are off the network unless asked for", found)
    text = checks.rendering("with all metrics", (*BOTH, *METRICS, "node.metrics=true", "metrics.podMonitor=true"))
    count = text.count("kind: PodMonitor")
    checks.report("with all metrics: each broker has a PodMonitor", [] if count == 2 else [f"there are {count}"])


def discovered(config):
    """The labels of what Prometheus finds by its configuration; it says after a second what it has found until then."""
    command = ["promtool", "check", "service-discovery", "--timeout", "1s", "/dev/stdin", "pods"]
    for _ in range(60):
        said = subprocess.run(command, input=json.dumps(config), check=True, capture_output=True, text=True).stdout
        if found := json.loads(said):
            return sorted((each["labels"] for each in found), key=lambda labels: labels["instance"])
    return []


def check_job(checks):
    """Whether Prometheus, by pods' annotations and the page's step, names the job as the board and the alerts do."""
    page = (SOURCE / "docs/cluster-administrator.md").read_text(encoding="utf-8")
    steps = [yaml.safe_load(each) for each in re.findall(r"`(\{source_labels: [^`]*\})`", page)]
    documents = yaml.safe_load_all(checks.run("template", (*BOTH, *METRICS, "node.metrics=true")))
    pods = [each["spec"]["template"]["metadata"]["annotations"] for each in documents if each["kind"] in WORKLOADS]
    targets = [{"targets": [f"pod{index}:1"], "labels": {
        f"__meta_kubernetes_pod_annotation_{re.sub('[^a-z]', '_', name)}": value for name, value in pod.items()}}
        for index, pod in enumerate([*pods, {}])]
    found = discovered({"scrape_configs": [
        {"job_name": "pods", "static_configs": targets, "relabel_configs": steps}]})
    jobs = [each["job"] for each in found]
    checks.report("Prometheus names the job of brokers, and of no others, as the board and the alerts do",
                  [] if jobs == ["rdma-broker", "rdma-broker", "pods"] else [f"they are {jobs}"])


def check_policy(checks):
    """Whether nobody is let in but by a rule that names peers and ports, by their numbers: names of init containers'
    ports are not found by everybody who carries policies out."""
    peers = f"networkPolicy.from={json.dumps(MONITORING)}"
    for name, settings, expected in (
        ("no peers", (*METRICS, *TCP), []),
        ("no ports", (peers,), []),
        ("both", (*METRICS, *TCP, peers),
         [{"from": MONITORING, "ports": [{"port": 9464}, {"port": 4792}]}]),
    ):
        documents = yaml.safe_load_all(checks.run("template", (*BOTH, *POLICY, *settings)))
        (policy,) = (each["spec"] for each in documents if each["kind"] == "NetworkPolicy")
        checks.report(f"a policy with {name}", [] if policy["ingress"] == expected else [f"it has {policy['ingress']}"])


def check_manifests(checks, update):
    for name, settings in MANIFESTS.items():
        text = checks.rendering(name, settings)
        if update:
            (FOLDER / name).write_text(text, encoding="utf-8")
        same = (FOLDER / name).read_text(encoding="utf-8") == text
        checks.report(f"{name} is the chart's rendering", [] if same else ["run chart_test.py with --update"])
    checks.add_documents("node-client.yaml", (FOLDER / "node-client.yaml").read_text(encoding="utf-8"))


def check_api(checks):
    """Whether the API's schema, as it is used here, refuses what the API would."""
    def add(name, kind, change):
        documents = yaml.safe_load_all(checks.run("template", BOTH))
        document = next(each for each in documents if each["kind"] == kind)
        change(document)
        title = f"the Kubernetes API refuses {name}"
        checks.documents.append({"name": title, "document": document, "valid": False})

    def pod(document):
        return document["spec"]["template"]["spec"]

    def broker(document):
        return next(each for each in [*pod(document)["initContainers"], *pod(document)["containers"]]
                    if each["name"] == "broker")

    for kind in WORKLOADS:
        add(f"a {kind} with a field that it does not know", kind, lambda document: document.update(specs={}))
        add(f"a {kind}'s pod with a field that it does not know", kind,
            lambda document: pod(document).update(terminationGracePeriodSecond=1))
        add(f"a {kind}'s container with a field that it does not know", kind,
            lambda document: broker(document)["securityContext"].update(readOnlyRootFileSystem=True))
        add(f"a {kind} with text in place of a number", kind,
            lambda document: pod(document).update(terminationGracePeriodSeconds="10"))
        add(f"a {kind} with a fraction in place of a number", kind,
            lambda document: pod(document).update(terminationGracePeriodSeconds=1.5))
        add(f"a {kind} with text in place of a truth value", kind,
            lambda document: pod(document).update(automountServiceAccountToken="false"))
        add(f"a {kind} with a quantity that is none", kind,
            lambda document: broker(document)["resources"]["limits"].update(memory="1Gigabyte"))
        add(f"a {kind} without a selector", kind, lambda document: document["spec"].pop("selector"))
        add(f"a {kind} with a container that has no name", kind, lambda document: broker(document).pop("name"))
    add("a ConfigMap with a number in place of text", "ConfigMap", lambda document: document["data"].update(number=1))


def check_devices(checks):
    """Whether the device plugin would take its configuration, and offer what the chart then asks for."""
    text = (FOLDER / "device-plugin.yaml").read_text(encoding="utf-8")
    (document,) = checks.add_documents("device-plugin.yaml", text)
    plugin = json.loads(document["data"]["config.json"])
    checks.values.append({"name": "device-plugin.yaml is a configuration of the plugin's", "schema": DEVICE_PLUGIN,
                          "value": plugin, "valid": True})
    # As its own manifests have it.
    place = (document["metadata"]["namespace"], document["metadata"]["name"])
    checks.report("device-plugin.yaml is where the plugin looks",
                  [] if place == ("kube-system", "rdma-devices") else [f"it is at {place}"])
    problems = [f"{each['resourceName']} has none, which the plugin refuses" for each in plugin["configList"]
                if not any(each["selectors"].values())]
    checks.report("device-plugin.yaml selects devices", problems)
    offered = {f"{each['resourcePrefix']}/{each['resourceName']}" for each in plugin["configList"]}
    documents = yaml.safe_load_all(checks.run("template", BOTH + DEVICES))
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] in WORKLOADS]
    users = [each for pod in pods for each in pod.get("initContainers", []) + pod["containers"]
             if each["name"] in ("broker", "application")]
    problems = [f"{each['name']} asks for {each['resources']['limits']}, and {offered} is offered" for each in users
                if {name for name in each["resources"]["limits"] if "/" in name} != offered]
    page = (SOURCE / "docs/cluster-administrator.md").read_text(encoding="utf-8")
    problems += [f"{each} is not on the page" for each in DEVICES if f"--set {each}" not in page]
    checks.report("the chart asks for what device-plugin.yaml offers, as the page says", problems)


def check_annotations(checks):
    """Whether a pod has its own annotations and those for Prometheus, and its own where both say something."""
    own = {"prometheus.io/job": "mine", **NETWORKS}
    settings = [f"{place}.podAnnotations={json.dumps(own)}" for place in ("node", "sidecar")]
    documents = yaml.safe_load_all(checks.run("template", (*BOTH, *METRICS, "node.metrics=true", *settings)))
    found = [each["spec"]["template"]["metadata"]["annotations"] for each in documents if each["kind"] in WORKLOADS]
    expected = {"prometheus.io/scrape": "true", "prometheus.io/port": "9464", **own}
    checks.report("pods have their own annotations and Prometheus'", [] if found == [expected] * 2 else [f"{found}"])


def check_idle(checks):
    for settings, refusal in IDLE:
        done = checks.attempt(*(word for each in settings for word in ("--set", each)))
        fine = done.returncode != 0 and refusal in done.stderr
        checks.report(f"the chart refuses {' '.join(settings)}, which does nothing", [] if fine else [f"it is {done}"])


def check_old_cluster(checks):
    sidecar, node = (checks.attempt("--kube-version", "v1.28.9", "--set", f"sidecar.enabled={each}")
                     for each in ("true", "false"))
    fine = sidecar.returncode != 0 and "native sidecars are there from Kubernetes 1.29" in sidecar.stderr
    checks.report("a cluster without native sidecars gets none, and is told", [] if fine else [sidecar.stderr])
    checks.report("it gets a broker for each node", [] if node.returncode == 0 else [node.stderr])


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    checks = Checks(arguments[0])
    check_manifests(checks, "--update" in sys.argv)
    check_values(checks)
    check_odd_text(checks)
    check_configuration(checks)
    check_command(checks)
    check_user(checks)
    check_api(checks)
    check_devices(checks)
    check_metrics(checks)
    check_job(checks)
    check_policy(checks)
    check_annotations(checks)
    check_idle(checks)
    check_old_cluster(checks)
    work = json.dumps({"documents": checks.documents, "values": checks.values})
    sys.stdout.flush()
    # Where its packages are; a module looks for them from its own folder upwards.
    done = subprocess.run(["node", os.path.join(arguments[1], "validate.mjs")], input=work, text=True, check=False)
    sys.exit(checks.failed or done.returncode != 0)


if __name__ == "__main__":
    main()
