# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/services.md, as they stand there."""

import subprocess
import unittest

from processes import ROOT

LIMIT = 300  # Seconds, of which the page's programs take some twenty, and Bazel what it takes to see that all is built.


def commands_of(page):
    """What is indented, which is code in a page of ours."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


class ServicesPage(unittest.TestCase):
    def test_its_commands_do_what_it_says(self):
        script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
        script += commands_of(ROOT / "docs/services.md")
        command = ["bash", "-c", script]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
        said = ended.stdout + ended.stderr
        self.assertEqual(ended.returncode, 0, said)
        self.assertEqual(ended.stdout.count("reserved twice: STATUS_SHARING_VIOLATION"), 2, said)
        self.assertEqual(ended.stdout.count("interrupted\nclosed\n"), 2, said)
        self.assertIn('the server says "all bytes are there"\nclosed\n', ended.stdout)
