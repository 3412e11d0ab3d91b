// SPDX-License-Identifier: Apache-2.0

// Many short connections between two hosts, each with a message and its echo, over a network that may lose what it is
// given.
//
//   echo server --socket SOCKET --device DEVICE --address IP:PORT
//   echo client --socket SOCKET --device DEVICE --address IP:PORT --source IP:0 --count N --at-once K
//
// Each counts how its ends of the connections end, "N STATUS" a line. The client asks the server to end; it waits for a
// server that is not there yet.

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "client/blocking.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

// For anything between two emulated hosts.
constexpr std::chrono::seconds kPatience{120};
constexpr examples::ConnectionShape kShape = {.receives = 1, .message_size = 64, .patience = kPatience};
constexpr std::string_view kMessage = "all is well";
constexpr std::string_view kEnd = "that is all";

struct Options {
  std::string role;
  std::string socket;
  std::string device;
  std::string address;
  std::string source = "0.0.0.0:0";
  int count = 1;
  int at_once = 1;
};

using Bytes = std::vector<uint8_t>;

Bytes AsBytes(std::string_view text) { return {text.begin(), text.end()}; }

// How many connections have ended in each way. Any thread.
class Ends {
 public:
  void Count(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    ++counts_[status.ok() ? "success" : std::string(status.message())];
  }
  void Print() {
    const std::lock_guard lock(mutex_);
    for (const auto& [end, count] : counts_) std::cout << count << " " << end << std::endl;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> counts_;  // Guarded by mutex_.
};

// One connection's work at the server. `over` becomes true where the client says that it is.
absl::Status Echo(examples::Connection& connection, std::shared_ptr<client::Connector> connector,
                  std::atomic<bool>& over) {
  if (absl::Status accepted = connection.Accept(std::move(connector)); !accepted.ok()) return accepted;
  const absl::StatusOr<Bytes> message = connection.Receive();
  if (!message.ok()) return message.status();
  if (*message == AsBytes(kEnd)) over = true;
  if (absl::Status sent = connection.Send(*message); !sent.ok()) return sent;
  if (absl::Status ended = connection.AwaitDisconnect(); !ended.ok()) return ended;
  return connection.Disconnect();
}

absl::Status Serve(const std::shared_ptr<client::Adapter>& adapter, const SocketAddress& address) {
  auto [listening, listener] = client::BlockingListener::Listen(adapter, address);
  if (!listening.ok()) return examples::Report("listen", listening);
  std::atomic<bool> over = false;
  Ends ends;
  std::vector<std::thread> echoes;
  while (!over) {
    auto [arrived, requested] = listener->Next(std::chrono::milliseconds(100));
    if (!arrived.ok() && arrived.status != NdkStatus::kIoTimeout) return examples::Report("listener", arrived);
    if (!arrived.ok()) continue;
    echoes.emplace_back([&adapter, &over, &ends, connector = requested] {
      const auto connection = examples::Connection::Make(adapter, kShape);
      ends.Count(connection.ok() ? Echo(**connection, connector, over) : connection.status());
    });
  }
  for (std::thread& echo : echoes) echo.join();
  ends.Print();
  return absl::OkStatus();
}

absl::Status Attempt(const std::shared_ptr<client::Adapter>& adapter, const SocketAddress& source,
                     const SocketAddress& server, std::string_view text) {
  const auto connection = examples::Connection::Make(adapter, kShape);
  if (!connection.ok()) return connection.status();
  if (absl::Status connected = (*connection)->Connect(source, server); !connected.ok()) return connected;
  if (absl::Status sent = (*connection)->Send(AsBytes(text)); !sent.ok()) return sent;
  const absl::StatusOr<Bytes> echo = (*connection)->Receive();
  if (!echo.ok()) return echo.status();
  if (*echo != AsBytes(text)) return absl::DataLossError("another message came back");
  return (*connection)->Disconnect();
}

// Until `enough` of an attempt, or the patience is over.
absl::Status Insist(const std::function<bool(const absl::Status&)>& enough,
                    const std::shared_ptr<client::Adapter>& adapter, const SocketAddress& source,
                    const SocketAddress& server, std::string_view text) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  absl::Status status;
  do {
    status = Attempt(adapter, source, server, text);
  } while (!enough(status) && std::chrono::steady_clock::now() < end);
  return status;
}

absl::Status MakeAttempts(const std::shared_ptr<client::Adapter>& adapter, const SocketAddress& source,
                          const SocketAddress& server, const Options& options) {
  const auto succeeds = [](const absl::Status& status) { return status.ok(); };
  if (absl::Status begun = Insist(succeeds, adapter, source, server, kMessage); !begun.ok()) return begun;
  std::atomic<int> left = options.count;
  Ends ends;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.at_once; ++i) {
    threads.emplace_back([&] {
      while (--left >= 0) ends.Count(Attempt(adapter, source, server, kMessage));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends.Print();
  // Where the echo of an earlier attempt is lost, the server is gone all the same.
  const auto is_gone = [](const absl::Status& status) {
    return status.ok() || absl::StrContains(status.message(), std::string(StatusName(NdkStatus::kConnectionRefused)));
  };
  const absl::Status ended = Insist(is_gone, adapter, source, server, kEnd);
  return is_gone(ended) ? absl::OkStatus() : ended;
}

absl::Status Run(const Options& options) {
  const auto address = SocketAddress::Parse(options.address);
  const auto source = SocketAddress::Parse(options.source);
  if (!address || !source) return absl::InvalidArgumentError("--address and --source are IP:PORT");
  const auto device = examples::OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  absl::Status result = options.role == "server" ? Serve(device->adapter, *address)
                                                 : MakeAttempts(device->adapter, *source, *address, options);
  client::BlockingClose(device->adapter);
  return result;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  rdmabroker::Options options;
  CLI::App app{"Many short connections between two hosts."};
  app.add_option("role", options.role)->required()->check(CLI::IsMember({"server", "client"}));
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--device", options.device, "The device")->required();
  app.add_option("--address", options.address, "The server's: IP:PORT")->required();
  app.add_option("--source", options.source, "The client's own: IP:0")->capture_default_str();
  app.add_option("--count", options.count, "Attempts")->capture_default_str();
  app.add_option("--at-once", options.at_once, "Of them")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = rdmabroker::Run(options);
  if (!result.ok()) std::cerr << "echo: " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}
