// SPDX-License-Identifier: Apache-2.0

// Whose certificates revocation lists revoke, and which lists are taken.

#include "broker/control/revocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"
#include "tests/control/test_certificates.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Verdict = Revocations::Verdict;

Certificate Read(const std::string& pem) { return ReadCertificate(BioOf(pem).get()); }

class RevocationsTest : public testing::Test {
 protected:
  static absl::StatusOr<Revocations> Parse(const std::string& lists, const std::vector<const TestAuthority*>& of) {
    std::vector<Certificate> authorities;
    for (const TestAuthority* authority : of) authorities.push_back(Read(authority->certificate()));
    return Revocations::Parse(lists, authorities);
  }
  // Of the client's certificate, and those of its issuers that it presents.
  Verdict Check(const TestPair& client, const std::string& issuers) const {
    return revocations_.Check(ChainOf(client.certificate, issuers));
  }
  void Use(const std::string& lists, const std::vector<const TestAuthority*>& authorities) {
    absl::StatusOr<Revocations> parsed = Parse(lists, authorities);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    revocations_ = *std::move(parsed);
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority second_{"second"};
  const TestPair client_ = authority_.Sign({});
  const TestPair other_ = authority_.Sign({});
  const TestPair of_second_ = second_.Sign({});
  Revocations revocations_;
};

TEST_F(RevocationsTest, WithoutListsNobodyIsRevoked) {
  EXPECT_EQ(Check(client_, ""), Verdict::kNotRevoked);
  EXPECT_THAT(revocations_.Overdue(absl::InfiniteFuture()), IsEmpty());
}

TEST_F(RevocationsTest, AListRevokesWhatItHas) {
  Use(authority_.Revoke({.certificates = {client_.certificate}}), {&authority_, &second_});
  EXPECT_EQ(revocations_.lists(), 1u);
  EXPECT_EQ(Check(client_, ""), Verdict::kRevoked);
  EXPECT_EQ(Check(other_, ""), Verdict::kNotRevoked);
  EXPECT_EQ(Check(of_second_, ""), Verdict::kNotRevoked) << "of an authority without a list";
}

TEST_F(RevocationsTest, SeveralListsAreInForceAndHaveTheirAuthoritysSerialsOnly) {
  // The second list has the number of a certificate of the first authority's.
  Use("a comment\n" + authority_.Revoke({.certificates = {client_.certificate}}) +
          second_.Revoke({.certificates = {of_second_.certificate, other_.certificate}}),
      {&authority_, &second_});
  EXPECT_EQ(revocations_.lists(), 2u);
  EXPECT_EQ(Check(client_, ""), Verdict::kRevoked);
  EXPECT_EQ(Check(of_second_, ""), Verdict::kRevoked);
  EXPECT_EQ(Check(other_, ""), Verdict::kNotRevoked);
}

TEST_F(RevocationsTest, TheCertificateOfAnIssuerIsLookedForToo) {
  const TestAuthority below("below", authority_);
  const TestAuthority beside("beside", authority_);
  const TestPair of_below = below.Sign({});
  const TestPair of_beside = beside.Sign({});
  const std::string list = authority_.Revoke({.certificates = {below.certificate()}});
  Use(list, {&authority_});
  EXPECT_EQ(Check(of_below, below.certificate()), Verdict::kRevoked);
  EXPECT_EQ(Check(of_beside, beside.certificate()), Verdict::kNotRevoked);
  // Its issuer may be either.
  EXPECT_EQ(Check(of_below, ""), Verdict::kIssuerUnknown);
  EXPECT_EQ(Check(of_beside, ""), Verdict::kIssuerUnknown);
  EXPECT_EQ(Check(of_beside, below.certificate()), Verdict::kRevoked) << "it has presented it";
  EXPECT_EQ(Check(of_beside, second_.certificate()), Verdict::kIssuerUnknown);
  Use(list, {&authority_, &below, &beside});
  EXPECT_EQ(Check(of_below, ""), Verdict::kRevoked);
  EXPECT_EQ(Check(of_beside, ""), Verdict::kNotRevoked);
}

TEST_F(RevocationsTest, WhatCannotBeCheckedIsNotFoundGood) {
  Use(authority_.Revoke({}), {&authority_});
  EXPECT_EQ(Check({}, ""), Verdict::kIssuerUnknown) << "no certificate";
  std::string issuers;
  for (size_t i = 0; i < PresentedChain::kMostIssuers; ++i) issuers += second_.certificate();
  EXPECT_EQ(Check(client_, issuers), Verdict::kNotRevoked);
  EXPECT_EQ(Check(client_, issuers + second_.certificate()), Verdict::kIssuerUnknown) << "too many to look at";
}

TEST_F(RevocationsTest, AListThatIsOverdueIsInForceAndNamed) {
  Use(second_.Revoke({}) + authority_.Revoke({.certificates = {client_.certificate}, .next_update = -60}),
      {&authority_, &second_});
  EXPECT_EQ(Check(client_, ""), Verdict::kRevoked);
  EXPECT_EQ(Check(other_, ""), Verdict::kNotRevoked);
  EXPECT_THAT(revocations_.Overdue(absl::Now()), HasSubstr("CN=authority"));
  EXPECT_THAT(revocations_.Overdue(absl::Now() - absl::Minutes(2)), IsEmpty());
}

TEST_F(RevocationsTest, OtherFilesAreRefusedWithTheirCause) {
  const std::string good = authority_.Revoke({});
  const TestAuthority impostor("authority");
  const std::string broken = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
  const std::pair<std::string, const char*> rows[] = {
      {"", "has no revocation list in PEM"},
      {"nonsense", "has no revocation list in PEM"},
      {broken, "has something that is no revocation list"},
      {good + broken, "has something that is no revocation list"},
      {good + client_.certificate, "has something that is no revocation list: CERTIFICATE"},
      {client_.private_key + good, "has something that is no revocation list: PRIVATE KEY"},
      {good.substr(0, good.size() / 2), "has something that is no revocation list"},
      {good + second_.Revoke({}), "list 2 in it is of CN=second, which is not in tcp.client_authorities"},
      {impostor.Revoke({}), "list 1 in it has no good signature of CN=authority"},
      {authority_.Revoke({.of_changes_only = true}), "list 1 in it has changes to another one only"},
  };
  for (const auto& [lists, complaint] : rows) {
    const absl::Status status = Parse(lists, {&authority_}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << complaint;
    EXPECT_THAT(std::string(status.message()), StartsWith(complaint));
    EXPECT_EQ(ERR_peek_error(), 0u) << complaint;
  }
}

// Nothing is in force of a list whose bytes somebody has changed.
TEST_F(RevocationsTest, AChangedListIsRefused) {
  const std::string pem = authority_.Revoke({.certificates = {client_.certificate}});
  const std::unique_ptr<X509_CRL, Freed<X509_CRL_free>> list(
      PEM_read_bio_X509_CRL(BioOf(pem).get(), nullptr, NoPassphrase, nullptr));
  unsigned char* der = nullptr;
  const int length = i2d_X509_CRL(list.get(), &der);
  ASSERT_GT(length, 0);
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(length));
  OPENSSL_free(der);
  // The year of the last update or of the entry.
  const size_t at = bytes.find("\x17\x0d") + 2;
  ASSERT_LT(at, bytes.size());
  bytes[at + 1] = bytes[at + 1] == '0' ? '1' : '0';
  const Bio changed(BIO_new(BIO_s_mem()));
  PEM_write_bio(changed.get(), PEM_STRING_X509_CRL, "", reinterpret_cast<const unsigned char*>(bytes.data()), length);
  char* text = nullptr;
  const long text_length = BIO_get_mem_data(changed.get(), &text);
  const absl::Status status = Parse(std::string(text, static_cast<size_t>(text_length)), {&authority_}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no good signature of CN=authority"));
}

}  // namespace
}  // namespace rdmabroker
