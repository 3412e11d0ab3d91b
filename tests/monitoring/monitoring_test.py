#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds deploy/monitoring and docs/operating.md against a daemon that runs, and has Prometheus itself judge them.

Usage: monitoring_test.py FOLDER, where the folder is a bazel-bin with the daemon, its keeper and the example
request_reply. Prints "passed|failed NAME" lines.
"""

import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ALERTS = SOURCE / "deploy/monitoring/alerts.yaml"
BOARD = SOURCE / "deploy/monitoring/rdma-broker.json"
ALERT_TESTS = SOURCE / "tests/monitoring/alerts_test.yaml"
PAGE = SOURCE / "docs/operating.md"
PATIENCE = 60  # Seconds, which only a fault takes.
TRIES = 5  # That so many ports are taken in the moment between is no accident.
# Prometheus' own, and what makes a histogram's series.
NAME = re.compile(r"\b((?:rdma_broker|process)_[a-z_]+)\b")
SUFFIX = re.compile(r"_(bucket|sum|count)$")
# Not metrics: labels and the like that look like one in the board or the alerts.
OTHERS = {"up"}
# What is more than 0 once two processes that the broker connects have spoken to each other.
MOVED = (
    "rdma_broker_events_sent_total",
    "rdma_broker_store_commits_total",
    "rdma_broker_store_commit_seconds_count",
    "rdma_broker_recovery_seconds",
    "rdma_broker_kept_descriptors",
    "rdma_broker_kept_descriptors_limit",
    'rdma_broker_handshake_step_seconds_count{side="active",step="hand_off"}',
    'rdma_broker_handshake_step_seconds_count{side="passive",step="hand_off"}',
)


def require(condition, message):
    if not condition:
        raise AssertionError(message)


def eventually(what, ask):
    """The first true value that `ask` gives."""
    end = time.monotonic() + PATIENCE
    while True:
        value = ask()
        if value:
            return value
        require(time.monotonic() < end, f"{what}: not within {PATIENCE} s")
        time.sleep(0.2)


def said_by(process, log, pattern):
    """What the pattern finds in the log of a process, in time. It is a file, as a pipe that nobody reads stops whoever
    writes once it is full, and a read from one may wait for ever."""

    def ask():
        ended = process.poll() is not None  # Before the log is read: its last words count.
        found = re.search(pattern, log.read_text())
        require(found or not ended, f"{process.args[0]} has ended")
        return found

    try:
        return eventually(pattern, ask)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says:\n{log.read_text()}") from error


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


def types_of(page):
    """The type of each metric of a scrape."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))


def labels_of(page):
    """The labels that the series of each metric of a scrape have, but for a histogram's own."""
    labels = {}
    types = types_of(page)
    for line in page.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        name = name.split(" ")[0]
        if name not in types:
            name = SUFFIX.sub("", name)
        labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', rest)) - {"le"})
    return labels


def values_of(page):
    """The value of each series of a scrape."""
    lines = (line for line in page.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}


def documented():
    """Type and labels of each metric of the page, by its name."""
    rows = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def code_of(section):
    """What is indented in a section of the page."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))


def names_in(text):
    return {SUFFIX.sub("", name) for name in NAME.findall(text)}


def expressions_of(board):
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


class Daemon:
    """rdma-brokerd as its keeper runs it."""

    def __init__(self, programs, folder):
        self.programs = pathlib.Path(programs)
        self.folder = pathlib.Path(folder)
        configuration = self.folder / "rdma-brokerd.toml"
        configuration.write_text(
            f'[control]\nsocket_directory = "{folder}"\nsocket_group = ""\n[metrics]\naddress = "127.0.0.1:0"\n'
        )
        keeper, daemon = self.programs / "broker/keeper/rdma-broker-keeper", self.programs / "broker/rdma-brokerd"
        command = [keeper, "--", daemon, "--config", configuration]
        log = self.folder / "daemon.log"
        with log.open("w") as said:
            self.process = subprocess.Popen(command, stderr=said)
        try:
            self.address = said_by(self.process, log, r"metrics served address=(\S+)\s")[1]
        except BaseException:
            self.stop()
            raise

    def let_two_processes_speak(self):
        program, socket_path = self.programs / "client/examples/request_reply", self.folder / "control.sock"
        log = self.folder / "server.log"
        with log.open("w") as said:
            server = subprocess.Popen([program, "server", "--socket", socket_path], stdout=said)
        try:
            address = said_by(server, log, r"listening on (\S+)\s")[1]
            client = [program, "client", "--socket", socket_path, "--server", address, "--count", "1"]
            done = subprocess.run(client, capture_output=True, text=True, timeout=PATIENCE, check=False)
            require(done.returncode == 0, done.stdout + done.stderr)
            require(server.wait(timeout=PATIENCE) == 0, "the server has failed")
        finally:
            server.kill()
            server.wait()

    def scrape(self):
        return fetch(f"http://{self.address}/metrics")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE)


def promtool(*arguments, folder=None):
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    require(done.returncode == 0, done.stdout + done.stderr)


def the_alerts_are_rules(_):
    promtool("check", "rules", str(ALERTS))


def each_alert_fires_when_it_should(_):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ALERTS, folder)
        shutil.copy(ALERT_TESTS, folder)
        promtool("test", "rules", ALERT_TESTS.name, folder=folder)
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    fire = set(re.findall(r"alertname: (\w+)\n        exp_alerts:\n          - ", ALERT_TESTS.read_text()))
    require(alerts == fire, f"not fired: {alerts - fire}; unknown: {fire - alerts}")


def each_alert_is_documented(_):
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    rows = set(re.findall(r"^\| (RdmaBroker\w+) \|", PAGE.read_text(), re.MULTILINE))
    require(alerts == rows, f"not in operating.md: {alerts - rows}; only there: {rows - alerts}")


def each_metric_of_a_scrape_is_documented_with_its_type_and_labels(daemon):
    page = daemon.scrape()
    promtool_input = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    require(promtool_input.returncode == 0, promtool_input.stdout + promtool_input.stderr)
    types = types_of(page)
    told = documented()
    require(not set(types) - set(told), f"undocumented: {set(types) - set(told)}")
    require(not set(told) - set(types), f"only documented: {set(told) - set(types)}")
    for name, labels in labels_of(page).items():
        require(types[name] == told[name][0], f"{name} is a {types[name]}")
        require(labels <= told[name][1], f"{name} has the labels {labels}")


def what_the_board_and_the_alerts_name_there_is(daemon):
    types = types_of(daemon.scrape())
    board = json.loads(BOARD.read_text())
    for source, text in (("board", " ".join(expressions_of(board))), ("alerts", ALERTS.read_text())):
        unknown = names_in(text) - set(types) - OTHERS
        require(not unknown, f"{source}: {unknown}")
    shown = names_in(" ".join(expressions_of(board)))
    # Of a session there are six; the board shows the two that say most, and how many there are.
    hidden = {name for name in set(types) - shown if not name.startswith("rdma_broker_session_")}
    require(not hidden, f"not on the board: {hidden}")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def ask_prometheus(address, path, **parameters):
    try:
        return json.loads(fetch(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]
    except (urllib.error.URLError, ConnectionError):
        return None


def start_prometheus(configuration, folder, log):
    """The process, once it serves, and its address. Somebody else may take the port before Prometheus does."""
    for _ in range(TRIES):
        address = f"127.0.0.1:{free_port()}"
        command = [
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
        ]
        with log.open("w") as said:
            server = subprocess.Popen(command, stderr=said)
        try:
            eventually(
                "Prometheus is ready", lambda: server.poll() is not None or "Server is ready" in log.read_text()
            )
        except AssertionError as error:
            server.kill()
            server.wait()
            raise AssertionError(f"{error}; it says:\n{log.read_text()}") from error
        if server.poll() is None:
            return server, address
    raise AssertionError(f"Prometheus has ended {TRIES} times, and says:\n{log.read_text()}")


def prometheus_collects_it_and_takes_every_expression(daemon):
    with tempfile.TemporaryDirectory() as folder:
        configuration = pathlib.Path(folder) / "prometheus.yaml"
        # The page's, but for the places of this test's daemon and of the alerts.
        text = code_of("Metrics")
        for there, here in (("127.0.0.1:9464", daemon.address), ("alerts.yaml", str(ALERTS))):
            require(text.count(there) == 1, f"the page's configuration lacks {there}: {text}")
            text = text.replace(there, here)
        configuration.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{text}\n")
        promtool("check", "config", str(configuration))
        log = pathlib.Path(folder) / "prometheus.log"
        server, address = start_prometheus(configuration, folder, log)
        try:
            query = 'rdma_broker_build_info{job="rdma-broker"}'
            found = eventually(
                "a first scrape", lambda: (ask_prometheus(address, "query", query=query) or {}).get("result")
            )
            require(found[0]["value"][1] == "1" and found[0]["metric"]["version"], found)
            targets = ask_prometheus(address, "targets")["activeTargets"]
            require([each["health"] for each in targets] == ["up"], targets)
            for expression in expressions_of(json.loads(BOARD.read_text())):
                plain = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
                require(ask_prometheus(address, "query", query=plain) is not None, plain)
            healthy = eventually(
                "rules", lambda: all_evaluated((ask_prometheus(address, "rules") or {"groups": []})["groups"])
            )
            require(all(rule["health"] == "ok" for rule in healthy), healthy)
            firing = [rule["name"] for rule in healthy if rule["state"] == "firing"]
            require(not firing, f"a broker that is well fires {firing}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nPrometheus says:\n{log.read_text()}") from error
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


def all_evaluated(groups):
    rules = [rule for group in groups for rule in group["rules"]]
    return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None


def what_processes_do_moves_the_counts(daemon):
    daemon.let_two_processes_speak()
    end = time.monotonic() + PATIENCE
    while True:
        values = values_of(daemon.scrape())
        still = [series for series in MOVED if not values.get(series)]
        if not still:
            break
        require(time.monotonic() < end, f"still 0, or not there: {still}")
        time.sleep(0.2)


TESTS = (
    the_alerts_are_rules,
    each_alert_fires_when_it_should,
    each_alert_is_documented,
    each_metric_of_a_scrape_is_documented_with_its_type_and_labels,
    what_the_board_and_the_alerts_name_there_is,
    prometheus_collects_it_and_takes_every_expression,
    what_processes_do_moves_the_counts,
)


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(sys.argv[1], folder)
        try:
            for test in TESTS:
                try:
                    test(daemon)
                    print(f"passed {test.__name__}", flush=True)
                except AssertionError as error:
                    failed = True
                    print(f"{error}\nfailed {test.__name__}", flush=True)
        finally:
            daemon.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
