# SPDX-License-Identifier: Apache-2.0
"""The compiler of C++ and its flags, for rules that compile something themselves."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# For the attributes, the fragments and the toolchains of a rule or aspect.
COMPILER = {"_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain")}
FRAGMENTS = ["cpp"]
TOOLCHAINS = ["@bazel_tools//tools/cpp:toolchain_type"]

def compiler(ctx, copts, context):
    """The path of the compiler, and the flags by which Bazel has it compile a source, without the source.

    Args:
      ctx: of a rule or aspect that has the above.
      copts: of the source's target.
      context: the CcCompilationContext of the source's target.

    Returns:
      A struct with `path` and `flags`.
    """
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + copts,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = depset(transitive = [context.defines, context.local_defines]),
    )
    return struct(
        path = cc_common.get_tool_for_action(feature_configuration = features, action_name = CPP_COMPILE_ACTION_NAME),
        flags = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
    )
