// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_GRPC_LOG_H_
#define BROKER_CONTROL_GRPC_LOG_H_

namespace rdmabroker {

// From now on what gRPC complains of in this process is an event of the log, a line a second at most: it says something
// of every handshake that fails, and whoever can reach the TCP port can have as many of those as he likes.
void TakeGrpcsComplaints();

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_GRPC_LOG_H_
