# SPDX-License-Identifier: Apache-2.0
"""A header that clang compiles once and then loads before each source; see --config=tests.

A source may then use what the header includes without its own #include. Builds by all other configs notice that.
"""

load(":compiler.bzl", "COMPILER", "FRAGMENTS", "TOOLCHAINS", "compiler")

_USED = "//bazel:precompiles"

def _precompiled_impl(ctx):
    clang = compiler(ctx, [], cc_common.create_compilation_context())
    out = ctx.actions.declare_file(ctx.label.name + ".pch")
    ctx.actions.run_shell(
        mnemonic = "Precompile",
        # By its name clang would list it among what each source includes. Without that option it would instantiate the
        # header's templates in each source.
        command = '"$1" "${@:4}" -fpch-instantiate-templates -x c++-header - -o "$3" <"$2"',
        arguments = [clang.path, ctx.file.header.path, out.path] + clang.flags,
        inputs = [ctx.file.header],
        outputs = [out],
        use_default_shell_env = True,
    )
    context = cc_common.create_compilation_context(headers = depset([out]))
    return [DefaultInfo(files = depset([out])), CcInfo(compilation_context = context)]

precompiled = rule(
    doc = "Compiles a header for the targets that depend on this. The header may only include headers of the system.",
    implementation = _precompiled_impl,
    attrs = dict(COMPILER, header = attr.label(mandatory = True, allow_single_file = [".h"])),
    fragments = FRAGMENTS,
    toolchains = TOOLCHAINS,
)

def precompiled_copts():
    """For sources in C++ that depend on precompiled_deps()."""
    return select({
        # clang would refuse it to sources of another optimization level, which changes no declaration.
        _USED: ["-include-pch", "$(BINDIR)/bazel/precompiled.pch", "-Xclang", "-fno-validate-pch"],
        "//conditions:default": [],
    })

def precompiled_deps():
    return select({_USED: ["//bazel:precompiled"], "//conditions:default": []})
