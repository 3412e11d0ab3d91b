# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The storage operator's page as commands.

# SECTION: the commands of that section, one a line.
commands_of() { sed -n "/^## $1\$/,/^## /s/^    //p" docs/storage-operator.md; }

# SECTION: runs them, each as a test. `in_folder` is a command that runs a shell's text in the folder with the packages.
run_section() {
  local command number=0
  while read -r command; do
    ((++number))
    "${in_folder[@]}" "$command" </dev/null 2>&1 | sed 's/^/  /'
    report "\"$1\" on the page: $command" "${PIPESTATUS[0]}"
  done < <(commands_of "$1")
  ((number > 0))
  report "\"$1\" is on the page" $?
}
