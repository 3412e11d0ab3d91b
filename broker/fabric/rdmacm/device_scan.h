// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_DEVICE_SCAN_H_
#define BROKER_FABRIC_RDMACM_DEVICE_SCAN_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// One of the kernel's RDMA devices, as it is now.
struct FoundDevice {
  uint32_t index = 0;  // As ibv_get_device_index(3); one that is removed and comes back has another.
  std::string name;    // That it has now; an administrator or udev may give it another.
  bool iwarp = false;
  AdapterInfo info;
  std::vector<IpAddress> addresses;  // Those for which the connection manager takes this device. Sorted.
  std::string unusable_reason;       // As Device's.
  uint32_t mtu = 0;                  // As Device's.

  bool operator==(const FoundDevice&) const = default;
};

// What a scan need not find out.
struct ScanTask {
  absl::Status connection_manager;        // Why the fabric has not got it: no device can be used then.
  std::vector<IpAddress> ips;             // The local addresses. Sorted.
  std::map<uint32_t, AdapterInfo> known;  // Of devices that were found before, by index.
  std::set<uint32_t> leaving;             // Indices of devices that are left alone, so that they can go.
};

struct ScanResult {
  std::vector<FoundDevice> devices;
  std::set<uint32_t> leaving;  // Those of the task's that are still there.
};

// Why a device that can be opened cannot be used, and what to do, for a person; empty where it can. The first reason of
// several. `connection_manager`: of CmFile::Open.
std::string WhyUnusable(const absl::Status& connection_manager, bool port_active, bool has_addresses);

// The devices there are, and which of the addresses are theirs. Opens each for a moment, which may block for as long
// as its driver likes; on any thread. Not OK: nothing is known now, as where descriptors have run out.
absl::StatusOr<ScanResult> ScanDevices(const ScanTask& task);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_DEVICE_SCAN_H_
