// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RDMABROKER_V1_CONTRACT_H_
#define PROTO_RDMABROKER_V1_CONTRACT_H_

#include <google/protobuf/descriptor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdmabroker {

// What .proto files promise to programs that were built on them, as text that people can read and compare: for each
// enum, message and service a heading with its members below. A member begins with what identifies it on the wire:
//
//   message rdmabroker.v1.RequestHeader in proto/rdmabroker/v1/requests.proto
//     1 session_id: uint64
//   service rdmabroker.v1.Broker in proto/rdmabroker/v1/broker.proto
//     Listen: rdmabroker.v1.ListenRequest -> rdmabroker.v1.Outcome
//
// Ordered by heading; members of messages and enums by number.
using Contract = std::map<std::string, std::vector<std::string>>;

using ProtoFiles = std::vector<const google::protobuf::FileDescriptor*>;

Contract DescribeContract(const ProtoFiles& files);

// ParseContract(ContractText(c)) == c. Lines that begin with '#', and empty ones, are for the reader.
std::string ContractText(const Contract& contract);
Contract ParseContract(std::string_view text);

struct ContractDifferences {
  std::vector<std::string> broken;    // Promised, and gone or otherwise: never allowed.
  std::vector<std::string> unlisted;  // New, and not promised yet.
};

ContractDifferences CompareContracts(const Contract& released, const Contract& current);

// The full names of the messages, fields, oneofs, enums, enum values, services and RPCs without a comment. The files
// must have been built with their source locations.
std::vector<std::string> FindUndocumented(const ProtoFiles& files);

}  // namespace rdmabroker

#endif  // PROTO_RDMABROKER_V1_CONTRACT_H_
