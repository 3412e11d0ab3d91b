# SPDX-License-Identifier: Apache-2.0
"""Prints a C++ header with its comments as doxygen reads them: "//" before a declaration as "///", behind one as
"///<". What is protected becomes private, so that doxygen leaves it out.

A comment stands above the first of several declarations that belong together. Doxygen wants it above each: it is
repeated for overloads, and for types and constants that have no comment of their own.
"""

import re
import sys

COMMENT = re.compile(r"^(\s*)// ?(.*)$")
BEHIND = re.compile(r'^((?:[^"/]|"[^"]*"|/(?!/))*[;,{}])\s+// (.+)$')
FUNCTION = re.compile(r"(~?\w+)\(")
SPECIAL = re.compile(r"(`[^`]*`)|([\\@<>#*]|(?<!\w)::)")
ENTITIES = {"<": "&lt;", ">": "&gt;"}


def escaped(text):
    """The text without what doxygen would take for markup, but for code in backticks."""
    return SPECIAL.sub(lambda match: match[1] or ENTITIES.get(match[2], "\\" + match[2]), text)


def documentation(lines):
    """Lines of a comment as doxygen's; what is indented is code."""
    inside = False
    for number, line in enumerate(lines):
        code = line.startswith("  ") or (inside and not line)
        if code != inside:
            yield "/// @code{.cpp}" if code else "/// @endcode"
            inside = code
        text = line if code else escaped(line)
        # NDKPI's name alone is no summary: the next sentence belongs to it.
        yield "/// " + (re.sub(r"^(NDK_\w+)\. ", r"\1.\\ ", text) if number == 0 else text)
    if inside:
        yield "/// @endcode"


def subject(line):
    """What a declaration shares with others that a comment above the first is for: a kind, or a function's name."""
    kind = re.match(r"\s*(using|inline constexpr) ", line)
    if kind:
        return kind[1]
    function = FUNCTION.search(line)
    return function[1] if function else None


class Header:
    """Goes through a header's lines and gathers what to print."""

    def __init__(self):
        self.output = []
        self.block = []  # The comment above the next line.
        self.repeated = (None, [])  # A subject, and the comment for the next declaration that has the same.
        self.complete = True  # Whether the last declaration has ended.
        self.column = None  # Of the comment behind the last line.

    def add(self, line):
        comment = COMMENT.match(line)
        behind = BEHIND.match(line)
        if comment and comment[1] == self.column:
            self.output.append(f"{comment[1]}///< {escaped(comment[2])}")
        elif comment:
            self.block.append(comment[2])
        elif not line.strip():
            self.end_paragraph()
        else:
            self.declare(line, behind)
        if not comment:
            self.column = " " * line.index("// ", behind.end(1)) if behind else None

    def end_paragraph(self):
        """A blank line: a comment above it is about what follows in general."""
        self.output += [f"// {line}" for line in self.block] + [""]
        self.block = []
        self.repeated = (None, [])

    def declare(self, line, behind):
        line = re.sub(r"^(\s*)protected:", r"\1private:", line)
        structural = re.match(r"\s*(#|\}|namespace |public:|private:)", line)
        about = None if structural else subject(line)
        if self.block and not structural:
            self.repeated = (about, list(documentation(self.block)))
            self.output += self.repeated[1]
        elif self.complete and about and about == self.repeated[0] and not behind:
            self.output += self.repeated[1]
        self.block = []
        if behind and not structural:
            line = f"{behind[1]}  ///< {escaped(behind[2])}"
        self.output.append(line)
        self.complete = bool(structural) or behind is not None or line.endswith((";", "{", "}", ":"))


def main():
    header = Header()
    with open(sys.argv[1], encoding="utf-8") as file:
        for number, line in enumerate(file.read().splitlines()):
            if number > 0:  # The first is the licence's.
                header.add(line)
    print("\n".join(header.output))


if __name__ == "__main__":
    main()
