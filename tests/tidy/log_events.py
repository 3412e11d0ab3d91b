# SPDX-License-Identifier: Apache-2.0
"""Holds the events that the broker logs against the tables of docs/operating.md, both ways.

A row below the page's heading "Logs" has four cells: level, event, fields, meaning and remedy. Whoever logs gives the
event as a literal, and its fields between braces; fields that are made elsewhere are not looked at.
"""

import re

from guides import CODE, rows

PAGE = "docs/operating.md"
CALL = re.compile(r"\bLog(Debug|Info|Warning|Error)\(")
LITERAL = re.compile(r'\s*("(?:[^"\\]|\\.)*"\s*)+(?=[,)])')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FIELD = re.compile(r'\{\s*"(\w+)",')
EVENT = re.compile(r"[a-z][a-z0-9 ,'-]*[a-z0-9]")
ALWAYS = {"time", "level", "program", "event"}  # Fields of every line.


def arguments(text, start):
    """What stands between the parenthesis before `start` and the one that closes it, with that."""
    depth = 1
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[()]', text[start:]):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return text[start : start + token.end()]
    return text[start:]


def calls(tree):
    """(path, line number, level, event or None, fields or None) of each call that logs."""
    for path in tree.cpp():
        if not re.match(r"broker/(?!log/)", path) or "_test." in path or "/testing/" in path:
            continue
        text = re.sub(r"(?m)^[ \t]*//.*", "", tree.text(path))
        for call in CALL.finditer(text):
            number = text.count("\n", 0, call.start()) + 1
            given = arguments(text, call.end())
            literal = LITERAL.match(given)
            if not literal:
                yield path, number, call[1].lower(), None, None
                continue
            rest = given[literal.end() :].lstrip(" ,\n")
            fields = set(FIELD.findall(rest)) if rest.startswith(("{", ")")) else None
            yield path, number, call[1].lower(), "".join(STRING.findall(literal[0])), fields


def documented(tree):
    """(level, event) to fields, as the page has them."""
    if PAGE not in tree.paths:
        return {}
    section = tree.text(PAGE).partition("\n## Logs\n")[2].partition("\n## ")[0]
    found = {}
    for _, cells in rows(section):
        if len(cells) == 4 and cells[0] != "level":
            # Two programs may log the same.
            found.setdefault((cells[0], cells[1].strip("`")), set()).update(CODE.findall(cells[2]))
    return found


def untrue_log_events(tree):
    table = documented(tree)
    logged = {}
    for path, number, level, event, fields in calls(tree):
        where = f"{path}:{number}"
        if event is None:
            yield f"{where}: an event is a literal; what varies is a field"
            continue
        if not EVENT.fullmatch(event):
            yield f'{where}: "{event}" is not in lower case, or has a stop or a value in it'
        if (level, event) not in table:
            yield f'{where}: {PAGE} does not list "{event}" at {level}'
        if fields is not None:
            for field in sorted(fields & ALWAYS):
                yield f"{where}: every line has a field {field} already"
            for field in sorted(fields - table.get((level, event), fields)):
                yield f'{where}: {PAGE} does not list the field {field} of "{event}"'
        logged.setdefault((level, event), []).append(fields)
    for (level, event), fields in table.items():
        given = logged.get((level, event))
        if not given:
            yield f'{PAGE}: nothing logs "{event}" at {level}'
        elif None not in given:
            for field in sorted(fields - set().union(*given)):
                yield f'{PAGE}: "{event}" has no field {field}'
