// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_FOOTPRINT_H_
#define TESTS_INTEGRATION_FOOTPRINT_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rdmabroker {

// What the system holds for the processes of a test that has entered its own namespaces, one thing a line and sorted,
// without the numbers that differ each time. Equal before and after something that leaves nothing behind.
using Footprint = std::vector<std::string>;

// Child processes of this one, adopted orphans included, zombies too.
Footprint Processes();
// TCP sockets of the network namespace in any state but TIME_WAIT, which is the kernel's memory of a connection that is
// over.
Footprint TcpSockets();
// These and Unix sockets.
Footprint Sockets();
// A process's open descriptors, by what they are.
Footprint Descriptors(pid_t pid);
// Files below the folder.
Footprint Files(const std::string& folder);
// POSIX's and System V's.
Footprint SharedMemory();

// Bytes of a process's own memory, its heap and stacks, that are in RAM (RssAnon of proc(5)).
int64_t ResidentMemory(pid_t pid);

// What one has and the other has not, for a person; "" where they are equal.
std::string Difference(const Footprint& before, const Footprint& after);

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_FOOTPRINT_H_
