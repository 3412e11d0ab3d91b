# SPDX-License-Identifier: Apache-2.0
"""Writes the wire contract as Markdown for doxygen, a page for each file.

Usage: proto_pages.py DESCRIPTOR_SET OUTPUT_FOLDER

The descriptor set is protoc's, with imports and source information. What is indented in a comment stays as it is laid
out; the rest is text.
"""

import pathlib
import re
import sys

from google.protobuf import descriptor_pb2

PACKAGE = "rdmabroker.v1"
READ_FIRST = ("broker", "session", "requests", "outcome", "connection", "adapter", "address", "ndk_status")
SPECIAL = re.compile(r"(`[^`]*`)|([\\@<>#*|]|(?<!\w)::)")
ENTITIES = {"<": "&lt;", ">": "&gt;", "|": "&#124;"}
# Numbers of fields in descriptor.proto, of which the paths of source information consist.
MESSAGE, ENUM, SERVICE, SYNTAX, PACKAGE_LINE = 4, 5, 6, 12, 2
FIELD, ONEOF, VALUE, METHOD = 2, 8, 2, 2
SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


def escaped(text):
    """The text without what doxygen would take for markup, but for code in backticks."""
    return SPECIAL.sub(lambda match: match[1] or ENTITIES.get(match[2], "\\" + match[2]), text)


def blocks(comment):
    """The comment's paragraphs: (whether it is laid out, its lines)."""
    found = []
    for line in (line.removeprefix(" ") for line in comment.rstrip().split("\n")):
        laid_out = line.startswith("  ")
        if not line.strip():
            found.append((None, []))
        elif found and found[-1][0] == laid_out:
            found[-1][1].append(line)
        else:
            found.append((laid_out, [line]))
    return [block for block in found if block[1]]


def text_of(comment):
    parts = ["\n".join(["~~~", *lines, "~~~"]) if laid_out else "\n".join(map(escaped, lines))
             for laid_out, lines in blocks(comment)]
    return "\n\n".join(parts)


def cell_of(comment):
    """The comment within a table, where what is laid out becomes lines."""
    parts = ["<br>".join(map(escaped, lines)) if laid_out else escaped(" ".join(lines))
             for laid_out, lines in blocks(comment)]
    return "<br>".join(parts)


def anchor(name):
    return "proto_" + name.replace(".", "_")


def type_of(field):
    name = SCALARS[field.type]
    if field.type_name.startswith(f".{PACKAGE}."):
        own = field.type_name.removeprefix(f".{PACKAGE}.")
        name = f'\\ref {anchor(own)} "{own}"'
    elif field.type_name:
        name = field.type_name.removeprefix(".")
    return f"repeated {name}" if field.label == field.LABEL_REPEATED else name


class Page:
    """One file's page."""

    def __init__(self, file):
        self.file = file
        self.comments = {tuple(place.path): place for place in file.source_code_info.location}
        self.lines = []

    def comment(self, *path):
        place = self.comments.get(path)
        return place.leading_comments if place else ""

    def write(self, *lines):
        self.lines += [*lines, ""]

    def text(self):
        name = pathlib.Path(self.file.name)
        # In its own table of contents.
        self.write(f"# {name.name} {{#{anchor(name.stem + '_proto')}}}")
        for place in (self.comments.get((SYNTAX,)), self.comments.get((PACKAGE_LINE,))):
            if place:
                detached = [comment for comment in place.leading_detached_comments if "SPDX" not in comment]
                for comment in [*detached, place.leading_comments]:
                    self.write(text_of(comment))
        for number, service in enumerate(self.file.service):
            self.service(service, (SERVICE, number))
        for number, message in enumerate(self.file.message_type):
            self.message(message, (MESSAGE, number))
        for number, enum in enumerate(self.file.enum_type):
            self.enum(enum, (ENUM, number))
        return "\n".join(self.lines)

    def service(self, service, path):
        self.write(f"## {service.name} {{#{anchor(service.name)}}}", text_of(self.comment(*path)))
        for number, method in enumerate(service.method):
            kinds = [
                ("stream " if streams else "") + f'\\ref {anchor(name)} "{name}"'
                for name, streams in (
                    (method.input_type.rsplit(".", 1)[-1], method.client_streaming),
                    (method.output_type.rsplit(".", 1)[-1], method.server_streaming),
                )
            ]
            self.write(f"### {service.name}.{method.name} {{#{anchor(service.name + '.' + method.name)}}}")
            self.write(f"takes {kinds[0]}, returns {kinds[1]}", "", text_of(self.comment(*path, METHOD, number)))

    def message(self, message, path):
        self.write(f"## {message.name} {{#{anchor(message.name)}}}", text_of(self.comment(*path)))
        for number, oneof in enumerate(message.oneof_decl):
            members = [field.name for field in message.field if field.HasField("oneof_index")
                       and field.oneof_index == number]
            listed = ", ".join(f"`{name}`" for name in members)
            self.write(f"One of {listed} at most is set, which is `{oneof.name}`: "
                       + text_of(self.comment(*path, ONEOF, number)))
        cells = [cell_of(self.comment(*path, FIELD, number)) for number in range(len(message.field))]
        rows = [f"| {field.number} | `{field.name}` | {type_of(field)} | {cell} |"
                for field, cell in zip(message.field, cells)]
        if rows:
            self.write("| no. | field | type | what it is |", "| ---: | --- | --- | --- |", *rows)

    def enum(self, enum, path):
        self.write(f"## {enum.name} {{#{anchor(enum.name)}}}", text_of(self.comment(*path)))
        rows = [f"| {value.number} | `{value.name}` | {cell_of(self.comment(*path, VALUE, number))} |"
                for number, value in enumerate(enum.value)]
        self.write("| no. | value | what it is |", "| ---: | --- | --- |", *rows)


def main():
    descriptors = descriptor_pb2.FileDescriptorSet()
    descriptors.ParseFromString(pathlib.Path(sys.argv[1]).read_bytes())
    files = {pathlib.Path(file.name).stem: file for file in descriptors.file if file.package == PACKAGE}
    order = [*READ_FIRST, *sorted(set(files) - set(READ_FIRST))]
    folder = pathlib.Path(sys.argv[2])
    for stem in order:
        (folder / f"{stem}_proto.md").write_text(Page(files[stem]).text(), encoding="utf-8")
    index = ["# The wire contract, file by file {#wire_contract}", ""]
    index += [f'- \\subpage {anchor(stem + "_proto")} "{stem}.proto"' for stem in order]
    (folder / "contract.md").write_text("\n".join(index) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
