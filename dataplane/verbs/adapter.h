// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_ADAPTER_H_
#define DATAPLANE_VERBS_ADAPTER_H_

#include <string>

#include "dataplane/adapter.h"

namespace rdmabroker::verbs {

// Opens a device of the kernel's by its name, such as "mlx5_0". It stays open, and cannot be removed, until the last
// object of it is closed. kObjectNameNotFound: there is none; kAccessDenied, kInsufficientResources, kNoMemory. Where
// the kernel's driver raises SIGPIPE as connections die, as soft iWARP's does, the process ignores that signal from
// then on, unless it handles it.
//
// Its queue pairs are connected by attachments without a socket: one for each transition (transition.h), where the
// driver does not move the queue pair itself, and an empty one when the connection is established. From then on
// initiator requests may be posted. A flush is for good from the first transition beyond INIT on.
//
// Consumers' callbacks run on the adapter's one thread, which also makes its queue pairs: a callback that waits for
// another thread of the consumer's must not wait for one that makes a queue pair.
Created<Adapter> OpenAdapter(const std::string& device);

// Tells an adapter of OpenAdapter's that its device is being removed. The adapter closes the device with the last
// object made on it, at once where there is none; until then the kernel waits with the removal. From now on the
// adapter's Create functions return kDeviceRemoved, and its close is still the consumer's to call. May be called again.
// From any thread but that of the adapter's callbacks.
void ReleaseDevice(Adapter* adapter);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_ADAPTER_H_
