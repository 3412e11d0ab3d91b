# SPDX-License-Identifier: Apache-2.0
"""C++ libraries, tests and programs, named after their files, with the dependencies that nearly all of them need.

A part of a library is NAME.h, NAME.cc or both.
"""

load("//bazel:precompiled.bzl", "precompiled_copts", "precompiled_deps")

# Dependencies of nearly every test.
_TEST_DEPS = ["//dataplane:unique_fd", "//dataplane/ndk", "@system//:absl"]

def library(
        name,
        parts = None,
        private = [],
        deps = [],
        test_size = "small",
        test_tags = [],
        test_deps = [],
        **kwargs):
    """A cc_library and, where there is a NAME_test.cc, its test.

    Args:
      name: the library's name; by default also that of its only part.
      parts: the parts with a public header.
      private: the parts with a header for this library alone.
      deps: dependencies of the library and of its test.
      test_size: the test's size.
      test_tags: the test's tags.
      test_deps: further dependencies of the test; gtests adds GoogleTest and the like.
      **kwargs: for the cc_library.
    """
    _cc_library(name, [name] if parts == None else parts, private, deps = deps, **kwargs)
    if native.glob([name + "_test.cc"]):
        gtests(
            srcs = [name + "_test.cc"],
            size = test_size,
            tags = test_tags,
            deps = [":" + name] + deps + test_deps,
        )

def test_library(name, parts = None, private = [], deps = [], **kwargs):
    """A cc_library for tests only.

    Args:
      name: the library's name; by default also that of its only part, in this folder or in testing.
      parts: the parts with a public header.
      private: the parts with a header for this library alone.
      deps: dependencies besides GoogleTest and _TEST_DEPS.
      **kwargs: for the cc_library.
    """
    if parts == None:
        parts = [name] if _files([name], [".h", ".cc"]) else ["testing/" + name]
    deps = _with(deps, _TEST_DEPS + ["@system//:gtest"])
    _cc_library(name, parts, private, testonly = True, deps = deps, **kwargs)

def gtests(srcs, size = "small", deps = [], **kwargs):
    """A cc_test for each source, under its name without the ending.

    Args:
      srcs: the sources; one without a main function gets GoogleTest's.
      size: the size of each test.
      deps: dependencies besides GoogleTest and _TEST_DEPS.
      **kwargs: for each cc_test.
    """
    for src in srcs:
        _compiled(
            native.cc_test,
            name = src[:-len(".cc")],
            size = size,
            srcs = [src],
            deps = _with(deps, _TEST_DEPS + ["@system//:gtest_main"]),
            **kwargs
        )

def fuzz_tests(srcs, deps = [], **kwargs):
    """Programs in which libFuzzer looks for inputs that break what a source checks (tests/fuzz.h).

    The suite fuzz runs them. Here each is a test that replays its corpus, the folder corpus/NAME for NAME_fuzz.cc.

    Args:
      srcs: the sources, each with an LLVMFuzzerTestOneInput.
      deps: dependencies besides //tests:fuzz and _TEST_DEPS.
      **kwargs: for each cc_test.
    """
    for src in srcs:
        corpus = "corpus/" + src[:-len("_fuzz.cc")]
        _compiled(
            native.cc_test,
            name = src[:-len(".cc")],
            size = "small",
            srcs = [src],
            args = [native.package_name() + "/" + corpus],
            data = native.glob([corpus + "/*"]),
            linkopts = select({
                "//bazel:fuzzing": ["-fsanitize=fuzzer"],
                "//conditions:default": [],
            }),
            tags = ["one_thread"],
            deps = _with(deps, _TEST_DEPS + ["//tests:fuzz"]) + select({
                "//bazel:fuzzing": [],
                "//conditions:default": ["//tests:corpus_replay"],
            }),
            **kwargs
        )

def programs(srcs, deps = [], **kwargs):
    """A cc_binary for each source, under its name without the folder and the ending.

    Args:
      srcs: the sources.
      deps: dependencies of each.
      **kwargs: for each cc_binary.
    """
    for src in srcs:
        _compiled(
            native.cc_binary,
            name = src.split("/")[-1][:-len(".cc")],
            srcs = [src],
            deps = deps,
            **kwargs
        )

def _compiled(rule, deps, **kwargs):
    rule(copts = precompiled_copts(), deps = deps + precompiled_deps(), **kwargs)

def _cc_library(name, parts, private, **kwargs):
    for part in parts + private:
        if not _files([part], [".h", ".cc"]):
            fail("%s has neither a header nor a source" % part)
    _compiled(
        native.cc_library,
        name = name,
        # Without it Bazel also links a shared library of each when it builds everything.
        linkstatic = True,
        srcs = _files(parts, [".cc"]) + _files(private, [".h", ".cc"]),
        hdrs = _files(parts, [".h"]),
        **kwargs
    )

def _files(parts, endings):
    return native.glob([part + ending for part in parts for ending in endings])

def _with(deps, others):
    declared = [_full(dep) for dep in deps]
    return deps + [other for other in others if _full(other) not in declared]

def _full(label):
    if label.startswith(":"):
        return "//" + native.package_name() + label
    return label if ":" in label else label + ":" + label.split("/")[-1]
