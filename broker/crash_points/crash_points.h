// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CRASH_POINTS_CRASH_POINTS_H_
#define BROKER_CRASH_POINTS_CRASH_POINTS_H_

#include <cstdint>

namespace rdmabroker {

// What the daemon does that outlives it or that others see. A crash between two of these is the same as at either.
enum class Step : uint8_t {
  // --- Of the effect dispatcher: commits, then each alternative of Effect and of FabricRequest in their order ---
  kCommit,
  kCommitTheRest,
  kSessionOpened,
  kSessionRefused,
  kAnswer,
  kEvent,
  kSessionEnded,
  kStreamReplaced,
  kFabricBind,
  kFabricRepurpose,
  kFabricRebind,
  kFabricUnbind,
  kFabricConnect,
  kFabricComplete,
  kFabricAccept,
  kFabricReject,
  kFabricRefuse,
  kFabricDisconnect,
  kFabricRelease,
  kFabricAdoptEndpoint,
  kFabricAdoptConnection,
  kFabricAdopted,
  // --- Of the store ---
  kCreateFile,
  kPutRecord,
  kEraseRecord,
  kFinishTransaction,
  kGrowFile,
  kMoveFile,
  kMark,
  kSetAside,
  // --- Of the descriptor keep ---
  kKeepDescriptor,
  kForgetDescriptor,
  kAwaitSupervisor,
  kTakeDescriptors,
};

// A place before a step and one after it, which begin and end with this object's life. The daemon has none of them:
// they are in rdma-brokerd-with-crash-points, which is made of the same sources, and is killed there where a test says
// so (armed_points.h).
class CrashPoints {
 public:
#ifdef RDMA_BROKER_CRASH_POINTS
  explicit CrashPoints(Step step);
  ~CrashPoints();
  CrashPoints(const CrashPoints&) = delete;
  CrashPoints& operator=(const CrashPoints&) = delete;

 private:
  const Step step_;
#else
  explicit CrashPoints(Step /*step*/) {}
#endif
};

}  // namespace rdmabroker

#endif  // BROKER_CRASH_POINTS_CRASH_POINTS_H_
