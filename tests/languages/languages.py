#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: languages.py BIN [MODULE...]
Runs the tests of the clients in other languages, those in the modules or all, with the programs of a bazel-bin. Prints
"passed|failed|skipped NAME" for each. The packages of client/examples/node must be installed (npm ci).
"""

import os
import subprocess
import sys
import tempfile
import unittest

from processes import ROOT

MODULES = ("watch_test", "c_api_test", "names_test", "page_test")


class Outcomes(unittest.TestResult):
    """Prints each test's outcome, with its reason."""

    def _say(self, outcome, test, reason=""):
        sys.stderr.flush()
        print(f"{reason}{outcome} {type(test).__name__}: {test._testMethodName.removeprefix('test_')}", flush=True)

    def addSuccess(self, test):
        self._say("passed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._say("skipped", test, f"{reason}\n")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say("failed", test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        print(self._exc_info_to_string(err, test))
        if isinstance(test, unittest.TestCase):
            self._say("failed", test)
        else:
            print(f"failed {test}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.environ["BIN"] = os.path.realpath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="rb.") as generated:
        os.environ["GENERATED"] = generated
        os.environ["GOCACHE"] = f"{generated}/go_cache"
        subprocess.run([ROOT / "client/examples/python/generate", generated], check=True)
        subprocess.run([ROOT / "client/examples/go/generate", f"{generated}/go"], check=True)
        result = Outcomes()
        unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:] or MODULES).run(result)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
