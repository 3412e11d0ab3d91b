# SPDX-License-Identifier: Apache-2.0
"""Holds CONTRIBUTING.md's table of where each suite runs against the suites."""

import re

HEADER = "| suite | fast | CI | nightly |"


def how_suites_run(table):
    lines = (line.split() for line in table.splitlines() if line and not line.startswith("#"))
    return {fields[0]: fields[1] for fields in lines}


def members(how, name):
    """The suites that a suite comes down to."""
    if how.get(name, "tag") in ("tag", "function", "source"):
        return {name}
    return set().union(*(members(how, part) for part in how[name].split(",")))


def rows(page):
    """The names of each row, and its cells."""
    _, header, table = page.partition(HEADER)
    for line in table.splitlines()[2:] if header else ():
        if not line.startswith("|"):
            return
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        yield re.findall(r"`(\w+)`", first), cells


def untrue_suites(tree):
    if "tests/suites/table" not in tree.paths:
        return
    how = how_suites_run(tree.text("tests/suites/table"))
    in_ci = " ".join(re.findall(r"\btests/run (.*)$", tree.text(".ci/run"), re.M)).split()
    places = {
        "fast": members(how, "fast"),
        "CI": set().union(*(members(how, name) for name in in_ci if name in how)),
        "nightly": members(how, "nightly"),
    }
    told = set()
    for names, cells in rows(tree.text("CONTRIBUTING.md")):
        told.update(names)
        for place, cell in zip(places, cells):
            for name in names:
                if bool(cell) != (name in places[place]):
                    yield f"CONTRIBUTING.md: {name} {'does not run' if cell else 'runs'} in {place}"
    for name in sorted(set().union(*places.values()) - told):
        yield f"CONTRIBUTING.md: the table of suites lacks {name}"
