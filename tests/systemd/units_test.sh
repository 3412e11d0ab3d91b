#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What systemd's own tools say of the files in deploy/systemd, and whether these name what the daemon and its keeper
# have.
set -uo pipefail

here=deploy/systemd
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/units.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
# WHAT COMMAND...: the command succeeds.
expect() {
  "${@:2}" || { echo "failed: $1" && failed=1; }
}
setting() { sed -n "s/^$1=//p" "$here/rdma-brokerd.service"; }
# FILE PATTERN
says() { grep -qE -- "$2" "$1"; }

# The unit runs what is built here, as that is not installed.
built="s|^ExecStart=/usr/sbin/rdma-brokerd |ExecStart=$(realpath broker/rdma-brokerd) |"
sed "$built" "$here/rdma-brokerd.service" >"$work/rdma-brokerd.service"
says_nothing() {
  "$@" >"$work/said" 2>&1 && [[ ! -s $work/said ]] || { cat "$work/said" && return 1; }
}
# What it says only where it fails.
quietly() { "$@" >"$work/said" 2>&1 || { tail -n 1 "$work/said" && return 1; }; }
cp "$here/rdma-brokerd.socket" "$work"
for unit in service socket; do
  expect "systemd understands the $unit" says_nothing \
    systemd-analyze verify --man=no --recursive-errors=no "$work/rdma-brokerd.$unit"
done
# All that systemd finds open, and how exposed each leaves a daemon with devices, a network and the host's users.
exposed() {
  systemd-analyze security --offline=true --no-pager --json=short "$work/rdma-brokerd.service" | tr '{' '\n' |
    sed -n 's/.*"set":false,"name":"\([^"]*\)".*"exposure":"\([^"]*\)".*/\2 \1/p' | LC_ALL=C sort
}
expect 'it is exposed by 2.0 at most' quietly \
  systemd-analyze security --offline=true --no-pager --threshold=20 "$work/rdma-brokerd.service"
expect 'nothing else is open' diff - <(exposed) <<'END'
0.1 AmbientCapabilities=
0.1 CapabilityBoundingSet=~CAP_NET_(BIND_SERVICE|BROADCAST|RAW)
0.1 DeviceAllow=
0.1 RestrictAddressFamilies=~AF_NETLINK
0.1 RestrictAddressFamilies=~AF_UNIX
0.1 RootDirectory=/RootImage=
0.2 IPAddressDeny=
0.2 PrivateDevices=
0.2 PrivateUsers=
0.2 ProtectProc=
0.2 SystemCallFilter=~@privileged
0.3 RestrictAddressFamilies=~AF_(INET|INET6)
0.5 PrivateNetwork=
END

mkdir -p "$work/root/etc"
expect 'systemd makes the users' systemd-sysusers --root="$work/root" "$(realpath $here/rdma-broker.sysusers)"
expect 'the user of the unit' says "$work/root/etc/passwd" "^$(setting User):"
expect 'the group of the unit' says "$work/root/etc/group" "^$(setting Group):.*:$(setting User)\$"

folder=$(setting ReadWritePaths)
sockets=("ListenStream=$folder/control.sock" "ListenSequentialPacket=$folder/handoff.sock" "SocketUser=$(setting User)"
  "SocketGroup=$(setting Group)" SocketMode=0660 FileDescriptorName=socket)
for socket in "${sockets[@]}"; do
  expect "the socket unit says $socket" grep -qx "$socket" "$here/rdma-brokerd.socket"
done
expect 'the folder is made' says "$here/rdma-broker.tmpfiles" "^d $folder 0750 $(setting User) $(setting Group) -\$"
expect 'the folder is the default' says docs/configuration.md "^\| .control.socket_directory. \| ..$folder.. \|"
expect 'the group is the default' says docs/configuration.md "^\| .control.socket_group. \| ..$(setting Group).. \|"
expect 'a planned restart is no failure' \
  says broker/runtime/exit_status.h "kStartAnother = $(setting SuccessExitStatus);"
broker/keeper/rdma-broker-keeper --help >"$work/help"
expect 'the keeper keeps as many' says "$work/help" "--descriptors NUMBER=$(setting FileDescriptorStoreMax)( |\$)"

expect 'systemd can hand over all that it keeps' \
  test "$(setting LimitNOFILE)" -gt $((2 * $(setting FileDescriptorStoreMax)))

# Without which deaths and restarts cost connections, devices are not there yet, or users keep each other out.
relied_on=(Type=notify NotifyAccess=main 'WatchdogSec=[1-9].*' 'ExecReload=kill -HUP [$]MAINPID' Restart=always
  StartLimitIntervalSec=0 RuntimeDirectoryPreserve=restart 'After=(.* )?rdma-hw\.target( .*)?'
  'After=(.* )?modprobe@rdma_ucm\.service( .*)?' 'Wants=modprobe@rdma_ucm\.service' 'Nice=-[1-9][0-9]*')
for line in "${relied_on[@]}"; do
  expect "the unit says $line" says "$here/rdma-brokerd.service" "^$line\$"
done

# The switches right below a comment.
explained() { awk -F = '!/^#/ && above { print $1 } { above = /^#/ }' "$here/rdma-brokerd.service" | LC_ALL=C sort -u; }
unexplained=$(LC_ALL=C comm -23 <(exposed | sed 's/^[^ ]* //; s/=.*//' | LC_ALL=C sort -u) <(explained))
expect "what stays open has a reason${unexplained:+, but for $unexplained}" test -z "$unexplained"
exit "$failed"
