// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_QP_ATTRIBUTES_H_
#define BROKER_FABRIC_RDMACM_QP_ATTRIBUTES_H_

#include "broker/core/fabric_messages.h"

struct ib_uverbs_qp_attr;

namespace rdmabroker {

// What the kernel says for one transition of a queue pair, as it is shipped to the client that owns it. Alternate
// paths are left out: nothing here asks for one.
QpAttributes FromKernel(const ib_uverbs_qp_attr& kernel);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_QP_ATTRIBUTES_H_
