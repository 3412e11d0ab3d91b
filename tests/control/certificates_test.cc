// SPDX-License-Identifier: Apache-2.0

// What the broker makes of the files with its certificates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"
#include "broker/control/revocations.h"
#include "broker/control/server_certificates.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"

namespace rdmabroker {
namespace {

using testing::StartsWith;

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() { Write(pair_.certificate, pair_.private_key, authority_.certificate()); }

  void Write(const std::string& certificate, const std::string& key, const std::string& authorities) {
    std::ofstream(files_.certificate) << certificate;
    std::ofstream(files_.private_key) << key;
    std::ofstream(files_.client_authorities) << authorities;
  }
  absl::StatusOr<ServerCertificates> Read() { return ReadServerCertificates(files_, absl::Now()); }

  const TestAuthority authority_{"authority"};
  const TestPair pair_ = authority_.Sign({});
  const TestPair another_ = authority_.Sign({});
  const TemporaryFolder folder_;
  CertificateFiles files_ = {folder_.path() + "/cert.pem", folder_.path() + "/key.pem", folder_.path() + "/ca.pem"};
};

TEST_F(CertificatesTest, GoodOnesAreTakenAsTheyAre) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->chain, pair_.certificate);
  EXPECT_EQ(read->private_key, pair_.private_key);
  EXPECT_EQ(read->client_authorities, authority_.certificate());
  EXPECT_NE(read->tls, nullptr);
  EXPECT_EQ(ERR_peek_error(), 0u);
  const TestAuthority former("former", -60);
  const std::string chain = pair_.certificate + authority_.certificate();
  const std::string several = "a comment\n" + former.certificate() + authority_.certificate();
  Write(chain, pair_.private_key, several);
  const auto with_others = Read();
  ASSERT_TRUE(with_others.ok()) << with_others.status();
  EXPECT_EQ(with_others->chain, chain);
  EXPECT_EQ(with_others->client_authorities, several) << "one that has expired is nobody's loss";
}

TEST_F(CertificatesTest, AnAuthorityThatIsWeakOrThereTwiceIsNoError) {
  const TestAuthority weak("weak", 3600, TestStrength::kShortKey);
  const std::string& ca = authority_.certificate();
  Write(pair_.certificate, pair_.private_key, ca + weak.certificate() + ca);
  EXPECT_TRUE(Read().ok()) << Read().status();
  // It is not shown where another follows its certificate.
  const TestPair of_weak = weak.Sign({});
  Write(of_weak.certificate + ca, of_weak.private_key, weak.certificate());
  EXPECT_TRUE(Read().ok()) << Read().status();
}

TEST_F(CertificatesTest, TheyAreTheSameWhereTheFilesSayTheSame) {
  const auto read = Read();
  const auto again = Read();
  EXPECT_EQ(*again, *read);
  EXPECT_NE(again->tls, read->tls);
  Write(pair_.certificate, pair_.private_key, authority_.certificate() + "a comment\n");
  EXPECT_NE(*Read(), *read);
}

TEST_F(CertificatesTest, AuthoritiesWhoseNamesTlsCannotSendAreRefused) {
  std::string many;
  for (int i = 0; i < 850; ++i) many += TestAuthority(absl::StrCat(std::string(60, 'x'), 1000 + i)).certificate();
  Write(pair_.certificate, pair_.private_key, many + authority_.certificate());
  const absl::Status status = Read().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), absl::StrCat("tcp.client_authorities: ", files_.client_authorities,
                                           ": its authorities' names are longer than TLS can send; leave some out"));
}

TEST_F(CertificatesTest, RevocationListsAreTakenOrRefusedWithTheirKeyAndFile) {
  EXPECT_EQ(Read()->revocations->lists(), 0u);
  files_.revoked = folder_.path() + "/crl.pem";
  const std::string list = authority_.Revoke({.certificates = {another_.certificate}});
  std::ofstream(files_.revoked) << list;
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->revoked, list);
  EXPECT_EQ(read->revocations->Check(ChainOf(another_.certificate)), Revocations::Verdict::kRevoked);
  std::ofstream(files_.revoked) << authority_.Revoke({});
  EXPECT_NE(*Read(), *read);
  const std::string at = "tcp.revoked: " + files_.revoked + ": ";
  const std::pair<std::string, std::string> rows[] = {
      {TestAuthority("strangers").Revoke({}), "list 1 in it is of CN=strangers"},
      {list + pair_.certificate, "has something that is no revocation list"},
      {std::string((1 << 20) + 1, '\n'), "is longer than"},
  };
  for (const auto& [text, complaint] : rows) {
    std::ofstream(files_.revoked) << text;
    const absl::Status status = Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << complaint;
    EXPECT_THAT(std::string(status.message()), StartsWith(at + complaint));
  }
}

TEST_F(CertificatesTest, ACertificateHasAnEnd) {
  const absl::Duration left = ChainOf(authority_.Sign({.not_after = 1800}).certificate).End() - absl::Now();
  EXPECT_LE(left, absl::Minutes(30));
  EXPECT_GT(left, absl::Minutes(20));
  const Certificate without_dates(X509_new());
  for (X509* certificate : {static_cast<X509*>(nullptr), without_dates.get()}) {
    EXPECT_EQ(PresentedChain(certificate, nullptr).End(), absl::InfinitePast());
  }
}

struct BadFile {
  std::string certificate;
  std::string private_key;
  std::string authorities;
  std::string complaint;
};

TEST_F(CertificatesTest, BadOnesAreRefusedWithTheirKeyAndFile) {
  const std::string& cert = pair_.certificate;
  const std::string& key = pair_.private_key;
  const std::string& ca = authority_.certificate();
  const TestPair late = authority_.Sign({.not_before = -7200, .not_after = -60});
  const TestPair early = authority_.Sign({.not_before = 3600, .not_after = 7200});
  const TestPair short_key = authority_.Sign({.strength = TestStrength::kShortKey});
  const TestPair weak_signature = authority_.Sign({.strength = TestStrength::kWeakSignature});
  const TestAuthority weak("weak", 3600, TestStrength::kShortKey);
  const TestPair of_weak = weak.Sign({});
  const std::string at_cert = "tcp.certificate: " + files_.certificate + ": ";
  const std::string at_key = "tcp.private_key: " + files_.private_key + ": ";
  const std::string at_ca = "tcp.client_authorities: " + files_.client_authorities + ": ";
  const std::string broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const BadFile rows[] = {
      {"", key, ca, at_cert + "has no certificate in PEM"},
      {"nonsense", key, ca, at_cert + "has no certificate in PEM"},
      {key, key, ca, at_cert + "has no certificate in PEM"},
      {broken, key, ca, at_cert + "has something that is no certificate"},
      {cert + broken, key, ca, at_cert + "has something that is no certificate"},
      {cert.substr(0, cert.size() / 2), key, ca, at_cert + "has "},
      {late.certificate, late.private_key, ca, at_cert + "its certificate has expired; renew it"},
      {early.certificate, early.private_key, ca, at_cert + "its certificate is not valid yet"},
      {cert, "", ca, at_key + "has no private key in PEM"},
      {cert, cert, ca, at_key + "has no private key in PEM"},
      {cert, another_.private_key, ca, at_key + "is not the key of the first certificate in tcp.certificate"},
      {ca + cert, key, ca, at_key + "is not the key of the first certificate in tcp.certificate"},
      {cert, short_key.private_key, ca, at_key + "is not the key of the first certificate in tcp.certificate"},
      {short_key.certificate, short_key.private_key, ca,
       at_cert + "TLS refuses its certificate 1: ee key too small; have"},
      {weak_signature.certificate, weak_signature.private_key, ca,
       at_cert + "TLS refuses its certificate 1: ca md too weak; have"},
      {cert + short_key.certificate, key, ca, at_cert + "TLS refuses its certificate 2: ca key too small; have"},
      {cert + ca + weak_signature.certificate, key, ca,
       at_cert + "TLS refuses its certificate 3: ca md too weak; have"},
      {of_weak.certificate, of_weak.private_key, ca + weak.certificate(),
       at_ca + "TLS refuses tcp.certificate's authority in it: ca key too small; have"},
      {cert, key, "", at_ca + "has no certificate in PEM"},
      {cert, key, ca + broken, at_ca + "has something that is no certificate"},
      {cert, key, std::string((1 << 20) + 1, '\n'),
       "tcp.client_authorities: " + files_.client_authorities + ": is longer"},
  };
  for (const BadFile& row : rows) {
    Write(row.certificate, row.private_key, row.authorities);
    const auto read = Read();
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << row.complaint;
    EXPECT_THAT(std::string(read.status().message()), StartsWith(row.complaint));
    EXPECT_EQ(ERR_peek_error(), 0u) << row.complaint;
  }
}

TEST_F(CertificatesTest, AFileThatCannotBeReadIsNamedWithItsKey) {
  const std::pair<std::string CertificateFiles::*, const char*> rows[] = {
      {&CertificateFiles::certificate, "tcp.certificate: "},
      {&CertificateFiles::private_key, "tcp.private_key: "},
      {&CertificateFiles::client_authorities, "tcp.client_authorities: "},
      {&CertificateFiles::revoked, "tcp.revoked: "},
  };
  for (const auto& [file, key] : rows) {
    for (const std::string& path : {folder_.path() + "/nowhere", folder_.path()}) {
      CertificateFiles files = files_;
      files.*file = path;
      const absl::Status status = ReadServerCertificates(files, absl::Now()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(status.message()), StartsWith(key + path + ": cannot be read: "));
    }
  }
}

}  // namespace
}  // namespace rdmabroker
