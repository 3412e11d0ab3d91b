// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_DEVICE_ATTRIBUTES_H_
#define DATAPLANE_VERBS_DEVICE_DEVICE_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "dataplane/verbs/device/device.h"

namespace rdmabroker::verbs {

// What was found out by trying.
struct DeviceTrials {
  uint32_t inline_data = 0;  // Bytes that go into a request.
  uint32_t depth = 0;        // Of both queues of a queue pair whose other numbers are the greatest, too.
  bool resizes_cqs = false;
};

DeviceDescription Describe(ibv_transport_type transport, const ibv_device_attr_ex& device, const ibv_port_attr& port,
                           const DeviceTrials& trials);

// The greatest numbers of SGEs, which the trials need.
uint32_t MaxSge(const ibv_device_attr& device);
// The device takes no more inline data in a request, in bytes; perhaps less.
uint32_t MostInlineData(const ibv_device_attr& device);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_DEVICE_ATTRIBUTES_H_
