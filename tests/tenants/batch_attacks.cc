// SPDX-License-Identifier: Apache-2.0

// Attacks by batches, which get much done in little time.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_session.h"

namespace rdmabroker::tenants {
namespace {

constexpr size_t kOfBatch = 64;

// The core refuses it, so that its answer is kept.
void MakeRefused(v1::BatchedRequest& request) {
  request.mutable_open_adapter()->set_device(std::string(63, 'x'));
  request.mutable_open_adapter()->mutable_version()->set_major(2);
}

class BatchSessions : public Sessions {
 public:
  BatchSessions(Attacker& attacker, size_t connections, size_t on_each)
      : Sessions(attacker, connections, on_each, {"requests-on-stream"}), attacker_(attacker), own_(all.size()) {}

  // Asks by the largest batch in each of these sessions, and waits until the broker has dealt with all of it. `fill`
  // makes each request.
  template <typename Fill>
  void Ask(const std::vector<size_t>& which, const Fill& fill) {
    for (const size_t one : which) {
      v1::SessionRequest message;
      for (size_t i = 0; i < kOfBatch; ++i) {
        v1::BatchedRequest& request = *message.mutable_requests()->add_requests();
        request.set_request_id(own_[one].asked = all[one]->NewRequest());
        fill(one, i, request);
      }
      message.mutable_requests()->set_acknowledged_event(own_[one].acknowledged);
      all[one]->Send(message);
    }
    const auto is_done = [this](size_t one) { return own_[one].taken == own_[one].asked; };
    while (!std::all_of(which.begin(), which.end(), is_done) && attacker_.GoesOn()) Exchange();
  }

  void OpenAdapters() {
    for (size_t one = 0; one < all.size(); ++one) own_[one].adapter = all[one]->OpenAdapter();
  }
  // Creates at most kOfBatch connectors in each of these sessions. The batch's other requests are refused.
  void CreateConnectors(const std::vector<size_t>& which, size_t most = kOfBatch) {
    Ask(which, [&](size_t one, size_t i, v1::BatchedRequest& request) {
      if (i >= most) return MakeRefused(request);
      request.mutable_create_connector()->set_adapter_id(own_[one].adapter);
    });
  }
  // Connects kOfBatch connectors of each of these sessions, from the one at `first` on. Nobody listens at the
  // destination, so each Connect leads to an event.
  void Connect(const std::vector<size_t>& which, size_t first = 0) {
    Ask(which, [&](size_t one, size_t i, v1::BatchedRequest& request) {
      if (first + i >= own_[one].connectors.size()) return MakeRefused(request);
      v1::ConnectRequest& connect = *request.mutable_connect();
      connect.set_connector_id(own_[one].connectors[first + i]);
      connect.set_qp_number(1 + ++queue_pairs_ % 1'000'000);
      connect.mutable_destination()->set_ip("\x7f\0\0\1", 4);
      connect.mutable_destination()->set_port(1);
    });
  }
  // Waits until the session has had `number` events.
  void AwaitEvents(size_t one, uint64_t number) {
    while (own_[one].last_event < number && attacker_.GoesOn()) Exchange();
  }
  // With the next batch.
  void Acknowledge(size_t one) { own_[one].acknowledged = own_[one].last_event; }

  size_t ConnectorsOf(size_t one) const { return own_[one].connectors.size(); }
  uint64_t LastEventOf(size_t one) const { return own_[one].last_event; }
  // Whether the broker has refused a request because the user has reached a limit.
  bool IsFull() const { return is_full_; }

 private:
  struct Own {
    uint64_t adapter = 0;
    std::vector<uint64_t> connectors;
    uint64_t asked = 0;  // Requests up to here.
    uint64_t taken = 0;  // The broker has dealt with those up to here.
    uint64_t last_event = 0;
    uint64_t acknowledged = 0;
  };

  void Exchange() {
    ExchangeAll(clients);
    for (size_t one = 0; one < all.size(); ++one) {
      while (const auto reply = all[one]->Next()) Take(reply->batch(), own_[one]);
    }
  }
  void Take(const v1::ReplyBatch& batch, Own& own) {
    own.taken = batch.requests_taken();
    attacker_.Count("answers", static_cast<uint64_t>(batch.answers_size()));
    attacker_.Count("events", static_cast<uint64_t>(batch.events_size()));
    if (batch.events_size() > 0) own.last_event = batch.events().rbegin()->number();
    for (const v1::BatchedAnswer& answer : batch.answers()) {
      if (answer.outcome().status() == v1::STATUS_INSUFFICIENT_RESOURCES) is_full_ = true;
      if (!answer.outcome().has_connector_created()) continue;
      own.connectors.push_back(answer.outcome().connector_created().connector_id());
      attacker_.Count("connectors");
    }
  }

  Attacker& attacker_;
  std::vector<Own> own_;  // One for each of `all`.
  uint32_t queue_pairs_ = 0;
  bool is_full_ = false;
};

// Sends the largest batches on many sessions at once.
void Batches(Attacker& attacker) {
  BatchSessions sessions(attacker, 32, 8);
  std::vector<size_t> all(sessions.all.size());
  std::iota(all.begin(), all.end(), 0);
  while (attacker.GoesOn()) {
    sessions.Ask(all,
                 [](size_t, size_t, auto& request) { request.mutable_get_connection_data()->set_connector_id(1); });
    attacker.SetsOn();
  }
}

// Opens as many sessions as a user may have. Each has all the answers that the broker keeps, and events that it never
// acknowledges, until their user may have no more. They end together, with the attack.
void SessionsThatKeepAll(Attacker& attacker) {
  constexpr size_t kClients = 32, kOnEach = 32, kConnectors = 8;
  BatchSessions sessions(attacker, kClients, kOnEach);
  if (sessions.all.size() < kClients * kOnEach) return;
  sessions.OpenAdapters();
  // One session of each connection at a time, for which the broker's windows have room.
  const auto for_all = [&](const auto& ask) {
    for (size_t k = 0; k < kOnEach; ++k) {
      std::vector<size_t> which;
      for (size_t client = 0; client < kClients; ++client) which.push_back(kOnEach * client + k);
      ask(which);
    }
  };
  for_all([&](const auto& which) { sessions.CreateConnectors(which, kConnectors); });
  while (attacker.GoesOn()) {
    for_all([&](const auto& which) { sessions.Connect(which); });
    if (sessions.IsFull()) attacker.SetsOn();
  }
}

// Opens a session with many connectors and many events, acknowledges all these events at once, has as many again, and
// ends the session.
void LargeSessionsEnd(Attacker& attacker) {
  constexpr size_t kConnectors = 2048;
  constexpr uint64_t kEvents = 4 * kConnectors;
  v1::SessionRequest close;
  close.mutable_close();
  while (attacker.GoesOn()) {
    BatchSessions sessions(attacker, 1, 1);
    if (sessions.all.empty()) return;
    sessions.OpenAdapters();
    while (sessions.ConnectorsOf(0) < kConnectors && attacker.GoesOn()) sessions.CreateConnectors({0});
    for (const uint64_t enough : {kEvents, 2 * kEvents}) {
      while (sessions.LastEventOf(0) < enough && attacker.GoesOn()) {
        const uint64_t before = sessions.LastEventOf(0);
        for (size_t first = 0; first < kConnectors; first += kOfBatch) sessions.Connect({0}, first);
        sessions.AwaitEvents(0, before + kConnectors);
      }
      if (enough == kEvents) sessions.Acknowledge(0);
    }
    sessions.all.front()->Send(close);
    sessions.clients.front()->Until([&] { return sessions.clients.front()->open() == 0; });
    attacker.SetsOn();
  }
}

}  // namespace

std::vector<Attack> BatchAttacks() {
  return {
      {"Batches", Batches, {{"sessions", 256, 256}, {"answers", 64 * 256}}},
      {"SessionsThatKeepAll",
       SessionsThatKeepAll,
       {{"sessions", 1024, 1024}, {"answers", (64 + 56) * 1024}, {"events", 8 * 1024}}},
      {"LargeSessionsEnd", LargeSessionsEnd, {{"connectors", 2048}, {"events", 4 * 2048}}},
  };
}

}  // namespace rdmabroker::tenants
