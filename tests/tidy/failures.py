# SPDX-License-Identifier: Apache-2.0
"""Holds the statuses that the broker answers with against docs/operating.md and docs/limits.md, both ways.

A status stands in the third column of a table below "Limits of the configuration", or in the first one of a table below
"Failures and what to do", where mistakes of programs have a table of their own.
"""

import re

from guides import rows
from tree import is_test

PAGE = "docs/operating.md"
STATUSES = "dataplane/ndk/status.h"
# Page, heading, column.
COLUMNS = [("docs/limits.md", "Limits of the configuration", 2), (PAGE, "Failures and what to do", 0)]
# What is compared with is an answer elsewhere.
RETURNED = re.compile(r"(?<![=!]= )(?<!case )\bNdkStatus::k(\w+)")
NO_FAILURES = {"SUCCESS", "PENDING"}
# The tests' own fabric, and a table of all statuses that there are.
NO_ANSWERS = re.compile(r"broker/fabric/fake/|broker/control/status_mapping\.cc")


def name_of(constant):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", constant).upper()


def answers(tree):
    """Status to the first place that returns it."""
    places = {}
    for path in tree.cpp():
        if re.match(r"broker/(core|fabric|control)/", path) and not is_test(path) and not NO_ANSWERS.match(path):
            for _, number, match in tree.matches([path], RETURNED.pattern):
                places.setdefault(name_of(match[1]), f"{path}:{number}")
    return {status: place for status, place in places.items() if status not in NO_FAILURES}


def documented(tree):
    """The words in capitals in the columns for statuses."""
    cells = []
    for page, title, column in COLUMNS:
        text = tree.text(page) if page in tree.paths else ""
        sections = dict(re.findall(r"(?ms)^## (.*?)\n(.*?)(?=^## |\Z)", text))
        cells += [row[column] for _, row in rows(sections.get(title, "")) if len(row) > column]
    return set(re.findall(r"\b[A-Z][A-Z_]+\b", " ".join(cells)))


def untold_failures(tree):
    places, told = answers(tree), documented(tree)
    for status in sorted(set(places) - told):
        yield f"{places[status]}: {PAGE} does not say what to do about {status}"
    if STATUSES in tree.paths:
        known = {name_of(constant) for constant in re.findall(r"\bk(\w+) = 0x", tree.text(STATUSES))}
        for status in sorted((told & known) - set(places)):
            yield f"{PAGE}: nothing answers with {status}"
