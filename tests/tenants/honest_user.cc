// SPDX-License-Identifier: Apache-2.0

// A user who depends on the broker: connections of a device with itself, all of which carry messages with sums all the
// time, and a watch of what it has.
//
//   honest_user --socket SOCKET --device DEVICE --address IP --connections N --uid UID
//
// Prints "listens at IP:PORT", then "established". Then it takes lines. "rounds N": makes so many rounds and prints
// "rounds N". A round is a new session, a connection by the listener that carries a text there and back, and its end,
// and the watch tells of both: kRequests requests, 20 of them a second. "latency N": makes so many requests without a
// pause and prints "latency P50 P99", in ns. At the end of its input it closes all and prints what it has seen. Where
// anything fails, it says so and ends. Exit status: 0 where nothing was lost.

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "dataplane/ndk/socket_address.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/descriptor_limit.h"
#include "tests/service/busy_crowd.h"
#include "tests/service/chatter.h"
#include "tests/service/crowd.h"
#include "tests/tenants/become_user.h"

namespace rdmabroker::service {
namespace {

using Clock = std::chrono::steady_clock;

// Of a round: OpenSession, ListAdapters, OpenAdapter, CloseAdapter and CloseSession; CreateConnector, Connect,
// CompleteConnect, Disconnect and CloseConnector; Accept, Disconnect and CloseConnector.
constexpr int kRequests = 13;
constexpr std::chrono::milliseconds kRound{1000 * kRequests / 20};
// For what must happen, on a machine that is slow.
constexpr std::chrono::seconds kPatience{60};
constexpr examples::ConnectionShape kShape = {.message_size = 64, .patience = kPatience};

void Check(const absl::Status& status, const char* what) {
  if (!status.ok()) Fail(std::string(what) + ": " + status.ToString());
}
template <typename Value>
Value Taken(absl::StatusOr<Value> value, const char* what) {
  Check(value.status(), what);
  return *std::move(value);
}

// What a watch says that its user has. It must not end.
class RowWatch {
 public:
  explicit RowWatch(const std::string& socket)
      : stub_(v1::Inspection::NewStub(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()))) {
    v1::WatchRequest request;
    request.add_kinds(v1::ROW_KIND_CONNECTOR);
    stream_ = stub_->Watch(&context_, request);
    reader_ = std::thread([this] { Read(); });
  }
  ~RowWatch() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    context_.TryCancel();
    reader_.join();
  }
  RowWatch(const RowWatch&) = delete;
  RowWatch& operator=(const RowWatch&) = delete;

  void AwaitConnectors(size_t count) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kPatience, [&] { return connectors_.size() == count; })) return;
    Fail("the watch tells of " + std::to_string(connectors_.size()) + " connectors, not of " + std::to_string(count));
  }

 private:
  void Read() {
    v1::WatchReply reply;
    while (stream_->Read(&reply)) {
      const std::lock_guard lock(mutex_);
      if (reply.begins() && std::exchange(begun_, true)) Fail("the watch begins again");
      for (const v1::RowChange& change : reply.changes()) Take(change);
      changed_.notify_all();
    }
    const grpc::Status status = stream_->Finish();
    const std::lock_guard lock(mutex_);
    if (!cancelled_) Fail("the watch has ended: " + status.error_message());
  }
  void Take(const v1::RowChange& change) {
    const uint64_t id = change.connector().connector_id();
    if (change.fate() == v1::ROW_FATE_REMOVED) {
      connectors_.erase(id);
    } else {
      connectors_.insert(id);
    }
  }

  const std::unique_ptr<v1::Inspection::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchReply>> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> connectors_;  // Guarded by mutex_, as the next two.
  bool begun_ = false;
  bool cancelled_ = false;
  std::thread reader_;
};

// What it does again and again.
class Rounds {
 public:
  Rounds(const BusyCrowd::Shape& shape, const IpAddress& ip)
      : shape_(shape), ip_(ip), server_(Taken(examples::OpenDevice(shape.socket, shape.device), "a session")) {
    auto [listening, listener] = client::BlockingListener::Listen(server_.adapter, {ip, 0});
    Check(examples::Report("listen", listening), "a listener");
    listener_ = std::move(listener);
  }
  ~Rounds() {
    listener_ = nullptr;
    client::BlockingClose(server_.adapter);
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  SocketAddress address() const { return listener_->address(); }

  // So many. `others` is how many connectors there are besides.
  void Make(int count, RowWatch& watch, size_t others) {
    Clock::time_point begin = Clock::now();
    for (int i = 0; i < count; ++i, begin += kRound) {
      std::this_thread::sleep_until(begin);
      MakeOne(watch, others);
      ++made_;
    }
  }

  // The time that each of so many requests takes, in ascending order.
  std::vector<std::chrono::nanoseconds> Time(size_t count) {
    std::vector<std::chrono::nanoseconds> times;
    while (times.size() < count) {
      const Clock::time_point begin = Clock::now();
      const auto [outcome, devices] = client::BlockingListAdapters(*server_.session);
      Check(examples::Report("list", outcome), "a request");
      times.push_back(Clock::now() - begin);
    }
    std::sort(times.begin(), times.end());
    return times;
  }

  int made() const { return made_; }

 private:
  void MakeOne(RowWatch& watch, size_t others) {
    std::thread serving([this] { Serve(); });
    const examples::OpenedDevice device = Taken(examples::OpenDevice(shape_.socket, shape_.device), "a session");
    {
      const auto connection = Taken(examples::Connection::Make(device.adapter, kShape), "a queue pair");
      Check(connection->Connect({ip_, 0}, listener_->address()), "connect");
      watch.AwaitConnectors(others + 2);
      Check(connection->ExpectEcho("round " + std::to_string(made_)), "a text there and back");
      Check(connection->Disconnect(), "disconnect");
    }
    serving.join();
    watch.AwaitConnectors(others);
    client::BlockingClose(device.adapter);
  }
  void Serve() {
    auto [arrived, connector] = listener_->Next(kPatience);
    Check(examples::Report("next", arrived), "nobody connects");
    const auto connection = Taken(examples::Connection::Make(server_.adapter, kShape), "a queue pair");
    Check(connection->Accept(std::move(connector)), "accept");
    Check(connection->Echo().status(), "the listener's end");
    Check(connection->Disconnect(), "disconnect");
  }

  const BusyCrowd::Shape& shape_;
  const IpAddress ip_;
  const examples::OpenedDevice server_;
  std::unique_ptr<client::BlockingListener> listener_;
  int made_ = 0;
};

void PrintQuantiles(const std::vector<std::chrono::nanoseconds>& times) {
  std::cout << "latency " << times[times.size() / 2].count() << " " << times[times.size() * 99 / 100].count()
            << std::endl;
}

void Obey(Rounds& rounds, RowWatch& watch, size_t connectors, Chatter& chatter) {
  std::string word;
  while (std::cin >> word) {
    int count = 0;
    std::cin >> count;
    if (word == "latency") {
      PrintQuantiles(rounds.Time(static_cast<size_t>(count)));
    } else {
      rounds.Make(count, watch, connectors);
      if (!chatter.CarryOn()) Fail("connections stand still");
      std::cout << "rounds " << count << std::endl;
    }
  }
}

int Run(const BusyCrowd::Shape& shape) {
  BusyCrowd crowd(shape);
  int made = 0;
  {
    Rounds rounds(shape, crowd.ip());
    RowWatch watch(shape.socket);
    watch.AwaitConnectors(2 * shape.connections);
    std::cout << "listens at " << rounds.address().ToString() << "\nestablished" << std::endl;
    Obey(rounds, watch, 2 * shape.connections, crowd.chatter());
    made = rounds.made();
  }
  std::cout << made << " rounds" << std::endl;
  return crowd.Finish();
}

}  // namespace
}  // namespace rdmabroker::service

int main(int argc, char** argv) {
  rdmabroker::service::BusyCrowd::Shape shape{.connections = 100};
  uid_t uid = 0;
  CLI::App app{"A user who depends on the broker."};
  app.add_option("--socket", shape.socket, "The broker's control socket")->required();
  app.add_option("--device", shape.device, "The device")->required();
  app.add_option("--address", shape.address, "One of its addresses")->required();
  app.add_option("--connections", shape.connections, "How many")->capture_default_str();
  app.add_option("--uid", uid, "Who it is")->required();
  CLI11_PARSE(app, argc, argv);
  shape.busy = shape.connections;
  rdmabroker::RaiseDescriptorLimit();
  rdmabroker::tenants::BecomeUser(uid);
  return rdmabroker::service::Run(shape);
}
