# SPDX-License-Identifier: Apache-2.0
"""Holds the code on the pages against those who run it, and our programs amid the text against their sources.

What is indented or fenced in README.md and docs/ is in a section that a test runs as it stands there, or an example.
Those who run pages take what is indented.
"""

import re

FENCE = "```"
CODE = re.compile(rf"(?m)^(?:    (?=\S)|(?={FENCE}))(.*)$")
# A page, whoever runs it, how he names a section, and the lines that he takes. Without a name he runs the whole page.
RUNNERS = (
    ("README.md", "tests/fresh", None, r"\./"),
    ("docs/cluster-administrator.md", "tests/kubernetes/pods_test.py", r'(?:commands|sections\(\))\["([^"]+)"\]', ""),
    ("docs/operating.md", "tests/control/remote_test.cc", r'CodeOf\("([^"]+)"\)', ""),
    ("docs/operating.md", "tests/monitoring/monitoring_test.py", r'code_of\("([^"]+)"\)', ""),
    ("docs/services.md", "tests/languages/page_test.py", None, ""),
    ("docs/storage-operator.md", "tests/package/packages", r"commands_of (\w+)", ""),
    ("docs/storage-operator.md", "tests/vm/package", r"(?m)^run_section '?([A-Z][a-z ]*[a-z])'?(?: after_\w+)?$", ""),
)
# Nobody runs these as they stand: the page and the section, and why.
EXAMPLES = {
    ("docs/ARCHITECTURE.md", "The problem"): "a drawing",
    ("docs/from-ndkpi.md", "The same job in both"): "fragments of C++, whose names are compared with the headers",
    ("docs/from-rdma_cm.md", "The same job in both"): "likewise",
    ("docs/policy.md", "A pod"): "a configuration, which //broker/control:policy_configuration_test reads",
    ("docs/policy.md", "A shared GPU node"): "likewise",
    ("docs/policy.md", "Refusals"): "a message",
    ("docs/policy.md", "Rules"): "a configuration, as above",
}
# Amid the text. The command line of each is in its source.
INLINE = re.compile(r"`(rdma-brokerctl|rdma-brokerd|rdma-broker-keeper)((?:\s[^`]*)?)`")
SOURCES = {
    "rdma-brokerctl": "client/ctl/main.cc",
    "rdma-brokerd": "broker/main.cc",
    "rdma-broker-keeper": "broker/keeper/main.cc",
}
SUBCOMMAND = re.compile(r'(?m)^    \{"([a-z-]+)", "')
OPTIONS = re.compile(r'"((?:-\w,)?--[a-z-]+)"')


def sections(text):
    """Title to lines of code, of each section that has some."""
    parts = [part.partition("\n") for part in re.split(r"(?m)^## ", text)]
    return {title: lines for title, _, below in parts if (lines := CODE.findall(below))}


def is_run(tree, page, title, lines):
    for its_page, runner, names, takes in RUNNERS:
        if its_page != page or runner not in tree.paths:
            continue
        text = tree.text(runner)
        named = title in re.findall(names, text) if names else page in text
        if named and all(re.match(takes, line) and not line.startswith(FENCE) for line in lines):
            return True
    return False


def unrun_code(tree):
    pages = [path for path in tree.paths if re.fullmatch(r"README\.md|docs/[^/]+\.md", path)]
    for page in pages:
        found = sections(tree.text(page))
        for title, lines in found.items():
            run = is_run(tree, page, title, lines)
            if not run and (page, title) not in EXAMPLES:
                yield f'{page}: nobody runs what is below "{title}", and it is not listed as an example'
            if run and (page, title) in EXAMPLES:
                yield f'{page}: what is below "{title}" is run, and listed as an example'
        for its_page, title in EXAMPLES:
            if its_page == page and title not in found:
                yield f'{page}: nothing below "{title}" is an example'


def unknown_words(tree, program, arguments):
    """Of what follows a program's name: the command and the options that its source does not have."""
    source = tree.text(SOURCES[program]) if SOURCES[program] in tree.paths else ""
    words = re.sub(r"[][]", " ", arguments).split()
    words = words[: words.index("--")] if "--" in words else words  # What follows is another program's.
    if program == "rdma-brokerctl" and words and not words[0].startswith("-"):
        if words[0] not in SUBCOMMAND.findall(source):
            yield words[0]
    options = {name for names in OPTIONS.findall(source) for name in names.split(",")} | {"--help"}
    yield from (word for word in words if word.startswith("-") and word not in options)


def unknown_commands(tree):
    for page in tree.paths:
        if not re.fullmatch(r"(README|CHANGELOG|docs/[^/]+)\.md", page):
            continue
        text = tree.text(page)
        for match in INLINE.finditer(text):
            for word in unknown_words(tree, match[1], match[2]):
                yield f"{page}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]} has no {word}"
