# SPDX-License-Identifier: Apache-2.0
"""Makes a program's manual page from a text with what --help leaves out, and from what --help says.

Usage: man_pages.py PROGRAM < TEXT
In the text @DESCRIPTION@, @OPTIONS@, @COMMANDS@ and @FOOTER@ stand for the parts of --help.
"""

import re
import subprocess
import sys


def help_of(command):
    # Without the environment, of which defaults may be.
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env={}).stdout


def roff(text):
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def section(text, title):
    """(name, what it is) of each entry below the title; a long name has what it is in the next line."""
    entries = re.search(rf"^{title}:\n((?: +\S.*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S.*?)(?:\n? {2,}(\S.*))?$", entries[1], re.MULTILINE) if entries else []


def name_of(entry):
    """An option's or an argument's name with what it takes, in the words of manual pages."""
    name, _, takes = entry.partition(" ")
    takes, equals, default = takes.removesuffix(" REQUIRED").partition("=")
    values = re.search(r"\{([^}]*)\}", takes)
    if values:
        takes = "|".join(value.partition("->")[0] for value in values[1].split(","))
    elif takes in ("TEXT", "UINT") and not name.startswith("-"):
        takes = ""
    return rf"\fB{roff(name.replace(',', ', '))}\fR {roff(takes)}".strip(), default if equals else ""


def entry_of_page(entry, what):
    name, default = name_of(entry)
    return [".TP", name, roff(what + (f" ({default})" if default else ""))]


def options(text):
    return [line for entry in section(text, "Options") for line in entry_of_page(*entry)]


def commands(program, text):
    """Each with its arguments, and the options that it alone has."""
    lines = []
    for name, what in section(text, "Subcommands"):
        own = help_of([program, name])
        arguments = section(own, "Positionals")
        words = [name, *(argument.partition(" ")[0] for argument, _ in arguments)]
        lines += [".TP", rf"\fB{roff(' '.join(words))}\fR", roff(what)]
        details = [entry for entry in arguments + section(own, "Options") if not entry[0].startswith("-h,")]
        if details:
            lines += [".RS", *(line for entry in details for line in entry_of_page(*entry)), ".RE"]
    return lines


def footer(text):
    """What stands below everything else, a paragraph a line."""
    for line in text.rpartition("\n\n")[2].splitlines():
        title, colon, rest = line.partition(": ")
        yield from [".SH EXIT STATUS", roff(rest)] if colon and title == "Exit status" else [".PP", roff(line)]


def page(program, template):
    text = help_of([program])
    parts = {
        "DESCRIPTION": [roff(text.partition("\n")[0])],
        "OPTIONS": options(text),
        "COMMANDS": commands(program, text),
        "FOOTER": list(footer(text)),
    }
    return re.sub(r"^@(\w+)@$", lambda match: "\n".join(parts[match[1]]), template, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1], sys.stdin.read()))
