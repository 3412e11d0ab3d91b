#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: closure_test.sh CLOSURE ALLOWED...
# Fails on a label in the file CLOSURE that is none of the ALLOWED labels and in none of the ALLOWED packages.
# PACKAGE/... is a package and all below it. Every target may use //bazel.
set -euo pipefail

closure=$1
shift
[[ -s $closure ]] || { echo "the closure is empty" >&2 && exit 1; }
foreign=$(awk -v allowed="$*" '
  BEGIN {
    split(allowed, names, " ")
    for (i in names) if (sub(/\/\.\.\.$/, "", names[i])) trees[names[i]]; else may[names[i]]
  }
  {
    package = $0
    sub(/:.*/, "", package)
    if (package == "//bazel" || $0 in may || package in may) next
    for (tree in trees) if (index(package "/", tree "/") == 1) next
    print
  }' "$closure")
[[ -z $foreign ]] || { echo "this layer may not depend on:" && echo "$foreign" && exit 1; }
