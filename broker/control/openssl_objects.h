// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_OPENSSL_OBJECTS_H_
#define BROKER_CONTROL_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace rdmabroker {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

// Reads `text`, which outlives it.
inline Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// For OpenSSL's readers of PEM: there is nobody to ask for a passphrase.
inline int NoPassphrase(char*, int, int, void*) { return 0; }

// Reads the next certificate in PEM. Null if there is none or it cannot be read; OpenSSL's error says which.
inline Certificate ReadCertificate(BIO* pem) {
  return Certificate(PEM_read_bio_X509(pem, nullptr, NoPassphrase, nullptr));
}
// Reads a private key in PEM. Null if it cannot be read.
inline PrivateKey ReadPrivateKey(const std::string& pem) {
  return PrivateKey(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, NoPassphrase, nullptr));
}

// Returns the reason for OpenSSL's last error on this thread, and clears its errors.
inline std::string ReasonOfOpenSsl() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "it does not say why" : reason;
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_OPENSSL_OBJECTS_H_
