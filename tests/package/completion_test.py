#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types into an interactive bash and looks at what its completion makes of it.

Usage: completion_test.py COMPLETION RDMA_BROKERCTL
"""

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

COMPLETION, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])

# Answers as a broker; the rest is the program's.
FAKE = r"""#!/bin/bash
echo "$*" >>"$0.asked"
case $* in
  *adapters) printf 'NAME TYPE\nrxe0 roce\nrxe1 roce\niwarp0 iwarp\n$(touch${IFS}ran) iwarp\n' ;;
  *sessions) printf 'SESSION UID\n7001 0\n' ;;
  *connectors) printf 'CONNECTOR LOCAL\n42 -\n' ;;
  *) exec PROGRAM "$@" ;;
esac
"""
ALL = "\x1b*"  # To readline: put all completions here.
SHOW = "\x07"


class Shell:
    """An interactive bash with the completion, in which the program's broker has two devices."""

    def __init__(self, folder):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            environment = {"PATH": f"{folder}:/usr/bin:/bin", "TERM": "dumb", "PS1": "> ", "INPUTRC": "/dev/null"}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        show = rf"""bind -x '"\C-g": printf "<<%s>>\n" "$READLINE_LINE"'"""
        self.write(f". {COMPLETION}; {show}; echo rea''dy\n")
        self.read_until("ready")

    def write(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, pattern):
        said = ""
        deadline = time.monotonic() + 60  # A busy machine needs seconds; a shell that needs more hangs.
        while not (found := re.search(pattern, said)):
            if not select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern} in what bash says: {said!r}")
            said += os.read(self.terminal, 4096).decode()
        return found

    def line_after(self, keys):
        """What stands in the line after these keys."""
        self.write(keys + SHOW)
        line = self.read_until(r"<<(.*)>>")[1]
        self.write("\x15")  # An empty line again.
        return line

    def completions(self, line):
        return self.line_after(line + ALL).removeprefix(line.rpartition(" ")[0]).split()


def names_below(title, *command):
    said = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True).stdout
    part = said.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z-]\S*)", part, re.MULTILINE)


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        fake = self.folder / "rdma-brokerctl"
        fake.write_text(FAKE.replace("PROGRAM", PROGRAM))
        fake.chmod(0o755)
        (self.folder / "broker.sock").touch()
        self.shell = Shell(folder.name)
        self.addCleanup(os.close, self.shell.terminal)  # Its end is the shell's.

    def test_a_command_is_completed(self):
        self.assertEqual(self.shell.line_after("rdma-brokerctl disa\t"), "rdma-brokerctl disable-adapter ")

    def test_every_command_is_offered(self):
        commands = names_below("Subcommands")
        self.assertIn("doctor", commands)
        self.assertEqual(sorted(self.shell.completions("rdma-brokerctl ")), sorted(commands))

    def test_every_option_is_offered(self):
        for command in ([], ["disable-adapter"]):
            options = {name.split(",")[-1] for each in ([], command) for name in names_below("Options", *each)}
            self.assertIn("--help", options)
            line = " ".join(["rdma-brokerctl", *command, "--"])
            self.assertEqual(sorted(self.shell.completions(line)), sorted(options), command)

    def test_arguments_are_what_the_broker_has(self):
        for line, expected in {
            "disable-adapter ": ["iwarp0", "rxe0", "rxe1"],
            "disable-adapter --wait 5 rx": ["rxe0", "rxe1"],
            "-o json enable-adapter i": ["iwarp0"],
            "end-session ": ["7001"],
            "end-session 7001 ": [],
            "drain ": ["iwarp0", "rxe0", "rxe1"],
            "explain ": ["42"],
            "watch l": ["listeners"],
            "watch sessions shared": ["shared-endpoints"],
            "adapters ": [],
            "loglevel ": ["debug", "error", "info", "trace", "warning"],
            "loglevel d": ["debug"],
        }.items():
            self.assertEqual(sorted(self.shell.completions("rdma-brokerctl " + line)), expected, line)

    def test_what_a_broker_calls_its_devices_is_not_run(self):
        self.assertEqual(self.shell.completions("rdma-brokerctl drain $"), ["$"])
        self.assertEqual(sorted(self.shell.completions("rdma-brokerctl drain ")), ["iwarp0", "rxe0", "rxe1"])
        self.assertFalse((self.folder / "ran").exists())

    def test_the_broker_that_is_asked_is_the_one_that_was_named(self):
        for option in ("--socket /run/other.sock", "--socket=/run/other.sock"):
            self.assertEqual(self.shell.completions(f"rdma-brokerctl {option} end-session "), ["7001"])
            asked = (self.folder / "rdma-brokerctl.asked").read_text().splitlines()
            self.assertIn("--socket /run/other.sock sessions", asked)
            (self.folder / "rdma-brokerctl.asked").unlink()

    def test_a_broker_on_another_machine_is_asked_with_all_that_names_it(self):
        named = "--address a:1 --certificate c --private-key k --authorities d --server-name n"
        self.assertEqual(self.shell.completions(f"rdma-brokerctl {named} end-session "), ["7001"])
        self.assertIn(f"{named} sessions", (self.folder / "rdma-brokerctl.asked").read_text().splitlines())

    def test_values_are_offered_where_an_option_names_them(self):
        for line in ("-o ", "--output ", "adapters -o "):
            self.assertLessEqual({"json", "table", "yaml"}, set(self.shell.completions("rdma-brokerctl " + line)), line)
        self.assertEqual(self.shell.completions("rdma-brokerctl --output=j"), ["--output=json"])

    def test_a_socket_is_a_file(self):
        self.assertEqual(self.shell.line_after("rdma-brokerctl --socket bro\t"), "rdma-brokerctl --socket broker.sock ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
