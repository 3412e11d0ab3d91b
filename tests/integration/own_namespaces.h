// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_OWN_NAMESPACES_H_
#define TESTS_INTEGRATION_OWN_NAMESPACES_H_

#include <string>

namespace rdmabroker {

// Puts this process, and all that it starts, where nobody else is: in a network whose only interface is the loopback
// one, with an empty /dev/shm, in which temporary files are from then on, and as the parent of every orphan below it.
// Sockets, processes and files in /dev/shm that a test finds are then its own. Call it while the process has one
// thread. A later call only repeats the answer: empty, or what is in the way.
const std::string& EnterOwnNamespaces();

// Whether /dev/shm is really its own. It is not in a chroot, whose mounts may be others', too.
bool HasOwnTemporaryFiles();

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_OWN_NAMESPACES_H_
