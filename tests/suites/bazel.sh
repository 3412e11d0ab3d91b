# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Runs Bazel's tests and other commands, and notes each outcome in the file $outcomes, as a line "passed|failed|skipped
# NAME<tab>LOG".

say() { printf '\n== %s\n' "$*"; }

# The ends of the logs of what failed among outcomes, and its names.
show_failed() {
  local outcomes log
  outcomes=$(grep '^failed ') || return 0
  while read -r log; do
    say "failed: the end of $log"
    tail -n 60 "$log"
    grep -P "\t\Q$log\E\$" <<<"$outcomes" | cut -f 1
  done < <(cut -f 2 <<<"$outcomes" | awk '!seen[$0]++' | head -n 8)
}

# Runs Bazel's tests that the arguments select; each test case is an outcome. Prints the searching tests' coverage, and
# each failure now as well as in the report, since a reader may have only one end of a long log.
bazel_tests() {
  local name=$1 status=0 done_before
  done_before=$(wc -l <"$outcomes")
  shift
  say "$name, after $SECONDS s"
  bazel test --config="$config" "${bazel_flags[@]}" "${test_flags[@]}" \
    --build_event_json_file="$logs/$name.events" "$@" 2>&1 | tee "$logs/$name.log" || status=${PIPESTATUS[0]}
  python3 tests/bazel_cases.py "$logs/$name.events" "$status" "$logs/$name.log" >>"$outcomes"
  tail -n +$((done_before + 1)) "$outcomes" | show_failed
  tail -n +$((done_before + 1)) "$outcomes" | cut -f 2 | sort -u | xargs -r grep -hs '^covered: ' || true
}

# Runs a command. Its lines "passed|failed|skipped NAME" are outcomes; where they do not tell, its exit status does.
check() {
  local name=$1 log=$logs/${1//\//_}.log status=0
  shift
  say "$name, after $SECONDS s"
  "$@" 2>&1 | tee "$log" || status=$?
  {
    flock 9  # Others may run at the same time.
    grep -E '^(passed|failed|skipped) ' "$log" | sed "s|\$|\t$log|" >&9 || true
    if ((status != 0)); then
      grep -q '^failed ' "$log" || printf 'failed %s\t%s\n' "$name" "$log" >&9
    elif ! grep -qE '^(passed|failed|skipped) ' "$log"; then
      printf 'passed %s\t%s\n' "$name" "$log" >&9
    fi
  } 9>>"$outcomes"
}

# The value of --test_tag_filters for these suites. Tests tagged "nightly" run in the suite deep, those tagged "guest"
# only in guests with a kernel RDMA device, and those tagged "one_thread" never under ThreadSanitizer.
tag_filter() {
  local tag filter=-nightly,-bench,-guest
  [[ $sanitizer != tsan ]] || filter+=,-one_thread
  if [[ " $* " == *" unit "* ]]; then
    for tag in "${tags[@]}"; do [[ " $* " == *" $tag "* ]] || filter+=,-$tag; done
  else
    for tag in "$@"; do filter+=,$tag; done
  fi
  echo "$filter"
}

# Builds programs for guests and prints where they are.
programs() { bazel build "${bazel_flags[@]}" --config="$config" "$@" >&2 && bazel info --config="$config" bazel-bin; }

# LOG, PATTERN...: one outcome for each pattern, which the log must contain.
shows() {
  local log=$1 pattern
  shift
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$log" && echo "passed ${log##*/} shows $pattern" || echo "failed ${log##*/} shows $pattern"
  done
}
