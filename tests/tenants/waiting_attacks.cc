// SPDX-License-Identifier: Apache-2.0

// What waits, and what has it wait: clients that do not read, do not write, or do not speak.

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/rdmabroker/v1/inspection.pb.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/testing/frames.h"
#include "tests/random_seed.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"
#include "tests/tenants/hostile_session.h"

namespace rdmabroker::tenants {
namespace {

using Reading = HostileConnection::Reading;

constexpr char kAdapters[] = "/rdmabroker.v1.Inspection/ListAdapters";
// Of a connection's 128.
constexpr size_t kCalls = 120;
// That stay open: what a busy broker reads of them at once is no flood.
constexpr double kCallsASecond = 5000;

// Many calls whose replies wait for windows, which stay shut.
void ShutWindows(Attacker& attacker) {
  const auto connect = [](Attacker& by) { return HostileConnection::Connect(by, OpeningWith(0)); };
  const auto send = [&attacker](HostileConnection& client) {
    if (client.open() >= kCalls || !attacker.MayCall(kCallsASecond)) return false;
    client.Call(kAdapters, "");
    return true;
  };
  Run(attacker, {.connect = connect, .send = send, .connections = 64});
}

// The same, but the windows open octet by octet, as often as calls earn it.
void WindowsOfAnOctet(Attacker& attacker) {
  constexpr double kASecond = 1500;  // Each takes one back, and fewer of these are allowed.
  constexpr int kOctets = 4;
  const auto connect = [](Attacker& by) { return HostileConnection::Connect(by, OpeningWith(1)); };
  const auto send = [&attacker](HostileConnection& client) {
    if (!attacker.MayCall(kASecond)) return false;
    if (client.open() >= kCalls) client.Cancel(client.first_open());
    client.Call(kAdapters, "");
    const std::string update = rpc::Frame(NGHTTP2_WINDOW_UPDATE, 0, client.first_open(), rpc::BigEndian(1, 4));
    for (int i = 0; i < kOctets; ++i) client.Send(update);
    return true;
  };
  Run(attacker, {.connect = connect, .send = send});
}

// As many long lists as connections may ask for, unread.
void UnreadLists(Attacker& attacker) {
  const auto client = HostileConnection::Connect(attacker);
  const auto session = client == nullptr ? nullptr : SessionWithConnectors(*client, 1000);
  if (session == nullptr) return;
  v1::ListConnectorsRequest request;
  request.mutable_page()->set_limit(1000);
  const auto connect = [](Attacker& by) { return HostileConnection::Connect(by, WideOpening(), Reading::kNothing); };
  const auto send = [&](HostileConnection& unread) {
    if (unread.open() >= kCalls || !attacker.MayCall(kCallsASecond)) return false;
    unread.Call("/rdmabroker.v1.Inspection/ListConnectors", request.SerializeAsString());
    return true;
  };
  Run(attacker, {.connect = connect, .send = send, .connections = 64});
}

// Of rows that change all the time.
void UnreadWatches(Attacker& attacker) {
  constexpr size_t kWatches = 8;  // Of a user.
  const auto client = HostileConnection::Connect(attacker);
  const auto session = client == nullptr ? nullptr : SessionWithConnectors(*client, 1000);
  if (session == nullptr) return;
  std::vector<std::unique_ptr<HostileConnection>> watches;
  for (size_t i = 0; i < kWatches; ++i) {
    auto watch = HostileConnection::Connect(attacker, OpeningWith(0));
    if (watch == nullptr) continue;
    watch->Call("/rdmabroker.v1.Inspection/Watch", "");
    watches.push_back(std::move(watch));
  }
  const uint64_t adapter = session->OpenAdapter();
  while (attacker.GoesOn()) {
    v1::CloseConnectorRequest close;
    close.set_connector_id(session->CreateConnector(adapter));
    session->Ask("CloseConnector", close);
    attacker.Count("rows");
    ExchangeAll(watches);
    attacker.SetsOn();
  }
}

constexpr int kSlowCalls = 100;

// Calls that come octet by octet, on many connections.
void SlowWriters(Attacker& attacker) {
  struct Writer {
    std::unique_ptr<HostileConnection> client;
    size_t at = 0;
  };
  const std::string call = WideOpening() + rpc::HeadersFrame(1, rpc::CallHeaders(kAdapters)) +
                           rpc::DataFrame(1, rpc::Framed(""), NGHTTP2_FLAG_END_STREAM);
  std::vector<Writer> writers(256);
  int calls = 0;
  while (attacker.GoesOn()) {
    for (auto& [client, at] : writers) {
      if (at == call.size()) {
        attacker.Count("calls");
        ++calls;
      }
      if (client == nullptr || client->over() || at == call.size()) {
        client = HostileConnection::Connect(attacker, "");
        at = 0;
      }
      if (client == nullptr) continue;
      client->Send(call.substr(at++, 1));
      client->Exchange();
    }
    if (calls >= kSlowCalls) attacker.SetsOn();
  }
}

constexpr size_t kUnfinished = 64;

// The last octet of each is missing. Under way once the broker has ended a connection, as it holds too much of them.
// No message is sent before each connection has had an answer. While the broker reads the messages of some connections,
// others wait, and it would end those without a call as silent.
void UnfinishedMessages(Attacker& attacker) {
  std::set<const HostileConnection*> answered;
  const auto connect = [&answered](Attacker& by) {
    if (answered.size() >= kUnfinished) by.SetsOn();
    return HostileConnection::Connect(by);
  };
  const std::string message(65'536, 'm');
  const auto send = [&](HostileConnection& client) {
    if (!client.HasSettings() || client.open() >= kCalls || !attacker.MayCall(kCallsASecond)) return false;
    if (client.begun() == 0) client.Call("/grpc.health.v1.Health/Check", "");
    if (!client.IsOpen(1)) answered.insert(&client);
    if (answered.size() < kUnfinished) return false;
    client.CallAtLength("/rdmabroker.v1.Broker/OpenAdapter", message, false);
    return true;
  };
  Run(attacker, {.connect = connect, .send = send, .connections = kUnfinished, .octets = UINT64_MAX});
}

// More than a user may have, which say nothing, or not enough.
void IdleConnections(Attacker& attacker) {
  Hold(attacker, 2200, [](Attacker& by) { return HostileConnection::Connect(by, ""); });
}

void HalfPrefaces(Attacker& attacker) {
  Hold(attacker, 1000, [](Attacker& by) { return HostileConnection::Connect(by, "PRI * HTTP/2"); });
}

// As fast as it can.
void Connects(Attacker& attacker) {
  const auto connect = [&attacker] {
    while (attacker.GoesOn()) {
      const UniqueFd socket = attacker.ConnectToUnix(attacker.places().control_socket, SOCK_STREAM);
      attacker.Count(socket ? "connections" : "not connected");
      attacker.SetsOn();
    }
  };
  std::thread other(connect);
  connect();
  other.join();
}

// What is no HTTP/2, or begins as such.
void Noise(Attacker& attacker) {
  const uint64_t seed = RandomSeed();
  attacker.Count("seed", seed);
  std::mt19937_64 random(seed);
  const auto some = [&random] {
    std::string octets(1024, '\0');
    std::generate(octets.begin(), octets.end(), [&] { return static_cast<char>(random()); });
    return octets;
  };
  const auto connect = [&](Attacker& by) {
    return HostileConnection::Connect(by, random() % 2 == 0 ? WideOpening() : "");
  };
  Run(attacker, {.connect = connect, .send = [&](HostileConnection& client) {
                   client.Send(some());
                   return true;
                 }});
}

}  // namespace

std::vector<Attack> WaitingAttacks() {
  return {
      {"ShutWindows", ShutWindows, {{"connections", 64}, {"octets", 100'000}, {"replies", 0, 0}}},
      {"WindowsOfAnOctet", WindowsOfAnOctet, {{"replies", 500}}},
      {"UnreadLists", UnreadLists, {{"connections", 65}, {"octets", 100'000}}},
      {"UnreadWatches", UnreadWatches, {{"connections", 9}, {"rows", 10}}},
      {"SlowWriters", SlowWriters, {{"connections", 256}, {"calls", kSlowCalls}}},
      {"UnfinishedMessages",
       UnfinishedMessages,
       {{"connections", kUnfinished + 1}, {"octets", 60'000'000}, {"ended"}},
       1,
       true},
      {"IdleConnections", IdleConnections, {{"connections", 2048}, {"ended", 100}}},
      {"HalfPrefaces", HalfPrefaces, {{"connections", 1000}}},
      {"Connects", Connects, {{"connections", 1000}}},
      {"Noise", Noise, {{"octets", 100'000}, {"ended", 100}}},
  };
}

}  // namespace rdmabroker::tenants
