// SPDX-License-Identifier: Apache-2.0

// Requests that are lawful one by one: sessions, lists and watches.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/unique_fd.h"
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

// Opens a session, has a child that keeps all its descriptors, and waits to be killed. The child tells by `told` when
// it hears that the session has ended.
[[noreturn]] void BeKilled(Attacker& attacker, const UniqueFd& told) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  const auto client = HostileConnection::Connect(attacker);
  const auto session = client == nullptr ? nullptr : SessionWithConnectors(*client, 8);
  if (session == nullptr) std::_Exit(1);
  const bool is_child = ::fork() == 0;
  const char word = is_child ? 'e' : 'o';
  const bool says = !is_child || client->Until([&] { return client->open() == 0; });
  if (!says || ::write(told.get(), &word, 1) != 1 || is_child) std::_Exit(0);
  while (true) ::pause();
}

constexpr int kKilled = 3;
constexpr int kLookMs = 10;

// Processes that are killed while their children live and have all their descriptors.
void KilledParents(Attacker& attacker) {
  for (int killed = 1; attacker.GoesOn(); ++killed) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const UniqueFd heard(ends[0]);
    UniqueFd told(ends[1]);
    const pid_t parent = ::fork();
    if (parent == 0) BeKilled(attacker, told);
    told.Reset();
    char word = 0;
    if (::read(heard.get(), &word, 1) == 1 && word == 'o') attacker.Count("sessions");
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    pollfd ready = {heard.get(), POLLIN, 0};
    while (attacker.GoesOn() && ::poll(&ready, 1, kLookMs) == 0) {
    }
    if (ready.revents != 0 && ::read(heard.get(), &word, 1) == 1 && word == 'e') {
      attacker.Count("ended with their processes");
    }
    ::kill(-parent, SIGKILL);
    if (killed >= kKilled) attacker.SetsOn();
  }
}

}  // namespace

std::vector<Attack> SessionAttacks() {
  constexpr uint64_t kOctets = 10'000;
  return {
      {"SessionsComeAndGo", SessionsComeAndGo, {{"octets", kOctets}, {"status 0"}}},
      {"RefusedRequests", RefusedRequests, {{"sessions", 32, 32}, {"octets", 32 * 65'000}, {"status 3", 32}}},
      {"Lists", Lists, {{"replies", 1000}, {"ended", 0, 0}}},
      {"ListsOfAdapters", ListsOfAdapters, {{"replies", 1000}, {"ended", 0, 0}}},
      {"HealthChecks", HealthChecks, {{"replies", 1000}, {"ended", 0, 0}}},
      {"Watches", Watches, {{"replies"}, {"octets", kOctets}}},
      {"HealthWatches", HealthWatches, {{"replies", 100}, {"octets", kOctets}}},
      {"KilledParents", KilledParents, {{"sessions", kKilled}, {"ended with their processes", kKilled}}},
  };
}

}  // namespace rdmabroker::tenants
