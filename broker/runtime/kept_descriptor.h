// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_KEPT_DESCRIPTOR_H_
#define BROKER_RUNTIME_KEPT_DESCRIPTOR_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A descriptor that another process keeps while this one is dead, as sd_notify(3) has it under FDSTORE. Names need not
// be unique.
struct KeptDescriptor {
  std::string name;
  UniqueFd fd;
};

// What FDNAME of sd_notify(3) may have.
inline constexpr size_t kMaxDescriptorName = 255;

// Whether it can be the name of one: at most so many bytes of ASCII without control characters, and without the ':'
// that parts the names in LISTEN_FDNAMES. It may be empty.
bool IsDescriptorName(std::string_view name);

// Whether both are one open file, each a duplicate of the other. Where the kernel does not say, as under a container's
// seccomp filter that forbids kcmp(2), sockets are known by their inodes, and all others count as different: one that
// is kept twice does no harm, one that is not kept is lost.
bool AreSameFile(int a, int b);

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_KEPT_DESCRIPTOR_H_
