// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_OPERATION_H_
#define DATAPLANE_OPERATION_H_

#include <cstdint>
#include <span>

#include "dataplane/ndk/status.h"

namespace rdmabroker {

// Names a memory region in this process's own requests.
enum class LocalToken : uint32_t {};
// Names a memory region or window to the peer. Host byte order; how it travels between the applications is up to them.
enum class RemoteToken : uint32_t {};

// NDK_SGE. With kOpInline the token is ignored and the bytes are copied before the call returns.
struct Sge {
  void* address =
      nullptr;          // Within the region that `token` names: its own address, for a fast-registered one its base.
  uint32_t length = 0;  // Bytes.
  LocalToken token = {};
};

// Where a read or a write goes. Zero-length accesses are not checked.
struct RemoteMemory {
  uint64_t address = 0;
  RemoteToken token = {};
};

// NDK_OP_FLAG_*.
using OpFlags = uint32_t;
inline constexpr OpFlags kOpSilentSuccess = 0x001;        // No completion unless it fails. Every initiator request.
inline constexpr OpFlags kOpReadFence = 0x002;            // Waits until all earlier reads end. Every initiator request.
inline constexpr OpFlags kOpSendAndSolicitEvent = 0x004;  // Send, SendAndInvalidate.
inline constexpr OpFlags kOpAllowRemoteRead = 0x008;      // Bind, FastRegister.
inline constexpr OpFlags kOpAllowLocalWrite = 0x010;      // FastRegister.
inline constexpr OpFlags kOpAllowRemoteWrite = 0x030;     // Bind, FastRegister; includes local write.
inline constexpr OpFlags kOpInline = 0x040;               // Send, SendAndInvalidate, Write.
inline constexpr OpFlags kOpRdmaReadSink = 0x080;         // FastRegister.
inline constexpr OpFlags kOpRdmaReadLocalInvalidate = 0x100;  // Read.
inline constexpr OpFlags kOpDefer = 0x200;  // A hint: another request follows. Every initiator request.

// NDK_MR_FLAG_*: what a registered region allows, and to whom.
using MrFlags = uint32_t;
inline constexpr MrFlags kMrAllowLocalRead = 0;    // Always allowed: it is the source of sends and writes.
inline constexpr MrFlags kMrAllowLocalWrite = 1;   // It is the target of receives.
inline constexpr MrFlags kMrAllowRemoteRead = 2;   // Peers read it by the remote token.
inline constexpr MrFlags kMrAllowRemoteWrite = 5;  // Includes local write.
inline constexpr MrFlags kMrRdmaReadSink = 8;      // It is the target of reads; ignored with kRdmaReadSinkNotRequired.
inline constexpr MrFlags kMrKnownFlags = kMrAllowRemoteRead | kMrAllowRemoteWrite | kMrRdmaReadSink;  // All of them.

// NDK_OPERATION_TYPE.
enum class OperationType : uint32_t {
  kReceive = 1,
  kReceiveAndInvalidate = 0x8001,
  kSend = 2,  // SendAndInvalidate too.
  kFastRegister = 4,
  kBind = 8,
  kInvalidate = 16,
  kRead = 32,
  kWrite = 64,
};

// The flags that an initiator request of the type may carry.
OpFlags AllowedFlags(OperationType type);
// The sum of the lengths, in bytes.
uint64_t TotalLength(std::span<const Sge> sges);

// NDK_RESULT.
struct Result {
  NdkStatus status = NdkStatus::kSuccess;
  uint32_t bytes_transferred = 0;  // Only of receives.
  void* qp_context = nullptr;
  void* request_context = nullptr;
};

// NDK_RESULT_EX.
struct ResultEx : Result {
  OperationType type = OperationType::kReceive;
  uint32_t provider_error = 0;         // ProviderErrorText has its text. 0: a success, or none is known.
  RemoteToken invalidated_token = {};  // Only of kReceiveAndInvalidate: invalid before the result is seen.
};

}  // namespace rdmabroker

#endif  // DATAPLANE_OPERATION_H_
