#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: tests/package/version_test.sh PROGRAM...
# Whether programs name the version of the packages.
set -uo pipefail

version=$(sed -nE '1s/.*\((.*)-.*\).*/\1/p' deploy/debian/changelog)
failed=0
for program; do
  expected="$(basename "$program") $version"
  said=$("./$program" --version) || failed=1
  [[ $said == "$expected" ]] || { echo "failed: $program says $said, not $expected" && failed=1; }
done
exit "$failed"
