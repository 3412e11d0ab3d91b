// SPDX-License-Identifier: Apache-2.0

// Who a client over TCP is, by what the handshake has found out about it.

#include "broker/control/remote_callers.h"

#include <gmock/gmock.h>
#include <grpc/grpc_security_constants.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"
#include "broker/control/revocations.h"
#include "tests/control/test_certificates.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;

constexpr char kInspector[] = "spiffe://example.org/inspector";

class Client final : public grpc::AuthContext {
 public:
  explicit Client(std::string uri, std::string certificate = "")
      : uri_(std::move(uri)), certificate_(std::move(certificate)) {}

  bool IsPeerAuthenticated() const override { return true; }
  std::vector<grpc::string_ref> GetPeerIdentity() const override { return {}; }
  std::string GetPeerIdentityPropertyName() const override { return ""; }
  std::vector<grpc::string_ref> FindPropertyValues(const std::string& name) const override {
    if (name == GRPC_PEER_URI_PROPERTY_NAME) return {uri_};
    if (name == GRPC_X509_PEM_CERT_PROPERTY_NAME && !certificate_.empty()) return {certificate_};
    return {};
  }
  grpc::AuthPropertyIterator begin() const override { return Nowhere(); }
  grpc::AuthPropertyIterator end() const override { return Nowhere(); }
  void AddProperty(const std::string&, const grpc::string_ref&) override {}
  bool SetPeerIdentityPropertyName(const std::string&) override { return false; }

 private:
  struct Nowhere final : grpc::AuthPropertyIterator {};

  const std::string uri_;
  const std::string certificate_;
};

class RemoteCallersTest : public testing::Test {
 protected:
  RemoteCallersTest() { callers_.Set({}, {kInspector}); }

  grpc::Status Admit(const Client& client, absl::Time now) { return callers_.Admit(client, now, &caller_, &chain_); }

  RemoteCallers callers_;
  Caller caller_;
  PresentedChain chain_;
};

// As of a TLS session that is resumed, where nobody else looks at the certificate again.
TEST_F(RemoteCallersTest, ACertificateHoldsUntilItsEnd) {
  const std::string certificate = TestAuthority("authority").Sign({.uris = {kInspector}}).certificate;
  const absl::Time end = PresentedChain(certificate, "").End();
  const Client client(kInspector, certificate);
  EXPECT_TRUE(Admit(client, end - absl::Seconds(1)).ok());
  EXPECT_TRUE(caller_.inspector);
  EXPECT_EQ(chain_.End(), end);
  EXPECT_THAT(Admit(client, end).error_message(), HasSubstr("caller: the certificate has expired"));
}

TEST_F(RemoteCallersTest, ARevokedCertificateIsRefusedWhateverItSays) {
  const TestAuthority authority("authority");
  const std::string certificate = authority.Sign({.uris = {kInspector}}).certificate;
  std::vector<Certificate> authorities;
  authorities.push_back(ReadCertificate(BioOf(authority.certificate()).get()));
  const auto revoking = [&](const std::string& which) {
    callers_.Set(std::make_shared<const Revocations>(
        *Revocations::Parse(authority.Revoke({.certificates = {which}}), authorities)));
  };
  revoking(authority.Sign({}).certificate);
  EXPECT_TRUE(Admit(Client(kInspector, certificate), absl::Now()).ok());
  revoking(certificate);
  for (const char* id : {kInspector, "spiffe://example.org/somebody", "no id"}) {
    caller_ = {};
    const grpc::Status refused = Admit(Client(id, certificate), absl::Now());
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(refused.error_message(), HasSubstr("revoked by a list in tcp.revoked"));
    EXPECT_FALSE(caller_.inspector);
  }
  const grpc::Status unknown =
      Admit(Client(kInspector, TestAuthority("below", authority).Sign({}).certificate), absl::Now());
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(unknown.error_message(), HasSubstr("the issuer's certificate was not presented"));
}

TEST_F(RemoteCallersTest, WithoutACertificateNobodyIsAdmitted) {
  const Client client(kInspector);
  EXPECT_EQ(Admit(client, absl::Now()).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(RemoteCallersTest, WhoIsRefusedHasItsIdForTheLog) {
  const Client client("spiffe://example.org/somebody");
  EXPECT_FALSE(Admit(client, absl::Now()).ok());
  EXPECT_EQ(caller_.spiffe_id, "spiffe://example.org/somebody");
  EXPECT_FALSE(caller_.inspector);
}

}  // namespace
}  // namespace rdmabroker
