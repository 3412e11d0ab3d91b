#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/cluster-administrator.md as they stand there, and kills brokers under connections.

pods_test.py RENDER REGISTRY BUILT: the programs that stand for Helm and for a registry, and a bazel-bin with an
rdma-brokerctl for the node. kubectl is stand_in/kubectl, which has podman run the pods. All of it but the builds of the
images is in namespaces of its own, whose end leaves nothing behind. Needs root. Prints "passed|failed NAME" for each
check.
"""

import base64
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs/cluster-administrator.md"
INSIDE = "RDMA_BROKER_PODS_TEST_FOLDER"
REGISTRY = "localhost:5000"  # On a network of the test's own.
PATIENCE = 120  # Seconds; a hundred times what an idle machine takes.
BUILD = "deploy/container/build "
USER = 2100004792  # As in deploy/container/image.py.
APPLICATION_USER = 65532  # As in deploy/kubernetes/sidecar.yaml.
TRUST = "spiffe://pods.example/"
AUTHORITY = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
TMPFILE = "d /run"  # How a line of tmpfiles.d begins on the page.


def sections():
    """The page's commands, a script for each section."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        found[title] = "\n".join(line for line in lines if not line.startswith(TMPFILE))
    return found


class Failure(Exception):
    pass


def answers(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def await_that(what, happened):
    deadline = time.monotonic() + PATIENCE
    while not (result := happened()):
        if time.monotonic() > deadline:
            raise Failure(f"waited {PATIENCE} s for {what}")
        time.sleep(0.05)
    return result


def run(script, folder):
    print(re.sub(r"^", "  $ ", script.strip(), flags=re.MULTILINE), flush=True)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, text=True, timeout=10 * PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(re.sub(r"^(?=.)", "  ", done.stdout, flags=re.MULTILINE), end="", flush=True)
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}")
    return done.stdout


def kubectl(*arguments):
    command = ["kubectl", *arguments]
    # What stands for kubectl waits for some probes, for half of that each.
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=5 * PATIENCE).stdout.strip()


def objects(log):
    """Of a container: each line is one of JSON, whatever program it is from."""
    try:
        return [json.loads(line) for line in log.splitlines()]
    except ValueError as error:
        raise Failure(f"a line is no JSON: {error}: {log}") from error


def address_of(name):
    return kubectl("get", "pods", "-l", f"app.kubernetes.io/name={name}", "-o", "jsonpath={.items[0].status.podIP}")


def inspected(container, what):
    command = ["podman", "inspect", "--format", what, container]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()


def keeper_of(container):
    return int(inspected(container, "{{.State.Pid}}"))


def daemon_of(container):
    """The keeper's child, or none for the moment."""
    keeper = keeper_of(container)
    try:
        children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text(encoding="utf-8").split()
    except OSError:
        return None
    return int(children[0]) if keeper and children else None


def numbers_of(process, name):
    """What /proc/PID/status says of a process by this name."""
    status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return re.search(rf"^{name}:\t(.*)$", status, re.MULTILINE)[1].split()


def certify(folder, name, *options):
    """A certificate and its key, as NAME.crt and NAME.key."""
    command = ["openssl", "req", "-config", "/dev/null", "-x509", "-newkey", "ec", "-pkeyopt",
               "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
               "-out", f"{name}.crt", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


class PodsTest:
    """What happens in the namespaces, one check after the other; each begins with what the last has left."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = sections()
        # Of that section the first commands, which start a node's broker and wait for it.
        self.start_node, _, rest = self.commands["A broker for each node"].partition("\n")
        self.await_node = rest.partition("done\n")[0] + "done"

    def fetch(self, *options):
        server, client = address_of("storage-server"), address_of("storage-client")
        return ["kubectl", "exec", "-i", "deployment/storage-client", "-c", "application", "--", "storage_client",
                "--source", f"{client}:0", "--server", f"{server}:7471", "--output", "/scratch/again", *options]

    def the_images_go_to_a_registry(self):
        script = self.commands["The image"]
        run("\n".join(line for line in script.splitlines() if not line.startswith(BUILD)), self.folder)

    def two_pods_with_a_sidecar_exchange_a_file(self):
        said = run(self.commands["A broker for each pod"], self.folder)
        for wanted in ("iwarp0", "fetched, SHA-256 matches", "stored back, the server's SHA-256 matches"):
            if wanted not in said:
                raise Failure(f"no \"{wanted}\"")

    def the_broker_has_no_rights(self):
        for name in ("storage-server", "storage-client"):
            daemon = await_that(f"the keeper's child in {name}", lambda: daemon_of(f"{name}-broker"))
            status = pathlib.Path(f"/proc/{daemon}/status").read_text(encoding="utf-8")
            for wanted in (rf"Uid:(\t{USER}){{4}}", rf"Gid:(\t{USER}){{4}}", r"CapEff:\t0+$", r"CapBnd:\t0+$",
                           r"NoNewPrivs:\t1", r"Seccomp:\t2"):
                if not re.search(wanted, status, re.MULTILINE):
                    raise Failure(f"{name}: /proc/PID/status lacks {wanted}")
            if inspected(f"{name}-broker", "{{.HostConfig.ReadonlyRootfs}}") != "true":
                raise Failure(f"{name}: the root file system can be written")

    def root_in_a_pod_administers_nothing(self):
        # In the group of the sockets, as without capabilities it would not get at them.
        command = ["podman", "exec", "--user", f"0:{USER}", "storage-server-broker", "rdma-brokerctl", "reload"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if refused.returncode == 0 or "STATUS_ACCESS_DENIED" not in refused.stderr:
            raise Failure(f"root is not refused: {refused}")

    def install(self, name, *settings):
        """A pod with a sidecar, whose application is rdma-brokerctl."""
        image = f"{REGISTRY}/rdma-broker:trial"
        settings = ("node.enabled=false", "sidecar.enabled=true", f"sidecar.name={name}", f"image={image}",
                    f"sidecar.application.image={image}", "sidecar.application.command=[rdma-brokerctl, watch]",
                    "sidecar.application.args=[]", *settings)
        command = ["helm", "install", name, "deploy/kubernetes/chart"]
        command += [word for setting in settings for word in ("--set", setting)]
        run(f"{shlex.join(command)}\nkubectl rollout status deployment/{name}", self.folder)

    def an_application_administers_nothing_and_has_its_session(self):
        self.install("neighbour", "sidecar.shareProcessNamespace=true")
        broker, application = (["exec", "deployment/neighbour", "-c", each, "--", "rdma-brokerctl"]
                               for each in ("broker", "application"))
        if "iwarp0" not in kubectl(*application, "adapters"):
            raise Failure("the application sees no adapter")
        kubectl(*broker, "loglevel")
        refused = subprocess.run(["kubectl", *application, "loglevel"], capture_output=True, text=True,
                                 timeout=PATIENCE, check=False)
        if refused.returncode == 0 or "STATUS_ACCESS_DENIED" not in refused.stderr:
            raise Failure(f"the application is not refused: {refused}")
        listed = kubectl("exec", "deployment/storage-server", "-c", "broker", "--", "rdma-brokerctl", "sessions")
        if (users := {line.split()[2] for line in listed.splitlines()[1:]}) != {str(APPLICATION_USER)}:
            raise Failure(f"the sessions are of the users {users}")

    def an_application_cannot_signal_its_broker(self):
        application, daemon = keeper_of("neighbour-application"), daemon_of("neighbour-broker")
        if os.readlink(f"/proc/{application}/ns/pid") != os.readlink(f"/proc/{daemon}/ns/pid"):
            raise Failure("the pod's containers do not see each other's processes")
        user, in_pod = numbers_of(application, "Uid")[0], numbers_of(daemon, "NSpid")[-1]
        for each, may in ((user, False), (str(USER), True)):
            # Signal 0 only asks whether one may.
            command = ["nsenter", "--target", str(application), "--pid", "--setgid", each, "--setuid", each,
                       "/bin/sh", "-c", f"kill -0 {in_pod}"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            if (said.returncode == 0) != may or (not may and "not permitted" not in said.stderr):
                raise Failure(f"the user {each}: {said}")

    def connected_client(self):
        # In a session of its own, as podman, which kubectl starts, has its output, too.
        client = subprocess.Popen(self.fetch("--pause"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  start_new_session=True)
        limit = threading.Timer(PATIENCE, os.killpg, (client.pid, signal.SIGKILL))
        limit.start()
        try:
            for line in client.stdout:
                if "a line on standard input" in line:
                    return client
            raise Failure(f"the client did not connect; it ended with {client.wait()}")
        finally:
            limit.cancel()

    def finish(self, client):
        said = client.communicate("\n", timeout=PATIENCE)[0]
        if client.returncode != 0 or "stored back, the server's SHA-256 matches" not in said:
            raise Failure(f"the client ended with {client.returncode}: {said}")

    def healthy_again(self):
        for name in ("storage-server", "storage-client"):
            kubectl("rollout", "status", f"deployment/{name}")

    def a_connection_survives_both_daemons(self):
        client = self.connected_client()
        for name in ("storage-server-broker", "storage-client-broker"):
            keeper, daemon = keeper_of(name), daemon_of(name)
            os.kill(daemon, signal.SIGKILL)
            await_that(f"another daemon in {name}", lambda: daemon_of(name) not in (None, daemon))
            if keeper_of(name) != keeper:
                raise Failure(f"{name}: the container was started anew")
        self.healthy_again()
        self.finish(client)

    def a_connection_survives_a_planned_restart(self):
        client = self.connected_client()
        daemon = daemon_of("storage-server-broker")
        kubectl("exec", "deployment/storage-server", "-c", "broker", "--", "rdma-brokerctl", "restart")
        await_that("another daemon", lambda: daemon_of("storage-server-broker") not in (None, daemon))
        self.healthy_again()
        self.finish(client)

    def a_connection_survives_both_brokers_containers(self):
        client = self.connected_client()
        for name in ("storage-server-broker", "storage-client-broker"):
            keeper = keeper_of(name)
            os.kill(keeper, signal.SIGKILL)
            await_that(f"another container {name}", lambda: keeper_of(name) not in (0, keeper))
        self.healthy_again()
        self.finish(client)

    def clients_come_to_a_listener_that_survived(self):
        run(shlex.join(self.fetch()), self.folder)

    def a_nodes_folders_may_be_made_by_tmpfiles(self):
        lines = re.findall(rf"(?m)^    ({TMPFILE}.*)$", PAGE.read_text(encoding="utf-8"))
        (self.folder / "node.conf").write_text("\n".join([*lines, ""]), encoding="utf-8")
        run('systemd-tmpfiles --create "$PWD/node.conf"\n'
            'helm template rdma-broker deploy/kubernetes/chart --set image="$REGISTRY/rdma-broker:trial" '
            "--set node.prepareDirectories=false | kubectl apply -f -\n"
            f"{self.await_node}\n"
            "kubectl delete -f deploy/kubernetes/node.yaml", self.folder)
        for line in lines:
            shutil.rmtree(line.split()[1])

    def a_node_has_a_broker(self):
        run(self.commands["A broker for each node"], self.folder)
        kubectl("exec", "daemonset/rdma-broker", "-c", "broker", "--", "rdma-brokerctl", "health")

    def await_node_client(self):
        def sessions():
            listed = kubectl("exec", "daemonset/rdma-broker", "-c", "broker", "--", "rdma-brokerctl", "sessions")
            # The session, its state, its user and its listeners.
            return [tuple(line.split()[index] for index in (0, 1, 2, 6)) for line in listed.splitlines()[1:]]

        await_that("the node's client to listen", lambda: sessions() == [("1", "open", "1000", "1")])

    def sessions_survive_the_pod_of_a_nodes_broker(self):
        self.await_node_client()
        run("kubectl delete -f deploy/kubernetes/node.yaml", self.folder)
        run(f"{self.start_node}\n{self.await_node}", self.folder)
        self.await_node_client()

    def a_nodes_broker_has_metrics_where_they_are_asked_for(self):
        # On the node's network, which is the test's.
        if answers("127.0.0.1", 9464):
            raise Failure("something is at the port of the metrics, and nobody has asked for them")
        run("kubectl delete -f deploy/kubernetes/node.yaml\n"
            'helm template rdma-broker deploy/kubernetes/chart --set image="$REGISTRY/rdma-broker:trial" '
            "--set node.metrics=true | kubectl apply -f -\n"
            f"{self.await_node}", self.folder)
        with urllib.request.urlopen("http://127.0.0.1:9464/metrics", timeout=PATIENCE) as answer:
            said = answer.read().decode()
        if "\nrdma_broker_" not in said:
            raise Failure(f"no metric of the broker's: {said}")
        self.await_node_client()

    def a_pod_meets_a_client_of_its_nodes_broker(self):
        client = address_of("storage-client")
        node = client.rpartition(".")[0] + ".1"  # The bridge.
        run(f"kubectl exec deployment/storage-client -c application -- request_reply client --address {client}:0 "
            f"--server {node}:7472 --count 100", self.folder)

    def a_node_without_clients_is_drained(self):
        run("kubectl delete --grace-period 1 -f deploy/kubernetes/node-client.yaml", self.folder)
        if "iwarp0: drained" not in run(self.commands["What is kept"], self.folder):
            raise Failure("the broker does not say that its device is drained")

    def another_configuration_costs_no_connection(self):
        def log():
            return subprocess.run(["podman", "logs", "storage-client-broker"], check=True, text=True, timeout=PATIENCE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

        client = self.connected_client()
        keeper, daemon, served = keeper_of("storage-client-broker"), daemon_of("storage-client-broker"), log()
        if "applied: log.level" not in run(self.commands["Configure"], self.folder):
            raise Failure("the broker does not say what has changed")
        if daemon_of("storage-client-broker") != daemon:
            raise Failure("the daemon is another")
        kubectl("exec", "deployment/storage-client", "-c", "broker", "--", "rdma-brokerctl", "restart")
        await_that("another daemon", lambda: daemon_of("storage-client-broker") not in (None, daemon))
        self.healthy_again()
        self.finish(client)
        if keeper_of("storage-client-broker") != keeper:
            raise Failure("the container is another")
        said = log().removeprefix(served)
        events = [(line["program"], line["event"]) for line in objects(said)]
        if ("rdma-broker-keeper", "child ready") not in events or ("rdma-brokerd", "serving") in events:
            raise Failure(f"the daemon logs what it is not to log any more, or nothing is seen: {said}")
        if ("rdma-brokerd", "serving") not in [(line["program"], line["event"]) for line in objects(served)]:
            raise Failure(f"the daemon has not logged what it was to log: {served}")

    def a_policy_holds_at_once_and_costs_no_connection(self):
        def decide_by(default):
            # As the page does it: the kubelet takes its time.
            run("helm upgrade storage-client deploy/kubernetes/chart --reuse-values "
                f"--set configuration.policy.default={default}\n"
                "until kubectl exec deployment/storage-client -c broker -- rdma-brokerctl reload | "
                "grep -F 'applied: policy'\n"
                "do sleep 1; done", self.folder)

        client = self.connected_client()
        decide_by("deny")
        refused = subprocess.run(self.fetch(), capture_output=True, text=True, timeout=PATIENCE, check=False)
        if refused.returncode == 0 or "STATUS_ACCESS_DENIED: policy.default" not in refused.stderr:
            raise Failure(f"a client is not refused: {refused}")
        self.finish(client)
        decide_by("allow")
        run(shlex.join(self.fetch()), self.folder)

    def renew(self, version):
        """Has an authority of its own sign for a broker and an operator, and the broker's Secret be that."""
        folder = self.folder / version
        folder.mkdir()
        certify(folder, "ca", *AUTHORITY)
        for name in ("tls", "operator"):
            certify(folder, name, "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", f"subjectAltName=URI:{TRUST}{name}")
        data = {name: base64.b64encode((folder / name).read_bytes()).decode()
                for name in ("tls.crt", "tls.key", "ca.crt")}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "broker-certificate"}, "data": data}
        (folder / "secret.json").write_text(json.dumps(secret), encoding="utf-8")
        kubectl("apply", "-f", str(folder / "secret.json"))

    def asked_over_tcp(self, operator, authorities):
        """The answer to an operator of one version, who believes the authorities of another."""
        own = self.folder / operator
        command = ["rdma-brokerctl", "--address", f"{address_of('administered')}:4792", "--server-name", f"{TRUST}tls",
                   "--certificate", own / "operator.crt", "--private-key", own / "operator.key",
                   "--authorities", self.folder / authorities / "ca.crt", "loglevel"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def the_tcp_port_goes_on_with_a_renewed_certificate(self):
        self.renew("first")
        self.install("administered", "tcp.secret=broker-certificate", f"tcp.administrators=[{TRUST}operator]")
        answer = self.asked_over_tcp("first", "first")
        if answer.returncode != 0 or "info" not in answer.stdout:
            raise Failure(f"an operator is not answered: {answer}")
        daemon = daemon_of("administered-broker")
        self.renew("second")
        await_that("the renewed certificate", lambda: self.asked_over_tcp("second", "second").returncode == 0)
        answered = [self.asked_over_tcp(operator, "second").returncode == 0 for operator in ("first", "second")]
        if answered != [False, True]:
            raise Failure(f"whether operators of the former and of the new authority are answered: {answered}")
        if daemon_of("administered-broker") != daemon:
            raise Failure("the daemon is another")

    def devices_are_asked_for(self):
        said = run(self.commands["The kernel's RDMA devices"], self.folder)
        if "rdma/hca: 1" not in said:
            raise Failure("no resource is asked for")

    def the_sidecar_ends_after_the_application(self):
        said = run("kubectl delete --grace-period 6 -f deploy/kubernetes/sidecar.yaml", self.folder)
        order = re.findall(r"storage-server: (\w+) ended with (\d+)", said)
        if [name for name, _ in order] != ["application", "broker"] or order[1][1] != "0":
            raise Failure(f"they ended so: {order}")

    def all(self):
        return (
            self.the_images_go_to_a_registry,
            self.two_pods_with_a_sidecar_exchange_a_file,
            self.the_broker_has_no_rights,
            self.root_in_a_pod_administers_nothing,
            self.an_application_administers_nothing_and_has_its_session,
            self.an_application_cannot_signal_its_broker,
            self.a_connection_survives_both_daemons,
            self.a_connection_survives_a_planned_restart,
            self.a_connection_survives_both_brokers_containers,
            self.clients_come_to_a_listener_that_survived,
            self.a_nodes_folders_may_be_made_by_tmpfiles,
            self.a_node_has_a_broker,
            self.sessions_survive_the_pod_of_a_nodes_broker,
            self.a_nodes_broker_has_metrics_where_they_are_asked_for,
            self.a_pod_meets_a_client_of_its_nodes_broker,
            self.a_node_without_clients_is_drained,
            self.another_configuration_costs_no_connection,
            self.a_policy_holds_at_once_and_costs_no_connection,
            self.the_tcp_port_goes_on_with_a_renewed_certificate,
            self.devices_are_asked_for,
            self.the_sidecar_ends_after_the_application,
        )


def mount_tmpfs(path):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)


def make_node(folder):
    """A machine's empty state, a network, and a registry; returns the registry's process."""
    for path in ("/run", "/dev/shm", "/var/lib/cni", "/etc/cni/net.d"):
        mount_tmpfs(path)
    settings = folder / "settings"
    shutil.copytree("/etc/containers", settings)
    limits = [f'"{name}={most}:{most}"' for name, most in (
        ("nofile", resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        ("nproc", resource.getrlimit(resource.RLIMIT_NPROC)[1]))]
    (settings / "containers.conf").write_text(
        # Its own limits are more than root has everywhere; and crun 1.8 knows no hybrid cgroups.
        f'[containers]\ndefault_ulimits = [{",".join(limits)}]\n[engine]\nruntime = "runc"\n'
        'cgroup_manager = "cgroupfs"\nevents_logger = "file"\n', encoding="utf-8")
    (settings / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "/run/containers"\ngraphroot = "{folder}/containers"\n', "utf-8")
    (settings / "registries.conf").write_text(f'[[registry]]\nlocation = "{REGISTRY}"\ninsecure = true\n', "utf-8")
    subprocess.run(["mount", "--bind", settings, "/etc/containers"], check=True)
    (folder / "registry.yaml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/registry}}}}\n"
        f"http: {{addr: {REGISTRY}}}\n", encoding="utf-8")
    (folder / "tmp").mkdir()
    os.environ |= {"REGISTRY": REGISTRY, "NODE": "node", "TMPDIR": str(folder / "tmp")}
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["podman", "network", "create", "pods"], check=True, stdout=subprocess.DEVNULL)
    registry = subprocess.Popen([str(folder / "bin/registry"), "serve", str(folder / "registry.yaml")],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serves():
        if registry.poll() is not None:
            raise Failure(f"the registry ended with {registry.returncode}")
        host, _, port = REGISTRY.partition(":")
        return answers(host, int(port))

    await_that("the registry", serves)
    return registry


def show_logs():
    command = ["podman", "ps", "--all", "--format", "{{.Names}}"]
    for name in subprocess.run(command, capture_output=True, text=True, check=False).stdout.split():
        print(f"== the log of {name}", flush=True)
        subprocess.run(["podman", "logs", "--tail", "30", name], stderr=subprocess.STDOUT, check=False)


def control_groups():
    return {str(path) for top in pathlib.Path("/sys/fs/cgroup").glob("**/libpod_parent")
            for path in top.glob("**/")}


def inside(folder):
    groups = control_groups()
    registry = make_node(folder)
    test = PodsTest(folder)
    try:
        for check in test.all():
            name = f"pods: {check.__name__.replace('_', ' ')}"
            print(f"== {name}", flush=True)
            try:
                check()
            except (Failure, OSError, subprocess.SubprocessError) as failure:
                print(getattr(failure, "stderr", None) or "", failure, f"failed {name}", sep="\n", flush=True)
                show_logs()
                return 1
            print(f"passed {name}", flush=True)
        return 0
    finally:
        subprocess.run(["podman", "pod", "rm", "--all", "--force", "--time", "1"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        # Control groups are in none of the namespaces, and podman leaves some.
        for group in sorted(control_groups() - groups, reverse=True):
            subprocess.run(["rmdir", group], stderr=subprocess.DEVNULL, check=False)
        registry.terminate()


def outside(render, registry, built):
    with tempfile.TemporaryDirectory(prefix="rdma-broker-pods.") as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "deploy").symlink_to(SOURCE / "deploy")
        (folder / "bin/render").symlink_to(pathlib.Path(render).resolve())
        (folder / "bin/registry").symlink_to(pathlib.Path(registry).resolve())
        (folder / "bin/rdma-brokerctl").symlink_to((pathlib.Path(built) / "client/ctl/rdma-brokerctl").resolve())
        # Out here, where Bazel's server is, which has just built the test's programs.
        run("\n".join(line for line in sections()["The image"].splitlines() if line.startswith(BUILD)), folder)
        environment = {**os.environ, INSIDE: name}
        environment["PATH"] = f"{SOURCE}/tests/kubernetes/stand_in:{folder}/bin:{os.environ['PATH']}"
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation",
                   "private", sys.executable, __file__]
        status = subprocess.run(command, env=environment, check=False).returncode
        shutil.rmtree(folder / "containers", ignore_errors=True)
        return status


def main():
    if os.geteuid() != 0:
        sys.exit("pods_test.py needs root: namespaces, podman")
    if folder := os.environ.get(INSIDE):
        sys.exit(inside(pathlib.Path(folder)))
    sys.exit(outside(*sys.argv[1:]))


if __name__ == "__main__":
    main()
