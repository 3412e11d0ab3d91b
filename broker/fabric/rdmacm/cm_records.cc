// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_records.h"

#include <utility>

#include "broker/fabric/rdmacm/records.pb.h"

namespace rdmabroker {
namespace {

// More would be no parameter of the kernel's: the ABI has a byte for their length (rdma_ucm_conn_param), and one for
// each limit.
constexpr size_t kMostPrivateData = 255;
constexpr uint32_t kMostReads = 255;

}  // namespace

std::string Encode(const CmEndpointRecord& record) {
  rdmacm::v1::Endpoint message;
  message.set_device_index(record.device_index);
  message.set_device(record.device.value());
  for (const auto& [ip, anchor] : record.anchors) {
    rdmacm::v1::Endpoint::Anchor& added = *message.add_anchors();
    added.set_ip(ip.ToString());
    added.set_kernel_id(static_cast<uint32_t>(anchor.id));
    added.set_listens(anchor.listens);
  }
  return message.SerializeAsString();
}

std::string Encode(const CmConnectionRecord& record) {
  rdmacm::v1::Connection message;
  message.set_device_index(record.device_index);
  message.set_device(record.device.value());
  if (record.kernel_id) message.set_kernel_id(static_cast<uint32_t>(*record.kernel_id));
  message.set_session(record.session.value());
  message.set_uid(record.uid);
  message.set_peer(record.peer);
  message.set_accepted(record.accepted);
  message.set_tried_again(record.tried_again);
  message.set_answer_due(record.answer_due);
  message.set_qp(record.qp.value);
  message.set_process(record.process);
  message.set_inbound_limit(record.limits.inbound);
  message.set_outbound_limit(record.limits.outbound);
  message.set_rnr_retry_count(record.options.rnr_retry_count);
  message.set_private_data(record.private_data.data(), record.private_data.size());
  return message.SerializeAsString();
}

std::optional<CmEndpointRecord> DecodeEndpoint(const std::string& bytes) {
  rdmacm::v1::Endpoint message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  CmEndpointRecord record = {
      .device_index = message.device_index(), .anchors = {}, .device = DeviceId(message.device())};
  for (const rdmacm::v1::Endpoint::Anchor& anchor : message.anchors()) {
    const auto ip = IpAddress::Parse(anchor.ip());
    if (!ip) return std::nullopt;
    record.anchors[*ip] = {KernelId{anchor.kernel_id()}, anchor.listens()};
  }
  return record;
}

std::optional<CmConnectionRecord> DecodeConnection(const std::string& bytes) {
  rdmacm::v1::Connection message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  if (message.private_data().size() > kMostPrivateData || message.inbound_limit() > kMostReads ||
      message.outbound_limit() > kMostReads || message.rnr_retry_count() > ConnectionOptions::kForEver) {
    return std::nullopt;
  }
  CmConnectionRecord record = {.device_index = message.device_index(),
                               .kernel_id = std::nullopt,
                               .session = SessionId(message.session()),
                               .uid = message.uid(),
                               .peer = std::move(*message.mutable_peer()),
                               .accepted = message.accepted(),
                               .tried_again = message.tried_again(),
                               .answer_due = message.answer_due(),
                               .qp = {message.qp()},
                               .process = message.process(),
                               .limits = {message.inbound_limit(), message.outbound_limit()},
                               .options = {},
                               .private_data = Bytes(message.private_data().begin(), message.private_data().end()),
                               .device = DeviceId(message.device())};
  if (message.has_kernel_id()) record.kernel_id = KernelId{message.kernel_id()};
  if (message.has_rnr_retry_count()) record.options.rnr_retry_count = message.rnr_retry_count();
  return record;
}

std::map<DeviceId, uint32_t> RecordedIndices(const FabricRecords& records) {
  std::map<DeviceId, uint32_t> indices;
  const auto note = [&](const auto& record) {
    // None is another fabric's, too: those have no such field.
    if (record && record->device) indices[record->device] = record->device_index;
  };
  for (const auto& [id, bytes] : records.endpoints) note(DecodeEndpoint(bytes));
  for (const auto& [id, bytes] : records.connections) note(DecodeConnection(bytes));
  return indices;
}

}  // namespace rdmabroker
