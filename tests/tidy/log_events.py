# SPDX-License-Identifier: Apache-2.0
"""Holds the events that the broker logs against the tables of docs/operating.md, both ways.

A row below the page's heading "Logs" has four cells: level, event, fields, meaning and remedy. Whoever logs gives the
event as a literal, and its fields between braces, as a variable that is declared and filled above the call, or by a
function that returns them. A field's name stands in {"name", value}, emplace_back("name", value) or add_text("name",
value).
"""

import re

from guides import CODE, rows
from tree import is_test

PAGE = "docs/operating.md"
CALL = re.compile(r"\bLog(Debug|Info|Warning|Error)(?:Always)?\(")
LITERAL = re.compile(r'\s*("(?:[^"\\]|\\.)*"\s*)+(?=[,)])')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FIELD = re.compile(r'\{\s*"(\w+)",')
ADDED = re.compile(r'\b(?:emplace_back|add_\w+)\(\s*"(\w+)",')
MAKER = re.compile(r"(?ms)^std::vector<LogField> (\w+)\([^;{]*\) \{\n(.*?)^\}")
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


def sources(tree):
    """Path to text, without comments, of what logs."""
    paths = [path for path in tree.cpp() if re.match(r"broker/(?!log/)", path) and not is_test(path)]
    return {path: re.sub(r"(?m)^[ \t]*//.*", "", tree.text(path)) for path in paths}


def names_in(code, makers):
    """Of the fields that the code makes, by itself and by functions that return some."""
    made = [makers[name] for name in re.findall(r"\b(\w+)\(", code) if name in makers]
    return set(FIELD.findall(code) + ADDED.findall(code)).union(*made)


def fields_of(given, above, makers):
    """The names of the fields that a call is given behind its event, or None; `above` is the code before it."""
    if given.startswith(("{", ")")):
        return set(FIELD.findall(given))
    name, is_call = re.match(r"(\w*)(\(?)", given).groups()
    if is_call:
        return makers.get(name)
    declared = list(re.finditer(rf"\bLogField>? {name}\b", above))
    return names_in(above[declared[-1].start() :], makers) if declared else None


def calls(tree):
    """(path, line number, level, event or None, fields or None) of each call that logs."""
    texts = sources(tree)
    makers = {name: names_in(body, {}) for text in texts.values() for name, body in MAKER.findall(text)}
    for path, text in texts.items():
        for call in CALL.finditer(text):
            number = text.count("\n", 0, call.start()) + 1
            given = arguments(text, call.end())
            literal = LITERAL.match(given)
            if not literal:
                yield path, number, call[1].lower(), None, None
                continue
            rest = given[literal.end() :].lstrip(" ,\n")
            fields = fields_of(rest, text[: call.start()], makers)
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
        if fields is None:
            yield f'{where}: where the fields of "{event}" are made is not to be seen'
            continue
        for field in sorted(fields & ALWAYS):
            yield f"{where}: every line has a field {field} already"
        for field in sorted(fields - table.get((level, event), fields)):
            yield f'{where}: {PAGE} does not list the field {field} of "{event}"'
        logged.setdefault((level, event), set()).update(fields)
    for (level, event), fields in table.items():
        if (level, event) not in logged:
            yield f'{PAGE}: nothing logs "{event}" at {level}'
        for field in sorted(fields - logged.get((level, event), fields)):
            yield f'{PAGE}: "{event}" has no field {field}'
