// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/completion_status.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

TEST(CompletionStatus, EveryVerbsStatusHasOneOfNdks) {
  using enum NdkStatus;
  const struct {
    ibv_wc_status status;
    NdkStatus sent, received;
  } rows[] = {
      {IBV_WC_SUCCESS, kSuccess, kSuccess},
      {IBV_WC_LOC_LEN_ERR, kDataOverrun, kBufferOverflow},
      {IBV_WC_LOC_QP_OP_ERR, kInternalError, kInternalError},
      {IBV_WC_LOC_EEC_OP_ERR, kInternalError, kInternalError},
      {IBV_WC_LOC_PROT_ERR, kAccessViolation, kAccessViolation},
      {IBV_WC_WR_FLUSH_ERR, kCancelled, kCancelled},
      {IBV_WC_MW_BIND_ERR, kAccessViolation, kAccessViolation},
      {IBV_WC_BAD_RESP_ERR, kRemoteResources, kRemoteResources},
      {IBV_WC_LOC_ACCESS_ERR, kAccessViolation, kAccessViolation},
      {IBV_WC_REM_INV_REQ_ERR, kRemoteResources, kRemoteResources},
      {IBV_WC_REM_ACCESS_ERR, kAccessViolation, kAccessViolation},
      {IBV_WC_REM_OP_ERR, kRemoteResources, kRemoteResources},
      {IBV_WC_RETRY_EXC_ERR, kIoTimeout, kIoTimeout},
      {IBV_WC_RNR_RETRY_EXC_ERR, kIoTimeout, kIoTimeout},
      {IBV_WC_REM_INV_RD_REQ_ERR, kRemoteResources, kRemoteResources},
      {IBV_WC_REM_ABORT_ERR, kRequestAborted, kRequestAborted},
      {IBV_WC_FATAL_ERR, kInternalError, kInternalError},
      {IBV_WC_RESP_TIMEOUT_ERR, kIoTimeout, kIoTimeout},
      {IBV_WC_GENERAL_ERR, kInternalError, kInternalError},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(CompletionStatus(row.status, false), row.sent) << ibv_wc_status_str(row.status);
    EXPECT_EQ(CompletionStatus(row.status, true), row.received) << ibv_wc_status_str(row.status);
  }
}

TEST(VerbsStatus, ErrorsOfAllFourKindsBecomeStatuses) {
  const int something = 0;
  EXPECT_EQ(FromPointer(&something), NdkStatus::kSuccess);
  errno = ENOMEM;
  EXPECT_EQ(FromPointer(nullptr), NdkStatus::kInsufficientResources);
  errno = 0;
  EXPECT_EQ(FromPointer(nullptr), NdkStatus::kUnsuccessful) << "no object is no success";
  EXPECT_EQ(FromErrnoResult(0), NdkStatus::kSuccess);
  EXPECT_EQ(FromErrnoResult(EINVAL), NdkStatus::kInvalidParameter);
  EXPECT_EQ(FromErrnoResult(-EOPNOTSUPP), NdkStatus::kNotSupported);
  errno = EACCES;
  EXPECT_EQ(FromMinusOne(0), NdkStatus::kSuccess);
  EXPECT_EQ(FromMinusOne(-1), NdkStatus::kAccessDenied);
  EXPECT_EQ(StatusOfErrno(EDOM), NdkStatus::kUnsuccessful) << "one that nobody expects";
}

TEST(VerbsStatus, APostThatTheHardwareRefusesHasOneOfThePostsStatuses) {
  using enum NdkStatus;
  const struct {
    int error;
    NdkStatus status;
  } rows[] = {
      {0, kSuccess},
      {ENOMEM, kInsufficientResources},
      {ENOTCONN, kConnectionInvalid},
      {EOPNOTSUPP, kNotSupported},
      {EINVAL, kUnsuccessful},
      {EIO, kUnsuccessful},
      {EFAULT, kUnsuccessful},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(FromPost(row.error), row.status) << row.error;
    EXPECT_EQ(FromPost(-row.error), row.status) << "negative " << row.error;
    errno = row.error;
    EXPECT_EQ(FromPost(-1), row.error == 0 ? kUnsuccessful : row.status) << "errno " << row.error;
  }
}

}  // namespace
}  // namespace rdmabroker::verbs
