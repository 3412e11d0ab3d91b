// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/server_certificates.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/control/tls_client.h"

namespace rdmabroker {
namespace {

using State = TlsConnection::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Session = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION_free>>;

void AddToChain(SSL_CTX* context, const std::string& pem) {
  const Certificate certificate = ReadCertificate(BioOf(pem).get());
  SSL_CTX_add1_chain_cert(context, certificate.get());
}

void Only(SSL_CTX* context, int version) {
  SSL_CTX_set_min_proto_version(context, version);
  SSL_CTX_set_max_proto_version(context, version);
}

class TlsTest : public testing::Test {
 protected:
  // Carries octets both ways, in pieces, until there are none.
  void Exchange(TlsClient& client, size_t piece = 1000) {
    for (bool more = true; more;) {
      const std::string from_client = client.TakeOutput();
      for (size_t at = 0; at < from_client.size(); at += piece) server_->Receive(from_client.substr(at, piece));
      while (server_->unread() > 0) server_->Receive("");
      const std::string from_server = server_->TakeOutput();
      client.Receive(from_server);
      more = !from_client.empty() || !from_server.empty();
    }
  }

  // The server of these certificates, by way of files.
  std::shared_ptr<const TlsServer> ServerOf(const std::string& certificates, const std::string& key,
                                            const std::string& authorities) const {
    const CertificateFiles files = {folder_.path() + "/cert.pem", folder_.path() + "/key.pem",
                                    folder_.path() + "/ca.pem", ""};
    std::ofstream(files.certificate) << certificates;
    std::ofstream(files.private_key) << key;
    std::ofstream(files.client_authorities) << authorities;
    const auto read = ReadServerCertificates(files, absl::Now());
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? read->tls : nullptr;
  }
  std::shared_ptr<const TlsServer> ServerFor(const std::string& authorities) const {
    return ServerOf(own_.certificate, own_.private_key, authorities);
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  const TestPair good_ = authority_.Sign({.uris = {"spiffe://example.org/client"}});
  const TestPair own_ = authority_.Sign({.dns_names = {"localhost"}});
  const std::shared_ptr<const TlsServer> context_ = ServerFor(authority_.certificate());
  std::optional<TlsConnection> server_{context_};
};

TEST_F(TlsTest, CarriesWhatBothEndsSay) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SCOPED_TRACE(version);
    server_.emplace(context_);
    TlsClient client(&good_, [version](SSL_CTX* context) { Only(context, version); });
    Exchange(client);
    ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
    EXPECT_EQ(SSL_version(client.tls()), version);
    const std::string question(100'000, 'q');
    const std::string answer(1'000'000, 'a');
    client.Send(question);
    Exchange(client, 7);
    EXPECT_EQ(server_->TakePlain(), question);
    EXPECT_EQ(server_->TakePlain(), "");
    server_->Send(answer);
    Exchange(client);
    EXPECT_EQ(client.received, answer);
  }
}

TEST_F(TlsTest, KnowsWhatTheClientHasShown) {
  const TestAuthority below("below", authority_);
  const TestPair pair = below.Sign({.uris = {"spiffe://example.org/client", "https://example.org"}});
  TlsClient client(&pair, [&below](SSL_CTX* context) { AddToChain(context, below.certificate()); });
  Exchange(client);
  ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
  const PresentedChain chain = server_->chain();
  EXPECT_THAT(chain.Uris(), ElementsAre("spiffe://example.org/client", "https://example.org"));
  EXPECT_EQ(chain.issuers().size(), 1U);
  EXPECT_TRUE(chain.complete());
  EXPECT_GT(chain.End(), absl::Now());
}

TEST_F(TlsTest, EndsInOrder) {
  TlsClient client(&good_);
  Exchange(client);
  server_->Send("the last");
  server_->End();
  server_->Send("nothing");
  Exchange(client);
  EXPECT_EQ(client.received, "the last");
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(server_->why(), "");
}

TEST_F(TlsTest, HearsTheClientsLastWords) {
  TlsClient client(&good_);
  Exchange(client);
  client.Send("the last");
  SSL_shutdown(client.tls());
  Exchange(client);
  EXPECT_EQ(server_->state(), State::kEnded);
  EXPECT_EQ(server_->why(), "");
  EXPECT_EQ(server_->TakePlain(), "the last");
}

TEST_F(TlsTest, RefusesWhoMayNotComeIn) {
  const TestAuthority another("another");
  const TestPair stranger = another.Sign({.uris = {"spiffe://example.org/client"}});
  const TestPair expired =
      authority_.Sign({.uris = {"spiffe://example.org/client"}, .not_before = -7200, .not_after = -3600});
  const TestPair early =
      authority_.Sign({.uris = {"spiffe://example.org/client"}, .not_before = 3600, .not_after = 7200});
  const TestPair short_key =
      authority_.Sign({.uris = {"spiffe://example.org/client"}, .strength = TestStrength::kShortKey});
  // Otherwise the client would not present it.
  const auto weaken = [](SSL_CTX* context) { SSL_CTX_set_security_level(context, 0); };
  struct Row {
    const char* name;
    const TestPair* pair;
    std::function<void(SSL_CTX*)> change;
    const char* why;
  };
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const Row& row : {
             Row{"no certificate", nullptr, nullptr, "certificate"},
             Row{"a stranger's", &stranger, nullptr, "unable to get local issuer certificate"},
             Row{"an expired one", &expired, nullptr, "expired"},
             Row{"one of tomorrow", &early, nullptr, "not yet valid"},
             Row{"one with a short key", &short_key, weaken, "key too weak"},
             Row{"no protocol", &good_, [](SSL_CTX* context) { SSL_CTX_set_alpn_protos(context, nullptr, 0); }, "h2"},
             Row{"another protocol", &good_,
                 [](SSL_CTX* context) {
                   const unsigned char protocols[] = "\x08http/1.1";
                   SSL_CTX_set_alpn_protos(context, protocols, sizeof protocols - 1);
                 },
                 "no application protocol"},
         }) {
      SCOPED_TRACE(row.name);
      server_.emplace(context_);
      TlsClient client(row.pair, [&](SSL_CTX* context) {
        Only(context, version);
        if (row.change != nullptr) row.change(context);
      });
      Exchange(client);
      EXPECT_EQ(server_->state(), State::kEnded);
      EXPECT_THAT(server_->why(), HasSubstr(row.why));
      server_->Send("nothing");
      Exchange(client);
      EXPECT_EQ(client.received, "");
    }
  }
}

TEST_F(TlsTest, RefusesOlderVersions) {
  TlsClient client(&good_, [](SSL_CTX* context) {
    SSL_CTX_set_security_level(context, 0);
    Only(context, TLS1_1_VERSION);
  });
  Exchange(client);
  EXPECT_EQ(server_->state(), State::kEnded);
  EXPECT_THAT(server_->why(), HasSubstr("unsupported protocol"));
}

TEST_F(TlsTest, EndsWhatIsNoTls) {
  server_->Receive("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(server_->state(), State::kEnded);
  EXPECT_NE(server_->why(), "");
}

TEST_F(TlsTest, EndsAHandshakeThatDoesNot) {
  // A ClientHello of 16 MiB, in records of 16 KiB.
  const std::string record("\x16\x03\x01\x40\x00", 5);
  server_->Receive(record + std::string("\x01\xFF\xFF\xFF", 4) + std::string(16380, 'x'));
  for (int i = 0; i < 20 && server_->state() == State::kHandshake; ++i) {
    server_->Receive(record + std::string(16384, 'x'));
  }
  EXPECT_EQ(server_->state(), State::kEnded);
}

TEST_F(TlsTest, ResumesNoSession) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SCOPED_TRACE(version);
    server_.emplace(context_);
    TlsClient client(&good_, [version](SSL_CTX* context) { Only(context, version); });
    Exchange(client);
    // A session whose connection breaks is forgotten.
    SSL_shutdown(client.tls());
    Exchange(client);
    const Session session(SSL_get1_session(client.tls()));
    // One of TLS 1.3 is by a ticket alone.
    if (version == TLS1_3_VERSION) {
      EXPECT_EQ(SSL_SESSION_is_resumable(session.get()), 0);
    }
    server_.emplace(context_);
    TlsClient again(&good_, [version](SSL_CTX* context) { Only(context, version); });
    SSL_set_session(again.tls(), session.get());
    Exchange(again);
    EXPECT_EQ(server_->state(), State::kOpen) << server_->why();
    EXPECT_EQ(SSL_session_reused(again.tls()), 0);
  }
}

TEST_F(TlsTest, RefusesAChainOfTooManyIssuers) {
  std::vector<std::unique_ptr<TestAuthority>> issuers;
  issuers.push_back(std::make_unique<TestAuthority>("0", authority_));
  while (issuers.size() <= PresentedChain::kMostIssuers) {
    issuers.push_back(std::make_unique<TestAuthority>(std::to_string(issuers.size()), *issuers.back()));
  }
  const TestPair pair = issuers.back()->Sign({.uris = {"spiffe://example.org/client"}});
  TlsClient client(&pair, [&issuers](SSL_CTX* context) {
    for (const auto& issuer : issuers) AddToChain(context, issuer->certificate());
  });
  Exchange(client);
  EXPECT_EQ(server_->state(), State::kEnded);
  EXPECT_THAT(server_->why(), HasSubstr("certificate chain too long"));
}

TEST_F(TlsTest, RefusesAChainThatIsTooLong) {
  TlsClient client(&good_, [this](SSL_CTX* context) {
    for (int i = 0; i < 200; ++i) AddToChain(context, authority_.certificate());
  });
  Exchange(client, 16'000);
  EXPECT_EQ(server_->state(), State::kEnded);
  EXPECT_THAT(server_->why(), HasSubstr("excessive message size"));
}

TEST_F(TlsTest, DoesNotNegotiateAgain) {
  TlsClient client(&good_, [](SSL_CTX* context) { Only(context, TLS1_2_VERSION); });
  Exchange(client);
  ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
  SSL_renegotiate(client.tls());
  const std::string hello = client.TakeOutput();
  EXPECT_NE(hello, "");
  server_->Receive(hello);
  Exchange(client);
  EXPECT_FALSE(SSL_is_init_finished(client.tls()));
}

TEST_F(TlsTest, ProcessesABoundedNumberOfRecordsAtATime) {
  constexpr int kMessage = 1 + TlsConnection::kMessageAsRecords;
  const struct {
    const char* name;
    std::function<void(TlsClient& client)> act;
    int at_a_time;  // Acts.
    int cost;       // Records that an act costs.
  } rows[] = {
      {"little data", [](TlsClient& client) { client.Send("x"); }, TlsConnection::kRecordsAtATime, 1},
      {"new keys", [](TlsClient& client) { client.ChangeKeys(SSL_KEY_UPDATE_NOT_REQUESTED); }, 8, kMessage},
      {"new keys that want others", [](TlsClient& client) { client.ChangeKeys(SSL_KEY_UPDATE_REQUESTED); }, 5,
       kMessage + TlsConnection::kMessageAsRecords},
      {"new keys beside data",
       [](TlsClient& client) {
         client.ChangeKeys(SSL_KEY_UPDATE_NOT_REQUESTED);
         client.Send("x");
       },
       8, kMessage + 1},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    server_.emplace(context_);
    TlsClient client(&good_, [](SSL_CTX* context) { Only(context, TLS1_3_VERSION); });
    Exchange(client);
    ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
    EXPECT_EQ(server_->TakeCost(), 0);
    std::string octets;
    size_t longest = 0;
    int acts = 0;
    for (; octets.size() < TlsConnection::kLongestRecord; ++acts) {
      row.act(client);
      const std::string act = client.TakeOutput();
      longest = std::max(longest, act.size());
      octets += act;
    }
    server_->Receive(octets);
    int cost = 0;
    for (size_t before = octets.size(); before > 0; before = server_->unread(), server_->Receive("")) {
      EXPECT_LE(before - server_->unread(), longest * static_cast<size_t>(row.at_a_time));
      EXPECT_LT(server_->unread(), before);
      cost += server_->TakeCost();
    }
    EXPECT_EQ(server_->state(), State::kOpen) << server_->why();
    // The answer to the last act may not be made yet.
    EXPECT_NEAR(cost, acts * row.cost, row.cost);
  }
}

TEST_F(TlsTest, TellsThatAClientSendsManyNewKeysAndNoData) {
  TlsClient client(&good_, [](SSL_CTX* context) { Only(context, TLS1_3_VERSION); });
  Exchange(client);
  ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
  const auto change_keys = [&] {
    client.ChangeKeys(SSL_KEY_UPDATE_NOT_REQUESTED);
    Exchange(client);
  };
  for (int i = 0; i < TlsConnection::kMostMessages; ++i) change_keys();
  EXPECT_FALSE(server_->IsFlooded());
  client.Send("x");
  Exchange(client);
  for (int i = 0; i < TlsConnection::kMostMessages; ++i) change_keys();
  EXPECT_FALSE(server_->IsFlooded());
  change_keys();
  EXPECT_TRUE(server_->IsFlooded());
}

TEST_F(TlsTest, NewKeysBesideDataAreFine) {
  TlsClient client(&good_, [](SSL_CTX* context) { Only(context, TLS1_3_VERSION); });
  Exchange(client);
  for (int i = 0; i < 1000; ++i) {
    SSL_key_update(client.tls(), SSL_KEY_UPDATE_REQUESTED);
    client.Send("x");
    Exchange(client);
    ASSERT_EQ(server_->TakePlain(), "x") << i << ": " << server_->why();
    ASSERT_FALSE(server_->IsFlooded()) << i;
  }
}

// A client that checks the server's certificates as well.
void Believe(SSL_CTX* context, const std::string& authority) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ReadCertificate(BioOf(authority).get()).get());
}

TEST_F(TlsTest, ServesClientsOfEachAuthority) {
  const TestAuthority second("second");
  const TestPair of_second = second.Sign({.uris = {"spiffe://example.org/client"}});
  const auto both = ServerFor(authority_.certificate() + second.certificate());
  for (const TestPair* pair : {&good_, &of_second}) {
    server_.emplace(both);
    TlsClient client(pair, [this](SSL_CTX* context) { Believe(context, authority_.certificate()); });
    Exchange(client);
    ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
    EXPECT_EQ(sk_X509_NAME_num(SSL_get0_peer_CA_list(client.tls())), 2);
    client.Send("question");
    Exchange(client);
    EXPECT_EQ(server_->TakePlain(), "question");
  }
  server_.emplace(ServerFor(authority_.certificate()));
  TlsClient client(&of_second);
  Exchange(client);
  EXPECT_EQ(server_->state(), State::kEnded);
}

// In its own file or in that of the authorities.
TEST_F(TlsTest, ShowsTheIssuersOfItsCertificate) {
  const TestAuthority below("below", authority_);
  const TestPair own = below.Sign({.dns_names = {"localhost"}});
  for (const auto& [certificates, authorities] :
       {std::pair(own.certificate + below.certificate(), authority_.certificate()),
        std::pair(own.certificate, below.certificate() + authority_.certificate()),
        std::pair(own.certificate, authority_.certificate() + below.certificate())}) {
    server_.emplace(ServerOf(certificates, own.private_key, authorities));
    TlsClient client(&good_, [this](SSL_CTX* context) { Believe(context, authority_.certificate()); });
    Exchange(client);
    EXPECT_EQ(server_->state(), State::kOpen) << server_->why();
    EXPECT_EQ(SSL_get_verify_result(client.tls()), X509_V_OK);
  }
}

TEST_F(TlsTest, AConnectionKeepsTheCertificatesThatItBeganWith) {
  for (const bool open : {true, false}) {
    SCOPED_TRACE(open ? "open" : "in the handshake");
    server_.emplace(ServerFor(authority_.certificate()));
    TlsClient client(&good_);
    if (open) {
      Exchange(client);
      ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
    } else {
      server_->Receive(client.TakeOutput());
      ASSERT_EQ(server_->state(), State::kHandshake) << server_->why();
    }
    // Nobody but the connection has the former ones.
    const auto others = ServerFor(TestAuthority("others").certificate());
    Exchange(client);
    ASSERT_EQ(server_->state(), State::kOpen) << server_->why();
    client.Send("question");
    Exchange(client);
    EXPECT_EQ(server_->TakePlain(), "question");
    server_->Send("answer");
    Exchange(client);
    EXPECT_EQ(client.received, "answer");
    server_.emplace(others);
    TlsClient late(&good_);
    Exchange(late);
    EXPECT_EQ(server_->state(), State::kEnded);
  }
}

}  // namespace
}  // namespace rdmabroker
