# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites in guests, which have the kernel's RDMA devices.

# [--systemd] SECONDS, COMMAND, PROGRAM...: runs a script of tests/vm, with its arguments, in a guest of its own, where
# it finds the programs, for so long at most.
in_guest() {
  local seconds command bin out status=0 how=(${guest_kernel:+--kernel "$guest_kernel"})
  [[ $1 != --systemd ]] || { how+=(--systemd) && shift; }
  seconds=$1
  read -ra command <<<"$2"
  out=$logs/${2//[^a-z0-9]/_}
  shift 2
  bin=$(programs "$@") || return
  tests/vm/guest "${how[@]}" --seconds "$seconds" --out "$out" -- "tests/vm/${command[0]}" "$bin" \
    "${command[@]:1}" || status=$?
  [[ ! -e $out/output ]] || cut -c 1-200 "$out/output"
  return "$status"
}

rxe() { parts rxe; }

# Both kinds of device at the same time: most of it waits for the kernel's timeouts.
guests() {
  rxe &
  parts siw &
  wait
  check guest_with_bond in_guest 300 "doctor others_wait" //broker:rdma-brokerd //client/ctl:rdma-brokerctl
}

parts() {
  check "guest_with_$1" in_guest 900 "conformance $1 parts" \
    //broker/fabric/rdmacm:{qp_owner,cm_file,device_scan}_test \
    //broker/fabric/rdmacm:{take_over,cm_status,changed_neighbour}_kernel_test \
    //tests/conformance:{fabric_rdmacm,data_path_verbs}_test \
    //tests/integration:{failed_scan,changed_device,kernel_device}_test \
    //client:device_rename_test \
    //tests/survive:{lost_records,renamed_device,second_device,silent_device}_test
}

case_in_guest() {
  local kind label case program
  read -r kind label case <<<"$1"
  program=${label#//}
  check "${case}_on_$kind" in_guest 600 "conformance $kind case ${program/:/\/} $case" "$label"
}

# One after the other, as these need the processors: two guests at once take four times as long.
devices() {
  local kind
  for kind in "${kinds[@]}"; do
    check "assertions_on_$kind" in_guest 900 "conformance $kind assertions" //tests/conformance/ndkpi:ndkpi_test \
      //tests/conformance/misuse:closing_test
  done
}

restarts() {
  local kind
  for kind in "${kinds[@]}"; do
    check "restarts_on_$kind" in_guest 3600 "conformance $kind restarts" \
      //tests/survive:{handshake_restart,ndkpi_restart,storm}_test
  done
}

crash_points() {
  local kind
  for kind in "${kinds[@]}"; do
    check "crash_points_on_$kind" in_guest 3600 "conformance $kind crash_points" //tests/survive:crash_points_test
  done
}

# A sequence takes one or two seconds in a guest.
misuse() {
  local kind each
  for kind in "${kinds[@]}"; do
    check "misuse_on_$kind" in_guest 5400 "conformance $kind misuse" //tests/conformance/misuse:misuse_test
  done
  for each in asan tsan; do
    check "misuse_under_$each" tests/run "--$each" //tests/conformance/misuse:misuse_deep_{fake,iwarp}_test
  done
}

# KIND, TIMES, SECONDS
service_on() {
  check "service_with_$1" in_guest --systemd "$3" "service $1 $2" //broker:rdma-brokerd{,-of-another-day} \
    //client/ctl:rdma-brokerctl //deploy/configuration:toml //tests/service/...
}

service() {
  service_on rxe 2 900 &
  service_on siw 2 900 &
  wait
}
service_deep() {
  local kind
  for kind in "${kinds[@]}"; do service_on "$kind" 10 3600; done
}
network() { check guests_with_network two_guests; }

two_guests() {
  local bin
  bin=$(programs //broker:rdma-brokerd //client/ctl:rdma-brokerctl //tests/network:echo) || return
  tests/vm/network "$bin" "$logs/network"
}

doctor() { check guest_with_doctor in_guest 600 doctor //broker:rdma-brokerd //client/ctl:rdma-brokerctl; }

peers() {
  check guest_with_peers in_guest 600 peers //broker:rdma-brokerd //client/ctl:rdma-brokerctl //client/examples/... \
    //tests/peers/...
}
