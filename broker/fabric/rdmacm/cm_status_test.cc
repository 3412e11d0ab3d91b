// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace rdmabroker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the kernel's connection manager says at each step, and what a caller of NDKPI is to make of it.
TEST(CmStatus, SaysWhatNdkpiSaysInTheKernelsPlace) {
  struct Row {
    CmStep step;
    int error;
    NdkStatus status;
  };
  for (const Row& row : {
           Row{CmStep::kBind, 0, NdkStatus::kSuccess},
           Row{CmStep::kBind, EADDRINUSE, NdkStatus::kSharingViolation},
           Row{CmStep::kBind, EADDRNOTAVAIL, NdkStatus::kInvalidAddress},
           Row{CmStep::kBind, ENODEV, NdkStatus::kInvalidAddress},
           Row{CmStep::kBind, ENOMEM, NdkStatus::kInsufficientResources},
           Row{CmStep::kBind, EMFILE, NdkStatus::kInsufficientResources},
           Row{CmStep::kBind, EACCES, NdkStatus::kAccessDenied},
           Row{CmStep::kBind, EAFNOSUPPORT, NdkStatus::kInvalidParameter},
           Row{CmStep::kBind, EIO, NdkStatus::kUnsuccessful},
           Row{CmStep::kResolveAddress, ENETUNREACH, NdkStatus::kNetworkUnreachable},
           Row{CmStep::kResolveAddress, ENODEV, NdkStatus::kNetworkUnreachable},
           Row{CmStep::kResolveAddress, EADDRNOTAVAIL, NdkStatus::kNetworkUnreachable},
           Row{CmStep::kResolveAddress, EHOSTUNREACH, NdkStatus::kHostUnreachable},
           Row{CmStep::kResolveAddress, ETIMEDOUT, NdkStatus::kHostUnreachable},
           Row{CmStep::kResolveAddress, EADDRINUSE, NdkStatus::kSharingViolation},
           Row{CmStep::kResolveRoute, ETIMEDOUT, NdkStatus::kIoTimeout},
           Row{CmStep::kResolveRoute, EINVAL, NdkStatus::kHostUnreachable},
           Row{CmStep::kConnect, ETIMEDOUT, NdkStatus::kIoTimeout},
           Row{CmStep::kConnect, ECONNREFUSED, NdkStatus::kConnectionRefused},
           Row{CmStep::kConnect, ECONNRESET, NdkStatus::kConnectionRefused},
           Row{CmStep::kConnect, EHOSTUNREACH, NdkStatus::kHostUnreachable},
           Row{CmStep::kConnect, ENETUNREACH, NdkStatus::kNetworkUnreachable},
           Row{CmStep::kConnect, EADDRNOTAVAIL, NdkStatus::kAddressAlreadyExists},
           Row{CmStep::kConnect, EINVAL, NdkStatus::kConnectionInvalid},
           Row{CmStep::kFinish, ETIMEDOUT, NdkStatus::kIoTimeout},
           Row{CmStep::kFinish, EINVAL, NdkStatus::kConnectionAborted},
           Row{CmStep::kFinish, ECONNRESET, NdkStatus::kConnectionAborted},
           Row{CmStep::kFinish, ENOMEM, NdkStatus::kInsufficientResources},
           Row{CmStep::kDisconnect, 0, NdkStatus::kSuccess},
           Row{CmStep::kDisconnect, ETIMEDOUT, NdkStatus::kIoTimeout},
           Row{CmStep::kDisconnect, ECONNRESET, NdkStatus::kConnectionAborted},
       }) {
    EXPECT_EQ(CmStatus(row.step, row.error), row.status)
        << "step " << static_cast<int>(row.step) << ", " << std::strerror(row.error);
  }
}

TEST(CmStatus, TellsAPortThatIsTakenOnAllAddressesFromAnAddressThatIsNotThere) {
  EXPECT_EQ(CmBindStatus(EADDRNOTAVAIL, true), NdkStatus::kSharingViolation);
  EXPECT_EQ(CmBindStatus(EADDRNOTAVAIL, false), NdkStatus::kInvalidAddress);
  EXPECT_EQ(CmBindStatus(EACCES, true), NdkStatus::kAccessDenied);
}

TEST(CmStatus, OfARejectDependsOnWhetherThePeerHadReplied) {
  EXPECT_EQ(CmRejectStatus(CmStep::kConnect), NdkStatus::kConnectionRefused);
  EXPECT_EQ(CmRejectStatus(CmStep::kFinish), NdkStatus::kConnectionAborted);
}

// Whoever reads it learns on which side to look, and at what.
TEST(CmStatus, ARefusalNamesWhoRefusesAndWhatToLookAt) {
  struct Row {
    bool by_reason;
    int error;
    testing::Matcher<std::string> text;
  };
  const auto names = [](const char* who) { return AllOf(HasSubstr(who), HasSubstr("rdma-brokerctl listeners")); };
  for (const Row& row : {
           Row{true, kRejectInvalidServiceId, names("nobody listens there (reason 8)")},
           Row{true, kRejectConsumerDefined, AllOf(names("program has rejected"), HasSubstr("paused"))},
           Row{true, kRejectStaleConnection, HasSubstr("try again")},
           Row{true, kRejectNoResources, HasSubstr("no room")},
           Row{true, 5, HasSubstr("reason 5")},
           Row{false, ECONNREFUSED, names("nobody listens there, or")},
           Row{false, ECONNRESET, names("nobody listens there, or")},
           Row{false, ETIMEDOUT, IsEmpty()},
       }) {
    EXPECT_THAT(CmRefusalText(row.by_reason, row.error), row.text) << row.error;
  }
}

}  // namespace
}  // namespace rdmabroker
