// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/drain.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/ctl/table.h"

namespace rdmabroker::ctl {
namespace {

// Between two looks; short for a person, long for a broker. With many connections a look takes longer, and the broker's
// time is not this command's: a tenth of it at most.
constexpr std::chrono::milliseconds kBetweenLooks{200};
constexpr int kOfALooksTime = 9;

struct SessionLeft {
  v1::SessionInfo session;
  uint32_t connectors = 0;  // On the device.

  std::string Text() const { return std::to_string(session.session_id()); }
};

// What a device still has.
struct DeviceLeft {
  std::string device;
  v1::DeviceState state = v1::DEVICE_STATE_UNSPECIFIED;  // Not told: it is not there.
  uint32_t adapters = 0;
  uint32_t endpoints = 0;  // Local addresses, which connections that are ending hold, too.
  std::vector<SessionLeft> sessions;

  bool drained() const { return state != v1::DEVICE_STATE_ENABLED && adapters == 0 && endpoints == 0; }
};

DeviceLeft StateOf(const std::string& device, const v1::ListAdaptersReply& reply) {
  DeviceLeft left;
  left.device = device;
  for (int i = 0; i < reply.devices_size() && i < reply.activities_size(); ++i) {
    if (reply.devices(i).name() != device) continue;
    left.state = reply.activities(i).state();
    left.adapters = reply.activities(i).adapters();
  }
  return left;
}

// Looks at what the devices still have.
ExitCode Look(BrokerQueries& queries, const std::vector<std::string>& devices, std::vector<DeviceLeft>* all) {
  v1::ListAdaptersReply adapters;
  v1::ListEndpointsReply endpoints;
  v1::ListConnectorsReply connectors;
  ExitCode code = queries.Adapters(&adapters);
  if (code == ExitCode::kDone) code = queries.Endpoints(&endpoints);
  if (code == ExitCode::kDone) code = queries.Connectors(&connectors);
  all->clear();
  for (const std::string& device : devices) {
    if (code != ExitCode::kDone) return code;
    DeviceLeft left = StateOf(device, adapters);
    const auto of_device = [&](const auto& row) { return row.device() == device; };
    left.endpoints =
        static_cast<uint32_t>(std::count_if(endpoints.endpoints().begin(), endpoints.endpoints().end(), of_device));
    v1::ListSessionsReply sessions;
    code = queries.Sessions(device, &sessions);
    for (const v1::SessionInfo& session : sessions.sessions()) {
      const auto count = std::count_if(connectors.connectors().begin(), connectors.connectors().end(),
                                       [&](const v1::ConnectorInfo& connector) {
                                         return of_device(connector) && connector.session_id() == session.session_id();
                                       });
      left.sessions.push_back({session, static_cast<uint32_t>(count)});
    }
    all->push_back(std::move(left));
  }
  return code;
}

std::string InWords(const DeviceLeft& left) {
  if (left.state == v1::DEVICE_STATE_UNSPECIFIED) return left.device + ": is not there any more";
  if (left.state == v1::DEVICE_STATE_ENABLED) return left.device + ": was enabled meanwhile";
  if (left.drained()) return left.device + ": drained";
  std::string text = left.device + ": adapters left: " + std::to_string(left.adapters) +
                     ", local addresses: " + std::to_string(left.endpoints) + ", sessions (connectors):";
  for (const SessionLeft& each : left.sessions)
    text += " " + each.Text() + " (" + std::to_string(each.connectors) + ")";
  return text + (left.sessions.empty() ? " none" : "");
}

std::string AsTable(const std::vector<DeviceLeft>& all) {
  Table table = {{"DEVICE", "STATE", "ADAPTERS", "ADDRESSES", "SESSION", "UID", "PID", "CONNECTORS"}};
  for (const DeviceLeft& left : all) {
    const std::vector<std::string> device = {left.device, Word(v1::DeviceState_Name(left.state), "DEVICE_STATE_"),
                                             std::to_string(left.adapters), std::to_string(left.endpoints)};
    if (left.sessions.empty()) table.push_back(device);
    for (const SessionLeft& each : left.sessions) {
      auto row = device;
      row.insert(row.end(),
                 {each.Text(), std::to_string(each.session.uid()),
                  each.session.pid() == 0 ? "-" : std::to_string(each.session.pid()), std::to_string(each.connectors)});
      table.push_back(std::move(row));
    }
  }
  return Format(table);
}

// Ids between quotes, as protobuf's JSON has 64-bit numbers.
std::string AsJson(const std::vector<DeviceLeft>& all) {
  std::string devices;
  for (const DeviceLeft& left : all) {
    std::string sessions;
    for (const SessionLeft& each : left.sessions) {
      sessions += (sessions.empty() ? "\n" : ",\n") + std::string("    {\"session_id\": \"") + each.Text() +
                  "\", \"uid\": " + std::to_string(each.session.uid()) +
                  ", \"pid\": " + std::to_string(each.session.pid()) +
                  ", \"connectors\": " + std::to_string(each.connectors) + "}";
    }
    devices += (devices.empty() ? "\n" : ",\n") + std::string("  {\n   \"device\": ") + JsonText(left.device) +
               ",\n   \"state\": " + JsonText(v1::DeviceState_Name(left.state)) +
               ",\n   \"adapters\": " + std::to_string(left.adapters) +
               ",\n   \"endpoints\": " + std::to_string(left.endpoints) + ",\n   \"sessions\": [" + sessions +
               (sessions.empty() ? "" : "\n   ") + "]\n  }";
  }
  return "{\n \"devices\": [" + devices + (devices.empty() ? "" : "\n ") + "]\n}\n";
}

ExitCode NameAll(BrokerQueries& queries, std::vector<std::string>* devices) {
  if (!devices->empty()) return ExitCode::kDone;
  v1::ListAdaptersReply reply;
  const ExitCode code = queries.Adapters(&reply);
  for (const v1::Device& device : reply.devices()) devices->push_back(device.name());
  return code;
}

}  // namespace

ExitCode Drain(BrokerQueries& queries, std::vector<std::string> devices, std::chrono::seconds patience, OutputForm form,
               std::ostream& output, std::ostream& progress) {
  ExitCode code = NameAll(queries, &devices);
  for (const std::string& device : devices) {
    v1::DisableAdapterReply ignored;
    if (code == ExitCode::kDone) code = queries.StartDisabling(device, &ignored);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  std::vector<DeviceLeft> all;
  std::vector<std::string> said(devices.size());
  bool drained = false;
  while (code == ExitCode::kDone) {
    const auto begun = std::chrono::steady_clock::now();
    code = Look(queries, devices, &all);
    if (code != ExitCode::kDone) return code;
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string words = InWords(all[i]);
      if (std::exchange(said[i], words) != words) progress << Printable(words) << "\n" << std::flush;
    }
    drained = std::all_of(all.begin(), all.end(), [](const DeviceLeft& left) { return left.drained(); });
    const bool enabled = std::any_of(all.begin(), all.end(),
                                     [](const DeviceLeft& left) { return left.state == v1::DEVICE_STATE_ENABLED; });
    const auto now = std::chrono::steady_clock::now();
    if (drained || enabled || now >= end) break;
    std::this_thread::sleep_for(
        std::max<std::chrono::steady_clock::duration>(kBetweenLooks, (now - begun) * kOfALooksTime));
  }
  if (code != ExitCode::kDone) return code;
  if (!drained) progress << "not drained; \"rdma-brokerctl end-session\" ends what a session still has\n";
  output << (form == OutputForm::kTable ? AsTable(all) : InForm(form, AsJson(all)).value_or(""));
  return drained ? ExitCode::kDone : ExitCode::kRefused;
}

ExitCode Undrain(BrokerQueries& queries, std::vector<std::string> devices) {
  ExitCode code = NameAll(queries, &devices);
  for (const std::string& device : devices) {
    if (code == ExitCode::kDone) code = queries.EnableAdapter(device);
  }
  return code;
}

}  // namespace rdmabroker::ctl
