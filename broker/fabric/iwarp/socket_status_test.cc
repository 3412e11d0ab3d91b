// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/socket_status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rdmabroker {
namespace {

TEST(SocketStatus, TellsWhatCanBeTriedAgainFromWhatCannot) {
  const struct {
    SocketStep step;
    int error;
    NdkStatus status;
  } rows[] = {
      {SocketStep::kBind, EADDRINUSE, NdkStatus::kSharingViolation},
      {SocketStep::kBind, EADDRNOTAVAIL, NdkStatus::kInvalidAddress},
      {SocketStep::kBind, EACCES, NdkStatus::kAccessDenied},
      {SocketStep::kBind, EMFILE, NdkStatus::kInsufficientResources},
      {SocketStep::kConnect, ENETUNREACH, NdkStatus::kNetworkUnreachable},
      {SocketStep::kConnect, EHOSTUNREACH, NdkStatus::kHostUnreachable},
      {SocketStep::kConnect, ETIMEDOUT, NdkStatus::kIoTimeout},
      {SocketStep::kConnect, ECONNREFUSED, NdkStatus::kConnectionRefused},
      {SocketStep::kConnect, ECONNRESET, NdkStatus::kConnectionRefused},
      {SocketStep::kConnect, EADDRNOTAVAIL, NdkStatus::kAddressAlreadyExists},
      {SocketStep::kConnect, ENOMEM, NdkStatus::kInsufficientResources},
      {SocketStep::kFinish, ECONNRESET, NdkStatus::kConnectionAborted},
      {SocketStep::kFinish, ETIMEDOUT, NdkStatus::kIoTimeout},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(SocketStatus(row.step, row.error), row.status) << StatusName(row.status);
  }
}

TEST(SocketStatus, AnUnknownErrorIsNeverSuccess) {
  for (int error = 0; error < 200; ++error) {
    for (const SocketStep step : {SocketStep::kBind, SocketStep::kConnect, SocketStep::kFinish}) {
      EXPECT_FALSE(IsSuccess(SocketStatus(step, error))) << error;
    }
  }
  EXPECT_EQ(SocketStatus(SocketStep::kBind, ELOOP), NdkStatus::kUnsuccessful);
  EXPECT_EQ(SocketStatus(SocketStep::kConnect, ELOOP), NdkStatus::kUnsuccessful);
  EXPECT_EQ(SocketStatus(SocketStep::kFinish, ELOOP), NdkStatus::kConnectionAborted);
}

}  // namespace
}  // namespace rdmabroker
