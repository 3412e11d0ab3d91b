// SPDX-License-Identifier: Apache-2.0

// Who a client over TCP is, by the certificates that it has presented.

#include "broker/control/remote_callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/revocations.h"
#include "proto/rpc/status.h"
#include "tests/control/test_certificates.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;

constexpr char kInspector[] = "spiffe://example.org/inspector";
constexpr char kSomebody[] = "spiffe://example.org/somebody";

class RemoteCallersTest : public testing::Test {
 protected:
  RemoteCallersTest() { callers_.Set({}, {kInspector}); }

  // The certificate of a client with these URI names.
  std::string Of(const std::vector<std::string>& uris) const { return authority_.Sign({.uris = uris}).certificate; }
  rpc::Status Admit(const std::string& certificate, absl::Time now = absl::Now()) {
    caller_ = {};
    return callers_.Admit(ChainOf(certificate), now, &caller_);
  }

  const TestAuthority authority_{"authority"};
  RemoteCallers callers_;
  Caller caller_;
};

// Also where its connection has not ended with it.
TEST_F(RemoteCallersTest, ACertificateHoldsUntilItsEnd) {
  const std::string certificate = Of({kInspector});
  const absl::Time end = ChainOf(certificate).End();
  EXPECT_TRUE(Admit(certificate, end - absl::Seconds(1)).ok());
  EXPECT_TRUE(caller_.inspector);
  EXPECT_THAT(Admit(certificate, end).message, HasSubstr("caller: the certificate has expired"));
}

TEST_F(RemoteCallersTest, ARevokedCertificateIsRefusedWhateverItSays) {
  std::vector<Certificate> authorities;
  authorities.push_back(ReadCertificate(BioOf(authority_.certificate()).get()));
  const auto revoking = [&](const std::vector<std::string>& which) {
    callers_.Set(std::make_shared<const Revocations>(
        *Revocations::Parse(authority_.Revoke({.certificates = which}), authorities)));
  };
  const std::vector<std::string> certificates = {Of({kInspector}), Of({kSomebody}), Of({"no id"})};
  revoking({Of({})});
  EXPECT_TRUE(Admit(certificates.front()).ok());
  revoking(certificates);
  for (const std::string& certificate : certificates) {
    const rpc::Status refused = Admit(certificate);
    EXPECT_EQ(refused.code, absl::StatusCode::kUnauthenticated);
    EXPECT_THAT(refused.message, HasSubstr("revoked by a list in tcp.revoked"));
    EXPECT_FALSE(caller_.inspector);
  }
  const rpc::Status unknown = Admit(TestAuthority("below", authority_).Sign({.uris = {kInspector}}).certificate);
  EXPECT_EQ(unknown.code, absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(unknown.message, HasSubstr("the issuer's certificate was not presented"));
}

TEST_F(RemoteCallersTest, WithoutACertificateNobodyIsAdmitted) {
  EXPECT_EQ(Admit("").code, absl::StatusCode::kPermissionDenied);
}

TEST_F(RemoteCallersTest, WithoutOneIdNobodyIsAdmitted) {
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{}, "caller: the certificate has 0 URI names"},
      {{kInspector, kInspector}, "caller: the certificate has 2 URI names"},
      {{"https://example.org/"}, "caller: the certificate's URI name is no SPIFFE id"},
  };
  for (const auto& [uris, hint] : rows) {
    const rpc::Status refused = Admit(Of(uris));
    EXPECT_EQ(refused.code, absl::StatusCode::kPermissionDenied) << hint;
    EXPECT_THAT(refused.message, HasSubstr(hint));
    EXPECT_EQ(caller_.spiffe_id, "") << hint;
    EXPECT_FALSE(caller_.inspector) << hint;
  }
}

TEST_F(RemoteCallersTest, WhoIsRefusedHasItsIdForTheLog) {
  EXPECT_FALSE(Admit(Of({kSomebody})).ok());
  EXPECT_EQ(caller_.spiffe_id, kSomebody);
  EXPECT_FALSE(caller_.inspector);
}

}  // namespace
}  // namespace rdmabroker
