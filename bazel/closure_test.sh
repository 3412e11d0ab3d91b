#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: closure_test.sh CLOSURE ALLOWED...
# Fails on a label in the file CLOSURE that is none of the ALLOWED labels and in none of the ALLOWED packages.
set -euo pipefail

closure=$1
shift
[[ -s $closure ]] || { echo "the closure is empty" >&2 && exit 1; }
foreign=$(awk -v allowed="$*" '
  BEGIN { split(allowed, names, " "); for (i in names) may[names[i]] }
  { package = $0; sub(/:.*/, "", package) }
  !($0 in may) && !(package in may)' "$closure")
[[ -z $foreign ]] || { echo "this layer may not depend on:" && echo "$foreign" && exit 1; }
