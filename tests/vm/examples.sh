# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The examples of client/examples on a device that reaches itself. Needs brokers.sh. What servers say goes to
# $work/ours, what clients say to $work/theirs.

# PROGRAM ROLE OPTION...
example() {
  local program=$1 role=$2
  shift 2
  timeout 120 "$bin/client/examples/$program" "$role" --socket "$work/$broker/control.sock" --device "$device" \
    --address "$address" "$@" 2>&1
}
addresses() { sed -n 's/^server: listening on //p' "$work/ours"; }
listen() { (($(addresses | wc -l) == $1)); }
say() { grep -qE "$2" "$work/$1"; }

# Whether all these processes end well.
end_well() {
  local process status=0
  for process in "$@"; do wait "$process" || status=1; done
  return "$status"
}

request_reply_runs() {
  local processes=()
  example request_reply server --count 3 >"$work/ours" &
  processes+=($!)
  await listen 1 || return
  for _ in 1 2 3; do
    example request_reply client --server "$(addresses)" --count 50 >>"$work/theirs" &
    processes+=($!)
  done
  end_well "${processes[@]}" && say ours '^server: 150 requests of 3 clients, by one queue'
}
key_value_runs() {
  example key_value server >"$work/ours" &
  await listen 1 || return
  example key_value client --server "$(addresses)" >"$work/theirs" && end_well $! && say theirs '^client: revoked' &&
    if say ours '^server: no memory windows'; then say ours 'revoked by Deregister'; else say ours 'by Invalidate'; fi
}
many_peers_runs() {
  local processes=() servers
  for _ in 1 2 3; do
    example many_peers server >>"$work/ours" &
    processes+=($!)
  done
  await listen 3 || return
  mapfile -t servers < <(addresses)
  example many_peers client "${servers[@]/#/--server=}" >"$work/theirs" && end_well "${processes[@]}" &&
    say theirs ' is free$'
}
paused_listener_runs() {
  local processes=()
  mkfifo "$work/go"
  example paused_listener server <"$work/go" >"$work/ours" &
  processes+=($!)
  exec 3>"$work/go"
  await listen 1 && {
    example paused_listener client --server "$(addresses)" >"$work/theirs" &
    processes+=($!)
    await say ours '^server: paused' && await say theirs '^client: refused'
    echo >&3
  }
  exec 3>&-
  rm "$work/go"
  end_well "${processes[@]}" && say theirs '^client: all 40 connections served'
}

# BROKER DEVICE ADDRESS
examples_run() {
  local broker=$1 device=$2 address program
  address=$(bracketed "$3"):0
  for program in request_reply key_value many_peers paused_listener; do
    : >"$work/ours" && : >"$work/theirs"
    "${program}_runs"
    report "$program on $device, $3" $?
  done
}
