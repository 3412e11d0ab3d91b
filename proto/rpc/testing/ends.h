// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_TESTING_ENDS_H_
#define PROTO_RPC_TESTING_ENDS_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "proto/rpc/client_connection.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker::rpc {

inline const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

inline const Methods& TestMethods() {
  static const Methods kMethods = {{"/test/One", Requests::kOne}, {"/test/Many", Requests::kMany}};
  return kMethods;
}

// Takes all that `end` has to say, in pieces as TakeOutput gives them.
template <typename End>
std::string AllOutput(End& end) {
  std::string all;
  while (end.HasOutput()) all += end.TakeOutput();
  return all;
}

// Gives `octets` to `end`, a turn at a time.
template <typename End>
void Give(End& end, std::string_view octets, absl::Time now) {
  while (!octets.empty()) {
    const size_t read = end.Receive(octets, now);
    if (read == 0) return;
    octets.remove_prefix(read);
  }
}

template <typename Event, typename End>
std::vector<Event> AllEvents(End& end) {
  std::vector<Event> events;
  while (auto event = end.NextEvent()) events.push_back(std::move(*event));
  return events;
}

// A client and a server, and what lies on the way between them.
struct Ends {
  explicit Ends(const ServerConnection::Limits& limits = {}, const ClientConnection::Limits& client_limits = {})
      : server(TestMethods(), limits, budget, kStart), client(client_limits) {
    Exchange();
  }

  // Carries octets until neither end has any.
  void Exchange() {
    while (client.HasOutput() || server.HasOutput()) {
      Give(server, client.TakeOutput(), now);
      Give(client, server.TakeOutput(), now);
    }
  }
  void CarryToClient() { Give(client, server.TakeOutput(), now); }
  // The next event of an end, after an exchange; it must be of this kind, but for what says that something was sent.
  template <typename Event>
  Event Server() {
    Exchange();
    return Next<Event, RepliesSent, ServerEvent>(server);
  }
  template <typename Event>
  Event Client() {
    Exchange();
    return Next<Event, RequestsSent, ClientEvent>(client);
  }
  CallId Begin(std::string path, std::optional<absl::Duration> timeout = std::nullopt) {
    return client.Begin({.path = std::move(path), .timeout = timeout}, now);
  }
  // A whole call of one request.
  CallId Ask(std::string_view request) {
    const CallId call = Begin("/test/One");
    client.Send(call, request);
    client.EndRequests(call);
    return call;
  }

  template <typename Event, typename Sent, typename AnyEvent, typename End>
  static Event Next(End& end) {
    while (true) {
      AnyEvent event = end.NextEvent().value();
      if (std::holds_alternative<Event>(event) || !std::holds_alternative<Sent>(event)) return std::get<Event>(event);
    }
  }

  absl::Time now = kStart;
  FrameBudget budget{{}, kStart};
  ServerConnection server;
  ClientConnection client;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_TESTING_ENDS_H_
