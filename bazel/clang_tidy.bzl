# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the sources of C++ targets with the flags that Bazel compiles them with; see --config=lint."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _flags(ctx, context):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + getattr(ctx.rule.attr, "copts", []),
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = depset(transitive = [context.defines, context.local_defines]),
    )
    return cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = variables,
    )

def _clang_tidy_impl(target, ctx):
    if CcInfo not in target or not hasattr(ctx.rule.attr, "srcs"):
        return [OutputGroupInfo(clang_tidy = depset())]
    context = target[CcInfo].compilation_context
    flags = _flags(ctx, context)
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
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_config": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
