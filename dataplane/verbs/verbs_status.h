// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_VERBS_STATUS_H_
#define DATAPLANE_VERBS_VERBS_STATUS_H_

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/ndk/status.h"

namespace rdmabroker::verbs {

// libibverbs tells of errors in four ways, which the man pages name for each function. Here they become one.

NdkStatus StatusOfErrno(int error);
// What strerror(3) says, but thread-safe.
const char* ErrorText(int error);
// `status`, with a hint that has the errno.
NdkStatus RefuseByDevice(NdkStatus status, int error);

// Null, and errno, which some providers do not set: ibv_open_device and everything that makes an object.
// With a hint (refusal.h), which names the limit of locked memory where that may be why. `length`: the bytes that are
// to be locked, where they are known.
NdkStatus FromPointer(const void* object, std::optional<uint64_t> length = std::nullopt);

// 0, or the errno itself: everything that modifies, queries, deregisters or destroys. Some providers return it
// negative. With a hint.
NdkStatus FromErrnoResult(int result);

// The same of ibv_post_*, with the statuses that posts have in dataplane/queue_pair.h.
NdkStatus FromPost(int result);

// 0, or -1 and errno: ibv_close_device, ibv_get_cq_event, ibv_get_async_event.
inline NdkStatus FromMinusOne(int result) { return StatusOfErrno(result == 0 ? 0 : errno); }

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_VERBS_STATUS_H_
