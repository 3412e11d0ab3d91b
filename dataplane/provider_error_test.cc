// SPDX-License-Identifier: Apache-2.0

#include "dataplane/provider_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "dataplane/provider_error_text.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr NdkStatus kAborted = NdkStatus::kConnectionAborted;

std::string Text(uint32_t provider_error) { return ConnectionEndText(kAborted, provider_error); }

// Of enum ibv_wc_status.
constexpr uint32_t kRetriesExceeded = 12;
constexpr uint32_t kReceiverNotReady = 13;

TEST(ConnectionEndText, ASuccessHasNone) {
  EXPECT_EQ(ConnectionEndText(NdkStatus::kSuccess, TerminateSent(iwarp::kMpaCrc)), "");
}

TEST(ConnectionEndText, WithoutANumberEachStatusSaysWhatToDo) {
  std::vector<std::string> texts;
  for (const NdkStatus status :
       {kAborted, NdkStatus::kIoTimeout, NdkStatus::kDeviceRemoved, NdkStatus::kConnectionDisconnected}) {
    const std::string text = ConnectionEndText(status, 0);
    EXPECT_THAT(text, Not(IsEmpty()));
    for (const std::string& other : texts) EXPECT_NE(text, other);
    texts.push_back(text);
  }
}

TEST(ConnectionEndText, WhoMustPostReceivesIsTold) {
  EXPECT_THAT(Text(TerminateReceived(iwarp::kDdpNoBuffer)), HasSubstr("the peer must post receives"));
  EXPECT_THAT(Text(TerminateSent(iwarp::kDdpNoBuffer)), HasSubstr("this side must post receives"));
  EXPECT_THAT(Text(FailedCompletion(kReceiverNotReady, 0)), HasSubstr("the peer must post receives"));
}

TEST(ConnectionEndText, AReceiverThatIsNotReadyIsToldFromAHostThatIsGone) {
  EXPECT_THAT(Text(FailedCompletion(kRetriesExceeded, 0)), Not(HasSubstr("receive")));
  EXPECT_THAT(Text(FailedCompletion(kRetriesExceeded, 0)), HasSubstr("host"));
}

TEST(ConnectionEndText, WhoNamedMemoryWronglyIsTold) {
  for (const auto cause : {iwarp::kRdmapInvalidStag, iwarp::kDdpBaseOrBounds, iwarp::kRdmapAccessRights}) {
    EXPECT_THAT(Text(TerminateSent(cause)), HasSubstr("the peer named memory of this side"));
    EXPECT_THAT(Text(TerminateReceived(cause)), HasSubstr("this side named memory of the peer"));
    EXPECT_THAT(Text(TerminateSent(cause)), HasSubstr(std::string(TerminateCauseName(cause))));
  }
}

TEST(ConnectionEndText, TheVendorsNumberIsThereWhereThereIsOne) {
  EXPECT_THAT(Text(FailedCompletion(kReceiverNotReady, 135)), HasSubstr("135"));
  EXPECT_THAT(Text(FailedCompletion(kReceiverNotReady, 0)), Not(HasSubstr("vendor")));
}

TEST(ConnectionEndText, AnErrnoIsToldAsOne) {
  for (const uint32_t error : {uint32_t{ETIMEDOUT}, kSocketError | ETIMEDOUT}) {
    EXPECT_THAT(Text(error), HasSubstr("does not answer"));
  }
  EXPECT_THAT(Text(kSocketError | ECONNRESET), Not(HasSubstr("does not answer")));
  EXPECT_THAT(Text(kSocketError | ENOMEM), AllOf(HasSubstr("this side"), Not(HasSubstr("peer"))));
}

TEST(ProviderErrorText, IsThatOfAnEndWithTheSameNumberAndEmptyWithoutOne) {
  for (const uint32_t number : {uint32_t{ETIMEDOUT}, TerminateReceived(iwarp::kDdpNoBuffer), kSocketError | ECONNRESET,
                                kLocalError, FailedCompletion(kReceiverNotReady, 7)}) {
    EXPECT_EQ(ProviderErrorText(number), Text(number));
  }
  EXPECT_EQ(ProviderErrorText(0), "");
}

// A client may report any.
TEST(ConnectionEndText, EachNumberHasAText) {
  for (uint64_t number = 1; number <= 0xFFFFFFFF; number += 65521) {
    EXPECT_THAT(Text(static_cast<uint32_t>(number)), Not(IsEmpty())) << number;
  }
  for (uint32_t status = 0; status <= 0x7F; ++status) EXPECT_THAT(Text(FailedCompletion(status, 0)), Not(IsEmpty()));
  EXPECT_THAT(Text(0xFFFFFFFF), Not(IsEmpty()));
}

}  // namespace
}  // namespace rdmabroker
