// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_DESCRIPTOR_LIMIT_H_
#define TESTS_DESCRIPTOR_LIMIT_H_

#include <sys/resource.h>

namespace rdmabroker {

// For a program with many connections over user-space iWARP, each end of which is a socket: so many open files as the
// administrator permits.
inline void RaiseDescriptorLimit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace rdmabroker

#endif  // TESTS_DESCRIPTOR_LIMIT_H_
