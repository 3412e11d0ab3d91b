// SPDX-License-Identifier: Apache-2.0

// Requests that are lawful one by one: sessions, lists and watches.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/rdmabroker/v1/inspection.pb.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"
#include "tests/tenants/hostile_session.h"

namespace rdmabroker::tenants {
namespace {

constexpr char kInspection[] = "/rdmabroker.v1.Inspection/";
// Of a connection's 128.
constexpr size_t kCalls = 120;
// Connections that all have work at a time: together more than a user's share of a turn.
constexpr size_t kMany = 32;

// Connections of one user with sessions on each, which are all open.
struct Sessions {
  Sessions(Attacker& attacker, size_t connections, size_t on_each, const std::vector<std::string>& features = {}) {
    for (size_t i = 0; i < connections; ++i) {
      auto client = HostileConnection::Connect(attacker);
      if (client == nullptr) continue;
      const size_t begin = all.size();
      for (size_t k = 0; k < on_each; ++k) all.push_back(std::make_unique<HostileSession>(*client, features));
      for (size_t k = begin; k < all.size(); ++k) attacker.Count("sessions", all[k]->Opens() ? 1 : 0);
      clients.push_back(std::move(client));
    }
  }
  std::vector<std::unique_ptr<HostileConnection>> clients;
  std::vector<std::unique_ptr<HostileSession>> all;
};

// Opened and closed at once.
void SessionsComeAndGo(Attacker& attacker) {
  v1::SessionRequest open;
  open.mutable_open()->set_api_minor(1);
  v1::SessionRequest close;
  close.mutable_close();
  Run(attacker,
      {.send = [open = open.SerializeAsString(), close = close.SerializeAsString()](HostileConnection& client) {
        if (client.open() >= kCalls) return false;
        const int32_t stream = client.Begin(kSessionPath);
        client.Message(stream, open);
        client.Message(stream, close);
        return true;
      }});
}

// As many as a user may have, each of which has all the answers that are kept, and acknowledges no event.
void SessionsThatKeepAll(Attacker& attacker) {
  Sessions sessions(attacker, 32, 32);
  v1::OpenAdapterRequest unknown;
  unknown.set_device(std::string(63, 'x'));
  v1::ConnectRequest connect;
  connect.set_qp_number(1);
  connect.mutable_destination()->set_ip("\x7f\0\0\1", 4);
  connect.mutable_destination()->set_port(1);
  connect.set_private_data(std::string(500, 'p'));
  std::vector<uint64_t> connectors;
  for (const auto& session : sessions.all) {
    connectors.push_back(session->CreateConnector(session->OpenAdapter()));
    attacker.SetsOn();
  }
  if (connectors.empty()) return;
  const auto count_events = [&](HostileSession& session) {
    while (const auto reply = session.Next()) attacker.Count("events", reply->has_event() ? 1 : 0);
  };
  // A refused request is an answer, a refused connection an event. Each session has one of both, whatever time it
  // takes.
  for (size_t i = 0; i < connectors.size() || attacker.GoesOn(); ++i) {
    const size_t one = i % connectors.size();
    connect.set_connector_id(connectors[one]);
    connect.set_qp_number(static_cast<uint32_t>(1 + one));
    sessions.all[one]->Ask("OpenAdapter", unknown);
    sessions.all[one]->Ask("Connect", connect);
    count_events(*sessions.all[one]);
  }
  for (const auto& session : sessions.all) {
    session->Ask("OpenAdapter", unknown);
    count_events(*session);
  }
}

// Refused, with as much as a request may have.
void RefusedRequests(Attacker& attacker) {
  Sessions sessions(attacker, 4, 8);
  v1::RejectRequest reject;
  reject.set_connector_id(1);
  reject.set_private_data(std::string(65'000, 'p'));
  while (attacker.GoesOn()) {
    for (const auto& session : sessions.all) session->Start("Reject", reject);
    for (const auto& client : sessions.clients) {
      client->Until([&] { return client->AllSent() && client->open() <= 8; });
    }
    attacker.SetsOn();
  }
}

// Sends the largest batch. `fill` makes each request.
constexpr size_t kOfBatch = 64;
template <typename Fill>
void SendBatch(HostileSession& session, const Fill& fill) {
  v1::SessionRequest message;
  for (size_t i = 0; i < kOfBatch; ++i) {
    v1::BatchedRequest* const request = message.mutable_requests()->add_requests();
    request->set_request_id(session.NewRequest());
    fill(request);
  }
  session.Send(message);
}

// On each of many sessions.
void Batches(Attacker& attacker) {
  Sessions sessions(attacker, kMany, 8, {"requests-on-stream"});
  const auto ask = [](v1::BatchedRequest* request) { request->mutable_get_connection_data()->set_connector_id(1); };
  size_t unanswered = 0;
  while (attacker.GoesOn()) {
    // All at once.
    if (unanswered == 0) {
      for (const auto& session : sessions.all) SendBatch(*session, ask);
      unanswered = kOfBatch * sessions.all.size();
      attacker.SetsOn();
    }
    ExchangeAll(sessions.clients);
    for (const auto& session : sessions.all) {
      while (const auto reply = session->Next()) {
        const auto answers = static_cast<size_t>(reply->batch().answers_size());
        attacker.Count("answers", answers);
        unanswered -= answers;
      }
    }
  }
}

// Sessions with many connectors, which the broker has to close when the session ends.
void LargeSessionsEnd(Attacker& attacker) {
  constexpr size_t kConnectors = 2048;
  v1::SessionRequest close;
  close.mutable_close();
  while (attacker.GoesOn()) {
    Sessions sessions(attacker, 1, 1, {"requests-on-stream"});
    if (sessions.all.empty()) return;
    HostileConnection& client = *sessions.clients.front();
    HostileSession& session = *sessions.all.front();
    const uint64_t adapter = session.OpenAdapter();
    size_t made = 0;
    for (size_t answered = 0; made < kConnectors && attacker.GoesOn(); answered = 0) {
      SendBatch(session, [adapter](auto* request) { request->mutable_create_connector()->set_adapter_id(adapter); });
      client.Until([&] {
        while (const auto reply = session.Next()) {
          answered += static_cast<size_t>(reply->batch().answers_size());
          for (const auto& answer : reply->batch().answers()) made += answer.outcome().has_connector_created() ? 1 : 0;
        }
        return answered >= kOfBatch;
      });
    }
    attacker.Count("connectors", made);
    session.Send(close);
    client.Until([&] { return client.open() == 0; });
    attacker.SetsOn();
  }
}

// Calls of one request, on many connections at once: almost as many a second as a user may make.
void CallAtOnce(Attacker& attacker, const std::string& path, const std::string& request) {
  constexpr int kEach = 30;
  constexpr double kASecond = 40'000;
  std::vector<std::unique_ptr<HostileConnection>> clients(kMany);
  for (auto& client : clients) client = HostileConnection::Connect(attacker);
  const auto is_ready = [](const auto& client) { return client != nullptr && client->open() == 0; };
  while (attacker.GoesOn()) {
    if (std::all_of(clients.begin(), clients.end(), is_ready) && attacker.MayCall(kASecond, kEach * kMany)) {
      for (const auto& client : clients) {
        for (int i = 0; i < kEach; ++i) client->Call(path, request);
      }
      attacker.SetsOn();
    }
    ExchangeAll(clients);
  }
}

// Of a user who sees no row of theirs.
void Lists(Attacker& attacker) {
  v1::ListConnectorsRequest request;
  request.mutable_page()->set_limit(1000);
  CallAtOnce(attacker, std::string(kInspection) + "ListConnectors", request.SerializeAsString());
}

void ListsOfAdapters(Attacker& attacker) { CallAtOnce(attacker, std::string(kInspection) + "ListAdapters", ""); }

void HealthChecks(Attacker& attacker) { CallAtOnce(attacker, "/grpc.health.v1.Health/Check", ""); }

// Opened without end; the oldest goes where there are more than `most` on a connection.
void WatchAndCancel(Attacker& attacker, const std::string& path, size_t most) {
  Run(attacker, {.send = [path, most](HostileConnection& client) {
        if (client.open() >= most) client.Cancel(client.first_open());
        client.Call(path, "");
        return true;
      }});
}

void Watches(Attacker& attacker) { WatchAndCancel(attacker, std::string(kInspection) + "Watch", 2); }
void HealthWatches(Attacker& attacker) { WatchAndCancel(attacker, "/grpc.health.v1.Health/Watch", kCalls); }

}  // namespace

std::vector<Attack> SessionAttacks() {
  constexpr uint64_t kOctets = 10'000;
  return {
      {"SessionsComeAndGo", SessionsComeAndGo, {{"octets", kOctets}, {"status 0"}}},
      {"SessionsThatKeepAll", SessionsThatKeepAll, {{"sessions", 1024, 1024}, {"events", 1000}}},
      {"RefusedRequests", RefusedRequests, {{"sessions", 32, 32}, {"octets", 32 * 65'000}, {"status 3", 32}}},
      {"Batches", Batches, {{"sessions", 256, 256}, {"answers", 64 * 256}}},
      {"LargeSessionsEnd", LargeSessionsEnd, {{"connectors", 2048}}},
      {"Lists", Lists, {{"replies", 1000}, {"ended", 0, 0}}},
      {"ListsOfAdapters", ListsOfAdapters, {{"replies", 1000}, {"ended", 0, 0}}},
      {"HealthChecks", HealthChecks, {{"replies", 1000}, {"ended", 0, 0}}},
      {"Watches", Watches, {{"replies"}, {"octets", kOctets}}},
      {"HealthWatches", HealthWatches, {{"replies", 100}, {"octets", kOctets}}},
  };
}

}  // namespace rdmabroker::tenants
