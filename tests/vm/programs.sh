# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Programs that others wrote, each with its counterpart of tests/peers at the broker's end of the connections, in both
# roles. Needs brokers.sh. A meeting is between these:
broker='' device='' # The counterpart's.
own=''              # The counterpart's address.
theirs=''           # The program's.
port=7174           # The last that was listened on.

bracketed() { [[ $1 == *:* ]] && echo "[$1]" || echo "$1"; }
kernel_listens() { rdma resource show cm_id 2>/dev/null | grep -q "LISTEN.*:$port "; }
counterpart_listens() { grep -q 'listening on' "$work/ours"; }

# Takes a port that nothing has listened on yet.
next_port() { : >"$work/ours" && ((++port)); }

# PROGRAM ROLE ADDRESS OPTION...
counterpart() {
  local program=$1 role=$2 address=$3
  shift 3
  "${in_broker[@]}" "$bin/tests/peers/${program}_peer" "$role" --socket "$work/$broker/control.sock" \
    --device "$device" --source "$(bracketed "$own"):0" --address "$(bracketed "$address"):$port" "$@"
}

# "OPTIONS OF THE COUNTERPART" PROGRAM ARGUMENT...: what the two say is in $work/ours and $work/theirs.
program_connects() {
  local options status=0 server
  read -ra options <<<"$1"
  shift
  counterpart "$1" server "$own" "${options[@]}" >"$work/ours" 2>&1 &
  server=$!
  await counterpart_listens || status=1
  timeout 120 "$@" >"$work/theirs" 2>&1 || status=1
  wait "$server" || status=1
  return "$status"
}
# The counterpart reads the standard input. Of a program whose end tells nothing it is not judged: rping's server ends
# with an error where its client disconnects, cmtime's does not end, or crashes.
program_accepts() {
  local options status=0 server
  read -ra options <<<"$1"
  shift
  timeout 120 "$@" >"$work/theirs" 2>&1 &
  server=$!
  await kernel_listens || status=1
  counterpart "$1" client "$theirs" "${options[@]}" >"$work/ours" 2>&1 || status=1
  [[ $1 != cmtime ]] || kill "$server" 2>/dev/null
  wait "$server" || [[ $1 == @(cmtime|rping) ]] || status=1
  return "$status"
}

# BROKER DEVICE ADDRESS OF THE BROKER'S HOST AND OF THE PROGRAM'S, PROGRAM...
meet() {
  local program
  broker=$1 device=$2 own=$3 theirs=$4
  shift 4
  for program in "$@"; do "${program}_meets" "$own, broker $broker"; done
}

# Each reports by a name that ends with where it was and what else was particular.

# A message of one segment and one of many.
rping_meets() {
  local size
  for size in 64 60000; do
    next_port
    program_connects "--count 50 --size $size" rping -c -a "$own" -p "$port" -C 50 -S "$size" -V -v &&
      [[ $(grep -c '^ping data' "$work/theirs") == 50 ]]
    report "rping connects to $device, $1, $size bytes" $?
    next_port
    program_accepts "--count 50 --size $size" rping -s -a "$theirs" -p "$port" -C 50 -S "$size" -v </dev/null &&
      [[ $(grep -c '^server ping data' "$work/theirs") == 50 ]]
    report "$device connects to rping, $1, $size bytes" $?
  done
}

# What it says of the end comes by another stream, amid a line.
thousand_pings_meets() {
  next_port
  program_connects '--count 1000 --size 64' rping -c -a "$own" -p "$port" -C 1000 -v &&
    [[ $(sed -z 's/client DISCONNECT EVENT\.\.\.\n//' "$work/theirs" | grep -c '^ping data') == 1000 ]]
  report "rping pings $device a thousand times, $1" $?
}

ucmatose_meets() {
  next_port
  program_connects '--connections 4 --count 20 --size 1000' ucmatose -s "$own" -p "$port" -c 4 -C 20 -S 1000 &&
    grep -qx 'data transfers complete' "$work/theirs"
  report "ucmatose connects to $device, $1" $?
  next_port
  program_accepts '--connections 4 --count 20 --size 1000' \
    ucmatose -b "$theirs" -p "$port" -c 4 -C 20 -S 1000 </dev/null && grep -qx 'data transfers complete' "$work/theirs"
  report "$device connects to ucmatose, $1" $?
}

cmtime_holds() { (($(rdma resource show cm_id 2>/dev/null | grep -c "CONNECT .*comm cmtime.*:$port ") == $1)); }
cmtime_meets() {
  next_port
  program_connects '--connections 50' cmtime -s "$own" -p "$port" -c 50 &&
    ! grep -qi 'event:\|error\|fail' "$work/theirs" && grep -q '^disconnect ' "$work/theirs"
  report "cmtime connects to $device, $1" $?
  next_port
  # Its connections are counted before they end.
  program_accepts '--connections 50' cmtime -b "$theirs" -p "$port" \
    < <(await cmtime_holds 50 && echo 50 >"$work/held") && [[ $(<"$work/held") == 50 ]]
  report "$device connects to cmtime, $1" $?
  rm -f "$work/held"
}

# Debian 12's perftest takes no IPv6 address.
ib_send_lat_meets() {
  local arguments=(-R -F -d "$device" -n 100 -s 64 -I 0)
  next_port
  program_connects '--count 100 --size 64' ib_send_lat "${arguments[@]}" -p "$port" "$own" &&
    grep -q '^ 64 *100 ' "$work/theirs"
  report "ib_send_lat connects to $device, $1" $?
  next_port
  program_accepts '--count 100 --size 64' ib_send_lat "${arguments[@]}" -p "$port" --source_ip "$theirs" </dev/null &&
    grep -q '^ 64 *100 ' "$work/theirs"
  report "$device connects to ib_send_lat, $1" $?
}
