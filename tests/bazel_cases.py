# SPDX-License-Identifier: Apache-2.0
"""Prints one line for each test case of a Bazel run: "passed|failed|skipped NAME<tab>LOG".

Usage: bazel_cases.py EVENTS STATUS LOG, with the events that Bazel wrote as JSON, its exit status, and its log.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# Bazel's exit statuses that its events explain: all well, tests failed, no test selected.
EXPLAINED = (0, 3, 4)


def path_of(uri):
    return urllib.parse.unquote(urllib.parse.urlparse(uri).path)


def outcome_of(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    ran = case.get("status", "run") == "run" and case.find("skipped") is None
    return "passed" if ran else "skipped"


def cases_of_xml(label, path):
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            # Where a test writes no XML, Bazel does: one case with the suite's name.
            is_target = case.get("name") == suite.get("name")
            name = label if is_target else f"{label} {suite.get('name')}.{case.get('name')}"
            yield outcome_of(case), name


def cases_of_test(label, shard, result):
    """The cases of one test program, and the program itself where none of them explains its failure."""
    files = {output["name"]: path_of(output["uri"]) for output in result.get("testActionOutput", [])}
    cases = list(cases_of_xml(label, files.get("test.xml", "")))
    status = result["status"]
    if status not in ("PASSED", "FLAKY") and all(outcome != "failed" for outcome, _ in cases):
        cases.append(("failed", f"{label} ({status})"))
    if not cases and shard == 1:
        cases.append(("failed", f"{label} (no test case)"))
    return [(outcome, name, files.get("test.log", "")) for outcome, name in cases]


def cases_of_run(events, log):
    results = {}
    for event in events:
        identity = event["id"]
        if "testResult" in identity:
            key = identity["testResult"]
            results[key["label"], key["run"], key["shard"]] = event["testResult"]  # The last attempt counts.
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            yield "failed", f"{identity['targetCompleted']['label']} (does not build)", log
    for (label, _, shard), result in sorted(results.items(), key=lambda item: item[0]):
        yield from cases_of_test(label, shard, result)


def main():
    events_path, status, log = sys.argv[1:]
    try:
        with open(events_path, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
    except OSError:
        events = []
    cases = list(cases_of_run(events, log))
    if int(status) not in EXPLAINED and all(outcome != "failed" for outcome, _, _ in cases):
        cases.append(("failed", f"bazel (exit status {status})", log))
    for outcome, name, path in cases:
        print(f"{outcome} {name}\t{path}")


if __name__ == "__main__":
    main()
