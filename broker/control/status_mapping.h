// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_STATUS_MAPPING_H_
#define BROKER_CONTROL_STATUS_MAPPING_H_

#include "absl/status/status.h"
#include "broker/core/requests.h"
#include "dataplane/ndk/status.h"
#include "proto/rpc/status.h"

namespace rdmabroker {

// The gRPC code of a request that fails with `status`, as ndk_status.proto has it. OK for a success; INTERNAL for a
// status that no request of the broker ends with.
absl::StatusCode RpcCodeOf(NdkStatus status);

// A failed outcome as gRPC carries it: code, the status's name and the hint as message, and the outcome itself as the
// typed detail (google.rpc.Status on the wire). OK for a success.
rpc::Status RpcStatusOf(const Outcome& outcome);
// The same of a failed outcome, with another code than its status has.
rpc::Status RpcStatusOf(const Outcome& outcome, absl::StatusCode code);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_STATUS_MAPPING_H_
