// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

std::vector<AdapterId> AdaptersOf(const Turn& turn, DeviceId device) {
  std::vector<AdapterId> adapters;
  for (const auto& [id, adapter] : turn.records.adapters) {
    if (adapter.device == device) adapters.push_back(id);
  }
  std::sort(adapters.begin(), adapters.end());
  return adapters;
}

}  // namespace

Outcome Perform(Turn& turn, const Call& call, const OpenAdapter& request) {
  const auto name = turn.index.device_names.find(request.device);
  if (name == turn.index.device_names.end()) return UnknownDevice(request.device);
  DeviceRecord& record = turn.records.devices.at(name->second);
  if (const std::string reason = WhyUnusable(record); !reason.empty()) {
    return Refuse(NdkStatus::kAdapterNotReady, "device \"", request.device, "\": ", reason);
  }
  const NdkVersion wanted = request.version;
  if (wanted.major != kNdkVersion.major || wanted.minor > kNdkVersion.minor) {
    return Refuse(NdkStatus::kBadVersion, "version ", wanted.major, ".", wanted.minor, ": not supported; ask for ",
                  kNdkVersion.major, ".0 to ", kNdkVersion.major, ".", kNdkVersion.minor);
  }
  const auto adapter = NewObject<AdapterKind>(turn, call.session, AdapterId(), turn.records.counters.adapter);
  if (!adapter) return adapter.refusal;
  ++record.adapters;
  adapter->device = record.device.id;
  turn.index.adapters_on[{adapter->device, adapter->session}].insert(adapter->id);
  adapter->requested = wanted;
  AdapterInfo info = record.device.info;
  info.version = kNdkVersion;
  FollowToAdapters(turn, call.session);
  return Done(AdapterOpened{adapter->id, info, record.device.client_ends_connections});
}

bool IsBare(const Turn&, const AdapterRecord& adapter) { return adapter.successors == 0; }

// Its own listeners stay as they are, and are closed before it.
void StartClosing(Turn& turn, AdapterRecord& adapter) { FollowToAdapters(turn, adapter.session); }

bool CanFinish(Turn&, AdapterRecord& adapter) { return adapter.successors == 0; }

void LeaveDevice(Turn& turn, const AdapterRecord& adapter) {
  const auto on_device = turn.index.adapters_on.find({adapter.device, adapter.session});
  on_device->second.erase(adapter.id);
  if (on_device->second.empty()) turn.index.adapters_on.erase(on_device);
  --turn.records.devices.at(adapter.device).adapters;
  ForgetDeviceIfUnused(turn, adapter.device);
}

void ForgetDeviceIfUnused(Turn& turn, DeviceId id) {
  const auto record = turn.records.devices.find(id);
  if (record == turn.records.devices.end() || !record->second.removed) return;
  const DeviceRecord& device = record->second;
  if (device.adapters == 0 && device.endpoints == 0 && device.connections == 0) turn.records.devices.erase(record);
}

void Handle(Turn& turn, const DeviceChanged& report) {
  Device device = report.device;
  const auto& devices = std::as_const(turn.records.devices);
  if (const auto known = devices.find(device.id); known != devices.end()) {
    if (known->second.removed) return;
    // What addresses and tuples are keyed by does not change under those that exist.
    device.network_namespace = known->second.device.network_namespace;
    device.port_space = known->second.device.port_space;
    // Nothing new, as a fabric says to have stored what it has noted: not every endpoint is to be stored for that.
    if (device == known->second.device) return;
  }
  turn.records.devices[device.id].device = device;
  turn.index.device_names = DeviceNames(turn.records);
  FollowAddresses(turn, device.id);
}

void Handle(Turn& turn, const DeviceRemoved& report) {
  const auto record = turn.records.devices.find(report.device);
  if (record == turn.records.devices.end() || record->second.removed) return;
  record->second.removed = true;
  turn.index.device_names = DeviceNames(turn.records);
  const std::vector<AdapterId> adapters = AdaptersOf(turn, report.device);
  std::set<ConnectorId> connectors;
  for (const auto& [id, connector] : turn.records.connectors) {
    if (std::binary_search(adapters.begin(), adapters.end(), connector.adapter)) connectors.insert(id);
  }
  for (const AdapterId id : adapters) Notify(turn, turn.records.adapters.at(id), AdapterRemovedEvent{id});
  for (const ConnectorId id : connectors) OnDeviceRemoved(turn, turn.records.connectors.at(id));
  FollowAddresses(turn, report.device);
  ForgetDeviceIfUnused(turn, report.device);
}

void Handle(Turn& turn, const DisableDevice& event) {
  const auto record = turn.records.devices.find(event.device);
  if (record == turn.records.devices.end() || record->second.removed) return;
  if (std::exchange(record->second.disabled, true)) return;
  for (const AdapterId id : AdaptersOf(turn, event.device)) {
    AdapterRecord& adapter = turn.records.adapters.at(id);
    if (adapter.closing || std::exchange(adapter.told_disabled, true)) continue;
    Notify(turn, adapter, AdapterDisabledEvent{id});
  }
}

void Handle(Turn& turn, const EnableDevice& event) {
  const auto record = turn.records.devices.find(event.device);
  if (record != turn.records.devices.end()) record->second.disabled = false;
}

}  // namespace rdmabroker
