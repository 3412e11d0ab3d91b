// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_ALLOCATION_COUNT_H_
#define DATAPLANE_TESTING_ALLOCATION_COUNT_H_

#include <cstdint>

namespace rdmabroker {

// How often this process has called operator new, in all its threads. A test that links this has an operator new of its
// own.
uint64_t AllocationCount();

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_ALLOCATION_COUNT_H_
