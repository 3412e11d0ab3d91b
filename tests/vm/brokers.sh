# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts that run in a guest, in the repository, with brokers of their own. They set `bin`, where Bazel has put the
# programs, and `work`, a folder that goes with the brokers.
: "${bin:?}" "${work:?}"
# shellcheck source=tests/vm/in_guest.sh
source tests/vm/in_guest.sh
brokers=()

# Where the brokers and their clients run: a namespace that is another host, or this one.
in_broker=()

start_broker() {
  mkdir "$work/$1"
  printf '[control]\nsocket_directory = "%s"\nsocket_group = ""\n[iwarp]\ncrc = %s\n' "$work/$1" "$2" >"$work/$1.toml"
  "${in_broker[@]}" "$bin/broker/rdma-brokerd" --config "$work/$1.toml" >"$work/$1.log" 2>&1 &
  brokers+=($!)
  await test -S "$work/$1/control.sock"
}
broker_has() {
  "$bin/client/ctl/rdma-brokerctl" --socket "$work/$1/control.sock" adapters 2>/dev/null | grep -q "^$2 "
}
stop_brokers() {
  kill "${brokers[@]}"
  wait
  rm -rf "$work"
}

# Says how a test ended, and if badly, what its two ends and the brokers have said.
report() {
  local name=$1 status=$2
  if ((status == 0)); then
    echo "passed $name"
  else
    echo "failed $name"
    tail -n 20 "$work/ours" "$work/theirs" "$work"/*.log | cut -c 1-200
  fi
}
