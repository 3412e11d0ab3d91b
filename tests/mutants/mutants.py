#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: mutants.py [--count N] [--seed N] [PART...]

Mutates a copy of the tree (comparisons, constants, dropped statements) and runs the tests beside the code. A mutant
that fails no test survives: it is equivalent, or a test is missing. All mutants of a part share one build, and the
environment variable RDMA_BROKER_MUTANT selects the active one. PART is broker/core, dataplane or a file of theirs; the
default is both. Prints each survivor and their number in each part. --count N tries N mutants that the seed selects.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import candidates  # pylint: disable=wrong-import-position
import rewrite  # pylint: disable=wrong-import-position

# The code to change, the tests to run, and how many percent of that code's lines these must reach. The core's
# invariants are left out, since only a broken core fails them, and its messages, whose senders overwrite each initial
# value.
PARTS = {
    "broker/core": {
        "tests": "tests(//broker/core/...) + //tests/scenarios:scenario_test + //tests/simulation:simulation_test",
        "without": (
            "broker/core/invariants",
            "broker/core/testing/",
            "broker/core/fabric_messages.h",
            "broker/core/messages.h",
            "broker/core/requests.h",
        ),
        "least": 95,
    },
    "dataplane": {
        "tests": "tests(//dataplane/...) + //tests/conformance:data_path_iwarp_test"
        " + //tests/conformance:data_path_stand_in_test",
        "without": ("dataplane/testing/", "dataplane/verbs/testing/"),
        "least": 0,
    },
}
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "rdma-broker"
BAZEL_FLAGS = [f"--disk_cache={CACHE}/bazel", "--config=clang", "--copt=-w", "--copt=-O1", "--show_result=0"]
BAZEL_FLAGS.append(f"--copt={candidates.NO_NARROWING}")
# A deeper search takes minutes for each mutant that nothing sees, and one seed of the simulation 0.1 s.
ENVIRONMENT = {
    "GTEST_FAIL_FAST": "1",
    "RDMA_BROKER_DEPTH": "3",
    "RDMA_BROKER_RESTART": "sometimes",
    "RDMA_BROKER_SEED": "1",
}
MEMORY = 8 << 30


class Test:
    """A test program of the copy, which runs without Bazel."""

    def __init__(self, label, binaries):
        self.label = label
        self.program = binaries / label.removeprefix("//").replace(":", "/")
        self.reached = b""
        self.seconds = 0.0

    def run(self, timeout, **environment):
        """Whether it passes."""
        with tempfile.TemporaryDirectory() as scratch:
            process = subprocess.Popen(
                [self.program],
                cwd=f"{self.program}.runfiles/rdma_broker",
                env={**os.environ, **ENVIRONMENT, "TEST_TMPDIR": scratch, "TMPDIR": scratch, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            )
            try:
                return process.wait(timeout) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()

    def measure(self, mutants):
        """Notes which mutants it reaches and how long it takes. It must pass."""
        with tempfile.NamedTemporaryFile() as reached:
            reached.write(bytes(mutants))
            reached.flush()
            start = time.monotonic()
            if not self.run(600, RDMA_BROKER_REACHED=reached.name):
                raise SystemExit(f"failed mutants: {self.label} fails without a mutant")
            self.seconds = time.monotonic() - start
            self.reached = pathlib.Path(reached.name).read_bytes()

    def sees(self, mutant):
        return self.reached[mutant] and not self.run(5 + 10 * self.seconds, RDMA_BROKER_MUTANT=str(mutant))


def bazel(*arguments, **options):
    return subprocess.run(["bazel", *arguments], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def copy_tree():
    top = pathlib.Path(__file__).resolve().parents[2]
    copy = CACHE / "mutants"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(top, copy, symlinks=True, ignore=lambda at, names: [n for n in names if ignored(at, n, top)])
    os.chdir(copy)


def ignored(folder, name, top):
    return pathlib.Path(folder) == top and (name == ".git" or name.startswith("bazel-"))


def is_mutated(file, part):
    without = PARTS[part]["without"]
    of_test = file.stem.endswith(("_test", "_for_test"))
    return file.suffix in (".cc", ".h") and not of_test and not str(file).startswith(without)


def number_places(part, wanted):
    files = sorted(str(file) for file in pathlib.Path(part).rglob("*") if is_mutated(file, part))
    sources = [file for file in files if file.endswith(".cc")]
    numbered, first = {}, 0
    for place in candidates.find(files, sources):
        if any(place.file == want or place.file.startswith(f"{want}/") for want in wanted):
            numbered.setdefault(place.file, []).append(rewrite.Numbered(place, first))
            first += len(place.changes)
    originals = {file: pathlib.Path(file).read_bytes() for file in numbered}
    rewrite.write(numbered, sources, candidates.compiler_flags())
    return numbered, originals, first


def build_tests(part):
    query = f"attr(tags, '^((?!guest|nightly|bench).)*$', kind(cc_test, {PARTS[part]['tests']}))"
    labels = bazel("query", query, stderr=subprocess.DEVNULL).split()
    bazel("build", *BAZEL_FLAGS, *labels)
    binaries = pathlib.Path(bazel("info", *BAZEL_FLAGS, "bazel-bin", stderr=subprocess.DEVNULL).strip())
    return [Test(label, binaries) for label in labels]


def describe(place, change, text):
    line = text.count(b"\n", 0, place.start) + 1
    code = " ".join(text[place.start : place.end].decode().split())
    into = f" -> {' '.join(change.text.split())}" if change.text else ""
    return f"{place.file}:{line}: {change.kind}: {code}{into}"


def coverage(tests, numbered, originals):
    """How many of the lines that have a mutant a test reaches, in percent."""
    lines = {}
    for file, places in numbered.items():
        for each in places:
            line = originals[file].count(b"\n", 0, each.place.start)
            reached = any(test.reached[each.first] for test in tests)
            lines[file, line] = lines.get((file, line), False) or reached
    return 100 * sum(lines.values()) / len(lines)


def try_part(part, wanted, count, seed):
    numbered, originals, total = number_places(part, wanted)
    tests = build_tests(part)
    for test in tests:
        test.measure(total)
    tests.sort(key=lambda test: test.seconds)
    reached = coverage(tests, numbered, originals)
    print(f"{part}: the tests reach {reached:.1f} % of the lines that can be mutated")
    if wanted == [part] and reached < PARTS[part]["least"]:
        raise SystemExit(f"failed mutants: the tests of {part} reach less than {PARTS[part]['least']} %")
    mutants = [
        (number, describe(each.place, change, originals[file]))
        for file, places in numbered.items()
        for each in places
        for number, change in zip(each.numbers, each.place.changes)
    ]
    if count is not None and count < len(mutants):
        mutants = sorted(random.Random(seed).sample(mutants, count))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = pool.map(lambda mutant: any(test.sees(mutant[0]) for test in tests), mutants)
        unseen = 0
        for (number, description), is_seen in zip(mutants, seen):
            if not is_seen:
                unseen += 1
                reached = any(test.reached[number] for test in tests)
                print("survived" if reached else "unreached", description, flush=True)
    print(f"{part}: {len(mutants)} mutants of {total}, {unseen} that no test sees (seed {seed})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    arguments = parser.parse_args()
    wanted = {part: [each for each in arguments.parts if f"{each}/".startswith(f"{part}/")] for part in PARTS}
    if sum(map(len, wanted.values())) != len(arguments.parts):
        parser.error(f"PART is in one of {', '.join(PARTS)}")
    chosen = [part for part in PARTS if wanted[part]]
    for part in chosen:
        copy_tree()
        try_part(part, wanted[part], arguments.count and arguments.count // len(chosen), arguments.seed)


if __name__ == "__main__":
    main()
