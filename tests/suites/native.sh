# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites on this machine that select tests by more than their tag.

# Adds to the suite survive the tests that its tags do not select. Contract tests are included, so that this suite is
# complete on its own; within survive Bazel has their results by then.
kept() {
  bazel_tests kept --test_tag_filters="$(tag_filter unit integration contract)" //broker/control:all \
    //broker/{fabric,keeper,runtime,store,survival}/... //client:all //dataplane/{iwarp,verbs}:all \
    //tests/{control,integration,keeper,systemd}/...
}

# NAME, TESTS: measures the build that is installed.
measurements() {
  local name=$1 config=opt
  shift
  bazel_tests "$name" --test_tag_filters=bench --local_test_jobs=1 --nocache_test_results "$@"
}

# Tests of the code that starts threads: the data path, and the runtime below the daemon's loop.
threads() {
  bazel_tests threads --test_tag_filters="$(tag_filter unit contract)" //dataplane/... //broker/runtime/... \
    //tests/conformance:data_path_{iwarp,stand_in}_test
}

# Prints the ratios that tests and guests measured.
show_ratios() {
  local ratios
  ratios=$(cut -f 2 "$outcomes" | sort -u | xargs -r grep -hsE '^[^ ].*: [0-9.]+ \((goal|reported).*\)$') || true
  [[ $ratios ]] || return 0
  say 'name: ratio (goal)'
  echo "$ratios"
}

bench() {
  local config=opt
  measurements bench //...
  check vm_bench in_guest 600 bench //broker:rdma-brokerd //client/ctl:rdma-brokerctl \
    //tests/bench:handshake_bench //tests/bench:verbs_data_path_bench
}

costs() { measurements costs //tests/bench:{survival,control,memory}_bench; }
