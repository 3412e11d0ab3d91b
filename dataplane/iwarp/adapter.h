// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_ADAPTER_H_
#define DATAPLANE_IWARP_ADAPTER_H_

#include "dataplane/adapter.h"

namespace rdmabroker::iwarp {

// Opens the user-space iWARP adapter. It needs neither a device nor privileges; several may be open.
Created<Adapter> OpenAdapter();

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_ADAPTER_H_
