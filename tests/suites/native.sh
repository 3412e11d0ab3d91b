# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites of tests on this machine that a tag does not select.

# Beside those whose tag says that they are of the suite survive. Those of contracts are here as well, for whoever runs
# this alone: in survive Bazel has their results by then.
kept() {
  bazel_tests kept --test_tag_filters="$(tag_filter unit integration contract)" //broker/control:all \
    //broker/{fabric,keeper,runtime,store,survival}/... //client:all //dataplane/{iwarp,verbs}:all \
    //tests/{control,integration,keeper,systemd}/...
}

# NAME, TESTS
measurements() {
  local name=$1
  shift
  bazel_tests "$name" --test_tag_filters=bench --local_test_jobs=1 --nocache_test_results "$@"
}

# Of what has threads of its own: the data path, and the runtime beneath the daemon's loop.
threads() {
  bazel_tests threads --test_tag_filters="$(tag_filter unit contract)" //dataplane/... //broker/runtime/... \
    //tests/conformance:data_path_iwarp_test
}

# What has been measured, by the tests and in guests.
show_ratios() {
  local ratios
  ratios=$(cut -f 2 "$outcomes" | sort -u | xargs -r grep -hsE '^[^ ].*: [0-9.]+ \((goal|reported).*\)$') || true
  [[ $ratios ]] || return 0
  say 'name: ratio (goal)'
  echo "$ratios"
}

bench() {
  measurements bench //...
  check vm_bench in_guest 600 bench //broker:rdma-brokerd //client/ctl:rdma-brokerctl \
    //tests/bench:handshake_bench //tests/bench:verbs_data_path_bench
}

costs() { measurements costs //tests/bench:{survival,control,memory}_bench; }
