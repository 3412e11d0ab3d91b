// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_CM_RECORDS_H_
#define BROKER_FABRIC_RDMACM_CM_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/rdmacm/cm_file.h"

namespace rdmabroker {

// What the fabric's successor in another process must know of the kernel's ids (records.proto), as the strings of
// FabricRecords.

// An id that holds an endpoint's port at one IP address.
struct CmAnchor {
  KernelId id{};
  bool listens = false;

  bool operator==(const CmAnchor&) const = default;
};

struct CmEndpointRecord {
  uint32_t device_index = 0;
  std::map<IpAddress, CmAnchor> anchors;
  DeviceId device;

  bool operator==(const CmEndpointRecord&) const = default;
};

struct CmConnectionRecord {
  uint32_t device_index = 0;
  std::optional<KernelId> kernel_id;  // None while an attempt waits for its turn, or its id is replaced.
  SessionId session;
  uint32_t uid = 0;
  std::string peer;  // Its IP address.
  bool accepted = false;
  bool tried_again = false;
  bool answer_due = false;  // The kernel has CONNECT or ACCEPT of a device whose end waits for the peer's answer.
  // As FabricConnect's.
  QpNumber qp;
  int32_t process = 0;
  ReadLimits limits;
  ConnectionOptions options;
  Bytes private_data;
  DeviceId device;

  bool operator==(const CmConnectionRecord&) const = default;
};

std::string Encode(const CmEndpointRecord& record);
std::string Encode(const CmConnectionRecord& record);
// None: it cannot be read.
std::optional<CmEndpointRecord> DecodeEndpoint(const std::string& bytes);
std::optional<CmConnectionRecord> DecodeConnection(const std::string& bytes);

// The index of each device of which there is a record; an older broker's records name none. Those of other fabrics may
// be among them.
std::map<DeviceId, uint32_t> RecordedIndices(const FabricRecords& records);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_CM_RECORDS_H_
