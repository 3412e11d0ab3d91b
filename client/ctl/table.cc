// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "client/translation.h"

namespace rdmabroker::ctl {
namespace {

std::string Text(uint64_t number) { return std::to_string(number); }
// 0 is none.
std::string TextOrDash(uint64_t id) { return id == 0 ? "-" : Text(id); }
std::string Text(bool value) { return value ? "yes" : "no"; }

std::string TextOf(const google::protobuf::RepeatedPtrField<v1::IpAddress>& ips) {
  std::string text;
  for (const v1::IpAddress& message : ips) {
    const auto ip = client::FromMessage(message);
    if (ip.has_value()) text += (text.empty() ? "" : ",") + ip->ToString(message.interface());
  }
  return text;
}

std::string LimitsOf(const v1::ConnectorInfo& info) {
  return info.has_limits() ? Text(uint64_t{info.limits().inbound()}) + "/" + Text(uint64_t{info.limits().outbound()})
                           : "-";
}

}  // namespace

std::string Word(const std::string& name, std::string_view prefix) {
  if (name.empty()) return "unknown";
  std::string word = name.substr(std::min(name.size(), prefix.size()));
  for (char& c : word) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

std::string AddressOf(const v1::SocketAddress& message, bool present) {
  const auto address = client::FromMessage(message);
  if (!present) return "-";
  return address.has_value() ? address->ToString(message.interface()) : "malformed";
}

std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }, '?');
  return text;
}

Table ToTable(const v1::ListAdaptersReply& reply) {
  Table table = {{"NAME", "TECHNOLOGY", "PORTS", "USABLE", "ADDRESSES", "STATE", "OPEN", "ACTIVE", "CONNECTS",
                  "ACCEPTS", "FAILED", "BROKEN", "MTU", "WHY NOT"}};
  for (int i = 0; i < reply.devices_size(); ++i) {
    const v1::Device& message = reply.devices(i);
    // An older broker does not tell.
    const v1::DeviceActivity activity = i < reply.activities_size() ? reply.activities(i) : v1::DeviceActivity();
    const auto count = [&](uint64_t number) { return activity.withheld() ? "-" : Text(number); };
    const client::Device device = client::FromMessage(message);
    table.push_back({device.name, Word(v1::RdmaTechnology_Name(message.info().technology()), "RDMA_TECHNOLOGY_"),
                     Word(v1::PortSpace_Name(message.port_space()), "PORT_SPACE_"), Text(device.usable),
                     TextOf(message.addresses()), Word(v1::DeviceState_Name(activity.state()), "DEVICE_STATE_"),
                     count(activity.adapters()), count(activity.active_connections()), count(activity.connects()),
                     count(activity.accepts()), count(activity.connect_failures()), count(activity.connection_errors()),
                     TextOrDash(device.mtu), device.unusable_reason});
  }
  return table;
}

Table ToTable(const v1::ListSessionsReply& reply) {
  Table table = {{"SESSION", "STATE", "UID", "GID", "PID", "ADAPTERS", "LISTENERS", "SHARED", "RESERVED", "CONNECTORS",
                  "UNACKNOWLEDGED"}};
  for (const v1::SessionInfo& info : reply.sessions()) {
    table.push_back({Text(info.session_id()), Word(v1::SessionState_Name(info.state()), "SESSION_STATE_"),
                     Text(uint64_t{info.uid()}), Text(uint64_t{info.gid()}),
                     info.pid() == 0 ? "-" : std::to_string(info.pid()), Text(uint64_t{info.adapters()}),
                     Text(uint64_t{info.listeners()}), Text(uint64_t{info.shared_endpoints()}),
                     Text(uint64_t{info.reservations()}), Text(uint64_t{info.connectors()}),
                     Text(uint64_t{info.unacknowledged_events()})});
  }
  return table;
}

Table ToTable(const v1::ListEndpointsReply& reply) {
  Table table = {{"ENDPOINT", "ADDRESS", "USE", "STATE", "REFERENCES", "CONNECTIONS", "DEVICE", "PORTS", "SESSION"}};
  for (const v1::EndpointInfo& info : reply.endpoints()) {
    table.push_back({Text(info.endpoint_id()), AddressOf(info.address(), info.has_address()),
                     Word(v1::EndpointUse_Name(info.use()), "ENDPOINT_USE_"),
                     Word(v1::EndpointState_Name(info.state()), "ENDPOINT_STATE_"), Text(uint64_t{info.references()}),
                     Text(uint64_t{info.connections()}), info.device(),
                     Word(v1::PortSpace_Name(info.port_space()), "PORT_SPACE_"), TextOrDash(info.session_id())});
  }
  return table;
}

Table ToTable(const v1::ListListenersReply& reply) {
  Table table = {{"LISTENER", "ADDRESS", "STATE", "UNDECIDED", "SUCCESSORS", "PAUSED", "CLOSING", "DEVICE", "ENDPOINT",
                  "ADAPTER", "SESSION", "ANSWERS AT"}};
  for (const v1::ListenerInfo& info : reply.listeners()) {
    table.push_back({Text(info.listener_id()), AddressOf(info.address(), info.has_address()),
                     Word(v1::ListenerState_Name(info.state()), "LISTENER_STATE_"),
                     Text(uint64_t{info.undecided_connectors()}), Text(uint64_t{info.successors()}),
                     Text(info.paused()), Text(info.closing()), info.device(), TextOrDash(info.endpoint_id()),
                     Text(info.adapter_id()), Text(info.session_id()), TextOf(info.answers_at())});
  }
  return table;
}

Table ToTable(const v1::ListSharedEndpointsReply& reply) {
  Table table = {{"SHARED ENDPOINT", "ADDRESS", "SUCCESSORS", "CLOSING", "DEVICE", "ENDPOINT", "ADAPTER", "SESSION"}};
  for (const v1::SharedEndpointInfo& info : reply.shared_endpoints()) {
    table.push_back({Text(info.shared_endpoint_id()), AddressOf(info.address(), info.has_address()),
                     Text(uint64_t{info.successors()}), Text(info.closing()), info.device(),
                     TextOrDash(info.endpoint_id()), Text(info.adapter_id()), Text(info.session_id())});
  }
  return table;
}

Table ToTable(const v1::ListReservationsReply& reply) {
  Table table = {{"RESERVATION", "ADDRESS", "CLOSING", "DEVICE", "ENDPOINT", "ADAPTER", "SESSION"}};
  for (const v1::ReservationInfo& info : reply.reservations()) {
    table.push_back({Text(info.reservation_id()), AddressOf(info.address(), info.has_address()), Text(info.closing()),
                     info.device(), TextOrDash(info.endpoint_id()), Text(info.adapter_id()), Text(info.session_id())});
  }
  return table;
}

Table ToTable(const v1::ListConnectorsReply& reply) {
  Table table = {{"CONNECTOR", "LOCAL", "PEER", "STATE", "READS IN/OUT", "QP", "LISTENER", "SHARED", "CLOSING",
                  "DEVICE", "ENDPOINT", "ADAPTER", "SESSION", "MTU"}};
  for (const v1::ConnectorInfo& info : reply.connectors()) {
    table.push_back(
        {Text(info.connector_id()), AddressOf(info.local(), info.has_local()), AddressOf(info.peer(), info.has_peer()),
         Word(v1::ConnectorState_Name(info.state()), "CONNECTOR_STATE_"), LimitsOf(info), TextOrDash(info.qp_number()),
         TextOrDash(info.listener_id()), TextOrDash(info.shared_endpoint_id()), Text(info.closing()), info.device(),
         TextOrDash(info.endpoint_id()), Text(info.adapter_id()), Text(info.session_id()),
         TextOrDash(info.path_mtu())});
  }
  return table;
}

std::string Format(const Table& table) {
  std::vector<size_t> widths;
  for (const auto& row : table) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : table) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += Printable(line) + "\n";
  }
  return text;
}

}  // namespace rdmabroker::ctl
