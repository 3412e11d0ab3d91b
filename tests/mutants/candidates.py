# SPDX-License-Identifier: Apache-2.0
"""Finds what can be changed in C++ sources: comparisons, constants, and statements that can be dropped."""

import dataclasses
import pathlib
import subprocess

from clang import cindex
from clang.cindex import CursorKind as Kind

BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

# Where the compiler wants a constant expression, or where nothing is computed.
UNTOUCHED = {
    Kind.STATIC_ASSERT,
    Kind.ENUM_DECL,
    Kind.TEMPLATE_NON_TYPE_PARAMETER,
    Kind.CXX_UNARY_EXPR,  # sizeof
}
DROPPABLE = {
    Kind.CALL_EXPR,
    Kind.UNARY_OPERATOR,
    Kind.BINARY_OPERATOR,
    Kind.COMPOUND_ASSIGNMENT_OPERATOR,
    Kind.UNEXPOSED_EXPR,
}
LOOPS = {Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CXX_FOR_RANGE_STMT}


@dataclasses.dataclass(frozen=True)
class Change:
    """One mutant: `text` takes the place of the code, or nothing does where the statement is dropped."""

    kind: str
    text: str


@dataclasses.dataclass(frozen=True)
class Place:
    """Code from byte `start` to byte `end` of a file, which has one or more mutants."""

    file: str
    start: int
    end: int
    is_statement: bool
    changes: tuple


# A constant that can be mutated is none to the compiler, which would object where it is narrowed.
NO_NARROWING = "-Wno-c++11-narrowing"


def compiler_flags():
    resources = subprocess.run(["clang", "-print-resource-dir"], check=True, capture_output=True, text=True)
    flags = ["-xc++", "-std=c++20", "-I.", "-w", NO_NARROWING, "-ferror-limit=0"]
    return [*flags, "-resource-dir", resources.stdout.strip()]


class Finder:
    """Collects the places of one translation unit that lie in `files` (paths from the tree's top)."""

    def __init__(self, files):
        self.files = files
        self.texts = {file: pathlib.Path(file).read_bytes() for file in files}
        self.places = {}

    def read(self, source):
        unit = cindex.Index.create().parse(source, compiler_flags())
        errors = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
        if errors:
            raise ValueError("\n".join(errors))
        for cursor in unit.cursor.get_children():
            file = cursor.location.file
            if file is not None and self.name(file) in self.files:
                self.visit(cursor)

    @staticmethod
    def name(file):
        return file.name.removeprefix("./")

    # --- The source's text ---
    def code(self, cursor):
        """The bytes of a cursor that stands in one of the files as it is written; None where a macro made it."""
        start, end = cursor.extent.start, cursor.extent.end
        if start.file is None or self.name(start.file) not in self.files or end.file is None:
            return None
        if start.file.name != end.file.name or start.offset >= end.offset:
            return None
        return self.texts[self.name(start.file)][start.offset : end.offset].decode()

    def in_macro(self, cursor):
        """Whether a macro has written it; the locations of its tokens then are those of the macro's use."""
        tokens = cursor.get_tokens()
        first = next(iter(tokens), None)
        code = self.code(cursor)
        return first is None or code is None or not code.startswith(first.spelling) or first.spelling.isupper()

    def add(self, cursor, *changes, statement_end=None):
        start, end = cursor.extent.start.offset, statement_end or cursor.extent.end.offset
        file = self.name(cursor.extent.start.file)
        key = (file, start, end, statement_end is not None)
        self.places.setdefault(key, Place(file, start, end, statement_end is not None, changes))

    # --- What can be changed ---
    def visit(self, cursor, parent=None):
        kind = cursor.kind
        if kind in UNTOUCHED or kind.is_attribute() or self.is_constant(cursor):
            return
        children = list(cursor.get_children())
        if kind == Kind.BINARY_OPERATOR or (kind == Kind.CALL_EXPR and cursor.spelling.startswith("operator")):
            self.look_at_operator(cursor, children)
        elif kind == Kind.UNEXPOSED_EXPR and len(children) == 2:  # A comparison that C++20 has rewritten.
            self.look_at_operator(cursor, children)
        elif kind == Kind.INTEGER_LITERAL:
            self.look_at_integer(cursor)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            self.look_at_bool(cursor)
        elif kind == Kind.DECL_REF_EXPR:
            self.look_at_enumerator(cursor)
        elif kind == Kind.IF_STMT:
            children = self.look_at_if(cursor, children)
        elif kind == Kind.CASE_STMT:
            children = children[1:]
        elif kind.is_declaration():
            children = [child for child in children if not self.is_of_type(cursor, child)]
        if kind == Kind.COMPOUND_STMT:
            self.look_at_statements(children, parent)
        for child in children:
            self.visit(child, cursor)

    @staticmethod
    def is_constant(cursor):
        if cursor.kind in (Kind.VAR_DECL, Kind.FIELD_DECL):
            tokens = {token.spelling for token, _ in zip(cursor.get_tokens(), range(6))}
            return "constexpr" in tokens or (cursor.kind == Kind.FIELD_DECL and cursor.is_bitfield())
        return cursor.kind in (Kind.TEMPLATE_REF, Kind.TYPE_REF, Kind.CXX_BASE_SPECIFIER, Kind.TYPE_ALIAS_DECL)

    def is_of_type(self, declaration, child):
        """Whether an expression is part of what is declared, as an array's size is: the compiler needs its value."""
        if not child.kind.is_expression() or self.code(child) is None:
            return False
        start = child.extent.start
        before = self.texts[self.name(start.file)][: start.offset].rstrip()
        return start.offset < declaration.location.offset or before.endswith(b"[")

    def look_at_operator(self, cursor, children):
        operands = [each for each in children if self.code(each) is not None]
        if len(operands) == 3:  # With the reference to the operator's function between them.
            operands = [operands[0], operands[2]]
        if len(operands) != 2 or self.in_macro(cursor):
            return
        left, right = operands
        code = self.code(cursor)
        between = self.texts[self.name(cursor.extent.start.file)][left.extent.end.offset : right.extent.start.offset]
        operator = between.decode().strip()
        first, second = self.code(left), self.code(right)
        if left.extent.start.offset != cursor.extent.start.offset or not code.endswith(second):
            return
        if operator in BOUNDARY:
            changes = [Change("comparison", f"({first}) {BOUNDARY[operator]} ({second})")]
            if operator in OPPOSITE:
                changes.append(Change("comparison", f"({first}) {OPPOSITE[operator]} ({second})"))
            self.add(cursor, *changes)
        elif operator in ("&&", "||"):
            self.add(cursor, Change("condition", f"bool({first})"), Change("condition", f"bool({second})"))

    def look_at_integer(self, cursor):
        code = self.code(cursor)
        if code and code[0].isdigit() and not self.in_macro(cursor):
            self.add(cursor, Change("constant", f"({code} + 1)"))

    def look_at_bool(self, cursor):
        code = self.code(cursor)
        if code in ("true", "false"):
            self.add(cursor, Change("constant", "false" if code == "true" else "true"))

    def look_at_enumerator(self, cursor):
        target, code = cursor.referenced, self.code(cursor)
        if target is None or target.kind != Kind.ENUM_CONSTANT_DECL or not code or not code.endswith(target.spelling):
            return
        names = [each.spelling for each in target.semantic_parent.get_children()]
        names = [name for name in names if name]
        if len(names) > 1 and not self.in_macro(cursor):
            other = names[(names.index(target.spelling) + 1) % len(names)]
            self.add(cursor, Change("constant", code.removesuffix(target.spelling) + other))

    def look_at_if(self, cursor, children):
        """Changes a plain condition into its opposite. Returns the children without a constant condition."""
        tokens = [token.spelling for token, _ in zip(cursor.get_tokens(), range(2))]
        if tokens[1:] == ["constexpr"]:
            return children[1:]
        # What `if (T* x = F())` declares is its condition, too, and has no place of its own.
        declares = any(each.kind == Kind.VAR_DECL for each in children)
        condition = None if declares else next((each for each in children if each.kind.is_expression()), None)
        code = condition and self.code(condition)
        plain = code and not any(sign in code for sign in ("<", ">=", "==", "!=", "&&", "||"))
        if plain and not self.in_macro(condition):
            self.add(condition, Change("condition", f"!bool({code})"))
        for branch in children:
            if branch.kind not in (Kind.COMPOUND_STMT, Kind.IF_STMT) and branch is not condition:
                self.look_at_statement(branch)
        return children

    def look_at_statements(self, children, parent):
        of_function = parent is None or parent.kind not in LOOPS | {Kind.IF_STMT, Kind.COMPOUND_STMT}
        for child in children:
            is_last = child == children[-1]
            if child.kind == Kind.RETURN_STMT and is_last and of_function:
                continue  # A mutant that drops the last statement of a function with a result does not compile.
            self.look_at_statement(child)

    def look_at_statement(self, cursor):
        if cursor.kind in LOOPS:
            body = list(cursor.get_children())[-1:]
            for each in body:
                if each.kind != Kind.COMPOUND_STMT:
                    self.look_at_statement(each)
        if cursor.kind not in DROPPABLE and cursor.kind not in (Kind.RETURN_STMT, Kind.CONTINUE_STMT):
            return
        if self.code(cursor) is None or self.in_macro(cursor):
            return
        text = self.texts[self.name(cursor.extent.start.file)]
        end = cursor.extent.end.offset
        while text[end : end + 1].isspace():
            end += 1
        if text[end : end + 1] == b";":
            self.add(cursor, Change("statement", ""), statement_end=end + 1)


def find(files, sources):
    """The places in `files` that compiling `sources` shows, in order."""
    finder = Finder(set(files))
    for source in sources:
        finder.read(source)
    return sorted(finder.places.values(), key=lambda place: (place.file, place.start, -place.end))
