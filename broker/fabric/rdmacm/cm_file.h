// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_CM_FILE_H_
#define BROKER_FABRIC_RDMACM_CM_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "broker/core/fabric_messages.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A connection manager id of the kernel, by its number within a file. They start at 0.
enum class KernelId : uint32_t {};

// enum rdma_cm_event_type of the kernel's include/rdma/rdma_cm.h, the user ABI's numbers.
enum class CmEventType : uint32_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kMulticastError = 13,
  kAddressChange = 14,
  kTimewaitExit = 15,
};

struct CmEvent {
  CmEventType type = CmEventType::kAddressResolved;
  uint64_t cookie = 0;  // Of a connect request: the listener's.
  KernelId id{};        // Of a connect request: the new id.
  int status = 0;       // 0; a negative errno; or, of kRejected on InfiniBand and RoCE, the CM's reason, which is > 0.
  ReadLimits peer_limits;
  Bytes private_data;  // The whole area on InfiniBand and RoCE, padded with zeros.
  // As long as there is a copy of it the event has not been dealt with: EventJournal's.
  std::shared_ptr<void> held{};
};

// As the kernel writes it: struct rdma_ucm_event_resp of rdma/rdma_user_cm.h, with room for what may be added to it.
class RawCmEvent {
 public:
  void Clear();
  // Whether there is one since it was cleared.
  bool is_there() const;
  CmEvent Decode() const;

 private:
  friend class CmFile;

  alignas(8) std::array<std::byte, 504> bytes_;
};

struct CmParameters {
  QpNumber qp;
  ReadLimits limits;   // At most 255 (8 bits in the ABI).
  Bytes private_data;  // At most 255 bytes.
  ConnectionOptions options = {};
};

struct CmAddresses {
  SocketAddress local;
  SocketAddress peer;
  uint32_t device_index = 0;  // As ibv_get_device_index(3).
};

// The kernel's connection manager by its user ABI (rdma/rdma_user_cm.h, version 4), without librdmacm, whose ids mean
// something to the process that made them alone.
//
// Functions that return an int return 0 or an errno. From any thread; what is said of one id, from one at a time. Those
// that may block say so.
class CmFile {
 public:
  // NOT_FOUND: the module rdma_ucm is not loaded. PERMISSION_DENIED. UNAVAILABLE otherwise. Once it is open the
  // process's credentials must not change: the kernel refuses the file to a thread that has others
  // (ib_safe_file_access).
  static absl::StatusOr<std::shared_ptr<const CmFile>> Open();
  // Whether it stays as Open said until somebody does something about it.
  static bool WaitsForSomebody(const absl::Status& status) {
    return absl::IsNotFound(status) || absl::IsPermissionDenied(status);
  }

  // Readable when there are events. Never blocks.
  int descriptor() const { return file_.get(); }
  // EAGAIN: there is none. After any other error there will be none any more.
  int NextEvent(CmEvent* event) const;
  // The same. It is there as soon as the kernel has forgotten it.
  int NextEvent(RawCmEvent* event) const;

  int Create(uint64_t cookie, KernelId* id) const;
  // An id in the port space of datagrams, which is in no connection's way.
  int CreateDatagram(uint64_t cookie, KernelId* id) const;
  // Moves an id here from the file that `from` is a descriptor of, perhaps another process's, with its number, its
  // cookie, and the events that nobody has read. A connect request's id does not come with its listener's. EINVAL: it
  // is not in that file, or that is no such file; ENOENT: there is none in the whole system.
  int Migrate(KernelId id, int from) const;
  // Ends what the id stands for; the peer learns of it. No event comes after it. May block for seconds.
  int Destroy(KernelId id) const;

  // Binds to exactly this address, whose port is held against all ids that do not share theirs, too.
  int Bind(KernelId id, const SocketAddress& local) const;
  // The same where the device has the address. ENODEV: it is bound on another, as the kernel takes one of several.
  int BindOn(KernelId id, const SocketAddress& local, uint32_t device_index) const;
  // Lets ids that share it as well be bound to the same address.
  int ShareAddress(KernelId id) const;
  // With the largest backlog that the system allows (net.rdma_ucm.max_backlog).
  int Listen(KernelId id) const;
  int QueryAddresses(KernelId id, CmAddresses* addresses) const;

  // Answered by events. Resolving binds the id to `local`.
  int ResolveAddress(KernelId id, const SocketAddress& local, const SocketAddress& peer) const;
  int ResolveRoute(KernelId id) const;
  // Blocks on iWARP devices until TCP has connected or given up.
  int Connect(KernelId id, const CmParameters& parameters) const;
  // Events come with `cookie` from now on; before, those of an incoming connection are lost.
  int Accept(KernelId id, uint64_t cookie, const CmParameters& parameters) const;
  // Sends the third message of our own connection.
  int Establish(KernelId id) const;
  int Reject(KernelId id, const Bytes& private_data) const;
  int Disconnect(KernelId id) const;
  // For the transition to `state`, an enum ibv_qp_state.
  int QueryQpAttributes(KernelId id, uint32_t state, QpAttributes* attributes) const;

 private:
  explicit CmFile(UniqueFd file) : file_(std::move(file)) {}

  template <typename Command>
  int Write(uint32_t number, const Command& command, size_t response_size = 0) const;
  int CreateIn(uint16_t port_space, uint8_t qp_type, uint64_t cookie, KernelId* id) const;
  int SetOption(KernelId id, uint32_t option) const;

  UniqueFd file_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_CM_FILE_H_
