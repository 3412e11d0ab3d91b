# SPDX-License-Identifier: Apache-2.0
"""Holds the guides that map another interface onto this one against the headers and the wire contract.

A guide's tables have four columns: the other interface's name, ours in C++, ours in the contract, and a remark. What
stands in backticks in the two middle columns has to exist, and what stands below "Without a counterpart". The NDKPI
guide has to name everything that the public headers offer, in a table or below that heading.
"""

import re
import subprocess

PUBLIC_HEADERS = "docs/site/public_headers"
GUIDES = ("docs/from-ndkpi.md", "docs/from-rdma_cm.md")
COMPLETE = "docs/from-ndkpi.md"
CODE = re.compile(r"`([^`]+)`")
KINDS = "--kinds-C++=cefgmpstv"  # Not macros, namespaces and parameters.
UNSPEAKING = re.compile(r"(^|::)(~|operator|AbslHashValue$)")


def public_headers(tree):
    return tree.lines(PUBLIC_HEADERS) if PUBLIC_HEADERS in tree.paths else []


def cpp_names(tree):
    """Qualified name to kind, a letter of ctags', of everything public in the public headers."""
    headers = [path for path in public_headers(tree) if path in tree.paths]
    if not headers:
        return {}
    command = ["ctags", "--languages=C++", KINDS, "--fields=aks", "--sort=no", "-f", "-"]
    tags = subprocess.run(command + headers, cwd=tree.root, check=True, capture_output=True, text=True).stdout
    names = {}
    hidden = set()
    for tag in tags.splitlines():
        name, _, _, kind, *fields = tag.split("\t")
        known = dict(field.split(":", 1) for field in fields if ":" in field)
        scope = next((known[key] for key in ("class", "struct", "enum", "namespace") if key in known), "")
        full = f"{scope}::{name}" if scope else name
        # What is in something private is private itself, whatever it says.
        if known.get("access", "public") != "public" or any(f"{scope}::".startswith(f"{outer}::") for outer in hidden):
            hidden.add(full)
        elif not UNSPEAKING.search(full) and scope.rsplit("::", 1)[-1] != name:
            names[full] = kind
    return names


def proto_names(tree):
    """Package-free qualified names of everything in the wire contract."""
    names = set()
    for path in tree.paths:
        if re.fullmatch(r"proto/rdmabroker/v1/\w+\.proto", path):
            names |= names_in_proto(tree.text(path))
    return names


def names_in_proto(text):
    names = set()
    blocks = []
    text = re.sub(r"//.*", "", text)
    for part in re.finditer(r"(?:(message|enum|service|oneof) (\w+) )?\{|\}|rpc (\w+)|(\w+) = -?\d+;", text):
        if part[0] == "}":
            blocks.pop()
            continue
        name = part[2] or part[3] or part[4]
        # A oneof's members are its message's.
        full = ".".join([block for block in blocks if block] + [name] if name else [])
        names.add(full)
        if part[0].endswith("{"):
            blocks.append(name if part[1] in ("message", "enum", "service") else "")
    return names - {""}


def rows(text):
    """(line number, cells) of each row of a table, but for headings."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("| ") and not re.match(r"\| -+ ", line):
            yield number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def exists(name, names, separator):
    return name in names or any(full.endswith(separator + name) for full in names)


def untrue_guides(tree):
    cpp = cpp_names(tree)
    proto = proto_names(tree)
    for guide in GUIDES:
        if guide not in tree.paths:
            continue
        for number, cells in rows(tree.text(guide)):
            if len(cells) != 4:
                continue
            for name in CODE.findall(cells[1]):
                if not exists(name, cpp, "::"):
                    yield f"{guide}:{number}: {name} is not in the public headers"
            for name in CODE.findall(cells[2]):
                if not exists(name, proto, "."):
                    yield f"{guide}:{number}: {name} is not in the wire contract"
        for name in sorted(without_counterpart(tree.text(guide))):
            if not exists(name, cpp, "::"):
                yield f"{guide}: {name} is not in the public headers"
    yield from unmentioned(tree, cpp)


def without_counterpart(text):
    return set(CODE.findall(text.partition("\n## Without a counterpart")[2]))


def unmentioned(tree, cpp):
    """Classes, functions, types and constants that the complete guide passes over; members of structures may be."""
    if COMPLETE not in tree.paths:
        return
    text = tree.text(COMPLETE)
    mapped = {name for _, cells in rows(text) if len(cells) == 4 for name in CODE.findall(cells[1])}
    alone = without_counterpart(text)
    for full, kind in sorted(cpp.items()):
        # What has no counterpart may have values, which have none either.
        of_alone = kind == "e" and exists_in(full.rpartition("::")[0], alone)
        if kind != "m" and not of_alone and not exists_in(full, mapped | alone):
            yield f"{COMPLETE}: does not say what {full} corresponds to"


def exists_in(full, said):
    return any(full == name or full.endswith("::" + name) for name in said)
