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

const std::map<std::string, absl::StatusCode> kCodes = {
    {"OK", absl::StatusCode::kOk},
    {"UNKNOWN", absl::StatusCode::kUnknown},
    {"INVALID_ARGUMENT", absl::StatusCode::kInvalidArgument},
    {"FAILED_PRECONDITION", absl::StatusCode::kFailedPrecondition},
    {"RESOURCE_EXHAUSTED", absl::StatusCode::kResourceExhausted},
    {"PERMISSION_DENIED", absl::StatusCode::kPermissionDenied},
    {"NOT_FOUND", absl::StatusCode::kNotFound},
    {"ALREADY_EXISTS", absl::StatusCode::kAlreadyExists},
    {"DEADLINE_EXCEEDED", absl::StatusCode::kDeadlineExceeded},
    {"UNIMPLEMENTED", absl::StatusCode::kUnimplemented},
    {"INTERNAL", absl::StatusCode::kInternal},
    {"CANCELLED", absl::StatusCode::kCancelled},
    {"UNAVAILABLE", absl::StatusCode::kUnavailable},
    {"ABORTED", absl::StatusCode::kAborted},
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

TEST(RpcCodeOf, IsWhatTheProtoPromisesOfEveryStatus) {
  const auto promised = PromisedCodes();
  EXPECT_GT(promised.size(), 30u);
  const auto* statuses = v1::NdkStatus_descriptor();
  for (int i = 0; i < statuses->value_count(); ++i) {
    const std::string& name = statuses->value(i)->name();
    const auto status = StatusFromName(name);
    ASSERT_TRUE(status) << name;
    const auto promise = promised.find(name);
    const auto expected = promise != promised.end() ? kCodes.at(promise->second)
                          : IsSuccess(*status)      ? absl::StatusCode::kOk
                                                    : absl::StatusCode::kInternal;
    EXPECT_EQ(RpcCodeOf(*status), expected) << name;
  }
}

TEST(RpcStatusOf, IsOkForASuccess) {
  EXPECT_TRUE(RpcStatusOf({}).ok());
  EXPECT_TRUE(RpcStatusOf({.status = NdkStatus::kPending}).ok());
}

TEST(RpcStatusOf, CarriesTheOutcomeAsItsDetail) {
  const rpc::Status status = RpcStatusOf({.status = NdkStatus::kConnectionRefused,
                                          .payload = ConnectionData{.private_data = {1, 2, 3}},
                                          .provider_error = 28,
                                          .retryable = true,
                                          .retry_same_qp = true,
                                          .hint = "destination: nobody listens"});
  EXPECT_EQ(status.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message, "STATUS_CONNECTION_REFUSED: destination: nobody listens");
  v1::RpcStatus rpc;
  ASSERT_TRUE(rpc.ParseFromString(status.details));
  EXPECT_EQ(rpc.code(), static_cast<int>(status.code));
  EXPECT_EQ(rpc.message(), status.message);
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
