// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_TLS_CLIENT_H_
#define TESTS_CONTROL_TLS_CLIENT_H_

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "broker/control/openssl_objects.h"
#include "broker/control/tls.h"
#include "tests/control/test_certificates.h"

namespace rdmabroker {

// A client by OpenSSL, which does whatever a test wants of it. The test carries the octets.
class TlsClient {
 public:
  // Without a pair it has no certificate.
  explicit TlsClient(const TestPair* pair, const std::function<void(SSL_CTX*)>& change = nullptr)
      : context_(SSL_CTX_new(TLS_client_method())) {
    if (pair != nullptr) {
      const Certificate certificate = ReadCertificate(BioOf(pair->certificate).get());
      const PrivateKey key = ReadPrivateKey(pair->private_key);
      // OpenSSL loads a weak certificate at the lowest level only.
      const int level = SSL_CTX_get_security_level(context_.get());
      SSL_CTX_set_security_level(context_.get(), 0);
      SSL_CTX_use_certificate(context_.get(), certificate.get());
      SSL_CTX_use_PrivateKey(context_.get(), key.get());
      SSL_CTX_set_security_level(context_.get(), level);
    }
    const unsigned char protocols[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), protocols, sizeof protocols);
    if (change != nullptr) change(context_.get());
    tls_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(tls_.get(), in_, out_);
    SSL_set_connect_state(tls_.get());
  }

  SSL* tls() { return tls_.get(); }
  // Whether the handshake is done.
  bool is_open() const { return SSL_is_init_finished(tls_.get()) == 1; }
  // What it says next.
  std::string TakeOutput() {
    SSL_do_handshake(tls_.get());
    char* octets = nullptr;
    const long size = BIO_get_mem_data(out_, &octets);
    std::string output(octets, static_cast<size_t>(size));
    BIO_reset(out_);
    return output;
  }
  void Receive(const std::string& octets) {
    BIO_write(in_, octets.data(), static_cast<int>(octets.size()));
    SSL_do_handshake(tls_.get());
    char plain[16384];
    for (int size = 0; (size = SSL_read(tls_.get(), plain, sizeof plain)) > 0;) {
      received.append(plain, static_cast<size_t>(size));
    }
    ended = SSL_get_error(tls_.get(), -1) == SSL_ERROR_ZERO_RETURN ||
            (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
    ERR_clear_error();
  }
  // Sends a KeyUpdate of this type (SSL_key_update).
  void ChangeKeys(int type) {
    SSL_key_update(tls_.get(), type);
    SSL_do_handshake(tls_.get());
  }
  void Send(std::string_view plain) {
    EXPECT_EQ(SSL_write(tls_.get(), plain.data(), static_cast<int>(plain.size())), static_cast<int>(plain.size()));
  }

  std::string received;
  bool ended = false;  // In order.

 private:
  const TlsContext context_;
  std::unique_ptr<SSL, Freed<SSL_free>> tls_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_TLS_CLIENT_H_
