// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_socket.h"

#include <sys/socket.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/control/connect_rates.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Accepting thread. False also if the kernel does not tell the user.
bool MayEnter(ConnectRates& rates, int socket) {
  const std::optional<Identity> peer = PeerOf(socket);
  return peer && rates.Take(peer->uid, Loop::Now());
}

}  // namespace

ControlSocket::ControlSocket(UniqueFd listener, const Services& services, AcceptingThread& accepting, UserCosts& costs,
                             Loop& loop, Metrics& metrics, const Settings& settings)
    : listener_(std::move(listener)),
      services_(services),
      accepting_(accepting),
      costs_(costs),
      loop_(loop),
      metrics_(metrics),
      settings_(settings) {}

ControlSocket::~ControlSocket() {
  StopAccepting();
  for (const auto& [served, connection] : connections_) loop_.CancelTimer(connection.silence);
}

void ControlSocket::StartAccepting() {
  listening_ =
      accepting_.Accept(std::move(listener_), {.name = "control.sock",
                                               .may_enter = [rates = std::make_shared<ConnectRates>(kConnectRate)](
                                                                int socket) { return MayEnter(*rates, socket); },
                                               .take = [this](UniqueFd socket) { Take(std::move(socket)); },
                                               .refused = [this](uint64_t count) { RefuseHasty(count); }});
}

void ControlSocket::Set(const Settings& settings) {
  settings_ = settings;
  for (auto& [served, connection] : connections_) {
    const auto caller = CallerOf(served->socket(), settings_.administrators);
    if (caller) connection.caller = std::make_shared<Caller>(*caller);
  }
}

void ControlSocket::Take(UniqueFd socket) {
  const auto caller = CallerOf(socket.get(), settings_.administrators);
  if (!caller) return;
  const uid_t uid = caller->identity.uid;
  if (of_user_.of(uid) >= settings_.connections_per_uid) return Refuse(uid);
  const auto served =
      std::make_shared<ServedConnection>(std::move(socket), nullptr, *this, services_,
                                         rpc::ServerConnection::Limits{.calls = settings_.calls}, costs_, uid, loop_);
  of_user_.Enter(uid);
  Connection& connection = connections_[served.get()];
  connection.served = served;
  connection.caller = std::make_shared<Caller>(*caller);
  connection.silence = loop_.StartTimer(Loop::Now() + settings_.silence_timeout, [this, silent = served.get()] {
    metrics_.CountRefusedCaller(CallerRefusal::kSilent);
    silent->End();
  });
  served->Start();
}

void ControlSocket::Refuse(uid_t uid) {
  metrics_.CountRefusedCaller(CallerRefusal::kTooManyConnections);
  if (const auto left_out = too_many_.Pass(Loop::Now())) {
    LogWarning("connection refused",
               {{"uid", uid},
                {"cause", absl::StrCat("the user has ", settings_.connections_per_uid, " already")},
                {"left_out", *left_out}});
  }
}

void ControlSocket::RefuseHasty(uint64_t count) {
  metrics_.CountRefusedCaller(CallerRefusal::kTooManyConnections, count);
  if (const auto left_out = hasty_.Pass(Loop::Now())) {
    LogWarning("connections refused",
               {{"count", count},
                {"cause", absl::StrCat("a user connects more than ", kConnectRate.a_second, " times a second")},
                {"left_out", *left_out}});
  }
}

rpc::Status ControlSocket::Admit(ServedConnection& connection, absl::string_view,
                                 std::shared_ptr<const Caller>* caller) {
  Connection& known = connections_.at(&connection);
  loop_.CancelTimer(std::exchange(known.silence, TimerId::kNone));
  *caller = known.caller;
  return {};
}

void ControlSocket::Exceeds(ServedConnection& connection, absl::string_view cause) {
  metrics_.CountRefusedCaller(CallerRefusal::kExcess);
  if (const auto left_out = excess_.Pass(Loop::Now())) {
    const Identity& client = connections_.at(&connection).caller->identity;
    LogWarning("connection ended",
               {{"uid", client.uid}, {"pid", client.pid}, {"cause", cause}, {"left_out", *left_out}});
  }
}

void ControlSocket::Ended(ServedConnection& connection) {
  const auto known = connections_.extract(&connection);
  loop_.CancelTimer(known.mapped().silence);
  of_user_.Leave(known.mapped().caller->identity.uid);
}

void ControlSocket::Drain() {
  std::vector<std::shared_ptr<ServedConnection>> all;
  for (const auto& [served, connection] : connections_) all.push_back(connection.served);
  for (const auto& served : all) served->Drain();
}

}  // namespace rdmabroker
