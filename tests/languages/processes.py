# SPDX-License-Identifier: Apache-2.0
"""The processes of the tests: a broker over user-space iWARP, and programs that speak with it."""

import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # Seconds for what is sure to happen on a busy machine.


class Program:
    """A process whose output is read line by line. Killed by `end`, if it has not ended."""

    def __init__(self, command, **options):
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )
        self.pid = self._process.pid
        self.said = []
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, beginning=""):
        """The rest of the next line that begins so."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f'"{beginning}" does not come; it said: {self.said}')
            self.said.append(line)
            if line.startswith(beginning):
                return line.removeprefix(beginning)

    def write_line(self):
        """An empty one, for which the program waits."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def signal(self, number):
        self._process.send_signal(number)

    def status(self):
        """Waits for its end: the exit status, with all that it said in `said`."""
        status = self._process.wait(PATIENCE)
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.said.append(line)
        return status

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class Broker:
    """rdma-brokerd with its sockets in a folder of its own."""

    def __init__(self, bin_folder, settings=""):
        self._bin = pathlib.Path(bin_folder)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rb."))
        self.socket = self.folder / "control.sock"
        configuration = f'[control]\nsocket_directory = "{self.folder}"\nsocket_group = ""\n{settings}'
        (self.folder / "broker.toml").write_text(configuration, encoding="utf-8")
        self.start()

    def start(self):
        command = [self._bin / "broker/rdma-brokerd", "--config", self.folder / "broker.toml"]
        self._program = Program(command)
        while "serving" not in self._program.line():
            pass

    def kill(self):
        self._program.signal(signal.SIGKILL)
        self._program.end()

    def end(self):
        self._program.end()
        shutil.rmtree(self.folder)

    def ctl(self, *words, check=True):
        """What rdma-brokerctl prints."""
        command = [self._bin / "client/ctl/rdma-brokerctl", "--socket", self.socket, *words]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=PATIENCE).stdout

    def rows(self, what):
        """The lines of one of its tables, as lists of words."""
        return [line.split() for line in self.ctl(what).splitlines()[1:]]

    def becomes_empty(self):
        """Whether it soon holds nothing: a session's end reaches it a moment after its process has ended."""
        tables = ("sessions", "endpoints", "listeners", "shared-endpoints", "reservations", "connectors")
        deadline = time.monotonic() + PATIENCE
        while any(self.rows(table) for table in tables):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True
