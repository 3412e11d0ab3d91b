// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_QUEUE_PAIR_H_
#define DATAPLANE_QUEUE_PAIR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dataplane/data_object.h"
#include "dataplane/memory.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/operation.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

class Adapter;

// One step of making a queue pair ready, as the broker sent it. User-space iWARP: one step, the connected socket and
// its encoded ConnectionState. Verbs: no socket, but a step with the attributes of each transition (INIT, RTR, RTS),
// where the kernel's driver does not move the queue pair itself; then a step with the connection's addresses alone,
// when it is established.
struct Attachment {
  UniqueFd socket;
  std::string state;
  SocketAddress local, peer;
};

// How a connection ended, other than by the local side.
struct ConnectionEnd {
  bool graceful = false;  // The peer said goodbye; requests stay queued until the local side disconnects or flushes.
  uint32_t provider_error = 0;  // Why an abortive one ended (ProviderErrorText); 0: unknown.
};
// Called at most once, on the adapter's own thread: must not block.
using ConnectionEndCallback = std::function<void(const ConnectionEnd&)>;

// NDK_QP, with the data half of NDK_CONNECTOR: what comes after the handshake.
//
// A post that fails inline never gives a result; one that returns kSuccess gives exactly one, unless kOpSilentSuccess
// lets a success go unreported, or the queue pair's close completes before the consumer has taken it. A receive of a
// shared receive queue gives its result even then, without the queue pair's context. Initiator requests give their
// results in the order of posting, and so do receives. After the first result that is a failure, the connection is dead
// and all other requests end with kCancelled. A request that a connection breaks at ends with kIoTimeout where the peer
// no longer answers, and with kInsufficientResources where this side has no memory to go on. From Linux 6.12 on,
// Soft-RoCE cancels a request with bad local memory, too, and those before it that are under way.
//
// Inline statuses of posts: kConnectionInvalid: not connected yet, or ended by this side; after an end by the peer or a
// failure requests are taken and cancelled until then. kInvalidParameter: flags that the request does not take.
// kInsufficientResources: the queue is full; an initiator request has its place until its result has been taken, and a
// silent one until it has succeeded and a later one is done. kDataOverrun: too many SGEs, too much data, or more inline
// bytes than the queue pair was made for; kNotSupported: the adapter cannot do it; kUnsuccessful: its hardware refuses;
// kNoMemory: memory has run out.
//
// Consumers serialise posts to the initiator queue, and posts to the receive queue; the two may run concurrently, and
// Flush and Disconnect with both.
class QueuePair : public DataObject {
 public:
  // Sends the bytes of `sges`, one after the other, as one message, which takes up one receive of the peer's; a receive
  // that is missing or too short ends the connection.
  virtual NdkStatus Send(void* request_context, std::span<const Sge> sges, OpFlags flags) = 0;
  // As Send, and invalidates the token at the peer before the peer's receive completes; a token that cannot be
  // invalidated ends the connection.
  virtual NdkStatus SendAndInvalidate(void* request_context, std::span<const Sge> sges, OpFlags flags,
                                      RemoteToken token) = 0;
  // Allowed before the queue pair is connected. kInvalidDeviceRequest with a shared receive queue.
  virtual NdkStatus Receive(void* request_context, std::span<const Sge> sges) = 0;
  // Reads from the peer's memory into `sges`, without the peer taking part; it must have granted the right to read
  // there. No more reads are in flight than the connection's read limits allow; the others wait. A limit of 0 allows
  // none: kInvalidDeviceRequest, where the adapter sees it.
  virtual NdkStatus Read(void* request_context, std::span<const Sge> sges, RemoteMemory source, OpFlags flags) = 0;
  // Writes from `sges` to the peer's memory, likewise. The result says that the bytes are out of this side's hands;
  // only a later message from the peer shows that they have arrived.
  virtual NdkStatus Write(void* request_context, std::span<const Sge> sges, RemoteMemory target, OpFlags flags) = 0;

  // Of this and the next three: kInvalidParameter: region or window is null or belongs to another domain.
  // kAccessViolation: the region does not allow what the flags ask for. The window's token is good when Bind returns. A
  // bind or fast registration that is refused, or ends with a failure, leaves the window or region as it was.
  virtual NdkStatus Bind(void* request_context, MemoryRegion* region, MemoryWindow* window, void* address,
                         size_t length, OpFlags flags) = 0;
  // `pages` are the addresses of pages of kFastRegisterPageSize bytes; the region begins `first_byte_offset` bytes into
  // the first of them and is addressed from `base_address` on, which has the same offset within its page.
  // kAccessViolation: remote flags on a region that was initialised without remote access.
  virtual NdkStatus FastRegister(void* request_context, MemoryRegion* region, std::span<void* const> pages,
                                 size_t first_byte_offset, size_t length, uint64_t base_address, OpFlags flags) = 0;
  // Invalidates a fast-registered region or a bound window; never a region from MemoryRegion::Register.
  virtual NdkStatus Invalidate(void* request_context, MemoryRegion* region, OpFlags flags) = 0;
  virtual NdkStatus Invalidate(void* request_context, MemoryWindow* window, OpFlags flags) = 0;

  // Cancels every request of both queues: each gives a result with kCancelled. This ends a connection; a queue pair
  // that has had none can still be connected afterwards.
  virtual void Flush() = 0;

  // Takes over what the broker handed out. kConnectionActive: it is or was connected; kInvalidParameter: the attachment
  // makes no sense; kInsufficientResources, kNoMemory: the process or its kernel has no room for it. A socket that is
  // refused is closed. `on_end` is called at most once, when the peer ends the connection or it breaks, unless
  // Disconnect, Flush or Close came first. It runs on the adapter's own thread and must not block.
  virtual NdkStatus Attach(Attachment attachment, ConnectionEndCallback on_end) = 0;

  // From now on only the queue pair can tell of the connection's end; where others hold the connection, only by its
  // keepalive.
  virtual void WatchAlone() {}

  // Sends what is posted, says goodbye, and waits for the peer's goodbye; then flushes. kPending, and the completion
  // gets kSuccess, kIoTimeout (the peer did not answer in time), or kConnectionAborted; in each case the connection is
  // closed for good. kConnectionInvalid: never connected. kInvalidDeviceState: called before.
  // kInvalidParameter: no completion. kNotSupported: the adapter leaves it to the broker.
  virtual NdkStatus Disconnect(std::chrono::milliseconds timeout, RequestCompletion completion) = 0;

  // The number by which the adapter's connection manager knows the queue pair; 0 where there is none.
  virtual uint32_t number() const = 0;
  // The instance on which its protection domain was made.
  virtual const Adapter* adapter() const = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_QUEUE_PAIR_H_
