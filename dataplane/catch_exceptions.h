// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_CATCH_EXCEPTIONS_H_
#define DATAPLANE_CATCH_EXCEPTIONS_H_

#include <new>
#include <system_error>

#include "dataplane/ndk/status.h"
#include "dataplane/refusal.h"

namespace rdmabroker {

// Runs the body of a public function, and returns what it returns. No exception leaves it: where the body throws, the
// result is `refused` of kNoMemory (memory has run out), kInsufficientResources (no more threads) or kInternalError,
// and the thread's hint says why. The body must leave everything as it was when it throws.
template <typename Body, typename Refused>
auto CatchExceptions(const Body& body, const Refused& refused) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return refused(Refuse(NdkStatus::kNoMemory, "memory has run out"));
  } catch (const std::system_error&) {  // By std::thread.
    return refused(Refuse(NdkStatus::kInsufficientResources, "threads have run out"));
  } catch (...) {
    return refused(Refuse(NdkStatus::kInternalError, "an error of this library; please report it"));
  }
}

// For a body that returns a status, or a Created.
template <typename Body>
auto CatchExceptions(const Body& body) noexcept -> decltype(body()) {
  return CatchExceptions(body, [](NdkStatus status) { return decltype(body()){status}; });
}

}  // namespace rdmabroker

#endif  // DATAPLANE_CATCH_EXCEPTIONS_H_
