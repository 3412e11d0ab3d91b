# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites that search for defects that no other test sees. They are too long for one night, so each night runs a slice
# that its number selects; some weeks cover the whole.

night=$(($(date +%s) / 86400))

faults() { check faults tests/plant_faults ${sanitizer:+--$sanitizer} tests/faults/*.patch; }

# Each fifth fault.
faults_slice() {
  local all i slice=()
  all=(tests/faults/*.patch)
  for ((i = night % 5; i < ${#all[@]}; i += 5)); do slice+=("${all[i]}"); done
  check faults_slice tests/plant_faults "${slice[@]}"
}

mutants() {
  check mutants_test tests/mutants/mutants_test.py
  check mutants tests/mutants/mutants.py --count 300 --seed "$night"
}

# One block of each test that is tagged "nightly".
deep() {
  local labels label blocks flags=("${test_flags[@]}")
  labels=$(bazel query 'attr(tags, nightly, tests(//...))' 2>"$logs/query.log") || cat "$logs/query.log"
  for label in ${labels:?of bazel query}; do
    blocks=$(bazel query --output=build "$label" 2>/dev/null | sed -n 's/^  shard_count = \([0-9]*\),$/\1/p')
    blocks=${blocks:-1}
    test_flags+=(--test_sharding_strategy=disabled --test_env=GTEST_TOTAL_SHARDS="$blocks")
    test_flags+=(--test_env=GTEST_SHARD_INDEX="$((night % blocks))")
    run_one "$label"
    test_flags=("${flags[@]}")
  done
}

# The tests under each sanitizer that CI runs under one of them, or not at all. Those of whole processes are left out:
# the leak sanitizer finds leaks of gRPC's where a process ends early, and leaves a process where one is killed.
sanitized() {
  local each
  for each in asan tsan; do
    check "sanitized_by_$each" tests/run "--$each" unit scenario contract iwarp
  done
}
