# SPDX-License-Identifier: Apache-2.0
"""Makes the daemon's default configuration, or its manual page, from docs/configuration.md and docs/policy.md.

Usage: configuration_files.py toml|man docs/policy.md < docs/configuration.md
"""

import re
import sys
import textwrap

TOML_HEAD = """\
# The configuration of rdma-brokerd. Every key stands here with its default: take the "#" in front of one away to set
# another value. rdma-brokerd.toml(5) says more; rdma-brokerd --check-config --config FILE, what is wrong with a file.
"""
POLICY_HEAD = """\
# Who may use what, and how much: rdma-brokerd.toml(5) explains it. Nothing is forbidden by default. The keys, and those
# of a rule:
#
"""
EXAMPLE_HEAD = """\
#
# Take "# " away for an example to begin with:
"""
MAN_HEAD = r"""
.TH RDMA-BROKERD.TOML 5 "" rdma-broker "File formats"
.SH NAME
rdma-brokerd.toml \- configuration of the broker of RDMA connections
.SH SYNOPSIS
.I /etc/rdma-broker/rdma-brokerd.toml
.SH DESCRIPTION
"""
MAN_END = r"""
.SH SEE ALSO
.BR rdma-brokerd (8),
.BR rdma-brokerctl (1)
"""


def cells(row):
    """Those of a row of a table in Markdown."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def key_of(row):
    """(key, default, range, whether it may change in a process, what it is) of a row that describes a key, or None."""
    parts = cells(row)
    key = re.fullmatch(r"`([\w.]+)`", parts[0]) if len(parts) == 5 else None
    return (key[1], parts[1].strip("`"), *map(plain, parts[2:])) if key else None


def plain(text):
    """Without what marks code, emphasis and links."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`|\*\*", "", text).replace(r"\|", "|")


def first_code(text):
    """The first block of code of a page in Markdown, without its indentation."""
    return textwrap.dedent(re.search(r"^(?:    .*\n|\n(?=    ))+", text, re.MULTILINE)[0]).strip().splitlines()


def about_policy(text):
    """Lines about each key of [policy] and of its rules."""
    for parts in map(cells, re.findall(r"^\| `.*$", text, re.MULTILINE)):
        if len(parts) == 3:
            key, values, what = map(plain, parts)
            yield from textwrap.wrap(f"{key}: {values}; {what}", 120, initial_indent="#   ", subsequent_indent="#     ")


def toml(text, policy):
    lines = TOML_HEAD.splitlines()
    section = None
    for key, default, values, reload, what in filter(None, map(key_of, re.findall(r"^\|.*$", text, re.MULTILINE))):
        table, _, name = key.rpartition(".")
        if table != section:
            section = table
            lines += ["", f"[{table}]"]
        about = what if values in what else f"{what} ({values})"
        about += "" if reload == "yes" else "; a change needs a restart"
        lines += ["", *(f"# {line}" for line in textwrap.wrap(about[0].upper() + about[1:], 118))]
        lines.append(f"#{name} = {default}")
    lines += ["", *POLICY_HEAD.splitlines(), *about_policy(policy)]
    lines += [*EXAMPLE_HEAD.splitlines(), *(f"# {line}".rstrip() for line in first_code(policy))]
    return "\n".join(lines) + "\n"


def roff(text):
    """Text as it stands, where man would take a sign of it for its own."""
    text = plain(text).replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def row_of_page(row):
    key = key_of(row)
    if key:
        name, default, values, reload, what = map(roff, key)
        return [".TP", rf"\fB{name} = {default}\fR", what + f" ({values}; reload: {reload})"]
    first, *others = map(roff, cells(row))
    return [".TP", rf"\fB{first}\fR", "; ".join(others)]


def blocks(text):
    """Paragraphs, rows of tables, items of lists, headings and code: what man sets as one each."""
    for part in re.split(r"\n\n+(?! )", text.strip()):
        if part.startswith("|"):
            yield from (line for line in part.splitlines()[2:])  # Below the table's heading.
        elif part.startswith(("- ", "* ")):
            yield from re.split(r"\n(?=[-*] )", part)
        else:
            yield from re.split(r"\n\n+(?=    )", part, maxsplit=1)  # Text, and the code below it.


def block_of_page(block):
    words = " ".join(block.split())
    if block.startswith("# "):
        return []
    if block.startswith("## "):
        return [f".SH {roff(words[3:]).upper()}"]
    if block.startswith("#"):
        return [f".SS {roff(words.lstrip('# '))}"]
    if block.startswith("|"):
        return row_of_page(block)
    if block.startswith(("- ", "* ")):
        return [r".IP \(bu 2", roff(words[2:])]
    if block.startswith(("    ", "```")):
        code = [line for line in block.splitlines() if not line.startswith("```")]
        return [".PP", ".RS 4", ".nf", *map(roff, textwrap.dedent("\n".join(code)).splitlines()), ".fi", ".RE"]
    return [".PP", roff(words)]


def man(text, policy):
    lines = MAN_HEAD.strip().splitlines()
    for block in [*blocks(text), "## Policy", *blocks(re.sub("^##", "###", policy, flags=re.MULTILINE))]:
        lines += block_of_page(block)
    return "\n".join(lines) + "\n" + MAN_END.lstrip()


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as page:
        sys.stdout.write({"toml": toml, "man": man}[sys.argv[1]](sys.stdin.read(), page.read()))
