# SPDX-License-Identifier: Apache-2.0
"""The house rules that a text check can see, as a table: the rule, its check, and an example that it must find bad."""

import collections
import dataclasses
import pathlib
import re
import subprocess
import typing

from failures import untold_failures
from guides import untrue_guides
from log_events import untrue_log_events
from page_commands import unknown_commands, unrun_code
from suites import untrue_suites
from tree import is_test

LICENCE = "SPDX-License-Identifier: Apache-2.0"
PROMISES = r"\b(TODO|FIXME|XXX|HACK)\b"
EMPTY_WORDS = r"(Manager|Helper|Util|Utils|Common|Impl)(?![a-z])"
RULE_FILES = "tests/tidy/"  # Where the words that are banned elsewhere have to stand.
MOST_CORPUS_BYTES = 50 * 1024  # What one fuzz target starts from; each change replays it.
MOST_FAULTS = 100  # Each one must be kept in step with the code that it breaks.

# Includes and calls that Bazel does not see: the pattern, the layers that may have it, the layers that are bound.
CLOCKS = r"\b(steady|system|high_resolution|utc)_clock\b|\babsl::Now\b|\b(clock_gettime|gettimeofday)\("
OUTSIDE_WORLD = (
    r"#include (<(atomic|barrier|condition_variable|ctime|filesystem|fstream|future|iostream|latch|mutex|random"
    r"|semaphore|shared_mutex|stop_token|thread|time\.h|unistd\.h|sys/[^>]*)>"
    r"|[<\"](absl/random|absl/synchronization)/)"
)
LAYERS = (
    (r"#include [<\"](infiniband|rdma)/", r"(dataplane/verbs|broker/fabric/rdmacm)/", r""),
    (r"#include ([<\"]grpc(pp)?/|\".*\.grpc\.pb\.h\")", r"client/", r""),
    (r"#include [<\"]spdlog/", r"broker/log/", r""),
    (OUTSIDE_WORLD, r"(?!)", r"broker/core/"),
    (CLOCKS, r"(?!)", r"broker/core/"),
)

CHANGELOG_LINE = re.compile(
    r"## \[Unreleased\]|## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}"
    r"|### (Added|Changed|Deprecated|Removed|Fixed|Security)|(- |  ).*|"
)


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    check: typing.Callable  # From a Tree to the findings, as text.
    bad: tuple  # Examples, each of which it must find: dicts from path to text.


def long_functions(tree):
    paths = [path for path in tree.code() if not is_test(path)]
    if not paths:
        return
    command = ["ctags", "--languages=C++,Python,Sh", "--kinds-C++=f", "--kinds-Python=fm", "--fields=ne", "-f", "-"]
    tags = subprocess.run(command + paths, cwd=tree.root, check=True, capture_output=True, text=True).stdout
    for tag in tags.splitlines():
        name, path, *fields = tag.split("\t")
        span = dict(field.split(":", 1) for field in fields if re.match(r"(line|end):", field))
        length = int(span.get("end", span["line"])) - int(span["line"]) + 1
        if length > 70:
            yield f"{path}:{span['line']}: {name} has {length} lines; 70 is the limit"


def long_files(tree):
    for path in tree.code():
        if not is_test(path) and len(tree.lines(path)) > 500:
            yield f"{path}: {len(tree.lines(path))} lines; 500 is the limit"


def wide_lines(tree):
    for path, number, _ in tree.matches(tree.code(), r"^.{121}"):
        yield f"{path}:{number}: more than 120 columns"


def missing_licences(tree):
    for path in tree.code():
        declares_targets = pathlib.Path(path).name in ("BUILD", "WORKSPACE") or path.endswith(".BUILD")
        if not declares_targets and tree.text(path) and LICENCE not in "".join(tree.lines(path)[:2]):
            yield f"{path}: does not start with the line {LICENCE}"


def crossed_layers(tree):
    paths = [path for path in tree.cpp() if not is_test(path)]
    for pattern, allowed, bound in LAYERS:
        checked = [path for path in paths if re.match(bound, path) and not re.match(allowed, path)]
        for path, number, match in tree.matches(checked, pattern):
            yield f"{path}:{number}: {match[0]} does not belong in this layer"


def promises(tree):
    paths = [path for path in tree.paths if not path.startswith(RULE_FILES)]
    for path, number, match in tree.matches(paths, PROMISES):
        yield f"{path}:{number}: {match[0]}: do it, or file an issue"


def empty_names(tree):
    for path in tree.paths:
        words = re.split(r"[^a-zA-Z]+", path)
        if any(re.fullmatch(EMPTY_WORDS, word.capitalize()) for word in words):
            yield f"{path}: the name says nothing; call it what it is"
    declaration = r"\b(?:class|struct|enum|using|concept|message|service)\s+(\w*" + EMPTY_WORDS + r"\w*)"
    code = [path for path in tree.code() if not path.startswith(RULE_FILES)]
    for path, number, match in tree.matches(code, declaration):
        yield f"{path}:{number}: the name {match[1]} says nothing; call it what it is"


def test_names(tree):
    for path, number, match in tree.matches(tree.cpp(), r"^\s*TYPED_TEST\w*\(\w+, (\w+)|^\s*TEST\w*\(\w+, (\w+)"):
        name = match[1] or match[2]
        if re.search(r"Tests?(?![a-z])", name):
            yield f"{path}:{number}: {name}: a test's name is a sentence without \"Test\""


def dead_files(tree):
    built = tree.built()
    for path in tree.paths:
        if path.endswith((".cc", ".h", ".proto")) and path not in built:
            yield f"{path}: no BUILD target names it"
        elif path.endswith((".py", ".sh", ".bzl")):
            name = re.compile(rf"\b{re.escape(pathlib.Path(path).stem)}\b")
            if not any(name.search(tree.text(other)) for other in tree.paths if other != path):
                yield f"{path}: no other file names it"


def large_files(tree):
    for path in tree.paths:
        size = (tree.root / path).stat().st_size
        if size > 200_000:
            yield f"{path}: {size} bytes; 200,000 is the limit"


def large_corpora(tree):
    sizes = collections.Counter()
    for path in tree.paths:
        if corpus := re.match(r"(.*/)?corpus/[^/]+(?=/)", path):
            sizes[corpus[0]] += (tree.root / path).stat().st_size
    for corpus, size in sizes.items():
        if size > MOST_CORPUS_BYTES:
            yield f"{corpus}: {size} bytes; {MOST_CORPUS_BYTES} is the limit: -set_cover_merge=1 of its target chooses"


def folder_readmes(tree):
    for folder in sorted({path.split("/")[0] for path in tree.paths if "/" in path and not path.startswith(".")}):
        readme = f"{folder}/README.md"
        if readme not in tree.paths:
            yield f"{readme}: missing"
        elif len(tree.lines(readme)) > 10:
            yield f"{readme}: more than ten lines"


def untitled_documents(tree):
    for path in tree.paths:
        if path.endswith(".md") and not tree.text(path).startswith("# "):
            yield f"{path}: does not start with a title"


def dead_links(tree):
    documents = [path for path in tree.paths if path.endswith(".md")]
    for path, number, match in tree.matches(documents, r"\]\(([^)#:]+)(#[^)]*)?\)"):
        if not (tree.root / path).parent.joinpath(match[1]).exists():
            yield f"{path}:{number}: {match[1]} does not exist"


def unformatted(tree):
    if not tree.cpp():
        return
    # One process for all files: to start one takes ten times as long as to format a file.
    style = tree.root / ".clang-format"
    command = ["clang-format", "--dry-run", f"--style=file:{style}" if style.exists() else "--style=Google"]
    said = subprocess.run(command + tree.cpp(), cwd=tree.root, check=True, capture_output=True, text=True).stderr
    places = re.findall(r"^([^\s:][^:]*):\d+:\d+: warning: code should be clang-formatted", said, re.MULTILINE)
    for path in sorted(set(places)):
        yield f"{path}: run clang-format -i {path}"


def changelog_form(tree):
    in_release = False
    for number, line in enumerate(tree.lines("CHANGELOG.md") if "CHANGELOG.md" in tree.paths else (), 1):
        in_release |= line.startswith("## ")
        if in_release and not CHANGELOG_LINE.fullmatch(line):
            yield f"CHANGELOG.md:{number}: not in the form of Keep a Changelog: {line}"


def shell_mistakes(tree):
    for path in tree.code():
        if re.match(r"#!.*\b(ba)?sh$", tree.text(path).partition("\n")[0]):
            command = ["shellcheck", "--external-sources", "--format=gcc", "--severity=warning", path]
            yield from subprocess.run(command, cwd=tree.root, capture_output=True, text=True).stdout.splitlines()


def faults(tree):
    return [path for path in tree.paths if path.startswith("tests/faults/") and path.endswith(".patch")]


def many_faults(tree):
    if len(faults(tree)) > MOST_FAULTS:
        yield f"tests/faults: {len(faults(tree))} patches; {MOST_FAULTS} is the limit"


def untold_faults(tree):
    for path in faults(tree):
        header = tree.text(path).partition("\n--- ")[0]
        if not re.search(r"^Rule: \S", header, re.MULTILINE):
            yield f'{path}: has no line "Rule: ..."'
        seen_by = re.search(r"^Seen-by: //(\S+):(\S+)$", header, re.MULTILINE)
        if not seen_by:
            yield f'{path}: has no line "Seen-by: //PACKAGE:TEST"'
        elif not names_test(tree, seen_by[1], seen_by[2]):
            yield f"{path}: there is no //{seen_by[1]}:{seen_by[2]}"


def names_test(tree, package, test):
    """Whether a package has a test, which is named after its source or by its BUILD file."""
    build = f"{package}/BUILD"
    return f"{package}/{test}.cc" in tree.paths or (build in tree.paths and f'"{test}"' in tree.text(build))


def stale_faults(tree):
    for path in faults(tree):
        command = ["git", "apply", "--recount", "--check", path]
        applied = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
        if applied.returncode != 0:
            yield f"{path}: does not apply: {applied.stderr.splitlines()[0]}"


# What makes the fields of an event elsewhere.
FIELDS_OF = 'std::vector<LogField> FieldsOf() {\n  auto fields = {{"by", 7}};\n  fields.emplace_back("to", 7);\n}\n'


def header(text):
    return {"broker/control/a.h": f"// {LICENCE}\n{text}\n"}


CODE_RULES = (
    Rule("functions end at 70 lines", long_functions, (header("void F() {\n" + "  G();\n" * 70 + "}"),)),
    Rule("files end at 500 lines", long_files, (header("int x;\n" * 500),)),
    Rule("lines end at 120 columns", wide_lines, ({"broker/BUILD": "#" * 121},)),
    Rule("every file names its licence", missing_licences, ({"deploy/a": "#!/bin/sh\n"}, {"proto/a.proto": "//\n"})),
    Rule(
        "no layer reaches past its own",
        crossed_layers,
        (
            {"broker/fabric/a.h": "#include <infiniband/verbs.h>"},
            {"client/a.cc": "#include <rdma/rdma_cma.h>"},
            {"broker/runtime/a.h": "#include <grpcpp/grpcpp.h>"},
            {"broker/store/a.h": '#include "proto/rdmabroker/v1/broker.grpc.pb.h"'},
            {"broker/runtime/a.cc": "#include <spdlog/spdlog.h>"},
            *({"broker/core/a.h": f"#include <{name}>"} for name in ("thread", "mutex", "random")),
            *({"broker/core/a.cc": f"auto t = {call};"} for call in ("steady_clock::now()", "absl::Now()")),
        ),
    ),
    Rule("nothing is promised for later", promises, ({"docs/a.md": "TODO: write"}, header("// FIXME"))),
    Rule(
        "names say something",
        empty_names,
        (
            {"client/string_util.h": ""},
            {"broker/common/a.h": ""},
            header("class ConnectionManager;"),
            {"proto/a.proto": "message RequestHelper {"},
        ),
    ),
    Rule(
        "a test's name is a sentence",
        test_names,
        (header("TEST(Core, TestOfClosing) {"), header("TYPED_TEST_P(Fabric, ConnectTest) {")),
    ),
    Rule(
        "no file is dead",
        dead_files,
        ({"client/BUILD": 'cc_library(name = "b", hdrs = ["b.h"])', "client/a.h": ""}, {"deploy/unused.py": ""}),
    ),
    Rule("no file is large", large_files, ({"docs/a.svg": "x" * 200_001},)),
    Rule(
        "no fuzz corpus is large",
        large_corpora,
        ({"client/corpus/a/one": "x" * 30_000, "client/corpus/a/two": "x" * 30_000},),
    ),
    Rule("C++ is formatted", unformatted, (header("int  x ;"),)),
    Rule("shell scripts are clean", shell_mistakes, ({"deploy/a": "#!/bin/bash\ncd $1\n"},)),
    Rule("faults are few", many_faults, ({f"tests/faults/{i}.patch": "" for i in range(MOST_FAULTS + 1)},)),
    Rule(
        "every fault has its rule and its test",
        untold_faults,
        (
            {"tests/faults/a.patch": "Seen-by: //client:a_test\n\n--- a/a\n", "client/BUILD": '"a_test"'},
            {"tests/faults/a.patch": "Rule: a.\n\n--- a/a\n"},
            {"tests/faults/a.patch": "Rule: a.\nSeen-by: tidy\n\n--- a/a\n"},
            {"tests/faults/a.patch": "Rule: a.\nSeen-by: //client:a_test\n\n--- a/a\n"},
            {"tests/faults/a.patch": "Rule: a.\nSeen-by: //client:a_test\n\n--- a/a\n", "client/BUILD": '"b_test"'},
        ),
    ),
    Rule(
        "every fault can be planted",
        stale_faults,
        ({"tests/faults/a.patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"},),
    ),
)

PAGE_RULES = (
    Rule("every folder has a short README", folder_readmes, ({"client/a": ""}, {"client/README.md": "line\n" * 11})),
    Rule("every document has a title", untitled_documents, ({"docs/a.md": "Text\n"},)),
    Rule("every link leads somewhere", dead_links, ({"docs/a.md": "[b](b.md)"},)),
    Rule(
        "the guides name what there is",
        untrue_guides,
        (
            {"docs/from-rdma_cm.md": "# A\n| rdma_connect | `Nothing` | – | |\n"},
            {"docs/from-rdma_cm.md": "# A\n| rdma_connect | – | `Broker.Nothing` | |\n"},
            {"docs/from-ndkpi.md": "# A\n", "docs/site/public_headers": "client/a.h\n", "client/a.h": "class C {};\n"},
            {"docs/from-ndkpi.md": "# A\n\n## Without a counterpart\n\n- `Nothing`\n"},
        ),
    ),
    Rule(
        "the log says what the page about it says",
        untrue_log_events,
        (
            header('LogInfo("session opened", {{"session", 7}});'),
            *(
                {**header(code), "docs/operating.md": f"# A\n\n## Logs\n\n{row}\n"}
                for code, row in (
                    ("", "| info | `session opened` | `session` | a client has begun |"),
                    ('LogDebug("done");', "| info | `done` | | |"),
                    ('LogInfo("Done");', "| info | `Done` | | |"),
                    ('LogInfo("done.");', "| info | `done.` | | |"),
                    ('LogInfo(done ? "done" : "not");', "| info | `done` | | |"),
                    ('LogInfo("done", {{"by", 7}});', "| info | `done` | | |"),
                    ('LogInfo("done", {{"by", 7}});', "| info | `done` | `by`, `of` | |"),
                    ('LogInfo("done", {{"time", 7}});', "| info | `done` | `time` | |"),
                    ('LogInfo("done", fields);', "| info | `done` | | |"),
                    ('const LogField fields[] = {{"by", 7}};\nLogInfo("done", fields);', "| info | `done` | | |"),
                    ('LogField fields[] = {{"by", 7}};\nLogInfo("done", fields);', "| info | `done` | `by`, `of` | |"),
                    (f'{FIELDS_OF}LogInfo("done", FieldsOf());', "| info | `done` | `by` | |"),
                    (f'{FIELDS_OF}LogInfo("done", FieldsOf());', "| info | `done` | `by`, `to`, `of` | |"),
                )
            ),
        ),
    ),
    Rule(
        "each status has its remedy on a page",
        untold_failures,
        (
            header("return NdkStatus::kIoTimeout;"),
            {
                **header("return NdkStatus::kIoTimeout;"),
                "docs/operating.md": "# A\n\n## Failures and what to do\n\n| slow | IO_TIMEOUT | wait |\n",
            },
            {
                **header("if (status == NdkStatus::kIoTimeout) return;"),
                "dataplane/ndk/status.h": "  kIoTimeout = 0xC00000B5,\n",
                "docs/operating.md": "# A\n\n## Failures and what to do\n\n| IO_TIMEOUT | | |\n",
            },
        ),
    ),
    Rule(
        "somebody runs what the pages have for it",
        unrun_code,
        (
            {"docs/storage-operator.md": "# A\n\n## Look\n\n    ls\n", "tests/vm/package": "run_section Watch\n"},
            {"README.md": "# A\n\n## Build\n\n    make\n", "tests/fresh": "README.md"},
            {"docs/a.md": "# A\n\n```\nls\n```\n"},
            {"docs/policy.md": "# A\n"},
        ),
    ),
    Rule(
        "the pages name commands and options that there are",
        unknown_commands,
        (
            {"client/ctl/main.cc": '    {"health", "Whether",\n', "docs/a.md": "# A\n\n`rdma-brokerctl heal`\n"},
            {"client/ctl/main.cc": '("--wait", 7);\n', "CHANGELOG.md": "`rdma-brokerctl drain NAME [--wait\n7]`\n"},
            {"broker/main.cc": '("--config", path);\n', "docs/a.md": "# A\n\n`rdma-brokerd --configuration a`\n"},
            {"broker/keeper/main.cc": '("--wait", 7);\n', "README.md": "`rdma-broker-keeper --stay -- rdma-brokerd`\n"},
        ),
    ),
    Rule(
        "the table of suites says where each runs",
        untrue_suites,
        tuple(
            {
                "tests/suites/table": "fast unit,tidy all\nunit tag tests\ntidy source text\n",
                ".ci/run": "tests/run unit\n",
                "CONTRIBUTING.md": f"# A\n\n| suite | fast | CI | nightly |\n| --- |\n{row}\n",
            }
            for row in ("| `unit` | yes | yes | |", "| `unit`, `tidy` | yes | yes | |", "| `unit`, `tidy` | yes | | |")
        ),
    ),
    Rule(
        "the changelog keeps its form",
        changelog_form,
        ({"CHANGELOG.md": "# Changelog\n## 1.0\n"}, {"CHANGELOG.md": "# Changelog\n## [Unreleased]\n### News\n"}),
    ),
)
