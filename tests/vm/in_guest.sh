# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# For scripts that run in a guest.

# Before a command: with no rights but everybody's, and Debian's limit of locked memory.
readonly nobody=(prlimit --memlock=8388608 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all)

# Until the command succeeds, for so many seconds at most; a guest without KVM is slow.
patience=60
await() {
  local end=$((SECONDS + patience))
  until "$@"; do
    ((SECONDS < end)) || { echo "never: $*" >&2 && return 1; }
    sleep 0.1
  done
}

# FOLDER PLACE: shows it there, too, where everybody can read it; the folders above it may be root's.
show_everybody() { mkdir "$2" && mount --bind "$1" "$2"; }
