// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/library_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "tests/control/patience.h"
#include "tests/needed.h"

namespace rdmabroker {
namespace {

constexpr client::ReadLimits kLimits = {.inbound = 4, .outbound = 4};

std::unique_ptr<client::Session> OpenSession(const std::string& control_socket) {
  client::SessionOptions options;
  options.control_socket = control_socket;
  auto opening = client::Session::Open(std::move(options));
  return Needed(std::move(opening.session), "session: " + opening.outcome.hint);
}

std::shared_ptr<client::Adapter> OpenDevice(client::Session& session, const std::string& device) {
  auto made = client::BlockingOpenAdapter(session, device);
  return Needed(std::move(made.object), "adapter: " + made.outcome.hint);
}

}  // namespace

LibraryClient::LibraryClient(const std::string& control_socket, const std::string& on_device,
                             const SideOptions& options)
    : device(on_device),
      session(OpenSession(control_socket)),
      adapter(OpenDevice(*session, device)),
      side(adapter->data(), false, options) {}

LibraryClient::~LibraryClient() { session = nullptr; }

client::Outcome LibraryClient::Accept(client::BlockingListener& listener,
                                      client::DisconnectEventCallback on_disconnect) {
  auto [arrived, requested] = listener.Next(absl::ToChronoMilliseconds(kTestPatience));
  if (!arrived.ok()) return arrived;
  connector = requested;
  return client::BlockingAccept(connector, side.qp, {.limits = kLimits}, std::move(on_disconnect));
}

client::Outcome LibraryClient::Connect(const IpAddress& from, const SocketAddress& to,
                                       client::DisconnectEventCallback on_disconnect) {
  auto made = client::BlockingConnect(
      adapter, side.qp, {.source = {.ip = from}, .destination = to, .limits = kLimits, .private_data = "hello"},
      std::move(on_disconnect));
  connector = made.object;
  return made.outcome;
}

IpAddress LibraryClient::ip() const {
  auto [listed, devices] = client::BlockingListAdapters(*session);
  EXPECT_TRUE(listed.ok()) << listed.hint;
  for (const client::Device& known : devices) {
    const auto first = std::find_if(known.addresses.begin(), known.addresses.end(),
                                    [](const IpAddress& ip) { return ip.family == IpFamily::kIpv4; });
    if (known.name == device && first != known.addresses.end()) return *first;
  }
  return {};
}

void LibraryClient::Disconnect() {
  const client::Outcome outcome = client::BlockingDisconnect(connector);
  EXPECT_TRUE(outcome.ok()) << outcome.hint;
  client::BlockingClose(std::exchange(connector, nullptr));
}

}  // namespace rdmabroker
