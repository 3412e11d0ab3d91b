#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether the manual pages can be shown, and say all that --help, docs/configuration.md and docs/policy.md say.
set -uo pipefail

failed=0
fail() { echo "failed: $*" && failed=1; }
words() { tr -s ' \n' ' '; }
# As man shows it, each paragraph in a line of its own. What groff complains of is a failure.
shown() {
  local complaints
  complaints=$(groff -man -ww -Tascii "$1" 2>&1 >/dev/null)
  [[ ! $complaints ]] || { echo "$complaints" >&2 && return 1; }
  groff -man -Tascii -P-cbou -rLL=20000n "$1"
}
# PAGE TEXT WORDS...: each of these stands there.
says() {
  local page=$1 text=$2 each
  shift 2
  (($#)) || fail "$page: nothing to look for"
  for each in "$@"; do [[ $text == *"$each"* ]] || fail "$page does not say: $each"; done
}

# Names of options, and what is said of options, commands and the whole.
parts_of_help() {
  grep -oE '(^|[ ,])--[a-z-]+' | tr -d ' ,' | sort -u
}
descriptions() { sed -nE 's/^ .* {2,}([^ ].*)$/\1/p'; }

# PAGE PROGRAM
holds_against() {
  local page=deploy/man/$1 program=$2 text help each
  text=$(shown "$page" | words) || fail "$page cannot be shown"
  help=$("$program" --help)
  mapfile -t parts < <(parts_of_help <<<"$help" && descriptions <<<"$help" && head -n 1 <<<"$help")
  mapfile -t footer < <(sed -n '/^$/,$p' <<<"$help" | grep -vE '^ |:$' | sed -E 's/^Exit status: //; /^$/d')
  ((${#parts[@]} > 3)) || fail "$program --help has hardly anything"
  says "$page" "$text" "${parts[@]}" ${footer[0]+"${footer[@]}"}
  mapfile -t commands < <(sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<<"$help")
  for each in ${commands[0]+"${commands[@]}"}; do
    mapfile -t parts < <("$program" "$each" --help | parts_of_help && "$program" "$each" --help | descriptions)
    says "$page" "$text" "$each" "${parts[@]}"
  done
}

holds_against rdma-brokerd.8 broker/rdma-brokerd
holds_against rdma-broker-keeper.8 broker/keeper/rdma-broker-keeper
holds_against rdma-brokerctl.1 client/ctl/rdma-brokerctl

page=deploy/configuration/rdma-brokerd.toml.5
text=$(shown "$page" | words) || fail "$page cannot be shown"
mapfile -t keys < <(sed -nE 's/^\| `([a-z_.]+)` \| `(.*)` \|[^|]*\|[^|]*\|[^|]*\|$/\1 = \2/p' docs/configuration.md)
says "$page" "$text" "${keys[@]}"
mapfile -t keys < <(sed -nE 's/^\| `([a-z_.]+)` \| ([^|]*) \|[^|]*\|$/\1 \2;/p' docs/policy.md | tr -d '`')
says "$page" "$text" "${keys[@]}"
exit "$failed"
