#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A count that hid a failure would make every other test worthless, so the counting is tested, too."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("bazel_cases.py")
XML = '<testsuites><testsuite name="S">{}</testsuite></testsuites>'
PASS = '<testcase name="Passes" status="run"/>'
FAIL = '<testcase name="Fails" status="run"><failure/></testcase>'
SKIP = '<testcase name="Skips" status="run"><skipped/></testcase>'
DISABLED = '<testcase name="Off" status="notrun"/>'
WHOLE = '<testsuites><testsuite name="p/t"><testcase name="p/t" status="run">{}</testcase></testsuite></testsuites>'

# What is tried, Bazel's status for the test, its XML, the outcomes expected.
CASES = (
    ("skipped cases count", "PASSED", XML.format(PASS + SKIP), ["passed S.Passes", "skipped S.Skips"]),
    ("a disabled case is skipped", "PASSED", XML.format(DISABLED), ["skipped S.Off"]),
    ("a failed case is named", "FAILED", XML.format(PASS + FAIL), ["passed S.Passes", "failed S.Fails"]),
    ("a failure outside the cases counts", "FAILED", XML.format(PASS), ["passed S.Passes", "failed (FAILED)"]),
    ("a timeout counts", "TIMEOUT", None, ["failed (TIMEOUT)"]),
    ("a test without cases fails", "PASSED", XML.format(""), ["failed (no test case)"]),
    ("broken XML hides nothing", "PASSED", "<testsuites><", ["failed (no test case)"]),
    ("Bazel's own XML is one case", "PASSED", WHOLE.format(""), ["passed"]),
    ("Bazel's own XML fails", "FAILED", WHOLE.format("<error/>"), ["failed"]),
)


class BazelCases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def outcomes(self, events, status):
        path = self.folder / "events"
        path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        command = [sys.executable, SCRIPT, path, str(status), "bazel.log"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [line.split("\t")[0].replace(" //p:t", "") for line in printed.splitlines()]

    def result(self, status, xml, attempt=1):
        path = self.folder / f"{attempt}.xml"
        if xml is not None:
            path.write_text(xml, encoding="utf-8")
        identity = {"label": "//p:t", "run": 1, "shard": 1, "attempt": attempt}
        outputs = [{"name": "test.xml", "uri": path.as_uri()}]
        return {"id": {"testResult": identity}, "testResult": {"status": status, "testActionOutput": outputs}}

    def test_outcomes_of_one_program(self):
        for what, status, xml, expected in CASES:
            with self.subTest(what):
                events = [self.result(status, xml)]
                self.assertEqual(self.outcomes(events, 0 if status == "PASSED" else 3), expected)
                (self.folder / "1.xml").unlink(missing_ok=True)

    def test_the_last_attempt_counts(self):
        events = [self.result("FAILED", XML.format(FAIL), 1), self.result("PASSED", XML.format(PASS), 2)]
        self.assertEqual(self.outcomes(events, 0), ["passed S.Passes"])

    def test_what_does_not_build_fails(self):
        event = {"id": {"targetCompleted": {"label": "//p:t"}}, "aborted": {"reason": "INCOMPLETE"}}
        self.assertEqual(self.outcomes([event], 1), ["failed (does not build)"])

    def test_an_unexplained_status_of_bazel_fails(self):
        outcomes = self.outcomes([self.result("PASSED", XML.format(PASS))], 1)
        self.assertEqual(outcomes, ["passed S.Passes", "failed bazel (exit status 1)"])

    def test_selecting_no_test_is_no_failure(self):
        self.assertEqual(self.outcomes([], 4), [])


if __name__ == "__main__":
    unittest.main()
