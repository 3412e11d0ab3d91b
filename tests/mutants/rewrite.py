# SPDX-License-Identifier: Apache-2.0
"""Writes sources in which each mutant is a branch that an environment variable chooses."""

import pathlib

from clang import cindex

import candidates

ACTIVE = "::rdmabroker::mutation::Active"
SWITCH = pathlib.Path(__file__).with_name("switch.inc")


class Numbered:
    """A place whose changes have numbers from `first` on."""

    def __init__(self, place, first):
        self.place, self.first, self.inner = place, first, []
        self.span = (0, 0)  # Where it stands in the mutated text.

    @property
    def numbers(self):
        return range(self.first, self.first + len(self.place.changes))


class Writer:
    """Writes a text in which each place is replaced by a choice between its mutants and what was there."""

    def __init__(self, text):
        self.text, self.parts, self.size = text, [], 0

    def add(self, part):
        self.parts.append(part)
        self.size += len(part)

    def copy(self, start, end, inner):
        for each in inner:
            self.add(self.text[start : each.place.start])
            self.write(each)
            start = each.place.end
        self.add(self.text[start:end])

    def write(self, numbered):
        place, begin = numbered.place, self.size
        if place.is_statement:
            self.add(f"{{ if (!{ACTIVE}({numbered.first})) ".encode())
            self.copy(place.start, place.end, numbered.inner)
            self.add(b" }")
        else:
            self.add(b"(")
            for number, change in zip(numbered.numbers, place.changes):
                self.add(f"{ACTIVE}({number}) ? {change.text} : ".encode())
            self.add(b"bool(" if place.changes[0].kind == "condition" else b"(")
            self.copy(place.start, place.end, numbered.inner)
            self.add(b"))")
        numbered.span = (begin, self.size)


def nest(numbered):
    """The outermost of the places, which have those inside of them. They are sorted, outer before inner."""
    outer, around = [], []
    for each in numbered:
        each.inner = []
        while around and around[-1].place.end <= each.place.start:
            around.pop()
        (around[-1].inner if around else outer).append(each)
        around.append(each)
    return outer


def mutated(text, numbered):
    writer = Writer(text)
    writer.add(SWITCH.read_bytes() + b"#line 1\n")
    writer.copy(0, len(text), nest(numbered))
    return b"".join(writer.parts)


def write(numbered_of_file, sources, flags):
    """Writes the mutated files over the sources in the working directory, without what does not compile."""
    originals = {file: pathlib.Path(file).read_bytes() for file in numbered_of_file}
    for file, numbered in numbered_of_file.items():
        pathlib.Path(file).write_bytes(mutated(originals[file], numbered))
    for source in sources:
        while True:
            unit = cindex.Index.create().parse(source, flags)
            errors = [each for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
            if not errors:
                break
            for file in leave_out(errors, numbered_of_file):
                pathlib.Path(file).write_bytes(mutated(originals[file], numbered_of_file[file]))


def leave_out(errors, numbered_of_file):
    """Leaves out the innermost place around each error. Returns the files that have changed."""
    unfit = {}
    for error in errors:
        for location in [error.location, *(note.location for note in error.children)]:
            file = location.file.name.removeprefix("./") if location.file else None
            around = [each for each in numbered_of_file.get(file, []) if each.span[0] <= location.offset < each.span[1]]
            if around:
                unfit.setdefault(file, set()).add(min(around, key=lambda each: each.span[1] - each.span[0]))
                break
    if not unfit:
        raise ValueError("\n".join(str(error) for error in errors))
    for file, places in unfit.items():
        numbered_of_file[file] = [each for each in numbered_of_file[file] if each not in places]
    return unfit
