// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_file.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

#include "broker/fabric/rdmacm/qp_attributes.h"
#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker {
namespace {

constexpr char kPath[] = "/dev/infiniband/rdma_cm";

// Longer than the three probes, a second apart, after which the kernel takes a neighbour for dead
// (/proc/sys/net/ipv4/neigh: mcast_solicit, retrans_time_ms), so that it says so and not that time is over.
constexpr uint32_t kResolveMilliseconds = 5000;

// How often an unanswered request is tried again: the maximum of the ABI.
constexpr uint8_t kRetries = 7;

ReadLimits PeerLimits(const rdma_ucm_conn_param& parameters) {
  // Events tell each side its own share: what the peer initiates, we respond to.
  return {parameters.initiator_depth, parameters.responder_resources};
}

rdma_ucm_conn_param ToKernel(const CmParameters& parameters) {
  rdma_ucm_conn_param kernel = {};
  kernel.qp_num = parameters.qp.value;
  kernel.responder_resources = static_cast<uint8_t>(parameters.limits.inbound);
  kernel.initiator_depth = static_cast<uint8_t>(parameters.limits.outbound);
  kernel.retry_count = kRetries;
  kernel.rnr_retry_count = static_cast<uint8_t>(parameters.options.rnr_retry_count);
  kernel.valid = 1;
  kernel.private_data_len = static_cast<uint8_t>(parameters.private_data.size());
  std::copy(parameters.private_data.begin(), parameters.private_data.end(), kernel.private_data);
  return kernel;
}

uint32_t Number(KernelId id) { return static_cast<uint32_t>(id); }

// Where the kernel puts its answer.
template <typename Response>
uint64_t Into(Response* response) {
  return reinterpret_cast<uintptr_t>(response);
}

uint16_t CopyAddress(const SocketAddress& address, __kernel_sockaddr_storage* to) {
  const KernelAddress kernel = ToKernel(address);
  std::memcpy(to, &kernel.storage, kernel.length);
  return static_cast<uint16_t>(kernel.length);
}

SocketAddress ReadAddress(const __kernel_sockaddr_storage& from) {
  KernelAddress kernel;
  std::memcpy(&kernel.storage, &from, sizeof kernel.storage);
  return FromKernel(kernel);
}

// Of no event (enum rdma_cm_event_type).
constexpr uint32_t kNoEvent = UINT32_MAX;

}  // namespace

void RawCmEvent::Clear() { std::memcpy(&bytes_[offsetof(rdma_ucm_event_resp, event)], &kNoEvent, sizeof kNoEvent); }

bool RawCmEvent::is_there() const {
  return std::memcmp(&bytes_[offsetof(rdma_ucm_event_resp, event)], &kNoEvent, sizeof kNoEvent) != 0;
}

CmEvent RawCmEvent::Decode() const {
  rdma_ucm_event_resp kernel;
  std::memcpy(&kernel, bytes_.data(), sizeof kernel);
  const rdma_ucm_conn_param& parameters = kernel.param.conn;
  return {.type = static_cast<CmEventType>(kernel.event),
          .cookie = kernel.uid,
          .id = KernelId{kernel.id},
          .status = static_cast<int>(kernel.status),
          .peer_limits = PeerLimits(parameters),
          .private_data = Bytes(parameters.private_data, parameters.private_data + parameters.private_data_len)};
}

absl::StatusOr<std::shared_ptr<const CmFile>> CmFile::Open() {
  UniqueFd file(::open(kPath, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (file) return std::shared_ptr<const CmFile>(new CmFile(std::move(file)));
  return absl::ErrnoToStatus(errno, kPath);
}

template <typename Command>
int CmFile::Write(uint32_t number, const Command& command, size_t response_size) const {
  struct {
    rdma_ucm_cmd_hdr header;
    Command command;
  } __attribute__((packed)) message = {{number, sizeof(Command), static_cast<uint16_t>(response_size)}, command};
  while (true) {
    if (::write(file_.get(), &message, sizeof message) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int CmFile::NextEvent(RawCmEvent* event) const {
  static_assert(sizeof(rdma_ucm_event_resp) <= sizeof event->bytes_);
  const rdma_ucm_get_event command = {.response = Into(event->bytes_.data())};
  return Write(RDMA_USER_CM_CMD_GET_EVENT, command, sizeof(rdma_ucm_event_resp));
}

int CmFile::NextEvent(CmEvent* event) const {
  RawCmEvent raw = {};
  const int error = NextEvent(&raw);
  if (error == 0) *event = raw.Decode();
  return error;
}

int CmFile::CreateIn(uint16_t port_space, uint8_t qp_type, uint64_t cookie, KernelId* id) const {
  rdma_ucm_create_id_resp response = {};
  const rdma_ucm_create_id command = {
      .uid = cookie, .response = Into(&response), .ps = port_space, .qp_type = qp_type, .reserved = {}};
  const int error = Write(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof response);
  *id = KernelId{response.id};
  return error;
}

int CmFile::Create(uint64_t cookie, KernelId* id) const { return CreateIn(RDMA_PS_TCP, IBV_QPT_RC, cookie, id); }

int CmFile::CreateDatagram(uint64_t cookie, KernelId* id) const {
  return CreateIn(RDMA_PS_UDP, IBV_QPT_UD, cookie, id);
}

int CmFile::Migrate(KernelId id, int from) const {
  rdma_ucm_migrate_resp response = {};
  const rdma_ucm_migrate_id command = {
      .response = Into(&response), .id = Number(id), .fd = static_cast<uint32_t>(from)};
  return Write(RDMA_USER_CM_CMD_MIGRATE_ID, command, sizeof response);
}

int CmFile::Destroy(KernelId id) const {
  rdma_ucm_destroy_id_resp response = {};
  const rdma_ucm_destroy_id command = {.response = Into(&response), .id = Number(id), .reserved = 0};
  return Write(RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof response);
}

int CmFile::SetOption(KernelId id, uint32_t option) const {
  int on = 1;
  const rdma_ucm_set_option command = {
      .optval = Into(&on), .id = Number(id), .level = RDMA_OPTION_ID, .optname = option, .optlen = sizeof on};
  return Write(RDMA_USER_CM_CMD_SET_OPTION, command);
}

int CmFile::Bind(KernelId id, const SocketAddress& local) const {
  if (local.ip.family == IpFamily::kIpv6) {
    if (const int error = SetOption(id, RDMA_OPTION_ID_AFONLY); error != 0) return error;
  }
  rdma_ucm_bind command = {.id = Number(id), .addr_size = 0, .reserved = 0, .addr = {}};
  command.addr_size = CopyAddress(local, &command.addr);
  return Write(RDMA_USER_CM_CMD_BIND, command);
}

int CmFile::BindOn(KernelId id, const SocketAddress& local, uint32_t device_index) const {
  CmAddresses addresses;
  int error = Bind(id, local);
  if (error == 0) error = QueryAddresses(id, &addresses);
  return error == 0 && addresses.device_index != device_index ? ENODEV : error;
}

int CmFile::ShareAddress(KernelId id) const { return SetOption(id, RDMA_OPTION_ID_REUSEADDR); }

int CmFile::Listen(KernelId id) const {
  return Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = Number(id), .backlog = INT_MAX});
}

int CmFile::QueryAddresses(KernelId id, CmAddresses* addresses) const {
  rdma_ucm_query_addr_resp response = {};
  const rdma_ucm_query command = {.response = Into(&response), .id = Number(id), .option = RDMA_USER_CM_QUERY_ADDR};
  const int error = Write(RDMA_USER_CM_CMD_QUERY, command, sizeof response);
  if (error != 0) return error;
  *addresses = {ReadAddress(response.src_addr), ReadAddress(response.dst_addr), response.ibdev_index};
  return 0;
}

int CmFile::ResolveAddress(KernelId id, const SocketAddress& local, const SocketAddress& peer) const {
  rdma_ucm_resolve_addr command = {};
  command.id = Number(id);
  command.timeout_ms = kResolveMilliseconds;
  command.src_size = CopyAddress(local, &command.src_addr);
  command.dst_size = CopyAddress(peer, &command.dst_addr);
  return Write(RDMA_USER_CM_CMD_RESOLVE_ADDR, command);
}

int CmFile::ResolveRoute(KernelId id) const {
  return Write(RDMA_USER_CM_CMD_RESOLVE_ROUTE,
               rdma_ucm_resolve_route{.id = Number(id), .timeout_ms = kResolveMilliseconds});
}

int CmFile::Connect(KernelId id, const CmParameters& parameters) const {
  rdma_ucm_connect command = {};
  command.id = Number(id);
  command.conn_param = ToKernel(parameters);
  return Write(RDMA_USER_CM_CMD_CONNECT, command);
}

int CmFile::Accept(KernelId id, uint64_t cookie, const CmParameters& parameters) const {
  rdma_ucm_accept command = {};
  command.uid = cookie;
  command.id = Number(id);
  command.conn_param = ToKernel(parameters);
  return Write(RDMA_USER_CM_CMD_ACCEPT, command);
}

int CmFile::Establish(KernelId id) const {
  rdma_ucm_accept command = {};
  command.id = Number(id);
  return Write(RDMA_USER_CM_CMD_ACCEPT, command);
}

int CmFile::Reject(KernelId id, const Bytes& private_data) const {
  rdma_ucm_reject command = {};
  command.id = Number(id);
  command.private_data_len = static_cast<uint8_t>(private_data.size());
  std::copy(private_data.begin(), private_data.end(), command.private_data);
  return Write(RDMA_USER_CM_CMD_REJECT, command);
}

int CmFile::Disconnect(KernelId id) const {
  return Write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = Number(id)});
}

int CmFile::QueryQpAttributes(KernelId id, uint32_t state, QpAttributes* attributes) const {
  ib_uverbs_qp_attr response = {};
  const rdma_ucm_init_qp_attr command = {.response = Into(&response), .id = Number(id), .qp_state = state};
  const int error = Write(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, sizeof response);
  if (error == 0) *attributes = FromKernel(response);
  return error;
}

}  // namespace rdmabroker
