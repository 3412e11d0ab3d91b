# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites that read or compile the sources and run nothing of the product.

tidy() { check tidy python3 tests/tidy/tidy.py code; }
pages() { check pages python3 tests/tidy/tidy.py pages; }
reference() { check reference tests/reference; }

gcc() {
  local programs
  # The shared library compiles everything a second time, which the suite languages does.
  programs=$(bazel query 'kind(cc_binary, //broker/... + //client/...) except attr(linkshared, 1, //client/...)' \
    2>"$logs/query.log") || cat "$logs/query.log"
  # shellcheck disable=SC2086  # a word each
  check gcc bazel build "${bazel_flags[@]}" --config=opt ${programs:?of bazel query}
}

# Compiles without linking.
layering() {
  check layering bazel build "${bazel_flags[@]}" --config=layering --output_groups=compilation_outputs //...
}

lint() { check lint bazel build "${bazel_flags[@]}" --config=clang --config=lint //broker/core/...; }
lint_all() { check lint_all bazel build "${bazel_flags[@]}" --config=clang --config=lint //...; }
