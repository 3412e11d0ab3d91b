#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: mutants_test.py. Mutates a small source, and compiles and runs what comes of it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import candidates
import rewrite

SOURCE = """
#include <cstdio>
#define SAY(x) std::puts(x)
enum class Color { kRed, kGreen };
constexpr int kLimit = 3;
int calls = 0;
void Call() { ++calls; }
int Sign(int x) {
  if (x < 0) return -1;
  bool high = x > kLimit && x != 5;
  Call();
  return high ? 2 : 1;
}
Color Paint() { return Color::kGreen; }
const char* Nothing() { return 00; }
void CallIf() {
  if (int x = calls) calls += 40;
}
static_assert(kLimit == 3);
int main() {
  if constexpr (kLimit == 3) SAY("start");
  CallIf();
  std::printf("%d %d %d %d\\n", Sign(-1), Sign(4), calls, Paint() == Color::kGreen);
}
"""


class MutantsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        pathlib.Path("sample.cc").write_text(SOURCE, encoding="utf-8")
        self.numbered, first = [], 0
        for place in candidates.find(["sample.cc"], ["sample.cc"]):
            self.numbered.append(rewrite.Numbered(place, first))
            first += len(place.changes)
        self.found = {
            (SOURCE.encode()[each.place.start : each.place.end].decode(), change.text): number
            for each in self.numbered
            for number, change in zip(each.numbers, each.place.changes)
        }
        self.kept = {"sample.cc": self.numbered}
        rewrite.write(self.kept, ["sample.cc"], candidates.compiler_flags())
        compile_it = ["clang++", "-std=c++20", "-w", candidates.NO_NARROWING, "sample.cc", "-o", "sample"]
        subprocess.run(compile_it, check=True)

    def output(self, **environment):
        run = subprocess.run(["./sample"], check=True, capture_output=True, text=True, env=environment)
        return run.stdout.splitlines()[-1]

    def output_with(self, code, change):
        return self.output(RDMA_BROKER_MUTANT=str(self.found[code, change]))

    def test_without_a_mutant_nothing_changes(self):
        self.assertEqual(self.output(), "-1 2 1 1")

    def test_each_kind_changes_what_it_says(self):
        for code, change, output in (
            ("x < 0", "(x) >= (0)", "1 -1 1 1"),
            ("x > kLimit && x != 5", "bool(x > kLimit)", "-1 2 1 1"),
            ("x > kLimit", "(x) <= (kLimit)", "-1 1 1 1"),
            ("Call();", "", "-1 2 0 1"),
            ("return -1;", "", "1 2 2 1"),
            ("Color::kGreen", "Color::kRed", "-1 2 1 0"),
            ("2", "(2 + 1)", "-1 3 1 1"),
        ):
            with self.subTest(code=code, change=change):
                self.assertEqual(self.output_with(code, change), output)

    def test_constant_expressions_and_macros_stay(self):
        codes = {code for code, _ in self.found}
        self.assertNotIn("kLimit == 3", codes)
        self.assertNotIn('SAY("start")', codes)

    def test_the_statement_behind_a_declared_condition_is_dropped(self):
        codes = [SOURCE.encode()[each.place.start : each.place.end].decode() for each in self.kept["sample.cc"]]
        self.assertIn("calls += 40;", codes)

    def test_a_mutant_that_does_not_compile_is_left_out(self):
        self.assertIn(("00", "(00 + 1)"), self.found)
        left = {number for each in self.kept["sample.cc"] for number in each.numbers}
        self.assertNotIn(self.found["00", "(00 + 1)"], left)

    def test_what_is_reached_is_noted(self):
        pathlib.Path("reached").write_bytes(bytes(len(self.found) + 10))
        self.output(RDMA_BROKER_REACHED="reached")
        reached = pathlib.Path("reached").read_bytes()
        self.assertEqual(reached[self.found["Call();", ""]], 1)
        self.assertEqual(reached[self.found["00", "(00 + 1)"]], 0)


if __name__ == "__main__":
    unittest.main()
