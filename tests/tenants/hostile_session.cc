// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/hostile_session.h"

#include <utility>

namespace rdmabroker::tenants {

HostileSession::HostileSession(HostileConnection& client, const std::vector<std::string>& features) : client_(client) {
  v1::SessionRequest first;
  first.mutable_open()->set_api_minor(1);
  first.mutable_open()->mutable_features()->Add(features.begin(), features.end());
  stream_ = client_.Begin(kSessionPath);
  client_.Keep(stream_);
  Send(first);
}

bool HostileSession::Opens() {
  std::optional<v1::SessionReply> reply;
  client_.Until([&] {
    reply = Next();
    return reply.has_value() || !client_.IsOpen(stream_);
  });
  // Requests of any length need the broker's windows.
  if (reply.has_value()) client_.Until([&] { return client_.HasSettings(); });
  id_ = reply.has_value() ? reply->opened().session_id() : 0;
  return id_ != 0;
}

std::optional<v1::SessionReply> HostileSession::Next() {
  const std::optional<std::string> message = client_.TakeMessage(stream_);
  v1::SessionReply reply;
  if (!message || !reply.ParseFromString(*message)) return std::nullopt;
  return reply;
}

v1::Outcome HostileSession::Reply(int32_t stream) {
  v1::Outcome outcome;
  client_.Keep(stream);
  client_.Until([&] { return !client_.IsOpen(stream); });
  if (const std::optional<std::string> message = client_.TakeMessage(stream)) outcome.ParseFromString(*message);
  client_.Drop(stream);
  return outcome;
}

uint64_t HostileSession::OpenAdapter() {
  v1::OpenAdapterRequest request;
  request.set_device("iwarp0");
  request.mutable_version()->set_major(2);
  return Ask("OpenAdapter", request).adapter_opened().adapter_id();
}

uint64_t HostileSession::CreateConnector(uint64_t adapter) {
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter);
  return Ask("CreateConnector", request).connector_created().connector_id();
}

std::unique_ptr<HostileSession> SessionWithConnectors(HostileConnection& client, size_t connectors) {
  auto session = std::make_unique<HostileSession>(client);
  if (!session->Opens()) return nullptr;
  const uint64_t adapter = session->OpenAdapter();
  for (size_t i = 0; i < connectors; ++i) session->CreateConnector(adapter);
  return session;
}

Sessions::Sessions(Attacker& attacker, size_t connections, size_t on_each, const std::vector<std::string>& features) {
  for (size_t i = 0; i < connections; ++i) {
    auto client = HostileConnection::Connect(attacker);
    if (client == nullptr) continue;
    const size_t begin = all.size();
    for (size_t k = 0; k < on_each; ++k) all.push_back(std::make_unique<HostileSession>(*client, features));
    for (size_t k = begin; k < all.size(); ++k) attacker.Count("sessions", all[k]->Opens() ? 1 : 0);
    clients.push_back(std::move(client));
  }
}

}  // namespace rdmabroker::tenants
