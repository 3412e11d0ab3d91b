// SPDX-License-Identifier: Apache-2.0

// The other end of librdmacm's rping, over connections that a broker sets up.
//
// A round: the client names a buffer, which the server reads; the server says so; the client names a buffer, to which
// the server writes what it has read; the server says so.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <semaphore>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "client/examples/opened_device.h"
#include "tests/peers/rping_link.h"

namespace rdmabroker::peers {
namespace {

struct Options {
  std::string role;
  std::string socket;
  std::string device = "iwarp0";
  std::string address;
  std::string source;
  int count = 0;
  uint32_t size = 64;
};

constexpr std::chrono::seconds kPatience{30};
// rping asks for one read in flight each way.
constexpr client::ReadLimits kLimits = {.inbound = 1, .outbound = 1};

absl::Status ServeRound(RpingLink& link) {
  const auto from = link.Receive();
  if (!from.ok()) return from.status();
  absl::Status status = link.Read(*from);
  if (status.ok()) status = link.Send(true);
  if (!status.ok()) return status;
  const auto to = link.Receive();
  if (!to.ok()) return to.status();
  status = link.Write(*to);
  if (status.ok()) status = link.Send(true);
  return status;
}

absl::Status PingRound(RpingLink& link, int round) {
  auto& buffer = link.buffer();
  for (size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = static_cast<uint8_t>('A' + (i + static_cast<size_t>(round)) % 26);
  // rping takes it for text.
  buffer.back() = 0;
  const auto sent = buffer;
  absl::Status status = link.Send(false);
  if (!status.ok()) return status;
  if (const auto read = link.Receive(); !read.ok()) return read.status();
  std::fill(buffer.begin(), buffer.end(), uint8_t{0});
  status = link.Send(false);
  if (!status.ok()) return status;
  if (const auto written = link.Receive(); !written.ok()) return written.status();
  return buffer == sent ? absl::OkStatus()
                        : absl::DataLossError(absl::StrCat("round ", round, ": other bytes came back"));
}

absl::Status Serve(const std::shared_ptr<client::Adapter>& adapter, const Options& options,
                   const SocketAddress& address) {
  auto [listening, listener] = client::BlockingListener::Listen(adapter, address);
  if (!listening.ok()) return examples::Report("listen", listening);
  std::cout << "listening on " << listener->address().ToString() << std::endl;
  auto [arrived, connector] = listener->Next();
  if (!arrived.ok()) return examples::Report("listener", arrived);
  auto link = RpingLink::Make(*adapter->data(), options.size);
  absl::Status result = link.status();
  std::binary_semaphore disconnected{0};
  client::Outcome accepted;
  if (result.ok()) {
    accepted = client::BlockingAccept(connector, (*link)->queue_pair(), {.limits = kLimits, .private_data = {}},
                                      [&](const client::DisconnectEvent&) { disconnected.release(); });
    result = examples::Report("accept", accepted);
    for (int i = 0; i < options.count && result.ok(); ++i) result = ServeRound(**link);
    // The client goes first: rping takes a disconnect that overtakes the last message's completion for a failure.
    if (result.ok() && !disconnected.try_acquire_for(kPatience)) {
      result = absl::DeadlineExceededError("the client does not disconnect");
    }
    if (accepted.ok()) client::BlockingDisconnect(connector);
  }
  client::BlockingClose(connector);
  return result;
}

absl::Status Ping(const std::shared_ptr<client::Adapter>& adapter, const Options& options,
                  const SocketAddress& address) {
  const auto source = SocketAddress::Parse(options.source);
  if (!source) return absl::InvalidArgumentError(absl::StrCat("--source ", options.source, ": not an IP:PORT"));
  auto link = RpingLink::Make(*adapter->data(), options.size);
  if (!link.ok()) return link.status();
  auto [connected, connector] =
      client::BlockingConnect(adapter, (*link)->queue_pair(),
                              {.source = *source, .destination = address, .limits = kLimits, .private_data = {}});
  absl::Status result = examples::Report("connect", connected);
  if (!result.ok()) return result;
  for (int i = 0; i < options.count && result.ok(); ++i) result = PingRound(**link, i);
  client::BlockingDisconnect(connector);
  client::BlockingClose(connector);
  return result;
}

absl::Status Run(const Options& options) {
  const auto address = SocketAddress::Parse(options.address);
  if (!address) return absl::InvalidArgumentError(absl::StrCat("--address ", options.address, ": not an IP:PORT"));
  const auto device = examples::OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  const auto& adapter = device->adapter;
  absl::Status result = options.role == "server" ? Serve(adapter, options, *address) : Ping(adapter, options, *address);
  client::BlockingClose(adapter);
  if (result.ok()) std::cout << options.count << " rounds done" << std::endl;
  return result;
}

}  // namespace
}  // namespace rdmabroker::peers

int main(int argc, char** argv) {
  rdmabroker::peers::Options options;
  CLI::App app{"The other end of rping."};
  app.add_option("role", options.role)->required()->check(CLI::IsMember({"server", "client"}));
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--device", options.device, "The device")->capture_default_str();
  app.add_option("--address", options.address, "Where to listen, or to connect to: IP:PORT")->required();
  app.add_option("--source", options.source, "The client's own address: IP:PORT, port 0 takes a free one");
  app.add_option("--count", options.count, "Rounds")->required();
  app.add_option("--size", options.size, "Bytes of a round's buffer")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = rdmabroker::peers::Run(options);
  if (!result.ok()) std::cerr << "rping_peer: " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}
