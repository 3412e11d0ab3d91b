// SPDX-License-Identifier: Apache-2.0

#include "broker/control/status_mapping.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "proto/rdmabroker/v1/ndk_status.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker {
namespace {

const std::map<std::string, grpc::StatusCode> kCodes = {
    {"OK", grpc::StatusCode::OK},
    {"UNKNOWN", grpc::StatusCode::UNKNOWN},
    {"INVALID_ARGUMENT", grpc::StatusCode::INVALID_ARGUMENT},
    {"FAILED_PRECONDITION", grpc::StatusCode::FAILED_PRECONDITION},
    {"RESOURCE_EXHAUSTED", grpc::StatusCode::RESOURCE_EXHAUSTED},
    {"PERMISSION_DENIED", grpc::StatusCode::PERMISSION_DENIED},
    {"NOT_FOUND", grpc::StatusCode::NOT_FOUND},
    {"ALREADY_EXISTS", grpc::StatusCode::ALREADY_EXISTS},
    {"DEADLINE_EXCEEDED", grpc::StatusCode::DEADLINE_EXCEEDED},
    {"UNIMPLEMENTED", grpc::StatusCode::UNIMPLEMENTED},
    {"INTERNAL", grpc::StatusCode::INTERNAL},
    {"CANCELLED", grpc::StatusCode::CANCELLED},
    {"UNAVAILABLE", grpc::StatusCode::UNAVAILABLE},
    {"ABORTED", grpc::StatusCode::ABORTED},
};

// What the comments of ndk_status.proto promise: the code of each status that has one.
std::map<std::string, std::string> PromisedCodes() {
  std::ifstream file("proto/rdmabroker/v1/ndk_status.proto");
  EXPECT_TRUE(file.is_open());
  std::map<std::string, std::string> codes;
  std::string comment;
  for (std::string line; std::getline(file, line);) {
    const size_t slashes = line.find("  // ");
    if (slashes == 0) {
      comment += " " + line.substr(5);
      continue;
    }
    if (const size_t equals = line.find(" = "); line.find("  ") == 0 && equals != std::string::npos) {
      const size_t code = comment.find("gRPC: ");
      if (code != std::string::npos) {
        codes[line.substr(2, equals - 2)] = comment.substr(code + 6, comment.find('.', code) - code - 6);
      }
    }
    comment.clear();
  }
  return codes;
}

TEST(GrpcCodeOf, IsWhatTheProtoPromisesOfEveryStatus) {
  const auto promised = PromisedCodes();
  EXPECT_GT(promised.size(), 30u);
  const auto* statuses = v1::NdkStatus_descriptor();
  for (int i = 0; i < statuses->value_count(); ++i) {
    const std::string& name = statuses->value(i)->name();
    const auto status = StatusFromName(name);
    ASSERT_TRUE(status) << name;
    const auto promise = promised.find(name);
    const auto expected = promise != promised.end() ? kCodes.at(promise->second)
                          : IsSuccess(*status)      ? grpc::StatusCode::OK
                                                    : grpc::StatusCode::INTERNAL;
    EXPECT_EQ(GrpcCodeOf(*status), expected) << name;
  }
}

TEST(GrpcStatusOf, IsOkForASuccess) {
  EXPECT_TRUE(GrpcStatusOf({}).ok());
  EXPECT_TRUE(GrpcStatusOf({.status = NdkStatus::kPending}).ok());
}

TEST(GrpcStatusOf, CarriesTheOutcomeAsItsDetail) {
  const grpc::Status status = GrpcStatusOf({.status = NdkStatus::kConnectionRefused,
                                            .payload = ConnectionData{.private_data = {1, 2, 3}},
                                            .provider_error = 28,
                                            .retryable = true,
                                            .retry_same_qp = true,
                                            .hint = "destination: nobody listens"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "STATUS_CONNECTION_REFUSED: destination: nobody listens");
  v1::RpcStatus rpc;
  ASSERT_TRUE(rpc.ParseFromString(status.error_details()));
  EXPECT_EQ(rpc.code(), status.error_code());
  EXPECT_EQ(rpc.message(), status.error_message());
  ASSERT_EQ(rpc.details_size(), 1);
  EXPECT_EQ(rpc.details(0).type_url(), "type.googleapis.com/rdmabroker.v1.Outcome");
  v1::Outcome outcome;
  ASSERT_TRUE(rpc.details(0).UnpackTo(&outcome));
  EXPECT_EQ(outcome.status(), v1::STATUS_CONNECTION_REFUSED);
  EXPECT_EQ(outcome.connection_data().private_data(), "\1\2\3");
  EXPECT_EQ(outcome.provider_error(), 28u);
  EXPECT_TRUE(outcome.retryable());
  EXPECT_TRUE(outcome.retry_same_qp());
  EXPECT_EQ(outcome.hint(), "destination: nobody listens");
}

}  // namespace
}  // namespace rdmabroker
