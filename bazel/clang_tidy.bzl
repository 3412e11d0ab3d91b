# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the sources of C++ targets with the flags that Bazel compiles them with; see --config=lint."""

load(":compiler.bzl", "COMPILER", "FRAGMENTS", "TOOLCHAINS", "compiler")

def _clang_tidy_impl(target, ctx):
    if CcInfo not in target or not hasattr(ctx.rule.attr, "srcs"):
        return [OutputGroupInfo(clang_tidy = depset())]
    context = target[CcInfo].compilation_context
    flags = compiler(ctx, getattr(ctx.rule.attr, "copts", []), context).flags
    sources = [file for file in ctx.rule.files.srcs if file.extension == "cc"]
    if not sources:  # Otherwise the headers are seen where the sources include them.
        sources = [file for file in getattr(ctx.rule.files, "hdrs", []) if file.extension == "h"]
    marks = []
    for file in sources:
        if not file.is_source:
            continue
        mark = ctx.actions.declare_file("%s.%s.clang-tidy" % (file.basename, ctx.rule.attr.name))
        marks.append(mark)
        ctx.actions.run_shell(
            mnemonic = "ClangTidy",
            progress_message = "clang-tidy " + file.short_path,
            command = 'clang-tidy --quiet --config-file="$1" "$2" -- "${@:4}" -x c++ >"$3" 2>&1 || (cat "$3"; false)',
            arguments = [ctx.file._config.path, file.path, mark.path] + flags,
            inputs = depset([file, ctx.file._config], transitive = [context.headers]),
            outputs = [mark],
            use_default_shell_env = True,
        )
    return [OutputGroupInfo(clang_tidy = depset(marks))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = dict(COMPILER, _config = attr.label(default = "//:.clang-tidy", allow_single_file = True)),
    fragments = FRAGMENTS,
    toolchains = TOOLCHAINS,
)
