// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_OWN_NAMESPACES_H_
#define TESTS_INTEGRATION_OWN_NAMESPACES_H_

#include <string>

namespace rdmabroker {

// Puts this process, and all that it starts, where nobody else is: in a network whose only interface is the loopback
// one, with an empty /tmp and /dev/shm, and as the parent of every orphan below it. What a test then finds of sockets,
// files and processes is its own. Before the process has a second thread; a later call only repeats the answer: empty,
// or what is in the way.
const std::string& EnterOwnNamespaces();

// Whether /tmp and /dev/shm are really its own. They are not in a chroot, whose mounts may be others', too.
bool HasOwnTemporaryFiles();

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_OWN_NAMESPACES_H_
