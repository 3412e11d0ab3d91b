# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Fuzz targets: libFuzzer looks for inputs that break what they check.

fuzz() { fuzz_for 10; }
fuzz_deep() {
  local config=asan
  fuzz_for 600
}

# SECONDS: runs each target for so long, as many at a time as there are processors.
fuzz_for() {
  local labels bin label seed=${RDMA_BROKER_SEED:-$RANDOM}
  mapfile -t labels < <(bazel query 'filter("_fuzz$", tests(//...))' 2>"$logs/query.log")
  bin=$(programs --config=fuzz "${labels[@]}") || { check fuzz_build false && return; }
  for label in "${labels[@]}"; do
    (($(jobs -rp | wc -l) < $(nproc))) || wait -n || true
    label=${label#//}
    check "${label##*:}" fuzz_one "$1" "$bin" "${label/:/\/}" "$seed" &
  done
  wait
}

# SECONDS, BIN, TARGET, SEED: what it finds is in $logs, and the last lines say how to run that again.
fuzz_one() {
  local program=$2/$3 found=$logs/${3##*/}.found corpus
  corpus=$(dirname "$3")/corpus/$(basename "$3" _fuzz)
  # The first input also makes what all inputs need, for which a busy machine takes its time.
  # New inputs go to the first folder, so that the corpus stays as it is. Entropic schedules walk over all rare features
  # with each input, which takes nine tenths of the time where the core is fed, which has 45,000 of them.
  mkdir -p "$found/inputs"
  if "$program" -seed="$4" -entropic=0 -max_total_time="$1" -timeout=60 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found/inputs" "$corpus" >"$found/log" 2>&1; then
    echo "$3: seed $4, $(grep -o 'number_of_executed_units.*' "$found/log")"
    return
  fi
  tail -n 60 "$found/log"
  echo "seed $4. To run what was found again:"
  find "$found" -maxdepth 1 -type f ! -name log -printf "  $program %p\n"
  return 1
}
