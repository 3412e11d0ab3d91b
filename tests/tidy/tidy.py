# SPDX-License-Identifier: Apache-2.0
"""Usage: tidy.py code|pages

Checks the tree against the rules of rules.py for code or for pages, and each rule against its own bad example. Prints a
line for each finding, then "passed|failed NAME" for each rule.
"""

import pathlib
import subprocess
import sys
import tempfile

from rules import CODE_RULES, PAGE_RULES
from tree import Tree


def files_below(root):
    """What git does not ignore. An empty repository lists it, so that an archive of the tree can be checked, too."""
    with tempfile.TemporaryDirectory() as empty:
        subprocess.run(["git", "init", "--quiet", "--bare", empty], check=True)
        git = ["git", f"--git-dir={empty}", f"--work-tree={root}"]
        command = git + ["ls-files", "-z", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in listing.split("\0") if path and (root / path).is_file())


def sees(rule, example):
    """Whether the rule finds its bad example bad."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in example.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return any(rule.check(Tree(root, sorted(example))))


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    tree = Tree(root, files_below(root))
    failed = False
    rules = {"code": CODE_RULES, "pages": PAGE_RULES}
    for rule in rules[sys.argv[1]]:
        findings = list(rule.check(tree))
        findings += [f"this rule misses its bad example {bad}" for bad in rule.bad if not sees(rule, bad)]
        for finding in findings:
            print(f"  {finding}")
        print("failed" if findings else "passed", f"tidy: {rule.name}")
        failed |= bool(findings)
    sys.exit(failed)


if __name__ == "__main__":
    main()
