# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The storage operator's page as commands; and what is amid a page's text.

# SECTION: the commands of that section, one a line.
commands_of() { sed -n "/^## $1\$/,/^## /s/^    //p" docs/storage-operator.md; }

# Runs a shell's text in `folder`, which has the packages. In a guest without KVM dpkg may take minutes; what waits for
# something that never comes is to fail, so that the others can still be seen.
readonly command_seconds=240
run_in_folder() { (cd "$folder" && timeout --kill-after=10 "$command_seconds" bash -c "$1"); }

# SECTION [AFTER]: runs them, each as a test, and after each this, with the command.
run_section() {
  local command number=0
  while read -r command; do
    ((++number))
    run_in_folder "$command" </dev/null 2>&1 | sed 's/^/  /'
    report "\"$1\" on the page: $command" "${PIPESTATUS[0]}"
    [[ ! ${2:-} ]] || "$2" "$command"
  done < <(commands_of "$1")
  ((number > 0))
  report "\"$1\" is on the page" $?
}

# PAGE BEGINNING [SCRIPT]: runs the command that begins so amid the page's text, as a test. sed's script puts something
# for what is the reader's own.
run_amid() {
  local command
  command=$(grep -o "\`$2[^\`]*" "$1" | sed "1!d; s/^.//; ${3:-}")
  run_in_folder "${command:-false}" </dev/null 2>&1 | sed 's/^/  /'
  report "amid $1: ${command:-$2}" "${PIPESTATUS[0]}"
}
