# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/services.md, as they stand there."""

import os
import signal
import subprocess
import time
import unittest

from processes import ROOT

LIMIT = 900  # Seconds: the page's programs take some twenty, the network's packages and a build what they take.


def commands_of(page):
    """What is indented, which is code in a page of ours."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


def run(script, limit):
    """The exit status of a Bash, what it has said and what it has complained about. After so many seconds it is
    killed with all that it has started, and that is subprocess.TimeoutExpired."""
    command = ["bash", "-c", script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as shell:
        try:
            said, complained = shell.communicate(timeout=limit)
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)
            raise
    return shell.returncode, said, complained


class ServicesPage(unittest.TestCase):
    def test_its_commands_do_what_it_says(self):
        script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
        script += commands_of(ROOT / "docs/services.md")
        status, said, complained = run(script, LIMIT)
        self.assertEqual(status, 0, said + complained)
        self.assertEqual(said.count("reserved twice: STATUS_SHARING_VIOLATION"), 3, said + complained)
        self.assertEqual(said.count("interrupted\nclosed\n"), 3, said + complained)
        self.assertIn('the server says "all bytes are there"\nclosed\n', said)

    def test_what_it_has_started_does_not_outlive_its_time(self):
        read_end, write_end = os.pipe()
        with os.fdopen(read_end) as until_its_end:
            with os.fdopen(write_end, "w") as mine, self.assertRaises(subprocess.TimeoutExpired):
                run(f"sleep 30 >/proc/{os.getpid()}/fd/{mine.fileno()} & wait", 2)
            begun = time.monotonic()
            self.assertEqual(until_its_end.read(), "")
            self.assertLess(time.monotonic() - begun, 20)
