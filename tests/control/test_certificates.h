// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_TEST_CERTIFICATES_H_
#define TESTS_CONTROL_TEST_CERTIFICATES_H_

#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "broker/control/presented_chain.h"

namespace rdmabroker {

// A private key and its certificate, in PEM.
struct TestPair {
  std::string certificate;
  std::string private_key;
};

// TLS refuses the latter two: a key of RSA with 1024 bits, and a signature over SHA-1.
enum class TestStrength { kGood, kShortKey, kWeakSignature };

// What a certificate is to say.
struct TestCertificate {
  std::vector<std::string> uris;
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;
  // In seconds from now.
  long not_before = -3600;
  long not_after = 3600;
  TestStrength strength = TestStrength::kGood;
};

// What a revocation list is to say.
struct TestRevocations {
  std::vector<std::string> certificates;  // In PEM.
  // In seconds from now.
  long next_update = 3600;
  bool of_changes_only = false;  // A delta list.
};

// Who signs certificates, made anew for each test.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name, long not_after = 3600, TestStrength strength = TestStrength::kGood);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  // Its own certificate.
  const std::string& certificate() const { return pair_.certificate; }
  TestPair Sign(const TestCertificate& wanted) const;
  // An authority below this one.
  TestAuthority(const std::string& name, const TestAuthority& above);
  // A revocation list, in PEM.
  std::string Revoke(const TestRevocations& wanted) const;

 private:
  void Begin(const std::string& name, long not_after);

  TestPair pair_;
  EVP_PKEY* key_ = nullptr;
  X509* own_ = nullptr;
};

// What a client presents in a handshake: its own certificate, and those of its issuers, all in PEM.
PresentedChain ChainOf(const std::string& certificate, const std::string& issuers = "");

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_TEST_CERTIFICATES_H_
