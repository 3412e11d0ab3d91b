# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Suites for each place where the product runs: packages, images, clusters, other languages.

# The README's command with and without FILE, and its other options.
quickstart() {
  local command
  command=$(sed -nE 's|^    (\./deploy/quickstart) \[FILE\] .*|\1|p' README.md)
  set -- "${command:?of README.md}" --config "$config"
  check quickstart "$@"
  check quickstart_output shows "$logs/quickstart.log" 'Endpoints of the server.s broker, before' \
    'Endpoints of the client.s broker, during' 'listener +bound +2 ' 'dedicated +bound +1 ' \
    'Endpoints of the client.s broker, after' 'READ +[1-9]0 %' 'READ .* MB/s' 'WRITE +[1-9]0 %' 'WRITE .* MB/s'
  check quickstart_of_a_file "$@" LICENSE
  check quickstart_one_broker "$@" --one-broker --adapter iwarp0 LICENSE
  check quickstart_file shows "$logs/quickstart_of_a_file.log" '^== Let LICENSE travel over'
  check quickstart_adapter shows "$logs/quickstart_one_broker.log" '^== Let LICENSE travel over iwarp0'
}

languages() {
  bazel_tests languages_in_cc //client/names:names_test //client/c:c_api_test
  check languages clients_in_other_languages
}

# FOLDER: installs exactly the packages of Node that its package-lock.json names.
node_packages() {
  # npm comes with other packages of Node, which Debian's npm conflicts with.
  command -v npm >/dev/null || deploy/install-packages npm || return
  (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund)
}

clients_in_other_languages() {
  local bin config=opt
  node_packages client/examples/node || return
  bin=$(programs //broker:rdma-brokerd //client/ctl:rdma-brokerctl //client/examples:request_reply \
    //client/c:librdma_broker.so) || return
  tests/languages/languages.py "$bin"
}

interop() { check interop clients_of_grpc; }

clients_of_grpc() {
  local bin
  node_packages tests/interop || return
  bin=$(programs //broker:rdma-brokerd //tests/interop:echo_server //tests/interop:client) &&
    tests/interop/interop.py "$bin"
}

operated() { check operated monitoring_here; }

monitoring_here() {
  local bin
  bin=$(programs //broker:rdma-brokerd //broker/keeper:rdma-broker-keeper //client/examples:request_reply) &&
    tests/monitoring/monitoring_test.py "$bin"
}

# TEST: runs it with the programs that are in the images.
with_images() {
  local bin
  bin=$(programs //broker:rdma-brokerd //broker/keeper:rdma-broker-keeper //client/ctl:rdma-brokerctl \
    //client/examples/...) || return
  "$@" "$bin"
}

container() { check container_image with_images tests/container/image_test.py; }

chart() {
  local tools=$cache/kubernetes
  check kubernetes_tools tests/kubernetes/tools "$tools"
  check kubernetes_chart tests/kubernetes/chart_test.py "$tools/render" "$tools"
}

pods() {
  local tools=$cache/kubernetes
  check kubernetes_tools tests/kubernetes/tools "$tools"
  check kubernetes_pods with_images tests/kubernetes/pods_test.py "$tools/render" "$tools/registry"
}

debian() {
  check debian packages_here
  check debian_upgrade upgrade_here
}

debian_guest() { check debian_guest upgrade_in_guest; }

packages_here() {
  local bin
  bin=$(programs //deploy/debian:built) || return
  tests/package/packages "$bin"
}

# FOLDER: the packages, of two versions. The newer one's daemon writes records of the version that the environment says,
# its configuration has another default on the line that the storage operator's page edits, and its unit says so, too.
two_versions() {
  local bin newer=$1/programs tree=$1/tree
  bin=$(programs //deploy/debian:built //broker:rdma-brokerd-of-another-day) || return
  mkdir -p "$newer/broker" "$tree" && cp -r deploy docs client dataplane CHANGELOG.md "$tree" &&
    sed -i '/^Environment=/a Environment=UNIT_OF=newer' "$tree/deploy/systemd/rdma-brokerd.service" &&
    ln -s "$bin"/{client,proto} "$newer" && ln -s "$bin/broker/keeper" "$newer/broker" &&
    cp "$bin/broker/rdma-brokerd-of-another-day" "$newer/broker/rdma-brokerd" &&
    cp -r --no-preserve=mode "$bin/deploy" "$newer" &&
    sed -i 's/^#level = "info"/#level = "warning"/' "$newer/deploy/configuration/rdma-brokerd.toml" &&
    deploy/debian/build --built "$bin" "$1/old" &&
    "$tree/deploy/debian/build" --built "$newer" --version 9-1 "$1/new"
}

upgrade_here() {
  local bin
  two_versions "$logs/upgrade" && bin=$(programs "${package_users[@]}") || return
  tests/package/machine "$logs/upgrade" tests/vm/package "$bin" iwarp
}

# Where in_guest has what the guest sees.
upgrade_in_guest() {
  two_versions "$logs/package_rxe" || return
  in_guest --systemd 1200 'package rxe' "${package_users[@]}"
}

fresh() { check fresh tests/fresh ${sanitizer:+"./tests/run --$sanitizer"}; }
